//! Lays out a model as a folder: its JSON files, the tokenizer's, companions, and the weights as a part.

use crate::layout::{
    ADAPTER, ADAPTER_STEM, CARRIED, CHAT_TEMPLATE, CONFIG, FORMAT, GENERATION, MODULES, OBJECTS,
};
use crate::{card, carried, config_json, made, pooling, reader, text, tokenizer};
use apr_sdk::tokenizer::Tokenizer;
use apr_sdk::{
    CheckedModel, DType, DTypeChoice, Error, Foreign, ForeignFile, LayoutRequest, LayoutSink, Model, Options,
    PartRequest, Result, TensorFacts, Value, Writer, escape,
};
use serde_json::{Map, Value as Json};
use std::collections::HashSet;

/// The writer.
pub struct HuggingFace;

impl Writer for HuggingFace {
    fn dtypes(&self, tensors: &[TensorFacts], wanted: Option<DType>) -> Result<Vec<DTypeChoice>> {
        Ok(made::dtypes(tensors, wanted))
    }

    fn layout(&self, model: &CheckedModel, request: &LayoutRequest, sink: &mut dyn LayoutSink) -> Result<()> {
        let mut written = HashSet::new();
        let records = model.foreign_of(FORMAT);
        let tokenizer = made::tokenizer(model, records, sink)?;
        let adapter = adapter(model, records);
        let (entry, config, pooling) = match adapter {
            Some(record) => (ADAPTER, bytes_of(record, sink)?, Vec::new()),
            None => {
                let (config, pooling) = config(model, records, tokenizer.as_ref(), sink)?;
                (CONFIG, config, pooling)
            }
        };
        sink.file(entry)?;
        sink.entry()?;
        sink.inline(&config)?;
        written.insert(entry.to_owned());
        for (name, bytes) in pooling {
            sink.file(name)?;
            sink.inline(&bytes)?;
            written.insert(name.to_owned());
        }
        for (name, bytes) in made_files(model, request, records, tokenizer.as_ref(), sink)? {
            sink.file(name)?;
            sink.inline(&bytes)?;
            written.insert(name.to_owned());
        }
        for record in records.iter().flat_map(|records| &records.files) {
            if made::replaces(&record.name, tokenizer.as_ref()) {
                continue;
            }
            if written.insert(record.name.clone()) && !record.name.is_empty() {
                write_record(record, sink)?;
            }
        }
        for asset in &model.assets {
            if !written.insert(asset.name.clone()) {
                let message = format!(
                    "the companion file `{}` has the same name as another file",
                    escape(&asset.name, 120)
                );
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
        let stem = if adapter.is_some() { ADAPTER_STEM } else { stem };
        sink.part(PartRequest { stem, format, tensors: None, options })
    }
}

/// Finds the record of the file called `name`.
fn named<'r>(records: Option<&'r Foreign>, name: &str) -> Option<&'r ForeignFile> {
    records.and_then(|records| records.files.iter().find(|file| file.name == name))
}

/// What makes the folder an adapter, which has no configuration of a model.
fn adapter<'r>(model: &Model, records: Option<&'r Foreign>) -> Option<&'r ForeignFile> {
    let has_config = named(records, "").or(named(records, CONFIG)).is_some() || model.architecture.is_some();
    named(records, ADAPTER).filter(|_| !has_config)
}

