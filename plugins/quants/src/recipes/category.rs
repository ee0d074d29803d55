//! What a tensor is, and whether it is quantized at all, by its name in GGUF.

use apr_sdk::{DTypeKind, TensorFacts};

/// What a tensor is, as coarsely as the mixtures ask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Category {
    /// The output matrix.
    Output,
    /// An embedding of tokens.
    Embedding,
    /// Attention values, also fused with queries and keys, or with keys.
    Value,
    /// Attention keys.
    Key,
    /// Attention queries.
    Query,
    /// The attention's output.
    Attention,
    /// The feed-forward block's way up.
    Up,
    /// Its gate.
    Gate,
    /// Its way down.
    Down,
    /// Anything else.
    Other,
}

/// Names that are somewhere in a tensor's name, in the order in which they are looked for.
const PARTS: &[(&str, Category)] = &[
    ("attn_qkv.weight", Category::Value),
    ("attn_kv_b.weight", Category::Value),
    ("attn_v.weight", Category::Value),
    ("attn_k.weight", Category::Key),
    ("attn_q.weight", Category::Query),
    ("attn_output.weight", Category::Attention),
    ("ffn_up", Category::Up),
    ("ffn_gate", Category::Gate),
    ("ffn_down", Category::Down),
];

impl Category {
    /// What a tensor of this name is.
    pub fn of(name: &str) -> Category {
        match name {
            "output.weight" => Category::Output,
            "token_embd.weight" | "per_layer_token_embd.weight" => Category::Embedding,
            _ => PARTS
                .iter()
                .find(|(part, _)| name.contains(part))
                .map_or(Category::Other, |(_, category)| *category),
        }
    }
}

/// Parts of the names of matrices that stay as they are: norms, routers, small ones, and those of images and sound.
const KEPT: &[&str] = &[
    "_norm.weight",
    "ffn_gate_inp.weight",
    "ffn_gate_tid2eid.weight",
    "altup",
    "laurel",
    "per_layer_model_proj",
    "ssm_conv1d",
    "shortconv.conv.weight",
    "indexer.k_proj.weight",
    "indexer.q_proj.weight",
    "attn_rel_b.weight",
    ".position_embd",
    "sam.pos_embd",
    "sam.neck.",
    "sam.net_",
    ".rel_pos",
    ".patch_embd",
    ".patch_merger",
    "a.rvq.codebook",
    "mm.a.code_embd",
];

/// What follows `time_mix_` in the names of small matrices.
const SMALL_MIXES: &[&str] = &[
    "first.weight",
    "w0.weight",
    "w1.weight",
    "w2.weight",
    "v0.weight",
    "v1.weight",
    "v2.weight",
    "a0.weight",
    "a1.weight",
    "a2.weight",
    "g1.weight",
    "g2.weight",
    "decay_w1.weight",
    "decay_w2.weight",
    "lerp_fused.weight",
];

/// What is kept in one architecture besides.
const KEPT_OF_GLM5_NEXT: &[&str] = &[
    "hc_",
    "indexer.attn_q_b",
    "indexer.attn_k",
    "indexer.proj",
    "indexer_compressor_gate",
    "indexer_compressor_ape",
    "ssm_f_a.weight",
    "ssm_f_b.weight",
    "ssm_g_a.weight",
    "ssm_g_b.weight",
    "ssm_beta.weight",
    "attn_kv_a_mqa.weight",
    "attn_k_b.weight",
    "attn_v_b.weight",
];

/// Whether a tensor is quantized: a matrix of floats, and not one of those that stay (`tensor_allows_quantization`).
pub fn is_quantized(name: &str, tensor: &TensorFacts, architecture: &str) -> bool {
    // Dimensions of one at the outer end do not make a matrix.
    let is_matrix = tensor.shape.iter().rev().skip(1).any(|&n| n > 1);
    let kind = tensor.dtype.and_then(|dtype| dtype.info()).map(|info| info.kind);
    let is_float = kind.is_none_or(|kind| matches!(kind, DTypeKind::Float | DTypeKind::Block));
    let mut mixes = name.split("time_mix_").skip(1);
    let of_architecture = if architecture == "glm5-next" { KEPT_OF_GLM5_NEXT } else { &[] };
    let mut kept = KEPT.iter().chain(of_architecture);
    is_matrix
        && is_float
        && name.ends_with("weight")
        && !matches!(name, "position_embd.weight" | "token_types.weight")
        && !kept.any(|part| name.contains(part))
        && !mixes.any(|rest| SMALL_MIXES.iter().any(|mix| rest.starts_with(mix)))
}

/// The number in `blk.NUMBER`, as C's `sscanf(name, "blk.%d.")` reads it: anything may follow.
pub fn layer(name: &str) -> Option<i64> {
    let rest = name.strip_prefix("blk.")?.trim_start_matches([' ', '\t', '\n', '\x0b', '\x0c', '\r']);
    let (negative, digits) = match rest.as_bytes().first() {
        Some(b'-') => (true, &rest[1..]),
        Some(b'+') => (false, &rest[1..]),
        _ => (false, rest),
    };
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let number: i64 = if end == 0 { return None } else { digits[..end].parse().unwrap_or(i64::MAX) };
    Some(if negative { -number } else { number })
}
