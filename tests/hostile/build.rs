//! Files laid out by hand, from the formats' own descriptions, so that any field can say anything.

use std::path::Path;

/// A GGUF string: length and bytes.
pub fn string(text: &[u8]) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text].concat()
}

/// A GGUF key with its type and value bytes.
pub fn key(name: &[u8], kind: u32, value: &[u8]) -> Vec<u8> {
    [&string(name)[..], &kind.to_le_bytes(), value].concat()
}

/// A GGUF tensor record.
pub fn info(name: &[u8], dims: &[u64], kind: u32, offset: u64) -> Vec<u8> {
    let mut out = string(name);
    out.extend((dims.len() as u32).to_le_bytes());
    dims.iter().for_each(|dim| out.extend(dim.to_le_bytes()));
    out.extend(kind.to_le_bytes());
    out.extend(offset.to_le_bytes());
    out
}

/// A GGUF file, version 3, with counts as given and data behind the padding.
pub fn gguf_with(n_tensors: u64, n_keys: u64, keys: &[Vec<u8>], infos: &[Vec<u8>], data: &[u8]) -> Vec<u8> {
    let mut out = b"GGUF".to_vec();
    out.extend(3u32.to_le_bytes());
    out.extend(n_tensors.to_le_bytes());
    out.extend(n_keys.to_le_bytes());
    keys.iter().chain(infos).for_each(|part| out.extend(part));
    out.resize(out.len().next_multiple_of(32), 0);
    out.extend(data);
    out
}

/// The same with true counts.
pub fn gguf(keys: &[Vec<u8>], infos: &[Vec<u8>], data: &[u8]) -> Vec<u8> {
    gguf_with(infos.len() as u64, keys.len() as u64, keys, infos, data)
}

/// A SafeTensors file of this header.
pub fn safetensors(header: &[u8], data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes()[..], header, data].concat()
}

/// One I8 entry of a SafeTensors header; `name` is JSON without its quotes.
pub fn entry(name: &str, shape: &str, begin: u64, end: u64) -> String {
    format!(r#""{name}":{{"dtype":"I8","shape":{shape},"data_offsets":[{begin},{end}]}}"#)
}

/// A SafeTensors file of `n_mib` MiB in two tensors, of bytes that do not repeat.
pub fn big(path: &Path, n_mib: u64) {
    big_of(path, n_mib, 88_172_645_463_325_252);
}

/// The same of other bytes for each seed, which is not 0.
pub fn big_of(path: &Path, n_mib: u64, seed: u64) {
    let half = n_mib << 19;
    let shape = format!("[{half}]");
    let header = format!("{{{},{}}}", entry("a", &shape, 0, half), entry("b", &shape, half, 2 * half));
    let mut bytes = safetensors(header.as_bytes(), &[]);
    let mut state = seed;
    for _ in 0..half / 4 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend(state.to_le_bytes());
    }
    std::fs::write(path, bytes).unwrap();
}
