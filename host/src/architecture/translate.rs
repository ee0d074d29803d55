//! A model's tensors from one dialect to another: which exist, what they are called, and of which boxes of the source's
//! they are made. Pure data; nothing is read.

use super::array::Box_;
use super::config::ConfigScope;
use super::generate::generate;
use super::group::GroupWork;
use super::pattern::Pattern;
use super::table::{CANONICAL, Rule, Side, Table};
use apr_sdk::{DType, Error, Result, Tensor, TensorFacts};
use std::collections::{BTreeMap, HashMap};

/// A tensor of the result.
#[derive(Clone, Debug)]
pub struct Made {
    /// Its name.
    pub name: String,
    /// Its dtype, that of the source's tensors.
    pub dtype: DType,
    /// Its shape, in elements.
    pub shape: Vec<u64>,
    /// The boxes that make it up.
    pub boxes: Vec<Box_>,
    /// What is added to each value.
    pub add: f64,
    /// Its bytes, if it was computed.
    pub bytes: Option<Vec<u8>>,
    /// The operations, in words.
    pub words: Vec<&'static str>,
    /// What a writer or a recipe may know of it.
    pub facts: TensorFacts,
}

/// A translation.
#[derive(Clone, Debug, Default)]
pub struct Translated {
    /// The tensors, in the order of the output.
    pub tensors: Vec<Made>,
    /// Tensors of the source that are left out, and why.
    pub dropped: Vec<(String, String)>,
    /// Tensors of which rows are zeros because the source lacks them.
    pub padded: Vec<String>,
}

/// What to translate.
pub struct Request<'a> {
    /// The table.
    pub table: &'a Table,
    /// The configuration and its defaults.
    pub scope: &'a ConfigScope<'a>,
    /// The source's tensors.
    pub tensors: &'a [Tensor],
    /// The source's dialect.
    pub from: &'a str,
    /// The target's dialect.
    pub to: &'a str,
    /// Whether tensors keep the source's order, whatever the target's dialect is used to.
    pub keep_order: bool,
}

/// Tensors of one rule that belong together: one layer's, say.
#[derive(Default)]
pub(super) struct Group {
    /// By image and inner numbers: the tensor's number in the source.
    pub found: BTreeMap<(usize, Vec<u64>), usize>,
}

/// Numbers of the outer places, in the order of [`outer_places`].
type Outer = Vec<u64>;

/// Translates tensors.
///
/// # Errors
/// Unsupported for a tensor that the table does not know, with the nearest names; Malformed for one that is missing or
/// has another shape than the configuration says; what the operations raise.
pub fn translate(request: &Request<'_>) -> Result<Translated> {
    let mut translated = Translated::default();
    let groups = match_names(request, &mut translated)?;
    find_missing(request, &groups)?;
    // With what sorts them, as the target's dialect or the source has it.
    let mut made: Vec<((usize, String), Made)> = Vec::new();
    for ((number, outer), group) in &groups {
        let rule = &request.table.rules[*number];
        let order = group.found.values().max().copied().unwrap_or(0);
        for one in work_group(request, rule, outer, group, &mut translated)? {
            made.push(((order, String::new()), one));
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
    Ok(translated)
}

/// The places that tell groups of a rule apart: those that every name of it has, in both dialects.
fn outer_places<'a>(request: &Request<'_>, rule: &'a Rule) -> Vec<&'a str> {
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

/// A rule's names in the source's dialect, and whether they are its members.
pub(super) fn images<'a>(rule: &'a Rule, dialect: &str) -> (&'a [Pattern], Option<&'a Side>) {
    match rule.side(dialect) {
        Some(side) => (&side.images, Some(side)),
        None => (&rule.members, None),
    }
}

fn match_names(
    request: &Request<'_>,
    translated: &mut Translated,
) -> Result<BTreeMap<(usize, Outer), Group>> {
    let table = request.table;
    let mut groups: BTreeMap<(usize, Outer), Group> = BTreeMap::new();
    let outer: Vec<Vec<&str>> = table.rules.iter().map(|rule| outer_places(request, rule)).collect();
    let mut unknown = Vec::new();
    for (at, tensor) in request.tensors.iter().enumerate() {
        let mut found = None;
        'rules: for (number, rule) in table.rules.iter().enumerate() {
            for (image, pattern) in images(rule, request.from).0.iter().enumerate() {
                let Some(numbers) = pattern.numbers(&tensor.name) else { continue };
                if !exists(request, rule, pattern, &numbers)? {
                    continue 'rules;
                }
                found = Some((number, image, pattern, numbers));
                break 'rules;
            }
        }
        let drop = table
            .drops
            .iter()
            .find(|d| d.dialect == request.from && d.pattern.numbers(&tensor.name).is_some());
        match (found, drop) {
            (Some((number, image, pattern, numbers)), None) => {
                let of = |place: &str| {
                    let at = pattern.places().iter().position(|p| p == place);
                    at.and_then(|at| numbers.get(at).copied()).unwrap_or(0)
                };
                let key = outer[number].iter().map(|place| of(place)).collect();
                let is_outer = |place: &String| outer[number].contains(&place.as_str());
                let inner = pattern.places().iter().filter(|place| !is_outer(place)).map(|place| of(place));
                let slot = groups.entry((number, key)).or_default();
                slot.found.insert((image, inner.collect()), at);
            }
            (_, Some(drop)) => translated.dropped.push((tensor.name.clone(), drop.reason.clone())),
            (None, None) => unknown.push(tensor.name.as_str()),
        }
    }
    match unknown.is_empty() {
        true => Ok(groups),
        // Not one of them: then it is another thing.
        false if groups.is_empty() => Err(Error::malformed("the table knows none of its tensors")),
        false => Err(unknown_names(request, &unknown)),
    }
}

/// Whether a model has what a rule speaks of, with these numbers: two rules may share a name.
fn exists(request: &Request<'_>, rule: &Rule, pattern: &Pattern, numbers: &[u64]) -> Result<bool> {
    let Some(when) = &rule.when else { return Ok(true) };
    let numbers: Vec<(String, u64)> = pattern.places().iter().cloned().zip(numbers.iter().copied()).collect();
    when.holds(&request.scope.at(&numbers))
}

/// The error for names that the table does not have: the nearest that it has, with the numbers of the unknown one.
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
    let message = format!("architecture `{}` knows no tensor of this name{more}", request.table.id);
    let hint = format!(
        "the nearest names it knows are {}; --arch ID says another architecture, --arch none keeps all names",
        near.join(", ")
    );
    Error::unsupported(message).tensor(unknown[0]).hint(hint)
}

