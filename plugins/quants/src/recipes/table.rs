//! The mixtures, as data: what llama-quantize of llama.cpp 0.5.0-dev (ggml 0.25.3) does, `src/llama-quant.cpp`
//! (`llama_ftype_get_default_type`, `llama_tensor_get_type_impl`) and `tools/quantize/quantize.cpp` (the names).

use apr_sdk::DType;

/// A condition on the model, or on how many tensors of the kind came before. N is the number of layers; for values it is
/// the number of such tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// At least four heads share the keys and values.
    Shared,
    /// At least four experts.
    FourExperts,
    /// Exactly eight experts.
    EightExperts,
    /// The architecture is Falcon.
    Falcon,
    /// It is another.
    NotFalcon,
    /// An importance matrix was given.
    Importance,
    /// None was.
    NoImportance,
    /// The first so many.
    First(i64),
    /// The first N/8.
    Eighth,
    /// The first N/16.
    Sixteenth,
    /// Neither the first nor the last N/8.
    Middle,
    /// The first N/8, the last N/8, and each third of those between.
    MoreBits,
}

/// A type, and what must hold for it: all of it.
pub type Rule = (&'static [When], DType);

/// How a mixture treats what its rules do not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Values gain bits in models of 70 billion parameters; values and keys are Q8_0 where there are eight experts.
    Usual,
    /// Nothing of that: the types below three bits.
    Low,
    /// Expert matrices in the base type, all others in Q8_0.
    Experts,
    /// Every tensor in the base type.
    Plain,
}

/// A mixture: the first rule of a tensor's kind that holds, or else the base type.
#[derive(Clone, Copy, Debug)]
pub struct Mixture {
    /// Its name.
    pub name: &'static str,
    /// What it is, in a few words.
    pub about: &'static str,
    /// The type of whatever no rule speaks of.
    pub base: DType,
    /// What the rules do not say.
    pub family: Family,
    /// The type of the output matrix, or of the embedding where that is the output matrix too.
    pub output: DType,
    /// The type of the embedding otherwise.
    pub embedding: DType,
    /// Attention values, whether alone or fused with queries and keys, or in `attn_kv_b`.
    pub value: &'static [Rule],
    /// Attention keys.
    pub key: &'static [Rule],
    /// Attention queries.
    pub query: &'static [Rule],
    /// The attention's output.
    pub attention: &'static [Rule],
    /// The feed-forward block's way down, of experts too.
    pub down: &'static [Rule],
    /// Its gate and its way up.
    pub up: &'static [Rule],
}

impl Mixture {
    const fn of(name: &'static str, about: &'static str, base: DType) -> Mixture {
        let (family, output) = (Family::Usual, DType::Q6_K);
        let none: &[Rule] = &[];
        let (value, key, query, attention, down, up) = (none, none, none, none, none, none);
        Mixture { name, about, base, family, output, embedding: base, value, key, query, attention, down, up }
    }

    /// Below three bits: `weak` is what needs more bits is written in, and what the embedding is.
    const fn low(name: &'static str, about: &'static str, base: DType, rules: &Low) -> Mixture {
        let Low { weak, value, attention, down } = *rules;
        let (family, output) = (Family::Low, DType::Q5_K);
        let key: &[Rule] = &[(&[EightExperts], DType::Q4_K)];
        Mixture {
            family,
            output,
            embedding: weak,
            value,
            key,
            attention,
            down,
            ..Mixture::of(name, about, base)
        }
    }

    /// Every tensor in one type.
    const fn plain(name: &'static str, about: &'static str, base: DType) -> Mixture {
        Mixture { family: Family::Plain, output: base, ..Mixture::of(name, about, base) }
    }
}

/// What differs among the mixtures below three bits.
struct Low {
    weak: DType,
    value: &'static [Rule],
    attention: &'static [Rule],
    down: &'static [Rule],
}

use When::{
    EightExperts, Eighth, Falcon, First, FourExperts, Importance, Middle, MoreBits, NoImportance, NotFalcon,
    Shared, Sixteenth,
};

/// With eight experts the attention's output is small beside them.
const MIXTRAL: Rule = (&[NotFalcon, EightExperts], DType::Q5_K);

const LOW: Low = Low {
    weak: DType::Q2_K,
    value: &[(&[Shared], DType::Q4_K), (&[FourExperts], DType::Q4_K), (&[], DType::Q2_K)],
    attention: &[(&[EightExperts], DType::Q5_K)],
    down: &[(&[Eighth], DType::Q2_K)],
};
const LOWEST: Low = Low { attention: &[(&[EightExperts], DType::Q5_K), (&[], DType::IQ2_XXS)], ..LOW };
const LOW_MIXED: Low = Low {
    weak: DType::IQ3_S,
    value: &[(&[Shared], DType::Q4_K), (&[FourExperts], DType::Q4_K), (&[], DType::IQ3_S)],
    attention: &[(&[EightExperts], DType::Q5_K), (&[], DType::IQ3_S)],
    down: &[(&[Eighth], DType::IQ3_S)],
};

