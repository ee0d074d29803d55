//! Conversions from memory to memory, for the browser and for callers without files.

use crate::contract::summary;
use crate::engine::Engine;
use crate::layout::{LaidOut, Opened, Output, Translate, Translated};
use crate::plan::request::ConvertOptions;
use crate::plan::target::{format, stem_of};
use crate::tiles::{Memory, OutputWork, TileSink, write};
use crate::verify::finish::finish;
use apr_sdk::{Error, LayoutRequest, Result};

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

/// Converts `options.input`, resolved by the engine's places, into files in memory. Options about the
/// output's location are ignored.
///
/// # Errors
/// Any error from opening, planning, writing and verifying.
pub fn convert(engine: &Engine, options: &ConvertOptions) -> Result<Converted> {
    let mut memory = None;
    let (verified, notes, warnings) =
        convert_into(engine, options, &|selected| Translated::new(selected), &mut |laid_out| {
            let files = laid_out.layout.files.iter().map(|file| (file.name.as_str(), file.len));
            let made = Memory::new(files)?;
            memory = Some(made.clone());
            Ok(Box::new(made))
        })?;
    let files = memory.map(Memory::into_files).unwrap_or_default();
    Ok(Converted { files, verified, notes, warnings })
}

/// Verified facts, notes, warnings.
type Said = (Vec<String>, Vec<String>, Vec<String>);

/// Creates the sink for a layout.
type MakeSink<'m> = dyn FnMut(&LaidOut<'_>) -> Result<Box<dyn TileSink>> + 'm;

/// Converts into any sink, which `sink` creates once the layout is known; `translate` is the third planning
/// stage.
///
/// # Errors
/// As [`convert`]; any error from the sink.
pub fn convert_into(
    engine: &Engine,
    options: &ConvertOptions,
    translate: &Translate<'_>,
    sink: &mut MakeSink<'_>,
) -> Result<Said> {
    let format = format(engine, options)?;
    let path = options.output.as_ref().unwrap_or(&options.input);
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
    let name = name.ok_or_else(|| Error::invalid_argument("the output has no name"))?;
    let takes_many = format.manifest.folder || options.max_shard_size.is_some();
    let mut request = match takes_many {
        true if format.manifest.folder => LayoutRequest::folder(&stem_of(&options.input)),
        true => LayoutRequest::folder(&stem_of(path)),
        false => LayoutRequest::file(&name),
    };
    request.max_shard_size = options.max_shard_size;
    request.foreign = options.foreign;
    let opened = Opened::new(engine, options, true)?;
    let output = Output { format, request, takes_many, shown: name.clone() };
    let mut laid_out = LaidOut::plan(engine, options, opened, output, translate, true)?;
    let sink = sink(&laid_out)?;
    let expressions = std::mem::take(&mut laid_out.expressions);
    let quality = options.quality();
    let work = OutputWork { laid_out: &laid_out, expressions, quality, sink: sink.as_ref(), earlier: None };
    let carried = write(engine, work)?;
    let written = finish(engine, options, &mut laid_out, sink.as_ref(), carried)?;
    let LaidOut { source, plan, findings, .. } = laid_out;
    let (mut notes, mut warnings) = (plan.notes, source.warnings.clone());
    notes.extend(written.notes());
    warnings.extend(plan.warnings);
    warnings.extend(summary(&written.looked.behind(findings).findings));
    Ok((written.proved, notes, warnings))
}
