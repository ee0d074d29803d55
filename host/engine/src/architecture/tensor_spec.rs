//! The facts that the table of an architecture states about each tensor of a model: role, shape, expected values.

use crate::architecture::config::ConfigScope;
use crate::architecture::description::{Known, known};
use crate::architecture::language::operation::Operation;
use crate::architecture::language::pattern::number_in;
use crate::architecture::table::expectations::Expected;
use crate::architecture::table::rule::images;
use crate::architecture::table::{CANONICAL, Rule, Side, Table};
use crate::engine::Engine;
use apr_sdk::{Model, Result};

/// The known facts about one tensor; empty if no table knows it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TensorSpec {
    /// Its role in the architecture.
    pub role: Option<String>,
    /// The shape according to the configuration, where the dialect has the canonical shape.
    pub shape: Option<Vec<u64>>,
    /// The expected ranges of its values.
    pub expected: Option<Expected>,
    /// Its name in every dialect of the table: (dialect, name).
    pub names: Vec<(String, String)>,
}

static NOTHING: TensorSpec = TensorSpec { role: None, shape: None, expected: None, names: Vec::new() };

/// The known facts about each tensor of a model, in model order.
#[derive(Clone, Debug, Default)]
pub struct TensorSpecs(Vec<TensorSpec>);

impl TensorSpecs {
    /// The known facts about this tensor.
    pub fn of(&self, tensor: usize) -> &TensorSpec {
        self.0.get(tensor).unwrap_or(&NOTHING)
    }
}

/// The known facts about each tensor of a model in any dialect, in model order. `arch` is the architecture
/// that the user named; nothing is known for `none`, or without a table.
///
/// # Errors
/// Any error from parsing the tables, and a configuration that contradicts itself.
pub fn tensor_specs(engine: &Engine, model: &Model, arch: Option<&str>) -> Result<TensorSpecs> {
    let Some(known) = known(engine, model, arch)? else { return Ok(TensorSpecs::default()) };
    let Known { table, dialect, config } = &known;
    let dimensions = known.dimensions(model);
    let scope = ConfigScope::new(table, config, &dimensions);
    let mut specs = Vec::with_capacity(model.tensors.len());
    for tensor in &model.tensors {
        let own = table.own_name(dialect, &tensor.name);
        specs.push(spec(dialect, &scope, own.as_deref().unwrap_or(&tensor.name))?);
    }
    Ok(TensorSpecs(specs))
}

fn spec(dialect: &str, scope: &ConfigScope<'_>, name: &str) -> Result<TensorSpec> {
    let Some(Match { rule, side, at, numbers }) = find(dialect, scope, name)? else {
        return Ok(TensorSpec::default());
    };
    let names = names(scope.table, rule, at, &numbers);
    let expected = rule.expected.as_ref().map(|expected| expected.moved(side.map_or(0.0, |s| added(s, at))));
    let mut shape = Vec::new();
    if is_canonical_shape(side) {
        let scope = scope.at(&numbers);
        for size in rule.shapes.get(at).into_iter().flatten() {
            // What the configuration does not state is unknown.
            match size.value(&scope)? {
                Some(_) => shape.push(size.size(&scope)?),
                None => return Ok(TensorSpec { role: rule.role.clone(), shape: None, expected, names }),
            }
        }
    }
    let shape = Some(shape).filter(|_| is_canonical_shape(side) && at < rule.shapes.len());
    Ok(TensorSpec { role: rule.role.clone(), shape, expected, names })
}

/// The name of a rule's tensor `at` in every dialect. If several tensors are joined there, the joined one's
/// name.
fn names(table: &Table, rule: &Rule, at: usize, numbers: &[(String, u64)]) -> Vec<(String, String)> {
    let dialects = table.dialects.iter().map(|dialect| dialect.id.as_str()).chain([CANONICAL]);
    let mut names = Vec::new();
    for dialect in dialects {
        let (patterns, _) = images(rule, dialect);
        let pattern = patterns.get(at).or_else(|| patterns.first().filter(|_| patterns.len() == 1));
        names.extend(pattern.map(|pattern| (dialect.to_owned(), pattern.name(number_in(numbers)))));
    }
    names
}

/// A name in a table.
struct Match<'t> {
    rule: &'t Rule,
    /// The rule's side in the dialect of the name.
    side: Option<&'t Side>,
    /// The index of the name among those of the rule.
    at: usize,
    /// Places, and the numbers in the name.
    numbers: Vec<(String, u64)>,
}

/// The rule for a name: an open one, otherwise the first whose condition holds.
fn find<'t>(dialect: &str, scope: &ConfigScope<'t>, name: &str) -> Result<Option<Match<'t>>> {
    let mut first = None;
    for rule in &scope.table.rules {
        let (patterns, side) = images(rule, dialect);
        for (at, pattern) in patterns.iter().enumerate() {
            let Some(numbers) = pattern.places_in(name) else { continue };
            if rule.applies(&scope.at(&numbers))? && (pattern.is_open() || first.is_none()) {
                first = Some(Match { rule, side, at, numbers });
            }
        }
    }
    Ok(first)
}

/// Returns whether tensors of a side have the canonical shapes.
fn is_canonical_shape(side: Option<&Side>) -> bool {
    side.is_none_or(|side| {
        let mut operations = side.operations.iter().chain(side.each.iter().flatten());
        operations.all(|operation| matches!(operation, Operation::PermuteRope(_) | Operation::Add(_)))
    })
}

/// The constant that a side adds to the values of its tensor `at`.
fn added(side: &Side, at: usize) -> f64 {
    let operations = side.operations.iter().chain(side.each.get(at).into_iter().flatten());
    operations.map(|operation| if let Operation::Add(constant) = operation { *constant } else { 0.0 }).sum()
}

/// One kind of tensor of an architecture, for the layout contract: in a dialect and in canonical form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContractTensor {
    /// The role in the architecture.
    pub role: Option<String>,
    /// The name in the dialect.
    pub name: String,
    /// The canonical name.
    pub canonical_name: String,
    /// The shape as expressions over the configuration, outermost first: rows, then columns.
    pub canonical_shape: Vec<String>,
    /// The shape innermost first, as ggml counts dimensions (F-LAYOUT-CONTRACT-001: the reverse).
    pub reversed_shape: Vec<String>,
    /// True if the two differ, which holds for every two-dimensional tensor.
    pub reversed: bool,
}

/// The tensors of a table that correspond one to one in a dialect, in table order.
pub fn contract(table: &Table, dialect: &str) -> Vec<ContractTensor> {
    let mut tensors = Vec::new();
    for rule in &table.rules {
        let (patterns, side) = images(rule, dialect);
        if !is_canonical_shape(side) || patterns.len() != rule.members.len() {
            continue;
        }
        for ((pattern, member), shape) in patterns.iter().zip(&rule.members).zip(&rule.shapes) {
            let canonical_shape: Vec<String> = shape.iter().map(ToString::to_string).collect();
            tensors.push(ContractTensor {
                role: rule.role.clone(),
                name: pattern.text().to_owned(),
                canonical_name: member.text().to_owned(),
                reversed: canonical_shape.len() > 1,
                reversed_shape: canonical_shape.iter().rev().cloned().collect(),
                canonical_shape,
            });
        }
    }
    tensors
}
