//! Finds whether two models are the same, and if not, where and by how much they differ. Across formats and dtypes.

pub mod computations;
pub mod derivation;
pub mod reproduction;
pub mod side_by_side;
pub mod sides;
pub mod tokenizers;

mod compare;
mod distance;
mod facts;
pub(crate) mod pair_tiles;
mod pairs;
mod rounding;
mod sums;
#[cfg(test)]
mod tests;

use crate::diff::sides::{Pair, Side, Sides};
use crate::engine::Engine;
use crate::open::OpenedModel;
use apr_sdk::{DType, Result, Value};
use compare::Comparison;
pub(crate) use compare::check_in_order;
pub(crate) use distance::{Distance, Measure};
pub(crate) use pairs::by_name;
pub(crate) use rounding::Rounding;
use serde::{Serialize, Serializer};
use std::cmp::Ordering;
pub use sums::Sums;

/// The conditions for equality.
#[derive(Clone, Debug, Default)]
pub struct DiffOptions {
    /// Tensors to pair although their names differ: (name in a, name in b).
    pub mapping: Vec<(String, String)>,
    /// `None`: tensors are equal if type, shape and bytes are; between two dialects, if the values are equal
    /// or rounded to the narrower type. Otherwise values decide, and differences up to this are ignored.
    pub tolerance: Option<f64>,
    /// True to compare packed weights by the values that they have, not as they are once unpacked to the type of the
    /// floats that they are compared with.
    pub unrounded: bool,
}

/// The result of a comparison.
#[derive(Clone, Debug)]
pub struct Diff {
    /// True if nothing that counts differs.
    pub same: bool,
    /// The number of tensors with each status.
    pub counts: Counts,
    /// Every pair that is not identical, and every unpaired tensor; greatest difference first.
    pub tensors: Vec<TensorDiff>,
    /// Every other difference.
    pub facts: Vec<Fact>,
    /// Assumptions, and content that was not compared.
    pub notes: Vec<String>,
}

/// The number of pairs, or unpaired tensors, with each status.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Equal type, shape and bytes.
    pub identical: u64,
    /// Equal values; different type, or different bits of zeros and NaN.
    pub equal: u64,
    /// The values of one side are those of the other, rounded to nearest in its narrower type.
    pub rounded: u64,
    /// No two values differ by more than the tolerance.
    pub within_tolerance: u64,
    /// Values differ.
    pub different: u64,
    /// Shapes differ.
    pub shape: u64,
    /// Types differ, and the values of one cannot be read.
    pub dtype: u64,
    /// Equal content under another name.
    pub renamed: u64,
    /// Tensors only in a.
    pub only_in_a: u64,
    /// Tensors only in b.
    pub only_in_b: u64,
}

/// The result of comparing a tensor of one model with its counterpart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// No counterpart in b.
    OnlyInA,
    /// No counterpart in a.
    OnlyInB,
    /// Shapes differ.
    Shape,
    /// Types differ, and the values of one cannot be read.
    Dtype,
    /// Values differ.
    Different,
    /// Equal content under another name.
    Renamed,
    /// No two values differ by more than the tolerance.
    WithinTolerance,
    /// The values of one side are those of the other, rounded to nearest in its narrower type.
    Rounded,
    /// Equal values; different type, or different bits of zeros and NaN.
    Equal,
}

/// A tensor as it is in one model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TensorSide {
    /// The tensor's name there.
    pub name: String,
    /// The tensor's dtype.
    pub dtype: String,
    /// Dimensions, outermost first.
    pub shape: Vec<u64>,
}

/// Two tensors that are not identical, or one without a counterpart.
#[derive(Clone, Debug, Serialize)]
pub struct TensorDiff {
    /// The result of the comparison.
    pub status: Status,
    /// True if this makes the models different.
    pub matters: bool,
    /// The tensor in a, if it has one.
    pub a: Option<TensorSide>,
    /// The tensor in b, if it has one.
    pub b: Option<TensorSide>,
    /// The distance between the values; `None` if they are equal or cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub values: Option<Values>,
    /// The type that one side's values were rounded to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rounded_to: Option<String>,
    /// The reason why there is no distance.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub values_missing: Option<String>,
}

/// The distance between the values of two tensors. A complex number counts as two.
#[derive(Clone, Debug, Serialize)]
pub struct Values {
    /// Number of pairs compared.
    pub count: u64,
    /// Number of pairs that differ by more than the tolerance, or have a non-finite side that the other does
    /// not match.
    pub differing: u64,
    /// Number of those pairs that have a non-finite side.
    pub mismatched: u64,
    /// Number of pairs with two finite sides, over which all distances are.
    pub finite: u64,
    /// The greatest absolute difference.
    #[serde(serialize_with = "number")]
    pub max_abs: f64,
    /// The index of that pair, outermost dimension first.
    pub max_at: Vec<u64>,
    /// The mean absolute difference.
    #[serde(serialize_with = "number")]
    pub mean_abs: f64,
    /// The square root of the sum of squared differences.
    #[serde(serialize_with = "number")]
    pub l2: f64,
    /// The sums that the distances are made of.
    #[serde(skip)]
    pub sums: Sums,
    /// The L2 distance divided by the greater norm.
    #[serde(serialize_with = "number")]
    pub relative: f64,
    /// The cosine of the angle between both; `None` if one is zero.
    pub cosine: Option<f64>,
    /// The greatest distance in representable values (ULP), for two floats of one type.
    pub max_ulp: Option<u64>,
    /// Number of NaN in a, and in b; NaN and infinities are excluded from all distances.
    pub nans: [u64; 2],
    /// Number of infinities in a, and in b.
    pub infs: [u64; 2],
}

