//! What is read agrees with torch.

use crate::fixture::{FORMAT, bytes, folder, golden, open, open_with, reader, single_files};
use apr_sdk::{MemorySource, Model, Options, Value};
use serde_json::{Value as Json, json};
use sha2::{Digest, Sha256};

/// The model as the golden manifests say it.
pub fn said(model: &Model, payload: &dyn Fn(usize) -> Vec<u8>) -> Vec<Json> {
    let describe = |n: usize| {
        let tensor = &model.tensors[n];
        let sum: String = Sha256::digest(payload(n)).iter().map(|byte| format!("{byte:02x}")).collect();
        json!({"name": tensor.name, "dtype": tensor.dtype.name(), "shape": tensor.shape, "sha256": sum})
    };
    in_order((0..model.tensors.len()).map(describe).collect())
}

pub fn in_order(mut all: Vec<Json>) -> Vec<Json> {
    all.sort_by_key(|tensor| tensor["name"].to_string());
    all
}

fn expected(name: &str) -> Vec<Json> {
    in_order(golden(name)["tensors"].as_array().unwrap().clone())
}

#[test]
fn agrees_with_torch_on_every_layout_type_and_view() {
    for name in single_files() {
        let (open, model, source) = open(&bytes(&name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        let payload = |n| apr_testkit::payload(&*open, &model, n, &source).unwrap();
        assert_eq!(said(&model, &payload), expected(&name), "{name}");
    }
}

#[test]
fn a_sharded_model_opens_by_its_index() {
    let name = "sharded/pytorch_model.bin.index.json";
    let mut source = MemorySource::new("pytorch_model.bin.index.json", bytes(name));
    for entry in std::fs::read_dir(folder().join("sharded")).unwrap() {
        let shard = entry.unwrap().file_name().into_string().unwrap();
        if shard.ends_with(".bin") {
            source = source.with(shard.clone(), bytes(&format!("sharded/{shard}")));
        }
    }
    let opened = apr_testkit::read_with_parts(&*reader(), FORMAT, &source, &Options::new()).unwrap();
    let payload = |n| opened.payload(n, &source).unwrap();
    assert_eq!(said(&opened.model, &payload), expected(name));
}

fn value(model: &Model, key: &str) -> Value {
    model.foreign[0].get(key).unwrap_or_else(|| panic!("no `{key}`")).clone()
}

#[test]
fn values_beside_the_tensors_are_typed_and_the_usual_root_is_taken_off() {
    let (_, model, _) = open(&bytes("checkpoint.ckpt")).unwrap();
    assert_eq!(value(&model, "epoch"), Value::from_i64(7));
    assert_eq!(value(&model, "loss"), Value::from_f64(0.5));
    assert_eq!(value(&model, "name"), Value::from_string("run é"));
    assert_eq!(value(&model, "done"), Value::from_bool(false));
    assert_eq!(value(&model, "sizes").items()[2], Value::from_i64(3));
    assert_eq!(value(&model, "pair").items()[1], Value::from_f64(0.5));
    assert_eq!(value(&model, "mixed.1"), Value::from_string("two"));
    assert_eq!(value(&model, "nested.deep.er").items()[0], Value::from_bool(true));
    assert!(model.tensors.iter().any(|tensor| tensor.name == "embed.weight"));
    assert_eq!(value(&model, "apr.tied").items()[0], Value::from_string("head.weight=embed.weight"));
    assert!(model.notes.iter().any(|note| note.contains("`state_dict`")), "{:?}", model.notes);
}

#[test]
fn prefix_takes_what_lies_below_it() {
    let prefix = |prefix: &str| open_with(&bytes("nested.pt"), &Options::new().with("prefix", prefix));
    let names = |model: &Model| model.tensors.iter().map(|tensor| tensor.name.clone()).collect::<Vec<_>>();
    assert_eq!(names(&prefix("ema").unwrap().1), ["0", "1.x", "1.5"]);
    assert_eq!(names(&prefix("ema.1.").unwrap().1), ["x", "5"]);
    let error = prefix("none").map(|_| ()).unwrap_err();
    assert!(error.message().contains("no tensors below `none`; the first are `model.a`"), "{error}");
    // Without it, a root of which there are several keeps its name.
    assert_eq!(names(&open(&bytes("nested.pt")).unwrap().1)[0], "model.a");
}

#[test]
fn scale_and_zero_point_of_quantized_tensors_are_kept() {
    let (_, model, _) = open(&bytes("quantized.pt")).unwrap();
    assert_eq!(value(&model, "tensor.q_scheme"), Value::from_string("per_tensor_affine"));
    assert_eq!(value(&model, "tensor.q_scale"), Value::from_f64(0.125));
    assert_eq!(value(&model, "tensor.q_zero_point"), Value::from_i64(10));
    assert_eq!(value(&model, "channel.q_scheme"), Value::from_string("per_channel_affine"));
    assert_eq!(value(&model, "channel.q_axis"), Value::from_i64(0));
    let note = model.notes.iter().find(|note| note.starts_with("quantized by torch")).unwrap();
    assert!(note.ends_with("`tensor` and 3 more"), "{note}");
}

#[test]
fn tensors_that_share_their_bytes_are_recorded_as_tied() {
    let (_, model, _) = open(&bytes("views.pt")).unwrap();
    let tied: Vec<_> = value(&model, "apr.tied").items();
    assert_eq!(tied, [Value::from_string("tied=base")]);
}
