//! Tensors of a dialect that are computed from the configuration.

use crate::architecture::config::{ConfigScope, ItScope};
use crate::architecture::language::expression::{Expression, Scalar, Scope};
use crate::architecture::language::pattern::Pattern;
use crate::architecture::table::Generator;
use apr_sdk::{DType, Error, Result, half};

/// A computed tensor: dtype, shape and little-endian bytes.
pub type Generated = (DType, Vec<u64>, Vec<u8>);

/// Computes a tensor for a rule's `generate`; `None` if the configuration does not call for it.
///
/// # Errors
/// InvalidArgument for a configuration that it cannot handle.
pub fn generate(generator: &Generator, scope: &dyn Scope) -> Result<Option<Generated>> {
    match generator {
        Generator::Llama3Frequencies => llama3_freqs(scope),
        Generator::Values { values, scalar, .. } => listed(values, *scalar, scope),
        // The configuration says nothing of them.
        Generator::Rows { .. } => Ok(None),
    }
}

fn number(scope: &dyn Scope, name: &str) -> Result<Option<f64>> {
    Ok(match scope.value(name)? {
        Some(Scalar::Int(n)) => n.to_string().parse().ok(),
        Some(Scalar::Float(x)) => Some(x),
        _ => None,
    })
}

/// A number that the scaling of Llama 3 needs.
fn needed(scope: &dyn Scope, name: &str) -> Result<f64> {
    number(scope, name)?.ok_or_else(|| {
        Error::malformed(format!("Llama 3 RoPE scaling requires `{name}`, which the model does not state"))
    })
}

/// The divisors of Llama 3's rotary frequencies, as computed by llama.cpp's converter (`rope_freqs.weight`):
/// 1 below the wavelength `ctx / high`, the factor above `ctx / low`, smooth in between.
fn llama3_freqs(scope: &dyn Scope) -> Result<Option<Generated>> {
    if scope.value("rope_scaling_type")? != Some(Scalar::Text("llama3".to_owned())) {
        return Ok(None);
    }
    let theta = needed(scope, "rope_theta")?;
    let dim = needed(scope, "head_dim")?;
    let factor = needed(scope, "rope_scaling_factor")?;
    let low = needed(scope, "rope_scaling_low_freq_factor")?;
    let high = needed(scope, "rope_scaling_high_freq_factor")?;
    let context = needed(scope, "rope_scaling_original_max_position_embeddings")?;
    let positive = [theta, factor, low, high, context].iter().all(|x| x.is_finite() && *x > 0.0);
    if !positive || low.total_cmp(&high).is_eq() || dim <= 0.0 || dim > 65_536.0 {
        return Err(Error::malformed("the parameters of Llama 3 RoPE scaling are out of range"));
    }
    // The converter uses F32 tensors, to which Python floats are converted.
    #[allow(clippy::cast_possible_truncation, reason = "as above")]
    let [theta, dim, factor, low, high, context] = [theta, dim, factor, low, high, context].map(|x| x as f32);
    let low_wavelength = context / low;
    let high_wavelength = context / high;
    let mut bytes = Vec::new();
    let mut exponent = 0.0f32;
    while exponent < dim {
        let frequency = 1.0 / theta.powf(exponent / dim);
        // torch divides a number by a tensor as the tensor's reciprocal times the number.
        let wavelength = (1.0 / frequency) * (2.0 * std::f32::consts::PI);
        let divisor = if wavelength < high_wavelength {
            1.0
        } else if wavelength > low_wavelength {
            factor
        } else {
            let smooth = ((1.0 / wavelength) * context - low) / (high - low);
            1.0 / ((1.0 - smooth) / factor + smooth)
        };
        bytes.extend_from_slice(&divisor.to_le_bytes());
        exponent += 2.0;
    }
    Ok(Some((DType::F32, vec![bytes.len() as u64 / 4], bytes)))
}

/// The items of a list as F32.
fn listed(values: &Expression, scalar: bool, scope: &dyn Scope) -> Result<Option<Generated>> {
    let Some(Scalar::List(items)) = values.value(scope)? else { return Ok(None) };
    let mut bytes = Vec::new();
    for item in &items {
        let x = match item {
            Scalar::Int(n) => n.to_string().parse().unwrap_or(f64::NAN),
            Scalar::Float(x) => *x,
            other => {
                return Err(Error::invalid_argument(format!("expected a list of numbers, found {other}")));
            }
        };
        #[allow(clippy::cast_possible_truncation, reason = "F32 is what is written")]
        bytes.extend_from_slice(&(x as f32).to_le_bytes());
    }
    let shape = match scalar {
        true if items.len() == 1 => Vec::new(),
        true => {
            return Err(Error::invalid_argument(format!(
                "expected 1 number for a scalar tensor, found {}",
                items.len()
            )));
        }
        false => vec![items.len() as u64],
    };
    Ok(Some((DType::F32, shape, bytes)))
}

