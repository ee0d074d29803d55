//! What a pickle cannot say: values of other types, and what a model says in other formats' words. It lies in a record
//! of its own, which torch does not look at.

use crate::layout::FORMAT;
use apr_sdk::{
    Error, Fact, Foreign, ForeignPolicy, LayoutSink, Limits, Model, ModelSink, Result, Value,
    json as sdk_json,
};
use serde_json::{Map, Value as Json};

/// Dialects that need no record: `none`, and the one that names in this format are taken to be of anyway.
const UNMARKED: [&str; 2] = ["none", "hf"];

/// What was carried, or is to be.
#[derive(Debug, Default)]
pub struct Carried {
    /// The dialect.
    pub dialect: Option<String>,
    /// Other formats' metadata.
    pub formats: Vec<Foreign>,
    /// Values of this format's own.
    pub typed: Vec<(String, Value)>,
}

impl Carried {
    /// Reads the record.
    ///
    /// # Errors
    /// Malformed for anything that [`Carried::text`] does not write; LimitExceeded.
    pub fn parse(text: &[u8], limits: &Limits) -> Result<Carried> {
        limits.budget.charge(text.len() as u64 * 12)?;
        let json: Json = serde_json::from_slice(text).map_err(|e| Error::malformed(e.to_string()))?;
        let wrong = || Error::malformed("the record of apr is not what apr writes there");
        let mut carried = Carried::default();
        for (key, value) in json.as_object().ok_or_else(wrong)? {
            match key.as_str() {
                "dialect" => carried.dialect = Some(value.as_str().ok_or_else(wrong)?.to_owned()),
                "formats" => {
                    for (format, json) in value.as_object().ok_or_else(wrong)? {
                        let no_places = &mut |_: &Json| Err(wrong());
                        carried.formats.push(sdk_json::foreign_from_json(format, json, no_places)?);
                    }
                }
                "typed" => {
                    for (key, json) in value.as_object().ok_or_else(wrong)? {
                        carried.typed.push((key.clone(), sdk_json::value_from_json(json)?));
                    }
                }
                _ => return Err(wrong()),
            }
        }
        let id = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
        let own = |f: &Foreign| f.format == FORMAT || f.format.is_empty() || !f.format.bytes().all(id);
        if carried.formats.iter().any(own) { Err(wrong()) } else { Ok(carried) }
    }

    /// What of `model` this format would else lose.
    ///
    /// # Errors
    /// Whatever fetching raised.
    pub fn of(model: &Model, policy: ForeignPolicy, sink: &mut dyn LayoutSink) -> Result<Carried> {
        let mut carried = Carried::default();
        if policy == ForeignPolicy::Drop {
            return Ok(carried);
        }
        if !model.dialect.is_empty() && !UNMARKED.contains(&model.dialect.as_str()) {
            carried.dialect = Some(model.dialect.clone());
        }
        for foreign in
            model.foreign.iter().filter(|foreign| foreign.format != FORMAT && says_something(foreign))
        {
            let mut kept = foreign.clone();
            for file in &mut kept.files {
                for (_, value) in &mut file.typed {
                    value.bytes = sink.fetch(&value.bytes)?;
                }
                file.verbatim = match file.verbatim.take().filter(|_| policy != ForeignPolicy::Typed) {
                    Some(bytes) => Some(sink.fetch(&bytes)?),
                    None => None,
                };
            }
            carried.formats.push(kept);
        }
        Ok(carried)
    }

    /// The record; `None` if there is nothing to say.
    ///
    /// # Errors
    /// Malformed for a value that is not of its type.
    pub fn text(&self) -> Result<Option<String>> {
        let mut all = Map::new();
        if let Some(dialect) = &self.dialect {
            all.insert("dialect".into(), Json::from(dialect.as_str()));
        }
        let mut formats = Map::new();
        for foreign in &self.formats {
            let mut fetch = |bytes: &apr_sdk::Bytes| Ok(bytes.clone());
            let json = sdk_json::foreign_to_json(foreign, true, &mut |_| Ok(None), &mut fetch)?;
            formats.insert(foreign.format.clone(), json);
        }
        if !formats.is_empty() {
            all.insert("formats".into(), Json::Object(formats));
        }
        let mut typed = Map::new();
        for (key, value) in &self.typed {
            let json = sdk_json::value_to_json(value.kind, value.bytes.inline().unwrap_or_default())?;
            typed.insert(key.clone(), json);
        }
        if !typed.is_empty() {
            all.insert("typed".into(), Json::Object(typed));
        }
        Ok((!all.is_empty()).then(|| Json::Object(all).to_string()))
    }

    /// Gives the model back what other formats said.
    ///
    /// # Errors
    /// Whatever the sink raised.
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

    /// Whether other formats said the same.
    pub fn same_formats(&self, other: &Carried) -> bool {
        self.dialect == other.dialect && self.formats == other.formats
    }
}

/// Whether there is more than the record of a single file without metadata, which every reader leaves.
fn says_something(foreign: &Foreign) -> bool {
    let files = &foreign.files;
    files.len() > 1 || files.iter().any(|file| !file.typed.is_empty() || file.verbatim.is_some())
}
