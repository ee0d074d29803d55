//! Codes are known by the scales beside them, whatever those are called; weights with a learned scale, tables of tokens and
//! masks are no codes.

use crate::packed::{Packed, case, casting, changes, files, tensors, to, write};
use apr_host::convert::ConvertOptions;
use apr_sdk::{DType, ErrorKind};
use apr_tests::{Scratch, host_without, must};
use serde_json::{Map, json};
use std::path::Path;

use DType as T;

/// A linear module of so many rows and columns.
type Module = fn(u64, u64) -> Vec<Packed>;

/// Modules of codes and scales under names of all sorts, and what the scale is called.
fn modules() -> Vec<(&'static str, &'static str, Module)> {
    vec![
        ("fp8_scales", ".fp8_scales", |r, c| {
            vec![(".weight", T::F8_E4M3, vec![r, c]), (".fp8_scales", T::F32, vec![r, 1])]
        }),
        ("w_scale", ".w_scale", |r, c| {
            vec![(".weight", T::F8_E4M3, vec![r, c]), (".w_scale", T::F32, vec![])]
        }),
        ("weight_inv_scale", ".weight_inv_scale", |r, c| {
            vec![(".weight", T::F8_E5M2, vec![r, c]), (".weight_inv_scale", T::BF16, vec![r / 32, c / 32])]
        }),
        ("per_channel_scale", ".per_channel_scale", |r, c| {
            vec![(".weight", T::I8, vec![r, c]), (".per_channel_scale", T::F16, vec![r])]
        }),
        ("dequant_scale", ".dequant_scale", |r, c| {
            vec![(".weight", T::I8, vec![r, c]), (".dequant_scale", T::F32, vec![1])]
        }),
        ("scale_input", ".scale_input", |r, c| {
            vec![(".weight", T::F8_E4M3, vec![r, c]), (".scale_input", T::F32, vec![])]
        }),
        ("columns", ".wscales", |r, c| {
            vec![(".weight", T::U8, vec![r, c]), (".wscales", T::F16, vec![1, c])]
        }),
        ("words", ".group_scale", |r, c| {
            vec![(".weight", T::I32, vec![r, c / 8]), (".group_scale", T::BF16, vec![r, c / 16])]
        }),
        ("zeros alone", ".weight_zp", |r, c| {
            vec![(".weight", T::U8, vec![r, c]), (".weight_zp", T::U8, vec![r, 1])]
        }),
        ("absmax", ".w_absmax", |r, c| {
            vec![(".weight", T::U8, vec![r * c / 2, 1]), (".w_absmax", T::F32, vec![r * c / 64])]
        }),
        ("behind the name", ".weight.dequantScale", |r, c| {
            vec![(".weight", T::I8, vec![r, c]), (".weight.dequantScale", T::F32, vec![r, 1])]
        }),
        ("no weight in its name", ".experts_descale", |r, c| {
            vec![(".experts", T::F8_E4M3, vec![2, r, c]), (".experts_descale", T::F32, vec![2, r, 1])]
        }),
        ("beside the module", "_channel_scale", |r, c| {
            vec![(".weight", T::I8, vec![r, c]), ("_channel_scale", T::F32, vec![r])]
        }),
        ("in front of the name", ".scale_up", |r, c| {
            vec![(".up", T::I8, vec![r, c]), (".scale_up", T::F32, vec![r])]
        }),
    ]
}

