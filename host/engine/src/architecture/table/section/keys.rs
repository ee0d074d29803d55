//! The keys of a table's `[decoder]`, with their kinds and defaults. LANGUAGE.md explains each.

/// The kind of a key's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::architecture) enum Kind {
    /// An expression: a number.
    Number,
    /// An expression: a condition.
    Truth,
    /// One of these words, or an expression whose value is one of them.
    Word(&'static [&'static str]),
}

/// A key: its section within `[decoder]`, its name there, its kind, and its value where a table has none.
#[derive(Clone, Copy, Debug)]
pub(in crate::architecture) struct Key {
    pub(in crate::architecture) section: &'static str,
    pub(in crate::architecture) name: &'static str,
    pub(in crate::architecture) kind: Kind,
    pub(in crate::architecture) default: &'static str,
}

const fn key(section: &'static str, name: &'static str, kind: Kind, default: &'static str) -> Key {
    Key { section, name, kind, default }
}

/// Activation functions. Those that a configuration states are called as in Hugging Face's library.
const ACTIVATIONS: &[&str] = &[
    "silu",
    "swish",
    "gelu_erf",
    "gelu",
    "gelu_python",
    "gelu_tanh",
    "gelu_new",
    "gelu_fast",
    "gelu_accurate",
    "gelu_pytorch_tanh",
    "quick_gelu",
    "relu",
    "relu2",
    "clamped_swiglu",
];
/// Ways of pooling, and what sentence-transformers calls them.
const POOLING: &[&str] = &["none", "mean", "first", "cls", "last", "lasttoken"];
/// Ways of stretching the frequencies of the rotation, by their names in configurations.
const SCALINGS: &[&str] =
    &["none", "default", "linear", "llama3", "longrope", "su", "yarn", "mrope", "dynamic"];

/// Every key.
pub(in crate::architecture) const KEYS: &[Key] = &[
    key("", "layers", Kind::Number, "4096"),
    key("", "width", Kind::Number, "hidden_size"),
    key("", "vocabulary", Kind::Number, "vocab_size"),
    key("", "context", Kind::Number, "max_position_embeddings"),
    key("", "block", Kind::Word(&["sequential", "parallel"]), "sequential"),
    key("", "branch_scale", Kind::Number, "1"),
    key("norm", "kind", Kind::Word(&["rms", "layer"]), "rms"),
    key("norm", "epsilon", Kind::Number, "rms_norm_eps"),
    key("norm", "place", Kind::Word(&["before", "after_branch", "both", "after_sum"]), "before"),
    key("norm", "gain", Kind::Truth, "true"),
    key("input", "scale", Kind::Number, "1"),
    key("input", "positions", Kind::Word(&["none", "learned"]), "none"),
    key("input", "types", Kind::Word(&["none", "first"]), "none"),
    key("input", "norm", Kind::Truth, "false"),
    key("attention", "heads", Kind::Number, "num_attention_heads"),
    key("attention", "key_heads", Kind::Number, "num_key_value_heads"),
    key("attention", "key", Kind::Number, "head_dim"),
    key("attention", "value", Kind::Number, "head_dim"),
    key("attention", "scale", Kind::Number, "1 / sqrt(head_dim)"),
    key("attention", "mask", Kind::Word(&["causal", "full"]), "causal"),
    key("attention", "window", Kind::Number, "0"),
    key("attention", "soft_cap", Kind::Number, "0"),
    key("attention", "alibi", Kind::Number, "0"),
    key("attention", "clamp", Kind::Number, "0"),
    key("attention", "within", Kind::Number, "0"),
    key("qk_norm", "over", Kind::Word(&["none", "head", "all"]), "none"),
    key("qk_norm", "after_rotation", Kind::Truth, "false"),
    key("rope", "when", Kind::Truth, "true"),
    key("rope", "dimensions", Kind::Number, "head_dim"),
    key("rope", "theta", Kind::Number, "rope_theta"),
    key("rope", "scaled", Kind::Truth, "true"),
    key("rope", "scaling", Kind::Word(SCALINGS), "rope_scaling_type"),
    key("rope", "factor", Kind::Number, "rope_scaling_factor"),
    key("rope", "original", Kind::Number, "rope_scaling_original_max_position_embeddings"),
    key("rope", "attention_factor", Kind::Number, "rope_scaling_attention_factor"),
    key("rope", "extrapolation_factor", Kind::Number, "rope_scaling_extrapolation_factor"),
    key("rope", "beta_fast", Kind::Number, "rope_scaling_beta_fast"),
    key("rope", "beta_slow", Kind::Number, "rope_scaling_beta_slow"),
    key("rope", "truncate", Kind::Truth, "true"),
    key("feed_forward", "form", Kind::Word(&["gated", "plain"]), "gated"),
    key("feed_forward", "activation", Kind::Word(ACTIVATIONS), "hidden_act"),
    key("feed_forward", "alpha", Kind::Number, "0"),
    key("feed_forward", "limit", Kind::Number, "0"),
    key("feed_forward", "width", Kind::Number, "intermediate_size"),
    key("experts", "count", Kind::Number, "0"),
    key("experts", "used", Kind::Number, "num_experts_per_tok"),
    key("experts", "width", Kind::Number, "intermediate_size"),
    key("experts", "score", Kind::Word(&["softmax", "sigmoid", "softmax_of_chosen"]), "softmax"),
    key("experts", "normalize", Kind::Truth, "true"),
    key("experts", "scale", Kind::Number, "1"),
    key("experts", "groups", Kind::Number, "1"),
    key("experts", "groups_used", Kind::Number, "0"),
    key("experts", "shared", Kind::Word(&["none", "plain", "gated"]), "none"),
    key("experts", "shared_width", Kind::Number, "intermediate_size"),
    key("output", "scale", Kind::Number, "1"),
    key("output", "soft_cap", Kind::Number, "0"),
    key("output", "pooling", Kind::Word(POOLING), "none"),
];
