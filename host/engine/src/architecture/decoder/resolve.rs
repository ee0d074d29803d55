//! Evaluates a table's `[decoder]` for one model.

use super::roles::Roles;
use super::rope::{Rope, Scaling, scaled, slopes};
use super::{
    Attention, Decoder, Experts, FeedForward, Input, Layer, Norm, NormPlace, Output, QkNorm, Shared,
};
use crate::architecture::config::{Config, ConfigScope};
use crate::architecture::language::expression::Scalar;
use crate::architecture::table::Table;
use crate::architecture::table::rule::images;
use crate::architecture::table::section::keys::{KEYS, Kind};
use crate::architecture::table::section::{Section, Stated};
use crate::hints;
use apr_sdk::{Activation, Error, ExpertScore, Mask, NormKind, Pooling, Result, RopeStyle, escape};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};

/// More layers than any model has: a file that states more is refused before anything is made for them.
const MOST_LAYERS: u64 = 4096;
/// More heads, and wider ones, than any model has.
const MOST_OF_HEADS: u32 = 65_536;

/// The decoder of a model with this configuration and these tensors.
///
/// # Errors
/// As [`super::decoder`].
pub(super) fn resolve(
    table: &Table,
    section: &Section,
    config: &Config,
    tensors: &[(String, Vec<u64>)],
) -> Result<Decoder> {
    let dimensions = dimensions(table, &section.rows, tensors);
    let scope = ConfigScope::new(table, config, &dimensions);
    for (when, reason) in &section.refusals {
        if when.holds(&scope)? {
            return Err(Error::unsupported(format!("the model cannot be run: {reason}")));
        }
    }
    let has: HashSet<&str> = tensors.iter().map(|(name, _)| name.as_str()).collect();
    let whole = Values { section, scope: &scope };
    let count = table
        .count("layer")
        .ok_or_else(|| Error::invalid_argument("`[places]` does not define the number of layers"))?;
    let count = count.size(&scope)?;
    if count == 0 || count > MOST_LAYERS {
        return Err(Error::malformed(format!("the model states {count} layers, which is out of range")));
    }
    // Those behind are for other uses.
    let count = count.min(whole.count("", "layers")?.into());
    let roles = Roles::of(table, &section.rows, None, &scope, &has)?;
    let factors =
        Factors { any: roles.is_held("rope.factors", &has), long: roles.is_held("rope.factors.long", &has) };
    let mut layers = Vec::new();
    for number in 0..count {
        let numbers = [("i".to_owned(), number), ("layer".to_owned(), number)];
        let at = scope.at(&numbers);
        let values = Values { section, scope: &at };
        let roles = Roles::of(table, &section.rows, Some(number), &scope, &has)?;
        let layer = layer(&values, roles, factors).map_err(|e| {
            let said = format!("layer {number}: {}", e.message());
            e.with_message(said)
        })?;
        layers.push(layer);
    }
    let place = match whole.word("norm", "place")?.as_str() {
        "after_branch" => NormPlace::AfterBranch,
        "both" => NormPlace::Both,
        "after_sum" => NormPlace::AfterSum,
        _ => NormPlace::Before,
    };
    // Both branches of a parallel block read what a norm before them makes.
    let is_after = matches!(place, NormPlace::AfterBranch | NormPlace::AfterSum);
    if is_after && layers.iter().any(|layer| layer.parallel) {
        return Err(Error::unsupported(
            "parallel blocks are only supported with norms before attention and feed-forward",
        ));
    }
    // A norm behind a branch undoes what scales it.
    if place != NormPlace::Before && layers.iter().any(|layer| layer.branch_scale != 1.0) {
        return Err(Error::unsupported(
            "scaled branches are only supported with norms before attention and feed-forward",
        ));
    }
    Ok(Decoder {
        architecture: table.id.clone(),
        rows: section.rows.clone(),
        width: whole.count("", "width")?,
        vocabulary: whole.count("", "vocabulary")?,
        context: whole.maybe("", "context")?.map(|n| size(n, "context")).transpose()?,
        norm: Norm {
            kind: if whole.word("norm", "kind")? == "layer" { NormKind::LAYER } else { NormKind::RMS },
            epsilon: whole.float("norm", "epsilon")?,
            place,
            has_gain: whole.truth("norm", "gain")?,
        },
        input: Input {
            scale: whole.float("input", "scale")?,
            positions: whole.word("input", "positions")? == "learned",
            types: whole.word("input", "types")? == "first",
            norm: whole.truth("input", "norm")?,
        },
        layers,
        output: Output {
            scale: whole.float("output", "scale")?,
            soft_cap: positive(whole.float_or("output", "soft_cap", 0.0)?),
            pooling: match whole.word_or("output", "pooling", "none")?.as_str() {
                "mean" => Some(Pooling::MEAN),
                "first" | "cls" => Some(Pooling::FIRST),
                "last" | "lasttoken" => Some(Pooling::LAST),
                _ => None,
            },
        },
        roles,
    })
}

