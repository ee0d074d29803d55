//! The frequencies of a rotation, with all that stretches them but for factors that a model keeps as a tensor.

use apr_sdk::{Error, Result, RopeStyle};

/// A rotation of queries and keys.
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    /// The pairing of a head's elements: which of them rotate together.
    pub style: RopeStyle,
    /// The angle of each pair, in radians per position.
    pub frequencies: Vec<f64>,
    /// Multiplies sine and cosine.
    pub magnitude: f64,
    /// True if frequencies are divided by the model's tensor of factors, if it has one.
    pub takes_factors: bool,
    /// The positions of the training before the context was extended: beyond these the long factors apply.
    pub original: Option<u32>,
}

/// The stretching of a rotation, as a configuration states it. Whatever it does not state is `None`.
#[derive(Clone, Debug, Default)]
pub(super) struct Scaling {
    pub(super) kind: String,
    pub(super) factor: Option<f64>,
    pub(super) original: Option<f64>,
    pub(super) context: Option<f64>,
    pub(super) attention_factor: Option<f64>,
    pub(super) extrapolation_factor: Option<f64>,
    pub(super) beta_fast: Option<f64>,
    pub(super) beta_slow: Option<f64>,
    /// True if the bounds of YaRN's ramp are taken as they are, and not rounded.
    pub(super) is_ramp_exact: bool,
    /// True if the model has long and short factors.
    pub(super) has_long_factors: bool,
    /// True if the model has factors.
    pub(super) has_factors: bool,
}

impl Scaling {
    /// A number of it that its kind needs.
    fn needs(&self, value: Option<f64>, what: &str) -> Result<f64> {
        value.filter(|value| value.is_finite() && *value > 0.0).ok_or_else(|| {
            let kind = &self.kind;
            Error::malformed(format!(
                "the RoPE scaling `{kind}` requires {what}, which the model does not state"
            ))
        })
    }
}

/// The angles per position of `dimensions / 2` pairs: theta^(-2 j / dimensions).
#[allow(clippy::cast_precision_loss, reason = "dimensions are far below 2^53")]
fn plain(dimensions: u32, theta: f64) -> Vec<f64> {
    (0..dimensions / 2).map(|pair| theta.powf(-2.0 * f64::from(pair) / f64::from(dimensions))).collect()
}

/// The frequencies and the magnitude.
///
/// # Errors
/// Unsupported for a kind of scaling that cannot be computed; Malformed if a number that it needs is not stated.
pub(super) fn scaled(dimensions: u32, theta: f64, scaling: &Scaling) -> Result<(Vec<f64>, f64)> {
    let frequencies = plain(dimensions, theta);
    if scaling.has_long_factors || ["longrope", "su"].contains(&scaling.kind.as_str()) {
        if !scaling.has_long_factors {
            return Err(Error::malformed("the RoPE scaling requires factors that the model does not have"));
        }
        let original = scaling.needs(scaling.original, "the original context length")?;
        let stretched = scaling.context.unwrap_or(original) / original;
        let magnitude = match scaling.attention_factor {
            Some(stated) => stated,
            None if stretched <= 1.0 => 1.0,
            None if scaling.kind == "yarn" => 0.1 * stretched.ln() + 1.0,
            None => (1.0 + stretched.ln() / original.ln()).sqrt(),
        };
        return Ok((frequencies, magnitude));
    }
    match scaling.kind.as_str() {
        // The sections of a picture's rotation are one for text.
        "none" | "default" | "mrope" => Ok((frequencies, 1.0)),
        "llama3" if scaling.has_factors => Ok((frequencies, 1.0)),
        "llama3" => Err(Error::malformed("the RoPE scaling requires factors that the model does not have")),
        "linear" => {
            let factor = scaling.needs(scaling.factor, "the scaling factor")?;
            Ok((frequencies.iter().map(|frequency| frequency / factor).collect(), 1.0))
        }
        "yarn" => {
            let factor = scaling.needs(scaling.factor, "the scaling factor")?;
            let original =
                scaling.needs(scaling.original.or(scaling.context), "the original context length")?;
            let magnitude = match scaling.attention_factor {
                Some(stated) => stated,
                None if factor <= 1.0 => 1.0,
                None => 0.1 * factor.ln() + 1.0,
            };
            Ok((yarn(&frequencies, dimensions, theta, factor, original, scaling), magnitude))
        }
        other => Err(Error::unsupported(format!(
            "the RoPE scaling `{other}` depends on the length of the text, which is not supported"
        ))
        .hint("set the scaling to `linear` or `yarn` in the model's configuration, or remove it")),
    }
}

/// YaRN: fast pairs keep their frequency, slow ones are divided by the factor, with a ramp in between.
fn yarn(
    plain: &[f64],
    dimensions: u32,
    theta: f64,
    factor: f64,
    original: f64,
    scaling: &Scaling,
) -> Vec<f64> {
    let dimensions = f64::from(dimensions);
    let mut low = pair_that_turns(scaling.beta_fast.unwrap_or(32.0), dimensions, theta, original);
    let mut high = pair_that_turns(scaling.beta_slow.unwrap_or(1.0), dimensions, theta, original);
    if !scaling.is_ramp_exact {
        low = low.floor();
        high = high.ceil();
    }
    low = low.max(0.0);
    high = high.min(dimensions - 1.0);
    let width = if high > low { high - low } else { 0.001 };
    let mut pair = 0.0;
    let mut stretched = Vec::with_capacity(plain.len());
    for frequency in plain {
        let slow = ((pair - low) / width).clamp(0.0, 1.0);
        let keeps = (1.0 - slow) * scaling.extrapolation_factor.unwrap_or(1.0);
        stretched.push(frequency / factor * (1.0 - keeps) + frequency * keeps);
        pair += 1.0;
    }
    stretched
}

