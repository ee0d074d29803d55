//! What NumPy wrote is read as NumPy reads it.

use crate::fixture::{Opened, bytes, golden, reader};
use apr_sdk::{DType, Look, Options, Payload, Score};

#[test]
fn every_array_is_what_numpy_says() {
    let golden = golden();
    assert!(golden.len() >= 20, "{}", golden.len());
    for (name, expected) in golden {
        assert_eq!(Opened::fixture(&name).said(), expected, "{name}");
    }
}

#[test]
fn stored_arrays_lie_in_the_file_and_deflated_ones_are_streams() {
    for tensor in Opened::fixture("every_dtype.npz").model.tensors {
        assert!(matches!(tensor.payload, Payload::Extent { view: None, .. }), "{}", tensor.name);
    }
    for tensor in Opened::fixture("deflated.npz").model.tensors {
        assert_eq!(tensor.payload, Payload::Sequential, "{}", tensor.name);
    }
    let fortran = Opened::fixture("fortran.npy").model;
    let Payload::Extent { view: Some(view), .. } = &fortran.tensors[0].payload else { panic!() };
    assert_eq!((&fortran.tensors[0].shape, &view.strides), (&vec![3, 4, 2], &vec![1, 3, 12]));
}

#[test]
fn a_file_of_one_array_is_named_after_the_file() {
    assert_eq!(Opened::fixture("matrix.npy").model.tensors[0].name, "matrix");
    let bytes = bytes("matrix.npy");
    for (file, name) in [("", "arr_0"), (".npy", ".npy"), ("a.b.npy", "a.b"), ("w", "w")] {
        let opened = Opened::new(file, &bytes, &Options::new()).unwrap();
        assert_eq!(opened.model.tensors[0].name, name, "{file}");
    }
}

#[test]
fn nameless_bytes_are_bytes_unless_the_user_says_what_they_are() {
    let types = |options: &Options| {
        let model = Opened::new("nameless.npz", &bytes("nameless.npz"), options).unwrap().model;
        model.tensors.into_iter().map(|tensor| (tensor.dtype, tensor.shape)).collect::<Vec<_>>()
    };
    assert_eq!(types(&Options::new()), [(DType::U8, vec![2, 4, 2]), (DType::U8, vec![2, 4])]);
    let options = Options::new().with("void1", "f8_e4m3").with("void2", "bf16");
    assert_eq!(types(&options), [(DType::BF16, vec![2, 4]), (DType::F8_E4M3, vec![2, 4])]);
    assert_eq!(Opened::fixture("float_1.npy").model.tensors[0].dtype, DType::F8_E5M2);
}

#[test]
fn what_is_no_array_is_left_out_aloud() {
    let model = Opened::fixture("more.npz").model;
    assert_eq!(model.tensors.len(), 1);
    assert!(
        model.notes.iter().any(|note| note == "`README.txt` is not an array and is left out"),
        "{:?}",
        model.notes
    );
}

#[test]
fn files_that_do_not_come_back_to_the_byte_say_why() {
    for (name, why) in
        [("deflated.npz", "deflated"), ("fortran.npz", "column-major"), ("big_endian.npz", "big-endian")]
    {
        let notes = Opened::fixture(name).model.notes;
        assert!(notes.iter().any(|note| note.contains(why)), "{name}: {notes:?}");
    }
}

#[test]
fn an_order_that_is_not_said_is_little_endian_and_noted() {
    let swapped = String::from_utf8_lossy(&bytes("matrix.npy")[10..128]).replace("<f4", "=f4");
    let file = [&bytes("matrix.npy")[..10], swapped.as_bytes(), &bytes("matrix.npy")[128..]].concat();
    let opened = Opened::new("matrix.npy", &file, &Options::new()).unwrap();
    assert_eq!(opened.said(), Opened::fixture("matrix.npy").said());
    assert!(opened.model.notes[0].contains("do not state their byte order"), "{:?}", opened.model.notes);
}

#[test]
fn probes_know_arrays_from_other_archives() {
    let score = |format: &str, name: &str, head: &[u8]| {
        let look = Look { name, len: head.len() as u64, head, tail: &[], is_folder: false, entries: &[] };
        reader(format).probe(&look)
    };
    let (array, archive) = (bytes("matrix.npy"), bytes("names.npz"));
    assert_eq!(score("npy", "x", &array), Score::MAGIC_AND_VERSION);
    assert_eq!(score("npy", "x.npy", &archive), Score::NO);
    assert_eq!(score("npz", "x", &archive), Score::MAGIC);
    assert_eq!(score("npz", "x", &bytes("old_archive.npz")), Score::MAGIC);
    let (empty, other) = (b"PK\x05\x06 and so on", b"PK\x03\x04 and so on, of something else in all");
    assert_eq!(score("npz", "x.npz", empty), Score::STRUCTURE);
    assert_eq!(score("npz", "x.npz", other), Score::STRUCTURE);
    assert_eq!((score("npz", "x.pt", empty), score("npz", "x.pt", other)), (Score::NO, Score::NO));
}

#[test]
fn long_deflated_arrays_are_rearranged_piece_by_piece() {
    // Above the 16 MiB that are collected in one pass: made here, because no fixture should be so large.
    let (rows, columns) = (3u64, 3_000_000u64);
    let value = |row: u64, column: u64| (row * columns + column) as u16;
    let mut raw = b"\x93NUMPY\x01\x00".to_vec();
    let text = format!("{{'descr': '>u2', 'fortran_order': True, 'shape': ({rows}, {columns}), }}");
    raw.extend_from_slice(&(text.len() as u16).to_le_bytes());
    raw.extend_from_slice(text.as_bytes());
    for column in 0..columns {
        (0..rows).for_each(|row| raw.extend_from_slice(&value(row, column).to_be_bytes()));
    }
    let opened = Opened::new("long.npz", &crate::rejects::deflated("a.npy", &raw), &Options::new()).unwrap();
    let expected: Vec<u8> =
        (0..rows).flat_map(|r| (0..columns).flat_map(move |c| value(r, c).to_le_bytes())).collect();
    assert!(opened.payload(0) == expected);
}
