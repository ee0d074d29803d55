//! Settings of generation, as transformers 5.23 reads them: from `generation_config.json`, or where there is none from
//! `config.json` and its `text_config`.
//!
//! What the model card has a place for goes there in one form, without what is a class's default; what changes the answer
//! and has no place is named.

use serde_json::{Map, Number, Value as Json, json};

/// Settings that the card carries under the same name, and their forms.
const CARRIED: [(&str, Form); 17] = [
    ("eos_token_id", Form::Ids),
    ("repetition_penalty", Form::Penalty),
    ("encoder_repetition_penalty", Form::Penalty),
    ("sequence_bias", Form::Biases),
    ("no_repeat_ngram_size", Form::Count),
    ("encoder_no_repeat_ngram_size", Form::Count),
    ("bad_words_ids", Form::Sequences),
    ("min_length", Form::Count),
    ("min_new_tokens", Form::Count),
    ("forced_bos_token_id", Form::Id),
    ("forced_eos_token_id", Form::Ids),
    ("exponential_decay_length_penalty", Form::Decay),
    ("suppress_tokens", Form::Ids),
    ("begin_suppress_tokens", Form::Ids),
    ("max_length", Form::Count),
    ("max_new_tokens", Form::Count),
    ("stop_strings", Form::Texts),
];

/// Settings that `sampling` carries, by their names there, which count as the card's only where `config.json` states them.
const SAMPLED: [(&str, &str); 4] =
    [("temperature", "temp"), ("top_k", "top_k"), ("top_p", "top_p"), ("min_p", "min_p")];

/// Settings that the card carries under the same name if tokens are drawn: parts of 1, and the least that changes nothing.
const DRAWN: [(&str, f64); 4] =
    [("top_h", f64::INFINITY), ("typical_p", 1.0), ("epsilon_cutoff", 1.0), ("eta_cutoff", 1.0)];

/// Settings without a place, and the values of them that change an answer.
const OTHERS: [(&str, Changes); 12] = [
    ("num_beams", Changes::Above(1.0)),
    ("num_beam_groups", Changes::Above(1.0)),
    ("num_return_sequences", Changes::Above(1.0)),
    ("penalty_alpha", Changes::Above(0.0)),
    ("dola_layers", Changes::Always),
    ("constraints", Changes::Always),
    ("force_words_ids", Changes::Always),
    ("guidance_scale", Changes::Beside(1.0)),
    ("watermarking_config", Changes::Always),
    ("token_healing", Changes::True),
    ("max_time", Changes::Always),
    ("cache_implementation", Changes::Text("quantized")),
];

/// The form of a setting.
#[derive(Clone, Copy)]
enum Form {
    /// A number of tokens; 0 changes nothing.
    Count,
    /// A factor above 0; 1 changes nothing.
    Penalty,
    /// A token.
    Id,
    /// Tokens, or one.
    Ids,
    /// Lists of tokens.
    Sequences,
    /// Lists of tokens, each with a number.
    Biases,
    /// A number of tokens and a factor.
    Decay,
    /// Texts, or one.
    Texts,
}

