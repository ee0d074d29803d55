//! A slice of a tensor holds what all of it holds there, however the payload lies, and no more is read than it needs.

#![allow(clippy::single_range_in_vec_init, reason = "one range along a dimension is meant")]

use crate::{alone, bytes, host, view, write};
use apr_engine::open::{OpenOptions, OpenedModel, open};
use apr_engine::values::slice::Slice;
use apr_engine::verify::tensor_values::{MOST_VALUES, Number, values};
use apr_host::host::Host;
use apr_sdk::{DType, ErrorKind};
use apr_tests::kinds::Kind;
use apr_tests::{Scratch, fixtures_with};
use std::ops::Range;
use std::path::Path;

type Axes = Vec<Vec<Range<u64>>>;

fn whole(shape: &[u64]) -> Axes {
    let picked = Slice::default().of(shape).unwrap();
    picked.into_iter().map(|one| vec![one.range]).collect()
}

/// The same values out of all of them.
fn taken(all: &[Number], shape: &[u64], axes: &Axes) -> Vec<Number> {
    let is_in = |axis: &[Range<u64>], at: u64| axis.iter().any(|range| range.contains(&at));
    let wanted = |mut number: u64| {
        shape.iter().zip(axes).rev().all(|(size, axis)| {
            let at = number % size;
            number /= size;
            is_in(axis, at)
        })
    };
    (0u64..).zip(all).filter(|(number, _)| wanted(*number)).map(|(_, value)| *value).collect()
}

/// Ends and middles of every dimension.
fn boxes(shape: &[u64]) -> Vec<Axes> {
    let along =
        |pick: &dyn Fn(u64) -> Vec<Range<u64>>| shape.iter().map(|&size| pick(size)).collect::<Axes>();
    vec![
        along(&|size| vec![0..size.min(1)]),
        along(&|size| vec![size / 3..size]),
        along(&|size| vec![0..size / 3, size - size / 5..size]),
        along(&|size| vec![size / 2..size / 2]),
    ]
}

fn compare(host: &Host, opened: &OpenedModel) -> usize {
    let mut compared = 0;
    for (number, tensor) in opened.model.tensors.iter().enumerate() {
        let all = match values(host, opened, number, &whole(&tensor.shape)) {
            Err(error) if error.kind() == ErrorKind::Unsupported => continue,
            all => all.unwrap(),
        };
        assert_eq!(all.len() as u64, tensor.shape.iter().product::<u64>(), "{}", tensor.name);
        for axes in boxes(&tensor.shape) {
            let some = values(host, opened, number, &axes).unwrap();
            let wanted = taken(&all, &tensor.shape, &axes);
            // NaN is no number that equals itself; its words do.
            assert_eq!(format!("{some:?}"), format!("{wanted:?}"), "{} {axes:?}", tensor.name);
            compared += 1;
        }
    }
    compared
}

#[test]
fn slices_of_every_kind_of_payload_are_what_the_whole_is_there() {
    let _alone = alone();
    let (host, scratch) = (host(2), Scratch::new());
    let tensors = vec![
        bytes("blocks", Kind::Blocks, 200_000, 1000),
        bytes("stream", Kind::Stream, 200_000, 777),
        view("view", Kind::View, DType::F32, &[30, 40, 5], &[2, 0, 1]),
        view("big", Kind::BigView, DType::I16, &[30, 40], &[1, 0]),
    ];
    let opened = open(&host, &write(&scratch, tensors), &OpenOptions::default()).unwrap();
    assert_eq!(compare(&host, &opened), 16);
}

#[test]
fn slices_of_every_fixture_are_what_the_whole_is_there() {
    let _alone = alone();
    let host = host(1);
    let kinds = [("gguf", "gguf"), ("apr", "apr"), ("numpy", "npz"), ("numpy", "npy"), ("pytorch", "pt")];
    let kinds = kinds.into_iter().chain([("onnx", "onnx"), ("safetensors", "safetensors")]);
    let mut compared = 0;
    for path in kinds.flat_map(|(plugin, extension)| fixtures_with(plugin, extension)) {
        let opened = open(&host, &path, &OpenOptions::default()).unwrap();
        compared += compare(&host, &opened);
    }
    assert!(compared > 500, "{compared}");
}

/// A SafeTensors file of one tensor, of which nothing but the header is on disk.
fn sparse(path: &Path, rows: u64, columns: u64) {
    let len = rows * columns * 4;
    let header = format!(r#"{{"w":{{"dtype":"F32","shape":[{rows},{columns}],"data_offsets":[0,{len}]}}}}"#);
    let header = format!("{header:width$}", width = header.len().next_multiple_of(8));
    let head = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes()].concat();
    std::fs::write(path, &head).unwrap();
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(head.len() as u64 + len).unwrap();
}

#[test]
fn no_more_is_read_than_a_slice_needs() {
    let _alone = alone();
    let (host, scratch) = (host(1), Scratch::new());
    let path = scratch.at("large.safetensors");
    sparse(&path, 1 << 20, 1 << 12);
    let opened = open(&host, &path, &OpenOptions::default()).unwrap();
    let before = opened.files.bytes_read();
    let some = values(&host, &opened, 0, &[vec![7..9, (1 << 20) - 1..1 << 20], vec![5..9]]).unwrap();
    assert_eq!(some, vec![Number::F32(0.0); 12]);
    assert_eq!(opened.files.bytes_read() - before, 48);
    let error = values(&host, &opened, 0, &[vec![0..1 << 10], vec![0..1 << 12]]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.message().contains(&MOST_VALUES.to_string()), "{}", error.message());
    assert_eq!(opened.files.bytes_read() - before, 48);
}
