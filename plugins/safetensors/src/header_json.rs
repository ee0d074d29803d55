//! Reads the header's JSON in one pass, directly into flat tables, without building a tree.

use crate::json::{Forgotten, Text, Whole, first_time, place};
use crate::layout::{DTYPES, METADATA, PREFIX_LEN, payload_len, rank_of_name};
use apr_sdk::{Error, Limits, escape};
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::ops::Range;

/// Memory for a tensor besides its dimensions: its record, and its entry in the set of names.
const RECORD_COST: u64 = 128;

/// The contents of the text, as offsets into it.
#[derive(Debug, Default)]
pub struct Parsed {
    /// The tensors, in text order.
    pub records: Vec<Record>,
    /// The dimensions of all tensors, concatenated.
    pub dims: Vec<u64>,
    /// The names that contain escapes, unescaped and concatenated.
    pub unescaped: String,
    /// The entries of `__metadata__`.
    pub metadata: Option<Vec<(String, String)>>,
}

/// A tensor's entry.
#[derive(Debug)]
pub struct Record {
    /// Range of its name in the text, or in [`Parsed::unescaped`].
    pub name: Range<usize>,
    /// Whether the name is in [`Parsed::unescaped`].
    pub name_escaped: bool,
    /// Index of the dtype in [`DTYPES`].
    pub rank: usize,
    /// Range of its dimensions in [`Parsed::dims`].
    pub dims: Range<usize>,
    /// Start of its bytes in the data area.
    pub begin: u64,
    /// End of its bytes in the data area (exclusive).
    pub end: u64,
}

impl Parsed {
    /// Parses `text`, which begins at offset 8 of its file.
    pub fn parse(text: &str, limits: &Limits) -> apr_sdk::Result<Parsed> {
        // Names are long: an entry takes about this much text.
        let seen = HashSet::with_capacity(text.len() / 112);
        let mut walk = Walk { text, limits, out: Parsed::default(), seen, tensor: None, problem: None };
        let mut json = serde_json::Deserializer::from_str(text);
        let read = json.deserialize_map(&mut walk).and_then(|()| json.end());
        let Err(error) = read else { return Ok(walk.out) };
        let placed = place(&error, text, PREFIX_LEN, "the header's JSON");
        let offset = placed.offset().unwrap_or(PREFIX_LEN);
        let error = walk.problem.map_or(placed, |problem| problem.at(offset));
        Err(match walk.tensor {
            Some(name) => error.tensor(name),
            None => error,
        })
    }
}

/// The state of the one pass.
struct Walk<'de, 'l> {
    text: &'de str,
    limits: &'l Limits,
    out: Parsed,
    seen: HashSet<Cow<'de, str>>,
    /// The tensor whose entry is being read.
    tensor: Option<Cow<'de, str>>,
    /// An error of our own, whose kind serde cannot carry.
    problem: Option<Error>,
}

impl<'de> Walk<'de, '_> {
    /// Stores `error` and gives serde one to stop with.
    fn keep<T, E: de::Error>(&mut self, result: apr_sdk::Result<T>) -> Result<T, E> {
        result.map_err(|error| {
            self.problem = Some(error);
            E::custom("")
        })
    }

    fn begin_tensor(&mut self, name: Cow<'de, str>) -> apr_sdk::Result<(Range<usize>, bool)> {
        if self.out.records.len() as u64 >= self.limits.tensors {
            return Err(Error::limit(format!("the header has more than {} tensors", self.limits.tensors)));
        }
        self.limits.budget.charge(RECORD_COST)?;
        let place = match &name {
            Cow::Borrowed(text) => {
                // A borrowed string is a slice of the text, so subtracting addresses gives its offset.
                let start = text.as_ptr().addr() - self.text.as_ptr().addr();
                (start..start + text.len(), false)
            }
            Cow::Owned(text) => {
                self.limits.budget.charge(3 * text.len() as u64)?;
                let start = self.out.unescaped.len();
                self.out.unescaped.push_str(text);
                (start..start + text.len(), true)
            }
        };
        self.tensor = Some(name);
        Ok(place)
    }
}

impl<'de> Visitor<'de> for &mut Walk<'de, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of tensor names")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key_seed(Text("a tensor name"))? {
            if let Err(twice) = first_time(&mut self.seen, key.clone()) {
                self.tensor = Some(key).filter(|key| key != METADATA);
                return Err(twice);
            }
            if key == METADATA {
                map.next_value_seed(Metadata(self))?;
                continue;
            }
            let begun = self.begin_tensor(key);
            let (name, name_escaped) = self.keep(begun)?;
            let fields = map.next_value_seed(Fields { walk: self, found: Found::default() })?;
            let whole = self.record(name, name_escaped, fields);
            let record = self.keep(whole)?;
            self.out.records.push(record);
            self.tensor = None;
        }
        Ok(())
    }
}

