//! `--set` and `--unset`: any type, kept where it was, and refused where it makes no sense.

use apr_host::convert::convert;
use apr_host::open::{OpenOptions, open};
use apr_sdk::{ErrorKind, Value, ValueType};
use apr_tests::{Scratch, fixtures, host, must, options};
use std::path::Path;

fn typed(path: &Path) -> Vec<(String, Value)> {
    let host = host();
    let opened = open(&host, path, &OpenOptions::default()).unwrap();
    opened.model.foreign.iter().flat_map(|f| &f.files).flat_map(|f| f.typed.clone()).collect()
}

fn set(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
    pairs.iter().map(|(k, v)| ((*k).to_owned(), (*v).to_owned())).collect()
}

#[test]
fn keys_keep_their_type_and_place_and_new_ones_come_last() {
    let (host, scratch) = (host(), Scratch::new());
    let (input, output) = (fixtures("gguf").join("small.gguf"), scratch.at("o.gguf"));
    let mut o = options(&input, &output);
    std::fs::write(scratch.at("text"), "two\nlines").unwrap();
    let file = format!("@{}", scratch.at("text").display());
    o.set =
        set(&[("test.u16", "7"), ("test.array.u32", "[1,2,3]"), ("new.key:f32", "0.5"), ("test.str", &file)]);
    o.unset = vec!["test.i8".to_owned()];
    must(&host, &o);
    let (before, after) = (typed(&input), typed(&output));
    assert_eq!(after.len(), before.len());
    let keys = |values: &[(String, Value)]| values.iter().map(|(k, _)| k.clone()).collect::<Vec<_>>();
    let mut want = keys(&before);
    want.retain(|k| k != "test.i8");
    want.push("new.key".to_owned());
    assert_eq!(keys(&after), want);
    let get = |key: &str| after.iter().find(|(k, _)| k == key).unwrap().1.clone();
    assert_eq!(get("test.u16"), Value::from_u16(7));
    assert_eq!(get("test.array.u32").array_head(), Some((ValueType::U32, 3)));
    assert_eq!(get("new.key"), Value::from_f32(0.5));
    assert_eq!(get("test.str"), Value::from_string("two\nlines"));
}

#[test]
fn values_that_do_not_fit_and_unknown_keys_are_refused() {
    let (host, scratch) = (host(), Scratch::new());
    let base = options(&fixtures("gguf").join("small.gguf"), &scratch.at("o.gguf"));
    for (key, value) in
        [("test.u8", "256"), ("test.bool", "maybe"), ("test.array.u16", "[1,-1]"), ("x:u32", "a"), ("", "1")]
    {
        let mut o = base.clone();
        o.set = set(&[(key, value)]);
        assert_eq!(convert(&host, &o).unwrap_err().kind(), ErrorKind::InvalidArgument, "{key}={value}");
    }
    let mut o = base;
    o.unset = vec!["general.architectures".to_owned()];
    let error = convert(&host, &o).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(scratch.names().is_empty());
}

#[test]
fn a_target_without_keys_of_its_own_takes_those_of_the_source() {
    let (host, scratch) = (host(), Scratch::new());
    let (one, two, back) = (scratch.at("1.apr"), scratch.at("2.apr"), scratch.at("back.gguf"));
    must(&host, &options(&fixtures("gguf").join("small.gguf"), &one));
    let mut o = options(&one, &two);
    o.set = set(&[("test.u32", "5")]);
    must(&host, &o);
    must(&host, &options(&two, &back));
    assert_eq!(typed(&back).iter().find(|(k, _)| k == "test.u32").unwrap().1, Value::from_u32(5));
}

#[test]
fn a_key_of_another_format_is_named_as_such() {
    let (host, scratch) = (host(), Scratch::new());
    let mut o = options(&fixtures("gguf").join("small.gguf"), &scratch.at("o.safetensors"));
    o.unset = vec!["test.i8".to_owned()];
    let error = convert(&host, &o).unwrap_err();
    assert!(error.message().contains("gguf, not of safetensors"), "{error}");
}

#[test]
fn a_format_of_strings_takes_a_new_string() {
    let (host, scratch) = (host(), Scratch::new());
    let mut o =
        options(&fixtures("safetensors").join("metadata_one.safetensors"), &scratch.at("o.safetensors"));
    o.set = set(&[("author", "me")]);
    must(&host, &o);
    assert!(typed(&scratch.at("o.safetensors")).contains(&("author".to_owned(), Value::from_string("me"))));
}
