//! Licences of models, as the hub names them.

use apr_sdk::escape;

/// Parts of the names of licences that allow no commercial use.
const NON_COMMERCIAL: [&str; 6] =
    ["-nc", "noncommercial", "non-commercial", "research", "apple-amlr", "cohere-c4ai"];

/// A warning about a licence that restricts what the model may be used for.
pub fn warning(licence: &str) -> Option<String> {
    let name = licence.to_ascii_lowercase();
    NON_COMMERCIAL
        .iter()
        .any(|part| name.contains(part))
        .then(|| format!("the licence of this model allows no commercial use: {}", escape(licence, 80)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn licences_that_forbid_commercial_use_are_known_by_name() {
        for licence in
            ["cc-by-nc-4.0", "CC-BY-NC-SA-2.0", "fair-noncommercial-research-license", "intel-research"]
        {
            assert!(warning(licence).is_some(), "{licence}");
        }
        for licence in ["mit", "apache-2.0", "llama3.1", "gemma", "cc-by-4.0", "openrail"] {
            assert!(warning(licence).is_none(), "{licence}");
        }
    }
}
