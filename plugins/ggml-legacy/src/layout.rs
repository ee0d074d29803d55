//! Constants of the files, and each program's layout: the order of hyperparameters, and the required tensors.
//!
//! Sources are the loaders: `llama.cpp` of llama.cpp up to August 2023, `whisper.cpp`, `bert.cpp`, and ggml's
//! `examples/{gpt-2,gpt-j,gpt-neox,stablelm,mpt,replit}/main.cpp` of July 2023 (StarCoder has GPT-2's layout,
//! Dolly GPT-NeoX's).

/// The bare magic, `ggml`: no version, no word on what the rest is.
pub const GGML: [u8; 4] = *b"lmgg";
/// `ggmf`: a version, and scores in the vocabulary.
pub const GGMF: [u8; 4] = *b"fmgg";
/// `ggjt`: payloads are aligned.
pub const GGJT: [u8; 4] = *b"tjgg";
/// `ggla`: a LoRA adapter.
pub const GGLA: [u8; 4] = *b"algg";

/// Bytes of the magic and the version behind it.
pub const MAGIC_AND_VERSION: u64 = 8;
/// What payloads of `ggjt` and `ggla` are aligned to, from the file's start.
pub const ALIGNMENT: u64 = 32;
/// The most dimensions of a tensor.
pub const MAX_DIMS: usize = 4;
/// Bytes of a tensor's record before its dimensions: n_dims, name length, type.
pub const RECORD_HEAD: u64 = 12;
/// The standalone programs' `ftype` is the version of the block layouts times this, plus the type.
pub const VERSION_FACTOR: u32 = 1000;
/// The most mel filter values: 2^20, 65 times what the largest Whisper model has.
pub const MAX_FILTERS: u64 = 1 << 20;
/// The most tokens: 2^22, 16 times what the largest vocabularies have.
pub const MAX_TOKENS: u64 = 1 << 22;
/// The most bytes of all tokens with their lengths: 64 MiB, ten times what the largest vocabularies take.
pub const MAX_VOCABULARY: u64 = 64 << 20;

/// How a hyperparameter is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// i32.
    Int,
    /// f32.
    Float,
}

/// How a vocabulary is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vocabulary {
    /// `n_vocab` tokens.
    Plain,
    /// `n_vocab` tokens, each followed by a score.
    Scored,
    /// A count that must be `n_vocab`, and the tokens.
    Counted,
    /// A count, at most `n_vocab`, and the tokens: the program makes up the others.
    Own,
}

/// The layers of a model: their names, how many there must be, and how many tensors each must have.
#[derive(Clone, Copy, Debug)]
pub struct Layers {
    /// What comes before the number in a tensor's name.
    pub prefix: &'static str,
    /// The hyperparameter that counts them.
    pub count: &'static str,
    /// The fewest tensors of one layer.
    pub tensors: u64,
}

/// The layout of one program's files behind magic and version.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// What option `model` calls it.
    pub name: &'static str,
    /// The hyperparameters in the file's order.
    pub hparams: &'static [(&'static str, Kind)],
    /// Whether mel filters follow them.
    pub has_mel_filters: bool,
    /// How the vocabulary is stored.
    pub vocabulary: Vocabulary,
    /// The groups of layers, with the tensors in each.
    pub layers: &'static [Layers],
    /// Tensors outside the layers that the program cannot do without.
    pub needs: &'static [&'static str],
    /// A tensor whose rows have as many elements as the hyperparameter says, unless the file is one of several.
    pub width: Option<(&'static str, &'static str)>,
}

use Kind::{Float, Int};

/// A program without mel filters and parts.
const PLAIN: Program = Program {
    name: "",
    hparams: &[],
    has_mel_filters: false,
    vocabulary: Vocabulary::Plain,
    layers: &[],
    needs: &[],
    width: None,
};

/// LLaMA: the only layout behind `ggmf` and `ggjt`, whose vocabulary has scores.
pub const LLAMA: Program = Program {
    name: "llama",
    hparams: &[
        ("n_vocab", Int),
        ("n_embd", Int),
        ("n_mult", Int),
        ("n_head", Int),
        ("n_layer", Int),
        ("n_rot", Int),
        ("ftype", Int),
    ],
    layers: &[Layers { prefix: "layers.", count: "n_layer", tensors: 9 }],
    needs: &["tok_embeddings.weight", "norm.weight", "output.weight"],
    width: Some(("tok_embeddings.weight", "n_embd")),
    ..PLAIN
};

