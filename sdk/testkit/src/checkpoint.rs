//! Model folders as Hugging Face's library writes them, made in memory: companion files, and weights in safetensors that
//! [`weight_bytes`] gives.

use crate::{ModelFixture, weight_bytes};
use apr_sdk::{DType, Error, Result};
use serde_json::{Map, Value, json};
use std::fs;
use std::path::Path;

/// A tensor of a [`Checkpoint`], whose payload follows from its name.
#[derive(Clone, Debug, PartialEq)]
pub struct SeededTensor {
    /// Its name in the file.
    pub name: String,
    /// The element type.
    pub dtype: DType,
    /// The shape, outermost dimension first.
    pub shape: Vec<u64>,
    /// The value that its floats lie around.
    pub center: f32,
}

/// A model folder of seeded weights.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Checkpoint {
    /// The folder's name, from which converters take the model's.
    pub name: String,
    /// The seed of every tensor.
    pub seed: u64,
    /// `config.json`, the tokenizer's files and whatever else lies beside the weights.
    pub companions: Vec<(String, Vec<u8>)>,
    /// The files of weights in the order of their names, each with its tensors in the order of their data.
    pub shards: Vec<(String, Vec<SeededTensor>)>,
}

impl Checkpoint {
    /// The folder that `tests/golden/NAME/tensors.json` describes, where `folder` is `tests/golden/NAME`.
    ///
    /// # Errors
    /// Io if a file cannot be read; Malformed if the description is not one.
    pub fn golden(folder: &Path) -> Result<Checkpoint> {
        let described: Value = serde_json::from_slice(&read(&folder.join("tensors.json"))?)
            .map_err(|e| Error::malformed(format!("{}/tensors.json: {e}", folder.display())))?;
        let goldens = folder.parent().unwrap_or(folder);
        let wrong = || {
            Error::malformed(format!(
                "{}/tensors.json is not a valid description of a model",
                folder.display()
            ))
        };
        let mut companions = Vec::new();
        for (name, path) in described["companions"].as_object().ok_or_else(wrong)? {
            companions.push((name.clone(), read(&goldens.join(path.as_str().ok_or_else(wrong)?))?));
        }
        let mut shards = Vec::new();
        for file in described["files"].as_array().ok_or_else(wrong)? {
            let tensors = file["tensors"].as_array().ok_or_else(wrong)?;
            let tensors =
                tensors.iter().map(|t| seeded_tensor(t).ok_or_else(wrong)).collect::<Result<_>>()?;
            shards.push((file["name"].as_str().ok_or_else(wrong)?.to_owned(), tensors));
        }
        let name = described["folder"].as_str().ok_or_else(wrong)?.to_owned();
        Ok(Checkpoint { name, seed: described["seed"].as_u64().ok_or_else(wrong)?, companions, shards })
    }

    /// Every tensor, in the order of the files.
    pub fn tensors(&self) -> impl Iterator<Item = &SeededTensor> {
        self.shards.iter().flat_map(|(_, tensors)| tensors)
    }

    /// The payload of one of its tensors.
    ///
    /// # Errors
    /// As [`weight_bytes`].
    pub fn payload(&self, tensor: &SeededTensor) -> Result<Vec<u8>> {
        weight_bytes(self.seed, &tensor.name, tensor.dtype, &tensor.shape, tensor.center)
    }

    /// All files of the folder, by name: the companions, the weights, and the index if there are several files of weights.
    ///
    /// # Errors
    /// As [`weight_bytes`].
    pub fn files(&self) -> Result<Vec<(String, Vec<u8>)>> {
        let mut files = self.companions.clone();
        let mut places = Map::new();
        let mut total = 0;
        for (name, tensors) in &self.shards {
            let (bytes, payload_len) = self.safetensors(tensors)?;
            places.extend(tensors.iter().map(|t| (t.name.clone(), json!(name))));
            total += payload_len;
            files.push((name.clone(), bytes));
        }
        if self.shards.len() > 1 {
            places.sort_keys();
            let index = json!({"metadata": {"total_size": total}, "weight_map": places});
            files.push(("model.safetensors.index.json".to_owned(), index.to_string().into_bytes()));
        }
        files.sort();
        Ok(files)
    }

    /// Writes the folder's files into `folder`, which is created.
    ///
    /// # Errors
    /// Io if that fails; as [`Checkpoint::files`].
    pub fn write_to(&self, folder: &Path) -> Result<()> {
        fs::create_dir_all(folder).map_err(|e| Error::io(format!("{}: {e}", folder.display())))?;
        for (name, bytes) in self.files()? {
            let path = folder.join(&name);
            let written = fs::create_dir_all(path.parent().unwrap_or(folder));
            let written = written.and_then(|()| fs::write(path, bytes));
            written.map_err(|e| Error::io(format!("{}: {e}", folder.display())))?;
        }
        Ok(())
    }

    /// Its tensors, with the companions as assets.
    ///
    /// # Errors
    /// As [`weight_bytes`].
    pub fn fixture(&self) -> Result<ModelFixture> {
        let mut model = ModelFixture::new();
        for tensor in self.tensors() {
            model = model.tensor_with(&tensor.name, tensor.dtype, &tensor.shape, self.payload(tensor)?);
        }
        Ok(self.companions.iter().fold(model, |model, (name, bytes)| model.asset(name, bytes.clone())))
    }

    /// One file of weights, and how many bytes of it are payload.
    fn safetensors(&self, tensors: &[SeededTensor]) -> Result<(Vec<u8>, usize)> {
        let mut header = Map::new();
        let mut data = Vec::new();
        header.insert("__metadata__".to_owned(), json!({"format": "pt"}));
        for tensor in tensors {
            let begin = data.len();
            data.append(&mut self.payload(tensor)?);
            let dtype = tensor.dtype.name();
            let row = json!({"dtype": dtype, "shape": tensor.shape, "data_offsets": [begin, data.len()]});
            header.insert(tensor.name.clone(), row);
        }
        let mut header = Value::Object(header).to_string();
        header.push_str(&" ".repeat(header.len().next_multiple_of(8) - header.len()));
        let mut file = (header.len() as u64).to_le_bytes().to_vec();
        file.extend_from_slice(header.as_bytes());
        file.extend_from_slice(&data);
        Ok((file, data.len()))
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|e| Error::io(format!("{}: {e}", path.display())))
}

fn seeded_tensor(json: &Value) -> Option<SeededTensor> {
    Some(SeededTensor {
        name: json["name"].as_str()?.to_owned(),
        dtype: DType::from_name(json["dtype"].as_str()?)?,
        shape: json["shape"].as_array()?.iter().map(Value::as_u64).collect::<Option<_>>()?,
        center: if json.get("center").is_some_and(|center| center.as_u64() == Some(1)) { 1.0 } else { 0.0 },
    })
}
