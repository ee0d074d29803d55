//! Everything arrives, the same with any number of threads, and after a stop too.

use crate::{StopAfter, alone, bytes, host, noise, view, write};
use apr_engine::open::{OpenOptions, open};
use apr_engine::planned::request::VerifyMode;
use apr_engine::verify::stats::{RowOptions, tensor_rows};
use apr_host::convert::{convert, plan};
use apr_sdk::{DType, ErrorKind};
use apr_tests::kinds::{Kind, Tensor};
use apr_tests::{Scratch, must, options};
use sha2::{Digest, Sha256};
use std::sync::Arc;

/// Every kind, with edges where they hurt: over many tiles, not at whole tiles, empty, of one element, blocks that lie
/// across tiles and units, and blocks too large for all threads to have one.
fn tensors() -> Vec<Tensor> {
    let mut expanded = Tensor::new("expanded", Kind::View, DType::U16, &[900, 1100], noise(5, 2200));
    expanded.strides = vec![0, 1];
    let mut sparse =
        Tensor::new("every third", Kind::BigView, DType::U32, &[1000, 300], noise(6, 4 * 900_000));
    sparse.strides = vec![3, 3000];
    let mut all = vec![
        bytes("small stream", Kind::Stream, 10, 3),
        view("turned", Kind::View, DType::F32, &[1025, 2049], &[1, 0]),
        bytes("stream", Kind::Stream, (5 << 20) + 7, 99_991),
        bytes("blocks", Kind::Blocks, (40 << 20) + 1, 300_007),
        view("big-endian", Kind::BigView, DType::F64, &[33, 65, 129], &[2, 0, 1]),
        bytes("plain", Kind::Plain, (2 << 20) + 5, 1),
        bytes("large blocks", Kind::Blocks, 11 << 20, 5 << 20),
        view("permuted", Kind::View, DType::BF16, &[5, 64, 65, 66], &[0, 2, 3, 1]),
        view("narrow", Kind::View, DType::U8, &[4_000_003, 3], &[1, 0]),
        view("wide", Kind::View, DType::C64, &[3, 700_001], &[1, 0]),
        expanded,
        sparse,
        bytes("no stream", Kind::Stream, 0, 1),
        bytes("no blocks", Kind::Blocks, 0, 1),
        view("scalar", Kind::BigView, DType::F32, &[], &[]),
    ];
    all.iter_mut().for_each(|tensor| tensor.name = tensor.name.replace(' ', "_"));
    all
}

/// The payload of a tensor, element by element.
pub fn expected(tensor: &Tensor) -> Vec<u8> {
    let width = tensor.dtype.info().unwrap().block_bytes as usize;
    let mut out = match tensor.strides.len() {
        0 => tensor.bytes.clone(),
        _ => {
            let mut out = Vec::new();
            for number in 0..tensor.shape.iter().product::<u64>() {
                let (mut rest, mut at) = (number, 0);
                for (size, stride) in tensor.shape.iter().zip(&tensor.strides).rev() {
                    at += usize::try_from(rest % size * stride).unwrap();
                    rest /= size;
                }
                out.extend_from_slice(&tensor.bytes[at * width..][..width]);
            }
            out
        }
    };
    if tensor.kind == Kind::BigView {
        for block in out.chunks_exact_mut(width) {
            for field in tensor.dtype.info().unwrap().swap {
                let (at, width) = (usize::from(field.offset), usize::from(field.width));
                let fields = &mut block[at..at + width * usize::from(field.count)];
                fields.chunks_exact_mut(width).for_each(<[u8]>::reverse);
            }
        }
    }
    out
}

#[test]
fn every_kind_arrives_whole_with_any_number_of_threads() {
    let _alone = alone();
    let scratch = Scratch::in_memory();
    let want: Vec<u8> = tensors().iter().flat_map(expected).collect();
    let input = write(&scratch, tensors());
    let output = scratch.at("out.kinds");
    let mut files = Vec::new();
    for threads in [1, 2, 7] {
        let mut o = options(&input, &output);
        (o.force, o.verify) = (true, VerifyMode::Full);
        must(&host(threads), &o);
        files.push(std::fs::read(&output).unwrap());
        assert_eq!(scratch.names(), ["in.kinds", "out.kinds"]);
    }
    assert!(files[0] == files[1] && files[0] == files[2]);
    assert!(files[0].ends_with(&want));
}

#[test]
fn digests_are_of_what_arrives() {
    let _alone = alone();
    let scratch = Scratch::in_memory();
    let opened = open(&host(2), &write(&scratch, tensors()), &OpenOptions::default()).unwrap();
    let rows = tensor_rows(&host(2), &opened, RowOptions { sha256: true, stats: true }).unwrap();
    for (tensor, row) in tensors().iter().zip(rows) {
        let digest = Sha256::digest(expected(tensor));
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        assert_eq!(row.sha256, Some(digest), "{}", tensor.name);
        // A complex number counts as its two parts.
        let parts = if tensor.dtype == DType::C64 { 2 } else { 1 };
        let elements: u64 = tensor.shape.iter().product();
        assert_eq!(row.stats.unwrap().count, parts * elements, "{}", tensor.name);
    }
}

#[test]
fn the_plan_says_what_is_done() {
    let _alone = alone();
    let scratch = Scratch::new();
    let plan = plan(&host(2), &options(&write(&scratch, tensors()), &scratch.at("out.kinds"))).unwrap();
    let op = |name: &str| plan.tensors.iter().find(|t| t.name == name).unwrap().ops.clone();
    for (name, ops) in [
        ("stream", "stream"),
        ("blocks", "decode"),
        ("turned", "gather"),
        ("plain", "copy"),
        ("scalar", "swap bytes"),
    ] {
        assert_eq!(op(name), [ops], "{name}");
    }
}

#[test]
fn what_was_stopped_at_any_point_is_resumed_to_the_same_bytes() {
    let _alone = alone();
    let scratch = Scratch::in_memory();
    let input = write(&scratch, tensors());
    must(&host(2), &options(&input, &scratch.at("whole.kinds")));
    let whole = std::fs::read(scratch.at("whole.kinds")).unwrap();
    for after in [1 << 20, 7 << 20, 30 << 20, 80 << 20] {
        let mut o = options(&input, &scratch.at("out.kinds"));
        let mut stopped = host(2);
        stopped.journal_bytes = 0;
        stopped.progress = Arc::new(StopAfter(after, stopped.cancel.clone()));
        assert_eq!(convert(&stopped, &o).unwrap_err().kind(), ErrorKind::Cancelled, "{after}");
        // What is staged beside finished tiles is not to be believed.
        o.resume = true;
        must(&host(2), &o);
        assert!(std::fs::read(scratch.at("out.kinds")).unwrap() == whole, "stopped after {after}");
        std::fs::remove_file(scratch.at("out.kinds")).unwrap();
    }
}
