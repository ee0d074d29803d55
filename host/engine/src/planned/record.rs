//! The record of a conversion's options, which formats that keep where a model came from put beside its inputs: as
//! parsed, and never a path, a key or an address.

use crate::engine::Engine;
use crate::open::files::Files;
use crate::planned::quantization::{Quantization, SizeTarget};
use crate::planned::request::Request;
use crate::planned::selection::{Choice, Renaming};
use crate::wording::hex;
use apr_sdk::{DType, Error, ForeignPolicy, Result, escape};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

/// The options that a conversion's output depends on, each under the name of its flag; what was not asked for is absent.
/// Policies that only decide whether the work goes on are not among them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", default, deny_unknown_fields)]
pub struct OptionRecord {
    /// The input's format, if forced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// True if the input was opened without the folder around it.
    #[serde(skip_serializing_if = "is_false")]
    pub bare: bool,
    /// The architecture that was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub arch: Option<String>,
    /// The path below which tensors were taken.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// Pairs of a source name and its replacement.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub tensor_mapping: Vec<(String, String)>,
    /// Patterns of tensors to convert.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub include: Vec<String>,
    /// Patterns of tensors left out.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exclude: Vec<String>,
    /// Patterns of tensors left out as a declared loss.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub drop: Vec<String>,
    /// Layers left out, counted from 0.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub prune_layers: Vec<u64>,
    /// New names of tensors: (pattern, replacement).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rename: Vec<(String, String)>,
    /// The policy for foreign metadata: `typed`, `keep` or `drop`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub foreign: Option<String>,
    /// The most payload bytes per file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_shard_size: Option<u64>,
    /// The most tensors per file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_shard_tensors: Option<u64>,
    /// The recipe's name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantize: Option<String>,
    /// True if the types were those of another model.
    #[serde(skip_serializing_if = "is_false")]
    pub recipe_from: bool,
    /// The recipe's options: `tensor-type` and the like.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub recipe_options: BTreeMap<String, String>,
    /// The type for tensors that are floats.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub precision: Option<String>,
    /// True if `precision` concerned packed weights too.
    #[serde(skip_serializing_if = "is_false")]
    pub repack: bool,
    /// The type for tensors that are blocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dequantize: Option<String>,
    /// True if tensors that are already blocks stayed unchanged.
    #[serde(skip_serializing_if = "is_false")]
    pub keep_quantization: bool,
    /// True if blocks could become blocks of another type.
    #[serde(skip_serializing_if = "is_false")]
    pub allow_requantize: bool,
    /// SHA-256 of the file with the importance matrix, in hexadecimal digits.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub imatrix: Option<String>,
    /// Parts of names that the matrix was used for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub include_weights: Vec<String>,
    /// Parts of names that it was not used for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub exclude_weights: Vec<String>,
    /// Bytes of weights to aim for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_size: Option<u64>,
    /// Bits per weight to aim for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub target_bpw: Option<f64>,
    /// Metadata that was set: (key, value), the value of a file as text.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub set: Vec<(String, String)>,
    /// Metadata that was removed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unset: Vec<String>,
    /// Options of formats: (`[format.]name`, value).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<(String, String)>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(flag: &bool) -> bool {
    !flag
}

/// The policies that are recorded. The default is not.
const POLICIES: [(ForeignPolicy, &str); 3] =
    [(ForeignPolicy::Typed, "typed"), (ForeignPolicy::Keep, "keep"), (ForeignPolicy::Drop, "drop")];

