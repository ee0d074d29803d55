//! What a model says in other formats' words, and types that a file cannot spell: carried as one string, so that
//! converting back finds them again.

use crate::canonical;
use crate::header::Header;
use crate::layout::{FORMAT, rank_of};
use apr_sdk::carried::{self, Member};
use apr_sdk::{ForeignPolicy, LayoutSink, Limits, Model, ModelSink, Result, Value};
use std::collections::HashMap;

pub use apr_sdk::carried::{KEY, UNREAD};

/// The dialect that names in this format are taken to be of anyway: it needs no record.
const UNMARKED: [&str; 1] = ["hf"];

/// What was carried.
#[derive(Debug, Default)]
pub struct Carried {
    said: carried::Carried,
    typed: HashMap<String, Value>,
}

impl Carried {
    /// Reads the string that [`Outgoing::text`] made.
    ///
    /// # Errors
    /// Malformed for any other; LimitExceeded.
    pub fn parse(text: &str, limits: &Limits) -> Result<Carried> {
        let members = [Member::Typed, Member::Order];
        let mut said = carried::Carried::parse(text.as_bytes(), FORMAT, &members, limits)?;
        let typed = std::mem::take(&mut said.typed).into_iter().collect();
        Ok(Carried { said, typed })
    }

    /// The typed value that stands in the file as `written`: unless another program changed that.
    pub fn value(&self, key: &str, written: impl FnOnce(&Value) -> bool) -> Option<&Value> {
        self.typed.get(key).filter(|value| written(value))
    }

    /// The numbers of the header's tensors in the order that the model had before, if that was carried and fits.
    pub fn order(&self, header: &Header) -> Option<Vec<usize>> {
        let order = self.said.order.as_deref().unwrap_or_default();
        if order.len() != header.len() {
            return None;
        }
        let key = |n: usize| (header.entry(n).rank, header.entry(n).name);
        let mut numbers: Vec<usize> = (0..header.len()).collect();
        numbers.sort_by(|&a, &b| canonical::order(key(a), key(b)));
        // Each may be taken once.
        let mut sorted: Vec<_> = numbers.into_iter().map(Some).collect();
        order.iter().map(|&place| sorted.get_mut(place)?.take()).collect()
    }

    /// Gives the model back what other formats said.
    ///
    /// # Errors
    /// Any error from the sink.
    pub fn describe(&self, sink: &mut dyn ModelSink) -> Result<()> {
        self.said.describe(sink)
    }
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
    said: carried::Carried,
    /// The place of each tensor among the sorted ones, where that is another order than the model's.
    order: Option<Vec<usize>>,
}

impl Outgoing {
    /// Collects what this format would else lose.
    ///
    /// # Errors
    /// Any error from fetching.
    pub fn new(model: &Model, policy: ForeignPolicy, sink: &mut dyn LayoutSink) -> Result<Outgoing> {
        let said = carried::Carried::of(model, FORMAT, &UNMARKED, policy, sink)?;
        let order = if said.formats.is_empty() { None } else { places(model) };
        Ok(Outgoing { said, order })
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
        let whole = if place == Place::Shard { carried::Carried::default() } else { self.said.clone() };
        let order = self.order.clone().filter(|_| place == Place::File);
        carried::Carried { order, typed: typed.cloned().collect(), ..whole }.text()
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
