//! Architectures are data: tables give the name of each tensor and key in each dialect, and this engine
//! translates models from one to another.
//!
//! Each layer uses only those before it: `language` (what tables are written in), `table` (a parsed table and its parts),
//! `config` (a configuration, read and written through a table), `description` (a model as its table describes it),
//! `lone` (a model of which a part is missing), `translate` (tensors in another dialect), `decoder` (what is computed), `model` (a whole model in another dialect); then
//! what asks these.

mod adapter;
mod check;
mod choices;
mod config;
mod decoder;
mod description;
mod draft;
mod forward;
mod language;
mod layers;
mod lone;
mod model;
mod summary;
mod table;
mod tensor_spec;
mod translate;
mod uses;

pub use adapter::{WAY_OUT_OF_ADAPTER, adapter_mark, refuse_adapter};
pub use check::{Findings, Tried, check, check_text, try_on, unused};
pub use choices::{choices, is_float};
pub use decoder::{
    Attention, Decoder, Experts, FeedForward, Input, Layer, Norm, NormPlace, Output, QkNorm, Roles,
    Rope as Rotation, Shared, decoder, decoder_rows, not_run,
};
pub use description::called;
pub use draft::draft;
pub use draft::guesses::{Guess, draft_warning, draft_warnings, is_draft, marked, taken_over};
pub use forward::{Forward, InDialect, differing, forward, in_dialect, incomplete};
pub use language::pattern::Pattern;
pub use layers::{PrunedLayers, prune_layers};
pub use lone::{explain_lone, way_out_of_lone};
pub use model::{Ledger, Stored, Translation, Wishes, translate_model};
pub use summary::{KvCache, Rope, Summary, Tokenizer, not_understood, recipe_of, summary, summary_of};
pub use table::Table;
pub use table::base::check_len;
pub use table::expectations::{Expected, Figure};
pub use table::section::Section;
pub use table::tables::Tables;
pub use tensor_spec::{ContractTensor, TensorSpec, TensorSpecs, contract, tensor_specs};
pub use translate::Removed;
