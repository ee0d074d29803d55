//! Measurements of a model: every tensor's statistics and histogram, layer by layer; and beside another model, the distances
//! between the tensors of both. All payload is read once.

mod findings;
mod layers;
mod measure;

pub use findings::Finding;
pub use layers::{HeatMap, HeatRow, Layer, LayerSide};

use crate::architecture::{Summary, called, summary};
use crate::contract::{Severity, Statistics};
use crate::diff::sides::{Side, Sides};
use crate::diff::{Measure, by_name};
use crate::engine::Engine;
use crate::open::OpenedModel;
use crate::registry::Registry;
use crate::values::double_double::DoubleDouble;
use crate::values::spread::Bins;
use apr_sdk::{Payload, Result, checked_elements};
use layers::place;
use measure::{Apart, Together, measure};
use serde::Serialize;

/// One model, measured, or two.
#[derive(Clone, Debug, Serialize)]
pub struct Survey {
    /// The first model.
    pub a: SurveyedModel,
    /// The second, if there are two.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub b: Option<SurveyedModel>,
    /// Oddities, in a's order: the whole model first.
    pub findings: Vec<Finding>,
    /// Sums over the tensors of each layer, in a's order; what belongs to no layer is the first.
    pub layers: Vec<Layer>,
    /// Distances between a and b, by layer and kind of tensor.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heat_map: Option<HeatMap>,
    /// Every tensor, in a's order; those of b alone follow.
    pub tensors: Vec<SurveyedTensor>,
    /// Assumptions, and content that was not compared.
    pub notes: Vec<String>,
}

/// A model as a whole; sizes are in bytes.
#[derive(Clone, Debug, Serialize)]
pub struct SurveyedModel {
    /// The path as typed.
    pub path: String,
    /// The format's id.
    pub format: String,
    /// The format's name for people.
    pub format_name: String,
    /// All its files.
    pub bytes: u64,
    /// Bytes of its files that lie between payloads: what aligns them, and what else the format has there.
    pub between_payloads: u64,
    /// Number of tensors it has.
    pub tensors: usize,
    /// The dialect of its tensors' names and rows (`hf`, `gguf`, `canonical`, ..., or `none`).
    pub dialect: String,
    /// The architecture's id: of the table that knows it, else what the file calls it.
    pub architecture: Option<String>,
    /// The model in a few lines, as `apr inspect` has them.
    pub summary: Summary,
    /// The element types, most bytes first.
    pub types: Vec<TypeCount>,
}

/// Number and size of a model's tensors of one element type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TypeCount {
    /// Its name.
    pub dtype: &'static str,
    /// Number of tensors.
    pub tensors: u64,
    /// Bytes of their payload.
    pub bytes: u64,
}

/// A tensor of one model, or of both.
#[derive(Clone, Debug, Serialize)]
pub struct SurveyedTensor {
    /// Its name in a; in b, if a lacks it.
    pub name: String,
    /// Its name up to the first number in it: the layer it belongs to.
    pub layer: Option<String>,
    /// The rest of its name, with `*` for further numbers; all of it outside of layers.
    pub kind: String,
    /// The result of comparing the tensors of both; absent if there is one model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<Status>,
    /// The tensor in a.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub a: Option<SurveyedSide>,
    /// The tensor in b.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub b: Option<SurveyedSide>,
    /// The distance between both, if values can be compared.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<ValueError>,
}

/// The result of comparing the tensors of two models.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Type and bytes are the same.
    Identical,
    /// All values are the same; the type is not, or the bits of zeros and NaNs.
    Equal,
    /// Values differ.
    Different,
    /// Shapes differ: values were not compared.
    Shape,
    /// Both types have no common measure, or no plugin knows the values of one.
    NotCompared,
    /// b lacks it.
    OnlyInA,
    /// a lacks it.
    OnlyInB,
}

/// A tensor in one model.
#[derive(Clone, Debug, Serialize)]
pub struct SurveyedSide {
    /// Its element type.
    pub dtype: &'static str,
    /// Its dimensions, outermost first.
    pub shape: Vec<u64>,
    /// Number of elements.
    pub parameters: u64,
    /// Bytes of its payload.
    pub bytes: u64,
    /// Statistics of its values, decoded if it is quantized; absent if no plugin knows them.
    pub statistics: Option<Statistics>,
    /// The root of the mean square of its finite values.
    pub rms: Option<f64>,
    /// Distribution of its finite values; absent without one, and where there are too many tensors to show.
    pub histogram: Option<Bins>,
}

