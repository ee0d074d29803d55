//! What every quantizer promises, and one block computed by hand.

use apr_plugin_{{id}}::PLUGIN;
use apr_sdk::{DType, Manifest, Result};

apr_testkit::quantizer_conformance!(PLUGIN);

#[test]
fn a_block_is_what_the_diagram_says() -> Result<()> {
    // What `apr` does when it finds the plugin.
    let manifest = Manifest::parse(PLUGIN.manifest)?;
    manifest.block_types.iter().try_for_each(|block| block.provide().map(drop))?;
    let quantizer = (PLUGIN.quantizer)().expect("the manifest says so");
    let values: Vec<f32> = (0..32u8).map(|n| f32::from(n % 15) - 7.0).collect();
    let mut block = [0; 18];
    let dtype = DType::named("{{TYPE}}")?;
    quantizer.encode(dtype, &values, 32, None, &mut block)?;
    // A scale of 1.0; then value 0, -7, is code 1, and value 16, -6, is code 2.
    assert_eq!(block[..3], [0x00, 0x3c, 0x21]);
    let mut back = [0.0; 32];
    quantizer.decode(dtype, &block, 32, &mut back)?;
    assert_eq!(back[..], values[..]);
    Ok(())
}
