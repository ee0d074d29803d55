//! What torchao itself says of each weight, in the metadata of a SafeTensors file: its class, the parts that it is stored in, and
//! how these are arranged. Tensors must agree with it.
//!
//! ```text
//! {"_type": "NVFP4Tensor", "_data": {"block_size": 16, "is_swizzled_scales": false, "orig_dtype": {"_data": "bfloat16"}, ...},
//!  "_tensor_data_names": ["per_tensor_scale", "qdata", "scale"]}
//! ```
//!
//! Source: `TensorSubclassAttributeJSONEncoder` in `prototype/safetensors/safetensors_utils.py` of torchao 0.18.

use crate::model::{Found, Model};
use apr_sdk::{DType, Error, PackedTensor, Result, escape};
use serde_json::Value as Json;
use std::collections::HashMap;

/// A class whose codes and scales are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Int8Tensor.
    Int8,
    /// IntxUnpackedToInt8Tensor, which always has zero points.
    Intx,
    /// Int4Tensor, whose scales are transposed.
    Int4,
    /// Float8Tensor.
    Float8,
    /// MXTensor.
    Mx,
    /// NVFP4Tensor.
    Nvfp4,
}

/// Their names.
const CLASSES: [(&str, Class); 6] = [
    ("Int8Tensor", Class::Int8),
    ("IntxUnpackedToInt8Tensor", Class::Intx),
    ("Int4Tensor", Class::Int4),
    ("Float8Tensor", Class::Float8),
    ("MXTensor", Class::Mx),
    ("NVFP4Tensor", Class::Nvfp4),
];

/// Types as torch names them.
const DTYPES: [(&str, DType); 6] = [
    ("float32", DType::F32),
    ("float16", DType::F16),
    ("bfloat16", DType::BF16),
    ("float8_e4m3fn", DType::F8_E4M3),
    ("float8_e5m2", DType::F8_E5M2),
    ("float4_e2m1fn_x2", DType::F4_E2M1),
];

/// What is said of a weight.
#[derive(Debug)]
pub struct Stated {
    /// The weight's name.
    name: String,
    /// The class.
    pub class: Class,
    /// Endings of its parts; `None` if they are not listed, as older versions do not.
    parts: Option<Vec<String>>,
    /// Its attributes.
    data: Json,
}

/// What is said, by the names of weights.
///
/// # Errors
/// Malformed for descriptions that say nothing or contradict each other; Unsupported for a class that is not known.
pub fn all(model: &Model<'_>) -> Result<HashMap<String, Stated>> {
    let mut all: HashMap<String, (Stated, Json)> = HashMap::new();
    for one in model.derived.iter().flat_map(|derived| &derived.stated) {
        let json: Json = serde_json::from_str(&one.json).unwrap_or_default();
        if let Some((_, said)) = all.get(&one.name) {
            if *said != json {
                let message = "the metadata of two files describes it differently";
                return Err(Error::malformed(message).tensor(&one.name));
            }
            continue;
        }
        let stated = Stated::parse(&one.name, &json)?;
        all.insert(one.name.clone(), (stated, json));
    }
    Ok(all.into_iter().map(|(name, (stated, _))| (name, stated)).collect())
}

/// What the names of a weight's parts begin with: `a._weight` for `a.weight`.
pub fn base(name: &str) -> String {
    match name.rsplit_once('.') {
        Some((module, weight)) => format!("{module}._{weight}"),
        None => format!("_{name}"),
    }
}

/// Checks that the parts of weights are those that are listed. `endings` are those that parts may have.
///
/// # Errors
/// Malformed for a part that is missing, and for one that is not listed.
pub fn check_parts(
    model: &Model<'_>,
    all: &HashMap<String, Stated>,
    endings: &[&str],
    found: &mut Found,
) -> Result<()> {
    let mut absent: Vec<&str> = Vec::new();
    let mut sorted: Vec<&Stated> = all.values().collect();
    sorted.sort_by(|one, other| one.name.cmp(&other.name));
    for stated in sorted {
        let Some(parts) = &stated.parts else { continue };
        let base = base(&stated.name);
        let is_there = |ending: &str| model.find(&format!("{base}_{ending}")).is_some();
        if !parts.iter().any(|part| is_there(part)) {
            // It may be in another shard: each describes the whole model.
            absent.push(&stated.name);
            continue;
        }
        if let Some(part) = parts.iter().find(|part| !is_there(part)) {
            let message =
                format!("its part `{base}_{part}` is missing, although the file's metadata lists `{part}`");
            let hint = "download the model again, or quantize it again";
            return Err(Error::malformed(message).tensor(&stated.name).hint(hint));
        }
        let is_extra = |ending: &&&str| is_there(ending) && !parts.iter().any(|part| part == **ending);
        if let Some(part) = endings.iter().find(is_extra) {
            let message = format!(
                "it is not among the parts of `{}` listed in the file's metadata: {}",
                stated.name,
                parts.join(", ")
            );
            return Err(Error::malformed(message).tensor(format!("{base}_{part}")));
        }
    }
    if let Some(first) = absent.first() {
        let (n, first) = (absent.len(), escape(first, 120));
        found.note(format!(
            "the file's metadata describes weights that are missing: {n}, the first `{first}`"
        ));
    }
    Ok(())
}

