//! What is linked into `apr` is under the licences that `.deny.toml` allows, whether or not `cargo deny` is installed.

use std::process::Command;

/// Whether an SPDX expression can be met with the licences that `allows`. Old manifests write `/` for `OR`.
fn is_met(expression: &str, allows: &dyn Fn(&str) -> bool) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let mut words = spaced.split_whitespace().peekable();
    let met = any(&mut words, allows);
    assert!(words.next().is_none(), "`{expression}` is no expression of licences");
    met
}

type Words<'w, 't> = &'w mut std::iter::Peekable<std::str::SplitWhitespace<'t>>;

fn any(words: Words<'_, '_>, allows: &dyn Fn(&str) -> bool) -> bool {
    let mut met = all(words, allows);
    while words.next_if_eq(&"OR").is_some() {
        met |= all(words, allows);
    }
    met
}

fn all(words: Words<'_, '_>, allows: &dyn Fn(&str) -> bool) -> bool {
    let mut met = one(words, allows);
    while words.next_if_eq(&"AND").is_some() {
        met &= one(words, allows);
    }
    met
}

fn one(words: Words<'_, '_>, allows: &dyn Fn(&str) -> bool) -> bool {
    if words.next_if_eq(&"(").is_some() {
        let met = any(words, allows);
        assert_eq!(words.next(), Some(")"));
        return met;
    }
    let mut name = words.next().expect("a licence").to_owned();
    if words.next_if_eq(&"WITH").is_some() {
        name = format!("{name} WITH {}", words.next().expect("an exception"));
    }
    allows(&name)
}

#[test]
fn licences_of_what_is_linked_are_those_that_are_allowed() {
    let rules: toml::Table =
        std::fs::read_to_string(apr_tests::root().join(".deny.toml")).unwrap().parse().unwrap();
    let words = |value: &toml::Value| -> Vec<String> {
        value.as_array().unwrap().iter().map(|word| word.as_str().unwrap().to_owned()).collect()
    };
    let allowed = words(&rules["licenses"]["allow"]);
    let exceptions = rules["licenses"]["exceptions"].as_array().unwrap();
    // What is here is what was built: nothing is fetched, and other systems' packages need not be there.
    let version = Command::new("rustc").arg("-vV").output().unwrap();
    let version = String::from_utf8(version.stdout).unwrap();
    let host = version.lines().find_map(|line| line.strip_prefix("host: ")).unwrap();
    let listed = Command::new(env!("CARGO"))
        .args(["metadata", "--offline", "--format-version", "1", "--filter-platform", host])
        .current_dir(apr_tests::root())
        .output()
        .unwrap();
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    let listed: serde_json::Value = serde_json::from_slice(&listed.stdout).unwrap();
    let packages = listed["packages"].as_array().unwrap();
    assert!(packages.len() > 50, "{}", packages.len());
    let mut refused = Vec::new();
    let mut used = 0;
    for package in packages {
        let name = package["name"].as_str().unwrap();
        let own = exceptions.iter().find(|exception| exception["crate"].as_str() == Some(name));
        let own = own.map(|exception| words(&exception["allow"])).unwrap_or_default();
        used += usize::from(!own.is_empty());
        let allows = |licence: &str| allowed.iter().chain(&own).any(|allowed| allowed == licence);
        match package["license"].as_str() {
            Some(expression) if is_met(expression, &allows) => {}
            other => refused.push(format!("{name}: {}", other.unwrap_or("no licence is stated"))),
        }
    }
    assert_eq!(refused, [""; 0]);
    assert_eq!(used, exceptions.len(), ".deny.toml has an exception that nothing needs");
}

#[test]
fn expressions_of_licences_are_read_as_spdx_means_them() {
    let mit = |licence: &str| licence == "MIT";
    for met in ["MIT", "MIT/Apache-2.0", "GPL-3.0 OR MIT", "(GPL-3.0 OR MIT) AND MIT", "MIT AND MIT"] {
        assert!(is_met(met, &mit), "{met}");
    }
    for not in ["GPL-3.0", "MIT AND GPL-3.0", "MIT WITH odd-exception", "(MIT OR GPL-3.0) AND ISC"] {
        assert!(!is_met(not, &mit), "{not}");
    }
}
