//! Checkpoints as Lightning writes them, and what they hold that is no tensor and no plain value.

use crate::fixture::{FORMAT, carries, open, open_with, reader, writer};
use crate::forge::{call, checkpoint, global, int, pickle, storage, stream, tensor, text, tuple};
use crate::read::{in_order, said};
use apr_sdk::{ErrorKind, ForeignPolicy, LayoutRequest, Limits, MemorySource, Model, Options, Value};
use serde_json::Value as Json;

/// A file that `lightning/generate.py` wrote.
fn bytes(name: &str) -> Vec<u8> {
    std::fs::read(crate::fixture::folder().join("../lightning").join(name)).unwrap()
}

#[test]
fn agrees_with_torch_and_says_what_is_left_to_scan() {
    for (name, is_safe) in [("plain.ckpt", true), ("unknown.ckpt", false)] {
        let (opened, model, source) = open(&bytes(name)).unwrap_or_else(|e| panic!("{name}: {e}"));
        let golden: Json = serde_json::from_slice(&bytes(&format!("{name}.golden.json"))).unwrap();
        let payload = |n| apr_testkit::payload(&*opened, &model, n, &source).unwrap();
        assert_eq!(said(&model, &payload), in_order(golden["tensors"].as_array().unwrap().clone()), "{name}");
        let source = MemorySource::new(name, bytes(name));
        let report = reader().report("scan", &source, &Limits::default(), &Options::new()).unwrap();
        assert_eq!(report.passed, is_safe, "{}", report.text);
    }
}

fn value(model: &Model, key: &str) -> Value {
    let found = model.foreign_of(FORMAT).unwrap().get(key);
    found.unwrap_or_else(|| panic!("{key} is not there")).clone()
}

fn below(bytes: &[u8], prefix: &str) -> apr_sdk::Result<Model> {
    let mut options = Options::new();
    options.set("prefix", prefix);
    open_with(bytes, &options).map(|(_, model, _)| model)
}

const WEIGHTS: [&str; 7] = [
    "fc.weight",
    "fc.bias",
    "norm.weight",
    "norm.bias",
    "norm.running_mean",
    "norm.running_var",
    "norm.num_batches_tracked",
];

#[test]
fn the_prefix_is_stripped_and_the_optimizer_stays_behind() {
    for file in ["plain.ckpt", "unknown.ckpt", "module.ckpt"] {
        for prefix in ["state_dict.model", "state_dict.model."] {
            let model = below(&bytes(file), prefix).unwrap_or_else(|e| panic!("{file}: {e}"));
            let names: Vec<_> = model.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
            assert_eq!(names, WEIGHTS, "{file}");
            assert!(!model.notes.join("\n").contains("left out"), "{file}: {:?}", model.notes);
        }
    }
}

#[test]
fn a_prefix_may_begin_below_the_key_that_names_lose() {
    // All tensors lie under `state_dict`, which is taken off the names.
    let value = |name: &str| [text(name), tensor(storage("FloatStorage", 4), 0, &[4], &[1])].concat();
    let inner = [b"}(".to_vec(), value("model.a"), value("other.b"), b"u".to_vec()].concat();
    let file = checkpoint(&pickle(&[b"}".to_vec(), text("state_dict"), inner, b"s".to_vec()].concat()), 16);
    for prefix in ["state_dict.model.", "state_dict.model", "model", "model."] {
        let model = below(&file, prefix).unwrap_or_else(|e| panic!("{prefix}: {e}"));
        assert_eq!(model.tensors.iter().map(|t| t.name.as_str()).collect::<Vec<_>>(), ["a"], "{prefix}");
    }
    assert!(below(&file, "nothing").is_err());
}

#[test]
fn settings_of_plain_classes_are_values() {
    let (_, model, _) = open(&bytes("plain.ckpt")).unwrap();
    let settings = "hyper_parameters.settings";
    assert_eq!(value(&model, &format!("{settings}.lr")), Value::from_f64(0.5));
    assert_eq!(value(&model, &format!("{settings}.steps")), Value::from_i64(3));
    assert_eq!(value(&model, &format!("{settings}.inner.name")), Value::from_string("adam"));
    assert_eq!(value(&model, &format!("{settings}.out")), Value::from_string("runs/1"));
    assert!(!model.notes.join("\n").contains("left out"), "{:?}", model.notes);
}

#[test]
fn values_of_unknown_classes_are_left_out_and_told() {
    let (opened, model, source) = open(&bytes("unknown.ckpt")).unwrap();
    let notes = model.notes.join("\n");
    for class in ["__main__.Kind (1)", "omegaconf.dictconfig.DictConfig (1)", "torch.nn.functional.relu (1)"]
    {
        assert!(notes.contains(class), "{class} is not in: {notes}");
    }
    // What the model does not hold is in no file that is made of it, however that is made.
    assert!(model.foreign_of(FORMAT).unwrap().files[0].verbatim.is_none());
    for policy in [ForeignPolicy::Default, ForeignPolicy::Keep] {
        let mut request = LayoutRequest::file("out.pt");
        request.foreign = policy;
        let files =
            apr_testkit::write_model(&*writer(), &carries(), &*opened, &model, &source, &request).unwrap();
        let has = |word: &[u8]| files[0].1.windows(word.len()).any(|run| run == word);
        assert!(!has(b"omegaconf") && !has(b"__main__"));
        let (_, again, _) = open(&files[0].1).unwrap();
        assert_eq!(again.tensors.len(), model.tensors.len());
        assert!(!again.notes.join("\n").contains("left out"), "{:?}", again.notes);
    }
}

