//! Conversions from memory to memory, for the browser and for callers without files.

use super::lay_out::LaidOut;
use super::open::Opened;
use super::output::Output;
use super::run::{OutputWork, write};
use super::translate::{Translate, Translated};
use super::verify::finish;
use crate::contract::summary;
use crate::engine::Engine;
use crate::planned::request::Request;
use crate::tiles::{Memory, TileSink};
use apr_sdk::Result;

/// The result of a conversion.
pub struct Converted {
    /// The output's files, each with its name.
    pub files: Vec<(String, Vec<u8>)>,
    /// The facts that were verified.
    pub verified: Vec<String>,
    /// Assumptions, changes, and content that was not carried.
    pub notes: Vec<String>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// Converts the request's input, resolved by the engine's places, into files in memory.
///
/// # Errors
/// Any error from opening, planning, writing and verifying.
pub fn convert<'e>(engine: &'e Engine, request: &'e Request, output: Output<'e>) -> Result<Converted> {
    let mut memory = None;
    let converted =
        convert_into(engine, request, output, &|selected| Translated::new(selected), &mut |laid_out| {
            let files = laid_out.layout.files.iter().map(|file| (file.name.as_str(), file.len));
            let sink = Memory::new(files)?;
            memory = Some(sink.clone());
            Ok(Box::new(sink))
        })?;
    Ok(Converted { files: memory.map(Memory::into_files).unwrap_or_default(), ..converted })
}

/// Creates the sink for a layout.
type MakeSink<'m> = dyn FnMut(&LaidOut<'_>) -> Result<Box<dyn TileSink>> + 'm;

/// Converts into any sink, which `sink` creates once the layout is known and which keeps the files; `translate` is
/// the third planning stage.
///
/// # Errors
/// As [`convert`]; any error from the sink.
pub fn convert_into<'e>(
    engine: &'e Engine,
    request: &'e Request,
    output: Output<'e>,
    translate: &Translate<'_>,
    sink: &mut MakeSink<'_>,
) -> Result<Converted> {
    let opened = Opened::new(engine, request, true)?;
    let mut laid_out = LaidOut::plan(engine, request, opened, output, translate, true)?;
    let sink = sink(&laid_out)?;
    let expressions = std::mem::take(&mut laid_out.expressions);
    let quality = request.quality;
    let work = OutputWork { laid_out: &laid_out, expressions, quality, sink: sink.as_ref(), earlier: None };
    let carried = write(engine, work)?;
    let written = finish(engine, request, &mut laid_out, sink.as_ref(), carried)?;
    let LaidOut { source, plan, findings, .. } = laid_out;
    let mut notes = plan.notes;
    let mut warnings = source.warnings.clone();
    notes.extend(written.notes());
    warnings.extend(plan.warnings);
    warnings.extend(summary(&written.looked.behind(findings).findings));
    Ok(Converted { files: Vec::new(), verified: written.proved, notes, warnings })
}
