//! Translates a model's tensors from one dialect to another: which ones exist, their names, and which boxes
//! of the source's tensors they consist of. Pure data; nothing is read.

mod counts;
mod group;
mod passage;
mod places;
mod removal;
mod rows;
mod stacks;

pub use passage::{Made, Passage, Removed, Translated};
pub(in crate::architecture) use rows::ids_of;

use crate::architecture::config::generation::generate;
use crate::architecture::language::pattern::{Pattern, number_in};
use crate::architecture::table::rule::{Presence, images};
use crate::architecture::table::{Generator, Rule};
use crate::wording::n_of;
use apr_sdk::{Error, Result, escape};
use counts::{MOST_GROUPS, check_counts, count_of, counts, too_many, uncounted};
use group::GroupWork;
use passage::{is_kept, whole};
use places::{Group, Outer, find_drop, find_rule, number_beyond, outer_key, outer_places};
use rows::rows_of;
use stacks::Stacks;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Translates the tensors of a model.
///
/// # Errors
/// Unsupported for a tensor that the table does not know, with similar names; Malformed for one that is
/// missing or whose shape contradicts the configuration; any error from the operations.
pub fn translate(passage: &Passage<'_>) -> Result<Translated> {
    let Some(stacks) = Stacks::find(passage)? else { return translate_each(passage) };
    let mut translated =
        translate_each(&Passage { tensors: &stacks.tensors, called: &stacks.called, ..*passage })?;
    stacks.restore(&mut translated.tensors);
    Ok(translated)
}

/// Fails for a model that lacks tensors of its architecture. One that the table does not fit otherwise is not judged.
///
/// # Errors
/// Malformed, with a tensor; any error from evaluating conditions.
pub fn refuse_incomplete(passage: &Passage<'_>) -> Result<()> {
    let stacks = Stacks::find(passage)?;
    let passage = match &stacks {
        Some(stacks) => &Passage { tensors: &stacks.tensors, called: &stacks.called, ..*passage },
        None => passage,
    };
    let groups = check_counts(passage).and_then(|()| match_names(passage, &mut Translated::default()));
    groups.map_or(Ok(()), |groups| find_missing(passage, &groups))
}

/// Fails for a tensor of a layer, an expert or the like beyond the number that the configuration states.
///
/// # Errors
/// Malformed, with the tensor; any error from evaluating conditions.
pub fn refuse_beyond(passage: &Passage<'_>) -> Result<()> {
    for tensor in passage.tensors {
        if find_drop(passage, &tensor.name)?.is_some() {
            continue;
        }
        let found = find_rule(passage, &tensor.name)?.filter(|found| !found.pattern.is_open());
        if let Some(found) = found
            && let Some((place, number)) = number_beyond(passage, &found)?
        {
            return Err(uncounted(passage, place, number, &tensor.name));
        }
    }
    Ok(())
}

fn translate_each(passage: &Passage<'_>) -> Result<Translated> {
    check_counts(passage)?;
    let mut translated = Translated::default();
    let groups = match_names(passage, &mut translated)?;
    find_missing(passage, &groups)?;
    // With their indices in the source.
    let mut tensors: Vec<(usize, Made)> = Vec::new();
    for ((number, outer), group) in &groups {
        let rule = &passage.table.rules[*number];
        let last = group.found.values().max().copied().unwrap_or(0);
        let of_group = work_group(passage, rule, outer, group, &mut translated)?;
        tensors.extend(of_group.into_iter().map(|tensor| (last, tensor)));
        for &index in &group.others {
            tensors.extend(other(passage, rule, index, &mut translated)?.map(|tensor| (index, tensor)));
        }
    }
    let by_name = passage.table.dialect(passage.to).is_some_and(|dialect| dialect.by_name);
    if by_name && !passage.keep_order {
        tensors.sort_by(|(_, one), (_, other)| one.canonical_name().cmp(other.canonical_name()));
    } else {
        tensors.sort_by_key(|(index, _)| *index);
    }
    translated.tensors = generated(passage, &groups)?;
    translated.tensors.extend(tensors.into_iter().map(|(_, tensor)| tensor));
    rename(passage, &mut translated.tensors)?;
    Ok(translated)
}