/// Looks up dimensions of tensors by their canonical names. Conditions ask for the same in every layer, so answers are kept.
fn dimensions(
    table: &Table,
    rows: &str,
    tensors: &[(String, Vec<u64>)],
) -> impl Fn(&str, usize) -> Option<u64> {
    let known = RefCell::new(HashMap::new());
    move |name: &str, axis: usize| {
        *known.borrow_mut().entry((name.to_owned(), axis)).or_insert_with(|| {
            let pattern = images(table.rule_of(name)?, rows).0.first()?;
            let (_, shape) = tensors.iter().find(|(name, _)| pattern.numbers(name).is_some())?;
            shape.get(axis).copied()
        })
    }
}

/// Factors of the rotation that a model keeps as tensors.
#[derive(Clone, Copy)]
struct Factors {
    any: bool,
    /// Those of long texts.
    long: bool,
}

fn layer(values: &Values<'_>, roles: Roles, factors: Factors) -> Result<Layer> {
    let experts = match values.number_or("experts", "count", 0.0)? {
        count if count > 0.0 => Some(experts(values)?),
        _ => None,
    };
    let activation = values.word("feed_forward", "activation")?;
    Ok(Layer {
        attention: attention(values, factors)?,
        feed_forward: FeedForward {
            // A layer of experts need not have a width besides theirs.
            width: match &experts {
                None => values.count("feed_forward", "width")?,
                Some(experts) => experts.width,
            },
            gated: values.word("feed_forward", "form")? == "gated",
            activation: match activation.as_str() {
                "silu" | "swish" => Activation::SILU,
                "gelu" | "gelu_erf" | "gelu_python" => Activation::GELU_ERF,
                "quick_gelu" => Activation::GELU_QUICK,
                "relu" => Activation::RELU,
                "relu2" => Activation::RELU_SQUARED,
                "clamped_swiglu" => Activation::SWIGLU_CLAMPED,
                _ => Activation::GELU_TANH,
            },
            alpha: values.float("feed_forward", "alpha")?,
            limit: values.float("feed_forward", "limit")?,
        },
        experts,
        parallel: values.word("", "block")? == "parallel",
        branch_scale: values.float("", "branch_scale")?,
        roles,
    })
}

fn attention(values: &Values<'_>, factors: Factors) -> Result<Attention> {
    let heads = values.count("attention", "heads")?;
    let key_heads = values.count("attention", "key_heads")?;
    let key = values.count("attention", "key")?;
    let value = values.count("attention", "value")?;
    if let Some(most) = [heads, key, value].into_iter().find(|size| *size > MOST_OF_HEADS) {
        return Err(Error::limit(format!("the number or width of the attention heads is too large: {most}")));
    }
    if heads % key_heads != 0 {
        let message = format!("{heads} query heads are not a multiple of {key_heads} key heads");
        return Err(Error::malformed(hints::HEADS.told(&message)));
    }
    let is_full = values.word("attention", "mask")? == "full";
    let window = match values.number_or("attention", "window", 0.0)? {
        none if none <= 0.0 => 0,
        window => size(window, "window")?,
    };
    if is_full && window > 0 {
        return Err(Error::unsupported("bidirectional attention with a sliding window is not supported"));
    }
    let alibi = values.number_or("attention", "alibi", 0.0)?;
    Ok(Attention {
        heads,
        key_heads,
        key,
        value,
        scale: values.float("attention", "scale")?,
        mask: match (is_full, window) {
            (true, _) => Mask::FULL,
            (false, 0) => Mask::CAUSAL,
            (false, _) => Mask::WINDOW,
        },
        window,
        soft_cap: positive(values.float_or("attention", "soft_cap", 0.0)?),
        clamp: positive(values.float_or("attention", "clamp", 0.0)?),
        within: size(values.number("attention", "within")?, "within")?,
        slopes: if alibi > 0.0 { slopes(heads, alibi) } else { Vec::new() },
        qk_norm: match values.word("qk_norm", "over")?.as_str() {
            "head" => QkNorm::Head,
            "all" => QkNorm::All,
            _ => QkNorm::None,
        },
        norm_after_rotation: values.truth("qk_norm", "after_rotation")?,
        rope: rope(values, key, factors)?,
    })
}

