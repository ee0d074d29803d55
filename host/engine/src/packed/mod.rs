//! Packed weights: tensors that are codes and scales of a scheme. They are copied unchanged, unpacked by a plugin that
//! knows the scheme, or refused: a cast, another dialect or reordered rows would treat codes as weights.
//!
//! The tensors that identify a scheme are data: `open/schemes/signs.rs`.

pub mod exact;
mod excluded_scales;
pub mod old_names;
pub mod wide_activations;

use crate::open::parts::lone::LonePart;
use crate::open::schemes::announcements::{Announcement, announcements, gone};
use crate::open::schemes::scales;
use crate::open::schemes::signs::{SCALES, SIGNS, Sign};
use crate::open::{OpenOptions, OpenedModel, Probed};
use crate::planned::request::Request;
use crate::registry::{Format, Registry};
use apr_sdk::manifest::DialectRule;
use apr_sdk::{DType, DTypeKind, Error, Model, Result, Tensor, escape};
use std::collections::HashMap;

/// The known facts about a model with packed weights.
#[derive(Clone, Debug)]
pub struct Packed {
    announced: Vec<Announcement>,
    signed: Option<Signed>,
    /// True if every tensor with two or more dimensions is a float of 16 bits or more.
    is_plain: bool,
}

/// The reason why a conversion needs the true values of packed weights.
#[derive(Clone, Debug)]
pub struct Need {
    why: String,
    /// The alternative.
    otherwise: String,
    /// The type to cast to, if that is asked for.
    cast: Option<DType>,
}

/// The evidence in tensors.
#[derive(Clone, Debug)]
struct Signed {
    scheme: &'static str,
    /// The tensor that reveals it.
    tensor: String,
    /// The tensor's scales, if they reveal it.
    scale: Option<String>,
}

/// Number of announcements that a warning names.
const MOST_SHOWN: usize = 3;

impl Packed {
    /// The evidence that a model's weights are packed; `None` if there is none.
    pub fn of(source: &OpenedModel) -> Option<Packed> {
        let tensors = &source.model.tensors;
        let signed = signed(tensors)
            .or_else(|| LonePart::of(&source.files).and_then(|_| unseen(tensors, IN_OTHER_PARTS)));
        Packed::shown(announcements(source), signed, tensors)
    }

    /// Like [`Packed::of`], for a reader that opened only some of the tensors: scales may be among the
    /// others. `options` are those that the source was opened with.
    pub fn of_selected(probed: &Probed<'_>, options: &OpenOptions, source: &OpenedModel) -> Option<Packed> {
        Packed::of(source).or_else(|| excluded_scales::look(probed, options, source))
    }

    fn shown(announced: Vec<Announcement>, signed: Option<Signed>, tensors: &[Tensor]) -> Option<Packed> {
        if announced.is_empty() && signed.is_none() {
            return None;
        }
        let is_plain = tensors.iter().filter(|tensor| tensor.shape.len() > 1).all(is_plain);
        Some(Packed { announced, signed, is_plain })
    }