/// Renames tensors from another dialect where files of the target's dialect use other names than the table.
fn rename(passage: &Passage<'_>, tensors: &mut [Made]) -> Result<()> {
    let Some(dialect) = passage.table.dialect(passage.to).filter(|_| !passage.table.is_own(passage.from))
    else {
        return Ok(());
    };
    for rename in &dialect.renames {
        if !rename.is_written(passage.scope)? {
            continue;
        }
        for tensor in tensors.iter_mut() {
            if let Some(name) = rename.undo(&tensor.name) {
                name.clone_into(&mut tensor.facts.name);
                tensor.name = name;
            }
        }
    }
    Ok(())
}

fn match_names(
    passage: &Passage<'_>,
    translated: &mut Translated,
) -> Result<BTreeMap<(usize, Outer), Group>> {
    let table = passage.table;
    let mut groups: BTreeMap<(usize, Outer), Group> = BTreeMap::new();
    let outer: Vec<Vec<&str>> = table.rules.iter().map(|rule| outer_places(passage, rule)).collect();
    let counts = counts(passage)?;
    let mut unknown = Vec::new();
    for (at, tensor) in passage.tensors.iter().enumerate() {
        if let Some(drop) = find_drop(passage, &tensor.name)? {
            translated.dropped.push((tensor.name.clone(), drop.reason.clone()));
            continue;
        }
        let Some(found) = find_rule(passage, &tensor.name)? else {
            unknown.push(tensor.name.as_str());
            continue;
        };
        // An open name matches anything with its prefix, on its own condition.
        if !found.pattern.is_open() {
            for (place, number) in found.pattern.places().iter().zip(&found.numbers) {
                match counts.iter().find(|(counted, _)| *counted == place) {
                    Some((_, count)) if count.is_none_or(|count| *number >= count) => {
                        return Err(uncounted(passage, place, *number, &tensor.name));
                    }
                    _ => {}
                }
            }
        }
        let outer = &outer[found.rule];
        let inner = found.pattern.places().iter().filter(|place| !outer.contains(&place.as_str()));
        let inner = inner.map(|place| found.number(place)).collect();
        let group = groups.entry((found.rule, outer_key(&found, outer))).or_default();
        let slot = (found.image, inner);
        let is_own = passage.called[at].name == tensor.name;
        let taken = group.found.get(&slot).copied();
        // The table's own name takes precedence; otherwise the first.
        match taken {
            _ if found.pattern.is_open() => group.others.push(at),
            Some(_) if !is_own => group.others.push(at),
            other => {
                group.others.extend(other);
                group.found.insert(slot, at);
            }
        }
    }
    match unknown.is_empty() {
        true => Ok(groups),
        // Not a single match: this is a different kind of model.
        false if groups.is_empty() => {
            let tensors = n_of(passage.tensors.len(), "tensor");
            let message = format!("architecture `{}` has none of its {tensors}", passage.table.id);
            let error = Error::unsupported(message);
            Err(match wrapper(passage) {
                Some(wrapper) => error.hint(format!(
                    "every name begins with `{0}.`: convert the model with --prefix {0}, which strips that",
                    escape(wrapper, 120)
                )),
                None => error.hint(OTHER_TABLE),
            })
        }
        false => Err(unknown_names(passage, &unknown)),
    }
}

/// The path below which a wrapper, such as `module` of data-parallel training, has put all tensors of the architecture; `None`
/// if nothing but another architecture explains their names.
fn wrapper<'p>(passage: &Passage<'p>) -> Option<&'p str> {
    /// Parts of the path: wrappers are wrapped in others, but not often.
    const DEEPEST: usize = 4;
    let first = passage.called.first()?.name.as_str();
    let ends = first.match_indices('.').map(|(end, _)| end).take(DEEPEST);
    ends.map(|end| &first[..end]).find(|path| {
        let mut names = passage
            .called
            .iter()
            .map(|tensor| tensor.name.strip_prefix(path).and_then(|rest| rest.strip_prefix('.')));
        names.all(|name| name.is_some_and(|name| passage.table.names(passage.from, name)))
    })
}

/// Advice for a table that does not fit.
pub(super) const OTHER_TABLE: &str =
    "specify the architecture with --arch ID (see `apr arch list`), or pass --arch none to keep every name";

