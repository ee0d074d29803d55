//! Metadata that a model brings from other formats, as one JSON object that the target format stores under a
//! key of its own, so that converting back restores it.
//!
//! ```text
//! {"dialect": ID, "formats": {FORMAT: its record, as crate::json spells it}, "typed": {KEY: VALUE}, "order": [PLACE, ...]}
//! ```
//! Every member is optional. `typed` holds the format's own values that its file cannot express, `order` the
//! positions that the tensors had in the source; which of the two a format uses is up to the format.

use crate::{Error, Fact, Foreign, ForeignPolicy, LayoutSink, Limits, Model, ModelSink, Result, Value, json};
use serde_json::{Map, Value as Json};

/// The metadata key under which key-value formats store the text.
pub const KEY: &str = "apr.foreign";

/// The note for a file whose value under that key is something else.
pub const UNREAD: &str = "the metadata key `apr.foreign` is kept as is: it was not written by apr";

/// An optional member of the object, which only some formats use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Member {
    /// `typed`: values of the carrying format's own.
    Typed,
    /// `order`: the positions of tensors in the source.
    Order,
}

/// The record that a file carried, or that is to be carried.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Carried {
    /// The model's dialect, unless it is one that needs no record.
    pub dialect: Option<String>,
    /// Other formats' metadata, in full.
    pub formats: Vec<Foreign>,
    /// The carrying format's own keys whose values its file cannot express.
    pub typed: Vec<(String, Value)>,
    /// For each tensor, its position in the source.
    pub order: Option<Vec<usize>>,
}

impl Carried {
    /// Parses the text that [`Carried::text`] wrote for the format `own`. Beyond `dialect` and `formats` only
    /// the given `members` are allowed. The parsed tree is charged to the budget.
    ///
    /// # Errors
    /// Malformed for any other text; LimitExceeded.
    pub fn parse(text: &[u8], own: &str, members: &[Member], limits: &Limits) -> Result<Carried> {
        // A parsed value takes up to 32 bytes for two bytes of text (a digit and its comma).
        limits.budget.charge((text.len() as u64).saturating_mul(16))?;
        let json: Json = serde_json::from_slice(text).map_err(|e| Error::malformed(e.to_string()))?;
        let mut carried = Carried::default();
        for (key, value) in json.as_object().ok_or_else(wrong)? {
            match key.as_str() {
                "dialect" => carried.dialect = Some(value.as_str().ok_or_else(wrong)?.to_owned()),
                "formats" => carried.formats = formats(value.as_object().ok_or_else(wrong)?, own)?,
                "typed" if members.contains(&Member::Typed) => {
                    for (key, json) in value.as_object().ok_or_else(wrong)? {
                        carried.typed.push((key.clone(), json::value_from_json(json)?));
                    }
                }
                "order" if members.contains(&Member::Order) => {
                    let places = value.as_array().ok_or_else(wrong)?.iter();
                    let places = places.map(|json| json.as_u64().and_then(|n| usize::try_from(n).ok()));
                    carried.order = Some(places.collect::<Option<_>>().ok_or_else(wrong)?);
                }
                _ => return Err(wrong()),
            }
        }
        Ok(carried)
    }

