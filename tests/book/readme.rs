//! README: short, with the two commands that prove the project.

use apr_tests::documents::{readme, table};

#[test]
fn it_is_short() {
    let n_lines = readme().lines().count();
    assert!(n_lines <= 160, "README has {n_lines} lines: the book is the place for more");
}

#[test]
fn the_test_command_is_the_one_that_ci_runs() {
    let ci = std::fs::read_to_string(apr_tests::root().join(".ci/run")).unwrap();
    let command = "cargo test --workspace";
    assert!(
        readme().contains(command) && ci.contains(command),
        "README and .ci/run must both run `{command}`"
    );
}

#[test]
fn every_format_has_a_row_and_every_row_a_format() {
    let host = apr_tests::host();
    let mut provided: Vec<_> = host.registry.formats().iter().map(|f| f.id().to_owned()).collect();
    provided.sort();
    let rows = table(&readme(), "## Formats");
    let names = rows.iter().flat_map(|row| row[0].split('`').skip(1).step_by(2));
    let mut claimed: Vec<_> = names.map(str::to_owned).collect();
    claimed.sort();
    assert_eq!(claimed, provided, "README's formats are not those that plugins provide");
}