/// A tensor that is unchanged or dropped.
fn other(
    passage: &Passage<'_>,
    rule: &Rule,
    number: usize,
    translated: &mut Translated,
) -> Result<Option<Made>> {
    let tensor = &passage.called[number];
    if is_kept(passage, rule) {
        let kept = Made::new(tensor.name.clone(), tensor.dtype, tensor.shape.clone(), rule);
        return Ok(Some(Made { boxes: vec![whole(number, tensor)?], ..kept }));
    }
    if rule.side(passage.to).is_none_or(|side| side.dropped.is_none()) {
        if rule.members.iter().any(Pattern::is_open) {
            let message = format!("the table has no name for it in the dialect `{}`", passage.to);
            return Err(Error::unsupported(message).tensor(&tensor.name));
        }
        translated
            .dropped
            .push((tensor.name.clone(), "is a duplicate of a tensor with another name".to_owned()));
    }
    Ok(None)
}

/// The error for unknown names: lists the most similar known ones, with the numbers of the unknown.
fn unknown_names(passage: &Passage<'_>, unknown: &[&str]) -> Error {
    let wanted = without_digits(unknown[0]);
    let mut near: Vec<(usize, &str)> = Vec::new();
    for pattern in passage.table.rules.iter().flat_map(|rule| images(rule, passage.from).0) {
        let known = without_digits(&pattern.name(|_| 0));
        near.push((strsim::levenshtein(&wanted, &known), pattern.text()));
    }
    near.sort();
    let near: Vec<String> = near.iter().take(3).map(|(_, name)| format!("`{name}`")).collect();
    let more = match unknown.len() {
        1 => String::new(),
        n => format!(", and {} more", n - 1),
    };
    let message = format!("architecture `{}` has no tensor with this name{more}", passage.table.id);
    let hint = format!(
        "specify another architecture with --arch ID, pass --arch none to keep every name, or drop the \
         tensor with --drop NAME; the most similar names are {}",
        near.join(", ")
    );
    Error::unsupported(message).tensor(unknown[0]).hint(hint)
}

fn without_digits(name: &str) -> String {
    name.replace(|c: char| c.is_ascii_digit(), "")
}

/// Fails if a tensor that the table requires is missing, unless the user left it out.
fn find_missing(passage: &Passage<'_>, groups: &BTreeMap<(usize, Outer), Group>) -> Result<()> {
    let mut missing = Vec::new();
    let mut unmet = Vec::new();
    let excused = Removed::groups(passage)?;
    let present: HashSet<usize> = groups.keys().map(|(rule, _)| *rule).collect();
    let n_tensors = passage.tensors.len() + passage.removed.len();
    for (number, rule) in passage.table.rules.iter().enumerate() {
        let side = rule.side(passage.from);
        let may_lack = match rule.presence {
            Presence::Always => false,
            Presence::AllOrNone => {
                let rules = &passage.table.rules;
                !present.iter().any(|other| *other == number || rule.is_stated_with(&rules[*other]))
            }
            Presence::Some => true,
        };
        // What only the target cannot do without is no mistake of the model.
        let reason = rule.side(passage.to).and_then(|side| side.required.as_deref()).filter(|_| may_lack);
        if may_lack && reason.is_none() || side.is_some_and(|side| side.dropped.is_some()) {
            continue;
        }
        let places = outer_places(passage, rule);
        let mut wanted: Vec<Outer> = vec![Vec::new()];
        for place in &places {
            let found = groups.keys().filter(|(n, _)| *n == number).map(|(_, outer)| outer);
            let most = found.filter_map(|outer| outer.get(places.iter().position(|p| p == place)?)).max();
            let count = count_of(passage, place)?.unwrap_or(most.map_or(1, |n| n + 1));
            let all = (wanted.len() as u64).saturating_mul(count);
            if count > n_tensors as u64 || all > MOST_GROUPS {
                let has = format!("the model has only {}", n_of(n_tensors, "tensor"));
                return Err(too_many(passage, place, count, &has));
            }
            wanted = wanted
                .into_iter()
                .flat_map(|outer| (0..count).map(move |n| [&outer[..], &[n]].concat()))
                .collect();
        }
        for outer in wanted {
            let numbers: Vec<(String, u64)> =
                places.iter().map(|p| (*p).to_owned()).zip(outer.iter().copied()).collect();
            let exists = rule.applies(&passage.scope.at(&numbers))?;
            let key = (number, outer);
            if exists && !groups.contains_key(&key) && !excused.contains(&key) {
                let first = &images(rule, passage.from).0[0];
                let name = match side {
                    Some(side) => side.name(first, passage.scope, number_in(&numbers))?,
                    None => first.name(number_in(&numbers)),
                };
                match reason {
                    Some(reason) => unmet.push((name, reason)),
                    None => missing.push(name),
                }
            }
        }
    }
    let more_than = |n: usize| if n > 1 { format!(", and {} more", n - 1) } else { String::new() };
    if let Some(first) = missing.first() {
        let more = more_than(missing.len());
        let message =
            format!("this tensor is missing, and architecture `{}` requires it{more}", passage.table.id);
        return Err(Error::malformed(message).tensor(first));
    }
    let Some((first, reason)) = unmet.first() else { return Ok(()) };
    let more = more_than(unmet.len());
    let message =
        format!("this tensor is missing, and the dialect `{}` cannot do without it{more}", passage.to);
    Err(Error::unsupported(message).tensor(first).hint(*reason))
}

