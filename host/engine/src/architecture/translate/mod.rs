//! Translates a model's tensors from one dialect to another: which ones exist, their names, and which boxes
//! of the source's tensors they consist of. Pure data; nothing is read.

mod counts;
mod group;
pub(super) mod removal;

use crate::architecture::config::ConfigScope;
use crate::architecture::config::generation::generate;
use crate::architecture::language::array::Box_;
use crate::architecture::language::change::Change;
use crate::architecture::language::expression::{Expression as TableExpression, Scope};
use crate::architecture::language::pattern::Pattern;
use crate::architecture::table::{CANONICAL, Drop, Rule, Side, Table};
use crate::wording::n_of;
use apr_sdk::{DType, Error, Result, Tensor, TensorFacts};
use counts::{MOST_GROUPS, check_counts, count_of, counts, too_many, uncounted};
use group::GroupWork;
use removal::Removed;
use std::collections::{BTreeMap, HashMap};

/// A tensor of the result.
#[derive(Clone, Debug)]
pub struct Made {
    /// The name in the target's dialect.
    pub name: String,
    /// The dtype, that of the source's tensors.
    pub dtype: DType,
    /// The shape, in elements.
    pub shape: Vec<u64>,
    /// The boxes it consists of, in row-major order.
    pub boxes: Vec<Box_>,
    /// The bytes of a computed tensor.
    pub bytes: Option<Vec<u8>>,
    /// The operations, in words.
    pub words: Vec<&'static str>,
    /// The facts passed to writers and recipes.
    pub facts: TensorFacts,
}

impl Made {
    /// Returns whether any of its values are changed, not only moved.
    pub fn is_changed(&self) -> bool {
        self.boxes.iter().any(|one| !one.change.is_none())
    }
}

/// The result of a translation.
#[derive(Clone, Debug, Default)]
pub struct Translated {
    /// The tensors, in output order.
    pub tensors: Vec<Made>,
    /// Tensors of the source that are dropped, and why.
    pub dropped: Vec<(String, String)>,
    /// Tensors in which some rows are zero because the source lacks them.
    pub padded: Vec<String>,
}

/// The input of a translation.
pub struct Request<'a> {
    /// The architecture's table.
    pub table: &'a Table,
    /// The configuration with its defaults.
    pub scope: &'a ConfigScope<'a>,
    /// The source's tensors, under the table's own names.
    pub tensors: &'a [Tensor],
    /// The source's tensors, under their own names.
    pub called: &'a [Tensor],
    /// The tensors that the user left out, under the table's own names.
    pub removed: &'a [Removed],
    /// The source's dialect.
    pub from: &'a str,
    /// The target's dialect.
    pub to: &'a str,
    /// True if tensors keep the source's order, regardless of the target's dialect.
    pub keep_order: bool,
}

/// Tensors of one rule that belong together, such as those of one layer.
#[derive(Default)]
pub(super) struct Group {
    /// Indices of tensors in the source, by image and inner numbers.
    pub found: BTreeMap<(usize, Vec<u64>), usize>,
    /// Tensors that are unchanged or dropped: open names, and duplicates under another name.
    pub others: Vec<usize>,
}

/// Numbers of the outer places, in the order of [`outer_places`].
pub(super) type Outer = Vec<u64>;

/// Translates the tensors of a model.
///
/// # Errors
/// Unsupported for a tensor that the table does not know, with similar names; Malformed for one that is
/// missing or whose shape contradicts the configuration; any error from the operations.
pub fn translate(request: &Request<'_>) -> Result<Translated> {
    check_counts(request)?;
    let mut translated = Translated::default();
    let groups = match_names(request, &mut translated)?;
    find_missing(request, &groups)?;
    // With their sort keys: the order of the target's dialect, or the source's.
    let mut made: Vec<((usize, String), Made)> = Vec::new();
    for ((number, outer), group) in &groups {
        let rule = &request.table.rules[*number];
        let order = group.found.values().max().copied().unwrap_or(0);
        for one in work_group(request, rule, outer, group, &mut translated)? {
            made.push(((order, String::new()), one));
        }
        for &order in &group.others {
            made.extend(
                other(request, rule, order, &mut translated)?.map(|one| ((order, String::new()), one)),
            );
        }
    }
    let by_name = request.table.dialect(request.to).is_some_and(|dialect| dialect.by_name);
    if by_name && !request.keep_order {
        for ((order, name), one) in &mut made {
            *order = 0;
            *name = one
                .facts
                .names
                .iter()
                .find(|(d, _)| d == CANONICAL)
                .map(|(_, n)| n.clone())
                .unwrap_or_default();
        }
    }
    made.sort_by(|(a, _), (b, _)| a.cmp(b));
    translated.tensors = generated(request, &groups)?;
    translated.tensors.extend(made.into_iter().map(|(_, one)| one));
    rename(request, &mut translated.tensors)?;
    Ok(translated)
}

