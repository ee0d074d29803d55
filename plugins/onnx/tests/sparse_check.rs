//! The report `check`: indices of sparse tensors that are out of order, there twice, below 0 or outside the shape.

use crate::build::{bytes as record, model, number};
use crate::fixture::{ALL, reader, source};
use apr_sdk::{Limits, MemorySource, Options, Report, Result};

const FLOAT: u64 = 1;
const INT64: u64 = 7;
const RAW: u64 = 9;
const INT64_DATA: u64 = 7;

fn check(source: &MemorySource) -> Result<Report> {
    reader().report("check", source, &Limits::default(), &Options::new())
}

fn tensor(kind: u64, name: &str, dims: &[u64], data: &[u8]) -> Vec<u8> {
    let dims: Vec<u8> = dims.iter().flat_map(|&dim| number(1, dim)).collect();
    [dims, number(2, kind), record(8, name.as_bytes()), data.to_vec()].concat()
}

/// A model with one sparse initialiser; `as_list` stores its indices as a list of numbers.
fn sparse(shape: &[u64], index_shape: &[u64], indices: &[i64], as_list: bool) -> MemorySource {
    let count = index_shape[0];
    let values = tensor(FLOAT, "w", &[count], &record(RAW, &vec![7; 4 * count as usize]));
    let data = match as_list {
        true => indices.iter().flat_map(|&at| number(INT64_DATA, at as u64)).collect(),
        false => record(RAW, &indices.iter().flat_map(|at| at.to_le_bytes()).collect::<Vec<_>>()),
    };
    let indices = tensor(INT64, "", index_shape, &data);
    let dims: Vec<u8> = shape.iter().flat_map(|&dim| number(3, dim)).collect();
    let message = [record(1, &values), record(2, &indices), dims].concat();
    MemorySource::new("m.onnx", model(&record(15, &message)))
}

#[test]
fn right_ones_pass() {
    for name in ALL {
        let report = check(&source(name)).unwrap();
        assert!(report.passed, "{name}: {}", report.text);
    }
    let text = check(&source("sparse")).unwrap().text;
    assert!(text.starts_with("indices of ") && !text.contains(" 0 sparse"), "{text}");
    for as_list in [false, true] {
        assert!(check(&sparse(&[2, 3], &[3], &[0, 2, 5], as_list)).unwrap().passed);
        assert!(check(&sparse(&[2, 3], &[3, 2], &[0, 2, 1, 0, 1, 2], as_list)).unwrap().passed);
        assert!(check(&sparse(&[2, 3], &[0], &[], as_list)).unwrap().passed);
    }
    // Longer than what is read at once.
    let many: Vec<i64> = (0..20_000).collect();
    assert!(check(&sparse(&[20_000], &[20_000], &many, false)).unwrap().passed);
}

#[test]
fn wrong_ones_fail_and_say_where() {
    for as_list in [false, true] {
        for (shape, index_shape, indices, why) in [
            (&[2, 3][..], &[2][..], &[4, 1][..], "index 1, [1], is out of order"),
            (&[2, 3], &[2], &[4, 4], "index 1, [4], is a duplicate"),
            (&[2, 3], &[2], &[-1, 4], "index 0 is [-1], out of range for the shape [2, 3]"),
            (&[2, 3], &[2], &[1, 6], "index 1 is [6], out of range for the shape [2, 3]"),
            (&[2, 3], &[2, 2], &[0, 1, 0, 0], "index 1, [0, 0], is out of order"),
            (&[2, 3], &[2, 2], &[0, 1, 0, 1], "is a duplicate"),
            (&[2, 3], &[2, 2], &[0, 1, 2, 0], "index 1 is [2, 0], out of range"),
            (&[2, 3], &[2, 2], &[0, 1, 1, -1], "index 1 is [1, -1], out of range"),
            (&[2, 3], &[2, 3], &[0; 6], "indices of shape [2, 3] for 2 values in [2, 3]"),
        ] {
            let report = check(&sparse(shape, index_shape, indices, as_list)).unwrap();
            assert!(!report.passed && report.text.contains(why), "`{why}` is not in: {}", report.text);
            assert!(report.text.contains("`w.indices`"), "{}", report.text);
        }
    }
    let mut late: Vec<i64> = (0..20_000).collect();
    late[19_999] = 19_998;
    assert!(!check(&sparse(&[20_000], &[20_000], &late, false)).unwrap().passed);
}