/// Distance of the values of a tensor in b from those in a. Pairs with a side that is not finite are counted, and left out of
/// all else.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ValueError {
    /// The root of the sum of squared differences, over the greater norm of both: 0 if they are the same, at most 2. NaN,
    /// which JSON writes as `null`, where some values differ that are not finite.
    pub relative: Option<f64>,
    /// The root of the mean of squared differences; absent without a pair of finite values.
    pub rmse: Option<f64>,
    /// The greatest difference, likewise.
    pub max_abs: Option<f64>,
    /// Number of values that differ.
    pub differing: u64,
    /// Number of those that have a side that is not finite.
    pub mismatched: u64,
    /// Sums of squares: of differences, of the values of a and of b.
    #[serde(skip)]
    squares: [DoubleDouble; 3],
}

impl Survey {
    /// Number of findings that are more than notes.
    pub fn odd(&self) -> usize {
        self.findings.iter().filter(|finding| finding.severity > Severity::Ok).count()
    }
}

/// Measures `a`, or compares `b` with it as well. Histograms are made of the first `histograms` tensors: each takes some
/// hundred bytes.
///
/// # Errors
/// Any error from reading; Cancelled.
pub fn survey(
    engine: &Engine,
    a: &OpenedModel,
    b: Option<&OpenedModel>,
    histograms: usize,
) -> Result<Survey> {
    let mut sides = match b {
        Some(b) => Sides::in_one_dialect(engine, a, b)?,
        None => Sides::plain(a, a),
    };
    let pairs = paired(&engine.registry, &mut sides, b.is_some())?;
    [Some(a), b].iter().flatten().try_for_each(|opened| opened.will_read_payload())?;
    let mut tensors = tensors(engine, &sides, &pairs, histograms)?;
    if b.is_none() {
        tensors.iter_mut().for_each(|tensor| tensor.status = None);
    }
    let models = [Some(a), b];
    let findings = findings::findings(engine, models, &sides, &pairs, &tensors)?;
    models.iter().flatten().try_for_each(|opened| opened.files.refuse_changed())?;
    let layers = layers::layers(&tensors);
    let heat_map = b.and_then(|_| layers::heat_map(&tensors));
    let b = b.map(|b| surveyed(engine, b)).transpose()?;
    Ok(Survey { a: surveyed(engine, a)?, b, findings, layers, heat_map, tensors, notes: sides.notes })
}

/// The tensors that belong together, in a's order, then those of b alone.
fn paired(registry: &Registry, sides: &mut Sides<'_>, both: bool) -> Result<Vec<Together>> {
    if !both {
        return Ok((0..sides.a.n_tensors()).map(|number| [Some(number), None]).collect());
    }
    let matched = by_name(registry, sides, &[])?;
    let mut pairs: Vec<Together> = matched.pairs.iter().map(|pair| [Some(pair.a), Some(pair.b)]).collect();
    pairs.extend(matched.only_a.iter().map(|&number| [Some(number), None]));
    pairs.sort_by_key(|pair| pair[0]);
    pairs.extend(matched.only_b.iter().map(|&number| [None, Some(number)]));
    Ok(pairs)
}

/// Returns whether two tensors can be read side by side.
fn comparable(engine: &Engine, sides: &Sides<'_>, a: usize, b: usize) -> bool {
    let a = sides.a.tensor(a);
    let b = sides.b.tensor(b);
    a.shape == b.shape && Measure::new(a.dtype, b.dtype, 0.0, &engine.registry).is_some()
}

fn tensors(
    engine: &Engine,
    sides: &Sides<'_>,
    pairs: &[Together],
    histograms: usize,
) -> Result<Vec<SurveyedTensor>> {
    let mut together = Vec::with_capacity(pairs.len());
    for pair in pairs {
        match *pair {
            [Some(a), Some(b)] if !comparable(engine, sides, a, b) => {
                together.extend([[Some(a), None], [None, Some(b)]]);
            }
            pair => together.push(pair),
        }
    }
    let mut measured = measure(engine, sides, &together, histograms)?.into_iter().zip(together).peekable();
    let mut tensors = Vec::with_capacity(pairs.len());
    for pair in pairs {
        let (mut found, read) = measured.next().unwrap_or_default();
        if read != *pair
            && let Some((other, _)) = measured.next()
        {
            found.sides[1] = other.sides.into_iter().nth(1).flatten();
        }
        let [of_a, of_b] = found.sides;
        let named = match *pair {
            [Some(a), _] => Some((&sides.a, a)),
            [None, b] => b.map(|b| (&sides.b, b)),
        };
        let common = named.map_or("", |(side, number)| side.tensor(number).name.as_str());
        let (layer, kind) = place(common);
        tensors.push(SurveyedTensor {
            name: named.map_or("", |(side, number)| side.own_name(number)).to_owned(),
            layer,
            kind,
            status: Some(status(sides, *pair, found.apart.as_ref())),
            a: pair[0].map(|number| surveyed_side(&sides.a, number, of_a)).transpose()?,
            b: pair[1].map(|number| surveyed_side(&sides.b, number, of_b)).transpose()?,
            error: found.apart.as_ref().map(ValueError::new),
        });
    }
    Ok(tensors)
}