/// Renames tensors from another dialect where files of the target's dialect use other names than the table.
fn rename(request: &Request<'_>, tensors: &mut [Made]) -> Result<()> {
    let Some(dialect) = request.table.dialect(request.to).filter(|_| !request.table.is_own(request.from))
    else {
        return Ok(());
    };
    for rename in &dialect.renames {
        if !rename.is_written(request.scope)? {
            continue;
        }
        for made in tensors.iter_mut() {
            if let Some(name) = rename.undo(&made.name) {
                name.clone_into(&mut made.facts.name);
                made.name = name;
            }
        }
    }
    Ok(())
}

/// The places that distinguish groups of a rule: those in every name of it, in both dialects.
pub(super) fn outer_places<'a>(request: &Request<'_>, rule: &'a Rule) -> Vec<&'a str> {
    let names = |dialect: &str| match rule.side(dialect) {
        Some(side) if side.dropped.is_none() => side.images.iter().collect::<Vec<_>>(),
        _ => rule.members.iter().collect(),
    };
    let all: Vec<&Pattern> =
        names(request.from).into_iter().chain(names(request.to)).chain(&rule.members).collect();
    let first = rule.members[0].places();
    let shared = first.iter().filter(|place| all.iter().all(|pattern| pattern.places().contains(place)));
    shared.map(String::as_str).collect()
}

fn match_names(
    request: &Request<'_>,
    translated: &mut Translated,
) -> Result<BTreeMap<(usize, Outer), Group>> {
    let table = request.table;
    let mut groups: BTreeMap<(usize, Outer), Group> = BTreeMap::new();
    let outer: Vec<Vec<&str>> = table.rules.iter().map(|rule| outer_places(request, rule)).collect();
    let counts = counts(request)?;
    let mut unknown = Vec::new();
    for (at, tensor) in request.tensors.iter().enumerate() {
        if let Some(drop) = find_drop(request, &tensor.name)? {
            translated.dropped.push((tensor.name.clone(), drop.reason.clone()));
            continue;
        }
        let Some(found) = find_rule(request, &tensor.name)? else {
            unknown.push(tensor.name.as_str());
            continue;
        };
        // An open name matches anything with its prefix, on its own condition.
        if !found.pattern.is_open() {
            for (place, number) in found.pattern.places().iter().zip(&found.numbers) {
                match counts.iter().find(|(counted, _)| *counted == place) {
                    Some((_, count)) if count.is_none_or(|count| *number >= count) => {
                        return Err(uncounted(request, place, *number, &tensor.name));
                    }
                    _ => {}
                }
            }
        }
        let outer = &outer[found.rule];
        let is_outer = |place: &String| outer.contains(&place.as_str());
        let inner = found.pattern.places().iter().filter(|place| !is_outer(place));
        let inner = inner.map(|place| found.number(place)).collect();
        let group = groups.entry((found.rule, outer_key(&found, outer))).or_default();
        let slot = (found.image, inner);
        let is_own = request.called[at].name == tensor.name;
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
            let tensors = n_of(request.tensors.len(), "tensor");
            let message = format!("architecture `{}` knows none of its {tensors}", request.table.id);
            Err(Error::unsupported(message).hint(OTHER_TABLE))
        }
        false => Err(unknown_names(request, &unknown)),
    }
}

/// Advice for a table that does not fit.
pub(super) const OTHER_TABLE: &str =
    "name the architecture with --arch ID (`apr arch list`), or pass --arch none to keep every name";

/// The place of a name in the table.
pub(super) struct Place<'a> {
    pub(super) rule: usize,
    image: usize,
    pattern: &'a Pattern,
    numbers: Vec<u64>,
}

impl Place<'_> {
    /// The number at a place of the name; 0 if the name does not have it.
    fn number(&self, place: &str) -> u64 {
        let at = self.pattern.places().iter().position(|p| p == place);
        at.and_then(|at| self.numbers.get(at).copied()).unwrap_or(0)
    }
}

