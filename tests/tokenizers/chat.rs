//! Chat templates by `apr-inference`, against what Jinja makes of them in the environment of transformers (chat/rendered.json).

use super::parse;
use apr_inference::template::{Conversation, render};
use apr_sdk::tokenizer::{Parts, TokenType};
use apr_tests::root;
use serde_json::{Map, Value as Json, json};
use std::fs;

/// 2 January 2026, 03:04:05.
const NOW: i64 = 1_767_323_045;

fn special() -> Parts {
    let tokens = ["<s>", "</s>", "<unk>"].map(|text| Some(text.to_owned())).to_vec();
    let names = ["bos", "eos", "unk"].map(str::to_owned);
    let special = names.into_iter().zip(0..).collect();
    Parts { types: vec![TokenType::Control; 3], tokens, special, ..Parts::default() }
}

fn conversation(given: &Json) -> Conversation {
    let list = |key: &str| given[key].as_array().cloned();
    Conversation {
        messages: list("messages").unwrap(),
        tools: list("tools"),
        add_generation_prompt: given["add_generation_prompt"].as_bool().unwrap_or(true),
        variables: given["variables"].as_object().cloned().unwrap_or_default(),
        now: Some(NOW),
    }
}

#[test]
fn renderings_are_those_of_jinja() {
    let folder = root().join("tests/tokenizers/chat");
    let (expected, given) = (parse(&folder.join("rendered.json")), parse(&folder.join("conversations.json")));
    let mut complaints = Vec::new();
    let mut n = 0;
    for (name, expected) in expected.as_object().unwrap().iter().filter(|(name, _)| *name != "made_by") {
        let template = fs::read_to_string(folder.join(format!("{name}.jinja"))).unwrap();
        for (of, given) in given.as_object().unwrap() {
            n += 1;
            let found = render(&template, &special(), &conversation(given));
            match (found, &expected[of]) {
                (Ok(text), Json::String(wanted)) if text == *wanted => {}
                // What Python's errors are called is Python's; what a template raises is the template's.
                (Err(error), Json::Object(wanted)) => {
                    let wanted = wanted["error"].as_str().unwrap();
                    if wanted.contains(' ') && !error.message().contains(wanted.get(..60).unwrap_or(wanted)) {
                        complaints.push(format!("{name}, {of}: {error:?}, not {wanted:?}"));
                    }
                }
                (found, wanted) => complaints.push(format!("{name}, {of}:\n {found:?}, not\n {wanted}")),
            }
        }
    }
    assert!(n >= 60, "{n}");
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

#[test]
fn small_templates_do_what_they_do_in_jinja() {
    let given = parse(&root().join("tests/tokenizers/chat/expressions.json"));
    let variables = given["variables"].as_object().unwrap().clone();
    let conversation =
        Conversation { variables, now: Some(NOW), add_generation_prompt: true, ..Conversation::default() };
    // What cannot be rendered as Jinja does is refused, and nothing else is.
    let refused: Vec<&str> = given["refused"].as_array().unwrap().iter().filter_map(Json::as_str).collect();
    let mut complaints = Vec::new();
    for (template, wanted) in given["rendered"].as_object().unwrap() {
        match (render(template, &special(), &conversation), wanted) {
            (Err(_), Json::String(_)) if refused.contains(&template.as_str()) => {}
            (Ok(text), Json::String(wanted)) if text == *wanted && !refused.contains(&template.as_str()) => {}
            (Err(_), Json::Object(_)) => {}
            (found, wanted) => complaints.push(format!("{template}:\n {found:?}, not\n {wanted}")),
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

fn refused(template: &str) -> apr_sdk::Error {
    let messages = vec![json!({"role": "user", "content": "x"})];
    let conversation = Conversation { messages, variables: Map::new(), ..Conversation::default() };
    render(template, &special(), &conversation).unwrap_err()
}

#[test]
fn what_would_never_end_or_take_all_memory_is_refused() {
    let double = "{% set ns = namespace(x='aaaaaaaa') %}{% for i in range(60) %}{% set ns.x = ns.x ~ ns.x %}{% endfor %}{{ ns.x }}";
    let bad = vec![
        "{{ 'a' * 10**9 }}".to_owned(),
        "{{ [1] * 10**9 }}".to_owned(),
        "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}".to_owned(),
        "{{ range(10**12) | list | length }}".to_owned(),
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}".to_owned(),
        "{% for a in messages recursive %}{{ loop([a]) }}{% endfor %}".to_owned(),
        "{{ 'a' | center(10**9) }}".to_owned(),
        "{{ '%999999999d' % 1 }}".to_owned(),
        "{{ ('a' * 100000) | replace('a', 'b' * 100000) }}".to_owned(),
        "{{ ('a' * 100000).replace('a', 'b' * 100000) }}".to_owned(),
        "{{ ('b' * 100000).join('a' * 100000) }}".to_owned(),
        "{{ ('a\n' * 100000) | indent(1000000) }}".to_owned(),
        "{{ ('a\n' * 100000) | wordwrap(1, true, 'b' * 100000) }}".to_owned(),
        "{{ 2 ** (2 ** 40) }}".to_owned(),
        double.to_owned(),
        "{{ ".to_owned() + &"(".repeat(100_000) + "1",
        "{{ ".to_owned() + &"[".repeat(100_000) + " }}",
        "{% if 1 %}".repeat(50_000),
        "{{ x".to_owned(),
        "{% include 'chat' %}".to_owned(),
        "{% extends 'other' %}".to_owned(),
        "x".repeat(10 << 20),
    ];
    for template in bad {
        let began = std::time::Instant::now();
        let error = refused(&template);
        let shown: String = template.chars().take(70).collect();
        println!("{:>6} ms  {shown}: {error:?}", began.elapsed().as_millis());
        assert!(began.elapsed().as_secs() < 20, "{shown}");
    }
}

#[test]
fn refusals_say_what_to_do() {
    let raised = refused("{{ raise_exception('roles \u{1b}[31m must alternate') }}");
    assert!(raised.message().contains("roles \\u{1b}[31m must alternate"), "{raised:?}");
    let date = refused("{{ strftime_now('%Y') }}");
    assert!(date.hint_text().unwrap().contains("SOURCE_DATE_EPOCH"), "{date:?}");
    let through_a_macro = refused("{% macro m() %}{{ raise_exception('inner') }}{% endmacro %}{{ m() }}");
    assert!(through_a_macro.message().contains("inner"), "{through_a_macro:?}");
    assert!(refused("{{ messages | nosuchfilter }}").message().contains("nosuchfilter"));
    assert!(refused("a\nb{% if %}").message().contains("line 2"));
}
