//! Metadata from other formats, and types that a file cannot express: carried as one string, so that
//! converting back restores them.

use crate::canonical;
use crate::header::Header;
use crate::layout::{FORMAT, rank_of};
use apr_sdk::carried_metadata::{self, Member};
use apr_sdk::{ForeignPolicy, LayoutSink, Limits, Model, ModelSink, Result, Value};
use std::collections::HashMap;

pub use apr_sdk::carried_metadata::{KEY, UNREAD};

/// The dialect that names in this format have by default: it needs no record.
const UNMARKED: [&str; 1] = ["hf"];

/// What a file or index carried.
#[derive(Debug, Default)]
pub struct Carried {
    said: carried_metadata::Carried,
    typed: HashMap<String, Value>,
}

impl Carried {
    /// Parses the string that [`Outgoing::text`] wrote.
    ///
    /// # Errors
    /// Malformed for any other string; LimitExceeded.
    pub fn parse(text: &str, limits: &Limits) -> Result<Carried> {
        let members = [Member::Typed, Member::Order];
        let mut said = carried_metadata::Carried::parse(text.as_bytes(), FORMAT, &members, limits)?;
        let typed = std::mem::take(&mut said.typed).into_iter().collect();
        Ok(Carried { said, typed })
    }

    /// The typed value for `key`, unless another program changed the file's value since.
    pub fn value(&self, key: &str, written: impl FnOnce(&Value) -> bool) -> Option<&Value> {
        self.typed.get(key).filter(|value| written(value))
    }

    /// Indices of the header's tensors in the model's original order, if that was carried and fits.
    pub fn order(&self, header: &Header) -> Option<Vec<usize>> {
        let order = self.said.order.as_deref().unwrap_or_default();
        if order.len() != header.len() {
            return None;
        }
        let key = |n: usize| (header.entry(n).rank, header.entry(n).name);
        let mut numbers: Vec<usize> = (0..header.len()).collect();
        numbers.sort_by(|&a, &b| canonical::order(key(a), key(b)));
        // Each may be taken only once.
        let mut sorted: Vec<_> = numbers.into_iter().map(Some).collect();
        order.iter().map(|&place| sorted.get_mut(place)?.take()).collect()
    }

    /// Pushes the other formats' metadata back into the model.
    ///
    /// # Errors
    /// Any error from the sink.
    pub fn describe(&self, sink: &mut dyn ModelSink) -> Result<()> {
        self.said.describe(sink)
    }
}

/// The kind of file that a string is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The only file.
    File,
    /// The index, which describes the whole model.
    Index,
    /// A file beside an index.
    Shard,
}

/// What the files of a model carry.
#[derive(Debug, Default)]
pub struct Outgoing {
    said: carried_metadata::Carried,
    /// The position of each tensor after sorting, if that differs from the model's order.
    order: Option<Vec<usize>>,
}

impl Outgoing {
    /// Collects what this format would otherwise lose.
    ///
    /// # Errors
    /// Any error from fetching.
    pub fn new(model: &Model, policy: ForeignPolicy, sink: &mut dyn LayoutSink) -> Result<Outgoing> {
        let said = carried_metadata::Carried::of(model, FORMAT, &UNMARKED, policy, sink)?;
        let order = if said.formats.is_empty() { None } else { places(model) };
        Ok(Outgoing { said, order })
    }

    /// The string for one file: metadata of the whole model, unless it is a shard, and its own `typed` values
    /// that the file cannot express. `None` if nothing would be lost.
    ///
    /// # Errors
    /// Malformed for a value whose bytes do not match its type.
    pub fn text<'v>(
        &self,
        place: Place,
        typed: impl Iterator<Item = &'v (String, Value)>,
    ) -> Result<Option<String>> {
        let whole =
            if place == Place::Shard { carried_metadata::Carried::default() } else { self.said.clone() };
        let order = self.order.clone().filter(|_| place == Place::File);
        carried_metadata::Carried { order, typed: typed.cloned().collect(), ..whole }.text()
    }
}

/// The position of each tensor of `model` after sorting; `None` if it is sorted already.
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

/// Adds the string to the entries of `__metadata__`, replacing one from the source.
pub fn add(metadata: &mut Vec<(String, String)>, text: String) {
    metadata.retain(|(key, _)| key != KEY);
    metadata.push((KEY.to_owned(), text));
}

/// The entries of `__metadata__` in a canonical order: the position of this module's string among them is
/// irrelevant.
pub fn last(metadata: Option<&[(String, String)]>) -> Option<Vec<&(String, String)>> {
    let mut entries: Vec<_> = metadata?.iter().collect();
    entries.sort_by_key(|(key, _)| key == KEY);
    Some(entries)
}
