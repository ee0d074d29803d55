//! Tensors that are only meaningful together: codes and their scales, and whatever else a scheme stores
//! beside its codes.

use super::scales::pairs;
use super::signs::SIGNS;
use apr_sdk::{Tensor, escape};
use std::collections::{HashMap, HashSet};

/// Pairs of indices of tensors that belong together.
pub fn companions(tensors: &[Tensor]) -> Vec<(usize, usize)> {
    let mut companions = pairs(tensors);
    let mut numbers: HashMap<&str, usize> = HashMap::with_capacity(tensors.len());
    for (number, tensor) in tensors.iter().enumerate() {
        numbers.entry(&tensor.name).or_insert(number);
    }
    let mut shown: HashMap<&str, usize> = HashMap::new();
    for (number, tensor) in tensors.iter().enumerate() {
        for sign in SIGNS {
            let Some(base) = sign.base(tensor) else { continue };
            if let Some((suffix, dtypes)) = sign.beside {
                let Some(&at) = numbers.get(format!("{base}{suffix}").as_str()) else { continue };
                if !dtypes.is_empty() && !dtypes.contains(&tensors[at].dtype) {
                    continue;
                }
            }
            shown.entry(base).or_insert(number);
        }
    }
    if shown.is_empty() {
        return companions;
    }
    // A scheme's tensors for a weight are named after it, or are siblings.
    for (number, tensor) in tensors.iter().enumerate() {
        let name = tensor.name.as_str();
        let cuts = name.match_indices(['.', '/', '_']).map(|(at, _)| at).chain([name.len()]);
        let last = name.rfind(['.', '/']).unwrap_or(0);
        for at in cuts.filter(|at| *at >= last) {
            // A bias is not one of its codes.
            let is_bias = name[at..].contains("bias");
            if let Some(&of) = shown.get(&name[..at]).filter(|of| **of != number && !is_bias) {
                companions.push((of, number));
            }
        }
    }
    companions
}

/// Indices of codes and of scales that are called after them: `NAME` and `NAME.scale`.
pub fn named_after(tensors: &[Tensor]) -> impl Iterator<Item = (usize, usize)> + '_ {
    pairs(tensors).into_iter().filter(|&(codes, scale)| {
        tensors[scale].name.strip_prefix(tensors[codes].name.as_str()).is_some_and(|end| end.starts_with('.'))
    })
}

/// Describes the relation between two such tensors: `` `w.scale` scales `w` ``.
pub fn relation(one: &Tensor, other: &Tensor) -> String {
    let [a, b] = [one, other].map(|tensor| escape(&tensor.name, 120));
    match pairs(&[one.clone(), other.clone()]).contains(&(0, 1)) {
        true => format!("`{b}` scales the codes of `{a}`"),
        false => format!("`{a}` and `{b}` together form one packed weight"),
    }
}

/// The first pair in `before` that is not in `after`.
pub fn first_parted(before: &[(usize, usize)], after: &[(usize, usize)]) -> Option<(usize, usize)> {
    let after: HashSet<(usize, usize)> = after.iter().copied().collect();
    before.iter().copied().find(|pair| !after.contains(pair))
}

#[cfg(test)]
mod tests {
    use super::*;
    use apr_sdk::{DType, Payload};

    fn tensors(of: &[(&str, DType, &[u64])]) -> Vec<Tensor> {
        let tensors = of.iter().map(|(name, dtype, shape)| Tensor {
            name: (*name).to_owned(),
            dtype: *dtype,
            shape: shape.to_vec(),
            payload: Payload::Sequential,
        });
        tensors.collect()
    }

    fn pair(a: &str, b: &str) -> (String, String) {
        (a.to_owned(), b.to_owned())
    }

    fn named(of: &[(&str, DType, &[u64])]) -> Vec<(String, String)> {
        let tensors = tensors(of);
        let pairs = companions(&tensors).into_iter();
        let mut names: Vec<_> = pairs.map(|(a, b)| pair(&tensors[a].name, &tensors[b].name)).collect();
        names.sort();
        names.dedup();
        names
    }

    #[test]
    fn codes_belong_to_their_scales_and_to_what_else_unpacks_them() {
        let own = named(&[
            ("a.w", DType::I8, &[4, 8]),
            ("a.w.scale", DType::F32, &[4]),
            ("a.norm", DType::F32, &[4]),
            ("b.scale", DType::F32, &[4]),
        ]);
        assert_eq!(own, [pair("a.w", "a.w.scale")]);
        let gptq = named(&[
            ("m.q.qweight", DType::I32, &[8, 64]),
            ("m.q.qzeros", DType::I32, &[2, 8]),
            ("m.q.scales", DType::F16, &[2, 64]),
            ("m.q.g_idx", DType::I32, &[64]),
            ("m.q.bias", DType::F16, &[64]),
            ("m.q.lora.w", DType::F16, &[64]),
            ("m.k.weight", DType::F16, &[8, 8]),
        ]);
        for beside in ["m.q.scales", "m.q.qzeros", "m.q.g_idx"] {
            assert!(gptq.contains(&pair("m.q.qweight", beside)), "{gptq:?}");
        }
        assert!(!gptq.iter().any(|(a, b)| [a, b].iter().any(|n| n.contains("bias") || n.contains("lora"))));
        let bits = named(&[
            ("m.weight", DType::U8, &[32, 1]),
            ("m.weight.absmax", DType::U8, &[4]),
            ("m.weight.quant_map", DType::F32, &[16]),
            ("m.bias", DType::F32, &[16]),
        ]);
        assert!(bits.contains(&pair("m.weight.absmax", "m.weight")), "{bits:?}");
        assert!(bits.contains(&pair("m.weight.absmax", "m.weight.quant_map")), "{bits:?}");
        let mxfp4 = named(&[
            ("e.up_blocks", DType::U8, &[2, 4, 16]),
            ("e.up_scales", DType::U8, &[2, 4]),
            ("e.up_bias", DType::BF16, &[2, 4]),
        ]);
        assert!(mxfp4.contains(&pair("e.up_blocks", "e.up_scales")), "{mxfp4:?}");
        assert!(!mxfp4.iter().any(|(_, b)| b == "e.up_bias"), "{mxfp4:?}");
    }

    #[test]
    fn plain_weights_have_no_companions() {
        let plain = [
            ("a.weight", DType::F32, &[4, 4][..]),
            ("a.bias", DType::F32, &[4]),
            ("a.scale", DType::F32, &[4]),
        ];
        assert_eq!(named(&plain), []);
        let blocks = [("a.weight", DType::NVFP4, &[4, 64][..]), plain[1], ("a.scale", DType::F32, &[1])];
        assert_eq!(named(&blocks), [pair("a.scale", "a.weight")]);
    }
}
