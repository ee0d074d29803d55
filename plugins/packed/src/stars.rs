//! Patterns of modules in which a `*` stands for any text, as in Python's `fnmatch`.

/// Returns whether a pattern is a module's path, or the beginning of its parts if it has no star.
pub fn is_of(pattern: &str, path: &str) -> bool {
    let Some((first, rest)) = pattern.split_once('*') else {
        return path.strip_prefix(pattern).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    };
    let Some(mut left) = path.strip_prefix(first) else { return false };
    let mut pieces: Vec<&str> = rest.split('*').collect();
    let last = pieces.pop().unwrap_or_default();
    for piece in pieces {
        let Some((_, after)) = left.split_once(piece) else { return false };
        left = after;
    }
    left.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_name_modules() {
        assert!(is_of("lm_head", "lm_head") && !is_of("lm_head", "lm_head2"));
        assert!(is_of("model.layers.0", "model.layers.0.mlp") && is_of("*.router*", "model.0.router.x"));
        assert!(is_of("model.*.gate", "model.1.mlp.gate") && !is_of("model.*.gate", "model.1.mlp.gate_proj"));
    }
}
