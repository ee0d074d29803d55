//! Prepares a template's text for the library's parser.

use std::borrow::Cow;

/// Removes the marks around what a model generated (`{% generation %}`): transformers records their positions
/// and prints what is between them.
pub fn without_generation_marks(template: &str) -> Cow<'_, str> {
    if !template.contains("generation") {
        return Cow::Borrowed(template);
    }
    let mut out = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(at) = rest.find("{%") {
        let (before, tag) = rest.split_at(at);
        out.push_str(before);
        let Some(len) = tag.find("%}").map(|end| end + 2) else {
            rest = tag;
            break;
        };
        let (tag, behind) = tag.split_at(len);
        let sign = |c: char| c == '-' || c == '+';
        let inner = tag.trim_start_matches("{%").trim_end_matches("%}");
        let word = match inner.trim_matches(sign).trim() {
            "generation" => "if true",
            "endgeneration" => "endif",
            _ => {
                // A quoted string may look like the end of a tag: only tags that are marks are skipped
                // completely.
                out.push_str("{%");
                rest = rest.get(at + 2..).unwrap_or_default();
                continue;
            }
        };
        let open = if inner.starts_with(sign) { &inner[..1] } else { "" };
        let close = if inner.ends_with(sign) { &inner[inner.len() - 1..] } else { "" };
        out.push_str(&format!("{{%{open} {word} {close}%}}"));
        rest = behind;
    }
    out.push_str(rest);
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_become_blocks_that_print_what_is_inside() {
        let of = |text| without_generation_marks(text).into_owned();
        assert_eq!(of("a{%- generation -%}b{% endgeneration %}c"), "a{%- if true -%}b{% endif %}c");
        let plain = "{% if add_generation_prompt %}{{ '{%' }}x{% endif %} generation {%";
        assert_eq!(of(plain), plain);
        assert_eq!(of("{%generation%}"), "{% if true %}");
    }
}
