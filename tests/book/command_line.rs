//! Pages that the program itself writes: its help, its error codes, its settings.

use apr_tests::documents::assert_written;
use apr_tests::{Scratch, program};
use serde_json::Value as Json;
use std::process::{Command, Output};

fn apr(words: &[&str]) -> Output {
    let mut command = Command::new(program());
    command.args(words).env_clear().env("COLUMNS", "100").env("PATH", std::env::var_os("PATH").unwrap());
    let scratch = Scratch::new();
    command.env("HOME", scratch.path());
    let output = command.output().unwrap();
    assert!(output.status.success(), "apr {words:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn text(words: &[&str]) -> String {
    String::from_utf8(apr(words).stdout).unwrap()
}

fn json(words: &[&str]) -> Json {
    serde_json::from_slice(&apr(words).stdout).unwrap()
}

/// Names of the commands that a help text lists.
fn commands(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let listed = lines.take_while(|line| !line.is_empty()).filter(|line| !line.starts_with("   "));
    let names = listed.filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// Appends the help of a command and of those below it; the options that all share stand at the top only.
fn describe(words: &[&str], page: &mut String) {
    let help = text(&[words, &["--help"]].concat());
    let own = match words {
        [] => help.as_str(),
        _ => help.split("\nGlobal options:\n").next().unwrap(),
    };
    let own: Vec<&str> = own.lines().map(str::trim_end).collect();
    let title = [&["apr"], words].concat().join(" ");
    let level = "#".repeat(words.len().max(1) + 1);
    *page += &format!("{level} `{title}`\n\n```text\n{}\n```\n\n", own.join("\n").trim_end());
    for name in commands(&help) {
        describe(&[words, &[name.as_str()]].concat(), page);
    }
}

#[test]
fn the_page_on_the_command_line_is_the_programs_own_help() {
    let mut page = String::new();
    describe(&[], &mut page);
    assert_written("reference/command-line.md", "book", &format!("{}\n", page.trim_end()));
}

#[test]
fn the_page_on_errors_lists_every_code() {
    let mut page = String::new();
    let list = |entry: &Json, key: &str| -> String {
        let items = entry[key].as_array().unwrap();
        items.iter().map(|item| format!("- {}\n", item.as_str().unwrap())).collect()
    };
    for entry in json(&["explain", "--json"])["codes"].as_array().unwrap() {
        let word = |key: &str| entry[key].as_str().unwrap();
        let planned = if entry["built"].as_bool().unwrap() { "" } else { " (planned)" };
        let (causes, steps) = (list(entry, "causes"), list(entry, "steps"));
        page += &format!("## {}: {}{planned}\n\n{}\n\n", word("code"), word("title"), word("meaning"));
        page += &format!("Usual causes:\n\n{causes}\nWhat to do:\n\n{steps}\n");
    }
    assert_written("reference/errors.md", "book", &format!("{}\n", page.trim_end()));
}

#[test]
fn the_page_on_configuration_lists_every_setting() {
    let mut page = String::from("| setting | built in | meaning |\n| --- | --- | --- |\n");
    for setting in json(&["config", "show", "--json"])["settings"].as_array().unwrap() {
        let value = match setting["origin"].as_str().unwrap() {
            "built-in" => setting["value"].to_string(),
            // The one setting that asking for JSON changes.
            _ => "\"text\"".to_owned(),
        };
        let (key, help) = (setting["key"].as_str().unwrap(), setting["help"].as_str().unwrap());
        page += &format!("| `{key}` | `{value}` | {help} |\n");
    }
    assert_written("reference/configuration.md", "book", &page);
}
