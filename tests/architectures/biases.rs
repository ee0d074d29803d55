//! Configurations say whether there are biases, GGUF files do not: there the tensors do. What comes back has to say it again,
//! since the library drops biases that it is not told of.

use crate::back::{config, tensors, to};
use crate::models::{goldens, name};
use crate::refused::tried;
use apr_sdk::ErrorKind;
use apr_testkit::{Checkpoint, SeededTensor};
use apr_tests::{Scratch, host, program, root};
use serde_json::Value as Json;
use std::fs;
use std::path::Path;

/// What configurations call it, whether `true` means that there are some, and parts of the names of the weights it is about.
const SWITCHES: &[(&str, bool, &[&str])] = &[
    ("attention_bias", true, &["self_attn.", ".attention."]),
    ("bias", true, &["self_attention.", "self_attn.", ".mlp."]),
    ("mlp_bias", true, &[".mlp."]),
    ("mlp_fc1_bias", true, &[".mlp.fc11.", ".mlp.fc12."]),
    ("mlp_fc2_bias", true, &[".mlp.fc2."]),
    ("no_bias", false, &["norm", "Wqkv", "out_proj", "up_proj", "down_proj"]),
    ("qkv_bias", true, &["q_proj", "k_proj", "v_proj"]),
    ("qkv_proj_bias", true, &["Wqkv"]),
    ("use_bias", true, &["self_attn.", ".mlp."]),
    ("use_qkv_bias", true, &["q_proj", "k_proj", "v_proj"]),
];

/// Switches that a golden's configuration leaves to the library, and the library's choice.
const UNSAID: &[(&str, &str, bool)] =
    &[("gpt-neox", "attention_bias", true), ("qwen2-moe", "qkv_bias", true)];

/// Gives the weights that a switch is about biases, or takes them away.
fn switch(model: &mut Checkpoint, biased: bool, parts: &[&str]) {
    for (_, shard) in &mut model.shards {
        let is_meant = |tensor: &&SeededTensor| parts.iter().any(|part| tensor.name.contains(part));
        let bias = |tensor: &SeededTensor| {
            let name = format!("{}.bias", tensor.name.strip_suffix(".weight")?);
            Some(SeededTensor { name, dtype: tensor.dtype, shape: vec![tensor.shape[0]], center: 0.0 })
        };
        // A norm of layers with a bias is not about these, unless the switch is about norms too.
        let is_norm = |name: &str| name.contains("norm") && !parts.contains(&"norm");
        let new: Vec<_> =
            shard.iter().filter(is_meant).filter(|t| !is_norm(&t.name)).filter_map(bias).collect();
        shard.retain(|old| new.iter().all(|bias| bias.name != old.name));
        if biased {
            shard.extend(new);
        }
    }
}