/// Whether F32 values differ by a few units in the last place at most: torch computes powers and quotients differently
/// from machine to machine.
fn near(a: &[u8], b: &[u8]) -> bool {
    const UNITS: u32 = 4;
    a.len() == b.len() && bits(a).zip(bits(b)).all(|(a, b)| a.abs_diff(b) <= UNITS)
}

/// The bits of F32 values.
fn bits(bytes: &[u8]) -> impl Iterator<Item = u32> {
    bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]]))
}

/// The configuration names that a rule's `generate` uses.
pub fn follows_from(generator: &Generator) -> Vec<&str> {
    match generator {
        Generator::Llama3Frequencies => vec![
            "rope_scaling_type",
            "rope_scaling_factor",
            "rope_scaling_low_freq_factor",
            "rope_scaling_high_freq_factor",
            "rope_scaling_original_max_position_embeddings",
        ],
        Generator::Values { sets, .. } => sets.iter().map(|(name, _)| name.as_str()).collect(),
        Generator::Rows { .. } => Vec::new(),
    }
}

/// A tensor that a rule's `generate` could have made: the numbers at the places of its name, and its values as F32.
pub struct Part {
    /// Places and numbers.
    pub numbers: Vec<(String, u64)>,
    /// Little-endian F32.
    pub bytes: Vec<u8>,
}

impl Part {
    /// The tensors among `all` whose names fit a pattern, in the order of their numbers.
    pub fn all<'a>(image: &Pattern, all: impl Iterator<Item = (&'a str, Vec<u8>)>) -> Vec<Part> {
        let mut parts = Vec::new();
        for (name, bytes) in all {
            parts.extend(image.places_in(name).map(|numbers| Part { numbers, bytes }));
        }
        parts.sort_by(|one, other| one.numbers.cmp(&other.numbers));
        parts
    }
}

/// Floats of 16 or 32 bits as F32; `None` for any other type.
pub fn as_f32(dtype: DType, bytes: &[u8]) -> Option<Vec<u8>> {
    match dtype {
        DType::F32 => Some(bytes.to_vec()),
        DType::F16 => Some(widened(bytes, half::from_f16)),
        DType::BF16 => Some(widened(bytes, half::from_bf16)),
        _ => None,
    }
}

fn widened(bytes: &[u8], widen: fn(u16) -> f32) -> Vec<u8> {
    bytes.chunks_exact(2).flat_map(|b| widen(u16::from_le_bytes([b[0], b[1]])).to_le_bytes()).collect()
}

/// Where the divisors of Llama 3's frequencies begin to grow, and where they end.
struct Bounds {
    low: f64,
    high: f64,
    context: i64,
}

/// The lengths for which models were trained before their rotation was stretched.
const USUAL_CONTEXTS: [i64; 12] =
    [8192, 4096, 2048, 1024, 512, 256, 128, 64, 16_384, 32_768, 65_536, 131_072];

/// What models state as the lower of two bounds; only their ratio to each other and to the context matters.
const LOWER: [f64; 6] = [1.0, 2.0, 0.5, 4.0, 1.5, 0.25];

/// The bounds between which divisors are what they are: 1 over them is a line over the frequency there.
fn bounds(divisors: &[f32], factor: f32, scope: &dyn Scope) -> Result<Vec<Bounds>> {
    let (Some(theta), Some(dim)) = (number(scope, "rope_theta")?, number(scope, "head_dim")?) else {
        return Ok(Vec::new());
    };
    let whole = f64::from(factor);
    let mut points = Vec::new();
    for (divisor, exponent) in divisors.iter().zip((0u32..).step_by(2)) {
        if *divisor > 1.0 && *divisor < factor {
            let turns = theta.powf(-f64::from(exponent) / dim) / std::f64::consts::TAU;
            let smooth = (1.0 / f64::from(*divisor) - 1.0 / whole) / (1.0 - 1.0 / whole);
            points.push((turns, smooth));
        }
    }
    let (Some((x, y)), Some((to_x, to_y)), 2..) = (points.first(), points.last(), points.len()) else {
        return Ok(usual_bounds(points.first().copied()));
    };
    let slope = (to_y - y) / (to_x - x);
    let start = y - slope * x;
    if !slope.is_finite() || slope <= 0.0 || start >= 0.0 {
        return Ok(Vec::new());
    }
    let between = LOWER.map(|low| {
        let high = (low * (1.0 - 1.0 / start) * 1000.0).round() / 1000.0;
        #[allow(clippy::cast_possible_truncation, reason = "a length, or one that gives no such tensor")]
        let context = (slope * (high - low)).round() as i64;
        Bounds { low, high, context }
    });
    Ok(between.into_iter().filter(|bounds| bounds.high > bounds.low && bounds.context > 0).collect())
}