/// Values that change an answer.
#[derive(Clone, Copy)]
enum Changes {
    /// Any.
    Always,
    /// True.
    True,
    /// This text.
    Text(&'static str),
    /// Numbers above this one.
    Above(f64),
    /// All numbers but this one.
    Beside(f64),
}

/// Settings of one model.
#[derive(Debug, Default, PartialEq)]
pub struct Generation {
    /// What the card says under `generation`.
    pub carried: Map<String, Json>,
    /// True if the most probable token is to be taken, as the file says itself.
    pub greedy: bool,
    /// True if tokens are drawn: the library draws none unless told to.
    pub draws: bool,
}

impl Generation {
    /// The settings of `generation_config.json`, or else of `config.json`.
    pub fn of(generation: Option<&Map<String, Json>>, config: &Map<String, Json>) -> Generation {
        let inner =
            ["decoder", "generator", "text_config"].iter().find_map(|key| config.get(*key)?.as_object());
        let get = |name: &str| {
            let stated =
                |object: &Map<String, Json>| object.get(name).filter(|json| !json.is_null()).cloned();
            match generation {
                Some(generation) => stated(generation),
                None => stated(config).or_else(|| inner.and_then(stated)),
            }
        };
        let mut carried = Map::new();
        let mut others = Vec::new();
        for (name, form) in CARRIED {
            let Some(json) = get(name) else { continue };
            match form.read(&json) {
                Some(Json::Null) => {}
                Some(json) => _ = carried.insert(name.to_owned(), json),
                None => others.push(said(name, &json)),
            }
        }
        // It takes the place of the other also where it asks for none.
        if get("min_new_tokens").is_some() {
            carried.shift_remove("min_length");
        }
        let draws = get("do_sample").and_then(|json| json.as_bool());
        for (name, all) in DRAWN.iter().filter(|_| draws == Some(true)) {
            let Some(json) = get(name) else { continue };
            match json.as_f64() {
                Some(part) if part >= *all || part == 0.0 => {}
                Some(part) if part > 0.0 && part <= 1.0 => {
                    _ = carried.insert((*name).to_owned(), number(part))
                }
                _ => others.push(said(name, &json)),
            }
        }
        for (name, changes) in OTHERS {
            if let Some(json) = get(name).filter(|json| changes.has(json)) {
                others.push(said(name, &json));
            }
        }
        let greedy = draws == Some(false);
        if generation.is_none() {
            for (name, known) in SAMPLED {
                let number = if greedy && name == "temperature" { Some(json!(0)) } else { get(name) };
                if let Some(number) = number.filter(Json::is_number) {
                    carried.insert(known.to_owned(), number);
                }
            }
        }
        if !others.is_empty() {
            carried.insert("not_followed".to_owned(), others.into());
        }
        Generation { carried, greedy, draws: draws == Some(true) }
    }
}

/// `num_beams = 4`, cut where it is long.
fn said(name: &str, json: &Json) -> String {
    /// Characters of a value.
    const LONGEST: usize = 40;
    let text = json.to_string();
    match text.char_indices().nth(LONGEST) {
        Some((at, _)) => format!("{name} = {}...", &text[..at]),
        None => format!("{name} = {text}"),
    }
}

impl Form {
    /// The value in the card's form; null for one that changes nothing, `None` for one that is not of this form.
    fn read(self, json: &Json) -> Option<Json> {
        match self {
            Form::Count => json.as_u64().map(|count| if count == 0 { Json::Null } else { count.into() }),
            Form::Penalty => {
                let factor = json.as_f64().filter(|factor| *factor > 0.0)?;
                Some(if factor == 1.0 { Json::Null } else { number(factor) })
            }
            Form::Id => id(json),
            Form::Ids => match json {
                Json::Array(items) => list(items, id),
                _ => id(json).map(|id| json!([id])),
            },
            Form::Sequences => list(json.as_array()?, ids),
            Form::Biases => list(json.as_array()?, |pair| match &pair.as_array()?[..] {
                [sequence, bias] => Some(json!([ids(sequence)?, number(bias.as_f64()?)])),
                _ => None,
            }),
            Form::Decay => match &json.as_array()?[..] {
                // Beside a factor, the number may have become a float, too.
                [start, factor] => Some(json!([whole(start)?, number(factor.as_f64()?)])),
                _ => None,
            },
            Form::Texts => match json {
                Json::Array(items) => list(items, text),
                _ => text(json).map(|text| json!([text])),
            },
        }
    }
}

/// A whole number, also one that is written as a float.
fn whole(json: &Json) -> Option<i64> {
    let float = json.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < 1e15)?;
    #[allow(clippy::cast_possible_truncation, reason = "it is a whole number, and far smaller")]
    let whole = float as i64;
    Some(whole)
}

fn number(number: f64) -> Json {
    Number::from_f64(number).map_or(Json::Null, Json::Number)
}

