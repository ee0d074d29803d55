//! Harmless values beside tensors: taken as data, and what is no data still refused.

use crate::fixture::{FORMAT, bytes, carries, open, writer};
use crate::forge::{call, checkpoint, global, int, named, pickle, storage, tensor, text, tuple};
use apr_sdk::{ErrorKind, ForeignPolicy, LayoutRequest, Model, Value};

fn value(model: &Model, key: &str) -> Value {
    let found = model.foreign_of(FORMAT).unwrap().get(key);
    found.unwrap_or_else(|| panic!("{key} is not there")).clone()
}

#[test]
fn a_checkpoint_full_of_them_opens() {
    let (open_model, model, source) = open(&bytes("plain_values.ckpt")).unwrap();
    assert_eq!(model.tensors.len(), 1);
    for (key, wanted) in [
        ("hyper_parameters.lr", Value::from_f64(0.125)),
        ("hyper_parameters.inner.name", Value::from_string("é")),
        ("path", Value::from_string("/data/run 1/model")),
        ("relative", Value::from_string("a/b")),
        ("windows", Value::from_string("C:\\runs\\1")),
        ("version", Value::from_string("2.15.0")),
        ("counter.a", Value::from_i64(2)),
        ("when", Value::from_string("2020-01-02T03:04:05.000006")),
        ("zoned", Value::from_string("2020-01-02T03:00:00+00:00")),
        ("day", Value::from_string("1999-12-31")),
        ("time", Value::from_string("23:59:01")),
        ("span", Value::from_f64(86402.5)),
        ("decimal", Value::from_string("1.50")),
        ("f16", Value::from_f64(-1.5)),
        ("f32", Value::from_f64(f64::from(0.1f32))),
        ("f64", Value::from_f64(0.1)),
        ("i8", Value::from_i64(-3)),
        ("i64", Value::from_i64(-1 << 62)),
        ("u16", Value::from_i64(65535)),
        ("bool", Value::from_bool(true)),
        ("str", Value::from_string("né")),
        ("dtype", Value::from_string(">f4")),
        ("big", Value::from_i64(7)),
        ("rng.dtype", Value::from_string("<u4")),
    ] {
        assert_eq!(value(&model, key), wanted, "{key}");
    }
    assert_eq!(value(&model, "default.x").items(), [Value::from_i64(1)]);
    assert_eq!(value(&model, "deque").items(), [Value::from_i64(1), Value::from_i64(2)]);
    assert_eq!(value(&model, "range").items(), [2, 9, 3].map(Value::from_i64));
    assert_eq!(value(&model, "rng.shape").items(), [2, 2].map(Value::from_i64));
    let tree = value(&model, "apr.tree");
    let tree = tree.as_str().unwrap();
    for kept in ["\"b\":\"00000000010000000200000003000000\"", "\"n\":\"ffffffffffffffff00\""] {
        assert!(tree.contains(kept), "{kept} is not in {tree}");
    }
    let notes = model.notes.join("\n");
    for class in
        ["argparse.Namespace (1)", "pathlib.PosixPath (1)", "numpy.ndarray (1)", "datetime.datetime (2)"]
    {
        assert!(notes.contains(class), "{class} is not in: {notes}");
    }
    let mut request = LayoutRequest::file("out.pt");
    request.foreign = ForeignPolicy::Typed;
    let files =
        apr_testkit::write_model(&*writer(), &carries(), &*open_model, &model, &source, &request).unwrap();
    let (_, again, _) = open(&files[0].1).unwrap();
    assert_eq!(value(&again, "hyper_parameters.lr"), Value::from_f64(0.125));
    assert!(!again.notes.join("\n").contains("argparse"), "{:?}", again.notes);
}

fn dtype(code: &str) -> Vec<u8> {
    let made = call("numpy", "dtype", &[text(code), b"\x89".to_vec(), b"\x88".to_vec()]);
    let state = [int(3), text("<"), b"N".to_vec(), b"N".to_vec(), b"N".to_vec(), int(-1), int(-1), int(0)];
    [made, tuple(&state), b"b".to_vec()].concat()
}

fn bytes_of(len: u8) -> Vec<u8> {
    [b"C", &[len][..], &vec![1; usize::from(len)]].concat()
}

