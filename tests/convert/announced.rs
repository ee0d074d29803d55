//! What announces packed weights: it is read once, followed or refused by name, and gone once nothing is packed.

use crate::packed::{case, dequantizing, tensors, to, write};
use crate::unpacked::{fixtures, folder};
use apr_engine::open::{OpenOptions, open};
use apr_host::convert::{ConvertOptions, convert};
use apr_sdk::{DType as T, ErrorKind};
use apr_tests::{Scratch, host, must};
use serde_json::{Map, Value as Json, json};

/// So many that reading the configuration for each would take minutes.
const PLACES: usize = 10_000;

#[test]
fn a_configuration_that_announces_in_many_places_is_read_once() {
    let (host, scratch) = (host(), Scratch::in_memory());
    let mut places = Map::new();
    for number in 0..PLACES {
        let said = json!({"quant_method": format!("method-{number}"), "bits": 4});
        places.insert(format!("part_{number:05}"), json!({ "quantization_config": said }));
    }
    let folder = scratch.at("many");
    write(
        &folder,
        &case("many", "", Json::Object(places), |out, inner| vec![(".weight", T::I8, vec![out, inner])]),
    );
    let done = must(&host, &to("safetensors", &folder, &scratch.at("copy.safetensors")));
    assert!(
        done.notes.iter().any(|note| note.contains("packed as `method-0` (`part_00000.quantization_config`")),
        "{:?}",
        done.notes
    );
}