    /// Collects what the format `own` would otherwise lose of `model`: its dialect, unless that is `none` or
    /// listed in `unmarked`, and other formats' records, with their bytes fetched.
    ///
    /// # Errors
    /// Any error from fetching.
    pub fn of(
        model: &Model,
        own: &str,
        unmarked: &[&str],
        policy: ForeignPolicy,
        sink: &mut dyn LayoutSink,
    ) -> Result<Carried> {
        let mut carried = Carried::default();
        if policy == ForeignPolicy::Drop {
            return Ok(carried);
        }
        let dialect = model.dialect.as_str();
        if !["", "none"].contains(&dialect) && !unmarked.contains(&dialect) {
            carried.dialect = Some(dialect.to_owned());
        }
        for foreign in &model.foreign {
            if foreign.format == own || !says_something(foreign) {
                continue;
            }
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

    /// The JSON text; `None` if there is nothing to carry.
    ///
    /// # Errors
    /// Malformed for a value whose bytes do not match its type.
    pub fn text(&self) -> Result<Option<String>> {
        let mut all = Map::new();
        if let Some(dialect) = &self.dialect {
            all.insert("dialect".into(), Json::from(dialect.as_str()));
        }
        if !self.formats.is_empty() {
            all.insert("formats".into(), Json::Object(formats_to_json(&self.formats)?));
        }
        if let Some(order) = &self.order {
            all.insert("order".into(), Json::from(order.as_slice()));
        }
        let mut typed = Map::new();
        for (key, value) in &self.typed {
            let json = json::value_to_json(value.kind, value.bytes.inline().unwrap_or_default())?;
            typed.insert(key.clone(), json);
        }
        if !typed.is_empty() {
            all.insert("typed".into(), Json::Object(typed));
        }
        Ok((!all.is_empty()).then(|| Json::Object(all).to_string()))
    }

    /// Pushes the other formats' records and the dialect back into the model.
    ///
    /// # Errors
    /// Any error from the sink.
    pub fn describe(&self, sink: &mut dyn ModelSink) -> Result<()> {
        if let Some(dialect) = &self.dialect {
            sink.fact(Fact::Dialect(dialect))?;
        }
        describe_formats(&self.formats, sink)
    }
}

fn wrong() -> Error {
    Error::malformed("it was not written by apr")
}

/// Serializes records into a JSON object keyed by format. Their bytes must be in memory.
///
/// # Errors
/// Malformed for a value whose bytes do not match its type.
pub fn formats_to_json(formats: &[Foreign]) -> Result<Map<String, Json>> {
    let mut map = Map::new();
    for foreign in formats {
        let json = json::foreign_to_json(foreign, true, &mut |_| Ok(None), &mut |bytes| Ok(bytes.clone()))?;
        map.insert(foreign.format.clone(), json);
    }
    Ok(map)
}

/// Parses records from a JSON object keyed by format.
///
/// # Errors
/// Malformed for another form, for keys that are not format ids, and for `own`: its keys come from the file
/// itself, never from this text.
pub fn formats(map: &Map<String, Json>, own: &str) -> Result<Vec<Foreign>> {
    let mut formats = Vec::with_capacity(map.len());
    for (format, json) in map {
        let fits = format.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_');
        if format == own || format.is_empty() || !fits {
            return Err(wrong());
        }
        formats.push(json::foreign_from_json(format, json, &mut |_| Err(wrong()))?);
    }
    Ok(formats)
}

/// Pushes records into `sink`.
///
/// # Errors
/// Any error from the sink.
pub fn describe_formats(formats: &[Foreign], sink: &mut dyn ModelSink) -> Result<()> {
    for foreign in formats {
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

/// Returns whether the record holds anything beyond a single file without metadata, which every reader pushes.
pub fn says_something(foreign: &Foreign) -> bool {
    let files = &foreign.files;
    files.len() > 1 || files.iter().any(|file| !file.typed.is_empty() || file.verbatim.is_some())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bytes, ForeignFile};

    fn all() -> Carried {
        let mut file = ForeignFile::default();
        file.typed.push(("k".into(), Value::from_u32(7)));
        file.verbatim = Some(Bytes::from(vec![0, 255]));
        let mut foreign = Foreign::new("other_1");
        foreign.files.push(file);
        Carried {
            dialect: Some("hf".into()),
            formats: vec![foreign],
            typed: vec![("own".into(), Value::from_bool(true))],
            order: Some(vec![1, 0]),
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let members = [Member::Typed, Member::Order];
        let text = all().text().unwrap().unwrap();
        assert_eq!(Carried::parse(text.as_bytes(), "own", &members, &Limits::default()).unwrap(), all());
        assert_eq!(Carried::default().text().unwrap(), None);
    }

    #[test]
    fn anything_else_is_refused() {
        let limits = Limits::default();
        let text = all().text().unwrap().unwrap();
        for members in [&[][..], &[Member::Typed], &[Member::Order]] {
            assert!(Carried::parse(text.as_bytes(), "own", members, &limits).is_err(), "{members:?}");
        }
        let both = [Member::Typed, Member::Order];
        assert!(Carried::parse(text.as_bytes(), "other_1", &both, &limits).is_err(), "its own keys");
        for text in
            ["", "[]", "{", r#"{"x":1}"#, r#"{"dialect":1}"#, r#"{"formats":{"A":{}}}"#, r#"{"order":[-1]}"#]
        {
            assert!(Carried::parse(text.as_bytes(), "own", &both, &limits).is_err(), "{text}");
        }
    }
}
