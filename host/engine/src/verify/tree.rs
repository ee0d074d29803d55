//! The tensors of a model as a tree of their dotted names, in which identical layers are merged.

use apr_sdk::{DType, Result, Tensor, checked_elements};
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;

/// Number of dots of a name that are used: the rest is one part.
const DEEPEST: usize = 24;

/// Tensors whose names share a prefix, or a single tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// The shared part of the name, after that of the enclosing group: `blk.0–31`, `attn_q.weight`.
    pub name: String,
    /// The numbers of the merged members; empty for a group without a number.
    pub members: Vec<RangeInclusive<u64>>,
    /// The contents; for a merged group, those of each member.
    pub body: Body,
}

/// The contents of a group.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Body {
    /// A single tensor.
    Tensor {
        /// The tensor's dtype.
        dtype: DType,
        /// Dimensions, outermost first.
        shape: Vec<u64>,
        /// Length of the payload in bytes.
        bytes: u64,
    },
    /// Subgroups in file order; those of a numbered group by name.
    Groups(Vec<Group>),
}

/// Totals over tensors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Number of tensors.
    pub tensors: u64,
    /// Number of elements.
    pub parameters: u64,
    /// Total length of their payload in bytes.
    pub bytes: u64,
    /// Number of tensors per dtype.
    pub types: BTreeMap<&'static str, u64>,
}

impl std::hash::Hash for Group {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (&self.name, &self.members, &self.body).hash(state);
    }
}

/// The rest of a tensor's name, and the tensor.
type Named<'t> = (&'t str, &'t Tensor);

/// The tree of these tensors.
///
/// # Errors
/// Unsupported for an unknown dtype.
pub fn tree(tensors: &[Tensor]) -> Result<Vec<Group>> {
    let named: Vec<Named<'_>> = tensors.iter().map(|tensor| (tensor.name.as_str(), tensor)).collect();
    groups(named, DEEPEST)
}

/// The totals over all groups.
pub fn totals(groups: &[Group]) -> Totals {
    let mut sum = Totals::default();
    groups.iter().for_each(|group| group.add_to(&mut sum, 1));
    sum
}

