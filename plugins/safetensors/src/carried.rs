//! What a model says in other formats' words, and types that a file cannot spell: carried as one string, so that
//! converting back finds them again.

use crate::canonical;
use crate::header::Header;
use crate::layout::{FORMAT, rank_of};
use apr_sdk::{
    Error, Fact, Foreign, ForeignPolicy, LayoutSink, Limits, Model, ModelSink, Result, Value,
    json as sdk_json,
};
use serde_json::{Map, Value as Json};
use std::collections::HashMap;

/// The key of the string: in `__metadata__`, or in the `metadata` of an index.
pub const KEY: &str = "apr.foreign";

/// Said of a file that has the key with something else in it.
pub const UNREAD: &str =
    "the metadata key `apr.foreign` is kept as it is: it does not hold what apr writes there";

/// Dialects that need no record: `none`, and the one that names in this format are taken to be of anyway.
const UNMARKED: [&str; 2] = ["none", "hf"];

/// What was carried.
#[derive(Debug, Default)]
pub struct Carried {
    dialect: Option<String>,
    formats: Vec<Foreign>,
    typed: HashMap<String, Value>,
    order: Vec<usize>,
}

impl Carried {
    /// Reads the string that [`to_text`] made.
    ///
    /// # Errors
    /// Malformed for any other; LimitExceeded.
    pub fn parse(text: &str, limits: &Limits) -> Result<Carried> {
        // A value of the tree takes up to 32 bytes for the two that a number and its comma have in the text.
        limits.budget.charge(text.len() as u64 * 16)?;
        let json: Json = serde_json::from_str(text).map_err(|e| Error::malformed(e.to_string()))?;
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
                "typed" => {
                    for (key, json) in value.as_object().ok_or_else(wrong)? {
                        carried.typed.insert(key.clone(), sdk_json::value_from_json(json)?);
                    }
                }
                "order" => {
                    let place = |json: &Json| json.as_u64().and_then(|n| usize::try_from(n).ok());
                    let places = value.as_array().ok_or_else(wrong)?.iter().map(place);
                    carried.order = places.collect::<Option<_>>().ok_or_else(wrong)?;
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

    /// The typed value that stands in the file as `written`: unless another program changed that.
    pub fn value(&self, key: &str, written: impl FnOnce(&Value) -> bool) -> Option<&Value> {
        self.typed.get(key).filter(|value| written(value))
    }

    /// The numbers of the header's tensors in the order that the model had before, if that was carried and fits.
    pub fn order(&self, header: &Header) -> Option<Vec<usize>> {
        if self.order.len() != header.len() {
            return None;
        }
        let key = |n: usize| (header.entry(n).rank, header.entry(n).name);
        let mut numbers: Vec<usize> = (0..header.len()).collect();
        numbers.sort_by(|&a, &b| canonical::order(key(a), key(b)));
        // Each may be taken once.
        let mut sorted: Vec<_> = numbers.into_iter().map(Some).collect();
        self.order.iter().map(|&place| sorted.get_mut(place)?.take()).collect()
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

/// Which file of a model a string is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The only one.
    File,
    /// The index, which says what is said of the whole model.
    Index,
    /// A file beside an index.
    Shard,
}

/// What is to be carried by the files of a model.
#[derive(Debug, Default)]
pub struct Outgoing {
    all: Map<String, Json>,
    /// The place of each tensor among the sorted ones, where that is another order than the model's.
    order: Option<Vec<usize>>,
}

impl Outgoing {
    /// Collects what this format would else lose.
    ///
    /// # Errors
    /// Whatever fetching raised.
    pub fn new(model: &Model, policy: ForeignPolicy, sink: &mut dyn LayoutSink) -> Result<Outgoing> {
        let mut all = Map::new();
        if policy == ForeignPolicy::Drop {
            return Ok(Outgoing::default());
        }
        if !model.dialect.is_empty() && !UNMARKED.contains(&model.dialect.as_str()) {
            all.insert("dialect".into(), Json::from(model.dialect.as_str()));
        }
        let with_verbatim = policy != ForeignPolicy::Typed;
        let mut formats = Map::new();
        let lost = |foreign: &&Foreign| foreign.format != FORMAT && says_something(foreign);
        for foreign in model.foreign.iter().filter(lost) {
            let mut fetch = |bytes: &_| sink.fetch(bytes);
            let json = sdk_json::foreign_to_json(foreign, with_verbatim, &mut |_| Ok(None), &mut fetch)?;
            formats.insert(foreign.format.clone(), json);
        }
        let mut order = None;
        if !formats.is_empty() {
            all.insert("formats".into(), Json::Object(formats));
            order = places(model);
        }
        Ok(Outgoing { all, order })
    }

    /// The string for one file: unless it is a shard, with what is said of the whole model; for each, with its own
    /// `typed` values that the file cannot spell. `None` where nothing would be lost.
    ///
    /// # Errors
    /// Malformed for a value that is not of its type.
    pub fn text<'v>(
        &self,
        place: Place,
        typed: impl Iterator<Item = &'v (String, Value)>,
    ) -> Result<Option<String>> {
        let mut all = if place == Place::Shard { Map::new() } else { self.all.clone() };
        if let (Place::File, Some(order)) = (place, &self.order) {
            all.insert("order".into(), Json::from(order.as_slice()));
        }
        let mut values = Map::new();
        for (key, value) in typed {
            let json = sdk_json::value_to_json(value.kind, value.bytes.inline().unwrap_or_default())?;
            values.insert(key.clone(), json);
        }
        if !values.is_empty() {
            all.insert("typed".into(), Json::Object(values));
        }
        Ok((!all.is_empty()).then(|| Json::Object(all).to_string()))
    }
}

/// The place of each tensor of `model` among the sorted ones; `None` if it is sorted.
fn places(model: &Model) -> Option<Vec<usize>> {
    let mut sorted = Vec::with_capacity(model.tensors.len());
    for (n, tensor) in model.tensors.iter().enumerate() {
        sorted.push((rank_of(tensor.dtype)?, tensor.name.as_str(), n));
    }
    sorted.sort_by(|a, b| canonical::order((a.0, a.1), (b.0, b.1)));
    let mut places = vec![0; sorted.len()];
    for (place, (.., n)) in sorted.iter().enumerate() {
        places[*n] = place;
    }
    (!places.is_sorted()).then_some(places)
}

/// Adds the string to the entries of `__metadata__`, in place of one that the source had there.
pub fn add(metadata: &mut Vec<(String, String)>, text: String) {
    metadata.retain(|(key, _)| key != KEY);
    metadata.push((KEY.to_owned(), text));
}

/// Entries of `__metadata__` in an order in which two that mean the same are equal: where the string of this module
/// stands among them says nothing.
pub fn last(metadata: Option<&[(String, String)]>) -> Option<Vec<&(String, String)>> {
    let mut entries: Vec<_> = metadata?.iter().collect();
    entries.sort_by_key(|(key, _)| key == KEY);
    Some(entries)
}