fn id(json: &Json) -> Option<Json> {
    json.as_u64().and_then(|id| u32::try_from(id).ok()).map(Json::from)
}

fn ids(json: &Json) -> Option<Json> {
    let ids = list(json.as_array()?, id)?;
    (!ids.is_null()).then_some(ids)
}

fn text(json: &Json) -> Option<Json> {
    json.as_str().filter(|text| !text.is_empty()).map(Json::from)
}

/// A list in the card's form, null for an empty one.
fn list(items: &[Json], form: impl Fn(&Json) -> Option<Json>) -> Option<Json> {
    let items: Vec<Json> = items.iter().map(form).collect::<Option<_>>()?;
    Some(if items.is_empty() { Json::Null } else { Json::Array(items) })
}

impl Changes {
    fn has(self, json: &Json) -> bool {
        let number = json.as_f64();
        match self {
            Changes::Always => true,
            Changes::True => json.as_bool() == Some(true),
            Changes::Text(text) => json.as_str() == Some(text),
            Changes::Above(least) => number.is_none_or(|number| number > least),
            Changes::Beside(one) => number.is_none_or(|number| number != one),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(generation: &str) -> Generation {
        let object: Json = serde_json::from_str(generation).unwrap();
        Generation::of(object.as_object(), &Map::new())
    }

    #[test]
    fn what_has_a_place_is_carried_in_one_form() {
        let said = of(
            r#"{"suppress_tokens": 7, "forced_eos_token_id": [3, 4], "bad_words_ids": [[1], [2, 3]],
            "sequence_bias": [[[5, 6], -2]], "stop_strings": "x", "repetition_penalty": 1.5, "do_sample": false,
            "exponential_decay_length_penalty": [3.0, 1.5]}"#,
        );
        let want = json!({"repetition_penalty": 1.5, "sequence_bias": [[[5, 6], -2.0]], "bad_words_ids": [[1], [2, 3]],
            "forced_eos_token_id": [3, 4],
            "exponential_decay_length_penalty": [3, 1.5], "suppress_tokens": [7], "stop_strings": ["x"]});
        assert_eq!((Json::Object(said.carried), said.greedy), (want, true));
    }

    #[test]
    fn defaults_need_no_word() {
        let said = of(
            r#"{"num_beams": 1, "repetition_penalty": 1.0, "min_length": 0, "no_repeat_ngram_size": 0,
            "penalty_alpha": 0.0, "typical_p": 0.9, "guidance_scale": 1, "suppress_tokens": [], "token_healing": false,
            "cache_implementation": "static", "forced_bos_token_id": null, "use_cache": false, "top_k": 50}"#,
        );
        assert_eq!(said, Generation::default());
    }

    #[test]
    fn what_has_no_place_or_another_form_is_named() {
        let said = of(
            r#"{"num_beams": 4, "suppress_tokens": ["a"], "do_sample": true, "typical_p": 0.9, "top_h": 0.4,
            "watermarking_config": {"greenlist_ratio": 0.25, "bias": 2.0, "hashing_key": 15485863}}"#,
        );
        let want = json!({"not_followed": ["suppress_tokens = [\"a\"]", "num_beams = 4",
            "watermarking_config = {\"greenlist_ratio\":0.25,\"bias\":2.0,\"hash..."], "top_h": 0.4, "typical_p": 0.9});
        assert_eq!(Json::Object(said.carried), want);
    }

    #[test]
    fn the_configuration_counts_where_there_is_no_file_of_its_own() {
        let config =
            json!({"no_repeat_ngram_size": 2, "top_k": 3, "text_config": {"min_length": 5, "top_k": 9}});
        let said = Generation::of(None, config.as_object().unwrap());
        assert_eq!(
            Json::Object(said.carried),
            json!({"no_repeat_ngram_size": 2, "min_length": 5, "top_k": 3})
        );
        assert_eq!(Generation::of(Some(&Map::new()), config.as_object().unwrap()), Generation::default());
    }
}
