//! Lays out a model as one ZIP, or as several with an index.

use crate::kept::{self, Wanted};
use crate::layout::{APR_RECORD, BYTEORDER, DATA, DATA_PKL, FORMAT, UNMARKED};
use crate::pickle_writer::{self, Source};
use crate::plan::{Plan, TIED};
use crate::shards::{self, Output};
use apr_sdk::carried_metadata::Carried;
use apr_sdk::{
    CheckedModel, ForeignPolicy, LayoutRequest, LayoutSink, Model, PatchSink, Result, Value, Writer, Written,
};
use apr_zip::ZipLayout;

/// The folder inside the archive: what `torch.save` calls it that knows no file name. So the same model always makes the
/// same bytes.
const FOLDER: &str = "archive/";

/// The alignment of the storages: torch maps them into memory.
const ALIGN: u64 = 64;

/// The writer.
pub struct PyTorch;

impl Writer for PyTorch {
    fn layout(&self, model: &CheckedModel, request: &LayoutRequest, sink: &mut dyn LayoutSink) -> Result<()> {
        let outputs = shards::choose(model, request, sink)?;
        let verbatim = request.foreign != ForeignPolicy::Typed;
        if let Some((name, text)) = outputs.index_text(model)? {
            sink.file(&name)?;
            sink.entry()?;
            sink.inline(text.as_bytes())?;
        }
        let mut zip = ZipLayout::new();
        for (n, output) in outputs.files.iter().enumerate() {
            sink.file(&output.name)?;
            let typed = fetched(output, sink)?;
            // What is said of the whole model stands in the first file.
            let carried = match n {
                0 => Carried::of(model, FORMAT, &UNMARKED, request.foreign, sink)?,
                _ => Carried::default(),
            };
            if let Some(form) = output.verbatim.filter(|_| verbatim) {
                let wanted = Wanted { model, tensors: &output.tensors, typed: &typed, carried: &carried };
                if kept::lay_out(&wanted, form, zip.holes(), sink)? {
                    continue;
                }
            }
            if typed.iter().any(|(key, _)| key == TIED) {
                sink.note(
                    "tensors that share bytes are stored separately: this keeps their values, but not \
                     the file's bytes",
                );
            }
            let plan = Plan::new(model, &output.tensors, typed, carried, sink)?;
            write_file(model, &plan, &mut zip, sink)?;
        }
        Ok(())
    }

    fn finish(&self, written: &Written, sink: &mut dyn PatchSink) -> Result<()> {
        apr_zip::patch(written, sink)
    }
}

/// The typed values of an output, those that lie in a file read.
fn fetched(output: &Output<'_>, sink: &mut dyn LayoutSink) -> Result<Vec<(String, Value)>> {
    let mut typed: Vec<(String, Value)> = Vec::new();
    for (key, value) in output.records.iter().flat_map(|record| &record.typed) {
        if !typed.iter().any(|(known, _)| known == key) {
            typed.push((key.clone(), Value { kind: value.kind, bytes: sink.fetch(&value.bytes)? }));
        }
    }
    Ok(typed)
}

/// Writes one archive anew into the current file.
pub fn write_file(
    model: &Model,
    plan: &Plan<'_>,
    zip: &mut ZipLayout,
    sink: &mut dyn LayoutSink,
) -> Result<()> {
    let source = Source { model, numbers: &plan.numbers, values: &plan.values };
    let (pickle, storages) = pickle_writer::write(&source, &plan.tree)?;
    zip.inline(sink, &format!("{FOLDER}{DATA_PKL}"), &pickle, ALIGN)?;
    zip.inline(sink, &format!("{FOLDER}{BYTEORDER}"), b"little", ALIGN)?;
    for (key, &number) in storages.iter().enumerate() {
        let len = model.tensors[number].payload_len()?;
        zip.payload(sink, &format!("{FOLDER}{DATA}{key}"), &[], number as u64, len, ALIGN)?;
    }
    zip.inline(sink, &format!("{FOLDER}version"), b"3\n", ALIGN)?;
    if let Some(text) = plan.carried.text()? {
        zip.inline(sink, &format!("{FOLDER}{APR_RECORD}"), text.as_bytes(), ALIGN)?;
    }
    zip.finish(sink)
}

/// The typed values of this format's own, if the model is of one file.
pub fn own_values(model: &Model) -> Vec<(String, Value)> {
    let files = model.foreign_of(FORMAT).map(|foreign| foreign.files.as_slice()).unwrap_or_default();
    files.iter().flat_map(|file| file.typed.iter().cloned()).collect()
}