#[test]
fn a_method_that_nobody_knows_is_copied_with_a_note_and_never_unpacked() {
    let (host, scratch) = (host(), Scratch::in_memory());
    for (name, fixture) in fixtures() {
        let input = scratch.at(&name);
        folder(&fixture, &input);
        for file in ["hf_quant_config.json", "quantize_config.json", "quant_config.json"] {
            let _ = std::fs::remove_file(input.join(file));
        }
        let config = std::fs::read_to_string(input.join("config.json")).unwrap();
        let mut config: Json = serde_json::from_str(&config).unwrap();
        let config_of = config.as_object_mut().unwrap();
        config_of.retain(|key, _| !["quantization", "compression_config"].contains(&key.as_str()));
        config_of.insert("quantization_config".into(), json!({"quant_method": "foo-quant", "bits": 4}));
        std::fs::write(input.join("config.json"), config.to_string()).unwrap();
        let output = scratch.at(&format!("{name}.safetensors"));
        let done = must(&host, &to("safetensors", &input, &output));
        let says =
            |line: &String| line.contains("packed as `foo-quant`") && line.contains("copied as they are");
        assert!(done.notes.iter().any(says), "{name}: {:?}", done.notes);
        assert_eq!(tensors(&host, &output), tensors(&host, &input), "{name}");
        let output = scratch.at(&format!("{name}.unpacked.safetensors"));
        let options = ConvertOptions { quantization: dequantizing(), ..to("safetensors", &input, &output) };
        let error = convert(&host, &options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{name}: {error}");
        assert!(error.message().contains("`foo-quant`"), "{name}: {error}");
        assert!(!output.exists(), "{name}");
    }
}

#[test]
fn marks_of_packed_layers_are_gone_with_what_they_speak_of() {
    let (host, scratch) = (host(), Scratch::in_memory());
    let mut n = 0;
    for (name, fixture) in fixtures().into_iter().filter(|(name, _)| name.starts_with("comfy-")) {
        // Single files, as their users have them, and a folder.
        let (file, input) = (fixture.join("model.safetensors"), scratch.at(&name));
        folder(&fixture, &input);
        for (from, way) in [(&file, "file"), (&input, "folder")] {
            let output = scratch.at(&format!("{name}-{way}.safetensors"));
            let mut options =
                ConvertOptions { quantization: dequantizing(), ..to("safetensors", from, &output) };
            options.bare = way == "file";
            must(&host, &options);
            let model = open(&host, &output, &OpenOptions::default()).unwrap().model;
            let marks =
                ["comfy_quant", "scaled_fp8", "scale_weight", "weight_scale", "input_scale", "scale_input"];
            let left: Vec<&str> = model.tensors.iter().map(|tensor| tensor.name.as_str()).collect();
            assert!(
                !left.iter().any(|name| marks.iter().any(|mark| name.contains(mark))),
                "{name}: {left:?}"
            );
            let bytes = std::fs::read(&output).unwrap();
            let key = b"_quantization_metadata";
            assert!(!bytes.windows(key.len()).any(|piece| piece == key), "{name}, {way}");
            n += 1;
        }
        // What is copied keeps them.
        let output = scratch.at(&format!("{name}-copy.safetensors"));
        must(&host, &ConvertOptions { bare: true, ..to("safetensors", &file, &output) });
        assert_eq!(tensors(&host, &output), tensors(&host, &file), "{name}");
        assert_eq!(std::fs::read(&output).unwrap(), std::fs::read(&file).unwrap(), "{name}");
    }
    assert!(n >= 12, "{n}");
}

#[test]
fn what_announces_and_cannot_be_read_is_refused_with_its_file_and_never_passed_over() {
    let (host, scratch) = (host(), Scratch::in_memory());
    let (_, fixture) = fixtures().into_iter().find(|(name, _)| name == "modelopt-nvfp4").unwrap();
    let file = "hf_quant_config.json";
    let said = std::fs::read(fixture.join(file)).unwrap();
    let wide = [vec![0xff, 0xfe], said.iter().flat_map(|byte| [*byte, 0]).collect()].concat();
    for (name, bytes, words) in [
        ("marked", [b"\xef\xbb\xbf".to_vec(), said.clone()].concat(), "byte order mark"),
        ("wide", wide, "UTF-16"),
        ("latin", b"{\"a\": \"\xe9\"}".to_vec(), "not valid UTF-8"),
        ("cut", said[..said.len() / 2].to_vec(), "is not valid JSON"),
        ("empty", Vec::new(), "is not valid JSON"),
    ] {
        let input = scratch.at(name);
        folder(&fixture, &input);
        std::fs::write(input.join(file), bytes).unwrap();
        let output = scratch.at("unpacked.safetensors");
        let options = ConvertOptions { quantization: dequantizing(), ..to("safetensors", &input, &output) };
        let error = convert(&host, &options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed, "{name}: {error}");
        assert!(error.message().contains(words), "{name}: {error}");
        assert!(error.file().is_some_and(|shown| shown.ends_with(file)), "{name}: {error}");
        assert!(!output.exists(), "{name}");
        // A copy is exact.
        must(&host, &to("safetensors", &input, &scratch.at(&format!("{name}.safetensors"))));
    }
}

#[test]
fn statements_that_are_no_objects_or_name_nothing_are_not_passed_over() {
    let (host, scratch) = (host(), Scratch::in_memory());
    let (_, fixture) = fixtures().into_iter().find(|(name, _)| name == "fp8-static").unwrap();
    for (name, said) in [
        ("text", json!("gptq")),
        ("list", json!(["gptq"])),
        ("number", json!(4)),
        ("other", json!({"foo": 1})),
    ] {
        let input = scratch.at(name);
        folder(&fixture, &input);
        let config = std::fs::read_to_string(input.join("config.json")).unwrap();
        let mut config: Json = serde_json::from_str(&config).unwrap();
        config["quantization_config"] = said;
        std::fs::write(input.join("config.json"), config.to_string()).unwrap();
        let options = ConvertOptions {
            quantization: dequantizing(),
            ..to("safetensors", &input, &scratch.at("unpacked.safetensors"))
        };
        let error = convert(&host, &options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{name}: {error}");
        assert!(error.message().contains("`quantization_config` in config.json"), "{name}: {error}");
    }
}
