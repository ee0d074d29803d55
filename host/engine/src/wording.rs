//! Helpers for wording messages.

/// `1 tensor`, `2 tensors`.
pub fn n_of(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}

/// Lower-case hexadecimal digits.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// The name that was probably meant; `None` if none is close.
pub fn nearest<'n>(wanted: &str, names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    /// Comparing takes time proportional to the product of the lengths, and to the number of names.
    const LONGEST: usize = 200;
    const MOST_NAMES: usize = 50_000;
    if wanted.len() > LONGEST {
        return None;
    }
    let most = (wanted.chars().count() / 3).max(1);
    names
        .take(MOST_NAMES)
        .filter(|name| name.len() <= LONGEST && name.len().abs_diff(wanted.len()) <= most * 4)
        .map(|name| (strsim::levenshtein(name, wanted), name))
        .filter(|(distance, _)| *distance <= most)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn a_name_is_near_if_few_letters_differ() {
        let names = ["blk.0.attn_q.weight", "blk.1.attn_q.weight", "output.weight"].into_iter();
        assert_eq!(nearest("blk.1.atn_q.weight", names.clone()), Some("blk.1.attn_q.weight"));
        assert_eq!(nearest("lm_head", names.clone()), None);
        assert_eq!(nearest(&"x".repeat(100_000), names), None);
    }
}