/// The pair, not rounded, that turns so many times in the original context.
fn pair_that_turns(turns: f64, dimensions: f64, theta: f64, original: f64) -> f64 {
    dimensions * (original / (turns * 2.0 * std::f64::consts::PI)).ln() / (2.0 * theta.ln())
}

/// ALiBi's slopes for `heads` heads, the steepest 2^(-most / heads).
pub(super) fn slopes(heads: u32, most: f64) -> Vec<f32> {
    let even = 1u32 << heads.max(1).ilog2();
    let mut slopes = Vec::new();
    for head in 0..heads {
        let exponent = if head < even {
            f64::from(head + 1) / f64::from(even)
        } else {
            f64::from(2 * (head - even) + 1) / f64::from(2 * even)
        };
        #[allow(clippy::cast_possible_truncation, reason = "programs hold F32")]
        slopes.push(2.0f64.powf(-most * exponent) as f32);
    }
    slopes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(kind: &str) -> Scaling {
        Scaling { kind: kind.to_owned(), ..Scaling::default() }
    }

    #[test]
    fn frequencies_fall_from_one_to_nearly_one_over_theta() {
        let (frequencies, magnitude) = scaled(4, 10_000.0, &kind("none")).unwrap();
        assert_eq!((frequencies, magnitude), (vec![1.0, 0.01], 1.0));
        let linear = Scaling { factor: Some(4.0), ..kind("linear") };
        assert_eq!(scaled(4, 10_000.0, &linear).unwrap().0, [0.25, 0.0025]);
    }

    #[test]
    fn yarn_keeps_fast_pairs_and_stretches_slow_ones() {
        let yarn = Scaling { factor: Some(4.0), original: Some(4096.0), ..kind("yarn") };
        let (frequencies, magnitude) = scaled(128, 10_000.0, &yarn).unwrap();
        let plain = plain(128, 10_000.0);
        assert_eq!(frequencies[0], plain[0]);
        assert_eq!(frequencies[63], plain[63] / 4.0);
        assert!(frequencies[30] < plain[30] && frequencies[30] > plain[30] / 4.0);
        assert!((magnitude - (0.1 * 4f64.ln() + 1.0)).abs() < 1e-12);
    }

    /// The numbers are those of transformers 4.57.6, `ROPE_INIT_FUNCTIONS["yarn"]`, which computes in F32.
    #[test]
    fn yarn_is_what_transformers_computes() {
        let first = Scaling { factor: Some(4.0), original: Some(32_768.0), ..kind("yarn") };
        let second = Scaling {
            factor: Some(40.0),
            original: Some(4096.0),
            attention_factor: Some(1.5),
            beta_fast: Some(32.0),
            beta_slow: Some(1.0),
            ..kind("yarn")
        };
        let pairs = [0, 5, 12, 16, 20, 24, 31];
        for (scaling, theta, magnitude, want) in [
            (
                first,
                1e6,
                1.138_629_436_111_989,
                [
                    1.0,
                    0.115_478_202_700_614_93,
                    0.005_154_795_479_029_417,
                    0.000_583_333_370_741_456_7,
                    4.445_698_505_151_085_6e-5,
                    7.905_693_564_680_405e-6,
                    3.849_816_323_509_003e-7,
                ],
            ),
            (
                second,
                1e4,
                1.5,
                [
                    1.0,
                    0.237_137_362_360_954_28,
                    0.026_879_360_899_329_185,
                    0.005_500_000_435_858_965,
                    0.000_790_569_407_399_743_8,
                    2.499_999_936_844_688e-5,
                    3.333_803_533_678_292e-6,
                ],
            ),
        ] {
            let (frequencies, scale) = scaled(64, theta, &scaling).unwrap();
            assert!((scale - magnitude).abs() < 1e-12);
            for (pair, want) in pairs.into_iter().zip(want) {
                let got: f64 = frequencies[pair];
                assert!((got / want - 1.0).abs() < 1e-6, "pair {pair}: {got}, not {want}");
            }
        }
    }

    #[test]
    fn what_cannot_be_computed_is_refused() {
        assert_eq!(scaled(4, 1e4, &kind("dynamic")).unwrap_err().kind(), apr_sdk::ErrorKind::Unsupported);
        for lacks in ["linear", "yarn", "llama3", "longrope"] {
            assert_eq!(scaled(4, 1e4, &kind(lacks)).unwrap_err().kind(), apr_sdk::ErrorKind::Malformed);
        }
    }

    #[test]
    fn slopes_of_a_number_that_is_no_power_of_two_are_interleaved() {
        assert_eq!(slopes(4, 8.0), [0.25, 0.0625, 0.015_625, 0.003_906_25]);
        assert_eq!(slopes(3, 8.0), [0.0625, 0.003_906_25, 0.25]);
    }
}