#[test]
fn wrong_arguments_are_refused() {
    let module = "numpy._core.multiarray";
    let scalar = |code: &str, len| call(module, "scalar", &[dtype(code), bytes_of(len)]);
    let array = |len: i64, state: u8| {
        let made = call(module, "_reconstruct", &[global("numpy", "ndarray"), tuple(&[int(0)]), bytes_of(1)]);
        let state = [int(1), tuple(&[int(len)]), dtype("u1"), b"\x89".to_vec(), bytes_of(state)];
        [made, tuple(&state), b"b".to_vec()].concat()
    };
    assert!(open(&checkpoint(&named(&array(5, 5)), 0)).is_ok());
    for (object, what) in [
        (call("argparse", "Namespace", &[text("x")]), "`argparse.Namespace` does not take (text)"),
        (call("pathlib", "PosixPath", &[int(1)]), "a path from something other than a string"),
        (call("pathlib", "PosixPath.write_text", &[text("x")]), "pathlib.PosixPath.write_text"),
        (call("collections", "deque", &[int(1)]), "a deque from something other than a list"),
        (call("builtins", "range", &[text("x")]), "does not take"),
        (call("datetime", "datetime", &[bytes_of(9)]), "something other than bytes"),
        (call("datetime", "datetime", &[bytes_of(10), int(1)]), "an invalid time zone"),
        (call("datetime", "timezone", &[int(1)]), "something other than a time span"),
        (call("datetime", "timedelta", &[text("1"), int(0), int(0)]), "something other than a number"),
        (call("numpy", "dtype", &[text("O8")]), "neither a number nor text"),
        (call("numpy", "dtype", &[text("M8")]), "neither a number nor text"),
        (call("numpy", "ndarray", &[tuple(&[int(1)])]), "does not take"),
        (scalar("f4", 3), "without its bytes"),
        (scalar("f16", 16), "a NumPy scalar of type <f16"),
        (scalar("U1", 4), "an invalid NumPy string"),
        (call(module, "scalar", &[text("f4"), bytes_of(4)]), "without a plain type"),
        (array(6, 5), "an array of 6 bytes, but it has 5"),
        (array(-1, 1), "expected bytes"),
        ([array(5, 5), tuple(&[int(1)]), b"b".to_vec()].concat(), "does not have five values"),
        (call(module, "_reconstruct", &[global("torch", "Tensor"), tuple(&[]), int(0)]), "does not take"),
        (call("types", "FunctionType", &[]), "types.FunctionType"),
    ] {
        let error = open(&checkpoint(&named(&object), 16)).map(drop).expect_err(what);
        assert!(error.message().contains(what), "`{what}` is not in: {error}");
        assert!(error.message().contains("nothing was executed"), "{error}");
    }
}

#[test]
fn a_long_array_is_no_value() {
    let data = [b"B", &(1u32 << 20).to_le_bytes()[..], &vec![0; 1 << 20]].concat();
    let made = call(
        "numpy._core.multiarray",
        "_reconstruct",
        &[global("numpy", "ndarray"), tuple(&[int(0)]), bytes_of(1)],
    );
    let state = [int(1), tuple(&[int(1 << 20)]), dtype("u1"), b"\x89".to_vec(), data];
    let object = [made, tuple(&state), b"b".to_vec()].concat();
    let error = open(&checkpoint(&named(&object), 16)).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.hint_text().is_some_and(|hint| hint.contains("from_numpy")), "{error}");
}

#[test]
fn what_runs_code_is_refused_with_a_way_out() {
    let value = tensor(storage("FloatStorage", 4), 0, &[4], &[1]);
    let other = call("functools", "partial", &[]);
    let object = pickle(&[b"}(".to_vec(), text("t"), value, text("cfg"), other, b"u".to_vec()].concat());
    let error = open(&checkpoint(&object, 16)).map(drop).unwrap_err();
    assert!(error.message().contains("`functools.partial`"), "{error}");
    assert!(error.message().contains("nothing was executed") && error.offset().is_some(), "{error}");
    let hint = error.hint_text().unwrap_or_default();
    assert!(hint.contains("apr scan") && hint.contains("torch.save"), "{hint}");
}
