//! Tables of the reference that people write: each has a row for everything that there is, and for nothing else.

use apr_tests::documents::{page, table};

#[test]
fn every_block_type_has_a_row() {
    let rows = table(&page("reference/block-types.md"), "# Block types");
    let mut claimed: Vec<&str> = rows.iter().map(|row| row[0].trim_matches('`')).collect();
    let mut provided: Vec<&str> = apr_plugin_quants::types::TYPES.iter().map(|of| of.dtype.name()).collect();
    claimed.sort_unstable();
    provided.sort_unstable();
    assert_eq!(claimed, provided, "the table of block types is not what the plugin has");
    let golden = std::fs::read_to_string(apr_tests::root().join("plugins/quants/tests/golden.toml")).unwrap();
    for row in &rows {
        let judged = golden.contains(&format!("[{}]\n", row[0].trim_matches('`')));
        assert!(judged || !row[2].starts_with("identical"), "{} is judged by no digest of ggml's", row[0]);
    }
}

#[test]
fn every_fixture_of_packed_weights_has_its_place() {
    let mut claimed: Vec<String> = Vec::new();
    for row in table(&page("reference/packed.md"), "# Packed schemes") {
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
