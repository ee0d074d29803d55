//! Conversions from memory to memory, for the browser and for callers without files.

use super::conversion::{Outcome, run};
use super::output::Output;
use super::translate::Translated;
use crate::engine::Engine;
use crate::planned::request::Request;
use crate::tiles::Memory;
use apr_sdk::Result;

/// The result of a conversion into memory.
pub struct Converted {
    /// The output's files, each with its name.
    pub files: Vec<(String, Vec<u8>)>,
    /// What was verified, and what there is to say about it.
    pub outcome: Outcome,
}

/// Converts the request's input, resolved by the engine's places, into files in memory.
///
/// # Errors
/// Any error from opening, planning, writing and verifying.
pub fn convert(engine: &Engine, request: &Request, output: Output<'_>) -> Result<Converted> {
    let mut memory = None;
    let outcome = run(engine, request, output, &|selected| Translated::new(selected), &mut |laid_out| {
        let files = laid_out.layout.files.iter().map(|file| (file.name.as_str(), file.len));
        let sink = Memory::new(files)?;
        memory = Some(sink.clone());
        Ok(Box::new(sink))
    })?;
    Ok(Converted { files: memory.map(Memory::into_files).unwrap_or_default(), outcome })
}