fn rope(values: &Values<'_>, key: u32, factors: Factors) -> Result<Option<Rope>> {
    let style = match values.scope.table.rope.as_str() {
        "norm" => RopeStyle::INTERLEAVED,
        "neox" => RopeStyle::HALF,
        _ => return Ok(None),
    };
    if !values.truth("rope", "when")? {
        return Ok(None);
    }
    let dimensions = values.count("rope", "dimensions")?;
    if dimensions % 2 != 0 || dimensions > key {
        return Err(Error::malformed(format!(
            "the RoPE dimension {dimensions} is odd or larger than the head dimension {key}"
        )));
    }
    let theta = values.number("rope", "theta")?;
    if theta <= 1.0 {
        return Err(Error::malformed(format!("the RoPE base {theta} is not greater than 1")));
    }
    let is_scaled = values.truth("rope", "scaled")?;
    let scaling = Scaling {
        kind: if is_scaled { values.word_or("rope", "scaling", "none")? } else { "none".to_owned() },
        factor: values.maybe("rope", "factor")?,
        original: values.maybe("rope", "original")?,
        context: values.maybe("", "context")?,
        attention_factor: values.maybe("rope", "attention_factor")?,
        extrapolation_factor: values.maybe("rope", "extrapolation_factor")?,
        beta_fast: values.maybe("rope", "beta_fast")?,
        beta_slow: values.maybe("rope", "beta_slow")?,
        is_ramp_exact: !values.truth("rope", "truncate")?,
        has_long_factors: is_scaled && factors.long,
        has_factors: is_scaled && factors.any,
    };
    let (frequencies, magnitude) = scaled(dimensions, theta, &scaling)?;
    let original = match scaling.original.filter(|_| scaling.has_long_factors) {
        Some(original) => Some(size(original, "original")?),
        None => None,
    };
    Ok(Some(Rope { style, frequencies, magnitude, takes_factors: is_scaled, original }))
}

fn experts(values: &Values<'_>) -> Result<Experts> {
    let shared = match values.word("experts", "shared")?.as_str() {
        "none" => None,
        kind => Some(Shared { width: values.count("experts", "shared_width")?, gated: kind == "gated" }),
    };
    let experts = Experts {
        count: values.count("experts", "count")?,
        used: values.count("experts", "used")?,
        width: values.count("experts", "width")?,
        score: match values.word("experts", "score")?.as_str() {
            "sigmoid" => ExpertScore::SIGMOID,
            "softmax_of_chosen" => ExpertScore::SOFTMAX_OF_CHOSEN,
            _ => ExpertScore::SOFTMAX,
        },
        normalize: values.truth("experts", "normalize")?,
        scale: values.float("experts", "scale")?,
        groups: values.count("experts", "groups")?,
        groups_used: size(values.number_or("experts", "groups_used", 0.0)?, "groups_used")?,
        shared,
    };
    if experts.used > experts.count {
        let message = format!(
            "the number of experts per token, {}, exceeds the number of experts, {}",
            experts.used, experts.count
        );
        return Err(Error::malformed(message));
    }
    Ok(experts)
}

/// A bound, where anything but a positive number says that there is none.
fn positive(value: f32) -> f32 {
    if value > 0.0 { value } else { 0.0 }
}

/// The number as a size; `what` is its key.
fn size(number: f64, what: &str) -> Result<u32> {
    if number.fract() != 0.0 || !(0.0..=f64::from(u32::MAX)).contains(&number) {
        return Err(Error::malformed(format!("`{what}` is {number}, which is not a valid size")));
    }
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "checked just above")]
    Ok(number as u32)
}