/// Names and bytes of files.
type Files = Vec<(&'static str, Vec<u8>)>;

/// The bytes of `config.json`: what was made for this target, else what the source had, else what is known. And the files
/// of the pooling module, if what was made for this target says how.
fn config(
    model: &Model,
    records: Option<&Foreign>,
    tokenizer: Option<&Tokenizer>,
    sink: &mut dyn LayoutSink,
) -> Result<(Vec<u8>, Files)> {
    let mut config = match (named(records, ""), named(records, CONFIG), &model.architecture) {
        (None, Some(record), _) => return Ok((bytes_of(record, sink)?, Vec::new())),
        (Some(record), ..) => object(record, sink)?,
        (None, None, Some(architecture)) => {
            let config = sink.fetch(&architecture.config)?;
            let mut config = reader::parse(config.inline().unwrap_or_default())?;
            config.entry("model_type").or_insert_with(|| Json::from(architecture.id.as_str()));
            config
        }
        (None, None, None) => {
            sink.note("config.json states no architecture, because the source states none");
            // The key alone, so that the folder is known for what it is.
            Map::from_iter([("architectures".to_owned(), Json::Array(Vec::new()))])
        }
    };
    let said = made::card(model, sink)?;
    made::complete(&mut config, model, tokenizer, &said);
    let lacks_module = named(records, MODULES).is_none();
    let files = match config.shift_remove(pooling::KEY) {
        Some(Json::String(mode)) if lacks_module => pooling::files(&mode, &config),
        _ => Vec::new(),
    };
    Ok((text::file(&config).into_bytes(), files))
}

/// The files that are made of what is known, and have no file of their own among what the model brings.
fn made_files(
    model: &Model,
    request: &LayoutRequest,
    records: Option<&Foreign>,
    tokenizer: Option<&Tokenizer>,
    sink: &mut dyn LayoutSink,
) -> Result<Files> {
    let mut files = match tokenizer {
        Some(tokenizer) => tokenizer::files(tokenizer),
        None => {
            made::chat_template(model, records, sink)?.map(|text| (CHAT_TEMPLATE, text)).into_iter().collect()
        }
    };
    for (name, bytes) in &mut files {
        // What a file of this name said besides stays.
        if let Some(record) = named(records, name).filter(|record| !record.typed.is_empty()) {
            let mut all = reader::parse(bytes)?;
            for (key, value) in object(record, sink)? {
                all.entry(key).or_insert(value);
            }
            *bytes = text::file(&all).into_bytes();
        }
    }
    if made::is_own(model) {
        return Ok(files);
    }
    let said = made::card(model, sink)?;
    if let Some(generation) = made::generation(&said, tokenizer) {
        files.push((GENERATION, text::file(&generation).into_bytes()));
    }
    if !request.options.flag("no-card")
        && let Some(readme) = card::readme(&said, &done(model))
        && model.assets.iter().all(|asset| asset.name != card::README)
    {
        files.push((card::README, readme.into_bytes()));
    }
    Ok(files)
}

/// What a model card says of how the folder came to be.
fn done(model: &Model) -> String {
    let (from, version) = (escape(&model.format, 80), env!("CARGO_PKG_VERSION"));
    let quantized = model.recipe.as_ref().map(|recipe| format!(", quantized as {}", escape(recipe, 80)));
    format!("Converted from the format `{from}` by apr {version}{}.", quantized.unwrap_or_default())
}

fn write_record(record: &ForeignFile, sink: &mut dyn LayoutSink) -> Result<()> {
    if OBJECTS.contains(&record.name.as_str()) {
        let bytes = bytes_of(record, sink)?;
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
                "`{}` is left out: only its original bytes could represent it",
                escape(&record.name, 120)
            ));
            Ok(())
        }
    }
}

/// The bytes of a JSON object: the file's own if they say exactly the typed keys, else those changed where they differ.
fn bytes_of(record: &ForeignFile, sink: &mut dyn LayoutSink) -> Result<Vec<u8>> {
    let (object, own) = parts_of(record, sink)?;
    Ok(own.unwrap_or_else(|| text::file(&object).into_bytes()))
}

/// The record's keys as a JSON object.
fn object(record: &ForeignFile, sink: &mut dyn LayoutSink) -> Result<Map<String, Json>> {
    parts_of(record, sink).map(|(object, _)| object)
}

/// The object of a record, and the file's own bytes if they say exactly that.
type Parts = (Map<String, Json>, Option<Vec<u8>>);

fn parts_of(record: &ForeignFile, sink: &mut dyn LayoutSink) -> Result<Parts> {
    let mut typed = Vec::with_capacity(record.typed.len());
    for (key, value) in &record.typed {
        typed.push((key.clone(), Value { kind: value.kind, bytes: sink.fetch(&value.bytes)? }));
    }
    let kept = record.verbatim.as_ref().map(|bytes| sink.fetch(bytes)).transpose()?;
    let kept = kept.as_ref().and_then(|bytes| bytes.inline());
    match kept.and_then(|bytes| Some((bytes, reader::parse(bytes).ok()?))) {
        Some((bytes, object)) if config_json::flatten(&object) == typed => Ok((object, Some(bytes.to_vec()))),
        Some((_, object)) => Ok((config_json::edited(object, &typed)?, None)),
        None => {
            let pairs = typed.iter().map(|(key, value)| (key.as_str(), value));
            Ok((config_json::unflatten(pairs)?, None))
        }
    }
}
