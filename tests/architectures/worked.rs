//! The architecture of the SDK's README, followed as it is written there: drafted, finished, checked, installed, used.

use crate::models::{goldens, name, opened, payload, sha256};
use apr_sdk::{LayoutRequest, Manifest, Value};
use apr_testkit::{Checkpoint, ModelFixture};
use apr_tests::commands::{Shell, blocks};
use apr_tests::{Scratch, host, root};
use serde_json::Value as Json;
use std::fs;
use std::path::Path;

/// Acme's model: the golden Llama, whose feed forward's two inputs lie in one tensor, and which states two keys otherwise.
fn acme(folder: &Path) -> Checkpoint {
    let golden = goldens().into_iter().find(|path| name(path) == "llama").unwrap();
    let llama = Checkpoint::golden(&golden).unwrap();
    let payload_of = |name: &str| {
        let tensor = llama.tensors().find(|tensor| tensor.name == name).unwrap();
        (tensor.dtype, tensor.shape.clone(), llama.payload(tensor).unwrap())
    };
    let mut model = ModelFixture::new().foreign("safetensors", "format", Value::from_string("pt"));
    for tensor in llama.tensors().filter(|tensor| !tensor.name.contains("up_proj")) {
        let (dtype, mut shape, mut bytes) = payload_of(&tensor.name);
        if tensor.name.contains("gate_proj") {
            // Rows behind rows: the bytes follow one another.
            bytes.extend(payload_of(&tensor.name.replace("gate_proj", "up_proj")).2);
            shape[0] *= 2;
        }
        model = model.tensor_with(&tensor.name.replace("gate_proj", "opens"), dtype, &shape, bytes);
    }
    let plugin = &apr_plugin_safetensors::PLUGIN;
    let writer = (plugin.writer)("safetensors").unwrap();
    let manifest = Manifest::parse(plugin.manifest).unwrap();
    let request = LayoutRequest::file("model.safetensors");
    let files = model.write(&*writer, &manifest.formats[0].carries, &request).unwrap();
    fs::create_dir_all(folder).unwrap();
    for (name, bytes) in llama.companions.iter().chain(&files) {
        fs::write(folder.join(name), bytes).unwrap();
    }
    let path = folder.join("config.json");
    let mut config: Json = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let members = config.as_object_mut().unwrap();
    let size = members.remove("intermediate_size").unwrap();
    members.insert("feed_size".to_owned(), size);
    members.insert("acme_version".to_owned(), 7.into());
    members.insert("model_type".to_owned(), "acme".into());
    members.insert("architectures".to_owned(), serde_json::json!(["AcmeForCausalLM"]));
    fs::write(path, config.to_string()).unwrap();
    llama
}

#[test]
fn the_architecture_of_the_sdks_readme_works_as_written() {
    let scratch = Scratch::new();
    let llama = acme(&scratch.at("acme"));
    let readme = fs::read_to_string(root().join("sdk/README.md")).unwrap();
    let mut shell = Shell::new(&scratch);
    let (mut n_commands, mut tables) = (0, Vec::new());
    for block in blocks(&readme, "## An architecture", None) {
        if block.language == "toml" {
            let draft = fs::read_to_string(scratch.at("acme.toml")).unwrap();
            for wanted in ["base = \"llama\"", "mlp.opens.weight", "feed_size", "acme_version", "# ?"] {
                assert!(draft.contains(wanted), "{wanted}: {draft}");
            }
            fs::write(scratch.at("acme.toml"), &block.text).unwrap();
            tables.push(block.text);
            continue;
        }
        for (command, _) in block.commands() {
            shell.run(&command);
            n_commands += 1;
        }
    }
    assert_eq!((n_commands, tables.len()), (6, 1), "the section has other commands");

    shell.run("apr diff acme/model.safetensors back --bare --tolerance 0");

    // What llama.cpp reads is the Llama that it was made of, and a key more.
    let model = opened(&host(), &scratch.at("acme.gguf"));
    assert_eq!(model.stated("acme.version").and_then(|value| value.as_u32()), Some(7));
    let golden = goldens().into_iter().find(|path| name(path) == "llama").unwrap();
    let golden: Json = serde_json::from_slice(&fs::read(golden.join("golden.json")).unwrap()).unwrap();
    let wanted = golden["tensors"].as_array().unwrap();
    assert_eq!((model.model.tensors.len(), wanted.len()), (llama.tensors().count(), llama.tensors().count()));
    for tensor in wanted {
        let have = model.model.tensors.iter().find(|t| t.name == tensor["name"].as_str().unwrap());
        let have = have.unwrap_or_else(|| panic!("the file lacks {}", tensor["name"]));
        assert_eq!(sha256(&payload(&model, have)), tensor["sha256"].as_str().unwrap(), "{}", have.name);
    }
    let config: Json = serde_json::from_slice(&fs::read(scratch.at("back/config.json")).unwrap()).unwrap();
    assert_eq!((&config["model_type"], &config["acme_version"]), (&"acme".into(), &7.into()));
    assert!(config["feed_size"].is_u64() && config.get("intermediate_size").is_none(), "{config}");
}
