//! Mistakes, planted in a copy of a model's folder.

use crate::golden::floats;
use apr_sdk::DType;
use serde_json::Value as Json;
use std::path::Path;

/// A safetensors file: its header, and where its data begin.
struct File {
    bytes: Vec<u8>,
    header: Json,
    data: usize,
}

impl File {
    fn read(path: &Path) -> File {
        let bytes = std::fs::read(path).unwrap();
        let len = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let header = serde_json::from_slice(&bytes[8..8 + len]).unwrap();
        File { bytes, header, data: 8 + len }
    }

    /// Where a tensor's bytes are, and how long a row of it is.
    fn place(&self, name: &str) -> (std::ops::Range<usize>, usize) {
        let tensor = &self.header[name];
        let offset = |n: usize| self.data + tensor["data_offsets"][n].as_u64().unwrap() as usize;
        let shape = tensor["shape"].as_array().unwrap();
        let range = offset(0)..offset(1);
        let row = range.len() / shape[0].as_u64().unwrap() as usize;
        (range, row)
    }
}

/// Copies a folder and plants the fault that `tests/model/golden.json` describes; returns whether a file can have it: a
/// norm that is not computed is a fault of a program.
pub fn plant(from: &Path, to: &Path, fault: &Json) -> bool {
    if fault.get("skip").is_some() {
        return false;
    }
    std::fs::create_dir_all(to).unwrap();
    for name in apr_tests::names_in(from) {
        std::fs::copy(from.join(&name), to.join(&name)).unwrap();
    }
    if let Some(changed) = fault.get("config").and_then(Json::as_object) {
        let path = to.join("config.json");
        let mut config: Json = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        for (key, value) in changed {
            config[key] = value.clone();
        }
        std::fs::write(path, config.to_string()).unwrap();
    }
    let path = to.join("model.safetensors");
    let mut file = File::read(&path);
    for filled in fault.get("fill").and_then(Json::as_array).into_iter().flatten() {
        let (range, _) = file.place(filled["tensor"].as_str().unwrap());
        let value = filled["value"].as_f64().unwrap();
        let bf16 = (((value as f32).to_bits() >> 16) as u16).to_le_bytes();
        file.bytes[range.clone()].chunks_exact_mut(2).for_each(|two| two.copy_from_slice(&bf16));
        let written = floats(DType::BF16, &file.bytes[range]).unwrap();
        assert!(written.iter().all(|x| f64::from(*x) == value));
    }
    for pair in fault.get("swap").and_then(Json::as_array).into_iter().flatten() {
        let side = |n: usize| {
            let (range, row) = file.place(pair[n]["tensor"].as_str().unwrap());
            let rows = &pair[n]["rows"];
            let first = range.start + rows[0].as_u64().unwrap() as usize * row;
            first..first + rows[1].as_u64().unwrap() as usize * row
        };
        let (one, two) = (side(0), side(1));
        let held = file.bytes[one.clone()].to_vec();
        file.bytes.copy_within(two.clone(), one.start);
        file.bytes[two].copy_from_slice(&held);
    }
    // Rows in the order of pairs that turn together, as if they were halves.
    for permuted in fault.get("permute").and_then(Json::as_array).into_iter().flatten() {
        let (range, row) = file.place(permuted["tensor"].as_str().unwrap());
        let head = range.len() / row / permuted["heads"].as_u64().unwrap() as usize;
        let old = file.bytes[range.clone()].to_vec();
        for (number, new) in file.bytes[range].chunks_exact_mut(row).enumerate() {
            let (first, within) = (number / head * head, number % head);
            let from = (first + within % 2 * (head / 2) + within / 2) * row;
            new.copy_from_slice(&old[from..from + row]);
        }
    }
    std::fs::write(path, file.bytes).unwrap();
    true
}