/// The result's tensors for one group.
fn work_group(
    passage: &Passage<'_>,
    rule: &Rule,
    outer: &Outer,
    group: &Group,
    translated: &mut Translated,
) -> Result<Vec<Made>> {
    let places = outer_places(passage, rule);
    let numbers: Vec<(String, u64)> =
        places.iter().map(|p| (*p).to_owned()).zip(outer.iter().copied()).collect();
    let sources: Vec<usize> = group.found.values().copied().collect();
    if let Some(reason) = rule.side(passage.to).and_then(|side| side.dropped.as_ref()) {
        let left = sources.iter().chain(&group.others);
        translated.dropped.extend(left.map(|&n| (passage.called[n].name.clone(), reason.clone())));
        return Ok(Vec::new());
    }
    if sources.is_empty() {
        return Ok(Vec::new());
    }
    let scope = passage.scope.at(&numbers);
    let work = GroupWork { passage, rule, scope: &scope, numbers: &numbers, sources: &sources };
    work.make(group, translated).map_err(|e| e.tensor(&passage.tensors[sources[0]].name))
}

/// Bytes of all computed tensors, which lie in memory.
const MOST_MADE: usize = 64 << 20;

/// The numbers at the place of a computed tensor's name: one tensor for each, and one of a name without a place.
fn numbers_of(passage: &Passage<'_>, image: &Pattern) -> Result<Vec<Vec<(String, u64)>>> {
    let [place] = image.places() else { return Ok(vec![Vec::new()]) };
    let count = count_of(passage, place)?.unwrap_or(0);
    if count > MOST_GROUPS {
        return Err(too_many(passage, place, count, "the count overflows"));
    }
    Ok((0..count).map(|n| vec![(place.clone(), n)]).collect())
}

