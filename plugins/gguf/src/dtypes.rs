//! The type of each tensor when a model comes from another dialect: the choice of llama.cpp's converter
//! (`--outtype auto`; conversion/base.py, `prepare_tensors`, of llama-cpp-python 0.3.36).

use apr_sdk::{DType, DTypeChoice, DTypeKind, TensorFacts};

/// Tensors that are always F32, by the end of their names.
const ALWAYS_F32: &[&str] = &[
    "_norm.weight",
    ".ffn_gate_inp.weight",
    ".ffn_gate_inp_shexp.weight",
    ".ssm_conv1d.weight",
    ".shortconv.conv.weight",
    ".time_mix_first.weight",
    ".time_mix_w1.weight",
    ".time_mix_w2.weight",
    ".time_mix_decay_w1.weight",
    ".time_mix_decay_w2.weight",
    ".time_mix_lerp_fused.weight",
    ".altup_correct_coef.weight",
    ".altup_predict_coef.weight",
    ".indexer.proj.weight",
];

/// Tensors that are always F32, by whole name.
const NAMES_F32: &[&str] = &["position_embd.weight", "token_types.weight"];

/// The type for each tensor; `wanted` is the user's request.
pub fn choose(tensors: &[TensorFacts], wanted: Option<DType>) -> Vec<DTypeChoice> {
    let half = |tensor: &&TensorFacts| {
        tensor.shape.len() > 1 && [Some(DType::BF16), Some(DType::F16)].contains(&tensor.dtype)
    };
    let usual = wanted.or_else(|| tensors.iter().find(half).and_then(|t| t.dtype)).unwrap_or(DType::F16);
    tensors.iter().map(|tensor| choose_one(tensor, usual, wanted.is_some())).collect()
}

fn choose_one(tensor: &TensorFacts, usual: DType, is_asked: bool) -> DTypeChoice {
    let floats = [DType::F64, DType::F32, DType::F16, DType::BF16];
    // 8-bit floats may be codes: cast them only if the user asks for it.
    let is_float = |dtype: DType| {
        let narrow = || dtype.info().is_some_and(|info| info.kind == DTypeKind::Float);
        floats.contains(&dtype) || is_asked && narrow()
    };
    if !tensor.dtype.is_some_and(is_float) {
        return DTypeChoice::Keep;
    }
    let name = tensor.name.as_str();
    let always = tensor.shape.len() < 2
        || !name.ends_with(".weight")
        || NAMES_F32.contains(&name)
        || ALWAYS_F32.iter().any(|end| name.ends_with(end));
    DTypeChoice::Cast(if always { DType::F32 } else { usual })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts(name: &str, dtype: DType, dims: usize) -> TensorFacts {
        let mut facts = TensorFacts::default();
        facts.name = name.to_owned();
        facts.dtype = Some(dtype);
        facts.shape = vec![4; dims];
        facts
    }

    #[test]
    fn the_first_half_precision_matrix_decides() {
        let model = [
            facts("blk.0.attn_norm.weight", DType::F16, 1),
            facts("blk.0.attn_q.weight", DType::F32, 2),
            facts("blk.0.attn_k.weight", DType::BF16, 2),
            facts("blk.0.ffn_gate_inp.weight", DType::BF16, 2),
            facts("blk.0.attn_q.bias", DType::BF16, 1),
            facts("blk.0.ids", DType::I32, 1),
            facts("blk.0.ffn_up.weight", DType::Q8_0, 2),
        ];
        let cast = DTypeChoice::Cast;
        let (f32, bf16, keep) = (cast(DType::F32), cast(DType::BF16), DTypeChoice::Keep);
        assert_eq!(choose(&model, None), [f32, bf16, bf16, f32, f32, keep, keep]);
        assert_eq!(choose(&model[1..2], None), [cast(DType::F16)]);
        assert_eq!(choose(&model[1..3], Some(DType::F32)), [f32, f32]);
        let narrow = [facts("blk.0.attn_q.weight", DType::F8_E4M3, 2)];
        assert_eq!(choose(&narrow, None), [keep]);
        assert_eq!(choose(&narrow, Some(DType::F16)), [cast(DType::F16)]);
    }
}
