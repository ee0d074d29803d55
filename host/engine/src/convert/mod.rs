//! Converting a model: the stages from its bytes to an output that is written and verified.
//!
//! ```text
//! bytes ─▶ Probed ▶ Opened ▶ Selected ▶ Translated ▶ Typed ▶ Checked ▶ LaidOut ─▶ run ─▶ verify ─▶ publish
//! ```
//!
//! Each stage is a type that only the function of the stage before can make, and that the next one consumes. Nothing is
//! written before all of them have succeeded; `apr convert --plan` ends there.
//!
//! | file | stage | promises |
//! | --- | --- | --- |
//! | [`open`] | [`Opened`] | the format is known ([`Probed`](crate::open::Probed)), parts are merged, payload is untouched |
//! | [`select`] | [`Selected`] | the tensors that the user chose, under the names that the user gave them; keys of the source are edited |
//! | [`translate`] | [`Translated`] | names, rows and keys are those of the target's dialect, or unchanged if it has none |
//! | [`assign_types`] | [`Typed`](assign_types::Typed) | each tensor has the type it is written in, and its scales, if any, are tensors |
//! | [`check`] | [`Checked`](check::Checked) | the target can hold it all; every tensor and key of the source has an account |
//! | [`lay_out`] | [`LaidOut`] | the writer's files, at known offsets or within known bounds, and the expression for each payload |
//! | [`run`](mod@run) | [`WrittenPayload`](run::WrittenPayload) | every payload is computed and handed to the [sink](crate::tiles::TileSink) |
//! | [`verify`] | [`WrittenOutput`](verify::WrittenOutput) | the output was read back by its format's reader and is as planned |
//!
//! [`run()`] is all of them in a row, into any sink. Publishing, the rename of the staged files, is the program's, and so is
//! writing several outputs of one source at a time.
//!
//! # What travels
//!
//! A **planned tensor** is a declaration (name, type, shape in the output) and the **expression** that computes its payload
//! from tensors of the source: a leaf that reads stored bytes, under gathers (rows permuted, slices, stacks), casts,
//! decoding and encoding of blocks, additions. A change of layout and a change of type are both expressions, so each output
//! byte is computed once, from the source, in one pass. All planned tensors and the rest of the model are one
//! [`PlannedModel`](crate::planned::PlannedModel), from translation until it is checked: a writer is handed a model of
//! declarations alone, and once it has laid them out, the expressions are in the [tiles](crate::tiles::tile::Tiles).
//!
//! # Units of work
//!
//! - A **granule** is the smallest part of an expression that can be evaluated by itself: an element, a block, or a row.
//! - A **tile** is at most about 1 MiB of one payload, in whole granules: what a worker computes at a time, sums and hands to
//!   the sink. Its boundaries depend on the plan alone, so every number of threads gives the same bytes; memory is a few
//!   tiles per worker, whatever the model's size.
//! - A **panel** is a range of rows of a packed weight, in memory: the bytes of the weight's parts that these rows need, read
//!   once for all the tiles in it.
//! - A **unit** is at least 1 MiB of an encoded payload, in whole blocks, where a stored length is known only once it is
//!   encoded: units are committed in the order of the file.
//! - A **hole** is a range that a writer fills in after the payload, such as a checksum or a table of offsets; a **patch**
//!   is its content.

mod account;
pub mod assign_types;
pub mod check;
mod conversion;
mod edits;
pub mod fingerprint;
pub mod lay_out;
pub mod memory;
pub mod open;
pub mod output;
pub mod plan;
pub mod run;
pub mod select;
pub mod translate;
pub mod verify;

pub use conversion::{MakeSink, Outcome, run};
pub use lay_out::LaidOut;
pub use open::Opened;
pub use output::Output;
pub use plan::Plan;
pub use select::Selected;
pub use translate::{Make, Translate, Translated};
