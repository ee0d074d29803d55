//! What a configuration states and tensors contradict, and parts whose codes are gone: one line for each.

use super::words::{add, changed, configured, remove, says};
use apr_sdk::{DType, ErrorKind};

/// Something changed in a fixture.
enum Change {
    /// A text of the configuration becomes another.
    Said(&'static str, &'static str),
    /// A tensor is gone.
    Gone(&'static str),
}
use Change::{Gone, Said};

/// The fixture, the change, and words of the error.
const CASES: [(&str, Change, &str); 44] = [
    (
        "ct-int8-tensor",
        Said("\"type\":\"int\"", "\"type\":\"float\""),
        "states `type` float, but its codes are `int`",
    ),
    (
        "ct-pack-int4",
        Said("\"type\":\"int\"", "\"type\":\"float\""),
        "states `type` float, but its codes are `int`",
    ),
    (
        "ct-float-channel",
        Said("\"type\":\"float\"", "\"type\":\"int\""),
        "states `type` int, but its codes are `float`",
    ),
    (
        "ct-nvfp4",
        Said("\"type\":\"float\"", "\"type\":\"int\""),
        "states `type` int, but its codes are `float`",
    ),
    (
        "ct-nvfp4",
        Said("nvfp4-pack", "mxfp4-pack"),
        "states `mxfp4-pack-quantized`, but its codes are those of `nvfp4-pack-quantized`",
    ),
    (
        "ct-mxfp4",
        Said("mxfp4-pack", "nvfp4-pack"),
        "states `nvfp4-pack-quantized`, but its codes are those of `mxfp4-pack-quantized`",
    ),
    (
        "ct-int8-channel",
        Said("int-quantized", "float-quantized"),
        "states `float-quantized`, but its codes are those of `int-quantized`",
    ),
    (
        "ct-pack-int4-asym",
        Said("\"symmetric\":false", "\"symmetric\":true"),
        "states `symmetric`, which has no zero points",
    ),
    (
        "ct-pack-int4",
        Said("\"ignore\":[\"lm_head\"]", "\"ignore\":[\"model.layers.0.mlp.up_proj\"]"),
        "`ignore` lists `model.layers.0.mlp.up_proj`",
    ),
    (
        "ct-int8-tensor",
        Said("\"ignore\":[\"lm_head\"]", "\"ignore\":[\"re:.*up_proj\"]"),
        "`ignore` lists `.*up_proj`",
    ),
    (
        "fp8-block",
        Said("\"fmt\":\"e4m3\"", "\"fmt\":\"e5m2\""),
        "states `fmt` e5m2, but its codes are F8_E4M3",
    ),
    ("fp8-block", Said("\"fmt\":\"e4m3\"", "\"fmt\":\"foo\""), "states `fmt` foo, but its codes are F8_E4M3"),
    (
        "ct-nvfp4",
        Said("\"group_size\":16", "\"group_size\":32"),
        "the configuration states 4 bits in groups of 32",
    ),
    ("ct-nvfp4", Said("\"num_bits\":4", "\"num_bits\":8"), "its codes have 4 bits in groups of 16"),
    ("ct-mxfp4", Said("\"group_size\":32", "\"group_size\":16"), "its codes have 4 bits in groups of 32"),
    ("ct-mxfp6", Said("\"num_bits\":6", "\"num_bits\":4"), "its codes have 6 bits in groups of 32"),
    (
        "ct-pack-int4",
        Said("\"group_size\":32", "\"group_size\":0"),
        "group_size` is 0, expected a number of columns",
    ),
    (
        "ct-pack-int4",
        Said("\"group_size\":32", "\"group_size\":-3"),
        "group_size` is -3, expected a number of columns",
    ),
    ("ct-pack-int4-experts", Said("\"group_size\":32", "\"group_size\":48"), "20 rows of 96 in groups of 48"),
    (
        "gptq-4-asym",
        Said("\"group_size\":64", "\"group_size\":0"),
        "group_size` is 0, expected a number of columns",
    ),
    (
        "gptq-4-asym",
        Said("\"group_size\":64", "\"group_size\":-2"),
        "group_size` is -2, expected a number of columns",
    ),
    ("gptq-4-asym", Said("\"group_size\":64", "\"group_size\":-1"), "64 rows of 128 in groups of 128"),
    ("gptq-4-actorder", Said("\"group_size\":32", "\"group_size\":64"), "64 rows of 128 in groups of 64"),
    (
        "awq-gemm",
        Said("\"group_size\":32", "\"group_size\":0"),
        "group_size` is 0, expected a number of columns",
    ),
    (
        "awq-gemm",
        Said("\"group_size\":32", "\"group_size\":-3"),
        "group_size` is -3, expected a number of columns",
    ),
    ("modelopt-nvfp4", Said("\"group_size\":16", "\"group_size\":32"), "the configuration states 32"),
    (
        "modelopt-nvfp4-experts-turned",
        Said("\"group_size\":16", "\"group_size\":32"),
        "the configuration states 32",
    ),
    (
        "modelopt-nvfp4",
        Said("\"group_size\":16", "\"group_size\":0"),
        "`group_size` is 0, which is not a number",
    ),
    (
        "modelopt-nvfp4",
        Said("\"group_size\":16", "\"group_size\":-16"),
        "`group_size` is -16, which is not a number",
    ),
    (
        "modelopt-nvfp4",
        Said("\"group_size\":16", "\"group_size\":\"all\""),
        "`group_size` is \"all\", which is not a number",
    ),
    (
        "modelopt-int4-awq",
        Said("\"group_size\":64", "\"group_size\":0"),
        "`group_size` is 0, which is not a number",
    ),
    (
        "modelopt-int4-awq",
        Said("\"group_size\":64", "\"group_size\":-1"),
        "`group_size` is -1, which is not a number",
    ),
    (
        "modelopt-int4-awq",
        Said(
            "\"group_size\":64",
            "\"config_groups\":{\"g\":{\"targets\":[\"Linear\"],\"weights\":{\"group_size\":32}}}",
        ),
        "the configuration states 32",
    ),
    (
        "modelopt-int4-awq",
        Said("\"group_size\":64", "\"quantized_layers\":{\"model.layers.0.mlp\":{\"group_size\":0}}"),
        "`group_size` is 0, which is not a number",
    ),
    ("mlx-nvfp4", Said("\"group_size\":16", "\"group_size\":32"), "mode nvfp4 does not have"),
    ("gptq-4-sym", Gone(".qweight"), "codes are missing: expected `model.layers.0.mlp.up_proj.qweight`"),
    ("awq-gemm", Gone(".qweight"), "codes are missing: expected `model.layers.0.mlp.up_proj.qweight`"),
    ("awq-gemv-fast", Gone(".qweight"), "codes are missing: expected `model.layers.0.mlp.up_proj.qweight`"),
    ("mlx-4", Gone("up_proj.weight"), "codes are missing"),
    ("mlx-nvfp4", Gone("up_proj.weight"), "codes are missing"),
    ("hqq-4-axis1", Gone(".W_q"), "codes are missing: expected `model.layers.0.mlp.up_proj.W_q`"),
    ("hqq-4-axis1", Gone(".scale"), "its `scale` is missing"),
    ("hqq-4-axis0", Gone(".zero"), "its `zero` is missing"),
    (
        "modelopt-int4-awq",
        Gone("up_proj.weight"),
        "codes are missing: expected `model.layers.0.mlp.up_proj.weight`",
    ),
];

#[test]
fn a_length_of_groups_does_not_matter_where_there_are_none() {
    for fixture in ["modelopt-fp8", "modelopt-fp8-experts"] {
        for size in ["0", "null", "-1"] {
            let folder = changed(fixture, |folder| {
                configured(folder, "\"quant_algo\"", &format!("\"group_size\":{size},\"quant_algo\""));
            });
            assert!(folder.understood().is_ok(), "{fixture} {size}");
        }
    }
}

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

#[test]
fn parts_of_hqq_without_codes_are_missed_and_other_scales_are_none() {
    let left = |kept: &'static [&str], is_announced: bool| {
        changed("hqq-4-axis1", |folder| {
            for at in (0..folder.model.tensors.len()).rev() {
                let name = &folder.model.tensors[at].name;
                let end = name.rsplit('.').next().unwrap();
                if name.contains("up_proj") && !kept.contains(&end) {
                    folder.model.tensors.remove(at);
                    folder.bytes.remove(at);
                }
            }
            if !is_announced {
                folder.model.announced.clear();
            }
        })
    };
    for part in ["scale", "zero", "nbits", "group_size"] {
        let kept: &'static [&str] = match part {
            "scale" => &["scale"],
            "zero" => &["zero"],
            "nbits" => &["nbits", "shape"],
            _ => &["group_size"],
        };
        says(
            &left(kept, true),
            ErrorKind::Malformed,
            "codes are missing: expected `model.layers.0.mlp.up_proj.W_q`",
        );
        says(&left(kept, true), ErrorKind::Malformed, &format!("up_proj.{part}`"));
        // What nothing announces may be anything.
        assert!(left(kept, false).understood().is_ok(), "{part}");
    }
    // A norm's scale, in a model of HQQ, and in one of which codes are left.
    let norm = |is_announced: bool| {
        changed("hqq-4-axis1", |folder| {
            let at =
                folder.model.tensors.iter().position(|tensor| tensor.name.ends_with("norm.weight")).unwrap();
            folder.model.tensors[at].name = "model.norm.scale".into();
            if !is_announced {
                folder.model.announced.clear();
            }
        })
    };
    assert!(norm(true).understood().is_ok() && norm(false).understood().is_ok());
}