fn status(sides: &Sides<'_>, pair: Together, apart: Option<&Apart>) -> Status {
    let [Some(a), Some(b)] = pair else {
        return if pair[0].is_some() { Status::OnlyInA } else { Status::OnlyInB };
    };
    match apart {
        Some(apart) if apart.same_bytes => Status::Identical,
        Some(apart) if apart.distance.differing == 0 => Status::Equal,
        Some(_) => Status::Different,
        None if sides.a.tensor(a).shape != sides.b.tensor(b).shape => Status::Shape,
        None => Status::NotCompared,
    }
}

fn surveyed_side(side: &Side<'_>, number: usize, found: Option<(Statistics, Bins)>) -> Result<SurveyedSide> {
    let tensor = side.listed(number);
    let (statistics, bins) = found.unzip();
    Ok(SurveyedSide {
        dtype: tensor.dtype.name(),
        shape: tensor.shape.clone(),
        parameters: checked_elements(&tensor.shape)?,
        bytes: tensor.payload_len()?,
        rms: statistics.as_ref().and_then(Statistics::rms),
        statistics,
        histogram: bins.filter(|bins| !bins.counts.is_empty()),
    })
}

impl ValueError {
    fn new(apart: &Apart) -> ValueError {
        let distance = &apart.distance;
        let n = DoubleDouble::count(distance.finite.max(1));
        let squares = [distance.sum_squares, distance.squares[0], distance.squares[1]];
        let [rmse, max_abs] = [(distance.sum_squares / n).sqrt().value(), distance.max_abs]
            .map(|value| Some(value).filter(|value| value.is_finite() && distance.finite > 0));
        ValueError {
            relative: if distance.mismatched > 0 { Some(f64::NAN) } else { relative(squares) },
            rmse,
            max_abs,
            differing: distance.differing,
            mismatched: distance.mismatched,
            squares,
        }
    }
}

/// The relative error of sums of squares: of differences, of a and of b.
fn relative([apart, a, b]: [DoubleDouble; 3]) -> Option<f64> {
    let distance = crate::diff::Distance { sum_squares: apart, squares: [a, b], ..Default::default() };
    Some(distance.relative()).filter(|relative| relative.is_finite())
}

fn surveyed(engine: &Engine, opened: &OpenedModel) -> Result<SurveyedModel> {
    let model = &opened.model;
    let mut types: Vec<TypeCount> = Vec::new();
    for tensor in &model.tensors {
        let dtype = tensor.dtype.name();
        let at = types.iter().position(|count| count.dtype == dtype).unwrap_or(types.len());
        if at == types.len() {
            types.push(TypeCount { dtype, tensors: 0, bytes: 0 });
        }
        types[at].tensors += 1;
        types[at].bytes = types[at].bytes.saturating_add(tensor.payload_len()?);
    }
    types.sort_by(|one, two| two.bytes.cmp(&one.bytes).then_with(|| one.dtype.cmp(two.dtype)));
    let name = engine.registry.format(&opened.format).map(|format| format.manifest.name.clone());
    let mut files = opened.files();
    // A split model that was opened by one of its parts has that part once as itself and once as a part.
    files.sort();
    files.dedup();
    Ok(SurveyedModel {
        path: opened.path.display().to_string(),
        format: opened.format.clone(),
        format_name: name.unwrap_or_else(|_| opened.format.clone()),
        bytes: files.iter().fold(0, |sum, (_, len)| sum.saturating_add(*len)),
        between_payloads: between_payloads(opened),
        tensors: model.tensors.len(),
        dialect: model.dialect.clone(),
        architecture: called(engine, model),
        summary: summary(engine, opened, None)?,
        types,
    })
}

/// Bytes between one payload and the next of the same file.
fn between_payloads(opened: &OpenedModel) -> u64 {
    let extents = opened.model.tensors.iter().filter_map(|tensor| match &tensor.payload {
        Payload::Extent { extent, .. } if extent.len > 0 => Some((extent.file, extent.offset, extent.len)),
        _ => None,
    });
    let mut extents: Vec<_> = extents.collect();
    extents.sort_unstable();
    let mut sum = 0u64;
    let mut at = None;
    for (file, offset, len) in extents {
        let end = at.filter(|(of, _)| *of == file).map_or(offset, |(_, end)| end);
        sum = sum.saturating_add(offset.saturating_sub(end));
        at = Some((file, end.max(offset.saturating_add(len))));
    }
    sum
}
