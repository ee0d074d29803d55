//! The facts that the table of an architecture states about each tensor of a model: role, shape, expected values.

use crate::architecture::config::ConfigScope;
use crate::architecture::description::{Known, known};
use crate::architecture::language::operation::Operation;
use crate::architecture::language::pattern::Pattern;
use crate::architecture::table::expectations::Expected;
use crate::architecture::table::rule::images;
use crate::architecture::table::{CANONICAL, Rule, Side, Table};
use crate::engine::Engine;
use apr_sdk::{Model, Result, Tensor};

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
    let dimension = known.dimensions(model);
    let scope = ConfigScope::new(table, config, &dimension);
    let of = |tensor: &Tensor| {
        let own = table.own_name(dialect, &tensor.name);
        spec(table, dialect, &scope, own.as_deref().unwrap_or(&tensor.name))
    };
    let known: Result<Vec<TensorSpec>> = model.tensors.iter().map(of).collect();
    known.map(TensorSpecs)
}

fn spec(table: &Table, dialect: &str, scope: &ConfigScope<'_>, name: &str) -> Result<TensorSpec> {
    let Some((rule, side, at, pattern, numbers)) = find(table, dialect, scope, name)? else {
        return Ok(TensorSpec::default());
    };
    let numbers: Vec<(String, u64)> = pattern.places().iter().cloned().zip(numbers).collect();
    let names = names(table, rule, at, &numbers);
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
    let number = |place: &str| numbers.iter().find(|(name, _)| name == place).map_or(0, |(_, n)| *n);
    let dialects = table.dialects.iter().map(|dialect| dialect.id.as_str()).chain([CANONICAL]);
    let name = |dialect: &str| {
        let (patterns, _) = images(rule, dialect);
        let pattern = patterns.get(at).or_else(|| patterns.first().filter(|_| patterns.len() == 1))?;
        Some((dialect.to_owned(), pattern.name(number)))
    };
    dialects.filter_map(name).collect()
}

/// A rule, its side in a dialect, the index of the matching name, its pattern, and the numbers in the name.
type Found<'t> = (&'t Rule, Option<&'t Side>, usize, &'t Pattern, Vec<u64>);

/// The rule for a name: an open one, otherwise the first whose condition holds.
fn find<'t>(
    table: &'t Table,
    dialect: &str,
    scope: &ConfigScope<'_>,
    name: &str,
) -> Result<Option<Found<'t>>> {
    let mut first = None;
    for rule in &table.rules {
        let (patterns, side) = images(rule, dialect);
        for (at, pattern) in patterns.iter().enumerate() {
            let Some(numbers) = pattern.numbers(name) else { continue };
            let named: Vec<(String, u64)> =
                pattern.places().iter().cloned().zip(numbers.iter().copied()).collect();
            let holds = rule.when.as_ref().map_or(Ok(true), |when| when.holds(&scope.at(&named)))?;
            if holds && (pattern.is_open() || first.is_none()) {
                first = Some((rule, side, at, pattern, numbers));
            }
        }
    }
    Ok(first)
}

/// Returns whether tensors of a side have the canonical shapes.
fn is_canonical_shape(side: Option<&Side>) -> bool {
    let keeps = |operation: &Operation| matches!(operation, Operation::PermuteRope(_) | Operation::Add(_));
    side.is_none_or(|side| side.operations.iter().chain(side.each.iter().flatten()).all(keeps))
}

/// The constant that a side adds to the values of its tensor `at`.
fn added(side: &Side, at: usize) -> f64 {
    let each = side.each.get(at).into_iter().flatten();
    let constant = |operation: &Operation| if let Operation::Add(c) = operation { *c } else { 0.0 };
    side.operations.iter().chain(each).map(constant).sum()
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
    let of_rule = |rule: &Rule| {
        let (patterns, side) = images(rule, dialect);
        let same = is_canonical_shape(side) && patterns.len() == rule.members.len();
        let tensor = |((pattern, member), shape): ((&Pattern, &Pattern), &Vec<_>)| {
            let shape: Vec<String> = shape.iter().map(ToString::to_string).collect();
            let mut reversed_shape = shape.clone();
            reversed_shape.reverse();
            ContractTensor {
                role: rule.role.clone(),
                name: pattern.text().to_owned(),
                canonical_name: member.text().to_owned(),
                reversed: shape.len() > 1,
                canonical_shape: shape,
                reversed_shape,
            }
        };
        let pairs = patterns.iter().zip(&rule.members).zip(&rule.shapes).filter(|_| same);
        pairs.map(tensor).collect::<Vec<_>>()
    };
    table.rules.iter().flat_map(of_rule).collect()
}
