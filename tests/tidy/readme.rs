//! The README claims nothing that no test proves, and nothing that is not there.

use crate::tree::{files, report};

fn readme() -> String {
    std::fs::read_to_string(apr_tests::root().join("README.md")).unwrap()
}

/// The cells of the table under a heading, without its head.
fn table(heading: &str) -> Vec<Vec<String>> {
    let text = readme();
    let from = text.find(heading).unwrap_or_else(|| panic!("README has no `{heading}`"));
    let rows =
        text[from..].lines().skip_while(|l| !l.starts_with('|')).take_while(|l| l.starts_with('|')).skip(2);
    let cells = |row: &str| row.trim_matches('|').split('|').map(|c| c.trim().to_owned()).collect();
    rows.map(cells).collect()
}

#[test]
fn every_supported_row_names_tests_that_exist() {
    let sources = files(&["rs"]);
    let mut complaints = Vec::new();
    let rows = table("## What is supported");
    assert!(rows.len() > 3, "the table of what is supported is gone");
    for row in rows {
        let last = row.last().unwrap();
        let tests: Vec<_> = last.split('`').skip(1).step_by(2).collect();
        if tests.is_empty() {
            complaints.push(format!("`{}` names no test", row[0]));
        }
        for test in tests {
            let name = test.rsplit("::").next().unwrap();
            if !sources.iter().any(|f| f.text.contains(&format!("fn {name}("))) {
                complaints.push(format!("`{}` names the test `{test}`, which is not there", row[0]));
            }
        }
    }
    report("README", &complaints);
}

#[test]
fn every_format_claimed_is_provided_and_every_one_provided_is_claimed() {
    let host = apr_tests::host();
    let provided: Vec<_> = host.registry.formats().iter().map(|f| f.id().to_owned()).collect();
    // A row of a format begins with its id as code; the others say what is done between formats.
    let ids = |row: &Vec<String>| Some(row[0].strip_prefix('`')?.strip_suffix('`')?.to_owned());
    let claimed: Vec<String> = table("## What is supported").iter().filter_map(ids).collect();
    let mut complaints = Vec::new();
    for id in &provided {
        if !claimed.iter().any(|c| c == id) {
            complaints.push(format!("`{id}` is provided, the README does not say so"));
        }
    }
    for claim in &claimed {
        if !provided.contains(claim) {
            complaints.push(format!("the README claims `{claim}`, no plugin provides it"));
        }
    }
    report("README", &complaints);
}

#[test]
fn every_block_type_has_a_row() {
    let rows = table("## Quantizing");
    let claimed: Vec<String> = rows.iter().map(|row| row[0].trim_matches('`').to_owned()).collect();
    let provided: Vec<&str> = apr_plugin_quants::types::TYPES.iter().map(|of| of.dtype.name()).collect();
    let mut sorted = (claimed.clone(), provided.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>());
    sorted.0.sort();
    sorted.1.sort();
    assert_eq!(sorted.0, sorted.1, "the table of block types is not what the plugin has");
    let golden = std::fs::read_to_string(apr_tests::root().join("plugins/quants/tests/golden.toml")).unwrap();
    for row in rows {
        let judged = golden.contains(&format!("[{}]\n", row[0].trim_matches('`')));
        assert!(judged || !row[2].starts_with("identical"), "{} is judged by no digest of ggml's", row[0]);
    }
}

#[test]
fn every_fixture_of_packed_weights_has_its_place() {
    let mut claimed: Vec<String> = Vec::new();
    for row in table("## Packed checkpoints") {
        let names = row[3].split('`').skip(1).step_by(2);
        claimed.extend(names.map(str::to_owned));
    }
    claimed.sort();
    // Whole models are judged by their own tests.
    let root = apr_tests::root();
    let models = claimed.extract_if(.., |name| name.starts_with("tests/golden/"));
    for model in models {
        assert!(root.join(&model).join("golden.json").is_file(), "there is no {model}");
    }
    // A fixture may have weights of two rows.
    claimed.dedup();
    let folders = ["tests/packed/fixtures", "tests/packed/derived/fixtures"];
    let mut there: Vec<String> =
        folders.iter().flat_map(|folder| apr_tests::names_in(&root.join(folder))).collect();
    there.sort();
    assert_eq!(claimed, there, "the table of packed checkpoints does not name the fixtures that there are");
}

#[test]
fn the_test_command_is_the_one_that_ci_runs() {
    let ci = std::fs::read_to_string(apr_tests::root().join(".ci/run")).unwrap();
    let text = readme();
    let command = "cargo test --workspace";
    assert!(text.contains(command) && ci.contains(command), "README and .ci/run must both run `{command}`");
}

/// A line without what differs from run to run.
fn steady(line: &str) -> String {
    // How much of a header is read depends on the machine's pages.
    if line.starts_with("  header ") && line.ends_with(" read") {
        return "  header SIZE read".to_owned();
    }
    match line.rsplit_once(", ") {
        Some((rest, last)) if last == "TIME" || last.ends_with(" s") => rest.to_owned(),
        _ => line.to_owned(),
    }
}

#[test]
fn every_example_is_a_case_of_the_command_line_tests() {
    let folder = apr_tests::root().join("tests/cli/readme");
    let mut cases = std::collections::BTreeMap::new();
    for name in apr_tests::names_in(&folder) {
        let read = |file: &str| std::fs::read_to_string(folder.join(&name).join(file)).unwrap_or_default();
        let command = read("cmd").lines().last().unwrap().to_owned();
        let printed: Vec<_> = (read("stdout") + &read("stderr")).lines().map(steady).collect();
        cases.insert(command, printed);
    }
    let text = readme();
    let blocks = text.split("```console\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let mut complaints = Vec::new();
    let mut shown = 0;
    for block in blocks {
        let mut lines = block.lines();
        let command = lines.next().unwrap().strip_prefix("$ ").unwrap();
        let printed: Vec<_> = lines.map(steady).collect();
        shown += 1;
        if cases.get(command) != Some(&printed) {
            complaints.push(format!("`{command}`: no case under tests/cli/readme prints this"));
        }
    }
    assert_eq!(shown, cases.len(), "README shows {shown} examples, there are {} cases", cases.len());
    report("examples", &complaints);
}