/// Tensors in the target's dialect that the source lacks, computed from the configuration or from other tensors.
fn generated(passage: &Passage<'_>, groups: &BTreeMap<(usize, Outer), Group>) -> Result<Vec<Made>> {
    let mut out = Vec::new();
    let mut n_bytes = 0usize;
    let present: HashMap<usize, ()> = groups.keys().map(|(number, _)| (*number, ())).collect();
    for (number, rule) in passage.table.rules.iter().enumerate() {
        let Some(side) = rule.side(passage.to) else { continue };
        let (Some(generator), Some(image)) = (&side.generated, side.images.first()) else { continue };
        if present.contains_key(&number) {
            continue;
        }
        for numbers in numbers_of(passage, image)? {
            let scope = passage.scope.at(&numbers);
            if !rule.applies(&scope)? {
                continue;
            }
            if let Generator::Rows { of, tokens } = generator {
                let name = image.name(number_in(&numbers));
                let made = rows_of(passage, rule, &name, of, tokens, groups);
                out.push(made.map_err(|e| e.tensor(&name))?);
                continue;
            }
            let Some((dtype, shape, bytes)) = generate(generator, &scope)? else { continue };
            n_bytes += bytes.len();
            if n_bytes > MOST_MADE {
                return Err(Error::limit(format!(
                    "the configuration implies tensors of more than {MOST_MADE} bytes"
                ))
                .tensor(image.text()));
            }
            let name = image.name(number_in(&numbers));
            let generated = Made::new(name, dtype, shape, rule);
            out.push(Made { bytes: Some(bytes), words: vec!["generate"], ..generated });
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::architecture::config::{Config, ConfigScope};
    use crate::architecture::table::{CANONICAL, Table};
    use apr_sdk::{DType, Extent, Payload, Tensor};

    const TABLE: &str = r#"
        id = "thing"
        [places]
        layer = "layers"
        [config]
        layers = "int"
        [dialect.hf]
        same_names = true
        rename = [{ start = "thing.", to = "" }, { end = ".gamma", to = ".weight" }]
        [dialect.gguf]
        [[tensor]]
        name = "layers.{layer}.norm.weight"
        gguf = "blk.{layer}.norm.weight"
        [[tensor]]
        name = "layers.{layer}.*"
        when = "layer >= layers"
        optional = true
        gguf = { drop = "is not run" }
    "#;

    fn translated(names: &[&str], from: &str, to: &str) -> Result<Translated> {
        let table = Table::parse(TABLE, &|_| Err(Error::invalid_argument("no base"))).unwrap();
        let config = Config::from_json(&table, br#"{"layers": 1}"#).unwrap();
        let scope = ConfigScope::new(&table, &config, &|_, _| None);
        let called = names.iter().map(|name| Tensor {
            name: (*name).to_owned(),
            dtype: DType::F32,
            shape: vec![2],
            payload: Payload::Extent { extent: Extent::new(0, 0, 8), view: None },
        });
        let called: Vec<Tensor> = called.collect();
        let tensors: Vec<Tensor> = called.iter().map(|tensor| table.own_tensor(from, tensor)).collect();
        translate(&Passage {
            table: &table,
            scope: &scope,
            tensors: &tensors,
            called: &called,
            removed: &[],
            from,
            to,
            tokens: &|_| Ok(None),
            keep_order: true,
        })
    }

    fn names(translated: &Translated) -> Vec<&str> {
        translated.tensors.iter().map(|made| made.name.as_str()).collect()
    }

    #[test]
    fn names_that_a_file_has_stay_where_the_dialects_are_the_same() {
        let spelled = ["layers.0.norm.gamma"];
        assert_eq!(names(&translated(&spelled, "hf", "gguf").unwrap()), ["blk.0.norm.weight"]);
        assert_eq!(names(&translated(&spelled, "hf", CANONICAL).unwrap()), spelled);
        assert_eq!(names(&translated(&spelled, CANONICAL, "hf").unwrap()), spelled);
        assert_eq!(names(&translated(&spelled, CANONICAL, "gguf").unwrap()), ["blk.0.norm.weight"]);
        // The table's own name takes precedence; the other tensor is reported as dropped.
        let twice = ["thing.layers.0.norm.weight", "layers.0.norm.weight"];
        let there = translated(&twice, "hf", "gguf").unwrap();
        assert_eq!(names(&there), ["blk.0.norm.weight"]);
        assert_eq!(there.tensors[0].boxes[0].tensor, Some(1));
        assert_eq!(there.dropped[0].0, twice[0]);
        assert_eq!(names(&translated(&twice, "hf", CANONICAL).unwrap()), twice);
        // Renames of one dialect do not apply to another's names.
        translated(&["thing.blk.0.norm.weight"], "gguf", "hf").unwrap_err();
    }

    #[test]
    fn an_open_name_stands_for_what_its_condition_allows() {
        let all = ["layers.0.norm.weight", "layers.1.norm.weight", "layers.1.other"];
        let there = translated(&all, "hf", "gguf").unwrap();
        assert_eq!(names(&there), ["blk.0.norm.weight"]);
        assert_eq!(there.dropped.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), all[1..]);
        assert_eq!(names(&translated(&all, "hf", CANONICAL).unwrap()), all);
        let error = translated(&["layers.0.norm.weight", "layers.0.other"], "hf", "gguf").unwrap_err();
        assert_eq!(error.tensor_name(), Some("layers.0.other"));
    }
}
