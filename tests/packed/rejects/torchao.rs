//! torchao's own description of its weights, in the metadata of SafeTensors files, and tensors that do not agree with it.

use super::words::{changed, configured, remove, says};
use crate::folder::Folder;
use apr_sdk::{Announced, DERIVED, DType, Derived, DerivedStated, ErrorKind, StoredTensor};

/// The weight of all fixtures.
const WEIGHT: &str = "model.layers.0.mlp.up_proj.weight";

/// A fixture whose description is changed.
fn described(fixture: &str, change: impl FnOnce(&mut Vec<DerivedStated>)) -> Folder {
    changed(fixture, |folder| {
        let own = folder.model.announced.iter_mut().find(|one| one.key == DERIVED).unwrap();
        let mut derived = Derived::from_json(own.json.as_bytes()).unwrap();
        change(&mut derived.stated);
        own.json = derived.to_json();
    })
}

/// A fixture in whose description a text becomes another.
fn said(fixture: &str, from: &str, to: &str) -> Folder {
    described(fixture, |stated| {
        assert!(stated[0].json.contains(from), "{fixture}: {}", stated[0].json);
        stated[0].json = stated[0].json.replace(from, to);
    })
}

/// A fixture without a part, and without what lists the parts.
fn undescribed(fixture: &str, ending: &str) -> Folder {
    let mut folder = changed(fixture, |folder| remove(folder, ending));
    folder.model.announced.retain(|one| one.key != DERIVED);
    folder
}

#[test]
fn a_part_that_is_listed_and_gone_is_missed() {
    // Each, with whether values can be computed without it where nothing lists it: then the loss would not show.
    for (fixture, part, is_optional) in [
        ("torchao-nvfp4", "per_tensor_scale", true),
        ("torchao-nvfp4-experts", "per_tensor_scale", true),
        ("torchao-int8", "zero_point", true),
        ("torchao-intx4", "zero_point", false),
        ("torchao-int8", "scale", false),
        ("torchao-float8", "qdata", false),
    ] {
        let folder = changed(fixture, |folder| remove(folder, &format!("_weight_{part}")));
        says(&folder, ErrorKind::Malformed, &format!("lists `{part}`"));
        says(
            &folder,
            ErrorKind::Malformed,
            &format!("its part `model.layers.0.mlp.up_proj._weight_{part}` is missing"),
        );
        says(&folder, ErrorKind::Malformed, WEIGHT);
        assert_eq!(
            undescribed(fixture, &format!("_weight_{part}")).understood().is_ok(),
            is_optional,
            "{part}"
        );
    }
    let codes = undescribed("torchao-int8", "_weight_qdata");
    says(
        &codes,
        ErrorKind::Malformed,
        "codes are missing: expected `model.layers.0.mlp.up_proj._weight_qdata`",
    );
}

#[test]
fn a_part_that_is_not_listed_is_refused() {
    for (fixture, part) in [("torchao-float8", "zero_point"), ("torchao-mxfp8", "per_tensor_scale")] {
        let folder = changed(fixture, |folder| {
            let name = format!("model.layers.0.mlp.up_proj._weight_{part}");
            folder.model.tensors.push(StoredTensor { name, dtype: DType::F32, shape: vec![32, 1] });
            folder.bytes.push(vec![0; 128]);
        });
        says(&folder, ErrorKind::Malformed, "listed in the file's metadata: qdata, scale");
        says(&folder, ErrorKind::Malformed, &format!("up_proj._weight_{part}"));
    }
    says(
        &said("torchao-int8", "\"zero_point\", ", ""),
        ErrorKind::Malformed,
        "listed in the file's metadata: qdata, scale",
    );
}

#[test]
fn statements_that_parts_contradict_are_refused() {
    for (fixture, from, to, words) in [
        ("torchao-int8", "[1, 96]", "[1, 32]", "`block_size` [1,32], but its parts are for 1 by 96"),
        ("torchao-intx4", "[1, 32]", "[32, 1]", "`block_size` [32,1], but its parts are for 1 by 32"),
        ("torchao-float8", "[1, 96]", "[96]", "`block_size` [96]"),
        ("torchao-mxfp4", "\"block_size\": 32", "\"block_size\": 16", "`block_size` 16"),
        ("torchao-nvfp4", "\"block_size\": 16", "\"block_size\": \"16\"", "`block_size` \"16\""),
        (
            "torchao-nvfp4",
            "scales\": false",
            "scales\": true",
            "`is_swizzled_scales` true, but its parts are in rows",
        ),
        (
            "torchao-mxfp8-tiled",
            "scales\": true",
            "scales\": false",
            "`is_swizzled_scales` false, but its parts are in tiles",
        ),
        (
            "torchao-mxfp8",
            "float8_e4m3fn",
            "float8_e5m2",
            "`elem_dtype` \"float8_e5m2\", but its parts are of F8_E4M3",
        ),
        ("torchao-int8", "Int8Tensor", "Float8Tensor", "the class `Float8Tensor`, which has no codes of I8"),
        ("torchao-mxfp4", "MXTensor", "NVFP4Tensor", "the class `NVFP4Tensor`, which has no codes of U8"),
        ("torchao-nvfp4", "NVFP4Tensor", "Int4Tensor", "the class `Int4Tensor`, which has no codes"),
        ("torchao-int8", "Int8Tensor", "Int4Tensor", "do not match"),
        (
            "torchao-int8",
            "[\"zero_point\", \"qdata\", \"scale\"]",
            "7",
            "`_tensor_data_names` in the file's metadata",
        ),
    ] {
        says(&said(fixture, from, to), ErrorKind::Malformed, words);
    }
    for (fixture, from, to, words) in [
        (
            "torchao-int8",
            "Int8Tensor",
            "Int4PlainInt32Tensor",
            "class `Int4PlainInt32Tensor` are not supported",
        ),
        ("torchao-mxfp4", "float4_e2m1fn_x2", "fp6_e2m3", "elements of `fp6_e2m3` is not supported"),
    ] {
        says(&said(fixture, from, to), ErrorKind::Unsupported, words);
    }
    let listed = described("torchao-int8", |stated| stated[0].json.clear());
    says(&listed, ErrorKind::Malformed, "lists it, but does not describe it");
}