#[test]
fn a_tensor_in_such_a_value_is_not_lost() {
    let error = open(&bytes("module.ckpt")).map(drop).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    for word in ["`hyper_parameters.settings.net`", "`torch.nn.modules.linear.Linear`", "contains tensors"] {
        assert!(error.message().contains(word), "{word} is not in: {error}");
    }
    assert!(error.message().contains("nothing was executed") && error.offset().is_some(), "{error}");
    assert!(error.hint_text().is_some_and(|hint| hint.contains("--prefix")), "{:?}", error.hint_text());
    // Wherever it hides: in arguments, a state, items, another such value; or as the whole.
    let held = || tensor(storage("FloatStorage", 4), 0, &[4], &[1]);
    let made = || call("a.b", "C", &[]);
    let entry = |value: Vec<u8>| [b"}".to_vec(), text("x"), value, b"s".to_vec()].concat();
    let list = || [b"(".to_vec(), held(), b"l".to_vec()].concat();
    for hidden in [
        call("a.b", "C", &[held()]),
        [global("a.b", "C"), tuple(&[held()]), b"\x81".to_vec()].concat(),
        [global("a.b", "C"), b")".to_vec(), entry(held()), b"\x92".to_vec()].concat(),
        [made(), entry(list()), b"b".to_vec()].concat(),
        [made(), held(), b"a".to_vec()].concat(),
        [made(), text("k"), held(), b"s".to_vec()].concat(),
        call("a.b", "D", &[call("a.b", "C", &[held()])]),
        call("a.b", "C", &[storage("FloatStorage", 4)]),
    ] {
        let error = open(&checkpoint(&pickle(&entry(hidden.clone())), 16)).map(drop).unwrap_err();
        assert!(error.message().contains("`x` is created by `a.b."), "{error}");
        assert!(open(&checkpoint(&pickle(&hidden), 16)).is_err());
    }
    assert!(open(&checkpoint(&pickle(&entry(made())), 16)).is_ok());
}

#[test]
fn what_holds_itself_is_followed_once() {
    // An object whose state holds it, as trees of settings do.
    let node = [global("a.b", "C"), b")\x81q\0}".to_vec(), text("parent"), b"h\0sb".to_vec()].concat();
    let begun = std::time::Instant::now();
    let many = [b"(".to_vec(), node, b"h\0".repeat(50_000), b"l".to_vec()].concat();
    let (_, model, _) = open(&checkpoint(&pickle(&many), 0)).unwrap();
    assert!(model.notes.join("\n").contains("a.b.C (50001)"), "{:?}", model.notes);
    assert!(begun.elapsed().as_secs() < 10);
}

#[test]
fn what_could_run_code_is_still_refused_whole() {
    for (module, name) in [("functools", "partial"), ("copyreg", "_reconstructor"), ("os", "system")] {
        let object = [b"}".to_vec(), text("x"), call(module, name, &[text("id")]), b"s".to_vec()].concat();
        for file in [checkpoint(&pickle(&object), 16), stream(&pickle(&object))] {
            let error = open(&file).map(drop).unwrap_err();
            assert!(error.message().contains(&format!("`{module}.{name}`")), "{error}");
            assert!(below(&file, "y").is_err());
        }
    }
    // Nor does an unknown name make a tensor, a type or a storage.
    let object = call("torch._utils", "_rebuild_tensor_v2", &[call("a", "B", &[]), int(0)]);
    assert!(open(&checkpoint(&pickle(&object), 16)).is_err());
    let id = tuple(&[text("storage"), global("a", "FloatStorage"), text("0"), text("cpu"), int(4)]);
    assert!(open(&checkpoint(&pickle(&[id, b"Q".to_vec()].concat()), 16)).is_err());
}

#[test]
fn numbers_of_more_than_64_bits_are_kept() {
    let mut forms = Vec::new();
    for file in ["big_numbers.pt", "protocol_1.pt"] {
        let (_, model, _) = open(&crate::fixture::bytes(file)).unwrap_or_else(|e| panic!("{file}: {e}"));
        let tree = value(&model, "apr.tree");
        let tree = tree.as_str().unwrap().to_owned();
        for number in ["000000000000000001", "ffffffffffffff7fff", "000000000000000002"] {
            assert!(tree.contains(&format!("{{\"n\":\"{number}\"}}")), "{number} is not in {tree}");
        }
        assert_eq!(value(&model, "exact"), Value::from_i64(i64::MIN));
        forms.push(tree);
    }
    assert_eq!(forms[0], forms[1], "the same numbers, in binary and as text");
}