/// Every mixture, from the smallest.
pub static MIXTURES: &[Mixture] = &[
    Mixture::of("Q1_0", "1.1 bits per weight: signs", DType::Q1_0),
    Mixture::low("IQ1_S", "1.6 bits per weight, requires an importance matrix", DType::IQ1_S, &LOWEST),
    Mixture {
        embedding: DType::Q4_K,
        ..Mixture::of("TQ1_0", "1.7 bits per weight: three values", DType::TQ1_0)
    },
    Mixture::low("IQ1_M", "1.8 bits per weight, requires an importance matrix", DType::IQ1_M, &LOWEST),
    Mixture {
        embedding: DType::Q4_K,
        ..Mixture::of("TQ2_0", "2.1 bits per weight: three values", DType::TQ2_0)
    },
    Mixture::low("IQ2_XXS", "2.1 bits per weight, requires an importance matrix", DType::IQ2_XXS, &LOW),
    Mixture {
        embedding: DType::Q4_K,
        ..Mixture::of("Q2_0", "2.25 bits per weight: four values", DType::Q2_0)
    },
    Mixture::low("IQ2_XS", "2.3 bits per weight, requires an importance matrix", DType::IQ2_XS, &LOW),
    Mixture::low("IQ2_S", "2.5 bits per weight: IQ2_XS with some larger tensors", DType::IQ2_XS, &LOW_MIXED),
    Mixture::low("IQ2_M", "2.7 bits per weight: IQ2_S with some larger tensors", DType::IQ2_S, &LOW_MIXED),
    Mixture {
        value: &[(&[Shared], DType::Q4_K)],
        down: &[(&[Eighth], DType::Q4_K)],
        ..Mixture::of("Q2_K_S", "2.6 bits per weight, requires an importance matrix", DType::Q2_K)
    },
    Mixture {
        value: &[(&[Shared], DType::Q4_K), (&[], DType::Q3_K)],
        attention: &[MIXTRAL, (&[NotFalcon], DType::Q3_K)],
        down: &[(&[], DType::Q3_K)],
        ..Mixture::of("Q2_K", "2.6 bits per weight, some tensors in Q3_K", DType::Q2_K)
    },
    Mixture {
        output: DType::Q5_K,
        embedding: DType::IQ3_S,
        value: &[(&[Shared], DType::Q4_K), (&[NoImportance], DType::IQ3_S)],
        key: &[(&[], DType::IQ2_S)],
        query: &[(&[], DType::IQ2_S)],
        attention: &[MIXTRAL, (&[NotFalcon], DType::IQ3_S)],
        down: &[(&[NoImportance, Eighth], DType::Q4_K), (&[NoImportance], DType::Q3_K)],
        ..Mixture::of("IQ3_XXS", "3.1 bits per weight, requires an importance matrix", DType::IQ3_XXS)
    },
    Mixture {
        value: &[(&[Shared], DType::Q4_K)],
        key: &[(&[], DType::IQ3_XXS)],
        query: &[(&[], DType::IQ3_XXS)],
        attention: &[MIXTRAL],
        up: &[(&[Middle], DType::IQ3_XXS)],
        ..Mixture::of("IQ3_XS", "3.3 bits per weight, requires an importance matrix", DType::IQ3_S)
    },
    Mixture {
        value: &[(&[Shared], DType::Q4_K)],
        attention: &[MIXTRAL],
        ..Mixture::of("IQ3_S", "3.4 bits per weight", DType::IQ3_S)
    },
    Mixture {
        attention: &[MIXTRAL],
        ..Mixture::of("Q3_K_S", "3.4 bits per weight, all but the ends in Q3_K", DType::Q3_K)
    },
    Mixture {
        value: &[(&[], DType::Q4_K)],
        attention: &[MIXTRAL, (&[NotFalcon], DType::Q4_K)],
        down: &[(&[Eighth], DType::Q4_K), (&[EightExperts, MoreBits], DType::Q4_K)],
        ..Mixture::of("IQ3_M", "3.7 bits per weight: IQ3_S with some larger tensors", DType::IQ3_S)
    },
    Mixture {
        value: &[(&[First(2)], DType::Q5_K), (&[], DType::Q4_K)],
        attention: &[MIXTRAL, (&[NotFalcon], DType::Q4_K)],
        down: &[
            (&[Sixteenth], DType::Q5_K),
            (&[NotFalcon], DType::Q4_K),
            (&[MoreBits], DType::Q4_K),
            (&[], DType::Q3_K),
        ],
        ..Mixture::of("Q3_K_M", "3.9 bits per weight: Q3_K with some larger tensors", DType::Q3_K)
    },
    Mixture {
        value: &[(&[], DType::Q5_K)],
        attention: &[(&[Falcon], DType::Q4_K), (&[EightExperts], DType::Q3_K), (&[], DType::Q5_K)],
        down: &[(&[Falcon], DType::Q4_K), (&[], DType::Q5_K)],
        ..Mixture::of("Q3_K_L", "4.3 bits per weight: Q3_K with more larger tensors", DType::Q3_K)
    },
    Mixture {
        value: &[(&[Shared], DType::Q5_K)],
        attention: &[MIXTRAL],
        down: &[(&[NoImportance, Eighth], DType::Q5_K)],
        ..Mixture::of("IQ4_XS", "4.3 bits per weight", DType::IQ4_XS)
    },
    Mixture::plain("MXFP4", "4.25 bits per weight, every matrix", DType::MXFP4),
    Mixture {
        family: Family::Experts,
        output: DType::Q8_0,
        ..Mixture::of("MXFP4_MOE", "expert matrices in MXFP4, all others in Q8_0", DType::MXFP4)
    },
    Mixture::plain("NVFP4", "4.5 bits per weight, every matrix", DType::NVFP4),
    Mixture {
        value: &[(&[Shared], DType::Q5_K)],
        attention: &[MIXTRAL],
        down: &[(&[NoImportance, Eighth], DType::Q5_K)],
        ..Mixture::of("IQ4_NL", "4.5 bits per weight, blocks of 32", DType::IQ4_NL)
    },
    Mixture {
        down: &[(&[Importance, Eighth], DType::Q4_1)],
        ..Mixture::of("Q4_0", "4.5 bits per weight, plain", DType::Q4_0)
    },
    Mixture {
        value: &[(&[First(4)], DType::Q5_K)],
        attention: &[MIXTRAL],
        down: &[(&[NotFalcon, Eighth], DType::Q5_K)],
        ..Mixture::of("Q4_K_S", "4.6 bits per weight: Q4_K with few larger tensors", DType::Q4_K)
    },
    Mixture {
        value: &[(&[MoreBits], DType::Q6_K)],
        attention: &[MIXTRAL],
        down: &[
            (&[Falcon, Sixteenth], DType::Q6_K),
            (&[Falcon, MoreBits], DType::Q5_K),
            (&[NotFalcon, MoreBits], DType::Q6_K),
        ],
        ..Mixture::of("Q4_K_M", "4.8 bits per weight: Q4_K with some tensors in Q6_K", DType::Q4_K)
    },
    Mixture::of("Q4_1", "5 bits per weight, with a minimum per block", DType::Q4_1),
    Mixture {
        down: &[(&[Importance, Eighth], DType::Q5_1)],
        ..Mixture::of("Q5_0", "5.5 bits per weight, plain", DType::Q5_0)
    },
    Mixture::of("Q5_K_S", "5.5 bits per weight, all but the ends in Q5_K", DType::Q5_K),
    Mixture {
        value: &[(&[MoreBits], DType::Q6_K)],
        down: &[(&[MoreBits], DType::Q6_K)],
        ..Mixture::of("Q5_K_M", "5.7 bits per weight: Q5_K with some tensors in Q6_K", DType::Q5_K)
    },
    Mixture::of("Q5_1", "6 bits per weight, with a minimum per block", DType::Q5_1),
    Mixture::of("Q6_K", "6.6 bits per weight", DType::Q6_K),
    Mixture {
        output: DType::Q8_0,
        ..Mixture::of("Q8_0", "8.5 bits per weight, nearly lossless", DType::Q8_0)
    },
    Mixture::plain("int8", "8 bits per weight and a scale for each row; APR only", DType::I8),
    Mixture::plain("int4", "4 bits per weight and a scale for each row; APR only", DType::I4),
    Mixture::plain("F16", "every matrix in F16", DType::F16),
    Mixture::plain("BF16", "every matrix in BF16", DType::BF16),
    Mixture::plain("F32", "every matrix in F32", DType::F32),
];

/// Other names, and what they stand for.
pub static ALIASES: &[(&str, &str)] = &[("Q3_K", "Q3_K_M"), ("Q4_K", "Q4_K_M"), ("Q5_K", "Q5_K_M")];

/// The types that can be written.
pub static WRITABLE: &[DType] = &[
    DType::F32,
    DType::F16,
    DType::BF16,
    DType::Q4_0,
    DType::Q4_1,
    DType::Q5_0,
    DType::Q5_1,
    DType::Q8_0,
    DType::Q2_K,
    DType::Q3_K,
    DType::Q4_K,
    DType::Q5_K,
    DType::Q6_K,
    DType::IQ1_S,
    DType::IQ1_M,
    DType::IQ2_XXS,
    DType::IQ2_XS,
    DType::IQ2_S,
    DType::IQ3_XXS,
    DType::IQ3_S,
    DType::IQ4_NL,
    DType::IQ4_XS,
    DType::TQ1_0,
    DType::TQ2_0,
    DType::MXFP4,
    DType::NVFP4,
    DType::Q1_0,
    DType::Q2_0,
];