/// The group of its rule that a name belongs to.
pub(super) fn outer_key(found: &Place<'_>, outer: &[&str]) -> Outer {
    outer.iter().map(|place| found.number(place)).collect()
}

/// The entry that leaves a tensor of the source out, if there is one.
fn find_drop<'a>(request: &Request<'a>, name: &str) -> Result<Option<&'a Drop>> {
    for drop in request.table.drops.iter().filter(|drop| drop.dialect == request.from) {
        let Some(numbers) = drop.pattern.numbers(name) else { continue };
        let numbers: Vec<(String, u64)> = drop.pattern.places().iter().cloned().zip(numbers).collect();
        let holds = |when: &TableExpression| when.holds(&request.scope.at(&numbers));
        if drop.when.as_ref().map_or(Ok(true), holds)? {
            return Ok(Some(drop));
        }
    }
    Ok(None)
}

/// The rule for a name whose condition holds: an open one, otherwise the first that counts so many.
pub(super) fn find_rule<'a>(request: &Request<'a>, name: &str) -> Result<Option<Place<'a>>> {
    let (mut first, mut beyond) = (None, None);
    for (rule, entry) in request.table.rules.iter().enumerate() {
        let (patterns, side) = images(entry, request.from);
        for (image, pattern) in patterns.iter().enumerate() {
            let wanted = pattern.is_open() || first.is_none();
            let Some(mut numbers) = wanted.then(|| pattern.numbers(name)).flatten() else { continue };
            if let Some(side) = side
                && !side.offsets.is_empty()
                && !taken_back(side, pattern, request.scope, &mut numbers)?
            {
                continue;
            }
            if !exists(request, entry, pattern, &numbers)? {
                break;
            }
            let place = Place { rule, image, pattern, numbers };
            if pattern.is_open() {
                return Ok(Some(place));
            }
            // Layers of another kind may be counted behind these, under the same names.
            if is_beyond(request, &place)? {
                beyond.get_or_insert(place);
            } else {
                first = Some(place);
            }
        }
    }
    Ok(first.or(beyond))
}

/// Takes a side's offsets from the numbers in one of its names; false if one is smaller.
fn taken_back(side: &Side, pattern: &Pattern, scope: &dyn Scope, numbers: &mut [u64]) -> Result<bool> {
    for (place, number) in pattern.places().iter().zip(numbers) {
        match number.checked_sub(side.offset(place, scope)?) {
            Some(less) => *number = less,
            None => return Ok(false),
        }
    }
    Ok(true)
}