#[test]
fn what_weights_of_hqq_say_themselves_counts_with_a_note() {
    let unchanged = changed("hqq-4-axis1", |_| {});
    let want = unchanged.understood().unwrap();
    assert_eq!(want.notes, [""; 0]);
    for (from, to, words) in [
        (
            "\"nbits\":4",
            "\"nbits\":8",
            "`nbits` is 4 for 1 weight of HQQ, such as `model.layers.0.mlp.up_proj`, but 8",
        ),
        ("\"nbits\":4", "\"nbits\":1.58", "`nbits` is 4"),
        ("\"group_size\":64", "\"group_size\":32", "`group_size` is 64"),
        ("\"axis\":1", "\"axis\":0", "`axis` is 1"),
        ("\"axis\":1", "\"axis\":\"rows\"", "but \"rows\" in the configuration"),
        ("\"axis\":1", "\"axis\":1,\"view_as_float\":true", "`view_as_float` is 0"),
    ] {
        let folder = changed("hqq-4-axis1", |folder| configured(folder, from, to));
        let have = folder.understood().unwrap();
        assert_eq!(have.packed, want.packed, "{to}");
        assert!(have.notes.len() == 1 && have.notes[0].contains(words), "{:?}", have.notes);
    }
}

#[test]
fn a_part_of_low_rank_beside_a_weight_of_modelopt_is_not_left_out() {
    let beside = changed("modelopt-nvfp4", |folder| {
        add(folder, "svdquant_lora_a", DType::BF16, &[4, 128], vec![0; 1024]);
    });
    says(&beside, ErrorKind::Unsupported, "up_proj.svdquant_lora_a");
    let lost = changed("modelopt-nvfp4", |folder| configured(folder, "\"NVFP4\"", "\"NVFP4_SVD\""));
    says(&lost, ErrorKind::Unsupported, "a low-rank part");
}

#[test]
fn zero_points_of_symmetric_codes_count_for_nothing_where_they_are_zero() {
    for (bytes, is_right) in [(0, true), (3, false)] {
        let folder = changed("ct-int8-tensor", |folder| {
            add(folder, "weight_zero_point", DType::I8, &[1], vec![bytes]);
        });
        match is_right {
            true => assert!(folder.understood().is_ok()),
            false => says(&folder, ErrorKind::Malformed, "states `symmetric`, which has no zero points"),
        }
    }
}
