//! What a configuration states and tensors contradict, and parts whose codes are gone: one line for each.

use super::words::{changed, configured, remove, says};
use apr_sdk::ErrorKind;

/// Something changed in a fixture.
enum Change {
    /// A text of the configuration becomes another.
    Said(&'static str, &'static str),
    /// A tensor is gone.
    Gone(&'static str),
}
use Change::{Gone, Said};

/// The fixture, the change, and words of the error.
const CASES: [(&str, Change, &str); 22] = [
    (
        "ct-nvfp4",
        Said("\"group_size\":16", "\"group_size\":32"),
        "the configuration says 4 bits in groups of 32",
    ),
    ("ct-nvfp4", Said("\"num_bits\":4", "\"num_bits\":8"), "its codes are of 4 bits in groups of 16"),
    ("ct-mxfp4", Said("\"group_size\":32", "\"group_size\":16"), "its codes are of 4 bits in groups of 32"),
    ("ct-mxfp6", Said("\"num_bits\":6", "\"num_bits\":4"), "its codes are of 6 bits in groups of 32"),
    ("ct-pack-int4", Said("\"group_size\":32", "\"group_size\":0"), "group_size` is 0, and neither"),
    ("ct-pack-int4", Said("\"group_size\":32", "\"group_size\":-3"), "group_size` is -3, and neither"),
    ("ct-pack-int4-experts", Said("\"group_size\":32", "\"group_size\":48"), "20 rows of 96 in groups of 48"),
    ("gptq-4-asym", Said("\"group_size\":64", "\"group_size\":0"), "group_size` is 0, and neither"),
    ("gptq-4-asym", Said("\"group_size\":64", "\"group_size\":-2"), "group_size` is -2, and neither"),
    ("gptq-4-asym", Said("\"group_size\":64", "\"group_size\":-1"), "64 rows of 128 in groups of 128"),
    ("gptq-4-actorder", Said("\"group_size\":32", "\"group_size\":64"), "64 rows of 128 in groups of 64"),
    ("awq-gemm", Said("\"group_size\":32", "\"group_size\":0"), "group_size` is 0, and neither"),
    ("awq-gemm", Said("\"group_size\":32", "\"group_size\":-3"), "group_size` is -3, and neither"),
    ("modelopt-nvfp4", Said("\"group_size\":16", "\"group_size\":32"), "the configuration says 32"),
    (
        "modelopt-nvfp4-experts-turned",
        Said("\"group_size\":16", "\"group_size\":32"),
        "the configuration says 32",
    ),
    ("mlx-nvfp4", Said("\"group_size\":16", "\"group_size\":32"), "do not exist in mode nvfp4"),
    ("gptq-4-sym", Gone(".qweight"), "there is no `model.layers.0.mlp.up_proj.qweight` beside it"),
    ("awq-gemm", Gone(".qweight"), "there is no `model.layers.0.mlp.up_proj.qweight` beside it"),
    ("awq-gemv-fast", Gone(".qweight"), "there is no `model.layers.0.mlp.up_proj.qweight` beside it"),
    ("mlx-4", Gone("up_proj.weight"), "there is no `model.layers.0.mlp.up_proj.weight` beside it"),
    ("mlx-nvfp4", Gone("up_proj.weight"), "there is no `model.layers.0.mlp.up_proj.weight` beside it"),
    ("modelopt-int4-awq", Gone("up_proj.weight"), "`model.layers.0.mlp.up_proj.weight` beside it"),
];

#[test]
fn statements_that_tensors_contradict_and_parts_without_codes_are_refused() {
    for (fixture, change, words) in &CASES {
        let folder = changed(fixture, |folder| match change {
            Said(from, to) => configured(folder, from, to),
            Gone(ending) => remove(folder, ending),
        });
        says(&folder, ErrorKind::Malformed, words);
    }
}
