//! Lays a model out as a folder: its JSON files, the tokenizer's, companions, and the weights as a part.

use crate::layout::{CARRIED, CONFIG, FORMAT, OBJECTS};
use crate::{carried, flat, reader, text};
use apr_sdk::{
    Error, Foreign, ForeignFile, LayoutRequest, LayoutSink, Model, Options, PartRequest, Result, Value,
    Writer, escape,
};
use serde_json::{Map, Value as Json};
use std::collections::HashSet;

/// The writer.
pub struct HuggingFace;

impl Writer for HuggingFace {
    fn layout(&self, model: &Model, request: &LayoutRequest, sink: &mut dyn LayoutSink) -> Result<()> {
        let mut written = HashSet::new();
        let records = model.foreign_of(FORMAT);
        let config = config(model, records, sink)?;
        sink.file(CONFIG)?;
        sink.entry()?;
        sink.inline(&config)?;
        written.insert(CONFIG.to_owned());
        for record in records.iter().flat_map(|records| &records.files) {
            if written.insert(record.name.clone()) && !record.name.is_empty() {
                write_record(record, sink)?;
            }
        }
        for asset in &model.assets {
            if !written.insert(asset.name.clone()) {
                let message =
                    format!("the companion file `{}` has the name of another file", escape(&asset.name, 120));
                return Err(Error::unsupported(message));
            }
            sink.file(&asset.name)?;
            sink.copy(&asset.bytes)?;
        }
        let format = request.options.get("weights").unwrap_or("safetensors");
        if let Some(text) = carried::text(model, request.foreign, format, sink)? {
            sink.file(CARRIED)?;
            sink.inline(text.as_bytes())?;
        }
        let (stem, options) = match format {
            "pytorch" => ("pytorch_model", Options::new()),
            // What was in such a folder is written as it was.
            _ if model.format == FORMAT && model.foreign_of(format).is_some() => ("model", Options::new()),
            // Loaders refuse files that do not say so.
            _ => ("model", Options::new().with("framework", "pt")),
        };
        sink.part(PartRequest { stem, format, tensors: None, options })
    }
}

/// The bytes of `config.json`: what was made for this target, else what the source had, else what is known.
fn config(model: &Model, records: Option<&Foreign>, sink: &mut dyn LayoutSink) -> Result<Vec<u8>> {
    let named = |name: &str| records.and_then(|records| records.files.iter().find(|file| file.name == name));
    if let Some(record) = named("").or_else(|| named(CONFIG)) {
        return object(record, sink);
    }
    let Some(architecture) = &model.architecture else {
        sink.note("config.json names no architecture: the source says none");
        // The key alone, so that the folder is known for what it is.
        let none = Map::from_iter([("architectures".to_owned(), Json::Array(Vec::new()))]);
        return Ok(text::file(&none).into_bytes());
    };
    let config = sink.fetch(&architecture.config)?;
    let mut config = reader::parse(config.inline().unwrap_or_default())?;
    config.entry("model_type").or_insert_with(|| Json::from(architecture.id.as_str()));
    Ok(text::file(&config).into_bytes())
}

fn write_record(record: &ForeignFile, sink: &mut dyn LayoutSink) -> Result<()> {
    if OBJECTS.contains(&record.name.as_str()) {
        let bytes = object(record, sink)?;
        sink.file(&record.name)?;
        return sink.inline(&bytes);
    }
    match &record.verbatim {
        Some(bytes) => {
            sink.file(&record.name)?;
            sink.copy(bytes)
        }
        None => {
            sink.note(&format!(
                "`{}` is left out: only its own bytes could say it",
                escape(&record.name, 120)
            ));
            Ok(())
        }
    }
}

/// The bytes of a JSON object: the file's own if they say exactly the typed keys, else those changed where they differ.
fn object(record: &ForeignFile, sink: &mut dyn LayoutSink) -> Result<Vec<u8>> {
    let mut typed = Vec::with_capacity(record.typed.len());
    for (key, value) in &record.typed {
        typed.push((key.clone(), Value { kind: value.kind, bytes: sink.fetch(&value.bytes)? }));
    }
    let kept = record.verbatim.as_ref().map(|bytes| sink.fetch(bytes)).transpose()?;
    let kept = kept.as_ref().and_then(|bytes| bytes.inline());
    let object = match kept.and_then(|bytes| Some((bytes, reader::parse(bytes).ok()?))) {
        Some((bytes, object)) if flat::flatten(&object) == typed => return Ok(bytes.to_vec()),
        Some((_, object)) => flat::edited(object, &typed)?,
        None => flat::unflatten(typed.iter().map(|(key, value)| (key.as_str(), value)))?,
    };
    Ok(text::file(&object).into_bytes())
}
