//! Nothing that a checkpoint says is lost without a word when its pickle is written anew.

use crate::fixture::{FORMAT, bytes, carries, open, open_with, writer};
use crate::forge::{call, checkpoint, global, int, named, pickle, storage, tensor, text, tuple};
use apr_sdk::{ForeignPolicy, LayoutRequest, Model, Options, Value};

/// The model of these bytes, written anew and read again.
fn anew(bytes: &[u8], edit: impl FnOnce(&mut Model)) -> Model {
    let (open_model, mut model, source) = open(bytes).unwrap();
    edit(&mut model);
    let mut request = LayoutRequest::file("out.pt");
    request.foreign = ForeignPolicy::Typed;
    let files =
        apr_testkit::write_model(&*writer(), &carries(), &*open_model, &model, &source, &request).unwrap();
    open(&files[0].1).unwrap().1
}

fn value<'m>(model: &'m Model, key: &str) -> Option<&'m Value> {
    model.foreign_of(FORMAT).and_then(|foreign| foreign.get(key))
}

/// A tensor of four elements.
fn plain() -> Vec<u8> {
    tensor(storage("FloatStorage", 4), 0, &[4], &[1])
}

#[test]
fn every_quantization_scheme_keeps_its_values() {
    let quantized = |scheme: &str, rest: &[Vec<u8>]| {
        let hooks = [global("collections", "OrderedDict"), b")R".to_vec()].concat();
        let how = tuple(&[vec![global("torch", scheme)], rest.to_vec()].concat());
        let (size, stride) = (tuple(&[int(4)]), tuple(&[int(1)]));
        let items = [storage("QInt8Storage", 4), int(0), size, stride, how, b"\x89".to_vec(), hooks];
        call("torch._utils", "_rebuild_qtensor", &items)
    };
    let scale = [b"G".to_vec(), 0.5f64.to_be_bytes().to_vec()].concat();
    for scheme in ["per_tensor_affine", "per_tensor_symmetric"] {
        let before = checkpoint(&named(&quantized(scheme, &[scale.clone(), int(3)])), 16);
        let after = anew(&before, |_| {});
        assert_eq!(value(&after, "t.q_scheme"), Some(&Value::from_string(scheme)));
        assert_eq!(value(&after, "t.q_scale"), Some(&Value::from_f64(0.5)), "{scheme}");
        assert_eq!(value(&after, "t.q_zero_point"), Some(&Value::from_i64(3)), "{scheme}");
    }
    for scheme in ["per_channel_affine", "per_channel_symmetric", "per_channel_affine_float_qparams"] {
        let before = checkpoint(&named(&quantized(scheme, &[plain(), plain(), int(0)])), 16);
        let after = anew(&before, |_| {});
        assert_eq!(value(&after, "t.q_scheme"), Some(&Value::from_string(scheme)));
        assert_eq!(value(&after, "t.q_axis"), Some(&Value::from_i64(0)), "{scheme}");
        let names: Vec<_> = after.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
        assert_eq!(names, ["t", "t.q_scales", "t.q_zero_points"], "{scheme}");
    }
}

#[test]
fn half_of_a_quantization_stays_what_it_is() {
    // Without its scale it is no quantized tensor; what is left of it is not thrown away.
    for gone in ["signed.q_scale", "signed.q_zero_point"] {
        let after = anew(&bytes("quantized.pt"), |model| {
            model.foreign[0].files[0].typed.retain(|(key, _)| key != gone);
        });
        assert_eq!(value(&after, gone), None);
        assert!(value(&after, "signed.q_scheme").is_some(), "{gone}");
    }
    let after = anew(&bytes("quantized.pt"), |model| {
        model.foreign[0].files[0].set("signed.q_scheme", Value::from_string("per_moon"));
    });
    for key in ["signed.q_scheme", "signed.q_scale", "signed.q_zero_point"] {
        assert!(value(&after, key).is_some(), "{key}");
    }
}

#[test]
fn what_was_set_on_a_tensor_is_kept() {
    let after = anew(&bytes("attributes.pt"), |_| {});
    let tree = value(&after, "apr.tree").and_then(Value::as_str).unwrap().to_owned();
    for kept in ["tensor_model_parallel", "partition_dim", "\"T\":\"t.scale\"", "history", "_is_buffer"] {
        assert!(tree.contains(kept), "{kept} is not in {tree}");
    }
    // Set by BUILD, as old programs did.
    let state = [b"}".to_vec(), text("tag"), text("mine"), b"s".to_vec()].concat();
    let built = checkpoint(&named(&[plain(), state.clone(), b"b".to_vec()].concat()), 16);
    assert!(value(&anew(&built, |_| {}), "apr.tree").and_then(Value::as_str).unwrap().contains("mine"));
    let twice = [plain(), state.clone(), b"b".to_vec(), state, b"b".to_vec()].concat();
    let error = open(&checkpoint(&named(&twice), 16)).map(drop).unwrap_err();
    assert!(error.message().contains("set twice"), "{error}");
    // Where the nesting is left out, so is this, by name.
    let inner = [b"}".to_vec(), text("m"), built_pickle(), b"s".to_vec()].concat();
    let (_, model, _) =
        open_with(&checkpoint(&pickle(&inner), 16), &Options::new().with("prefix", "m")).unwrap();
    assert!(model.notes.iter().any(|note| note.contains("`t`")), "{:?}", model.notes);
}

fn built_pickle() -> Vec<u8> {
    let state = [b"}".to_vec(), text("tag"), text("mine"), b"s".to_vec()].concat();
    [b"}".to_vec(), text("t"), plain(), state, b"bs".to_vec()].concat()
}

#[test]
fn a_state_that_holds_its_own_tensor_is_refused() {
    let object = [plain(), b"q\0}".to_vec(), text("me"), b"h\0sb".to_vec()].concat();
    let error = open(&checkpoint(&named(&object), 16)).map(drop).unwrap_err();
    assert!(error.message().contains("contains itself"), "{error}");
}

#[test]
fn names_of_types_are_kept() {
    for name in ["float32", "complex32", "uint4", "qint32", "half", "per_channel_symmetric"] {
        let object =
            [b"}(".to_vec(), text("t"), plain(), text("dtype"), global("torch", name), b"u".to_vec()]
                .concat();
        let after = anew(&checkpoint(&pickle(&object), 16), |_| {});
        let tree = value(&after, "apr.tree").and_then(Value::as_str).unwrap();
        assert!(tree.contains(&format!("\"g\":\"{name}\"")), "{tree}");
    }
}
