//! A model's tensors from one dialect to another: which exist, what they are called, and of which boxes of the source's
//! they are made. Pure data; nothing is read.

use super::array::{Array, Box_};
use super::config::ConfigScope;
use super::generate::generate;
use super::operation::{Item, Operation, View, backwards, forwards};
use super::pattern::Pattern;
use super::table::{CANONICAL, Rule, Side, Table};
use apr_sdk::{DType, Error, Packing, Result, Tensor, TensorFacts};
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
struct Group {
    /// By image and inner numbers: the tensor's number in the source.
    found: BTreeMap<(usize, Vec<u64>), usize>,
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
fn images<'a>(rule: &'a Rule, dialect: &str) -> (&'a [Pattern], Option<&'a Side>) {
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
                if let Some(numbers) = pattern.numbers(&tensor.name) {
                    found = Some((number, image, pattern, numbers));
                    break 'rules;
                }
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
fn count_of(request: &Request<'_>, place: &str) -> Result<Option<u64>> {
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

/// What the steps on one group share.
struct GroupWork<'a> {
    request: &'a Request<'a>,
    rule: &'a Rule,
    scope: &'a ConfigScope<'a>,
    numbers: &'a [(String, u64)],
    sources: &'a [usize],
}

/// A member on its way: which, its inner numbers, its array.
struct Member {
    pattern: usize,
    inner: Vec<u64>,
    item: Item,
}

impl GroupWork<'_> {
    fn make(&self, group: &Group, translated: &mut Translated) -> Result<Vec<Made>> {
        let dtype = self.request.tensors[self.sources[0]].dtype;
        let (from, to) = (self.rule.side(self.request.from), self.rule.side(self.request.to));
        let operations: Vec<&Operation> = [from, to]
            .into_iter()
            .flatten()
            .flat_map(|s| s.operations.iter().chain(s.each.iter().flatten()))
            .collect();
        if operations.is_empty() {
            return self.renamed(group);
        }
        if let Some(&other) = self.sources.iter().find(|&&n| self.request.tensors[n].dtype != dtype) {
            let tensor = &self.request.tensors[other];
            let message = format!(
                "its type is {}, and that of others with which it belongs together is {dtype}",
                tensor.dtype
            );
            return Err(Error::unsupported(message)
                .tensor(&tensor.name)
                .hint("make them one type first: --dequantize f32"));
        }
        let info = dtype.require()?;
        let block = u64::from(info.block_elements);
        if info.packing == Packing::Flat && block > 1 {
            return Err(Error::unsupported(format!("rows of {dtype} cannot be moved")));
        }
        let view = View { scope: self.scope, block };
        let members = self.members(group, view)?;
        let words: Vec<&'static str> = operations.iter().map(|operation| operation.word()).collect();
        let mut out = Vec::new();
        let (items, patterns): (Vec<Item>, Vec<String>) = match to {
            Some(side) => {
                let items = members.iter().map(|member| member.item.clone()).collect();
                let (items, _) = forwards(&side.operations, items, view)?;
                let items = self.each(items, side, view)?;
                let names = side.images.iter().map(|image| image.name(|place| self.number(place, &[], &[])));
                (items, names.collect())
            }
            None => {
                let name = |member: &Member| {
                    let pattern = &self.rule.members[member.pattern];
                    pattern.name(|place| self.number(place, &self.inner_places(pattern), &member.inner))
                };
                let names = members.iter().map(name).collect();
                (members.iter().map(|member| member.item.clone()).collect(), names)
            }
        };
        if items.len() != patterns.len() {
            let message = format!("the table gives {} names to {} tensors", patterns.len(), items.len());
            return Err(Error::invalid_argument(message));
        }
        let canonical = members.iter().map(|m| self.member_name(m)).max().unwrap_or_default();
        for (item, name) in items.into_iter().zip(patterns) {
            let mut shape = item.array.shape();
            if let Some(last) = shape.last_mut() {
                *last = last.saturating_mul(block);
            }
            let boxes = item.array.boxes()?;
            if boxes.iter().any(|b| b.tensor.is_none()) {
                translated.padded.push(name.clone());
            }
            let facts = self.facts(&name, &canonical, dtype, &shape);
            out.push(Made {
                name,
                dtype,
                shape,
                boxes,
                add: item.add,
                bytes: None,
                words: words.clone(),
                facts,
            });
        }
        Ok(out)
    }

    /// Tensors that only change their names, if that.
    fn renamed(&self, group: &Group) -> Result<Vec<Made>> {
        let mut out = Vec::new();
        for ((image, inner), &number) in &group.found {
            let tensor = &self.request.tensors[number];
            let from = &images(self.rule, self.request.from).0[*image];
            let to = images(self.rule, self.request.to).0;
            let to = to.get(*image).ok_or_else(|| Error::invalid_argument("the table has no name for it"))?;
            let places = self.inner_places(from);
            let name = to.name(|place| self.number(place, &places, inner));
            let member = &self.rule.members[(*image).min(self.rule.members.len() - 1)];
            let canonical = member.name(|place| self.number(place, &places, inner));
            self.check_shape(*image, inner, &places, tensor)?;
            let units = tensor.payload_len()? / u64::from(tensor.dtype.require()?.block_bytes).max(1);
            let boxes = vec![Box_ { tensor: Some(number), start: 0, dims: vec![(units, 1)] }];
            let facts = self.facts(&name, &canonical, tensor.dtype, &tensor.shape);
            let (dtype, shape) = (tensor.dtype, tensor.shape.clone());
            out.push(Made { name, dtype, shape, boxes, add: 0.0, bytes: None, words: Vec::new(), facts });
        }
        Ok(out)
    }

    /// The canonical tensors of the group, from the source's.
    fn members(&self, group: &Group, view: View<'_>) -> Result<Vec<Member>> {
        let (patterns, side) = images(self.rule, self.request.from);
        let whole = |number: usize| {
            let shape = view.units(&self.request.tensors[number].shape)?;
            Ok(Item::new(Array::whole(number, &shape)))
        };
        let Some(side) = side.filter(|s| !s.operations.is_empty() || !s.each.is_empty()) else {
            let mut members = Vec::new();
            for ((pattern, inner), &number) in &group.found {
                self.check_shape(
                    *pattern,
                    inner,
                    &self.inner_places(&patterns[*pattern]),
                    &self.request.tensors[number],
                )?;
                members.push(Member { pattern: *pattern, inner: inner.clone(), item: whole(number)? });
            }
            self.check_whole(&members, patterns)?;
            return Ok(members);
        };
        let mut items = Vec::new();
        for (n, pattern) in patterns.iter().enumerate() {
            let Some(&number) = group.found.get(&(n, Vec::new())) else {
                let name = pattern.name(|place| self.number(place, &[], &[]));
                return Err(Error::malformed("this tensor is missing, which belongs to others").tensor(name));
            };
            items.push(whole(number)?);
        }
        self.undo(side, items, view)
    }

    /// Undoes a side's operations.
    fn undo(&self, side: &Side, items: Vec<Item>, view: View<'_>) -> Result<Vec<Member>> {
        let mut members = Vec::new();
        for (pattern, place) in self.rule.members.iter().enumerate().map(|(n, p)| (n, self.inner_places(p))) {
            match place[..] {
                [] => members.push((pattern, Vec::new())),
                [inner] => {
                    let stacked = items.first().and_then(|item| item.array.shape().first().copied());
                    let count = count_of(self.request, inner)?.or(stacked).unwrap_or(0);
                    if count > 1 << 20 {
                        return Err(Error::limit(format!(
                            "the configuration speaks of {count} of `{inner}`"
                        )));
                    }
                    members.extend((0..count).map(|n| (pattern, vec![n])));
                }
                _ => return Err(Error::invalid_argument("the table stacks along more than one place")),
            }
        }
        let mut shapes = Vec::new();
        for (pattern, inner) in &members {
            let shape = match self.rule.shapes.get(*pattern) {
                Some(shape) => {
                    let numbers = self.with_inner(*pattern, inner);
                    let scope = self.request.scope.at(&numbers);
                    let sizes: Result<Vec<u64>> = shape.iter().map(|size| size.size(&scope)).collect();
                    view.units(&sizes?)?
                }
                None => items.first().map(|item| item.array.shape()).unwrap_or_default(),
            };
            shapes.push(shape);
        }
        // Forwards with arrays of no content, to see the shapes on the way.
        let blank = shapes.iter().enumerate().map(|(n, shape)| Item::new(Array::whole(n, shape))).collect();
        let (blank, met) = forwards(&side.operations, blank, view)?;
        let mut undone = Vec::new();
        for (n, item) in items.into_iter().enumerate() {
            let operations = side.each.get(n).map_or(&[][..], Vec::as_slice);
            let blank = blank
                .get(n)
                .cloned()
                .ok_or_else(|| Error::invalid_argument("the table names more tensors than it makes"))?;
            let (made, met) = forwards(operations, vec![blank], view)?;
            let (want, have) = (made[0].array.shape(), item.array.shape());
            if want != have {
                return Err(Error::malformed(format!(
                    "its shape is {have:?}, the configuration says {want:?} (in units of its type)"
                )));
            }
            undone.extend(backwards(operations, vec![item], &met, view)?);
        }
        let undone = backwards(&side.operations, undone, &met, view)?;
        if undone.len() != members.len() {
            return Err(Error::invalid_argument(format!(
                "{} tensors come back as {}",
                members.len(),
                undone.len()
            )));
        }
        let whole = members.into_iter().zip(undone);
        Ok(whole.map(|((pattern, inner), item)| Member { pattern, inner, item }).collect())
    }

    fn each(&self, items: Vec<Item>, side: &Side, view: View<'_>) -> Result<Vec<Item>> {
        let mut out = Vec::new();
        for (n, item) in items.into_iter().enumerate() {
            match side.each.get(n) {
                Some(operations) => out.extend(forwards(operations, vec![item], view)?.0),
                None => out.push(item),
            }
        }
        Ok(out)
    }

    /// Every member is there, and of each the inner numbers run from 0.
    fn check_whole(&self, members: &[Member], patterns: &[Pattern]) -> Result<()> {
        for (n, pattern) in patterns.iter().enumerate() {
            let places = self.inner_places(pattern);
            let have: Vec<&Vec<u64>> = members.iter().filter(|m| m.pattern == n).map(|m| &m.inner).collect();
            let count = match places.first() {
                Some(place) => count_of(self.request, place)?.unwrap_or(have.len() as u64),
                None => 1,
            };
            for want in 0..count {
                let inner: Vec<u64> = places.iter().map(|_| want).collect();
                if !have.contains(&&inner) {
                    let name = pattern.name(|place| self.number(place, &places, &inner));
                    return Err(
                        Error::malformed("this tensor is missing, which belongs to others").tensor(name)
                    );
                }
            }
            if have.len() as u64 > count {
                let message =
                    format!("there are {} tensors of this name, the configuration says {count}", have.len());
                return Err(Error::malformed(message));
            }
        }
        Ok(())
    }

    /// Compares a tensor with the shape that the table says its member has.
    fn check_shape(&self, pattern: usize, inner: &[u64], places: &[&str], tensor: &Tensor) -> Result<()> {
        let Some(shape) = self.rule.shapes.get(pattern) else { return Ok(()) };
        let mut numbers = self.numbers.to_vec();
        numbers.extend(places.iter().map(|p| (*p).to_owned()).zip(inner.iter().copied()));
        let scope = self.request.scope.at(&numbers);
        let mut want = Vec::new();
        for size in shape {
            // What the configuration does not state cannot be compared.
            if size.value(&scope)?.is_none() {
                return Ok(());
            }
            want.push(size.size(&scope)?);
        }
        if want == tensor.shape {
            return Ok(());
        }
        let message = format!("its shape is {:?}, the configuration says {want:?}", tensor.shape);
        Err(Error::malformed(message).tensor(&tensor.name).code("F-LAYOUT-CONTRACT-001"))
    }

    /// The places of a name that do not tell groups apart.
    fn inner_places<'p>(&self, pattern: &'p Pattern) -> Vec<&'p str> {
        let is_outer = |place: &&str| self.numbers.iter().any(|(p, _)| p == place);
        pattern.places().iter().map(String::as_str).filter(|place| !is_outer(place)).collect()
    }

    fn with_inner(&self, pattern: usize, inner: &[u64]) -> Vec<(String, u64)> {
        let places = self.inner_places(&self.rule.members[pattern]);
        let inner = places.into_iter().map(str::to_owned).zip(inner.iter().copied());
        self.numbers.iter().cloned().chain(inner).collect()
    }

    fn number(&self, place: &str, inner: &[&str], numbers: &[u64]) -> u64 {
        let outer = self.numbers.iter().find(|(p, _)| p == place).map(|(_, n)| *n);
        let inner = || inner.iter().position(|p| *p == place).and_then(|at| numbers.get(at).copied());
        outer.or_else(inner).unwrap_or(0)
    }

    fn member_name(&self, member: &Member) -> String {
        let pattern = &self.rule.members[member.pattern];
        pattern.name(|place| self.number(place, &self.inner_places(pattern), &member.inner))
    }

    fn facts(&self, name: &str, canonical: &str, dtype: DType, shape: &[u64]) -> TensorFacts {
        let mut facts = TensorFacts::default();
        name.clone_into(&mut facts.name);
        facts.role.clone_from(&self.rule.role);
        facts.names = vec![(CANONICAL.to_owned(), canonical.to_owned())];
        if self.request.to != CANONICAL {
            facts.names.push((self.request.to.to_owned(), name.to_owned()));
        }
        facts.shape = shape.to_vec();
        facts.dtype = Some(dtype);
        facts
    }
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
