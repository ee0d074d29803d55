//! What a format says of a derived weight, with one thing wrong: refused, naming the weight and its part.

use crate::folder::{Folder, schemes};
use apr_sdk::{
    Announced, DERIVED, DType, Derived, DerivedNumbers, DerivedPacking, DerivedUnknown, DerivedWeight,
    ErrorKind, StoredModel, StoredTensor,
};

/// Codes of 4 rows of 6, with their scales and zero points; and a weight of them.
struct Case {
    tensors: Vec<(&'static str, DType, Vec<u64>, Vec<u8>)>,
    weight: DerivedWeight,
}

fn case() -> Case {
    let scales = [0.5f32, 0.25, 1.0, 2.0].iter().flat_map(|scale| scale.to_le_bytes()).collect();
    let zeros = [0i64, 1, -1, 127].iter().flat_map(|zero| zero.to_le_bytes()).collect();
    Case {
        tensors: vec![
            ("q", DType::I8, vec![4, 6], (0..24).collect()),
            ("s", DType::F32, vec![4], scales),
            ("z", DType::I64, vec![4], zeros),
        ],
        weight: DerivedWeight {
            name: "w".into(),
            by: "the test".into(),
            codes: "q".into(),
            scales: DerivedNumbers::Tensor("s".into()),
            zeros: Some(DerivedNumbers::Tensor("z".into())),
            axis: Some(0),
            ..DerivedWeight::default()
        },
    }
}

/// All values of the weight.
fn values(case: &Case) -> apr_sdk::Result<Vec<f32>> {
    let mut model = StoredModel::default();
    let tensor = |(name, dtype, shape, _): &(&str, DType, Vec<u64>, Vec<u8>)| StoredTensor {
        name: (*name).to_owned(),
        dtype: *dtype,
        shape: shape.clone(),
    };
    model.tensors = case.tensors.iter().map(tensor).collect();
    let derived = Derived { weights: vec![case.weight.clone()], ..Derived::default() };
    model.announced.push(Announced { file: String::new(), key: DERIVED.to_owned(), json: derived.to_json() });
    let understood = schemes().understand(&model)?;
    let bytes = case.tensors.iter().map(|tensor| tensor.3.clone()).collect();
    let weight = &understood.packed[0];
    assert_eq!(weight.name, "w");
    Folder { model, bytes }.unpack(weight, 0..weight.rows.rows, 0..weight.rows.rows)
}

#[test]
fn derived_weights_that_do_not_fit() {
    let whole = values(&case()).unwrap();
    assert_eq!((whole[0], whole[6], whole[23]), (0.0, 0.25 * 5.0, 2.0 * (23.0 - 127.0)));
    /// A change, and a word of the message.
    type Change = (fn(&mut Case), &'static str);
    let changes: [Change; 14] = [
        (|case| case.weight.codes = "p".into(), "its codes are missing: `p`"),
        (|case| case.weight.scales = DerivedNumbers::Tensor("p".into()), "its scales are missing: `p`"),
        (|case| case.weight.scales = DerivedNumbers::Values(vec![]), "has 0 scales, but its codes require 4"),
        (|case| case.weight.scales = DerivedNumbers::Values(vec![1.0; 5]), "has 5 scales"),
        (|case| case.weight.zeros = Some(DerivedNumbers::Tensor("p".into())), "zero points are missing: `p`"),
        (|case| case.weight.zeros = Some(DerivedNumbers::Values(vec![0.0; 3])), "has 3 zero points"),
        (|case| case.tensors[1].2 = vec![5], "the shape of its scales, `s`, is [5]"),
        (|case| case.tensors[2].2 = vec![2, 2], "the shape of its zero points, `z`, is [2, 2]"),
        (|case| case.weight.axis = Some(2), "its axis is 2"),
        (|case| case.weight.axis = Some(-3), "its axis is -3"),
        (|case| case.weight.block = Some(0), "blocks have 0 codes"),
        (|case| case.weight.block = Some(3), "the shape of its scales, `s`, is [4]"),
        (|case| case.weight.scales = DerivedNumbers::Values(vec![1.0, f64::NAN, 1.0, 1.0]), "a scale is NaN"),
        (
            |case| case.weight.zeros = Some(DerivedNumbers::Values(vec![0.0, 0.0, 128.0, 0.0])),
            "a zero point is 128, which is out of range for I8",
        ),
    ];
    for (change, word) in changes {
        let mut case = case();
        change(&mut case);
        let error = values(&case).expect_err(word);
        assert_eq!(error.kind(), ErrorKind::Malformed, "{error}");
        assert_eq!(error.tensor_name(), Some("w"), "{error}");
        assert!(error.to_string().contains(word), "{error} does not say `{word}`");
    }
}

#[test]
fn numbers_of_derived_weights_that_mean_nothing() {
    let contents: [(usize, Vec<u8>, &str); 3] = [
        (1, f32::NAN.to_le_bytes().to_vec(), "a scale is NaN"),
        (1, f32::INFINITY.to_le_bytes().to_vec(), "a scale is inf"),
        (2, (-129i64).to_le_bytes().to_vec(), "a zero point is -129, which is out of range for I8"),
    ];
    for (part, bytes, word) in contents {
        let mut case = case();
        case.tensors[part].3[..bytes.len()].copy_from_slice(&bytes);
        let error = values(&case).expect_err(word);
        assert_eq!(error.kind(), ErrorKind::Malformed, "{error}");
        assert!(error.to_string().contains(word), "{error} does not say `{word}`");
    }
}

#[test]
fn two_values_of_the_same_codes_are_one_too_many() {
    let mut model = StoredModel::default();
    let tensor = |name: &str, shape: &[u64]| StoredTensor {
        name: name.to_owned(),
        dtype: DType::I8,
        shape: shape.to_vec(),
    };
    model.tensors = vec![tensor("q", &[4, 6])];
    let weight = |name: &str| DerivedWeight {
        name: name.to_owned(),
        codes: "q".into(),
        scales: DerivedNumbers::Values(vec![1.0]),
        ..DerivedWeight::default()
    };
    let derived = Derived { weights: vec![weight("a"), weight("b")], ..Derived::default() };
    let json = derived.to_json();
    model.announced.push(Announced { file: String::new(), key: DERIVED.to_owned(), json });
    let error = schemes().understand(&model).unwrap_err();
    assert!(error.to_string().contains("it is part of two weights"), "{error}");
    assert_eq!(error.tensor_name(), Some("q"));
}

/// Codes of 2 rows of 20 in blocks of 16, packed into bytes; each row of zero points begins at a byte.
fn packed() -> Case {
    let scales = [0.5f32, 0.25, 1.0, 2.0].iter().flat_map(|scale| scale.to_le_bytes()).collect();
    let packing = DerivedPacking { codes: DType::U4, shape: vec![2, 20], stored: 32, is_transposed: true };
    Case {
        tensors: vec![
            ("q", DType::U8, vec![2, 2, 8], (0..32).collect()),
            ("s", DType::F32, vec![2, 2], scales),
            ("z", DType::U8, vec![2, 1], vec![0x10, 0x32]),
        ],
        weight: DerivedWeight { axis: Some(-1), block: Some(16), packing: Some(packing), ..case().weight },
    }
}

#[test]
fn packed_codes_that_do_not_fit() {
    // The rows as they are stored: the third byte of the second block of the second row holds 10 and 1.
    assert_eq!(
        values(&packed()).unwrap()[20 + 16..],
        [2.0 * (8.0 - 3.0), 2.0 * (1.0 - 3.0), 2.0 * (9.0 - 3.0), 2.0 * (1.0 - 3.0)]
    );
    /// A change, what kind of error it is, and a word of the message.
    type Change = (fn(&mut Case), ErrorKind, &'static str);
    fn packing(case: &mut Case) -> &mut DerivedPacking {
        case.weight.packing.as_mut().unwrap()
    }
    let (malformed, unsupported) = (ErrorKind::Malformed, ErrorKind::Unsupported);
    let changes: [Change; 14] = [
        (|case| packing(case).stored = 30, malformed, "which cannot hold [2, 20] in rows of 30"),
        (|case| packing(case).stored = u64::MAX, malformed, "which cannot hold"),
        (|case| packing(case).shape = vec![2, 33], malformed, "which cannot hold [2, 33]"),
        (|case| packing(case).shape = vec![3, 20], malformed, "which cannot hold [3, 20]"),
        (|case| packing(case).shape = vec![], malformed, "which cannot hold []"),
        (|case| packing(case).shape = vec![64], malformed, "which cannot hold [64]"),
        (|case| packing(case).codes = DType::U2, malformed, "which cannot hold"),
        (
            |case| packing(case).codes = DType::I4,
            unsupported,
            "codes of type I4 cannot be stored in a tensor of type U8",
        ),
        (|case| case.tensors[0].1 = DType::I32, unsupported, "cannot be stored in a tensor of type I32"),
        (|case| case.weight.axis = Some(0), malformed, "which cannot hold"),
        (|case| case.weight.block = None, malformed, "which cannot hold"),
        (
            |case| case.weight.block = Some(8),
            malformed,
            "the shape of its scales, `s`, is [2, 2], but the codes `q` require [2, 3]",
        ),
        (|case| case.tensors[1].2 = vec![4, 2], malformed, "the shape of its scales, `s`, is [4, 2]"),
        (|case| case.tensors[2].2 = vec![2, 2], malformed, "the shape of its zero points, `z`, is [2, 2]"),
    ];
    for (change, kind, word) in changes {
        let mut case = packed();
        change(&mut case);
        let error = values(&case).expect_err(word);
        assert_eq!(error.kind(), kind, "{error}");
        assert_eq!(error.tensor_name(), Some("w"), "{error}");
        assert!(error.to_string().contains(word), "{error} does not say `{word}`");
    }
}

#[test]
fn codes_whose_values_are_unknown_are_refused() {
    let mut model = StoredModel::default();
    model.tensors = vec![StoredTensor { name: "q".into(), dtype: DType::I8, shape: vec![4] }];
    let unknown = DerivedUnknown { codes: "q".into(), by: "the test".into(), why: "nothing is known".into() };
    let json = Derived { unknown: vec![unknown], ..Derived::default() }.to_json();
    model.announced.push(Announced { file: String::new(), key: DERIVED.to_owned(), json });
    let error = schemes().understand(&model).unwrap_err();
    assert_eq!((error.kind(), error.tensor_name()), (ErrorKind::Unsupported, Some("q")), "{error}");
    assert!(error.message().contains("the test uses it as codes, and nothing is known"), "{error}");
}