/// Fails if a tensor that the table wants is not there.
fn find_missing(request: &Request<'_>, groups: &BTreeMap<(usize, Outer), Group>) -> Result<()> {
    let mut missing = Vec::new();
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
            wanted = wanted
                .into_iter()
                .flat_map(|outer| (0..count).map(move |n| [&outer[..], &[n]].concat()))
                .collect();
            if wanted.len() > 1_000_000 {
                return Err(Error::limit(format!("the configuration speaks of {count} of `{place}`")));
            }
        }
        for outer in wanted {
            let numbers: Vec<(String, u64)> =
                places.iter().map(|p| (*p).to_owned()).zip(outer.iter().copied()).collect();
            let exists = match &rule.when {
                Some(when) => when.holds(&request.scope.at(&numbers))?,
                None => true,
            };
            if exists && !groups.contains_key(&(number, outer)) {
                let of = |place: &str| numbers.iter().find(|(p, _)| p == place).map_or(0, |(_, n)| *n);
                missing.push(images(rule, request.from).0[0].name(of));
            }
        }
    }
    let Some(first) = missing.first() else { return Ok(()) };
    let more = if missing.len() > 1 { format!(", and {} more", missing.len() - 1) } else { String::new() };
    let message = format!(
        "a model of architecture `{}` has this tensor, and this one lacks it{more}",
        request.table.id
    );
    Err(Error::malformed(message).tensor(first))
}

/// How many there are of a place, if the configuration says.
pub(super) fn count_of(request: &Request<'_>, place: &str) -> Result<Option<u64>> {
    match request.table.places.iter().find(|(p, _)| p == place) {
        Some((_, count)) if count.value(request.scope)?.is_some() => count.size(request.scope).map(Some),
        _ => Ok(None),
    }
}

/// The result's tensors of one group.
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
    let named = |e: Error| match e.tensor_name() {
        Some(_) => e,
        None => e.tensor(&request.tensors[sources[0]].name),
    };
    if let Some(reason) = rule.side(request.to).and_then(|side| side.dropped.as_ref()) {
        translated.dropped.extend(sources.iter().map(|&n| (request.tensors[n].name.clone(), reason.clone())));
        return Ok(Vec::new());
    }
    let scope = request.scope.at(&numbers);
    let work = GroupWork { request, rule, scope: &scope, numbers: &numbers, sources: &sources };
    work.make(group, translated).map_err(named)
}

/// Tensors that the target's dialect holds and the source lacks, computed from the configuration.
fn generated(request: &Request<'_>, groups: &BTreeMap<(usize, Outer), Group>) -> Result<Vec<Made>> {
    let mut out = Vec::new();
    let present: HashMap<usize, ()> = groups.keys().map(|(number, _)| (*number, ())).collect();
    for (number, rule) in request.table.rules.iter().enumerate() {
        let Some(side) = rule.side(request.to) else { continue };
        let (Some(what), Some(image)) = (&side.generated, side.images.first()) else { continue };
        if present.contains_key(&number)
            || rule.when.as_ref().is_some_and(|when| !when.holds(request.scope).unwrap_or(false))
        {
            continue;
        }
        if let Some((dtype, shape, bytes)) = generate(what, request.scope)? {
            let name = image.name(|_| 0);
            let mut facts = TensorFacts::default();
            name.clone_into(&mut facts.name);
            facts.role.clone_from(&rule.role);
            facts.shape.clone_from(&shape);
            facts.dtype = Some(dtype);
            let (boxes, words) = (Vec::new(), vec!["generate"]);
            out.push(Made { name, dtype, shape, boxes, add: 0.0, bytes: Some(bytes), words, facts });
        }
    }
    Ok(out)
}
