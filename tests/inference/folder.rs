//! A model's folder in memory, to plant faults in.

use apr_sdk::half::{from_bf16, from_f16};
use serde_json::{Map, Value as Json, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use std::sync::Arc;

/// A tensor in F32.
#[derive(Clone)]
pub struct Tensor {
    /// Its dimensions.
    pub shape: Vec<usize>,
    /// Its elements; shared until they are changed.
    pub elements: Arc<Vec<f32>>,
}

/// A folder with `config.json` and weights.
#[derive(Clone)]
pub struct Folder {
    /// Its configuration.
    pub config: Json,
    /// Its other files, small ones.
    pub companions: Vec<(String, Vec<u8>)>,
    /// Its weights.
    pub tensors: BTreeMap<String, Tensor>,
    /// An architecture table that it needs.
    pub table: Option<String>,
}

impl Folder {
    /// Reads a folder, whatever floats its weights are.
    pub fn read(path: &Path) -> Folder {
        let mut folder =
            Folder { config: Json::Null, companions: Vec::new(), tensors: BTreeMap::new(), table: None };
        for name in apr_tests::names_in(path) {
            let bytes = std::fs::read(path.join(&name)).unwrap();
            if name.ends_with(".safetensors") {
                folder.weights(&bytes);
            } else if name == "config.json" {
                folder.config = serde_json::from_slice(&bytes).unwrap();
            } else if !name.ends_with(".index.json") {
                folder.companions.push((name, bytes));
            }
        }
        folder
    }

    fn weights(&mut self, bytes: &[u8]) {
        let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
        let header: Map<String, Json> = serde_json::from_slice(&bytes[8..8 + length]).unwrap();
        for (name, about) in header.iter().filter(|(name, _)| *name != "__metadata__") {
            let at = |n: usize| 8 + length + about["data_offsets"][n].as_u64().unwrap() as usize;
            let data = &bytes[at(0)..at(1)];
            let two = |convert: fn(u16) -> f32| -> Vec<f32> {
                data.chunks_exact(2).map(|two| convert(u16::from_le_bytes([two[0], two[1]]))).collect()
            };
            let elements = match about["dtype"].as_str().unwrap() {
                "F32" => {
                    data.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().unwrap())).collect()
                }
                "BF16" => two(from_bf16),
                "F16" => two(from_f16),
                other => panic!("{name}: {other}"),
            };
            let shape = about["shape"].as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as usize);
            let tensor = Tensor { shape: shape.collect(), elements: Arc::new(elements) };
            self.tensors.insert(name.clone(), tensor);
        }
    }

    /// Writes the folder with weights in F32. A table of its own goes by the name of its side.
    pub fn write(&self, path: &Path, side: &str) {
        std::fs::create_dir_all(path).unwrap();
        for (name, bytes) in &self.companions {
            std::fs::write(path.join(name), bytes).unwrap();
        }
        let mut config = self.config.clone();
        config["torch_dtype"] = json!("float32");
        if self.table.is_some() {
            config["model_type"] = json!(format!("faulty_{side}"));
            config["architectures"] = json!([format!("Faulty{side}")]);
        }
        std::fs::write(path.join("config.json"), config.to_string()).unwrap();
        let mut header = Map::new();
        let mut offset = 0;
        for (name, tensor) in &self.tensors {
            let end = offset + 4 * tensor.elements.len();
            header.insert(
                name.clone(),
                json!({"dtype": "F32", "shape": tensor.shape, "data_offsets": [offset, end]}),
            );
            offset = end;
        }
        let mut header = Json::Object(header).to_string();
        header.push_str(&" ".repeat(header.len().next_multiple_of(8) - header.len()));
        let mut file =
            std::io::BufWriter::new(std::fs::File::create(path.join("model.safetensors")).unwrap());
        file.write_all(&(header.len() as u64).to_le_bytes()).unwrap();
        file.write_all(header.as_bytes()).unwrap();
        for tensor in self.tensors.values() {
            for element in tensor.elements.iter() {
                file.write_all(&element.to_le_bytes()).unwrap();
            }
        }
        file.flush().unwrap();
    }

    /// The names that contain a text.
    pub fn named(&self, text: &str) -> Vec<String> {
        self.tensors.keys().filter(|name| name.contains(text)).cloned().collect()
    }

    /// Changes the elements of all tensors whose names contain a text; `change` is given the elements and their rows' length.
    pub fn edit(&mut self, text: &str, change: impl Fn(&mut Vec<f32>, usize)) {
        let names = self.named(text);
        assert!(!names.is_empty(), "{text}");
        for name in names {
            let tensor = self.tensors.get_mut(&name).unwrap();
            let columns = *tensor.shape.last().unwrap();
            change(Arc::make_mut(&mut tensor.elements), columns);
        }
    }

    /// Changes every element.
    pub fn map(&mut self, text: &str, change: impl Fn(f32) -> f32) {
        self.edit(text, |elements, _| elements.iter_mut().for_each(|element| *element = change(*element)));
    }

    /// Exchanges tensors whose names differ in one text.
    pub fn swap(&mut self, one: &str, other: &str) {
        let names = self.named(one);
        assert!(!names.is_empty(), "{one}");
        for name in names {
            let first = self.tensors.remove(&name).unwrap();
            let second = self.tensors.insert(name.replace(one, other), first).unwrap();
            self.tensors.insert(name, second);
        }
    }

    /// Puts the rows of tensors into another order: each row is that of the number that `place` gives.
    pub fn reorder(&mut self, text: &str, place: impl Fn(usize) -> usize) {
        self.edit(text, |elements, columns| {
            let rows: Vec<f32> = (0..elements.len() / columns)
                .flat_map(|row| elements[place(row) * columns..][..columns].to_vec())
                .collect();
            *elements = rows;
        });
    }

    /// Takes tensors away.
    pub fn remove(&mut self, text: &str) {
        for name in self.named(text) {
            self.tensors.remove(&name);
        }
    }
}
