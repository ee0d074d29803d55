//! Weights that torchao describes in the metadata of SafeTensors files: a copy keeps the description, true values have none, and a part
//! that it lists is missed, however the tensors are spread over files.

use crate::packed::{dequantizing, files, tensors, to};
use apr_host::convert::{ConvertOptions, convert};
use apr_host::host::Host;
use apr_sdk::{Error, ErrorKind};
use apr_tests::{Scratch, host, must, root};
use serde_json::{Map, Value as Json, json};
use std::path::Path;

/// A tensor: its name, its entry of the header, its bytes.
type Stored = (String, Json, Vec<u8>);

/// The tensors of the fixture, in three parts besides a norm, and its metadata, in which the norm is described, too.
fn fixture() -> (Vec<Stored>, Map<String, Json>) {
    let path = root().join("tests/packed/fixtures/torchao-nvfp4/model.safetensors");
    let file = std::fs::read(path).unwrap();
    let (len, rest) = file.split_first_chunk::<8>().unwrap();
    let (header, data) = rest.split_at(usize::try_from(u64::from_le_bytes(*len)).unwrap());
    let mut header: Map<String, Json> = serde_json::from_slice(header).unwrap();
    let Some(Json::Object(mut metadata)) = header.remove("__metadata__") else { panic!("it has metadata") };
    metadata["tensor_names"] = r#"["model.layers.0.mlp.up_proj.weight", "model.norm.weight"]"#.into();
    metadata.insert("model.norm.weight".into(), r#"{"_type": "Tensor"}"#.into());
    let of = |(name, entry): (String, Json)| {
        let at = |n: usize| usize::try_from(entry["data_offsets"][n].as_u64().unwrap()).unwrap();
        let bytes = data[at(0)..at(1)].to_vec();
        (name, entry, bytes)
    };
    (header.into_iter().map(of).collect(), metadata)
}

fn write(path: &Path, tensors: &[Stored], metadata: &Map<String, Json>) {
    let (mut header, mut data) = (Map::new(), Vec::new());
    header.insert("__metadata__".to_owned(), metadata.clone().into());
    for (name, entry, bytes) in tensors {
        let mut entry = entry.clone();
        entry["data_offsets"] = json!([data.len(), data.len() + bytes.len()]);
        data.extend(bytes);
        header.insert(name.clone(), entry);
    }
    let header = Json::Object(header).to_string();
    let file = [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat();
    std::fs::write(path, file).unwrap();
}

/// A folder of shards, each with metadata of its own.
fn shards(folder: &Path, shards: &[(Vec<Stored>, Map<String, Json>)]) {
    std::fs::create_dir_all(folder).unwrap();
    let mut map = Map::new();
    for (n, (tensors, metadata)) in shards.iter().enumerate() {
        let name = format!("model-{:05}-of-{:05}.safetensors", n + 1, shards.len());
        write(&folder.join(&name), tensors, metadata);
        map.extend(tensors.iter().map(|tensor| (tensor.0.clone(), name.clone().into())));
    }
    let index = json!({"metadata": {}, "weight_map": map}).to_string();
    std::fs::write(folder.join("model.safetensors.index.json"), index).unwrap();
    let config = root().join("tests/packed/fixtures/torchao-nvfp4/config.json");
    std::fs::copy(config, folder.join("config.json")).unwrap();
}

fn unpacking(input: &Path, output: &Path) -> ConvertOptions {
    ConvertOptions {
        quantization: dequantizing(),
        arch: Some("none".to_owned()),
        ..to("safetensors", input, output)
    }
}

fn refused(host: &Host, input: &Path, scratch: &Scratch) -> Error {
    let output = scratch.at("refused.safetensors");
    let error = convert(host, &unpacking(input, &output)).unwrap_err();
    assert!(!output.exists());
    assert_eq!(error.kind(), ErrorKind::Malformed, "{error}");
    error
}

#[test]
fn a_copy_keeps_the_description_and_true_values_have_none() {
    let (host, scratch) = (host(), Scratch::in_memory());
    let (stored, metadata) = fixture();
    let (input, copy, plain) =
        (scratch.at("in.safetensors"), scratch.at("copy.safetensors"), scratch.at("plain.safetensors"));
    write(&input, &stored, &metadata);
    // A file alone, which no configuration announces.
    must(&host, &ConvertOptions { arch: Some("none".to_owned()), ..to("safetensors", &input, &copy) });
    assert_eq!(std::fs::read(&copy).unwrap(), std::fs::read(&input).unwrap());
    must(&host, &unpacking(&input, &plain));
    let bytes = std::fs::read(&plain).unwrap();
    let text = String::from_utf8_lossy(&bytes);
    assert!(!text.contains("_type") && !text.contains("tensor_names"), "{text:.400}");
    assert!(text.contains(r#""format":"pt""#), "{text:.400}");
    assert_eq!(tensors(&host, &plain).len(), 2);
    // Another format carries the description as metadata that is not its own: of that nothing stays either.
    let (folder, carried) = (scratch.at("folder"), scratch.at("carried.apr"));
    shards(&folder, &[(stored, metadata)]);
    must(&host, &ConvertOptions { arch: Some("none".to_owned()), ..to("apr", &folder, &carried) });
    std::fs::remove_file(&plain).unwrap();
    must(&host, &unpacking(&carried, &plain));
    let bytes = std::fs::read(&plain).unwrap();
    let text = String::from_utf8_lossy(&bytes);
    assert!(!text.contains(r#""_type\"#) && !text.contains("tensor_names"), "{text:.600}");
}

#[test]
fn renamed_tensors_have_no_description_by_their_old_names() {
    let (host, scratch) = (host(), Scratch::in_memory());
    let (stored, metadata) = fixture();
    let (input, folder, carried) =
        (scratch.at("in.safetensors"), scratch.at("folder"), scratch.at("carried.apr"));
    write(&input, &stored, &metadata);
    shards(&folder, &[(stored, metadata)]);
    must(&host, &ConvertOptions { arch: Some("none".to_owned()), ..to("apr", &folder, &carried) });
    let renames = |new: &str| vec![("*up_proj._weight_*".to_owned(), format!("*{new}._weight_*"))];
    for from in [&input, &folder, &carried] {
        let copy = scratch.at("copy.safetensors");
        let renamed = ConvertOptions {
            arch: Some("none".to_owned()),
            renames: renames("top_proj"),
            ..to("safetensors", from, &copy)
        };
        let done = must(&host, &renamed);
        let says =
            |warning: &String| warning.contains("not carried") && warning.contains("uses the old names");
        assert!(done.warnings.iter().any(says), "{:?}", done.warnings);
        let bytes = std::fs::read(&copy).unwrap();
        let text = String::from_utf8_lossy(&bytes);
        assert!(!text.contains("_tensor_data_names") && !text.contains("tensor_names"), "{text:.600}");
        // Types and shapes still tell.
        let plain = scratch.at("plain.safetensors");
        must(&host, &unpacking(&copy, &plain));
        assert!(tensors(&host, &plain).iter().any(|one| one.0 == "model.layers.0.mlp.top_proj.weight"));
        std::fs::remove_file(&copy).unwrap();
        std::fs::remove_file(&plain).unwrap();
        // What keeps its names keeps its description.
        must(&host, &ConvertOptions { renames: Vec::new(), ..renamed });
        let bytes = std::fs::read(&copy).unwrap();
        assert!(String::from_utf8_lossy(&bytes).contains("tensor_names"));
        std::fs::remove_file(&copy).unwrap();
    }
}

#[test]
fn a_part_that_the_description_lists_is_missed_with_and_without_configuration() {
    let (host, scratch) = (host(), Scratch::in_memory());
    let (mut stored, metadata) = fixture();
    stored.retain(|tensor| !tensor.0.ends_with("per_tensor_scale"));
    let (alone, folder) = (scratch.at("alone.safetensors"), scratch.at("folder"));
    write(&alone, &stored, &metadata);
    shards(&folder, &[(stored.clone(), metadata.clone())]);
    for input in [&alone, &folder] {
        let error = refused(&host, input, &scratch);
        assert_eq!(error.tensor_name(), Some("model.layers.0.mlp.up_proj.weight"), "{error}");
        assert!(error.message().contains("lists `per_tensor_scale`"), "{error}");
    }
}

#[test]
fn shards_describe_their_weights_each_for_itself_or_all_of_them() {
    let (host, scratch) = (host(), Scratch::in_memory());
    let (stored, metadata) = fixture();
    let mut silent = metadata.clone();
    silent.retain(|key, _| key == "format");
    let mut other = metadata.clone();
    let weight = &mut other["model.layers.0.mlp.up_proj.weight"];
    *weight = weight.as_str().unwrap().replace("16", "32").into();
    // The same, in other words.
    let mut spaced = metadata.clone();
    let weight = &mut spaced["model.layers.0.mlp.up_proj.weight"];
    let json: Json = serde_json::from_str(weight.as_str().unwrap()).unwrap();
    *weight = serde_json::to_string_pretty(&json).unwrap().into();
    assert_ne!(spaced, metadata);
    let of =
        |end: &dyn Fn(&str) -> bool| stored.iter().filter(|one| end(&one.0)).cloned().collect::<Vec<_>>();
    let (one, two) = (of(&|name| name.ends_with("qdata")), of(&|name| !name.ends_with("qdata")));
    for (name, metadata_of_two) in [("each", &metadata), ("one", &silent), ("spaced", &spaced)] {
        let (folder, plain) = (scratch.at(name), scratch.at(&format!("{name}.safetensors")));
        shards(&folder, &[(one.clone(), metadata.clone()), (two.clone(), metadata_of_two.clone())]);
        must(&host, &unpacking(&folder, &plain));
        assert_eq!(tensors(&host, &plain).len(), 2);
        let copy = scratch.at(&format!("{name}-copy"));
        must(&host, &ConvertOptions { arch: Some("none".to_owned()), ..to("huggingface", &folder, &copy) });
        assert_eq!(files(&copy), files(&folder), "{name}");
    }
    let folder = scratch.at("differ");
    shards(&folder, &[(one, metadata), (two, other)]);
    let error = refused(&host, &folder, &scratch);
    assert!(error.message().contains("two files describes it differently"), "{error}");
}