/// Bounds with a lower one and a context that models state, where a line cannot be told: between them lies one divisor, of
/// this frequency and place between the bounds, or none.
fn usual_bounds(point: Option<(f64, f64)>) -> Vec<Bounds> {
    /// What models state as the upper bound, in units of the lower one.
    const UPPER: [f64; 6] = [4.0, 2.0, 8.0, 3.0, 1.5, 16.0];
    let mut found = Vec::new();
    for (low, context) in LOWER.into_iter().flat_map(|low| USUAL_CONTEXTS.map(|context| (low, context))) {
        #[allow(clippy::cast_precision_loss, reason = "the length of a text")]
        let length = context as f64;
        match point {
            Some((turns, smooth)) => {
                let high = low + (turns * length - low) / smooth;
                found.push(Bounds { low, high: (high * 1000.0).round() / 1000.0, context });
            }
            None => found.extend(UPPER.map(|upper| Bounds { low, high: low * upper, context })),
        }
    }
    found.retain(|bounds| bounds.high > bounds.low);
    found
}

/// The configuration names and values that tensors of a rule's `generate` imply; `None` if they cannot be
/// told.
///
/// # Errors
/// Any error from [`generate`] and from evaluating.
pub fn recover(
    generator: &Generator,
    parts: &[Part],
    scope: &ConfigScope<'_>,
) -> Result<Option<Vec<(String, Scalar)>>> {
    let floats = parts.iter().flat_map(|part| bits(&part.bytes)).map(f32::from_bits);
    if let Generator::Values { sets, .. } = generator {
        // The shortest decimal for this float: what people wrote.
        let items = floats.map(|x| Scalar::Float(x.to_string().parse().unwrap_or(f64::NAN)));
        let it = Scalar::List(items.collect());
        let mut stated = Vec::new();
        for (name, from) in sets {
            let value = from.value(&ItScope { it: it.clone(), inner: scope.over(scope.config) })?;
            stated.extend(value.map(|value| (name.clone(), value)));
        }
        return Ok(gives(generator, parts, &stated, scope)?.then_some(stated));
    }
    let divisors: Vec<f32> = floats.collect();
    // The factor is the largest divisor. Files do not state the other three; those of Llama 3 are tried first, then those that
    // lie on the line between two divisors, and are right if they give the same tensor.
    let factor = divisors.iter().copied().fold(0.0, f32::max);
    let usual = USUAL_CONTEXTS.map(|context| Bounds { low: 1.0, high: 4.0, context });
    let bounds = bounds(&divisors, factor, &scope.over(scope.config))?;
    for Bounds { low, high, context } in usual.into_iter().chain(bounds) {
        let stated = [
            ("rope_scaling_type", Scalar::Text("llama3".to_owned())),
            ("rope_scaling_factor", Scalar::Float(factor.into())),
            ("rope_scaling_low_freq_factor", Scalar::Float(low)),
            ("rope_scaling_high_freq_factor", Scalar::Float(high)),
            ("rope_scaling_original_max_position_embeddings", Scalar::Int(context)),
        ];
        let stated = Vec::from(stated.map(|(name, value)| (name.to_owned(), value)));
        if gives(generator, parts, &stated, scope)? {
            return Ok(Some(stated));
        }
    }
    Ok(None)
}

/// Returns whether these values, stated over those in `scope`, give all of the tensors.
fn gives(
    generator: &Generator,
    parts: &[Part],
    stated: &[(String, Scalar)],
    scope: &ConfigScope<'_>,
) -> Result<bool> {
    let mut config = scope.config.clone();
    for (name, value) in stated {
        config.set(name, value.clone());
    }
    let scope = scope.over(&config);
    for part in parts {
        let generated = generate(generator, &scope.at(&part.numbers))?;
        if !generated.is_some_and(|(_, _, bytes)| near(&bytes, &part.bytes)) {
            return Ok(false);
        }
    }
    Ok(!parts.is_empty())
}