/// The section's values in a scope.
struct Values<'a> {
    section: &'a Section,
    scope: &'a ConfigScope<'a>,
}

impl Values<'_> {
    /// The value that the section states for a key.
    fn stated(&self, section: &str, name: &str) -> Option<&Stated> {
        let mut values = KEYS.iter().zip(&self.section.values);
        let found = values.find(|(key, _)| key.section == section && key.name == name);
        found.map(|(_, value)| value)
    }

    /// The value of a key; `None` if names in it have none.
    fn scalar(&self, section: &str, name: &str) -> Result<Option<Scalar>> {
        match self.stated(section, name) {
            None => Ok(None),
            Some(Stated::Word(word)) => Ok(Some(Scalar::Text(word.clone()))),
            Some(Stated::Expression(expression)) => expression
                .value(self.scope)
                .map_err(|e| Error::invalid_argument(format!("{}: {}", at(section, name), e.message()))),
        }
    }

    #[allow(clippy::cast_precision_loss, reason = "sizes are far below 2^53")]
    fn maybe(&self, section: &str, name: &str) -> Result<Option<f64>> {
        match self.scalar(section, name)? {
            None => Ok(None),
            Some(Scalar::Int(n)) => Ok(Some(n as f64)),
            Some(Scalar::Float(x)) if x.is_finite() => Ok(Some(x)),
            Some(other) => {
                Err(Error::invalid_argument(format!("{} is {other}, expected a number", at(section, name))))
            }
        }
    }

    fn number(&self, section: &str, name: &str) -> Result<f64> {
        self.maybe(section, name)?.ok_or_else(|| self.unstated(section, name))
    }

    fn number_or(&self, section: &str, name: &str, otherwise: f64) -> Result<f64> {
        Ok(self.maybe(section, name)?.unwrap_or(otherwise))
    }

    #[allow(clippy::cast_possible_truncation, reason = "programs hold F32")]
    fn float(&self, section: &str, name: &str) -> Result<f32> {
        Ok(self.number(section, name)? as f32)
    }

    #[allow(clippy::cast_possible_truncation, reason = "programs hold F32")]
    fn float_or(&self, section: &str, name: &str, otherwise: f64) -> Result<f32> {
        Ok(self.number_or(section, name, otherwise)? as f32)
    }

    /// A size of one at least.
    fn count(&self, section: &str, name: &str) -> Result<u32> {
        match size(self.number(section, name)?, name)? {
            0 => Err(Error::malformed(format!("{} is 0", at(section, name)))),
            count => Ok(count),
        }
    }

    fn truth(&self, section: &str, name: &str) -> Result<bool> {
        match self.scalar(section, name)? {
            Some(Scalar::Bool(truth)) => Ok(truth),
            Some(Scalar::Int(n)) => Ok(n != 0),
            None => Err(self.unstated(section, name)),
            Some(other) => Err(Error::invalid_argument(format!(
                "{} is {other}, expected true or false",
                at(section, name)
            ))),
        }
    }

    fn word(&self, section: &str, name: &str) -> Result<String> {
        let value = self.scalar(section, name)?.ok_or_else(|| self.unstated(section, name))?;
        let key = KEYS.iter().find(|key| key.section == section && key.name == name);
        let known = match key.map(|key| key.kind) {
            Some(Kind::Word(known)) => known,
            _ => &[],
        };
        match value {
            Scalar::Text(word) if known.contains(&word.as_str()) => Ok(word),
            other => Err(Error::unsupported(format!(
                "{} is {other}, expected one of {}",
                at(section, name),
                known.join(", ")
            ))),
        }
    }

    fn word_or(&self, section: &str, name: &str, otherwise: &str) -> Result<String> {
        match self.scalar(section, name)? {
            None => Ok(otherwise.to_owned()),
            Some(_) => self.word(section, name),
        }
    }

    fn unstated(&self, section: &str, name: &str) -> Error {
        let said = match self.stated(section, name) {
            Some(Stated::Expression(expression)) => escape(&expression.to_string(), 200).to_string(),
            _ => String::new(),
        };
        Error::malformed(format!("{} requires `{said}`, which the model does not state", at(section, name)))
    }
}

/// A key in words.
fn at(section: &str, name: &str) -> String {
    let section = if section.is_empty() { String::new() } else { format!(".{section}") };
    format!("[decoder{section}] `{name}`")
}
