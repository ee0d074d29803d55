//! What a configuration states comes before what tensors look like: every fixture under every method that is not its own. A folder more
//! is a case more.

use crate::fixtures::{folders, in_order};
use crate::folder::{Folder, expected};
use apr_sdk::{Announced, DERIVED, ErrorKind};
use serde_json::{Value as Json, json};
use std::path::Path;

/// Methods whose tensors are those of the same scheme: what one of them says of its own is followed.
const FAMILIES: [&[&str]; 3] = [&["gptq", "auto-round"], &["awq", "auto-round"], &["fp8", "fbgemm_fp8"]];

/// Methods that are known, each alone in its object.
const KNOWN: [&str; 16] = [
    "gptq",
    "awq",
    "auto-round",
    "fp8",
    "fbgemm_fp8",
    "compressed-tensors",
    "bitsandbytes",
    "hqq",
    "torchao",
    "mxfp4",
    "modelopt",
    "bitnet",
    "exl2",
    "aqlm",
    "quanto",
    "fp_quant",
];

/// A place that may announce, and what it says for a method that nobody knows.
fn unknown() -> Vec<(&'static str, &'static str, Json)> {
    let method = json!({"quant_method": "foo-quant", "bits": 4, "group_size": 32, "sym": true});
    vec![
        ("config.json", "quantization_config", method.clone()),
        ("config.json", "text_config.quantization_config", method.clone()),
        ("config.json", "compression_config", method.clone()),
        ("config.json", "quantization_config", json!({"foo": 1})),
        ("config.json", "quantization", json!({"mode": "foo"})),
        ("config.json", "quantization", json!({"quant_algo": "FOO"})),
        ("quantize_config.json", "", method.clone()),
        ("quant_config.json", "", method),
        ("hf_quant_config.json", "", json!({"foo": {"bits": 4}})),
    ]
}

fn announced(file: &str, key: &str, json: &Json) -> Announced {
    Announced { file: file.into(), key: key.into(), json: json.to_string() }
}

/// A fixture of which nothing is announced but this, and what the file's own reader says.
fn under(path: &Path, one: Announced, keeps_own: bool) -> Folder {
    let mut folder = Folder::read(path);
    folder.model.announced.retain(|before| keeps_own && before.key == DERIVED);
    folder.model.announced.push(one);
    folder
}

fn name(path: &Path) -> String {
    path.file_name().unwrap().to_str().unwrap().to_owned()
}

/// The methods that a fixture states itself.
fn own(folder: &Folder) -> Vec<String> {
    let of = |one: &Announced| {
        let json: Json = serde_json::from_str(&one.json).unwrap();
        let is_modelopt = json.pointer("/quantization/quant_algo").is_some();
        let method = json.get("quant_method").and_then(Json::as_str).map(str::to_owned);
        method.or(is_modelopt.then(|| "modelopt".to_owned()))
    };
    folder.model.announced.iter().filter_map(of).collect()
}

#[test]
fn tensors_under_a_method_that_nobody_knows_are_not_unpacked() {
    for path in folders() {
        for (file, key, json) in unknown() {
            for keeps_own in [false, true] {
                let folder = under(&path, announced(file, key, &json), keeps_own);
                let what = format!("{} under {json} in {file}, `{key}`", name(&path));
                // Another plugin may know it, and so nothing is found; or what tensors say contradicts it.
                match folder.understood() {
                    Ok(understood) => assert!(understood.packed.is_empty(), "{what}"),
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Unsupported, "{what}: {error}"),
                }
            }
        }
    }
}

#[test]
fn tensors_under_another_method_are_refused_or_have_their_values() {
    for path in folders() {
        let own = own(&Folder::read(&path));
        for method in KNOWN.iter().filter(|method| !own.iter().any(|own| own == *method)) {
            let json = json!({"quant_method": method, "bits": 4, "group_size": 32});
            let folder = under(&path, announced("config.json", "quantization_config", &json), false);
            let what = format!("{} under `{method}`", name(&path));
            let is_kin = |family: &&[&str]| {
                family.contains(method) && own.iter().any(|own| family.contains(&own.as_str()))
            };
            let Ok(understood) = folder.understood() else { continue };
            if understood.packed.is_empty() || FAMILIES.iter().any(is_kin) {
                continue;
            }
            // What is stated may read the same tensors the same way.
            let expected = expected(&path);
            for weight in &understood.packed {
                let rows = 0..weight.rows.rows;
                let values = folder.unpack(weight, rows.clone(), rows).unwrap();
                let (_, want) = &expected[&weight.name];
                assert_eq!(&in_order(weight, &values), want, "{what}: {} is {}", weight.name, weight.about);
            }
        }
    }
}

#[test]
fn a_method_that_nobody_knows_beside_one_that_is_known_is_refused_by_name() {
    for path in folders() {
        let mut folder = Folder::read(&path);
        let is_stated = folder.model.announced.iter().any(|one| one.key != DERIVED);
        let json = json!({"quant_method": "foo-quant"});
        folder.model.announced.push(announced("config.json", "vision_config.quantization_config", &json));
        let what = name(&path);
        match folder.understood() {
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Unsupported, "{what}: {error}");
                assert!(
                    error.message().contains("`foo-quant` is not a known packing scheme"),
                    "{what}: {error}"
                );
            }
            Ok(understood) => assert!(understood.packed.is_empty() && !is_stated, "{what}"),
        }
    }
}