#[test]
fn what_comes_back_of_a_model_says_whether_it_has_biases() {
    let host = host();
    let (mut failed, mut refused) = (Vec::new(), Vec::new());
    for path in &goldens() {
        let golden = name(path);
        for (key, positive, parts) in SWITCHES {
            let (mut model, scratch) = (Checkpoint::golden(path).unwrap(), Scratch::new());
            let (_, bytes) = model.companions.iter_mut().find(|(name, _)| name == "config.json").unwrap();
            let mut said: Json = serde_json::from_slice(bytes).unwrap();
            let unsaid = UNSAID.iter().find(|(model, of, _)| (*model, *of) == (golden, *key));
            // What a nested object states is not the root's to say.
            let nested = said.as_object().unwrap().values().filter_map(Json::as_object);
            if nested.into_iter().any(|inside| inside.contains_key(*key)) {
                continue;
            }
            let Some(was) = said[key].as_bool().or(unsaid.map(|(_, _, was)| *was)) else { continue };
            said[key] = (!was).into();
            *bytes = said.to_string().into_bytes();
            switch(&mut model, was != *positive, parts);
            let (folder, file, back) = (scratch.at(&model.name), scratch.at("m.gguf"), scratch.at("back"));
            model.write_to(&folder).unwrap();
            match tried(&host, "gguf", &folder, &file) {
                Ok(_) => {}
                Err(error) if matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::Malformed) => {
                    refused.push((golden.to_owned(), *key));
                    continue;
                }
                Err(error) => panic!("{golden}, {key}: {error:?}"),
            }
            to(&host, "huggingface", &file, &back);
            let biases = |folder| {
                let all = tensors(&host, folder).into_keys();
                all.filter(|name| name.ends_with(".bias")).collect::<Vec<_>>()
            };
            let (before, after) = (biases(&folder), biases(&back));
            // Masks that old checkpoints carry have such names.
            let lost: Vec<_> =
                before.iter().filter(|b| !after.contains(b) && !b.ends_with("attention.bias")).collect();
            if !lost.is_empty() || after.iter().any(|name| !before.contains(name)) {
                failed.push(format!("{golden}, {key}: lost {lost:?}"));
            }
            let inside = format!(".{key}");
            let told = config(&back).into_iter().find(|(name, _)| name == key || name.ends_with(&inside));
            let told = told.map(|(_, value)| value);
            if told.as_ref().and_then(Json::as_bool) != Some(!was) {
                failed.push(format!("{golden}: {key} is {} there, and {told:?} when it comes back", !was));
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
    // What llama.cpp has no such tensors for, or no model without; `BLESS=1` writes it.
    let listed = serde_json::to_string_pretty(&refused).unwrap() + "\n";
    let at = root().join("tests/architectures/biases.json");
    if std::env::var_os("BLESS").is_some() {
        fs::write(at, listed).unwrap();
    } else {
        assert_eq!(
            listed,
            fs::read_to_string(&at).unwrap_or_default(),
            "what is refused is not what {} says",
            at.display()
        );
    }
}

/// What configurations call norms and biases of other kinds, whether `true` means that there are some, of which golden, and a
/// tensor that it has.
const OTHERS: &[(&str, &str, bool, &str)] = &[
    ("bamba", "mamba_conv_bias", true, "model.layers.0.mamba.conv1d.bias"),
    ("falcon-h1", "mamba_conv_bias", true, "model.layers.0.mamba.conv1d.bias"),
    ("falcon-h1", "mamba_rms_norm", true, "model.layers.0.mamba.norm.weight"),
    ("glm4-moe", "use_qk_norm", true, "model.layers.0.self_attn.q_norm.weight"),
    ("granite-hybrid", "mamba_conv_bias", true, "model.layers.0.mamba.conv1d.bias"),
    ("lfm2-moe", "use_expert_bias", true, "model.layers.1.feed_forward.expert_bias"),
    ("nemotron-h", "use_conv_bias", true, "backbone.layers.0.mixer.conv1d.bias"),
    ("stablelm", "use_parallel_residual", false, "model.layers.0.post_attention_layernorm.weight"),
];

/// A golden that has the tensors of a switch, with a configuration that denies them; `None` if it has no such switch or tensors.
fn denying(path: &Path, key: &str, positive: bool, parts: &[&str]) -> Option<Checkpoint> {
    let mut model = Checkpoint::golden(path).unwrap();
    let (_, bytes) = model.companions.iter_mut().find(|(name, _)| name == "config.json").unwrap();
    let mut said: Json = serde_json::from_slice(bytes).unwrap();
    if said[key].is_null() && !parts.is_empty() {
        return None;
    }
    said[key] = (!positive).into();
    *bytes = said.to_string().into_bytes();
    switch(&mut model, true, parts);
    let is_bias = |name: &str| name.ends_with(".bias") && parts.iter().any(|part| name.contains(part));
    let has = parts.is_empty() || model.tensors().any(|tensor| is_bias(&tensor.name));
    has.then_some(model)
}

#[test]
fn a_configuration_that_denies_tensors_which_are_there_is_refused() {
    let (host, mut wrong) = (host(), Vec::new());
    let of_biases = goldens().into_iter().flat_map(|path| {
        SWITCHES.iter().filter_map(move |(key, positive, parts)| {
            Some((name(&path).to_owned(), *key, denying(&path, key, *positive, parts)?, ""))
        })
    });
    let of_others = OTHERS.iter().filter_map(|(golden, key, positive, tensor)| {
        let path = root().join("tests/golden").join(golden);
        Some(((*golden).to_owned(), *key, denying(&path, key, *positive, &[])?, *tensor))
    });
    for (golden, key, model, tensor) in of_biases.chain(of_others) {
        let (scratch, what) = (Scratch::new(), format!("{golden}, {key}"));
        let (folder, file) = (scratch.at(&model.name), scratch.at("m.gguf"));
        model.write_to(&folder).unwrap();
        match tried(&host, "gguf", &folder, &file) {
            Err(error) if matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::Malformed) => {
                let words = error.message();
                let is_named = words.contains(&format!("`{key}`")) && words.contains(tensor);
                if !tensor.is_empty() && !is_named {
                    wrong.push(format!("{what}: {error:?}"));
                }
            }
            Err(error) => wrong.push(format!("{what}: {error:?}")),
            Ok(_) => wrong.push(format!("{what}: was converted")),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_head_that_is_tied_and_has_values_of_its_own_is_told_of() {
    let (golden, scratch) = (root().join("tests/golden/llama"), Scratch::new());
    let mut model = Checkpoint::golden(&golden).unwrap();
    let (_, bytes) = model.companions.iter_mut().find(|(name, _)| name == "config.json").unwrap();
    let mut said: Json = serde_json::from_slice(bytes).unwrap();
    said["tie_word_embeddings"] = true.into();
    *bytes = said.to_string().into_bytes();
    let folder = scratch.at("llama");
    model.write_to(&folder).unwrap();
    let told = |name: &str| {
        let mut command = std::process::Command::new(program());
        command.arg("convert").arg(&folder).arg(scratch.at(name)).env("NO_COLOR", "1");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stderr).unwrap()
    };
    let words = "`tie_word_embeddings` is true, but `lm_head.weight` and `model.embed_tokens.weight` have \
                 different values";
    let own = told("own.gguf");
    assert!(own.contains(words), "{own}");
    // The same values are those of the embedding.
    let path = folder.join("model.safetensors");
    let mut weights = fs::read(&path).unwrap();
    let len = usize::try_from(u64::from_le_bytes(weights[..8].try_into().unwrap())).unwrap();
    let header: Json = serde_json::from_slice(&weights[8..8 + len]).unwrap();
    let range = |name: &str| {
        let at = |n: usize| usize::try_from(header[name]["data_offsets"][n].as_u64().unwrap()).unwrap();
        8 + len + at(0)..8 + len + at(1)
    };
    let embedding = weights[range("model.embed_tokens.weight")].to_vec();
    weights[range("lm_head.weight")].copy_from_slice(&embedding);
    fs::write(&path, weights).unwrap();
    let same = told("same.gguf");
    assert!(!same.contains("tie_word_embeddings"), "{same}");
}