impl Walk<'_, '_> {
    fn record(&self, name: Range<usize>, name_escaped: bool, found: Found) -> apr_sdk::Result<Record> {
        let missing = |field: &str| Error::malformed(format!("its entry has no `{field}`"));
        let rank = found.rank.ok_or_else(|| missing("dtype"))?;
        let dims = found.dims.ok_or_else(|| missing("shape"))?;
        let (begin, end) = found.offsets.ok_or_else(|| missing("data_offsets"))?;
        let len = end.checked_sub(begin).ok_or_else(|| {
            Error::malformed(format!("its data_offsets end at {end}, before they start at {begin}"))
        })?;
        let shape = &self.out.dims[dims.clone()];
        let (spelled, dtype) = DTYPES[rank];
        let need = payload_len(dtype, shape)?;
        if len != need {
            return Err(Error::malformed(format!(
                "{spelled} {shape:?} requires {need} bytes, but its data_offsets [{begin}, {end}] give it \
                 {len}"
            )));
        }
        Ok(Record { name, name_escaped, rank, dims, begin, end })
    }
}

/// Reads the object under `__metadata__`, whose values must be strings; null is as if there were none.
struct Metadata<'a, 'de, 'l>(&'a mut Walk<'de, 'l>);

impl<'de> DeserializeSeed<'de> for Metadata<'_, 'de, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for Metadata<'_, 'de, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("`__metadata__` as a map from strings to strings")
    }

    fn visit_none<E: de::Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let (mut seen, mut entries) = (HashSet::new(), Vec::new());
        while let Some(key) = map.next_key_seed(Text("a metadata key"))? {
            first_time(&mut seen, key.clone())?;
            let value =
                map.next_value_seed(Text("a string, as required for all values of `__metadata__`"))?;
            let room = self.0.limits.budget.charge(2 * (key.len() + value.len()) as u64 + RECORD_COST);
            self.0.keep(room)?;
            entries.push((key.into_owned(), value.into_owned()));
        }
        self.0.out.metadata = Some(entries);
        Ok(())
    }
}

/// The fields of a tensor's entry found so far.
#[derive(Default)]
struct Found {
    rank: Option<usize>,
    dims: Option<Range<usize>>,
    offsets: Option<(u64, u64)>,
}

struct Fields<'a, 'de, 'l> {
    walk: &'a mut Walk<'de, 'l>,
    found: Found,
}

impl<'de> DeserializeSeed<'de> for Fields<'_, 'de, '_> {
    type Value = Found;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Found, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Fields<'_, 'de, '_> {
    type Value = Found;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a map of `dtype`, `shape` and `data_offsets`")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Found, A::Error> {
        let mut others = HashSet::new();
        let twice = |field: &str| de::Error::custom(format!("duplicate key `{field}`"));
        while let Some(key) = map.next_key_seed(Text("a field"))? {
            match &*key {
                "dtype" => {
                    let name = map.next_value_seed(Text("a dtype's name"))?;
                    let rank = rank_of_name(&name).ok_or_else(|| {
                        let message = format!("its dtype `{}` is not supported", escape(&name, 40));
                        Error::unsupported(message)
                    });
                    let rank = self.walk.keep(rank)?;
                    if self.found.rank.replace(rank).is_some() {
                        return Err(twice("dtype"));
                    }
                }
                "shape" => {
                    let dims = map.next_value_seed(Numbers(self.walk))?;
                    if self.found.dims.replace(dims).is_some() {
                        return Err(twice("shape"));
                    }
                }
                "data_offsets" => {
                    let offsets = map.next_value_seed(Offsets)?;
                    if self.found.offsets.replace(offsets).is_some() {
                        return Err(twice("data_offsets"));
                    }
                }
                // The format's own library ignores other fields; the verbatim form keeps them.
                _ => {
                    first_time(&mut others, key)?;
                    map.next_value_seed(Forgotten)?;
                }
            }
        }
        Ok(self.found)
    }
}

/// A shape, appended to the dimensions of all tensors.
struct Numbers<'a, 'de, 'l>(&'a mut Walk<'de, 'l>);

impl<'de> DeserializeSeed<'de> for Numbers<'_, 'de, '_> {
    type Value = Range<usize>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Range<usize>, D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Numbers<'_, 'de, '_> {
    type Value = Range<usize>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of integers")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Range<usize>, A::Error> {
        let start = self.0.out.dims.len();
        while let Some(dim) = items.next_element_seed(Whole)? {
            let room = self.0.limits.budget.charge(16);
            self.0.keep(room)?;
            self.0.out.dims.push(dim);
        }
        Ok(start..self.0.out.dims.len())
    }
}

/// Two numbers: begin and end.
struct Offsets;

impl<'de> DeserializeSeed<'de> for Offsets {
    type Value = (u64, u64);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(u64, u64), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Offsets {
    type Value = (u64, u64);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("exactly two integers, begin and end")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<(u64, u64), A::Error> {
        let begin = items.next_element_seed(Whole)?.ok_or_else(|| de::Error::invalid_length(0, &self))?;
        let end = items.next_element_seed(Whole)?.ok_or_else(|| de::Error::invalid_length(1, &self))?;
        match items.next_element_seed(Forgotten)? {
            None => Ok((begin, end)),
            Some(()) => Err(de::Error::invalid_length(3, &self)),
        }
    }
}
