//! Other formats' metadata, in a file of apr's own, written only with `--foreign keep`.
//!
//! `{"dialect": "gguf", "formats": {"gguf": {"files": [...]}}}`, with values in the form of
//! [`apr_sdk::json`].

use crate::layout::{CARRIED, FORMAT, MAX_JSON};
use apr_sdk::{
    Cursor, Error, Fact, Foreign, ForeignPolicy, LayoutSink, Limits, Model, ModelSink, Result, Source,
    json as sdk_json,
};
use serde_json::{Map, Value as Json};

/// What was carried.
pub struct Carried {
    dialect: Option<String>,
    formats: Vec<Foreign>,
}

impl Carried {
    /// Reads the file.
    ///
    /// # Errors
    /// Malformed for what apr does not write there; LimitExceeded.
    pub fn read(source: &dyn Source, limits: &Limits) -> Result<Carried> {
        let placed = |e: Error| e.in_file(CARRIED);
        let file = source.sibling(CARRIED)?;
        let len = source.len(file)?;
        if len > MAX_JSON {
            return Err(placed(
                Error::limit(format!("{len} bytes of JSON, more than the limit of {MAX_JSON}")).at(0),
            ));
        }
        let bytes = Cursor::new(source, file, 0, limits)?.bytes(len).map_err(placed)?;
        limits.budget.charge(len * 16).map_err(placed)?;
        let wrong = || placed(Error::malformed("it was not written by apr").at(0));
        let json = crate::reader::parse(&bytes).map_err(placed)?;
        let dialect =
            json.get("dialect").map(|json| json.as_str().map(str::to_owned).ok_or_else(wrong)).transpose()?;
        let mut formats = Vec::new();
        for (format, json) in json.get("formats").and_then(Json::as_object).ok_or_else(wrong)? {
            if format == FORMAT {
                return Err(wrong());
            }
            let foreign = sdk_json::foreign_from_json(format, json, &mut |_| Err(wrong())).map_err(placed)?;
            formats.push(foreign);
        }
        Ok(Carried { dialect, formats })
    }

    /// Gives the model back what other formats said.
    ///
    /// # Errors
    /// Any error from the sink.
    pub fn describe(&self, sink: &mut dyn ModelSink) -> Result<()> {
        if let Some(dialect) = &self.dialect {
            sink.fact(Fact::Dialect(dialect))?;
        }
        for foreign in &self.formats {
            for file in &foreign.files {
                sink.foreign_file(&foreign.format, &file.name, file.n_tensors)?;
                for (key, value) in &file.typed {
                    sink.foreign(key, value.clone())?;
                }
                if let Some(verbatim) = &file.verbatim {
                    sink.verbatim(verbatim.clone())?;
                }
            }
        }
        Ok(())
    }
}

/// The file's text; `None` where nothing is to be kept. `weights` is the format that says its own.
///
/// # Errors
/// Any error from fetching.
pub fn text(
    model: &Model,
    policy: ForeignPolicy,
    weights: &str,
    sink: &mut dyn LayoutSink,
) -> Result<Option<String>> {
    if policy != ForeignPolicy::Keep {
        return Ok(None);
    }
    let mut formats = Map::new();
    for foreign in model.foreign.iter().filter(|f| f.format != FORMAT && f.format != weights) {
        let json =
            sdk_json::foreign_to_json(foreign, true, &mut |_| Ok(None), &mut |bytes| sink.fetch(bytes))?;
        formats.insert(foreign.format.clone(), json);
    }
    if formats.is_empty() {
        return Ok(None);
    }
    let mut all = Map::new();
    if model.dialect != "hf" {
        all.insert("dialect".into(), Json::from(model.dialect.as_str()));
    }
    all.insert("formats".into(), Json::Object(formats));
    Ok(Some(crate::text::file(&all)))
}
