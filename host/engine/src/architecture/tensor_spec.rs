//! What the table of a model's architecture says of each tensor that the model has: its role, its shape, what is expected
//! of its values.

use crate::architecture::config::ConfigScope;
use crate::architecture::known::{Known, known};
use crate::architecture::table::expected::Expected;
use crate::architecture::table::operation::Operation;
use crate::architecture::table::pattern::Pattern;
use crate::architecture::table::{CANONICAL, Rule, Side, Table};
use crate::architecture::translate::images;
use crate::engine::Engine;
use apr_sdk::{Model, Result, Tensor};

/// What is known of one tensor; nothing, if no table knows it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TensorSpec {
    /// What it is in its architecture.
    pub role: Option<String>,
    /// The shape that the configuration gives it, where the dialect has the canonical tensor's.
    pub shape: Option<Vec<u64>>,
    /// What is expected of its values.
    pub expected: Option<Expected>,
    /// What it is called in every dialect of the table: (dialect, name).
    pub names: Vec<(String, String)>,
}

static NOTHING: TensorSpec = TensorSpec { role: None, shape: None, expected: None, names: Vec::new() };

/// What is known of each tensor of a model, in the model's order.
#[derive(Clone, Debug, Default)]
pub struct TensorSpecs(Vec<TensorSpec>);

impl TensorSpecs {
    /// What is known of this tensor.
    pub fn of(&self, tensor: usize) -> &TensorSpec {
        self.0.get(tensor).unwrap_or(&NOTHING)
    }
}

/// What is known of each tensor of a model in whatever dialect it is, in the model's order. `arch` is the user's word on
/// the architecture; with `none`, as without a table, nothing is known.
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
            // What the configuration does not state is not known.
            match size.value(&scope)? {
                Some(_) => shape.push(size.size(&scope)?),
                None => return Ok(TensorSpec { role: rule.role.clone(), shape: None, expected, names }),
            }
        }
    }
    let shape = Some(shape).filter(|_| is_canonical_shape(side) && at < rule.shapes.len());
    Ok(TensorSpec { role: rule.role.clone(), shape, expected, names })
}

/// What a rule's tensor number `at` is called in every dialect. Where several tensors are one, that one's name.
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

/// A rule, its side in a dialect, which of its names, and the numbers in that.
type Found<'t> = (&'t Rule, Option<&'t Side>, usize, &'t Pattern, Vec<u64>);

/// The rule for a name: an open one, else the first whose condition holds.
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

/// Whether tensors of a side have the shapes of the canonical ones.
fn is_canonical_shape(side: Option<&Side>) -> bool {
    let keeps = |operation: &Operation| matches!(operation, Operation::PermuteRope(_) | Operation::Add(_));
    side.is_none_or(|side| side.operations.iter().chain(side.each.iter().flatten()).all(keeps))
}

/// What a side adds to the values of its tensor number `at`.
fn added(side: &Side, at: usize) -> f64 {
    let each = side.each.get(at).into_iter().flatten();
    let constant = |operation: &Operation| if let Operation::Add(c) = operation { *c } else { 0.0 };
    side.operations.iter().chain(each).map(constant).sum()
}

/// One kind of tensor of an architecture, as the layout contract has it: in a dialect and in the canonical one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContractTensor {
    /// What it is.
    pub role: Option<String>,
    /// Its name in the dialect.
    pub name: String,
    /// Its canonical name.
    pub canonical_name: String,
    /// Its shape as expressions over the configuration, outermost first: rows, then columns.
    pub canonical_shape: Vec<String>,
    /// The same, innermost first, as ggml counts dimensions (F-LAYOUT-CONTRACT-001: the reverse).
    pub reversed_shape: Vec<String>,
    /// Whether the two differ: so for each of two dimensions.
    pub reversed: bool,
}

/// The tensors of a table that a dialect has one for one, in the table's order.
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
