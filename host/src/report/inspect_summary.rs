//! A model in a few lines, as `inspect` and a report show it.

use crate::sizes::{show_count, show_number_of, show_size};
use apr_engine::architecture::Summary;
use apr_sdk::escape;
use serde_json::Value as Json;

/// The longest name that is shown, in characters.
const LONGEST: usize = 200;

/// The lines of a summary: a label and what is said, without what the header does not answer. `architecture` is the
/// architecture's id.
pub fn lines(summary: &Summary, architecture: Option<&str>) -> Vec<(&'static str, String)> {
    let architecture = architecture.map(|id| match &summary.architecture_name {
        Some(name) if name != id => format!("{} ({})", escape(id, 80), escape(name, 80)),
        _ => escape(id, 80),
    });
    let bases = summary.base_models.iter().map(|base| escape(base, LONGEST)).collect::<Vec<_>>().join(", ");
    let all = [
        ("name", text(summary.name.as_deref())),
        ("architecture", architecture),
        ("parameters", Some(parameters(summary))),
        ("quantization", text(summary.quantization.as_deref())),
        ("bits/weight", summary.bits_per_weight.map(|bits| format!("{bits:.2}"))),
        ("layers", summary.layers.map(|n| show_count(n.into()))),
        ("widths", widths(summary)),
        ("attention", attention(summary)),
        ("experts", experts(summary)),
        ("context", context(summary)),
        ("rope", rope(summary)),
        ("KV cache", kv_cache(summary)),
        ("memory", memory(summary)),
        ("tokenizer", tokenizer(summary)),
        ("chat template", summary.chat_template.clone()),
        ("license", text(summary.license.as_deref())),
        ("base model", Some(bases).filter(|bases| !bases.is_empty())),
    ];
    all.into_iter().filter_map(|(label, said)| Some((label, said?))).collect()
}

fn parameters(summary: &Summary) -> String {
    let mut count = show_count(summary.parameters.into());
    if let Some(short) = short(summary.parameters) {
        count = format!("{short} ({count})");
    }
    match summary.active_parameters {
        Some(active) => {
            let active = short(active).unwrap_or_else(|| show_count(active.into()));
            format!("{count}, {active} active per token")
        }
        None => count,
    }
}

/// `7.24 B` from a million on.
fn short(count: u64) -> Option<String> {
    let (unit, letter) = match count {
        ..1_000_000 => return None,
        1_000_000..1_000_000_000 => (1_000_000, 'M'),
        _ => (1_000_000_000, 'B'),
    };
    let hundredths = u128::from(count) * 100 / unit;
    Some(match hundredths {
        ..10_000 => format!("{}.{:02} {letter}", hundredths / 100, hundredths % 100),
        _ => format!("{} {letter}", hundredths / 100),
    })
}

fn text(text: Option<&str>) -> Option<String> {
    text.map(|text| escape(text, LONGEST))
}

fn joined(parts: Vec<String>) -> Option<String> {
    (!parts.is_empty()).then(|| parts.join(", "))
}

fn widths(summary: &Summary) -> Option<String> {
    let widths = [
        ("embedding", summary.embedding_width),
        ("feed-forward", summary.feed_forward_width),
        ("head", summary.head_width),
        ("vocabulary", summary.vocabulary),
    ];
    let widths = widths.into_iter().filter_map(|(of, n)| Some(format!("{of} {}", show_count(n?.into()))));
    joined(widths.collect())
}

fn attention(summary: &Summary) -> Option<String> {
    let mut parts = vec![number_of(summary.heads?, "head")];
    parts.extend(summary.kv_heads.map(|n| number_of(n, "KV head")));
    joined(parts)
}

fn number_of(n: u64, noun: &str) -> String {
    show_number_of(usize::try_from(n).unwrap_or(usize::MAX), noun)
}

fn experts(summary: &Summary) -> Option<String> {
    let all = show_count(summary.experts?.into());
    let used = summary.experts_used.map(|used| format!(", {} used per token", show_count(used.into())));
    Some(all + &used.unwrap_or_default())
}

fn context(summary: &Summary) -> Option<String> {
    let mut parts = Vec::new();
    parts.extend(summary.context.map(|n| format!("{} tokens", show_count(n.into()))));
    parts.extend(summary.sliding_window.map(|n| format!("sliding window {}", show_count(n.into()))));
    joined(parts)
}

fn rope(summary: &Summary) -> Option<String> {
    let rope = summary.rope.as_ref()?;
    let scaling = rope.scaling.as_ref().map(|scaling| {
        let factor = rope.factor.map(|factor| format!(" by {factor}"));
        format!(", scaled ({}){}", escape(scaling, 80), factor.unwrap_or_default())
    });
    Some(format!("base {}{}", rope.theta, scaling.unwrap_or_default()))
}

fn kv_cache(summary: &Summary) -> Option<String> {
    let kv = summary.kv_cache.as_ref()?;
    // Layers with a window keep fewer tokens, where the program that runs them makes use of that.
    let at_most = if summary.sliding_window.is_some() { "at most " } else { "" };
    let tokens = show_count(kv.tokens.into());
    Some(format!("{at_most}{} for {tokens} tokens, in F16", show_size(kv.bytes)))
}

fn memory(summary: &Summary) -> Option<String> {
    let bytes = show_size(summary.memory_bytes?);
    Some(format!("{bytes} for weights and KV cache, plus compute buffers"))
}

fn tokenizer(summary: &Summary) -> Option<String> {
    let tokenizer = summary.tokenizer.as_ref()?;
    let mut parts =
        vec![escape(&tokenizer.kind, 80), format!("{} tokens", show_count(tokenizer.tokens.into()))];
    parts.extend(tokenizer.pre.as_ref().map(|pre| format!("pre-tokenizer {}", escape(pre, 80))));
    let ids = tokenizer.special.iter().filter_map(|(name, id)| Some((name, Json::as_u64(id)?)));
    parts.extend(ids.map(|(name, id)| format!("{} {id}", escape(name, 80))));
    joined(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_counts_have_a_short_form() {
        assert_eq!(short(999_999), None);
        assert_eq!(short(7_241_732_096).as_deref(), Some("7.24 B"));
        assert_eq!(short(124_439_808).as_deref(), Some("124 M"));
        assert_eq!(short(671_026_419_200).as_deref(), Some("671 B"));
    }

    #[test]
    fn what_is_not_known_has_no_line() {
        let summary = Summary { parameters: 12, ..Summary::default() };
        assert_eq!(lines(&summary, None), [("parameters", "12".to_owned())]);
    }
}