/// Returns whether a number in a name is not below the count of its place.
fn is_beyond(request: &Request<'_>, found: &Place<'_>) -> Result<bool> {
    for (place, number) in found.pattern.places().iter().zip(&found.numbers) {
        if count_of(request, place)?.is_some_and(|count| *number >= count) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Returns whether a model has a rule's tensors with these numbers: two rules may share a name.
fn exists(request: &Request<'_>, rule: &Rule, pattern: &Pattern, numbers: &[u64]) -> Result<bool> {
    let Some(when) = &rule.when else { return Ok(true) };
    let numbers: Vec<(String, u64)> = pattern.places().iter().cloned().zip(numbers.iter().copied()).collect();
    when.holds(&request.scope.at(&numbers))
}

/// A tensor that is unchanged or dropped.
fn other(
    request: &Request<'_>,
    rule: &Rule,
    number: usize,
    translated: &mut Translated,
) -> Result<Option<Made>> {
    let tensor = &request.called[number];
    if is_kept(request, rule) {
        let mut facts = TensorFacts::default();
        tensor.name.clone_into(&mut facts.name);
        facts.role.clone_from(&rule.role);
        facts.shape.clone_from(&tensor.shape);
        facts.dtype = Some(tensor.dtype);
        let boxes = vec![whole(number, tensor)?];
        let (name, dtype, shape) = (tensor.name.clone(), tensor.dtype, tensor.shape.clone());
        return Ok(Some(Made { name, dtype, shape, boxes, bytes: None, words: Vec::new(), facts }));
    }
    if rule.side(request.to).is_none_or(|side| side.dropped.is_none()) {
        if rule.members.iter().any(Pattern::is_open) {
            let message = format!("the table has no name for it in the dialect `{}`", request.to);
            return Err(Error::unsupported(message).tensor(&tensor.name));
        }
        translated.dropped.push((tensor.name.clone(), "is there under another name too".to_owned()));
    }
    Ok(None)
}

/// Returns whether a rule's tensors keep their names: both dialects use the members' names, whatever a file
/// calls them.
pub(super) fn is_kept(request: &Request<'_>, rule: &Rule) -> bool {
    let own = |dialect: &str| request.table.is_own(dialect) && rule.side(dialect).is_none();
    own(request.from) && own(request.to)
}

/// All of a tensor.
pub(super) fn whole(number: usize, tensor: &Tensor) -> Result<Box_> {
    let units = tensor.payload_len()? / u64::from(tensor.dtype.require()?.block_bytes).max(1);
    Ok(Box_ { tensor: Some(number), start: 0, dims: vec![(units, 1)], change: Change::default() })
}

/// The error for unknown names: lists the most similar known ones, with the numbers of the unknown.
fn unknown_names(request: &Request<'_>, unknown: &[&str]) -> Error {
    let blank = |name: &str| name.replace(|c: char| c.is_ascii_digit(), "");
    let wanted = blank(unknown[0]);
    let mut near: Vec<(usize, &str)> = Vec::new();
    for pattern in request.table.rules.iter().flat_map(|rule| images(rule, request.from).0) {
        near.push((strsim::levenshtein(&wanted, &blank(&pattern.name(|_| 0))), pattern.text()));
    }
    near.sort();
    let near: Vec<String> = near.iter().take(3).map(|(_, name)| format!("`{name}`")).collect();
    let more = match unknown.len() {
        1 => String::new(),
        n => format!(", and {} more", n - 1),
    };
    let message = format!("architecture `{}` has no tensor of this name{more}", request.table.id);
    let hint = format!(
        "name another architecture with --arch ID, or pass --arch none to keep every name; --drop NAME leaves it out; the nearest names it knows are {}",
        near.join(", ")
    );
    Error::unsupported(message).tensor(unknown[0]).hint(hint)
}

/// Fails if a tensor that the table requires is missing, unless the user left it out.
fn find_missing(request: &Request<'_>, groups: &BTreeMap<(usize, Outer), Group>) -> Result<()> {
    let mut missing = Vec::new();
    let excused = Removed::groups(request)?;
    let n_tensors = request.tensors.len() + request.removed.len();
    for (number, rule) in request.table.rules.iter().enumerate() {
        let side = rule.side(request.from);
        if rule.optional || side.is_some_and(|side| side.dropped.is_some()) {
            continue;
        }
        let places = outer_places(request, rule);
        let mut wanted: Vec<Outer> = vec![Vec::new()];
        for place in &places {
            let found = groups.keys().filter(|(n, _)| *n == number).map(|(_, outer)| outer);
            let most = found.filter_map(|outer| outer.get(places.iter().position(|p| p == place)?)).max();
            let count = count_of(request, place)?.unwrap_or(most.map_or(1, |n| n + 1));
            let all = (wanted.len() as u64).saturating_mul(count);
            if count > n_tensors as u64 || all > MOST_GROUPS {
                let has = format!("the model has {} in all", n_of(n_tensors, "tensor"));
                return Err(too_many(request, place, count, &has));
            }
            wanted = wanted
                .into_iter()
                .flat_map(|outer| (0..count).map(move |n| [&outer[..], &[n]].concat()))
                .collect();
        }
        for outer in wanted {
            let numbers: Vec<(String, u64)> =
                places.iter().map(|p| (*p).to_owned()).zip(outer.iter().copied()).collect();
            let exists = match &rule.when {
                Some(when) => when.holds(&request.scope.at(&numbers))?,
                None => true,
            };
            let key = (number, outer);
            if exists && !groups.contains_key(&key) && !excused.contains(&key) {
                let of = |place: &str| numbers.iter().find(|(p, _)| p == place).map_or(0, |(_, n)| *n);
                let first = &images(rule, request.from).0[0];
                missing.push(match side {
                    Some(side) => side.name(first, request.scope, of)?,
                    None => first.name(of),
                });
            }
        }
    }
    let Some(first) = missing.first() else { return Ok(()) };
    let more = if missing.len() > 1 { format!(", and {} more", missing.len() - 1) } else { String::new() };
    let message =
        format!("this model lacks the tensor, which architecture `{}` requires{more}", request.table.id);
    Err(Error::malformed(message).tensor(first))
}

/// The result's tensors for one group.
fn work_group(
    request: &Request<'_>,
    rule: &Rule,
    outer: &Outer,
    group: &Group,
    translated: &mut Translated,
) -> Result<Vec<Made>> {
    let places = outer_places(request, rule);
    let numbers: Vec<(String, u64)> =
        places.iter().map(|p| (*p).to_owned()).zip(outer.iter().copied()).collect();
    let sources: Vec<usize> = group.found.values().copied().collect();
    if let Some(reason) = rule.side(request.to).and_then(|side| side.dropped.as_ref()) {
        let left = sources.iter().chain(&group.others);
        translated.dropped.extend(left.map(|&n| (request.called[n].name.clone(), reason.clone())));
        return Ok(Vec::new());
    }
    if sources.is_empty() {
        return Ok(Vec::new());
    }
    let scope = request.scope.at(&numbers);
    let work = GroupWork { request, rule, scope: &scope, numbers: &numbers, sources: &sources };
    work.make(group, translated).map_err(|e| e.tensor(&request.tensors[sources[0]].name))
}

/// Bytes of all computed tensors, which lie in memory.
const MOST_MADE: usize = 64 << 20;

/// The numbers at the place of a computed tensor's name: one tensor for each, and one of a name without a place.
fn numbers_of(request: &Request<'_>, image: &Pattern) -> Result<Vec<Vec<(String, u64)>>> {
    let [place] = image.places() else { return Ok(vec![Vec::new()]) };
    let count = count_of(request, place)?.unwrap_or(0);
    if count > MOST_GROUPS {
        return Err(too_many(request, place, count, "that is more than can be computed"));
    }
    Ok((0..count).map(|n| vec![(place.clone(), n)]).collect())
}

/// Tensors in the target's dialect that the source lacks, computed from the configuration.
fn generated(request: &Request<'_>, groups: &BTreeMap<(usize, Outer), Group>) -> Result<Vec<Made>> {
    let (mut out, mut made) = (Vec::new(), 0usize);
    let present: HashMap<usize, ()> = groups.keys().map(|(number, _)| (*number, ())).collect();
    for (number, rule) in request.table.rules.iter().enumerate() {
        let Some(side) = rule.side(request.to) else { continue };
        let (Some(what), Some(image)) = (&side.generated, side.images.first()) else { continue };
        if present.contains_key(&number) {
            continue;
        }
        for numbers in numbers_of(request, image)? {
            let scope = request.scope.at(&numbers);
            if let Some(when) = &rule.when
                && !when.holds(&scope)?
            {
                continue;
            }
            let Some((dtype, shape, bytes)) = generate(what, &scope)? else { continue };
            made += bytes.len();
            if made > MOST_MADE {
                return Err(Error::limit(format!(
                    "tensors of more than {MOST_MADE} bytes would follow from the configuration"
                ))
                .tensor(image.text()));
            }
            let of = |place: &str| numbers.iter().find(|(own, _)| own == place).map_or(0, |(_, n)| *n);
            let name = image.name(of);
            let mut facts = TensorFacts::default();
            name.clone_into(&mut facts.name);
            facts.role.clone_from(&rule.role);
            facts.shape.clone_from(&shape);
            facts.dtype = Some(dtype);
            let (boxes, words) = (Vec::new(), vec!["generate"]);
            out.push(Made { name, dtype, shape, boxes, bytes: Some(bytes), words, facts });
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::super::config::Config;
    use super::*;
    use apr_sdk::{Extent, Payload};

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
        let nothing = |_: &str, _: usize| None;
        let scope = ConfigScope::new(&table, &config, &nothing);
        let payload = Payload::Extent { extent: Extent::new(0, 0, 8), view: None };
        let tensor =
            |name: String| Tensor { name, dtype: DType::F32, shape: vec![2], payload: payload.clone() };
        let called: Vec<Tensor> = names.iter().map(|name| tensor((*name).to_owned())).collect();
        let own = |t: &Tensor| tensor(table.own_name(from, &t.name).unwrap_or(t.name.clone()));
        let tensors: Vec<Tensor> = called.iter().map(own).collect();
        let (table, scope, called, tensors) = (&table, &scope, &called[..], &tensors[..]);
        translate(&Request { table, scope, tensors, called, removed: &[], from, to, keep_order: true })
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
