//! Rules for tensors: how the canonical ones correspond to those of each dialect.

use crate::architecture::language::expression::{Expression, Scope};
use crate::architecture::language::members::{bad, each, expression, patterns, words};
use crate::architecture::language::pattern::Pattern;
use crate::architecture::language::table_error::{Read, TableError, Within};
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
    /// Parses `optional`, of a rule with this role: a truth, or `"each"`.
    fn read(toml: &Toml, members: &[Pattern], role: Option<&str>) -> Read<Presence> {
        let item = match toml.get("optional") {
            Some(item) => item,
            None => return Ok(Presence::Always),
        };
        match (item.as_bool(), item.as_str()) {
            // Names that go on in any way tell nothing about one another.
            (Some(true), _) if role.is_some_and(is_of_all) && !members.iter().any(Pattern::is_open) => {
                Ok(Presence::AllOrNone)
            }
            (Some(true), _) => Ok(Presence::Some),
            (Some(false), _) => Ok(Presence::Always),
            (_, Some("each")) => Ok(Presence::Some),
            _ => Err(bad("`optional`", item)).within("optional"),
        }
    }
}

/// Returns whether a role is one that all layers have, or none: the biases, norms and corrections of what every layer computes.
fn is_of_all(role: &str) -> bool {
    let is_of_layers = ["attention.", "feed_forward.", "router."].iter().any(|start| role.starts_with(start));
    is_of_layers && [".bias", ".norm", ".correction"].iter().any(|end| role.ends_with(end))
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
    /// Returns whether a model that has the other's tensors has these too, as one flag states both: the biases of queries, keys and
    /// values.
    pub fn is_stated_with(&self, other: &Rule) -> bool {
        const PROJECTIONS: [&str; 3] = ["attention.query.bias", "attention.key.bias", "attention.value.bias"];
        [self, other].iter().all(|rule| {
            let is_projection = rule.role.as_deref().is_some_and(|role| PROJECTIONS.contains(&role));
            is_projection && rule.presence == Presence::AllOrNone
        })
    }

    /// Returns whether every model has its tensors.
    pub fn is_required(&self) -> bool {
        self.presence == Presence::Always
    }

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
pub fn read_rule(toml: &Toml, dialects: &[Dialect]) -> Read<Rule> {
    let members = patterns(toml)?;
    if members.is_empty() {
        return Err(Error::invalid_argument("a tensor has no `name`").into());
    }
    let shapes = match (toml.get("shape"), toml.get("shapes")) {
        (Some(shape), None) => vec![read_shape(shape).within("shape")?; members.len()],
        (None, shapes @ Some(Item::Array(_))) => each(shapes, read_shape).within("shapes")?,
        (None, None) => Vec::new(),
        _ => {
            return Err(Error::invalid_argument("it requires `shape`, or `shapes` as a list"))
                .within("shapes");
        }
    };
    if !shapes.is_empty() && shapes.len() != members.len() {
        return Err(Error::invalid_argument("it must have one shape for each name")).within("shapes");
    }
    let known = ["name", "names", "shape", "shapes", "role", "optional", "when", "expected"];
    let mut sides = Vec::new();
    for (dialect, item) in toml.iter().filter(|(key, _)| !known.contains(&key.as_str())) {
        if !dialects.iter().any(|d| d.id == *dialect) {
            let message = format!("it refers to the unknown dialect `{dialect}`");
            return Err(Error::invalid_argument(message)).within(dialect.as_str());
        }
        sides.push((dialect.clone(), read_side(item).within(dialect.as_str())?));
    }
    let role = words(toml, "role")?;
    if role.as_ref().is_some_and(String::is_empty) {
        return Err(Error::invalid_argument("its `role` is empty: specify it or remove it")).within("role");
    }
    let presence = Presence::read(toml, &members, role.as_deref())?;
    Ok(Rule {
        role,
        members,
        shapes,
        presence,
        when: expression(toml, "when")?,
        expected: toml.get("expected").map(Expected::parse).transpose().within("expected")?,
        sides,
    })
}

fn read_shape(item: &Item) -> Read<Vec<Expression>> {
    if !item.is_array() {
        return Err(bad("`shape`", item).into());
    }
    each(Some(item), |size| {
        let size = match size {
            Item::Integer(n) => Expression::parse(&n.to_string()),
            Item::String(text) => Expression::parse(text),
            other => Err(bad("a size", other)),
        };
        size.map_err(TableError::from)
    })
}
