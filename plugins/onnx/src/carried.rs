//! What a model says in other formats' words: one entry of `metadata_props`, so that converting back finds it again.

use crate::layout::FORMAT;
use apr_sdk::{
    Error, Fact, Foreign, ForeignPolicy, LayoutSink, Limits, Model, ModelSink, Result, json as sdk_json,
};
use serde_json::{Map, Value as Json};

/// The entry's key.
pub const KEY: &str = "apr.foreign";

/// What was carried.
#[derive(Clone, Debug, Default)]
pub struct Carried {
    dialect: Option<String>,
    formats: Vec<Foreign>,
}

impl Carried {
    /// Reads the text that [`text`] made.
    ///
    /// # Errors
    /// Malformed for any other; LimitExceeded.
    pub fn parse(text: &[u8], limits: &Limits) -> Result<Carried> {
        // A value of the tree takes up to 32 bytes for the two that a number and its comma have in the text.
        limits.budget.charge(text.len() as u64 * 16)?;
        let json: Json = serde_json::from_slice(text).map_err(|e| Error::malformed(e.to_string()))?;
        let wrong = || Error::malformed("it is not what apr writes there");
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
                _ => return Err(wrong()),
            }
        }
        // This format's own keys are the file's, whatever the text says.
        if carried.formats.iter().any(|foreign| foreign.format == FORMAT || !is_id(&foreign.format)) {
            return Err(wrong());
        }
        Ok(carried)
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
}

fn is_id(format: &str) -> bool {
    let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    !format.is_empty() && format.bytes().all(fits)
}

/// Whether there is more than the record of a single file without metadata, which every reader leaves.
fn says_something(foreign: &Foreign) -> bool {
    let files = &foreign.files;
    files.len() > 1 || files.iter().any(|file| !file.typed.is_empty() || file.verbatim.is_some())
}

/// What is to be carried, as text; `None` where nothing would else be lost.
///
/// # Errors
/// Whatever fetching raised; Malformed for a value that is not of its type.
pub fn text(model: &Model, policy: ForeignPolicy, sink: &mut dyn LayoutSink) -> Result<Option<String>> {
    if policy == ForeignPolicy::Drop {
        return Ok(None);
    }
    let mut all = Map::new();
    if !["", "none"].contains(&model.dialect.as_str()) {
        all.insert("dialect".into(), Json::from(model.dialect.as_str()));
    }
    let mut formats = Map::new();
    for foreign in model.foreign.iter().filter(|foreign| foreign.format != FORMAT && says_something(foreign))
    {
        let mut fetch = |bytes: &_| sink.fetch(bytes);
        let with_verbatim = policy != ForeignPolicy::Typed;
        let json = sdk_json::foreign_to_json(foreign, with_verbatim, &mut |_| Ok(None), &mut fetch)?;
        formats.insert(foreign.format.clone(), json);
    }
    if !formats.is_empty() {
        all.insert("formats".into(), Json::Object(formats));
    }
    Ok((!all.is_empty()).then(|| Json::Object(all).to_string()))
}