    /// The reason why a conversion needs the true values; `None` if it copies what is stored.
    pub fn needs_values(
        &self,
        registry: &Registry,
        model: &Model,
        target: &Format,
        request: &Request,
    ) -> Option<Need> {
        let types = &request.quantization;
        let asked = [
            (types.recipe.is_some(), "--quantize"),
            (types.recipe_from.is_some(), "--recipe-from"),
            (types.target.is_some(), "a target size"),
            (types.dequantize.is_some(), "--dequantize"),
            (types.precision.is_some(), "--precision"),
        ];
        if let Some((_, flag)) = asked.iter().find(|(is_asked, _)| *is_asked) {
            let why = format!("{flag} would change the stored codes, not the weights");
            let otherwise = format!("remove {flag} to copy them as they are");
            // Beside `--dequantize`, a cast is for the tensors that are not packed.
            return Some(Need {
                why,
                otherwise,
                cast: types.precision.filter(|_| types.dequantize.is_none() && !types.repack),
            });
        }
        let mut codes = model.tensors.iter().filter(|tensor| scales::is_code(tensor));
        if let Some(tensor) = codes.find(|tensor| !registry.holds(target, tensor.dtype)) {
            let why = format!("{} cannot hold {}", target.manifest.name, tensor.dtype);
            let otherwise = "or use a format that supports this type".to_owned();
            return Some(Need { why, otherwise, cast: None });
        }
        let by_name = request.arch.as_deref().filter(|arch| *arch != "none");
        let keeps_names = request.arch.as_deref() == Some("none");
        let (want, is_needed) = match &target.manifest.dialect {
            DialectRule::Always(want) => (want, true),
            DialectRule::Requires(want) => (want, !keeps_names),
            DialectRule::Prefers(want) => (want, request.wants_architecture || by_name.is_some()),
            _ => return None,
        };
        if !is_needed || *want == model.dialect {
            return None;
        }
        let whose = &target.manifest.name;
        let why = format!("{whose} requires the true weights, with the names and row order of `{want}`");
        let otherwise = "or copy them to a format that keeps names and types".to_owned();
        Some(Need { why, otherwise, cast: None })
    }

    /// Fails if only a cast is asked for: what packed weights become is for other flags to say.
    ///
    /// # Errors
    /// Unsupported, with the flags.
    pub fn refuse_cast(&self, need: &Need) -> Result<()> {
        let Some(dtype) = need.cast else { return Ok(()) };
        let to = dtype.name().to_lowercase();
        let message = format!("{}, but --precision applies only to weights stored as floats", self.what());
        let hint = format!("add --dequantize {to} for the true values, or {}", need.otherwise);
        Err(Error::unsupported(message).hint(hint))
    }

    /// A warning that no plugin knows the scheme.
    pub fn unknown(&self) -> String {
        format!("{}, which no plugin can unpack: they are shown as stored", self.what())
    }

    /// The error where true values are needed, and no plugin knows the scheme.
    pub fn refusal(&self, need: &Need) -> Error {
        self.refused(&need.why, &need.otherwise)
    }

    /// A note about the copy, and a warning if nothing in the output announces the scheme any more.
    pub fn word(&self, written: &Model) -> (String, Option<String>) {
        let note = format!("{}: they are copied as they are", self.what());
        let lost = gone(&self.announced, written);
        let is_lost = !lost.is_empty() && lost.len() == self.announced.len();
        let shown = lost.iter().take(MOST_SHOWN).map(|place| match place.is_own {
            true => "the description of its tensors in the model file".to_owned(),
            false => place.shown(),
        });
        let more = lost.len().saturating_sub(MOST_SHOWN);
        let more = (more > 0).then(|| format!("{more} more"));
        let lost: Vec<String> = shown.chain(more).collect();
        let warning = is_lost.then(|| {
            format!("not carried over: {}, which describes how the weights are packed", lost.join(" and "))
        });
        (note, warning)
    }

    /// `the weights are packed as `fp8` (`quantization_config` in config.json)`.
    fn what(&self) -> String {
        let named = self.announced.iter().find_map(|place| Some((place.scheme.as_deref()?, place)));
        let place = named.map(|(_, place)| place).or(self.announced.first());
        let scheme = match (named, &self.signed) {
            (Some((scheme, _)), _) => format!(" as `{}`", escape(scheme, 80)),
            (None, Some(signed)) => format!(" as {}", signed.scheme),
            (None, None) => String::new(),
        };
        let shown_by = match (place, &self.signed) {
            (Some(place), _) => format!(" ({})", place.shown()),
            (None, Some(Signed { tensor, scale: Some(scale), .. })) => {
                format!(" (`{}`, scaled by `{}`)", escape(tensor, 120), escape(scale, 120))
            }
            (None, Some(signed)) => format!(" (`{}`)", escape(&signed.tensor, 120)),
            (None, None) => String::new(),
        };
        format!("the weights are packed{scheme}{shown_by}")
    }

