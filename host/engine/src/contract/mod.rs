//! The layout contract (`tensor-layout-contract.yaml`, version 2.0.0): its rules, the streaming validator
//! that judges a tensor while its bytes pass through, and types that hold a tensor only along with the
//! validator's receipt.
//!
//! No tensor is ever held whole. The contract's list of tensors (names, shapes, orientation) follows from the
//! tables: `architecture::contract`.

mod finding;
mod findings;
mod float_statistics;
mod judge;
mod policy;
mod report;
mod rules;
mod run_statistics;
mod statistics;
mod validators;

pub use finding::{Finding, Severity};
pub use findings::{Examined, findings_of, findings_of_tensor};
pub(crate) use float_statistics::statistics_in;
pub use judge::{judge_layout, judge_nonfinite, judge_ruined, judge_tensor, judge_vanished};
pub use policy::{Quality, summary};
pub use report::{ContractReport, Unexamined};
pub use rules::{
    BYTES, Broken, DEAD_ROWS, DENSITY, DISTRIBUTION, FINITE, Kind, LOSS, OUTPUT_SHAPE, RANGE, SHAPE, SPOT,
    VECTOR_SHAPE, judge, kernel_bytes, shape_rule,
};
pub(crate) use run_statistics::RunStatistics;
pub(crate) use statistics::by_scales;
pub use statistics::{Rows, Statistics, StatisticsBuilder};
pub use validators::{Receipt, ValidatedEmbedding, ValidatedVector, ValidatedWeight, Validator};
