//! What every format promises, and that this one reads what another program wrote.

use apr_plugin_{{id}}::PLUGIN;

apr_testkit::conformance!(PLUGIN, fixtures = "tests/data", byte_identical = true);

/// `tests/data/small.py` wrote the file; the values here are its, not our writer's.
#[test]
fn reads_what_the_script_wrote() -> apr_sdk::Result<()> {
    let source = apr_sdk::MemorySource::new("small.toy", include_bytes!("data/small.toy").as_slice());
    let reader = (PLUGIN.reader)("{{id}}").expect("the manifest says so");
    let opened = apr_testkit::read_with_parts(&*reader, "{{id}}", &source, &apr_sdk::Options::new())?;
    let found: Vec<_> = opened.model.tensors.iter().map(|t| (t.name.as_str(), t.dtype.name(), &t.shape[..])).collect();
    let shapes: [&[u64]; 3] = [&[2, 3], &[5], &[]];
    assert_eq!(found, [("layer.weight", "F32", shapes[0]), ("layer.words", "U8", shapes[1]), ("scale", "F32", shapes[2])]);
    assert_eq!(opened.payload(1, &source)?, b"hello");
    assert_eq!(opened.payload(2, &source)?, 0.5f32.to_le_bytes());
    Ok(())
}
