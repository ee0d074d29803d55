//! What a GGUF says of the mixture it was quantized by: `general.file_type` (`llama_ftype` of `llama.h`) and the version of
//! ggml's block layouts.

use apr_sdk::Value;

/// The number of each mixture.
const FILE_TYPES: &[(&str, u32)] = &[
    ("F32", 0),
    ("F16", 1),
    ("Q4_0", 2),
    ("Q4_1", 3),
    ("Q8_0", 7),
    ("Q5_0", 8),
    ("Q5_1", 9),
    ("Q2_K", 10),
    ("Q3_K_S", 11),
    ("Q3_K_M", 12),
    ("Q3_K_L", 13),
    ("Q4_K_S", 14),
    ("Q4_K_M", 15),
    ("Q5_K_S", 16),
    ("Q5_K_M", 17),
    ("Q6_K", 18),
    ("IQ2_XXS", 19),
    ("IQ2_XS", 20),
    ("Q2_K_S", 21),
    ("IQ3_XS", 22),
    ("IQ3_XXS", 23),
    ("IQ1_S", 24),
    ("IQ4_NL", 25),
    ("IQ3_S", 26),
    ("IQ3_M", 27),
    ("IQ2_S", 28),
    ("IQ2_M", 29),
    ("IQ4_XS", 30),
    ("IQ1_M", 31),
    ("BF16", 32),
    ("TQ1_0", 36),
    ("TQ2_0", 37),
    ("MXFP4_MOE", 38),
    ("NVFP4", 39),
    ("Q1_0", 40),
    ("Q2_0", 41),
];

/// The version of the block layouts (`GGML_QNT_VERSION`).
const VERSION: u32 = 2;

/// The keys for a mixture; none for one that has no number.
pub fn records(mixture: &str) -> Vec<(String, String, Value)> {
    let Some((_, number)) = FILE_TYPES.iter().find(|(name, _)| *name == mixture) else { return Vec::new() };
    let key = |name: &str, value| ("gguf".to_owned(), format!("general.{name}"), Value::from_u32(value));
    vec![key("quantization_version", VERSION), key("file_type", *number)]
}

#[cfg(test)]
mod tests {
    use super::super::table::MIXTURES;
    use super::*;

    #[test]
    fn every_mixture_has_a_number_of_its_own() {
        let mut numbers = Vec::new();
        // Integers with scales have no place in a GGUF.
        for mixture in
            MIXTURES.iter().filter(|mixture| !mixture.name.starts_with("int") && mixture.name != "MXFP4")
        {
            let found = FILE_TYPES.iter().find(|(name, _)| *name == mixture.name);
            numbers.push(found.unwrap_or_else(|| panic!("{} has no number", mixture.name)).1);
        }
        let all = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!((numbers.len(), FILE_TYPES.len()), (all, all));
    }
}
