//! Models to be served: small ones that convert, and headers of large ones whose payload nobody wrote.

use serde_json::{Map, Value, json};

use super::server::encoding::sha256;
use super::server::hub::{File, Repository};
use super::server::{Content, FileServer, Habit, Options};

/// A SafeTensors file with tensors `NAME.0`, `NAME.1`, … of so many rows of 64 floats, whose payload differs from seed to
/// seed.
pub fn safetensors(name: &str, tensors: u64, rows: u64, seed: u64) -> Content {
    let mut header = Map::new();
    let len = rows * 64 * 4;
    for n in 0..tensors {
        let entry = json!({ "dtype": "F32", "shape": [rows, 64], "data_offsets": [n * len, (n + 1) * len] });
        header.insert(format!("{name}.{n}"), entry);
    }
    let text = Value::Object(header).to_string();
    let mut head = (text.len() as u64).to_le_bytes().to_vec();
    head.extend_from_slice(text.as_bytes());
    numbers(tensors * len, seed).after(head)
}

/// Floats between 0.5 and 1, which every check takes for weights.
fn numbers(len: u64, seed: u64) -> Content {
    let bits = Content::pattern(len, seed);
    Content::generated(len, move |offset, wanted| {
        let skipped = (offset % 4) as usize;
        let mut bytes = bits.at(offset - skipped as u64, skipped + wanted.next_multiple_of(4) + 4);
        for float in bytes.chunks_exact_mut(4) {
            let word = u32::from_le_bytes([float[0], float[1], float[2], float[3]]);
            float.copy_from_slice(&(0x3f00_0000 | word >> 9).to_le_bytes());
        }
        bytes[skipped..skipped + wanted].to_vec()
    })
}

/// A GGUF header of about so many bytes, most of them a vocabulary, and zeros up to `len` behind it.
pub fn gguf(header_len: usize, len: u64) -> Content {
    const N_TENSORS: u64 = 10;
    let mut head = b"GGUF".to_vec();
    head.extend_from_slice(&3u32.to_le_bytes());
    head.extend_from_slice(&N_TENSORS.to_le_bytes());
    head.extend_from_slice(&3u64.to_le_bytes());
    let text = |out: &mut Vec<u8>, text: &str| {
        out.extend_from_slice(&(text.len() as u64).to_le_bytes());
        out.extend_from_slice(text.as_bytes());
    };
    for (key, value) in [("general.architecture", "unheard-of"), ("general.name", "large")] {
        text(&mut head, key);
        head.extend_from_slice(&8u32.to_le_bytes());
        text(&mut head, value);
    }
    // An array of texts of 16 bytes each, lengths included.
    text(&mut head, "tokenizer.ggml.tokens");
    head.extend_from_slice(&[9u32.to_le_bytes(), 8u32.to_le_bytes()].concat());
    let n_words = (header_len.saturating_sub(head.len() + 600) / 16) as u64;
    head.extend_from_slice(&n_words.to_le_bytes());
    for n in 0..n_words {
        text(&mut head, &format!("{n:08x}"));
    }
    let rows = (len - header_len as u64) / N_TENSORS / (4096 * 2);
    for n in 0..N_TENSORS {
        text(&mut head, &format!("tensor.{n}"));
        head.extend_from_slice(&2u32.to_le_bytes());
        head.extend_from_slice(&4096u64.to_le_bytes());
        head.extend_from_slice(&rows.to_le_bytes());
        head.extend_from_slice(&1u32.to_le_bytes());
        head.extend_from_slice(&(n * rows * 4096 * 2).to_le_bytes());
    }
    head.resize(head.len().next_multiple_of(32), 0);
    Content::zeros(N_TENSORS * rows * 4096 * 2).after(head)
}

/// A repository with one model in several SafeTensors files, and no other files than those and their index.
pub fn sharded(name: &str, shards: u64, rows: u64) -> Repository {
    let shard = |n: u64| format!("model-{:05}-of-{shards:05}.safetensors", n + 1);
    let map: Map<String, Value> =
        (0..shards).map(|n| (format!("shard{n}.0"), Value::String(shard(n)))).collect();
    let index = json!({ "metadata": { "total_size": shards * rows * 256 }, "weight_map": map }).to_string();
    let mut files = vec![File::cached("model.safetensors.index.json", index)];
    for n in 0..shards {
        let content = safetensors(&format!("shard{n}"), 1, rows, n);
        let large = content.len() > 64 << 20;
        // Nobody reads all of a large one.
        let content = if large { content.declaring(Some(&sha256(shard(n).as_bytes()))) } else { content };
        files.push(File::lfs(&shard(n), content));
    }
    Repository::model(name, files)
}

/// A server of a file `model.safetensors`, with nothing beside it.
pub fn web(habit: Habit, content: &Content) -> FileServer {
    let server = FileServer::start(Options::default(), habit, content.clone());
    server.be_only("model.safetensors");
    server
}

/// A repository with a model in one file, and nothing beside it.
pub fn alone(name: &str, content: &Content) -> Repository {
    Repository::model(name, vec![File::lfs("model.safetensors", content.clone())])
}

/// A repository with one small model in one file.
pub fn single(name: &str, content: &Content) -> Repository {
    let files = vec![
        File::git("README.md", "# A model\n"),
        File::git("config.json", "{\"hidden_size\": 64, \"model_type\": \"unheard-of\"}\n"),
        File::lfs("model.safetensors", content.clone()),
    ];
    Repository::model(name, files)
}
