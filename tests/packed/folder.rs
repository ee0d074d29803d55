//! A fixture as the host would hand it to the plugin.

use apr_sdk::{
    Announced, DERIVED, DType, HeldRows, MemorySource, Options, PackedTensor, PartRange, Quantizer, Schemes,
    StoredModel, StoredTensor, Understood,
};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The folder of all fixtures.
pub fn fixtures() -> PathBuf {
    apr_tests::root().join("tests/packed/fixtures")
}

/// The key of a file's metadata that says how its layers are packed.
const METADATA: &str = "_quantization_metadata";

/// A model's files, read.
pub struct Folder {
    /// What schemes get to know.
    pub model: StoredModel,
    /// The payload of each tensor.
    pub bytes: Vec<Vec<u8>>,
}

/// The tensors of a SafeTensors file: name, type, shape, payload.
fn tensors(path: &Path) -> Vec<(StoredTensor, Vec<u8>)> {
    let file = std::fs::read(path).unwrap();
    let (len, rest) = file.split_first_chunk::<8>().unwrap();
    let (header, payload) = rest.split_at(u64::from_le_bytes(*len) as usize);
    let header: BTreeMap<String, Json> = serde_json::from_slice(header).unwrap();
    let tensor = |(name, of): (String, Json)| {
        let number = |json: &Json| json.as_u64().unwrap();
        let dtype = match of["dtype"].as_str().unwrap() {
            "F8_E8M0" => DType::F8_E8M0,
            name => DType::from_name(name).unwrap_or_else(|| panic!("no type {name}")),
        };
        let shape = of["shape"].as_array().unwrap().iter().map(number).collect();
        let at: Vec<usize> =
            of["data_offsets"].as_array().unwrap().iter().map(|n| number(n) as usize).collect();
        (StoredTensor { name, dtype, shape }, payload[at[0]..at[1]].to_vec())
    };
    header.into_iter().filter(|(name, _)| name != "__metadata__").map(tensor).collect()
}

/// What a SafeTensors file says of its weights: in its reader's words, and in those of its metadata.
fn own(path: &Path) -> Vec<Announced> {
    let source = MemorySource::new("model.safetensors", std::fs::read(path).unwrap());
    let reader = (apr_plugin_safetensors::PLUGIN.reader)("safetensors").unwrap();
    let model = apr_testkit::read(&*reader, "safetensors", &source, &Options::new()).unwrap();
    let said = model.foreign.iter().find_map(|foreign| foreign.get(METADATA)?.as_str().map(str::to_owned));
    let derived = model.derived.map(|said| String::from_utf8(said.inline().unwrap().to_vec()).unwrap());
    let all = [(DERIVED, derived), (METADATA, said)];
    let announced =
        |(key, json): (&str, String)| Announced { file: "safetensors".into(), key: key.into(), json };
    all.into_iter().filter_map(|(key, json)| Some(announced((key, json?)))).collect()
}

/// The values of a file of expected ones.
pub fn expected(folder: &Path) -> BTreeMap<String, (Vec<u64>, Vec<f32>)> {
    let values = |bytes: &[u8]| bytes.as_chunks().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
    let all = tensors(&folder.join("expected.safetensors")).into_iter();
    all.map(|(tensor, bytes)| (tensor.name, (tensor.shape, values(&bytes)))).collect()
}

impl Folder {
    /// Reads a fixture.
    pub fn read(folder: &Path) -> Folder {
        let mut files: Vec<PathBuf> =
            std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
        files.sort();
        let is_weights = |path: &PathBuf| {
            let name = path.file_name().unwrap().to_str().unwrap();
            name.ends_with(".safetensors") && name != "expected.safetensors"
        };
        let read: Vec<_> =
            files.iter().filter(|path| is_weights(path)).flat_map(|path| tensors(path)).collect();
        let (tensors, bytes): (Vec<_>, Vec<_>) = read.into_iter().unzip();
        let mut model = StoredModel::default();
        model.tensors = tensors;
        let json = |name: &str| {
            Some(serde_json::from_slice::<Json>(&std::fs::read(folder.join(name)).ok()?).unwrap())
        };
        let config = json("config.json").unwrap_or_default();
        for key in ["quantization_config", "quantization", "compression_config"] {
            if let Some(object) = config.get(key) {
                model.announced.push(Announced {
                    file: "config.json".into(),
                    key: key.into(),
                    json: object.to_string(),
                });
            }
        }
        for name in ["hf_quant_config.json", "quantize_config.json", "quant_config.json"] {
            if let Some(object) = json(name) {
                model.announced.push(Announced {
                    file: name.into(),
                    key: String::new(),
                    json: object.to_string(),
                });
            }
        }
        // What the files themselves say of their weights, as their reader tells it.
        for path in files.iter().filter(|path| is_weights(path)) {
            model.announced.extend(own(path));
        }
        let dtype = config.get("dtype").or(config.get("torch_dtype")).and_then(Json::as_str);
        model.dtype = dtype.and_then(|name| match name {
            "bfloat16" => Some(DType::BF16),
            "float16" => Some(DType::F16),
            "float32" => Some(DType::F32),
            _ => None,
        });
        Folder { model, bytes }
    }