impl OptionRecord {
    /// The record of a request; the limits of a file belong to its output.
    ///
    /// # Errors
    /// Any error from reading the importance matrix, and files of values.
    pub fn of(
        engine: &Engine,
        request: &Request,
        max_shard_size: Option<u64>,
        max_shard_tensors: Option<u64>,
    ) -> Result<OptionRecord> {
        let wishes = &request.quantization;
        let name = |dtype: Option<DType>| dtype.map(|dtype| dtype.name().to_owned());
        let policy = POLICIES.iter().find(|(policy, _)| *policy == request.foreign);
        let mut options = Vec::new();
        for (format, option, value) in &request.options {
            let format = format.as_ref().map_or(String::new(), |format| format!("{format}."));
            options.push((format!("{format}{option}"), value.clone()));
        }
        let mut set = Vec::new();
        for (key, text) in &request.set {
            let value = match text.strip_prefix('@') {
                Some(path) => String::from_utf8_lossy(&engine.places.read(Path::new(path))?).into_owned(),
                None => text.clone(),
            };
            set.push((key.clone(), value));
        }
        let imatrix = wishes.importance.as_deref().map(|path| sha256_of(engine, path)).transpose()?;
        let mut record = OptionRecord {
            from: request.from.clone(),
            bare: request.bare,
            arch: request.arch.clone(),
            prefix: request.renaming.prefix.clone(),
            tensor_mapping: request.renaming.mapping.clone(),
            include: request.choice.include.clone(),
            exclude: request.choice.exclude.clone(),
            drop: request.choice.drop.clone(),
            prune_layers: request.prune_layers.iter().copied().collect(),
            rename: request.renames.clone(),
            foreign: policy.map(|(_, name)| (*name).to_owned()),
            max_shard_size,
            max_shard_tensors,
            quantize: wishes.recipe.clone(),
            recipe_from: wishes.recipe_from.is_some(),
            recipe_options: wishes.options.iter().map(|(k, v)| (k.to_owned(), v.to_owned())).collect(),
            precision: name(wishes.precision),
            repack: wishes.repack,
            dequantize: name(wishes.dequantize),
            keep_quantization: wishes.keep_quantization,
            allow_requantize: wishes.allow_requantize,
            imatrix,
            include_weights: wishes.include_weights.clone(),
            exclude_weights: wishes.exclude_weights.clone(),
            set,
            unset: request.unset.clone(),
            options,
            ..OptionRecord::default()
        };
        match wishes.target {
            Some(SizeTarget::Bytes(bytes)) => record.target_size = Some(bytes),
            Some(SizeTarget::BitsPerWeight(bits)) => record.target_bpw = Some(bits),
            None => {}
        }
        Ok(record)
    }

    /// Returns whether names, values and types of the tensors are those of the source, if the format is: nothing was asked for
    /// but other metadata, other options of formats, other files.
    pub fn keeps_the_tensors(&self) -> bool {
        let rest = OptionRecord {
            from: None,
            bare: false,
            arch: self.arch.clone().filter(|arch| arch != "none"),
            foreign: None,
            max_shard_size: None,
            max_shard_tensors: None,
            set: Vec::new(),
            unset: Vec::new(),
            options: Vec::new(),
            ..self.clone()
        };
        rest == OptionRecord::default()
    }

    /// The request that was recorded, without its input and the files beside it: the importance matrix, and the model that
    /// types were taken from.
    ///
    /// # Errors
    /// Malformed for types and policies that do not exist.
    pub fn request(&self) -> Result<Request> {
        let policy = match &self.foreign {
            None => ForeignPolicy::Default,
            Some(name) => POLICIES
                .iter()
                .find(|(_, known)| known == name)
                .map(|(policy, _)| *policy)
                .ok_or_else(|| unknown("policy", name))?,
        };
        let mut quantization = Quantization {
            recipe: self.quantize.clone(),
            precision: dtype_of(self.precision.as_ref())?,
            repack: self.repack,
            dequantize: dtype_of(self.dequantize.as_ref())?,
            keep_quantization: self.keep_quantization,
            allow_requantize: self.allow_requantize,
            include_weights: self.include_weights.clone(),
            exclude_weights: self.exclude_weights.clone(),
            target: self
                .target_size
                .map(SizeTarget::Bytes)
                .or(self.target_bpw.map(SizeTarget::BitsPerWeight)),
            ..Quantization::default()
        };
        for (name, value) in &self.recipe_options {
            quantization.options.set(name, value);
        }
        let is_digest = |text: &str| text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        if let Some(imatrix) = self.imatrix.as_ref().filter(|imatrix| !is_digest(imatrix)) {
            return Err(unknown("importance matrix", imatrix));
        }
        if self.max_shard_size == Some(0) || self.max_shard_tensors == Some(0) {
            return Err(Error::malformed("the record of its options allows nothing in a file"));
        }
        // Given once more, it would name a file.
        if let Some((key, _)) = self.set.iter().find(|(_, value)| value.starts_with('@')) {
            let message = format!(
                "the value that was set for `{}` begins with `@`, which cannot be set again",
                escape(key, 80)
            );
            return Err(Error::unsupported(message));
        }
        let mut options = Vec::new();
        for (name, value) in &self.options {
            let (format, option) = match name.split_once('.') {
                Some((format, option)) => (Some(format.to_owned()), option),
                None => (None, name.as_str()),
            };
            options.push((format, option.to_owned(), value.clone()));
        }
        Ok(Request {
            from: self.from.clone(),
            bare: self.bare,
            options,
            arch: self.arch.clone(),
            renaming: Renaming { prefix: self.prefix.clone(), mapping: self.tensor_mapping.clone() },
            choice: Choice {
                include: self.include.clone(),
                exclude: self.exclude.clone(),
                drop: self.drop.clone(),
            },
            prune_layers: self.prune_layers.iter().copied().collect(),
            renames: self.rename.clone(),
            foreign: policy,
            quantization,
            set: self.set.clone(),
            unset: self.unset.clone(),
            ..Request::default()
        })
    }
}

