//! Rules for tensors: how the canonical ones correspond to those of each dialect.

use crate::architecture::language::expression::{Expression, Scope};
use crate::architecture::language::members::{bad, expression, list, words};
use crate::architecture::language::pattern::Pattern;
use crate::architecture::table::dialect::Dialect;
use crate::architecture::table::expectations::Expected;
use crate::architecture::table::side::{Side, read_side};
use apr_sdk::{Error, Result};
use toml::{Table as Toml, Value as Item};

/// Whether models have a rule's tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// Every model does.
    Always,
    /// A model does for every number of the places, or for none: a bias of one layer is one of all.
    AllOrNone,
    /// A model does for some numbers.
    Some,
}

impl Presence {
    /// Parses `optional`: a truth, or `"each"`.
    fn read(toml: &Toml, members: &[Pattern]) -> Result<Presence> {
        let item = match toml.get("optional") {
            Some(item) => item,
            None => return Ok(Presence::Always),
        };
        match (item.as_bool(), item.as_str()) {
            // Names that go on in any way tell nothing about one another.
            (Some(true), _) if members.iter().any(Pattern::is_open) => Ok(Presence::Some),
            (Some(true), _) => Ok(Presence::AllOrNone),
            (Some(false), _) => Ok(Presence::Always),
            (_, Some("each")) => Ok(Presence::Some),
            _ => Err(bad("`optional`", item)),
        }
    }
}

/// How canonical tensors (the members) correspond to those of each dialect.
#[derive(Clone, Debug)]
pub struct Rule {
    /// Their role in the architecture.
    pub role: Option<String>,
    /// The canonical names.
    pub members: Vec<Pattern>,
    /// Their shapes, if stated.
    pub shapes: Vec<Vec<Expression>>,
    /// Whether a model may lack them.
    pub presence: Presence,
    /// For which numbers of places they exist.
    pub when: Option<Expression>,
    /// The expected ranges of their values.
    pub expected: Option<Expected>,
    /// The dialects in which their names or rows differ: (dialect, side).
    pub sides: Vec<(String, Side)>,
}

impl Rule {
    /// The rule's side in a dialect; `None` if the dialect has the members unchanged.
    pub fn side(&self, dialect: &str) -> Option<&Side> {
        self.sides.iter().find(|(id, _)| id == dialect).map(|(_, side)| side)
    }

    /// Whether a model has the tensors with the numbers in `scope`.
    ///
    /// # Errors
    /// Any error from evaluating the condition.
    pub fn applies(&self, scope: &dyn Scope) -> Result<bool> {
        self.when.as_ref().map_or(Ok(true), |when| when.holds(scope))
    }
}

/// A rule's names in a dialect, and its side there unless they are the members'.
pub fn images<'a>(rule: &'a Rule, dialect: &str) -> (&'a [Pattern], Option<&'a Side>) {
    match rule.side(dialect) {
        Some(side) => (&side.images, Some(side)),
        None => (&rule.members, None),
    }
}

/// Reads the entry of a rule in a table with these dialects.
///
/// # Errors
/// InvalidArgument for a member that is unknown or of another kind.
pub fn read_rule(toml: &Toml, dialects: &[Dialect]) -> Result<Rule> {
    let names = match toml.contains_key("names") {
        true => list(toml, "names")?,
        false => list(toml, "name")?,
    };
    let members: Vec<Pattern> = names.iter().map(|name| Pattern::parse(name)).collect::<Result<_>>()?;
    if members.is_empty() {
        return Err(Error::invalid_argument("a tensor has no `name`"));
    }
    let shapes = match (toml.get("shape"), toml.get("shapes")) {
        (Some(shape), None) => vec![read_shape(shape)?; members.len()],
        (None, Some(Item::Array(shapes))) => shapes.iter().map(read_shape).collect::<Result<_>>()?,
        (None, None) => Vec::new(),
        _ => return Err(Error::invalid_argument("it requires `shape`, or `shapes` as a list")),
    };
    if !shapes.is_empty() && shapes.len() != members.len() {
        return Err(Error::invalid_argument("it must have one shape for each name"));
    }
    let known = ["name", "names", "shape", "shapes", "role", "optional", "when", "expected"];
    let mut sides = Vec::new();
    for (dialect, item) in toml.iter().filter(|(key, _)| !known.contains(&key.as_str())) {
        if !dialects.iter().any(|d| d.id == *dialect) {
            return Err(Error::invalid_argument(format!("it refers to the unknown dialect `{dialect}`")));
        }
        sides.push((dialect.clone(), read_side(item)?));
    }
    let role = words(toml, "role")?;
    if role.as_ref().is_some_and(String::is_empty) {
        return Err(Error::invalid_argument("its `role` is empty: specify it or remove it"));
    }
    let presence = Presence::read(toml, &members)?;
    Ok(Rule {
        role,
        members,
        shapes,
        presence,
        when: expression(toml, "when")?,
        expected: toml.get("expected").map(Expected::parse).transpose()?,
        sides,
    })
}

fn read_shape(item: &Item) -> Result<Vec<Expression>> {
    let sizes = item.as_array().ok_or_else(|| bad("`shape`", item))?;
    let sizes = sizes.iter().map(|size| match size {
        Item::Integer(n) => Expression::parse(&n.to_string()),
        Item::String(text) => Expression::parse(text),
        other => Err(bad("a size", other)),
    });
    sizes.collect()
}
