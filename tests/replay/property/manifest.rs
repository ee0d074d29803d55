//! What a plugin's library says of itself, before any of it is loaded.

use super::errors::check_shown;
use apr_abi::manifest::{HEAD_LEN, parse};
use apr_host::plugins::section;
use apr_sdk::{Error, ErrorKind, Manifest};

/// Checks the section's bytes in both byte orders, and the text alone. Gives whether any of them was accepted.
pub fn check_section(bytes: &[u8]) -> bool {
    let mut accepted = false;
    for big_endian in [false, true] {
        match parse(bytes, big_endian) {
            Ok((head, len)) => {
                assert!((HEAD_LEN..=bytes.len()).contains(&len), "{len} of {} bytes", bytes.len());
                assert!(len >= HEAD_LEN + head.text.len(), "a text outside its section");
                check_text(&head.text);
                accepted = true;
            }
            Err(error) => check_refusal(&error),
        }
    }
    std::str::from_utf8(bytes).is_ok_and(check_text) || accepted
}

/// Checks the bytes of a library of any target.
pub fn check_library(bytes: &[u8]) -> bool {
    match section::parse(bytes) {
        Ok(section) => {
            assert!(section.bytes.len() <= bytes.len(), "a section longer than its library");
            let text = section.judge().map_or_else(|e| e.to_string(), |()| String::new());
            check_shown("a judgement", &text);
            true
        }
        Err(error) => {
            check_refusal(&error);
            false
        }
    }
}

fn check_text(text: &str) -> bool {
    match Manifest::parse(text) {
        Ok(manifest) => {
            let again = Manifest::parse(text).unwrap();
            assert_eq!(manifest, again);
            for format in &manifest.formats {
                let options = format.options.iter().filter(|option| !option.default.is_empty());
                options.for_each(|option| assert!(option.accepts(&option.default), "{option:?}"));
                let _ = format.magic.iter().any(|magic| magic.matches(text.as_bytes()));
            }
            true
        }
        Err(error) => {
            check_refusal(&error);
            false
        }
    }
}

fn check_refusal(error: &Error) {
    assert_eq!(error.kind(), ErrorKind::Plugin, "{error}");
    check_shown("a refusal", &error.to_string());
    error.causes().iter().for_each(|cause| check_shown("a cause", cause));
}
