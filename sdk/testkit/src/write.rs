//! Writes a model in memory the way the host does, and refuses a layout that breaks the contract of
//! [`apr_sdk::LayoutSink`].

use crate::assembly::Assembly;
use crate::patch::Patches;
use crate::payload;
use apr_sdk::{
    Carries, CheckedModel, Error, LayoutRequest, Model, OpenModel, Payload, Result, Source, Writer,
};

/// The files that a writer made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rendered {
    /// Names relative to the output folder, and contents, in the order of the layout.
    pub files: Vec<(String, Vec<u8>)>,
    /// The one that a user opens.
    pub entry: usize,
    /// The writer's notes in the summary.
    pub notes: Vec<String>,
}

/// Writes `model`, whose byte strings lie in `source` and whose tensors' payloads `payloads` gives (decoded, row-major,
/// little-endian), if that is what the manifest says the format carries. The result is names and contents, the entry file first, the others in the order of the layout.
///
/// # Errors
/// What the format does not carry; what the writer raised; Plugin for every breach of the contract.
pub fn write(
    writer: &dyn Writer,
    carries: &Carries,
    model: &Model,
    source: &dyn Source,
    payloads: &dyn Fn(usize) -> Result<Vec<u8>>,
    request: &LayoutRequest,
) -> Result<Vec<(String, Vec<u8>)>> {
    let mut rendered = render(writer, carries, model, source, payloads, request)?;
    rendered.files[..=rendered.entry].rotate_right(1);
    Ok(rendered.files)
}

/// As [`write()`], for a model that a reader just described: its payloads are read from `source`.
///
/// # Errors
/// As [`write()`], and what reading a payload raised.
pub fn write_model(
    writer: &dyn Writer,
    carries: &Carries,
    open: &dyn OpenModel,
    model: &Model,
    source: &dyn Source,
    request: &LayoutRequest,
) -> Result<Vec<(String, Vec<u8>)>> {
    write(writer, carries, model, source, &|index| payload(open, model, index, source), request)
}

/// As [`write()`], with the files in the order of the layout, the entry's number and the writer's notes.
///
/// # Errors
/// As [`write()`].
pub fn render(
    writer: &dyn Writer,
    carries: &Carries,
    model: &Model,
    source: &dyn Source,
    payloads: &dyn Fn(usize) -> Result<Vec<u8>>,
    request: &LayoutRequest,
) -> Result<Rendered> {
    let checked = CheckedModel::new(model.clone(), carries).map_err(|refusal| refusal.error("the format"))?;
    let mut assembly = Assembly::new(writer, &checked, source, payloads);
    writer.layout(&checked, request, &mut assembly)?;
    let inputs = if assembly.wants_digests() { inputs_crc32(model, payloads)? } else { Vec::new() };
    let (written, files, entry, notes) = assembly.finish(&inputs)?;
    let mut patches = Patches::new(&written, files);
    writer.finish(&written, &mut patches)?;
    let bytes = patches.finish()?;
    let files = written.files.into_iter().map(|file| file.name).zip(bytes).collect();
    Ok(Rendered { files, entry, notes })
}

/// CRC-32 of each input's raw payload in file order. A payload that is no extent counts to the first input, behind the
/// extents.
fn inputs_crc32(model: &Model, payloads: &dyn Fn(usize) -> Result<Vec<u8>>) -> Result<Vec<u32>> {
    let mut order: Vec<_> = (0..model.tensors.len()).map(|n| (place(&model.tensors[n].payload), n)).collect();
    order.sort_unstable();
    let mut inputs: Vec<(u32, crc32fast::Hasher)> = Vec::new();
    for ((file, _), tensor) in order {
        if inputs.last().is_none_or(|(last, _)| *last != file) {
            inputs.push((file, crc32fast::Hasher::new()));
        }
        let Some((_, hasher)) = inputs.last_mut() else { break };
        hasher.update(&payloads(tensor)?);
    }
    Ok(inputs.into_iter().map(|(_, hasher)| hasher.finalize()).collect())
}

fn place(payload: &Payload) -> (u32, u64) {
    match payload {
        Payload::Extent { extent, .. } => (extent.file, extent.offset),
        _ => (0, u64::MAX),
    }
}

/// A breach of the contract.
#[cold]
pub(crate) fn breach(message: impl Into<String>) -> Error {
    Error::plugin(message)
}