fn dtype_of(name: Option<&String>) -> Result<Option<DType>> {
    name.map(|name| DType::from_name(name).ok_or_else(|| unknown("type", name))).transpose()
}

fn unknown(what: &str, name: &str) -> Error {
    Error::malformed(format!("the record of its options names an unknown {what} `{}`", escape(name, 80)))
}

/// SHA-256 of a file, in hexadecimal digits.
///
/// # Errors
/// Any error from opening and reading.
pub fn sha256_of(engine: &Engine, path: &Path) -> Result<String> {
    let files = Files::new(&engine.places.locate(path)?, Arc::clone(&engine.cancel));
    let mut digest = Sha256::new();
    let mut buffer = vec![0; 1 << 20];
    for file in files.all().iter().filter(|file| !file.is_folder()) {
        let mut at = 0;
        while at < file.len {
            engine.check_cancelled()?;
            let n = usize::try_from(file.len - at).unwrap_or(buffer.len()).min(buffer.len());
            file.read_at(at, &mut buffer[..n]).map_err(|e| files.show(e))?;
            digest.update(&buffer[..n]);
            at += n as u64;
        }
    }
    Ok(hex(&digest.finalize()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::open::Listed;
    use crate::registry::Registry;
    use apr_sdk::ErrorKind;

    #[test]
    fn a_record_becomes_the_request_it_was_made_from() {
        let text = r#"{"arch":"llama","include":["a*"],"prune-layers":[1,3],"rename":[["a","b"]],"foreign":"keep",
            "quantize":"Q4_K_M","recipe-options":{"pure":"true"},"target-bpw":4.5,"set":[["k:str","v=1"]],
            "options":[["f.compress","zstd"],["x","y"]]}"#;
        let record: OptionRecord = serde_json::from_str(text).unwrap();
        let request = record.request().unwrap();
        assert_eq!(request.options[0], (Some("f".into()), "compress".into(), "zstd".into()));
        assert_eq!(request.quantization.target, Some(SizeTarget::BitsPerWeight(4.5)));
        let engine = Engine::new(Registry::new(), Arc::new(Listed::default()));
        assert_eq!(OptionRecord::of(&engine, &request, None, None).unwrap(), record);
        assert!(!record.keeps_the_tensors());
        assert!(OptionRecord { max_shard_size: Some(1), ..OptionRecord::default() }.keeps_the_tensors());
        assert_eq!(serde_json::to_string(&OptionRecord::default()).unwrap(), "{}");
    }

    #[test]
    fn what_a_later_version_records_is_no_option_of_this_one() {
        assert!(serde_json::from_str::<OptionRecord>(r#"{"sparsify":true}"#).is_err());
        for bad in [r#"{"precision":"F99"}"#, r#"{"foreign":"all"}"#] {
            let record: OptionRecord = serde_json::from_str(bad).unwrap();
            assert!(record.request().is_err(), "{bad}");
        }
    }

    #[test]
    fn no_record_names_a_file_to_read() {
        let record: OptionRecord = serde_json::from_str(r#"{"set":[["k","@/etc/passwd"]]}"#).unwrap();
        assert_eq!(record.request().unwrap_err().kind(), ErrorKind::Unsupported);
        for path in ["imatrix-file", "recipe", "input", "output"] {
            assert!(serde_json::from_str::<OptionRecord>(&format!(r#"{{"{path}":"x"}}"#)).is_err());
        }
    }
}
