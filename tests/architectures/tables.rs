//! Tables and files that are wrong, as input: what they would make is bounded, and what is wrong is named.

use crate::back::to;
use crate::refused::{changed, folder, tried};
use apr_engine::architecture::{Table, check, check_text};
use apr_sdk::{Error, ErrorKind};
use apr_tests::{Scratch, host};
use serde_json::json;
use std::fs;

/// A table of the basis `llama`, with more lines at its end.
fn table(more: &str) -> Result<Table, Error> {
    let host = host();
    let base = |id: &str| host.registry.architecture(id);
    Table::parse(&format!("id = \"acme\"\nbase = \"llama\"\n{more}"), &base)
}

#[test]
fn an_error_names_the_line_of_its_cause() {
    for (more, line, word) in [
        ("[config]\nfoo = \"intt\"\n", 4, "intt"),
        ("[dialect.hf]\nroots = [\"a\", \"a\"]\n", 4, "roots"),
        ("[[dialect.gguf.key]]\nkey = \"a.b\"\ntype = \"u99\"\nvalue = \"1\"\n", 5, "u99"),
        (
            "[[tensor]]\nname = \"x\"\n\n[[tensor]]\nname = \"y\"\ngguf = { name = \"z\", ops = [\"as(\"] }\n",
            8,
            "as(",
        ),
    ] {
        let error = table(more).unwrap_err();
        let message = error.message();
        assert!(message.contains(&format!("line {line}:")) && message.contains(word), "{message}");
    }
}

#[test]
fn a_message_that_quotes_what_the_text_has_elsewhere_is_not_led_astray() {
    for (more, line) in [
        // The words of the message stand in the entry before.
        ("[[tensor]]\nname = \"x\"\nrole = \"optional\"\n\n[[tensor]]\nname = \"y\"\noptional = 3\n", 9),
        // The entry takes the place of the base's, far from where it stands.
        ("[config]\nvocab_size = \"int\"\n[config.hidden_size]\ntype = \"intt\"\n", 6),
        // An item of a list over several lines.
        ("[[tensor]]\nname = \"x\"\nshape = [\n  \"hidden_size\",\n  \"hidden_size(\",\n]\n", 7),
    ] {
        let error = table(more).unwrap_err();
        assert!(error.message().contains(&format!("line {line}:")), "{}", error.message());
    }
}

#[test]
fn a_finding_has_the_line_of_what_the_text_says_itself() {
    let host = host();
    let base = |id: &str| host.registry.architecture(id);
    for (more, found) in [
        (
            "[config.hidden_size]\ndefault = \"widht\"\n",
            "line 4: configuration `hidden_size`: `widht` refers",
        ),
        (
            "[[tensor]]\nname = \"x\"\nrole = \"widht\"\nshape = [1]\n[[tensor]]\nname = \"y\"\nshape = [\"widht\"]\n",
            "line 8: tensor `y`: `widht` refers",
        ),
        ("[[dialect.gguf.key]]\nkey = \"a.b\"\nvalue = \"widht\"\n", "line 4: key `a.b`: `widht` refers"),
        ("[decoder.norm]\nepsilon = \"widht\"\n", "line 5: [decoder.norm] `epsilon`: `widht` refers"),
        ("[places]\nlayer = \"widht\"\n", "line 5: place `layer`: `widht` refers"),
        // What the base's rules lack has no line here.
        ("", "`sources` does not cite any source"),
    ] {
        let text = format!("id = \"acme\"\nbase = \"llama\"\n\n{more}");
        let table = Table::parse(&text, &base).unwrap();
        let findings = check_text(&table, &text, &base).unwrap();
        let all: Vec<&String> = findings.errors.iter().chain(&findings.warnings).collect();
        assert!(all.iter().any(|finding| finding.starts_with(found)), "{found}: {all:#?}");
    }
}

#[test]
fn a_slip_in_an_entry_is_no_omission() {
    for (more, slip) in [
        ("[[tensor]]\nname = \"x\"\ngguf = { name = \"y\", op = [\"transpose\"] }\n", "op"),
        (
            "[[tensor]]\nname = \"x\"\ngguf = { name = \"y\", generate = { values = \"[1]\", scaler = true } }\n",
            "scaler",
        ),
        ("[[dialect.gguf.key]]\nkey = \"a\"\ntyp = \"u32\"\nvalue = \"1\"\n", "typ"),
        ("[dialect.hf]\ndetects = []\n", "detects"),
        ("[[dialect.hf.ignore]]\nkeys = [\"a\"]\nreson = \"b\"\n", "reson"),
        ("[[dialect.hf.rename]]\nstart = \"a\"\nto = \"b\"\nbutt = [\"c\"]\n", "butt"),
    ] {
        let error = table(more).unwrap_err();
        assert!(error.message().contains(&format!("unknown key `{slip}` in")), "{}", error.message());
    }
}

