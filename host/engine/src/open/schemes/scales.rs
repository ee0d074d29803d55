//! Recognises codes by the scales beside them, whatever their names: a tensor of integers or of floats of at
//! most 8 bits, and a sibling whose name mentions scales or zero points and whose shape fits it.

use apr_sdk::{DType, DTypeKind, Tensor};
use std::collections::HashMap;

/// Codes and what scales them.
#[derive(Clone, Copy, Debug)]
pub struct Scaled<'t> {
    /// The tensor of integers or small floats.
    pub codes: &'t Tensor,
    /// Their scales, or their zero points.
    pub scale: &'t Tensor,
}

/// Words that follow a module's name in the name of its codes.
const WEIGHTS: [&str; 10] =
    ["weight", "weights", "kernel", "kernels", "qweight", "codes", "packed", "quantized", "data", "w"];

/// The first codes in a model that have scales, in the order of the scales.
pub fn first(tensors: &[Tensor]) -> Option<Scaled<'_>> {
    let (codes, scale) = each(tensors).next()?;
    Some(Scaled { codes: &tensors[codes], scale: &tensors[scale] })
}

/// Pairs of indices of codes and what scales them.
pub fn pairs(tensors: &[Tensor]) -> Vec<(usize, usize)> {
    each(tensors).collect()
}

/// Pairs of indices of codes and their scales, in the order of the scales.
fn each(tensors: &[Tensor]) -> impl Iterator<Item = (usize, usize)> + '_ {
    let mut codes: HashMap<&str, Vec<usize>> = HashMap::new();
    for (number, tensor) in tensors.iter().enumerate().filter(|(_, tensor)| is_code(tensor)) {
        let stem = stem(&tensor.name);
        codes.entry(&tensor.name).or_default().push(number);
        if is_called_weight(&tensor.name) {
            codes.entry(stem).or_default().push(number);
        }
    }
    let scales = if codes.is_empty() { &[][..] } else { tensors };
    scales.iter().enumerate().filter_map(move |(at, scale)| {
        let codes = candidates(&scale.name).find_map(|(key, any)| {
            codes.get(key.as_str())?.iter().copied().find(|&number| {
                let codes = &tensors[number];
                (any || codes.name == key) && belongs(codes, scale)
            })
        });
        codes.map(|codes| (codes, at))
    })
}

impl Scaled<'_> {
    /// The name of such weights in messages.
    pub fn scheme(&self) -> &'static str {
        match (self.scale.dtype, self.codes.dtype) {
            (DType::F8_E8M0, _) => "codes with power-of-two scales",
            (_, DType::I8) => "int8 with scales",
            (_, DType::U8) => "bytes with scales",
            (_, dtype) if bits(dtype).is_some_and(|(kind, bits)| kind == DTypeKind::Float && bits == 8) => {
                "FP8 with scales"
            }
            _ => "codes with scales",
        }
    }
}

/// The kind of an element, and its size in bits.
fn bits(dtype: DType) -> Option<(DTypeKind, u32)> {
    let info = dtype.info()?;
    Some((info.kind, info.block_bytes * 8 / info.block_elements))
}

/// Returns whether a tensor may hold the codes of a matrix, or of stacked matrices.
pub fn is_code(tensor: &Tensor) -> bool {
    tensor.shape.len() > 1
        && match bits(tensor.dtype) {
            Some((DTypeKind::Int | DTypeKind::Uint, _)) => true,
            Some((DTypeKind::Float, bits)) => bits <= 8,
            _ => false,
        }
}

/// Returns whether a tensor is a matrix, or stacked matrices, of floats of 8 bits or fewer.
pub fn is_small_float(tensor: &Tensor) -> bool {
    is_code(tensor) && bits(tensor.dtype).is_some_and(|(kind, _)| kind == DTypeKind::Float)
}

/// Returns whether a name ends in a word for weights.
pub fn is_called_weight(name: &str) -> bool {
    stem(name).len() < name.len()
}

/// The name of the module that a weight belongs to: `a` for `a.weight`, `a.w1` for `a.w1_weight`; the whole
/// name if it ends in none of the words.
fn stem(name: &str) -> &str {
    let at = name.rfind(is_separator).map_or(0, |at| at + 1);
    if WEIGHTS.contains(&&name[at..]) { name[..at].trim_end_matches(is_separator) } else { name }
}

fn is_separator(letter: char) -> bool {
    matches!(letter, '.' | '/' | '_')
}

/// Possible names of the codes, or of their module, for scales called `name`; and whether it could be a
/// module.
fn candidates(name: &str) -> impl Iterator<Item = (String, bool)> {
    let last = name.rfind(['.', '/']).map_or(0, |at| at + 1);
    let module = name[..last.saturating_sub(1)].rfind(['.', '/']).map_or(0, |at| at + 1);
    let cuts = name.match_indices(is_separator).map(|(at, _)| at);
    // `a.w_scale` and `a.w.scale` belong to `a.w`; both, and `a.scale`, to `a`; `a.weight_quantizer.scale`
    // only to `a.weight`.
    let before = cuts.clone().filter(move |at| *at > module && speaks_of_scales(&name[last.max(at + 1)..]));
    let before = before.map(move |at| (name[..at].to_owned(), at + 1 >= last));
    // `a.scale_w` belongs to `a.w`.
    let behind = cuts.filter(move |at| *at >= last && speaks_of_scales(&name[last..*at]));
    let behind = behind.map(move |at| (format!("{}{}", &name[..last], &name[at + 1..]), true));
    let top = (last == 0 && speaks_of_scales(name)).then(|| (String::new(), true));
    before.chain(behind).chain(top)
}

