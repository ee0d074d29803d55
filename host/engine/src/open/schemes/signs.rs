//! The tensors that identify packed weights, as data: the suffix of a tensor's name, its types, and, where
//! that would be ambiguous, a second tensor beside it. The first row that matches names the scheme.
//!
//! No row is needed for codes with scales beside them, under any name (`scales.rs`). Rows follow what the
//! schemes' own packages write; `X` is the name of a module, or of stacked experts.

use apr_sdk::{DType, Tensor};

/// A tensor that does not occur in a model with plain weights.
#[derive(Debug)]
pub struct Sign {
    /// The name of the scheme in messages.
    pub scheme: &'static str,
    /// The suffix of the tensor's name, after `X`.
    pub suffix: &'static str,
    /// The types it may have; any, if empty.
    pub dtypes: &'static [DType],
    /// The suffix of another tensor with the same `X`, and its types.
    pub beside: Option<(&'static str, &'static [DType])>,
}

impl Sign {
    /// The part of a tensor's name before the sign's suffix, if the tensor has it and one of the sign's types.
    pub fn base<'t>(&self, tensor: &'t Tensor) -> Option<&'t str> {
        let base = tensor.name.strip_suffix(self.suffix)?;
        (self.dtypes.is_empty() || self.dtypes.contains(&tensor.dtype)).then_some(base)
    }
}

/// A suffix that is sufficient evidence by itself.
const fn alone(scheme: &'static str, suffix: &'static str) -> Sign {
    Sign { scheme, suffix, dtypes: ANY, beside: None }
}

/// A suffix that is evidence only beside another tensor of these types.
const fn pair(
    scheme: &'static str,
    suffix: &'static str,
    dtypes: &'static [DType],
    beside: &'static str,
    beside_dtypes: &'static [DType],
) -> Sign {
    Sign { scheme, suffix, dtypes, beside: Some((beside, beside_dtypes)) }
}

const ANY: &[DType] = &[];
const POWERS: &[DType] = &[DType::F8_E8M0, DType::U8];
const BYTES: &[DType] = &[DType::U8];
const FLOATS: &[DType] = &[DType::F32];
/// Blocks that a factor beside them may multiply.
const BLOCKS: &[DType] = &[DType::NVFP4];
/// The types of words that hold several codes each.
const WORDS: &[DType] = &[DType::U8, DType::I16, DType::I32, DType::U32];

/// All signs, most specific first.
pub static SIGNS: &[Sign] = &[
    alone("ComfyUI", ".comfy_quant"),
    alone("bitsandbytes NF4", ".quant_state.bitsandbytes__nf4"),
    alone("bitsandbytes FP4", ".quant_state.bitsandbytes__fp4"),
    alone("bitsandbytes 4 bit", ".nested_absmax"),
    alone("bitsandbytes 4 bit", ".quant_map"),
    alone("bitsandbytes 4 bit", ".absmax"),
    alone("bitsandbytes int8", ".SCB"),
    alone("NVFP4", ".weight_scale_2"),
    pair("NVFP4 with a separate factor", ".scale", FLOATS, ".weight", BLOCKS),
    pair("NVFP4 with a separate factor", ".input_scale", FLOATS, ".weight", BLOCKS),
    pair("FP-Quant", ".qweight", ANY, ".weight_global_scale", ANY),
    alone("NVFP4 of compressed-tensors", ".weight_global_scale"),
    alone("compressed-tensors", ".weight_packed"),
    alone("compressed-tensors", ".weight_zero_point"),
    alone("compressed-tensors", ".weight_g_idx"),
    pair("compressed-tensors (sparse)", ".bitmask", ANY, ".compressed", ANY),
    pair("MXFP4", "_blocks", BYTES, "_scales", POWERS),
    alone("FP8 with block scales", "_scale_inv"),
    alone("FP8 with scales", ".qscale_weight"),
    pair("integers of a quantized graph", "_scale", ANY, "_quantized", &[DType::I8, DType::U8]),
    pair("GPTQ", ".qweight", ANY, ".g_idx", ANY),
    pair("SqueezeLLM", ".qweight", ANY, ".lookup_table", ANY),
    alone("GPTQ or AWQ", ".qweight"),
    pair("GPTQ or AWQ", ".qzeros", ANY, ".scales", ANY),
    pair("Marlin", ".B", WORDS, ".s", ANY),
    pair("Marlin 2:4", ".B_24", WORDS, ".B_meta", ANY),
    pair("QQQ", ".s_channel", ANY, ".B", ANY),
    pair("MLX", ".scales", ANY, ".weight", &[DType::U32]),
    pair("HIGGS", ".tables2", ANY, ".scales", ANY),
    alone("HQQ", ".W_q"),
    alone("torchao", "weight_qdata"),
    alone("EXL2", ".q_invperm"),
    pair("EXL2", ".q_weight", ANY, ".q_scale", ANY),
    pair("EXL3", ".trellis", ANY, ".suh", ANY),
    pair("EXL3", ".trellis", ANY, ".su", ANY),
    pair("QTIP", ".trellis", ANY, ".SU", ANY),
    pair("AQLM", ".codebooks", ANY, ".codes", ANY),
    pair("VPTQ", ".centroids.weight", ANY, ".indices", ANY),
    pair("VPTQ", ".centroids", ANY, ".indices", ANY),
    pair("SpQR", ".dense_weights", ANY, ".row_offsets", ANY),
    alone("QuIP#", ".Qidxs"),
    pair("quanto", "._data", ANY, "._scale", ANY),
    alone("Quark", ".weight_quantizer.scale"),
    alone("integers of torch.ao", "._packed_params.dtype"),
];

/// Signs that are evidence even without codes beside them, and name no scheme.
pub static SCALES: &[Sign] =
    &[alone("codes with scales", ".weight_scale"), alone("codes with scales", ".weight_scales")];