fn groups(named: Vec<Named<'_>>, deepest: usize) -> Result<Vec<Group>> {
    // Both may exist: a tensor `a`, and others below `a.`.
    let mut known: HashMap<(&str, bool), usize> = HashMap::new();
    let mut parts: Vec<(&str, bool, Vec<Named<'_>>)> = Vec::new();
    for (name, tensor) in named {
        let (head, rest) = match name.split_once('.').filter(|_| deepest > 0) {
            Some((head, rest)) => (head, Some(rest)),
            None => (name, None),
        };
        let at = *known.entry((head, rest.is_some())).or_insert(parts.len());
        if at == parts.len() {
            parts.push((head, rest.is_some(), Vec::new()));
        }
        parts[at].2.push((rest.unwrap_or(""), tensor));
    }
    drop(known);
    let mut groups = Vec::with_capacity(parts.len());
    for (head, is_below, tensors) in parts {
        if is_below {
            groups.push(Group::of(head, Body::Groups(self::groups(tensors, deepest - 1)?)));
            continue;
        }
        for (_, tensor) in tensors {
            let bytes = tensor.payload_len()?;
            let shape = tensor.shape.clone();
            groups.push(Group::of(head, Body::Tensor { dtype: tensor.dtype, shape, bytes }));
        }
    }
    Ok(joined(groups))
}

/// Merges identical numbered groups, at the position of the first.
fn joined(groups: Vec<Group>) -> Vec<Group> {
    let mut known: HashMap<Body, (usize, Vec<u64>)> = HashMap::new();
    let mut others = Vec::new();
    for (place, group) in groups.into_iter().enumerate() {
        match number(&group.name) {
            Some(number) => {
                known.entry(group.body.sorted()).or_insert((place, Vec::new())).1.push(number);
            }
            None => others.push((place, group)),
        }
    }
    let numbered = known.into_iter().map(|(body, (place, mut numbers))| {
        numbers.sort_unstable();
        let members = ranges(&numbers);
        (place, Group { name: words(&members), members, body })
    });
    let mut placed: Vec<(usize, Group)> = numbered.chain(others).collect();
    placed.sort_by_key(|(place, _)| *place);
    placed.into_iter().map(|(_, group)| group.merged()).collect()
}

/// The number that a part of a name spells.
fn number(name: &str) -> Option<u64> {
    name.parse().ok().filter(|number: &u64| number.to_string() == name)
}

/// Ascending numbers as ranges of consecutive ones.
fn ranges(numbers: &[u64]) -> Vec<RangeInclusive<u64>> {
    let mut ranges: Vec<RangeInclusive<u64>> = Vec::new();
    for &number in numbers {
        match ranges.last_mut() {
            Some(last) if last.end().checked_add(1) == Some(number) => *last = *last.start()..=number,
            _ => ranges.push(number..=number),
        }
    }
    ranges
}

/// `0–3, 6, 9–11`; of many ranges, the first few.
fn words(ranges: &[RangeInclusive<u64>]) -> String {
    const MOST: usize = 12;
    let mut words = Vec::new();
    for range in ranges.iter().take(MOST) {
        words.push(match (range.start(), range.end()) {
            (start, end) if start == end => start.to_string(),
            (start, end) => format!("{start}–{end}"),
        });
    }
    words.extend((ranges.len() > MOST).then(|| "…".to_owned()));
    words.join(", ")
}

impl Group {
    fn of(name: &str, body: Body) -> Group {
        Group { name: name.to_owned(), members: Vec::new(), body }
    }

    /// The number of members.
    pub fn count(&self) -> u64 {
        let sizes = self.members.iter().map(|range| (range.end() - range.start()).saturating_add(1));
        sizes.fold(0, u64::saturating_add).max(1)
    }

    /// The subgroups.
    pub fn groups(&self) -> &[Group] {
        match &self.body {
            Body::Tensor { .. } => &[],
            Body::Groups(groups) => groups,
        }
    }

    /// The totals over all members.
    pub fn totals(&self) -> Totals {
        let mut sum = Totals::default();
        self.add_to(&mut sum, 1);
        sum
    }

    fn add_to(&self, sum: &mut Totals, times: u64) {
        let times = times.saturating_mul(self.count());
        match &self.body {
            Body::Groups(groups) => groups.iter().for_each(|group| group.add_to(sum, times)),
            Body::Tensor { dtype, shape, bytes } => {
                let elements = checked_elements(shape).unwrap_or(u64::MAX);
                sum.tensors = sum.tensors.saturating_add(times);
                sum.parameters = sum.parameters.saturating_add(elements.saturating_mul(times));
                sum.bytes = sum.bytes.saturating_add(bytes.saturating_mul(times));
                let of_type = sum.types.entry(dtype.name()).or_default();
                *of_type = of_type.saturating_add(times);
            }
        }
    }

    /// Skips a level that has only one subgroup.
    fn merged(mut self) -> Group {
        match &mut self.body {
            Body::Groups(groups)
                if groups.len() == 1 && (self.members.is_empty() || groups[0].members.is_empty()) =>
            {
                let Some(only) = groups.pop() else { return self };
                let name = format!("{}.{}", self.name, only.name);
                let members = if self.members.is_empty() { only.members } else { self.members };
                Group { name, members, body: only.body }
            }
            _ => self,
        }
    }
}

impl Body {
    /// Sorts subgroups by name: layers may be identical although the file orders them differently.
    fn sorted(mut self) -> Body {
        if let Body::Groups(groups) = &mut self {
            groups.sort_by(|a, b| a.name.cmp(&b.name));
            for group in groups {
                let body = std::mem::replace(&mut group.body, Body::Groups(Vec::new()));
                group.body = body.sorted();
            }
        }
        self
    }
}

/// `name`, the totals, and for a single tensor `dtype` and `shape`; for merged groups their numbers as
/// `members`, ranges of first and last, and `groups` as each member has them.
impl Serialize for Group {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        let sum = self.totals();
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("name", &self.name)?;
        if !self.members.is_empty() {
            let ends: Vec<_> = self.members.iter().map(|range| (range.start(), range.end())).collect();
            map.serialize_entry("members", &ends)?;
        }
        map.serialize_entry("tensors", &sum.tensors)?;
        map.serialize_entry("parameters", &sum.parameters)?;
        map.serialize_entry("bytes", &sum.bytes)?;
        match &self.body {
            Body::Tensor { dtype, shape, .. } => {
                map.serialize_entry("dtype", dtype.name())?;
                map.serialize_entry("shape", shape)?;
            }
            Body::Groups(groups) => {
                map.serialize_entry("types", &sum.types)?;
                map.serialize_entry("groups", groups)?;
            }
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use apr_sdk::{Extent, Payload};

    fn tensor(name: &str, dtype: DType, shape: &[u64]) -> Tensor {
        let payload = Payload::Extent { extent: Extent::new(0, 0, 0), view: None };
        Tensor { name: name.to_owned(), dtype, shape: shape.to_vec(), payload }
    }

    fn lines(groups: &[Group], indent: usize, out: &mut Vec<String>) {
        for group in groups {
            let sum = group.totals();
            out.push(format!("{}{} {}", " ".repeat(indent), group.name, sum.parameters));
            lines(group.groups(), indent + 1, out);
        }
    }

    fn shown(tensors: &[Tensor]) -> Vec<String> {
        let mut out = Vec::new();
        lines(&tree(tensors).unwrap(), 0, &mut out);
        out
    }

    #[test]
    fn layers_that_are_made_alike_stand_once() {
        let mut tensors = vec![tensor("embd.weight", DType::F32, &[4, 2])];
        for layer in 0..4u64 {
            let wide = if layer == 2 { DType::F32 } else { DType::F16 };
            let mut own = vec![
                tensor(&format!("blk.{layer}.up.weight"), wide, &[2, 2]),
                tensor(&format!("blk.{layer}.up.bias"), DType::F32, &[2]),
            ];
            // Shards may have a layer's tensors in another order.
            own.rotate_left(usize::from(layer == 1));
            tensors.extend(own);
        }
        assert_eq!(
            shown(&tensors),
            [
                "embd.weight 8",
                "blk 24",
                " 0–1, 3.up 18",
                "  bias 2",
                "  weight 4",
                " 2.up 6",
                "  bias 2",
                "  weight 4"
            ]
        );
        assert_eq!(totals(&tree(&tensors).unwrap()).types, [("F16", 3), ("F32", 6)].into());
    }

    #[test]
    fn odd_names_stay_apart() {
        let all = ["a", "a.b", "a.b.c", ".", "", "0", "00", "007"].map(|name| tensor(name, DType::U8, &[1]));
        assert_eq!(totals(&tree(&all).unwrap()).tensors, 8);
        let deep = tensor(&"x.".repeat(100_000), DType::U8, &[1]);
        assert_eq!(shown(&[deep]).len(), 1);
        let max = u64::MAX.to_string();
        let all = [tensor(&max, DType::U8, &[1]), tensor("0", DType::U8, &[1])];
        assert_eq!(shown(&all), [format!("0, {max} 2")]);
    }

    #[test]
    fn ranges_are_words() {
        assert_eq!(words(&ranges(&[0, 1, 2, 5, 7, 8])), "0–2, 5, 7–8");
        assert!(words(&ranges(&(0..100).map(|n| n * 2).collect::<Vec<_>>())).ends_with(", 22, …"));
    }
}