const GPTJ_HPARAMS: &[(&str, Kind)] = &[
    ("n_vocab", Int),
    ("n_ctx", Int),
    ("n_embd", Int),
    ("n_head", Int),
    ("n_layer", Int),
    ("n_rot", Int),
    ("ftype", Int),
];
const GPTNEOX_NEEDS: &[&str] = &[
    "gpt_neox.embed_in.weight",
    "gpt_neox.final_layer_norm.weight",
    "gpt_neox.final_layer_norm.bias",
    "embed_out.weight",
];
const GPTNEOX_LAYERS: &[Layers] = &[Layers { prefix: "gpt_neox.layers.", count: "n_layer", tensors: 12 }];
const MPT_NEEDS: &[&str] = &["transformer.wte.weight", "transformer.norm_f.weight"];
const MPT_LAYERS: &[Layers] = &[Layers { prefix: "transformer.blocks.", count: "n_layers", tensors: 6 }];

/// Every layout that is known behind the bare magic.
pub const PROGRAMS: &[Program] = &[
    LLAMA,
    Program {
        name: "whisper",
        hparams: &[
            ("n_vocab", Int),
            ("n_audio_ctx", Int),
            ("n_audio_state", Int),
            ("n_audio_head", Int),
            ("n_audio_layer", Int),
            ("n_text_ctx", Int),
            ("n_text_state", Int),
            ("n_text_head", Int),
            ("n_text_layer", Int),
            ("n_mels", Int),
            ("ftype", Int),
        ],
        has_mel_filters: true,
        vocabulary: Vocabulary::Own,
        layers: &[
            Layers { prefix: "encoder.blocks.", count: "n_audio_layer", tensors: 15 },
            Layers { prefix: "decoder.blocks.", count: "n_text_layer", tensors: 24 },
        ],
        needs: &[
            "encoder.positional_embedding",
            "encoder.conv1.weight",
            "encoder.conv1.bias",
            "encoder.conv2.weight",
            "encoder.conv2.bias",
            "encoder.ln_post.weight",
            "encoder.ln_post.bias",
            "decoder.positional_embedding",
            "decoder.token_embedding.weight",
            "decoder.ln.weight",
            "decoder.ln.bias",
        ],
        ..PLAIN
    },
    Program {
        name: "gpt2",
        hparams: &[
            ("n_vocab", Int),
            ("n_ctx", Int),
            ("n_embd", Int),
            ("n_head", Int),
            ("n_layer", Int),
            ("ftype", Int),
        ],
        vocabulary: Vocabulary::Counted,
        layers: &[Layers { prefix: "model/h", count: "n_layer", tensors: 12 }],
        needs: &["model/wte", "model/wpe", "model/ln_f/g", "model/ln_f/b"],
        ..PLAIN
    },
    Program {
        name: "gptj",
        hparams: GPTJ_HPARAMS,
        vocabulary: Vocabulary::Counted,
        layers: &[Layers { prefix: "transformer.h.", count: "n_layer", tensors: 10 }],
        needs: &[
            "transformer.wte.weight",
            "transformer.ln_f.weight",
            "transformer.ln_f.bias",
            "lm_head.weight",
            "lm_head.bias",
        ],
        ..PLAIN
    },
    Program {
        name: "gptneox",
        hparams: &[
            ("n_vocab", Int),
            ("n_ctx", Int),
            ("n_embd", Int),
            ("n_head", Int),
            ("n_layer", Int),
            ("n_rot", Int),
            ("par_res", Int),
            ("ftype", Int),
        ],
        layers: GPTNEOX_LAYERS,
        needs: GPTNEOX_NEEDS,
        ..PLAIN
    },
    Program {
        name: "stablelm",
        hparams: GPTJ_HPARAMS,
        layers: GPTNEOX_LAYERS,
        needs: GPTNEOX_NEEDS,
        ..PLAIN
    },
    Program {
        name: "mpt",
        hparams: &[
            ("d_model", Int),
            ("max_seq_len", Int),
            ("n_heads", Int),
            ("n_layers", Int),
            ("n_vocab", Int),
            ("alibi_bias_max", Float),
            ("clip_qkv", Float),
            ("ftype", Int),
        ],
        layers: MPT_LAYERS,
        needs: MPT_NEEDS,
        ..PLAIN
    },
    Program {
        name: "replit",
        hparams: &[
            ("d_model", Int),
            ("max_seq_len", Int),
            ("n_heads", Int),
            ("n_layers", Int),
            ("n_vocab", Int),
            ("ftype", Int),
        ],
        vocabulary: Vocabulary::Scored,
        layers: MPT_LAYERS,
        needs: MPT_NEEDS,
        ..PLAIN
    },
    Program {
        name: "bert",
        hparams: &[
            ("n_vocab", Int),
            ("n_max_tokens", Int),
            ("n_embd", Int),
            ("n_intermediate", Int),
            ("n_head", Int),
            ("n_layer", Int),
            ("ftype", Int),
        ],
        layers: &[Layers { prefix: "encoder.layer.", count: "n_layer", tensors: 16 }],
        needs: &[
            "embeddings.word_embeddings.weight",
            "embeddings.token_type_embeddings.weight",
            "embeddings.position_embeddings.weight",
            "embeddings.LayerNorm.weight",
            "embeddings.LayerNorm.bias",
        ],
        ..PLAIN
    },
];
