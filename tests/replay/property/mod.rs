//! What must hold for any bytes, whoever calls it: the fuzz targets of `tests/fuzz` include this module by its path, and
//! `cargo test` replays the corpora through it. A rule that is broken is a panic that says which.

mod archive;
mod arrange;
mod errors;
mod importance;
mod lent;
mod manifest;
pub mod memory;
mod older;
mod opening;
mod packed;
mod program;
mod reporting;
mod subject;
mod writing;

pub use archive::check as check_archive;
pub use arrange::NEXT_FILE;
pub use importance::check as check_importance;
pub use manifest::{check_library, check_section};
pub use older::check as check_older;
pub use packed::{check as check_packed, example as example_packed};
pub use program::{
    check as check_program, check_emulated as check_emulated_program, examples as example_programs,
};
pub use reporting::check as check_reports;
pub use subject::Subject;

/// Checks the outcome rule of design section 9 for a model file: an error with its place, or a model that passes every
/// host check with all payload inside its files, in time and memory in proportion; and a model that opens can be
/// written and read again as it was. Gives whether it opened in any arrangement.
pub fn check_model(subject: &Subject, input: &[u8]) -> bool {
    let mut opens = false;
    for arrangement in arrange::arrangements(subject.id(), input) {
        let Some(opened) = opening::check(subject, &arrangement) else { continue };
        writing::check(subject, &arrangement, &opened);
        opens = true;
    }
    opens
}