    /// What the plugin finds, reading what it asks for.
    pub fn understood(&self) -> apr_sdk::Result<Understood> {
        let mut model = self.model.clone();
        for _ in 0..8 {
            let understood = schemes().understand(&model)?;
            if understood.wanted.is_empty() {
                return Ok(understood);
            }
            for number in understood.wanted {
                assert!(model.contents_of(number).is_none(), "asked twice");
                model.contents.push((number, self.bytes[number].clone()));
            }
            model.contents.sort_by_key(|(number, _)| *number);
        }
        panic!("it asks without end")
    }

    /// The bytes of rows in each part of a weight; only those of `evidence`, if there is any.
    fn held(&self, weight: &PackedTensor, rows: &Range<u64>, evidence: Option<&[usize]>) -> Vec<Vec<u8>> {
        let ranges = schemes().ranges(&weight.rows, rows.clone()).unwrap();
        assert_eq!(ranges.len(), weight.parts.len(), "a range for each part of `{}`", weight.name);
        let held = |(at, ((part, _), range)): (usize, (&(usize, String), PartRange))| {
            if evidence.is_some_and(|evidence| !evidence.contains(&at)) {
                return Vec::new();
            }
            let info = self.model.tensors[*part].dtype.info().unwrap();
            // What has less than a byte is moved in bytes.
            let each = if info.block_elements > 1 { 1 } else { info.block_bytes as usize };
            let bytes = &self.bytes[*part];
            match range {
                PartRange::Whole => bytes.clone(),
                PartRange::Boxes(boxes) => {
                    let mut out = Vec::new();
                    for one in boxes {
                        gather(bytes, each, one.start, &one.dims, &mut out);
                    }
                    out
                }
            }
        };
        weight.parts.iter().zip(ranges).enumerate().map(held).collect()
    }

    /// The values of rows, of which more may be held.
    pub fn unpack(
        &self,
        weight: &PackedTensor,
        held: Range<u64>,
        rows: Range<u64>,
    ) -> apr_sdk::Result<Vec<f32>> {
        let bytes = self.held(weight, &held, None);
        let parts: Vec<&[u8]> = bytes.iter().map(Vec::as_slice).collect();
        let mut out = vec![f32::NAN; ((rows.end - rows.start) * weight.rows.row_len) as usize];
        schemes().unpack(&weight.rows, &HeldRows { rows: held, parts: &parts }, rows, &mut out)?;
        Ok(out)
    }

    /// The values of some columns of rows, of which more may be held.
    pub fn unpack_columns(
        &self,
        weight: &PackedTensor,
        (held, rows): (Range<u64>, Range<u64>),
        columns: Range<u64>,
    ) -> apr_sdk::Result<Vec<f32>> {
        let bytes = self.held(weight, &held, None);
        let parts: Vec<&[u8]> = bytes.iter().map(Vec::as_slice).collect();
        let mut out = vec![f32::NAN; ((rows.end - rows.start) * (columns.end - columns.start)) as usize];
        let held = HeldRows { rows: held, parts: &parts };
        schemes().unpack_columns(&weight.rows, &held, rows, columns, &mut out)?;
        Ok(out)
    }

    /// Whether a type holds all values.
    pub fn holds(&self, weight: &PackedTensor, dtype: DType, evidence: &[usize]) -> bool {
        let rows = 0..weight.rows.rows;
        let bytes = self.held(weight, &rows, Some(evidence));
        let parts: Vec<&[u8]> = bytes.iter().map(Vec::as_slice).collect();
        schemes().holds(&weight.rows, &HeldRows { rows, parts: &parts }, dtype).unwrap()
    }

    /// Rows as blocks.
    pub fn repack(&self, weight: &PackedTensor, rows: Range<u64>, dtype: DType) -> apr_sdk::Result<Vec<u8>> {
        let bytes = self.held(weight, &rows, None);
        let parts: Vec<&[u8]> = bytes.iter().map(Vec::as_slice).collect();
        let info = dtype.info().unwrap();
        let elements = (rows.end - rows.start) * weight.rows.row_len;
        let mut out =
            vec![0xee; (elements / u64::from(info.block_elements) * u64::from(info.block_bytes)) as usize];
        schemes().repack(
            &weight.rows,
            &HeldRows { rows: rows.clone(), parts: &parts },
            rows,
            dtype,
            &mut out,
        )?;
        Ok(out)
    }
}

/// Appends the elements of a box.
fn gather(bytes: &[u8], each: usize, start: u64, dims: &[(u64, u64)], out: &mut Vec<u8>) {
    let Some((&(size, stride), inner)) = dims.split_first() else {
        out.extend_from_slice(&bytes[start as usize * each..][..each]);
        return;
    };
    (0..size).for_each(|at| gather(bytes, each, start + at * stride, inner, out));
}

/// The plugin.
pub fn schemes() -> &'static dyn Schemes {
    static PLUGIN: std::sync::OnceLock<Box<dyn Quantizer>> = std::sync::OnceLock::new();
    PLUGIN.get_or_init(|| (apr_plugin_packed::PLUGIN.quantizer)().unwrap()).schemes().unwrap()
}