impl Stated {
    fn parse(name: &str, json: &Json) -> Result<Stated> {
        let wrong = |what: String| Error::malformed(what).tensor(name);
        let class = json.get("_type").and_then(Json::as_str);
        let class = class
            .ok_or_else(|| wrong("the file's metadata lists it, but does not describe it".to_owned()))?;
        let Some((_, class)) = CLASSES.iter().find(|(known, _)| *known == class) else {
            let message = format!("weights of torchao's class `{class}` are not supported");
            return Err(Error::unsupported(message).tensor(name));
        };
        let text = |part: &Json| part.as_str().map(str::to_owned);
        let parts = json.get("_tensor_data_names").map(|list| {
            let list = list.as_array().and_then(|list| list.iter().map(text).collect::<Option<Vec<_>>>());
            list.ok_or_else(|| {
                wrong("`_tensor_data_names` in the file's metadata is not a list of names".to_owned())
            })
        });
        let data = json.get("_data").cloned().unwrap_or_default();
        Ok(Stated { name: name.to_owned(), class: *class, parts: parts.transpose()?, data })
    }

    /// An attribute, unless it is none.
    fn get(&self, key: &str) -> Option<&Json> {
        self.data.get(key).filter(|value| !value.is_null())
    }

    /// An attribute that is a type.
    fn dtype(&self, key: &str) -> Option<&str> {
        self.get(key)?.get("_data")?.as_str()
    }

    fn contradicted(&self, key: &str, says: &Json, have: &str) -> Error {
        let message = format!("the file's metadata states `{key}` {says}, but its parts are {have}");
        Error::malformed(message).tensor(&self.name)
    }

    /// The type of the weight before it was packed, if that is said.
    pub fn original(&self) -> Option<DType> {
        let said = self.dtype("orig_dtype").or_else(|| self.dtype("dtype"))?;
        let (_, dtype) = DTYPES.iter().find(|(name, _)| *name == said)?;
        [DType::F32, DType::F16, DType::BF16].contains(dtype).then_some(*dtype)
    }

    /// Checks the types of codes and scales against the class.
    ///
    /// # Errors
    /// Malformed if they are another's.
    pub fn check_types(&self, codes: DType, scales: DType) -> Result<()> {
        let is_float = [DType::F32, DType::F16, DType::BF16].contains(&scales);
        let is_fp8 = super::FP8.contains(&codes);
        let fits = match self.class {
            Class::Int8 | Class::Intx => codes == DType::I8 && is_float,
            Class::Int4 => [DType::I8, DType::U8].contains(&codes) && is_float,
            Class::Float8 => is_fp8 && (is_float || scales == DType::F8_E8M0),
            Class::Mx => (is_fp8 || codes == DType::U8) && scales == DType::F8_E8M0,
            Class::Nvfp4 => codes == DType::U8 && scales == DType::F8_E4M3,
        };
        if !fits {
            let (class, _) = CLASSES.iter().find(|(_, class)| *class == self.class).unwrap_or(&CLASSES[0]);
            let message = format!(
                "the file's metadata states the class `{class}`, which has no codes of {codes} with scales \
                 of {scales}"
            );
            return Err(Error::malformed(message).tensor(&self.name));
        }
        self.check_elements(codes)
    }

    /// Checks the type of an MXTensor's codes: those of six bits have a byte each, and pairs of four bits, too.
    fn check_elements(&self, codes: DType) -> Result<()> {
        let Some(said) = self.dtype("elem_dtype") else { return Ok(()) };
        let Some((_, dtype)) = DTYPES.iter().find(|(name, _)| *name == said) else {
            let message = format!("an MXTensor with elements of `{said}` is not supported");
            return Err(Error::unsupported(message).tensor(&self.name));
        };
        let stored = if *dtype == DType::F4_E2M1 { DType::U8 } else { *dtype };
        if stored == codes {
            return Ok(());
        }
        Err(self.contradicted("elem_dtype", &Json::from(said), &format!("of {codes}")))
    }

    /// Checks how scales lie over the codes: each is for `rows` by `columns`, and they may lie in tiles.
    ///
    /// # Errors
    /// Malformed if it is said otherwise.
    pub fn check_scales(&self, (rows, columns): (u64, u64), is_tiled: bool) -> Result<()> {
        if let Some(says) = self.get("block_size") {
            let fits = match says.as_array() {
                Some(sizes) => {
                    let sizes: Vec<_> = sizes.iter().map(Json::as_u64).collect();
                    sizes.ends_with(&[Some(rows), Some(columns)])
                }
                None => says.as_u64() == Some(columns),
            };
            if !fits {
                return Err(self.contradicted("block_size", says, &format!("for {rows} by {columns}")));
            }
        }
        match self.get("is_swizzled_scales") {
            Some(says) if says.as_bool() != Some(is_tiled) => {
                let have = if is_tiled { "in tiles" } else { "in rows" };
                Err(self.contradicted("is_swizzled_scales", says, have))
            }
            _ => Ok(()),
        }
    }

    /// Checks the shape of the weight.
    ///
    /// # Errors
    /// Malformed if another one is said.
    pub fn check_shape(&self, weight: &PackedTensor) -> Result<()> {
        match self.get("shape") {
            Some(says) if *says != Json::from(weight.shape.clone()) => {
                Err(self.contradicted("shape", says, &format!("those of {:?}", weight.shape)))
            }
            _ => Ok(()),
        }
    }
}