/// The subject of a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum FactKind {
    /// The dialect of tensor names and keys.
    Dialect,
    /// The quantization recipe.
    Recipe,
    /// The architecture's id.
    Architecture,
    /// A key of the architecture's configuration.
    Config,
    /// The tokenizer.
    Tokenizer,
    /// A companion file.
    Asset,
    /// A key of a format's metadata.
    Metadata,
    /// The order of the tensors.
    Order,
}

/// One difference that is not about tensors.
#[derive(Clone, Debug)]
pub struct Fact {
    /// The subject.
    pub kind: FactKind,
    /// The id of the format whose metadata it is, or empty.
    pub format: String,
    /// The file, for sharded models whose files differ; otherwise empty.
    pub file: String,
    /// The key or name; empty if there is none.
    pub key: String,
    /// The value in a; `None` if it has none.
    pub a: Option<FactValue>,
    /// The value in b; `None` if it has none.
    pub b: Option<FactValue>,
    /// True if this makes the models different: both could have said it.
    pub matters: bool,
}

/// The value that a model states.
#[derive(Clone, Debug)]
pub enum FactValue {
    /// A typed metadata value.
    Typed(Value),
    /// A value of a JSON document.
    Json(serde_json::Value),
    /// A word.
    Text(String),
    /// A byte string of this length, which is not shown.
    Bytes(u64),
}

/// Compares two opened models.
///
/// # Errors
/// InvalidArgument for a mapping that does not fit; any error from reading; Cancelled.
pub fn diff(engine: &Engine, a: &OpenedModel, b: &OpenedModel, options: &DiffOptions) -> Result<Diff> {
    let mut facts = facts::facts(engine, a, b)?;
    // A mapping refers to the names in the files.
    let mut sides = match options.mapping.is_empty() {
        true => Sides::in_one_dialect(engine, a, b)?,
        false => Sides::plain(a, b),
    };
    for (name, one, two) in &sides.differing {
        let format = String::new();
        let file = String::new();
        let [a, b] = [one, two].map(|value| Some(FactValue::Text(value.clone())));
        facts.push(Fact { kind: FactKind::Config, format, file, key: name.clone(), a, b, matters: true });
    }
    let matched = pairs::matched(engine, &mut sides, options)?;
    let Sides { a, b, .. } = &sides;
    let (alike, other_shape): (Vec<Pair>, Vec<Pair>) =
        matched.pairs.iter().partition(|pair| a.tensor(pair.a).shape == b.tensor(pair.b).shape);
    [a.opened, b.opened].iter().try_for_each(|opened| opened.will_read_payload())?;
    let comparisons = compare::compare(engine, &sides, &alike, options.tolerance.unwrap_or(0.0))?;
    [a.opened, b.opened].iter().try_for_each(|opened| opened.files.refuse_changed())?;
    let mut counts = Counts::default();
    let mut all = Vec::new();
    for (pair, comparison) in alike.iter().zip(&comparisons) {
        if comparison.same_bytes {
            counts.identical += 1;
        } else {
            all.push(judge(&sides, *pair, comparison, options.tolerance));
        }
    }
    all.extend(other_shape.iter().map(|pair| plain(Status::Shape, side(a, pair.a), side(b, pair.b))));
    all.extend(matched.renamed.iter().map(|pair| plain(Status::Renamed, side(a, pair.a), side(b, pair.b))));
    all.extend(matched.only_a.iter().map(|&number| plain(Status::OnlyInA, side(a, number), None)));
    all.extend(matched.only_b.iter().map(|&number| plain(Status::OnlyInB, None, side(b, number))));
    all.iter().for_each(|tensor| *counts.of(tensor.status) += 1);
    // A stable sort: equal ones stay in model order.
    all.sort_by(|one, two| one.status.cmp(&two.status).then_with(|| farther_first(one, two)));
    let same = !all.iter().any(|tensor| tensor.matters) && !facts.iter().any(|fact| fact.matters);
    let everything = matched.only_a.is_empty() && matched.only_b.is_empty() && matched.renamed.is_empty();
    if everything && !sides.translated && !matched.pairs.is_sorted_by_key(|pair| pair.b) {
        let format = String::new();
        let file = String::new();
        let key = String::new();
        facts.push(Fact { kind: FactKind::Order, format, file, key, a: None, b: None, matters: false });
    }
    Ok(Diff { same, counts, tensors: all, facts, notes: sides.notes })
}