    fn refused(&self, why: &str, other: &str) -> Error {
        let error = Error::unsupported(format!("{}, which apr cannot unpack: {why}", self.what()));
        let error = match &self.signed {
            Some(signed) => error.tensor(&signed.tensor),
            None => error,
        };
        if self.is_plain
            && self.signed.is_none()
            && let Some(place) = self.announced.first()
        {
            let file = escape(&place.file, 120);
            let what = match &place.key {
                Some(key) => format!("`{}` from {file}", escape(key, 120)),
                None => file.to_string(),
            };
            return error.hint(format!("if the weights are already plain floats, remove {what}"));
        }
        error.hint(format!("convert the model from which they were packed; {other}"))
    }
}

/// Description of 8-bit floats if the model's other parts are missing.
const IN_OTHER_PARTS: &str = "8-bit floats whose scales may be in the missing parts";

/// The first matrix of floats of 8 bits or fewer, which may be codes if not all tensors are visible.
fn unseen(tensors: &[Tensor], scheme: &'static str) -> Option<Signed> {
    let tensor = tensors.iter().find(|tensor| scales::is_small_float(tensor))?;
    Some(Signed { scheme, tensor: tensor.name.clone(), scale: None })
}

/// The evidence in tensors: a sign in the table, which names its scheme, or otherwise codes beside scales.
fn signed(tensors: &[Tensor]) -> Option<Signed> {
    if let Some(signed) = sign_of(tensors, SIGNS) {
        return Some(signed);
    }
    let Some(found) = scales::first(tensors) else { return sign_of(tensors, SCALES) };
    Some(Signed {
        scheme: found.scheme(),
        tensor: found.codes.name.clone(),
        scale: Some(found.scale.name.clone()),
    })
}

/// The first sign that any tensor matches, in the order of the signs.
fn sign_of(tensors: &[Tensor], signs: &[Sign]) -> Option<Signed> {
    let mut best: Option<(usize, &Tensor)> = None;
    let mut by_name: Option<HashMap<&str, DType>> = None;
    for tensor in tensors {
        let better = best.map_or(signs.len(), |(at, _)| at);
        for (at, sign) in signs.iter().enumerate().take(better) {
            let Some(base) = sign.base(tensor) else { continue };
            let holds = sign.beside.is_none_or(|(suffix, dtypes)| {
                let all = by_name.get_or_insert_with(|| {
                    tensors.iter().map(|tensor| (tensor.name.as_str(), tensor.dtype)).collect()
                });
                let found = all.get(format!("{base}{suffix}").as_str());
                found.is_some_and(|dtype| dtypes.is_empty() || dtypes.contains(dtype))
            });
            if holds {
                best = Some((at, tensor));
                break;
            }
        }
    }
    best.map(|(at, tensor)| Signed { scheme: signs[at].scheme, tensor: tensor.name.clone(), scale: None })
}

fn is_plain(tensor: &Tensor) -> bool {
    tensor.dtype.info().is_some_and(|info| info.kind == DTypeKind::Float && info.block_bytes > 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warning_names_some_of_many_places() {
        let announced = (0..5).map(|n| Announcement {
            scheme: None,
            file: "config.json".to_owned(),
            key: Some(format!("part_{n}.quantization_config")),
            is_own: false,
        });
        let packed = Packed { announced: announced.collect(), signed: None, is_plain: false };
        let (_, warning) = packed.word(&Model::default());
        assert_eq!(
            warning.as_deref(),
            Some(
                "not carried over: `part_0.quantization_config` in config.json and `part_1.quantization_config` in config.json and \
                 `part_2.quantization_config` in config.json and 2 more, which describes how the weights are packed"
            )
        );
    }
}
