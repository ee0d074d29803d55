//! Architectures are data: tables give the name of each tensor and key in each dialect, and this engine
//! translates models from one to another.

mod adapter;
mod check;
mod choices;
mod config;
mod decoder;
mod draft;
mod forward;
mod known;
mod layers;
mod ledger;
mod line;
mod model;
mod removed;
mod summary;
mod table;
mod tensor_spec;
mod tied_head;
mod translate;

pub use adapter::refuse_adapter;
pub use check::{Findings, Tried, check, try_on, unused};
pub use choices::{choices, is_float};
pub use config::base::check_len;
pub use decoder::{
    Attention, Decoder, Experts, FeedForward, Input, Layer, Norm, NormPlace, Output, QkNorm, Roles,
    Rope as Rotation, Section, Shared, decoder, decoder_rows, not_run,
};
pub use draft::draft;
pub use draft::guesses::{Guess, draft_warning, draft_warnings, is_draft, marked, taken_over};
pub use forward::{Forward, InDialect, forward, in_dialect};
pub use layers::{PrunedLayers, prune_layers};
pub use ledger::Ledger;
pub use model::{Stored, Translation, Wishes, translate_model};
pub use removed::Removed;
pub use summary::{KvCache, Rope, Summary, Tokenizer, not_understood, summary, summary_of};
pub use table::Table;
pub use table::called::called;
pub use table::expected::{Expected, Figure};
pub use table::pattern::Pattern;
pub use table::tables::Tables;
pub use tensor_spec::{ContractTensor, TensorSpec, TensorSpecs, contract, tensor_specs};
