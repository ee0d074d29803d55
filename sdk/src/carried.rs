//! What a model says in other formats' words, as one JSON object that a format keeps in a corner of its own, so that
//! converting back finds it again.
//!
//! ```text
//! {"dialect": ID, "formats": {FORMAT: its record, as crate::json spells it}, "typed": {KEY: VALUE}, "order": [PLACE, ...]}
//! ```
//! Every member may be absent. `typed` holds values of the format's own that it cannot spell, `order` the places that the
//! tensors had before; which members a format has, it says itself.

use crate::{Error, Fact, Foreign, ForeignPolicy, LayoutSink, Limits, Model, ModelSink, Result, Value, json};
use serde_json::{Map, Value as Json};

/// The name under which formats that have keys keep the text.
pub const KEY: &str = "apr.foreign";

/// Said of a file that has the key with something else in it.
pub const UNREAD: &str =
    "the metadata key `apr.foreign` is kept as it is: it does not hold what apr writes there";

/// A member of the object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Member {
    /// `typed`.
    Typed,
    /// `order`.
    Order,
}

/// What was carried, or is to be.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Carried {
    /// The dialect, unless it is one that needs no record.
    pub dialect: Option<String>,
    /// Other formats' metadata.
    pub formats: Vec<Foreign>,
    /// Values of the carrying format's own.
    pub typed: Vec<(String, Value)>,
    /// The places of tensors.
    pub order: Option<Vec<usize>>,
}

impl Carried {
    /// Reads the text that [`Carried::text`] made for the format `own`; besides `dialect` and `formats` it has at most
    /// `members`. The budget is charged for the parsed text.
    ///
    /// # Errors
    /// Malformed for any other text; LimitExceeded.
    pub fn parse(text: &[u8], own: &str, members: &[Member], limits: &Limits) -> Result<Carried> {
        // A value of the tree takes up to 32 bytes for the two that a number and its comma have in the text.
        limits.budget.charge((text.len() as u64).saturating_mul(16))?;
        let json: Json = serde_json::from_slice(text).map_err(|e| Error::malformed(e.to_string()))?;
        let wrong = || Error::malformed("it is not what apr writes there");
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
                    let place = |json: &Json| json.as_u64().and_then(|n| usize::try_from(n).ok());
                    let places = value.as_array().ok_or_else(wrong)?.iter().map(place);
                    carried.order = Some(places.collect::<Option<_>>().ok_or_else(wrong)?);
                }
                _ => return Err(wrong()),
            }
        }
        Ok(carried)
    }

    /// What of `model` the format `own` would else lose: its dialect, unless that is one of `unmarked` or `none`, and other
    /// formats' records, with their bytes fetched.
    ///
    /// # Errors
    /// Whatever fetching raised.
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
        let lost = |foreign: &&Foreign| foreign.format != own && says_something(foreign);
        for foreign in model.foreign.iter().filter(lost) {
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

    /// The text; `None` if there is nothing to say.
    ///
    /// # Errors
    /// Malformed for a value that is not of its type.
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

    /// Gives the model back what other formats said.
    ///
    /// # Errors
    /// Whatever the sink raised.
    pub fn describe(&self, sink: &mut dyn ModelSink) -> Result<()> {
        if let Some(dialect) = &self.dialect {
            sink.fact(Fact::Dialect(dialect))?;
        }
        describe_formats(&self.formats, sink)
    }
}

/// Records as a JSON object by format; their bytes must be held.
///
/// # Errors
/// Malformed for a value that is not of its type.
pub fn formats_to_json(formats: &[Foreign]) -> Result<Map<String, Json>> {
    let mut map = Map::new();
    for foreign in formats {
        let mut held = |bytes: &crate::Bytes| Ok(bytes.clone());
        let json = json::foreign_to_json(foreign, true, &mut |_| Ok(None), &mut held)?;
        map.insert(foreign.format.clone(), json);
    }
    Ok(map)
}

/// The records of a JSON object by format.
///
/// # Errors
/// Malformed for another form, for ids that are none, and for `own`, whose keys are the file's whatever the text says.
pub fn formats(map: &Map<String, Json>, own: &str) -> Result<Vec<Foreign>> {
    let fits = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_';
    let mut found = Vec::with_capacity(map.len());
    for (format, json) in map {
        let wrong = || Error::malformed("it is not what apr writes there");
        if format == own || format.is_empty() || !format.bytes().all(fits) {
            return Err(wrong());
        }
        found.push(json::foreign_from_json(format, json, &mut |_| Err(wrong()))?);
    }
    Ok(found)
}

/// Hands records on.
///
/// # Errors
/// Whatever the sink raised.
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

/// Whether there is more than the record of a single file without metadata, which every reader leaves.
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