/// Returns whether a part of a name mentions scaling or shifting.
fn speaks_of_scales(part: &str) -> bool {
    let mut word = String::new();
    let mut letters = part.chars().peekable();
    while let Some(letter) = letters.next() {
        let ends = letters
            .peek()
            .is_none_or(|next| !next.is_alphabetic() || letter.is_lowercase() && next.is_uppercase());
        if letter.is_alphabetic() {
            word.extend(letter.to_lowercase());
        }
        if ends {
            let says = ["scale", "scales", "absmax", "scaling"].iter().any(|end| word.ends_with(end))
                || ["zero", "zeros", "zp", "zps", "qzeros", "zeropoint", "zeropoints"]
                    .contains(&word.as_str());
            if says {
                return true;
            }
            word.clear();
        }
    }
    false
}

/// Returns whether a tensor named like the scales of codes really scales them.
fn belongs(codes: &Tensor, scale: &Tensor) -> bool {
    let is_itself = codes.name == scale.name;
    // If the whole model was cast to one small type, a tensor called a scale is a weight as well.
    let is_cast_alike =
        codes.dtype == scale.dtype && bits(codes.dtype).is_some_and(|b| b.0 == DTypeKind::Float);
    !is_itself && !is_cast_alike && fits_over(codes, &scale.shape)
}

/// Returns whether a shape fits that of codes: one value; or one per row, per column, or per block of a grid.
/// An element of the codes may hold several codes.
fn fits_over(codes: &Tensor, scale: &[u64]) -> bool {
    let held = u64::from(bits(codes.dtype).map_or(1, |(_, bits)| bits.max(1)));
    let scale: Vec<u64> = scale.iter().copied().filter(|n| *n != 1).collect();
    if scale.is_empty() {
        return true;
    }
    // Axes may be in order or transposed.
    let axes = codes.shape.iter();
    if cut_along(axes.clone(), held, &scale) || cut_along(axes.rev(), held, &scale) {
        return true;
    }
    let all = codes.shape.iter().try_fold(1u64, |all, n| all.checked_mul(*n));
    matches!((all.and_then(|all| all.checked_mul(held)), &scale[..]), (Some(all), [n]) if *n > 0 && all % n == 0)
}

fn cut_along<'a>(mut axes: impl Iterator<Item = &'a u64>, held: u64, scale: &[u64]) -> bool {
    scale.iter().all(|n| axes.any(|size| cuts_into(*size, held, *n)))
}

/// Returns whether an axis of `size` elements, each holding up to `held` codes, divides into `n` equal
/// blocks, the last of which may be shorter.
fn cuts_into(size: u64, held: u64, n: u64) -> bool {
    let widths =
        std::iter::successors(Some(1u64), |width| Some(width * 2)).take_while(|width| *width <= held);
    widths
        .filter_map(|width| size.checked_mul(width))
        .any(|size| n > 0 && n <= size && size.div_ceil(size.div_ceil(n)) == n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_found_however_they_are_joined() {
        for (part, want) in [
            ("scale", true),
            ("fp8_scales", true),
            ("weight_scale_2", true),
            ("qscale", true),
            ("dequantScale", true),
            ("weights_scaling_factor", true),
            ("zp", true),
            ("scales2", true),
            ("zeros", true),
            ("weight", false),
            ("scaled_fp8", false),
            ("nonzero", false),
            ("escalation", false),
        ] {
            assert_eq!(speaks_of_scales(part), want, "{part}");
        }
    }

    #[test]
    fn a_scale_has_few_owners() {
        for (name, owners) in [
            ("a.b.w_scale", &["a.b", "a.b.w"][..]),
            ("a.b.scale_w", &["a.b", "a.b.w"]),
            ("a.w_quantizer.scale", &["a.w", "a.w_quantizer"]),
            ("scale", &[""]),
            ("a.b.weight", &[]),
        ] {
            assert_eq!(candidates(name).map(|(key, _)| key).collect::<Vec<_>>(), owners);
        }
    }

    fn codes(dtype: DType, shape: &[u64]) -> Tensor {
        let payload = apr_sdk::Payload::Sequential;
        Tensor { name: "w".to_owned(), dtype, shape: shape.to_vec(), payload }
    }

    #[test]
    fn shapes_fit_by_value_row_column_and_block() {
        let bytes = codes(DType::I8, &[96, 200]);
        for (shape, want) in [
            (&[][..], true),
            (&[1, 1], true),
            (&[96], true),
            (&[96, 1], true),
            (&[200], true),
            (&[1, 2], true),
            (&[3, 7], true),
            (&[0], false),
            (&[97], false),
            (&[96, 200, 2], false),
        ] {
            assert_eq!(fits_over(&bytes, shape), want, "{shape:?}");
        }
        assert!(fits_over(&codes(DType::I32, &[8, 64]), &[2, 512]));
    }
}