#[test]
fn codes_are_known_by_scales_of_any_name() {
    let (host, scratch) = (host_without("packed"), Scratch::in_memory());
    let mut wrong = Vec::new();
    for (name, scale, module) in modules() {
        let folder = scratch.at(name);
        write(&folder, &case(name, "with scales", json!({}), module));
        let output = scratch.at("out");
        for (what, wanted) in changes(&folder, &output) {
            match apr_host::convert::convert(&host, &wanted) {
                Ok(_) => wrong.push(format!("{name}: {what}: done")),
                Err(error) => {
                    let names_both = error.tensor_name().is_some_and(|tensor| !tensor.ends_with(scale))
                        && error.message().contains(&format!("_proj{scale}`"));
                    if error.kind() != ErrorKind::Unsupported || !names_both {
                        wrong.push(format!("{name}: {what}: {error}"));
                    }
                }
            }
            assert!(!output.exists(), "{name}: {what} left something behind");
        }
        let (before, copy) = (tensors(&host, &folder), scratch.at(&format!("{name}.apr")));
        let done = must(&host, &to("apr", &folder, &copy));
        let said = |word| done.notes.iter().any(|note| note.contains(word));
        assert!(said("with scales") && !said("packed as packed"), "{name}: {:?}", done.notes);
        assert!(tensors(&host, &copy) == before, "{name}");
        must(&host, &to("huggingface", &copy, &scratch.at("again")));
        assert_eq!(files(&scratch.at("again")), files(&folder), "{name}");
        std::fs::remove_dir_all(scratch.at("again")).unwrap();
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A tensor's name, type and shape.
type Stored<'t> = (&'t str, DType, &'t [u64]);

/// Writes a SafeTensors file whose bytes are all 1.
pub(super) fn file(path: &Path, tensors: &[Stored<'_>]) {
    let (mut header, mut len) = (Map::new(), 0);
    for (name, dtype, shape) in tensors {
        let from = len;
        len += apr_sdk::checked_payload_len(*dtype, shape).unwrap();
        header.insert(
            (*name).to_owned(),
            json!({"dtype": dtype.name(), "shape": shape, "data_offsets": [from, len]}),
        );
    }
    let header = serde_json::to_string(&header).unwrap();
    let data = vec![1; usize::try_from(len).unwrap()];
    std::fs::write(path, [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat())
        .unwrap();
}

#[test]
fn weights_tables_and_masks_beside_something_called_a_scale_are_no_codes() {
    let (host, scratch) = (host_without("packed"), Scratch::in_memory());
    let models: [(&str, &[Stored<'_>]); 9] = [
        ("a layer's scale", &[("b.0.ls.weight", T::F16, &[4, 8]), ("b.0.ls.scale", T::F16, &[8])]),
        ("a norm's scale", &[("n.weight", T::BF16, &[4, 8]), ("n.norm_scale", T::F32, &[4, 1])]),
        ("the logits' scale", &[("head.weight", T::F32, &[4, 8]), ("head.logit_scale", T::F32, &[])]),
        ("a table of tokens", &[("gate.tid2eid", T::I32, &[8, 2]), ("gate.scale", T::F32, &[])]),
        (
            "a batch norm",
            &[
                ("bn.weight", T::F32, &[8]),
                ("bn.num_batches_tracked", T::I64, &[]),
                ("bn.scale", T::F32, &[8]),
            ],
        ),
        ("positions", &[("emb.position_ids", T::I64, &[1, 8]), ("emb.scale", T::F32, &[1])]),
        (
            "a mask",
            &[
                ("h.0.attn.mask", T::U8, &[8, 8]),
                ("h.0.attn.scale", T::F32, &[]),
                ("h.0.attn.weight", T::F32, &[8, 8]),
            ],
        ),
        // All of a model as floats of 8 bits, that of the norms too.
        ("a cast model", &[("n.weight", T::F8_E4M3, &[4, 8]), ("n.scale", T::F8_E4M3, &[8])]),
        ("the scale of another module", &[("a.weight", T::I8, &[4, 8]), ("a.norm.scale", T::F32, &[8])]),
    ];
    for (name, tensors) in models {
        let input = scratch.at(&format!("{name}.safetensors"));
        file(&input, tensors);
        for format in ["safetensors", "apr"] {
            let output = scratch.at(&format!("out.{format}"));
            let done = must(
                &host,
                &ConvertOptions {
                    quantization: casting(T::BF16),
                    force: true,
                    ..to(format, &input, &output)
                },
            );
            assert!(!done.notes.iter().any(|note| note.contains("packed")), "{name}: {:?}", done.notes);
        }
    }
}

#[test]
fn rows_of_integers_with_their_own_scales_are_weights() {
    let (host, scratch) = (apr_tests::host(), Scratch::in_memory());
    let input = scratch.at("in.safetensors");
    file(&input, &[("a.weight", T::I8, &[4, 8]), ("a.weight.scale", T::F32, &[4])]);
    for format in ["safetensors", "apr"] {
        let output = scratch.at(&format!("out.{format}"));
        must(
            &host,
            &ConvertOptions { quantization: crate::packed::dequantizing(), ..to(format, &input, &output) },
        );
        let made = tensors(&host, &output);
        assert_eq!(made.len(), 1, "{format}");
        assert_eq!((made[0].0.as_str(), made[0].1), ("a.weight", T::F32), "{format}");
    }
}
