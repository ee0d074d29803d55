//! `apr inspect FILE --bom`: a bill of materials that other tools read, CycloneDX 1.6. It says what the files state and what
//! they are to the byte, and nothing that nobody stated.

use crate::cli::context::Context;
use crate::cli::flags::open_args::{OpenArgs, host_and_model};
use crate::cli::output::verb_report::{Report, Streamed};
use apr_engine::architecture::{Summary, called, summary};
use apr_engine::open::OpenedModel;
use apr_engine::verify::file_digests::{FileDigest, file_digests};
use apr_sdk::Result;
use serde_json::{Value as Json, json};
use std::fmt;
use std::io::{self, Write};
use std::path::Path;

/// Licences as model cards spell them, and as SPDX does.
const SPDX: &[(&str, &str)] = &[
    ("apache-2.0", "Apache-2.0"),
    ("mit", "MIT"),
    ("bsd-2-clause", "BSD-2-Clause"),
    ("bsd-3-clause", "BSD-3-Clause"),
    ("cc0-1.0", "CC0-1.0"),
    ("cc-by-4.0", "CC-BY-4.0"),
    ("cc-by-sa-4.0", "CC-BY-SA-4.0"),
    ("cc-by-nc-4.0", "CC-BY-NC-4.0"),
    ("cc-by-nc-sa-4.0", "CC-BY-NC-SA-4.0"),
    ("cc-by-nc-nd-4.0", "CC-BY-NC-ND-4.0"),
    ("isc", "ISC"),
    ("mpl-2.0", "MPL-2.0"),
    ("unlicense", "Unlicense"),
];

/// A bill of materials.
#[derive(Debug)]
pub struct Bom(Json);

/// Gathers what is known of a model and reads its files whole, for their digests.
///
/// # Errors
/// What opening and reading raised.
pub fn run(path: &Path, open: &OpenArgs, context: &Context) -> Result<Bom> {
    let (host, opened) = host_and_model(open, path, context)?;
    let summary = summary(&host, &opened, None)?;
    let architecture = called(&host, &opened.model);
    let files = file_digests(&host, &opened)?;
    let metadata = json!({
        "tools": { "components": [
            { "type": "application", "name": "apr", "version": env!("CARGO_PKG_VERSION") },
        ] },
        "component": model(path, &opened, &summary, architecture.as_deref())?,
    });
    let names: Vec<String> = files.iter().map(|file| format!("file:{}", file.name)).collect();
    Ok(Bom(json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": metadata,
        "components": files.iter().map(file).collect::<Vec<_>>(),
        "dependencies": [{ "ref": "model", "dependsOn": names }],
    })))
}

/// The model itself.
fn model(path: &Path, opened: &OpenedModel, summary: &Summary, architecture: Option<&str>) -> Result<Json> {
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let mut component = json!({
        "type": "machine-learning-model",
        "bom-ref": "model",
        "name": summary.name.clone().or(stem).unwrap_or_else(|| "model".to_owned()),
    });
    if let Some(license) = &summary.license {
        let spdx = SPDX.iter().find(|(card, _)| card.eq_ignore_ascii_case(license));
        component["licenses"] = match spdx {
            Some((_, id)) => json!([{ "license": { "id": id } }]),
            None => json!([{ "license": { "name": license } }]),
        };
    }
    if !summary.base_models.is_empty() {
        let bases = summary.base_models.iter();
        let ancestors = bases.map(|name| json!({ "type": "machine-learning-model", "name": name }));
        component["pedigree"] = json!({ "ancestors": ancestors.collect::<Vec<_>>() });
    }
    if let Some(name) = summary.architecture_name.as_deref().or(architecture) {
        component["modelCard"] = json!({ "modelParameters": { "modelArchitecture": name } });
    }
    let properties = properties(opened, summary)?.into_iter();
    component["properties"] =
        properties.map(|(name, value)| json!({ "name": format!("apr:{name}"), "value": value })).collect();
    Ok(component)
}

fn number(name: &str, value: Option<u64>) -> Option<(String, String)> {
    value.map(|value| (name.to_owned(), value.to_string()))
}

/// Facts about the model that have no field of their own.
fn properties(opened: &OpenedModel, summary: &Summary) -> Result<Vec<(String, String)>> {
    let mut all = vec![("format".to_owned(), opened.format.clone())];
    all.push(("tensors".to_owned(), opened.model.tensors.len().to_string()));
    all.extend(number("parameters", Some(summary.parameters)));
    all.extend(number("active_parameters", summary.active_parameters));
    all.extend(summary.quantization.clone().map(|recipe| ("quantization".to_owned(), recipe)));
    all.extend(number("layers", summary.layers));
    all.extend(number("context", summary.context));
    // What an earlier conversion recorded: sizes and checksums of what it read, and the versions of what did it.
    let recorded = opened.model.provenance.as_ref().map(|record| opened.fetch(record)).transpose()?;
    let recorded = recorded.and_then(|record| serde_json::from_slice::<Json>(record.inline()?).ok());
    let Some(Json::Object(recorded)) = recorded else { return Ok(all) };
    for (program, version) in recorded.get("versions").and_then(Json::as_object).into_iter().flatten() {
        all.push((format!("provenance:version:{program}"), version.as_str().unwrap_or_default().to_owned()));
    }
    for (n, input) in recorded.get("inputs").and_then(Json::as_array).into_iter().flatten().enumerate() {
        for (key, value) in input.as_object().into_iter().flatten() {
            let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
            all.push((format!("provenance:input:{n}:{key}"), value));
        }
    }
    Ok(all)
}

fn file(file: &FileDigest) -> Json {
    json!({
        "type": "file",
        "bom-ref": format!("file:{}", file.name),
        "name": file.name,
        "hashes": [{ "alg": "SHA-256", "content": file.sha256 }],
        "properties": [{ "name": "apr:bytes", "value": file.bytes.to_string() }],
    })
}

impl Report for Bom {
    fn json(&self) -> Result<Json> {
        Ok(self.0.clone())
    }

    /// The form allows no key beside its own.
    fn write_json(&self, out: &mut dyn Write) -> io::Result<Streamed> {
        write!(out, "{:#}", self.0).map(|()| Streamed::Document)
    }
}

impl fmt::Display for Bom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{:#}", self.0)
    }
}
