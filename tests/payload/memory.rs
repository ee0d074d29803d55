//! Payload takes the memory that the plan says, and no more.

use crate::making::{Making, Wanted, convert_as, making, plan_as, remade, turned};
use crate::{alone, bytes, host, view, write};
use apr_engine::convert::Make;
use apr_engine::expression::{Expression, PlannedTensor};
use apr_engine::planned::quantization::Quantization;
use apr_host::convert::{ConvertOptions, convert, plan};
use apr_sdk::DType;
use apr_tests::counting::{Counting, peak_of_all};
use apr_tests::kinds::{Kind, Tensor};
use apr_tests::{Scratch, options};
use serde_json::json;
use std::path::PathBuf;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What everything that is not payload may take: the index, paths, the list of blocks of a tensor or two, what threads
/// need to begin.
const BESIDE: u64 = 2 << 20;

fn peak_of(tensors: Vec<Tensor>, threads: usize) -> (u64, u64) {
    peak_of_remade(tensors, threads, &|opened| {
        let each = opened.model.tensors.iter().enumerate();
        each.map(|(n, tensor)| Ok(PlannedTensor::new(tensor.clone(), Expression::of(n, tensor)?))).collect()
    })
}

fn peak_of_remade(tensors: Vec<Tensor>, threads: usize, make: &Make<'_>) -> (u64, u64) {
    let scratch = Scratch::in_memory();
    let mut o = options(&write(&scratch, tensors), &scratch.at("out.kinds"));
    o.allow_nonfinite = true;
    let host = host(threads);
    let said = plan_as(&host, &o, make).unwrap().payload_memory;
    (peak_of_all(|| drop(convert_as(&host, &o, make).unwrap())).1, said)
}

#[test]
fn payload_takes_the_memory_that_the_plan_says() {
    let _alone = alone();
    let len = 96 << 20;
    for tensor in [
        bytes("plain", Kind::Plain, len, 1),
        bytes("stream", Kind::Stream, len, 1 << 16),
        bytes("blocks", Kind::Blocks, len, 64 << 10),
        bytes("blocks", Kind::Blocks, len, 4 << 20),
        view("turned", Kind::View, DType::F32, &[4096, 6144], &[1, 0]),
        view("permuted", Kind::View, DType::BF16, &[3, 256, 256, 256], &[3, 1, 2, 0]),
    ] {
        for threads in [1, 2, 5] {
            let name = tensor.name.clone();
            let (peak, said) = peak_of(vec![tensor.clone()], threads);
            assert!(peak <= said + BESIDE, "{name}, {threads} threads: {peak} bytes, the plan says {said}");
            assert!(said <= threads as u64 * (16 << 20), "{name}: {said}");
        }
    }
}

#[test]
fn large_blocks_are_in_memory_one_at_a_time() {
    let _alone = alone();
    let block = 12 << 20;
    let tensors = (0..6).map(|n| bytes(&format!("t{n}"), Kind::Blocks, 2 * block, block as u64)).collect();
    let (peak, said) = peak_of(tensors, 5);
    // One block stored and one raw.
    assert!(peak <= said + 2 * block as u64 + BESIDE, "{peak} bytes, the plan says {said}");
}

/// A folder whose only weight is packed as gpt-oss packs its experts: `n` matrices of `rows` rows of `groups` groups of 32.
fn experts(scratch: &Scratch, n: usize, rows: usize, groups: usize) -> PathBuf {
    let folder = scratch.at("experts");
    std::fs::create_dir_all(&folder).unwrap();
    let config = apr_tests::root().join("tests/packed/fixtures/mxfp4-gpt-oss/config.json");
    std::fs::copy(config, folder.join("config.json")).unwrap();
    let (blocks, scales) = (n * rows * groups * 16, n * rows * groups);
    let name = "model.layers.0.mlp.experts.down_proj";
    let header = json!({
        format!("{name}_blocks"):
            {"dtype": "U8", "shape": [n, rows, groups, 16], "data_offsets": [0, blocks]},
        format!("{name}_scales"):
            {"dtype": "U8", "shape": [n, rows, groups], "data_offsets": [blocks, blocks + scales]},
    });
    let header = header.to_string();
    let payload = [vec![0x52; blocks], vec![127; scales]].concat();
    let file = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &payload].concat();
    std::fs::write(folder.join("model.safetensors"), file).unwrap();
    folder
}

#[test]
fn threads_hold_the_packed_matrices_that_the_plan_says_and_share_them() {
    let _alone = alone();
    let scratch = Scratch::in_memory();
    // Stored, each takes 8.5 MiB.
    let folder = experts(&scratch, 5, 4096, 128);
    let o = ConvertOptions {
        to: Some("safetensors".to_owned()),
        quantization: Quantization { dequantize: Some(DType::BF16), ..Quantization::default() },
        ..options(&folder, &scratch.at("out.safetensors"))
    };
    let host = host(12);
    let planned = plan(&host, &o).unwrap();
    assert!(!planned.notes.iter().any(|note| note.contains("spooled")), "{:?}", planned.notes);
    let said = planned.payload_memory;
    let peak = peak_of_all(|| drop(convert(&host, &o).unwrap())).1;
    // With a matrix for each of the threads it would be 130 MiB.
    assert!(peak <= said + BESIDE && peak * 2 >= said, "{peak} bytes, the plan says {said}");
}

#[test]
fn what_is_made_anew_takes_the_memory_that_the_plan_says() {
    let _alone = alone();
    let shape = [4096, 4096];
    for kind in [Kind::Plain, Kind::View, Kind::Blocks, Kind::Stream] {
        let mut tensor = view("t", kind, DType::F32, &shape, &[1, 0]);
        if kind != Kind::View {
            tensor.strides = Vec::new();
        }
        let rows = || making(DType::F32, vec![turned(0, &[32, 2, 64, 4096], &[0, 2, 1, 3])]);
        let columns = making(DType::F32, vec![turned(0, &shape, &[1, 0])]);
        let wanted: [Wanted; 3] = [
            ("rows", DType::F32, shape.to_vec(), Making { add: Some(1.0), ..rows() }),
            ("narrow", DType::F16, shape.to_vec(), rows()),
            ("columns", DType::F64, shape.to_vec(), columns),
        ];
        for threads in [1, 2, 5] {
            let (peak, said) = peak_of_remade(vec![tensor.clone()], threads, &remade(&wanted));
            let name = format!("{kind:?}, {threads} threads");
            assert!(peak <= said + BESIDE, "{name}: {peak} bytes, the plan says {said}");
            assert!(said <= threads as u64 * (16 << 20), "{name}: {said}");
        }
    }
}
