//! Whether a folder's own file says that it is a model of this format. Where that cannot be read, it is: opening says what is wrong with
//! it, and the weights are not taken for those of another format.

use crate::json;
use crate::layout::{ADAPTER, CONFIG};
use apr_sdk::{Look, strict_json};

/// Keys that only this format has, by the file.
const KEYS: [(&str, &[&str]); 2] =
    [(CONFIG, &["\"model_type\"", "\"architectures\""]), (ADAPTER, &["\"peft_type\""])];

/// Whether the file of this name, which begins so, is this format's.
pub fn is_ours(name: &str, head: &[u8]) -> bool {
    let Some((_, keys)) = KEYS.iter().find(|(file, _)| *file == name) else { return false };
    let says = |key: &&str| head.windows(key.len()).any(|piece| piece == key.as_bytes());
    keys.iter().any(says) || !is_another(head)
}

/// Whether a file is another tool's: an object, all of which is seen.
fn is_another(head: &[u8]) -> bool {
    let text = strict_json::text(head).ok().filter(|_| head.len() < Look::HEAD);
    text.is_some_and(|text| json::parse_object(text).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_this_formats_unless_it_says_something_else() {
        let long = format!("{{\"a\": \"{}\"}}", "a".repeat(Look::HEAD));
        for (head, want) in [
            (&b"{\"model_type\": \"llama\"}"[..], true),
            (b"\xef\xbb\xbf{\"architectures\": []}", true),
            (b"\xef\xbb\xbf{\"a\": 1}", true),
            (b"\xff\xfe{\0}\0", true),
            (b"", true),
            (b"[1]", true),
            (b"{\"a\": 1,}", true),
            (b"{\"a\": 1, \"a\": 1}", true),
            (&long.as_bytes()[..Look::HEAD], true),
            (b"{\"_class_name\": \"AutoencoderKL\"}", false),
            (b"{\"a\": NaN}", false),
            (b"{}", false),
        ] {
            assert_eq!(is_ours(CONFIG, head), want, "{}", String::from_utf8_lossy(head));
        }
        assert!(is_ours(ADAPTER, b"{\"peft_type\": \"LORA\"}") && !is_ours(ADAPTER, b"{\"model_type\": 1}"));
        assert!(!is_ours("other.json", b"{\"model_type\": 1}"));
    }
}