#[test]
fn a_computed_tensor_has_a_side_of_its_own() {
    let values = "generate = { values = \"[1.0]\" }";
    for side in [
        format!("{{ name = \"y\", {values}, ops = [\"transpose\"] }}"),
        format!("{{ names = [\"y\", \"z\"], {values} }}"),
        format!("{{ name = \"y.*\", {values} }}"),
        format!("{{ name = \"y.{{layer}}\", {values}, offset = {{ layer = \"1\" }} }}"),
        format!("{{ name = \"y.{{layer}}.{{expert}}\", {values} }}"),
    ] {
        let error = table(&format!("[[tensor]]\nname = \"x\"\ngguf = {side}\n")).unwrap_err();
        assert!(error.message().contains("an entry with `generate`"), "{side}: {}", error.message());
    }
}

#[test]
fn a_table_has_bounds() {
    let long = "#".repeat(1 << 20);
    assert_eq!(table(&long).unwrap_err().kind(), ErrorKind::LimitExceeded);
    let circle = "[config]\nfoo = { type = \"int\", default = \"bar\" }\nbar = { type = \"int\", default = \"foo\" }\n";
    let found = check(&table(circle).unwrap());
    assert!(found.warnings.iter().any(|warning| warning.contains("depend on each other")), "{found:?}");
    let own = "[config]\nfoo = { type = \"int\", default = \"foo + 1\" }\n";
    let found = check(&table(own).unwrap());
    assert!(found.errors.iter().any(|error| error.contains("depends on itself")), "{found:?}");
    let unknown = "[[tensor]]\nname = \"x\"\ngguf = { name = \"y\", generate = { values = \"[nobody]\", sets = { no = \"it\" } } }\n";
    let found = check(&table(unknown).unwrap());
    assert!(found.errors.iter().any(|error| error.contains("`nobody`")), "{found:?}");
    assert!(found.errors.iter().any(|error| error.contains("sets `no`")), "{found:?}");
}

#[test]
fn a_gemma_4_file_of_llama_cpp_s_converter_comes_back() {
    let (host, scratch) = (host(), Scratch::new());
    // The converter does not write keys of ours.
    let key = "tokenizer.apr.text";
    let theirs = changed(&host, &scratch, "gemma4", key, |bytes| bytes[key.len() - 1] = b'x');
    let back = scratch.at("back");
    to(&host, "huggingface", &theirs, &back);
    let tokenizer: serde_json::Value =
        serde_json::from_slice(&fs::read(back.join("tokenizer.json")).unwrap()).unwrap();
    let merges = tokenizer["model"]["merges"].as_array().unwrap();
    assert_eq!((merges.len(), tokenizer["model"]["byte_fallback"].as_bool()), (144, Some(true)));
    to(&host, "gguf", &back, &scratch.at("again.gguf"));
}

#[test]
fn an_activation_of_each_layer_is_wanted_of_each() {
    let (host, scratch) = (host(), Scratch::new());
    let input = folder(&scratch, "apertus", &json!({ "num_hidden_layers": 3 }));
    let error = tried(&host, "gguf", &input, &scratch.at("out.gguf")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Malformed, "{error:?}");
    assert!(!scratch.at("out.gguf").exists());
}

#[test]
fn a_list_that_says_more_than_a_configuration_is_refused() {
    let (host, scratch) = (host(), Scratch::new());
    let key = "gemma4.feed_forward_length";
    let other = changed(&host, &scratch, "gemma4", key, |bytes| {
        // The kind of the value, the kind of its items and their number lie before the first.
        let first = &mut bytes[key.len() + 4 + 4 + 8..][..4];
        assert_eq!(first, 96i32.to_le_bytes());
        first.copy_from_slice(&95i32.to_le_bytes());
    });
    let error = tried(&host, "huggingface", &other, &scratch.at("back")).unwrap_err();
    assert!(error.message().contains("`gemma4.feed_forward_length`"), "{error:?}");
}