/// A difference without values.
fn plain(status: Status, a: Option<TensorSide>, b: Option<TensorSide>) -> TensorDiff {
    TensorDiff { status, matters: true, a, b, values: None, rounded_to: None, values_missing: None }
}

fn side(side: &Side<'_>, number: usize) -> Option<TensorSide> {
    let tensor = side.tensor(number);
    let name = side.own_name(number).to_owned();
    let dtype = tensor.dtype.name().to_owned();
    Some(TensorSide { name, dtype, shape: tensor.shape.clone() })
}

/// Interprets the comparison of a pair that is not identical.
fn judge(sides: &Sides<'_>, pair: Pair, comparison: &Comparison, tolerance: Option<f64>) -> TensorDiff {
    let Sides { a, b, .. } = sides;
    let tensor_a = a.tensor(pair.a);
    let tensor_b = b.tensor(pair.b);
    let status = match &comparison.distance {
        Some(d) if d.max_abs == 0.0 && d.mismatched == 0 => Status::Equal,
        Some(_) if comparison.rounded_to.is_some() => Status::Rounded,
        Some(d) if d.differing == 0 => Status::WithinTolerance,
        None if comparison.blocks.is_none() => Status::Dtype,
        _ => Status::Different,
    };
    let matters = match status {
        Status::WithinTolerance | Status::Rounded => false,
        // In another dialect, a model has the types usual for its format.
        Status::Equal => tolerance.is_none() && !sides.translated,
        _ => true,
    };
    let wanted = matches!(status, Status::Different | Status::WithinTolerance | Status::Rounded);
    let rounded_to =
        comparison.rounded_to.filter(|_| status == Status::Rounded).map(|to| to.name().to_owned());
    let values = comparison.distance.as_ref().filter(|_| wanted);
    let values = values.map(|distance| Values::new(distance, comparison, &tensor_a.shape));
    let values_missing = match wanted || status == Status::Dtype {
        true => missing(tensor_a.dtype, tensor_b.dtype, comparison),
        false => None,
    };
    TensorDiff { status, matters, a: side(a, pair.a), b: side(b, pair.b), values, rounded_to, values_missing }
}

/// The reason why values of two types could not be compared.
fn missing(a: DType, b: DType, comparison: &Comparison) -> Option<String> {
    if comparison.distance.is_some() {
        return None;
    }
    Some(match comparison.blocks {
        Some((differing, all)) => format!("{differing} of {all} blocks differ; {}", unknown(a)),
        None if a.is_block() => unknown(a),
        None if b.is_block() => unknown(b),
        None => format!("{a} and {b} cannot be compared"),
    })
}

fn unknown(dtype: DType) -> String {
    format!("no quantizer plugin can decode {dtype}")
}

impl Counts {
    fn of(&mut self, status: Status) -> &mut u64 {
        match status {
            Status::OnlyInA => &mut self.only_in_a,
            Status::OnlyInB => &mut self.only_in_b,
            Status::Shape => &mut self.shape,
            Status::Dtype => &mut self.dtype,
            Status::Different => &mut self.different,
            Status::Renamed => &mut self.renamed,
            Status::WithinTolerance => &mut self.within_tolerance,
            Status::Rounded => &mut self.rounded,
            Status::Equal => &mut self.equal,
        }
    }
}

impl Values {
    fn new(distance: &Distance, comparison: &Comparison, shape: &[u64]) -> Values {
        let mut at = distance.max_at / comparison.per_element.max(1);
        let mut max_at = vec![0; shape.len()];
        for (place, &size) in max_at.iter_mut().zip(shape).rev() {
            *place = at % size.max(1);
            at /= size.max(1);
        }
        Values {
            count: distance.count,
            differing: distance.differing,
            mismatched: distance.mismatched,
            finite: distance.finite,
            max_abs: distance.max_abs,
            max_at,
            mean_abs: distance.mean_abs(),
            l2: distance.l2(),
            sums: distance.sums(),
            relative: distance.relative(),
            cosine: distance.cosine(),
            max_ulp: comparison.has_ulp.then_some(distance.max_ulp),
            nans: distance.nans,
            infs: distance.infs,
        }
    }
}

/// Orders by unmatched non-finite values, then by relative distance, which does not depend on scale.
fn farther_first(one: &TensorDiff, two: &TensorDiff) -> Ordering {
    let [one, two] = [one, two].map(|tensor| {
        tensor.values.as_ref().map_or((false, f64::NEG_INFINITY, 0.0), |values| {
            (values.mismatched > 0, values.relative, values.max_abs)
        })
    });
    two.0.cmp(&one.0).then(two.1.total_cmp(&one.1)).then(two.2.total_cmp(&one.2))
}

/// Serializes a number; values that JSON lacks become their names. A distance of huge F64 can leave the range of a float.
fn number<S: Serializer>(value: &f64, serializer: S) -> std::result::Result<S::Ok, S::Error> {
    match value {
        value if value.is_finite() => serializer.serialize_f64(*value),
        value if value.is_nan() => serializer.serialize_str("NaN"),
        _ => serializer.serialize_str("Infinity"),
    }
}
