//! What the class of a tokenizer puts around a text of its own accord, whatever `tokenizer.json` says: transformers 5 does so for each
//! class that has such tokens, version 4 for those of languages.

use super::recipe::{Reads, Recipe};
use super::{classes, stated};
use apr_sdk::escape;
use apr_sdk::tokenizer::{Parts, steps};
use serde_json::Value as Json;

/// Classes that put the token of a language around a text, in version 4 of the library too.
const OF_LANGUAGES: [&str; 4] =
    ["MBartTokenizer", "MBart50Tokenizer", "NllbTokenizer", "SeamlessM4TTokenizer"];

/// Classes that put tokens around a text which are not known here.
const UNKNOWN: [&str; 4] = ["EsmcTokenizer", "MLukeTokenizer", "NllbTokenizer", "SeamlessM4TTokenizer"];

/// Puts around a text what the class does, where `tokenizer.json` says nothing of it, as version 5 of the library does. Notes where
/// versions differ, and where `tokenizer.json` says something else, by which this plugin goes.
pub fn fill_in(parts: &mut Parts, said: &Json, config: Option<&Json>, class: &str) {
    let Some(class) = stated::class_in_five(class, config, parts) else { return };
    let shown = escape(class, 60);
    if UNKNOWN.contains(&class) {
        if parts.post_processor.is_none() {
            parts.notes.push(format!(
                "tokenizer.json has no `post_processor`, and apr puts nothing around a text, but transformers 5 puts \
                 there what the class `{shown}` does"
            ));
        }
        return;
    }
    let framing = |recipe: &Recipe| {
        recipe.frames_always() && recipe.is_of(parts.kind) && recipe.reads() != Reads::Words
    };
    let Some(recipe) = classes::recipe(class).filter(framing) else { return };
    let mut said = said.clone();
    for flag in ["add_bos_token", "add_eos_token"] {
        said.as_object_mut().and_then(|said| said.remove(flag));
    }
    let own = around(parts.post_processor.as_ref());
    let usual = match recipe.around(parts, &said) {
        Ok(usual) => usual,
        Err(error) => {
            parts.notes.push(format!(
                "around a text, apr puts {own} as tokenizer.json does, but transformers 5 goes by the class: {}",
                error.message()
            ));
            return;
        }
    };
    let of_class = around(usual.as_ref());
    if own == of_class {
        return;
    }
    let is_in_both = OF_LANGUAGES.contains(&class);
    if parts.post_processor.is_none() {
        // Where flags count for version 4, that is noted elsewhere.
        if !is_in_both && !recipe.has_flags() {
            parts.notes.push(format!(
                "tokenizer.json has no `post_processor`: around a text, transformers 5 and apr put {of_class} as the \
                 class `{shown}` does, transformers 4 puts nothing there"
            ));
        }
        parts.post_processor = usual;
    } else if !recipe.has_flags() {
        let by_class = if is_in_both { "transformers uses" } else { "transformers 5 uses" };
        let others = if is_in_both { "apr uses" } else { "transformers 4 and apr use" };
        parts.notes.push(format!(
            "around a text, tokenizer.json puts {own}, but the class `{shown}` puts {of_class}: {by_class} the class, {others} \
             tokenizer.json"
        ));
    }
}

/// What a post-processor puts around one text, in words.
fn around(step: Option<&Json>) -> String {
    let mut found = [Vec::new(), Vec::new()];
    for step in steps(step) {
        let text = |key: &str| step.get(key)?.get(0)?.as_str().map(str::to_owned);
        if let (Some(first), Some(last)) = (text("cls"), text("sep")) {
            found = [vec![first], vec![last]];
        }
        let mut side = 0;
        for entry in step.get("single").and_then(Json::as_array).into_iter().flatten() {
            match entry.pointer("/SpecialToken/id").and_then(Json::as_str) {
                Some(token) => found[side].push(token.to_owned()),
                None => side = 1,
            }
        }
    }
    let [first, last] = found.map(|tokens| {
        let quoted = tokens.iter().map(|token| format!("`{}`", escape(token, 40)));
        quoted.collect::<Vec<String>>().join(", ")
    });
    match (first.is_empty(), last.is_empty()) {
        (true, true) => "nothing".to_owned(),
        (false, true) => format!("{first} before"),
        (true, false) => format!("{last} after"),
        (false, false) => format!("{first} before and {last} after"),
    }
}