#[test]
fn a_square_weight_is_of_the_class_that_is_stated_whatever_the_configuration_says() {
    // Eight rows with eight by eight scales: those of columns of int8, or of groups of int4, which are transposed.
    let of_columns = |columns: u64, json: &str, class: &str| {
        let mut folder = Folder { model: apr_sdk::StoredModel::default(), bytes: Vec::new() };
        for (ending, dtype) in [("qdata", DType::I8), ("scale", DType::F32), ("zero_point", DType::F32)] {
            let shape = if ending == "qdata" { vec![8, columns] } else { vec![8, 8] };
            folder.model.tensors.push(StoredTensor { name: format!("a._weight_{ending}"), dtype, shape });
        }
        let json = json.to_owned();
        folder.model.announced.push(Announced {
            file: String::new(),
            key: "quantization_config".into(),
            json,
        });
        if !class.is_empty() {
            let json = format!(r#"{{"_type": "{class}", "_data": {{}}}}"#);
            let stated = vec![DerivedStated { name: "a.weight".into(), by: class.into(), json }];
            let json = Derived { stated, ..Derived::default() }.to_json();
            folder.model.announced.push(Announced { file: String::new(), key: DERIVED.into(), json });
        }
        folder.understood().map(|understood| understood.packed[0].about.clone())
    };
    let square = |json: &str, class: &str| of_columns(32, json, class);
    let int4 = r#"{"quant_method": "torchao", "quant_type": {"default": {"_type": "Int4WeightOnlyConfig"}}}"#;
    assert_eq!(square(int4, "").unwrap(), "torchao int4, groups of 8");
    assert_eq!(square(int4, "Int4Tensor").unwrap(), "torchao int4, groups of 8");
    // Int8 in groups of 4 is none of torchao's.
    assert_eq!(square(int4, "Int8Tensor").unwrap_err().kind(), ErrorKind::Malformed);
    // In groups of 16 it is, and only what is said tells.
    let both = r#"{"quant_method": "torchao", "modules": {"a": {"_type": "Int4WeightOnlyConfig"}, "b": {"_type": "Int8WeightOnlyConfig"}}}"#;
    let neither = r#"{"quant_method": "torchao"}"#;
    for json in [both, neither] {
        let error = of_columns(128, json, "").unwrap_err();
        assert!(error.message().contains("could be an Int4Tensor or an Int8Tensor"), "{error}");
        assert_eq!(of_columns(128, json, "Int4Tensor").unwrap(), "torchao int4, groups of 32");
        assert_eq!(of_columns(128, json, "Int8Tensor").unwrap(), "torchao I8, scales of 1 by 16");
        assert_eq!(of_columns(32, json, "").unwrap(), "torchao int4, groups of 8");
    }
    assert_eq!(of_columns(128, int4, "").unwrap(), "torchao int4, groups of 32");
    // Codes of four bits may have a byte each.
    let intx = int4.replace("Int4WeightOnlyConfig", "Int8DynamicActivationIntxWeightConfig");
    assert_eq!(of_columns(128, &intx, "").unwrap(), "torchao I8, scales of 1 by 16");
}

#[test]
fn shards_repeat_each_other_or_are_refused() {
    let one = described("torchao-int8", |stated| stated.push(stated[0].clone()));
    assert_eq!(one.understood().unwrap().packed.len(), 1);
    let two = described("torchao-int8", |stated| {
        let mut other = stated[0].clone();
        other.json = other.json.replace("[1, 96]", "[1, 48]");
        stated.push(other);
    });
    says(&two, ErrorKind::Malformed, "the metadata of two files describes it differently");
    // A shard alone describes weights of the others, too.
    let shard = described("torchao-int8", |stated| {
        let mut other = stated[0].clone();
        other.name = "elsewhere.weight".into();
        stated.push(other);
    });
    let notes = shard.understood().unwrap().notes;
    assert!(
        notes.iter().any(|note| note.ends_with("are missing: 1, the first `elsewhere.weight`")),
        "{notes:?}"
    );
}

#[test]
fn the_stated_type_is_that_of_the_weight() {
    let of = |folder: Folder| folder.understood().unwrap().packed[0].dtype;
    assert_eq!(of(changed("torchao-int8", |_| {})), DType::F32);
    assert_eq!(of(said("torchao-int8", "float32", "bfloat16")), DType::BF16);
    assert_eq!(of(said("torchao-mxfp4", "float32", "float16")), DType::F16);
}

#[test]
fn without_a_description_a_configuration_is_enough() {
    for fixture in ["torchao-int8", "torchao-nvfp4-tiled", "torchao-mxfp4"] {
        let stated = changed(fixture, |_| {}).understood().unwrap();
        let untold = changed(fixture, |folder| folder.model.announced.retain(|one| one.key != DERIVED));
        let untold = untold.understood().unwrap();
        assert_eq!(stated.packed[0].rows, untold.packed[0].rows, "{fixture}");
        // The other way round, too.
        let alone = changed(fixture, |folder| {
            configured(folder, "torchao", "torchao");
            folder.model.announced.retain(|one| one.key == DERIVED);
        });
        let alone = alone.understood().unwrap();
        assert_eq!((&stated.packed[0].rows, alone.notes), (&alone.packed[0].rows, Vec::new()), "{fixture}");
    }
}