/// Ways to pack that a known method states and nobody knows: the fixture, what its configuration says, and what it says here.
const FORMS: [(&str, &str, &str); 15] = [
    ("ct-pack-int4", "\"format\":\"pack-quantized\"", "\"format\":\"foo-quantized\""),
    ("ct-float-block", "\"format\":\"float-quantized\"", "\"format\":\"foo-quantized\""),
    ("gptq-4-sym", "\"checkpoint_format\":\"gptq\"", "\"checkpoint_format\":\"foo\""),
    ("gptq-4-no-zeros", "\"checkpoint_format\":\"gptq\"", "\"checkpoint_format\":\"gptq_v9\""),
    ("gptq-4-sym", "\"bits\":4", "\"bits\":4,\"is_marlin_format\":true"),
    ("auto-round-gptq", "auto_round:auto_gptq", "auto_round:foo"),
    ("auto-round-gptq", "\"bits\":4", "\"bits\":4,\"data_type\":\"mx_foo\""),
    ("awq-gemm", "\"version\":\"gemm\"", "\"version\":\"foo\""),
    ("modelopt-fp8", "\"quant_algo\":\"FP8\"", "\"quant_algo\":\"FP8_FOO\""),
    ("modelopt-nvfp4", "\"quant_algo\":\"NVFP4\"", "\"quant_algo\":\"NVFP5\""),
    ("modelopt-int4-awq", "\"quant_algo\":\"W4A16_AWQ\"", "\"quant_algo\":\"W4A16_FOO\""),
    ("bitnet", "\"quant_method\":\"bitnet\"", "\"quant_method\":\"bitnet\",\"linear_class\":\"foolinear\""),
    ("mlx-nvfp4", "\"mode\":\"nvfp4\"", "\"mode\":\"foo4\""),
    ("comfy-nvfp4-metadata", "\"format\": \"nvfp4\"", "\"format\": \"foo4\""),
    ("comfy-nvfp4-metadata", "\"format\": \"nvfp4\"", "\"format\": \"nvfp4\", \"convrot\": true"),
];

#[test]
fn a_form_of_a_known_method_that_nobody_knows_is_refused_by_name() {
    for (fixture, from, to) in FORMS {
        let mut folder = Folder::read(&crate::folder::fixtures().join(fixture));
        for one in &mut folder.model.announced {
            one.json = one.json.replace(from, to);
        }
        assert!(folder.model.announced.iter().any(|one| one.json.contains(to)), "{fixture} {from}");
        let error = folder.understood().err().unwrap_or_else(|| panic!("{fixture} {to} is understood"));
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{fixture} {to}: {error}");
        let named = ["foo", "FOO", "v9", "marlin", "NVFP5", "convrot"]
            .iter()
            .any(|name| error.message().contains(name));
        assert!(named, "{fixture} {to}: {error}");
    }
}

#[test]
fn the_sides_of_a_block_may_be_text() {
    for (sides, is_right) in
        [("16x64", true), ("64x16", false), ("16", false), ("0x64", false), ("16x64x1", false)]
    {
        let mut folder = Folder::read(&crate::folder::fixtures().join("ct-float-block"));
        let stated =
            folder.model.announced.iter_mut().find(|one| one.json.contains("block_structure")).unwrap();
        let mut json: Json = serde_json::from_str(&stated.json).unwrap();
        *json.pointer_mut("/config_groups/group_0/weights/block_structure").unwrap() = sides.into();
        stated.json = json.to_string();
        assert_eq!(folder.understood().is_ok(), is_right, "{sides}");
    }
}

#[test]
fn a_packed_weight_that_a_scheme_s_own_words_leave_out_is_refused() {
    for (fixture, key, value, said) in [
        ("gptq-4-sym", "dynamic", json!({"-:.*": {}}), "`dynamic` leaves out"),
        ("gptq-4-sym", "dynamic", json!({"-:nothing": {}}), ""),
        ("mlx-4", "", json!(false), "false for"),
    ] {
        let weight = Folder::read(&crate::folder::fixtures().join(fixture)).understood().unwrap();
        let module = weight.packed[0].name.strip_suffix(".weight").unwrap().to_owned();
        let mut folder = Folder::read(&crate::folder::fixtures().join(fixture));
        let announced = folder.model.announced.iter_mut().find(|one| one.key != DERIVED).unwrap();
        let mut json: Json = serde_json::from_str(&announced.json).unwrap();
        json[if key.is_empty() { &module } else { key }] = value;
        announced.json = json.to_string();
        let error = folder.understood().err();
        let message = error.as_ref().map_or("", |error| error.message());
        assert!(message.contains(said) && message.is_empty() == said.is_empty(), "{fixture}: {error:?}");
    }
}

#[test]
fn a_packed_weight_of_a_module_that_is_stated_not_to_be_is_refused() {
    for (fixture, key) in [
        ("fp8-block-ue8m0", "modules_to_not_convert"),
        ("fp8-block-ue8m0", "ignored_layers"),
        ("awq-gemm", "modules_to_not_convert"),
        ("bnb-nf4", "llm_int8_skip_modules"),
        ("modelopt-fp8", "exclude_modules"),
    ] {
        let folder = Folder::read(&crate::folder::fixtures().join(fixture));
        let weight = folder.understood().unwrap().packed[0].name.clone();
        let module = weight.strip_suffix(".weight").unwrap();
        let last = module.rsplit('.').next().unwrap();
        for (entry, is_refused) in [(module, true), (last, true), (&last[1..], false), ("other", false)] {
            let mut other = Folder::read(&crate::folder::fixtures().join(fixture));
            let announced = other.model.announced.iter_mut().find(|one| one.key != DERIVED).unwrap();
            let mut json: Json = serde_json::from_str(&announced.json).unwrap();
            json[key] = json!([entry]);
            announced.json = json.to_string();
            let error = other.understood().err();
            let said = error.as_ref().is_some_and(|error| error.message().contains(key));
            assert_eq!(said, is_refused, "{fixture}, {key} lists {entry}: {error:?}");
        }
    }
}
