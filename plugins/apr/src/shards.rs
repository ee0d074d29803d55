//! Sharded models: which tensors go where, and the manifest that says so.

use crate::layout::VERSION_TEXT;
use crate::{EXTENSION, FORMAT};
use apr_sdk::{Error, ForeignFile, ForeignPolicy, LayoutRequest, Model, Result, Tensor, shards};
use serde_json::Value as Json;

/// The files of a model.
#[derive(Debug)]
pub struct Plan<'a> {
    /// The APR2 files, in order.
    pub files: Vec<PlannedFile<'a>>,
    /// The manifest's name, if there are shards.
    pub manifest: Option<String>,
}

/// An APR2 file to write.
#[derive(Debug)]
pub struct PlannedFile<'a> {
    /// Path of the file relative to the output folder.
    pub name: String,
    /// Indices of its tensors.
    pub tensors: Vec<usize>,
    /// The records of the model's own files that it replaces.
    pub records: Vec<&'a ForeignFile>,
}

impl<'a> Plan<'a> {
    /// The files for `request`.
    ///
    /// # Errors
    /// InvalidArgument if shards are requested in a single file.
    pub fn new(model: &'a Model, request: &LayoutRequest) -> Result<Plan<'a>> {
        let own = model.foreign_of(FORMAT).map(|foreign| foreign.files.as_slice()).unwrap_or_default();
        let all = || (0..model.tensors.len()).collect();
        if !request.folder {
            if request.max_shard_size.is_some() {
                return Err(Error::invalid_argument("several files require a folder")
                    .hint("specify a folder as the output"));
            }
            let name = request.file_name.clone();
            return Ok(Plan::one(name, all(), own));
        }
        let shards = match request.max_shard_size {
            Some(_) => shards::split(model, request, Tensor::payload_len)?,
            None if request.foreign != ForeignPolicy::Drop => match Plan::as_before(model, own) {
                Some(plan) => return Ok(plan),
                None => vec![all()],
            },
            None => vec![all()],
        };
        let entry = format!("{}.{EXTENSION}", request.stem);
        let count = shards.len();
        if count < 2 {
            return Ok(Plan::one(entry, all(), own));
        }
        let file = |(n, tensors): (usize, Vec<usize>)| PlannedFile {
            name: shard_name(&request.stem, n + 1, count),
            tensors,
            records: if n == 0 { own.iter().collect() } else { Vec::new() },
        };
        Ok(Plan { files: shards.into_iter().enumerate().map(file).collect(), manifest: Some(entry) })
    }

    fn one(name: String, tensors: Vec<usize>, own: &'a [ForeignFile]) -> Plan<'a> {
        let records = own.iter().collect();
        Plan { files: vec![PlannedFile { name, tensors, records }], manifest: None }
    }

    /// The source's own files, if the model still has them: a manifest without tensors, and the shards.
    fn as_before(model: &'a Model, own: &'a [ForeignFile]) -> Option<Plan<'a>> {
        let (manifest, parts) = own.split_first()?;
        if parts.is_empty() || manifest.n_tensors != 0 || own.iter().any(|f| f.name.is_empty()) {
            return None;
        }
        let records: Vec<&ForeignFile> = parts.iter().collect();
        let runs = shards::as_before(&records, model.tensors.len())?;
        let planned = |(record, tensors): (&'a ForeignFile, Vec<usize>)| PlannedFile {
            name: record.name.clone(),
            tensors,
            records: vec![record],
        };
        let files = records.into_iter().zip(runs).map(planned).collect();
        Some(Plan { files, manifest: Some(manifest.name.clone()) })
    }
}

/// The file name of shard `n` (from 1) of `count`.
pub fn shard_name(stem: &str, n: usize, count: usize) -> String {
    shards::name(stem, n, count, EXTENSION)
}

/// The name of the manifest for a shard called `name`; `None` for any other name.
pub fn manifest_name(name: &str) -> Option<String> {
    let stem = name.strip_suffix(EXTENSION)?.strip_suffix('.')?;
    let digits = |text: &str| text.len() >= 5 && text.bytes().all(|b| b.is_ascii_digit());
    let (rest, count) = stem.rsplit_once("-of-")?;
    let (stem, number) = rest.rsplit_once('-')?;
    (digits(count) && digits(number)).then(|| format!("{stem}.{EXTENSION}"))
}

/// A piece of a manifest's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ManifestPiece {
    /// Final text.
    Text(String),
    /// The CRC-32 of this shard in [`ManifestPiece::CRC_LEN`] digits, as in its footer.
    Crc(u32),
    /// The size of this shard in digits, after as many spaces as make [`ManifestPiece::SIZE_LEN`] characters.
    Size(u32),
}

impl ManifestPiece {
    /// Digits of a CRC-32.
    pub const CRC_LEN: usize = 8;
    /// Digits of the greatest size.
    pub const SIZE_LEN: usize = 20;
}

/// The manifest's text. Sizes that are not known yet are holes, as are the checksums.
pub fn manifest(model: &Model, plan: &Plan<'_>, sizes: &[Option<u64>]) -> Vec<ManifestPiece> {
    let mut text = format!(
        "{{\"apr_version\":\"{VERSION_TEXT}\",\"sharded\":true,\"shard_count\":{},\"shards\":[",
        plan.files.len()
    );
    let mut pieces = Vec::new();
    for ((number, file), size) in (0..).zip(&plan.files).zip(sizes) {
        let comma = if number == 0 { "" } else { "," };
        let name = Json::from(file.name.as_str());
        text.push_str(&format!("{comma}{{\"file\":{name},\"size\":"));
        match size {
            Some(size) => text.push_str(&size.to_string()),
            None => {
                pieces.push(ManifestPiece::Text(std::mem::take(&mut text)));
                pieces.push(ManifestPiece::Size(number));
            }
        }
        text.push_str(",\"crc32\":\"");
        pieces.push(ManifestPiece::Text(std::mem::take(&mut text)));
        pieces.push(ManifestPiece::Crc(number));
        text.push_str("\"}");
    }
    text.push_str("],\"tensor_shard_map\":{");
    let mut comma = "";
    for (number, file) in plan.files.iter().enumerate() {
        for &tensor in &file.tensors {
            let name = Json::from(model.tensors[tensor].name.as_str());
            text.push_str(&format!("{comma}{name}:{number}"));
            comma = ",";
        }
    }
    text.push_str("}}");
    pieces.push(ManifestPiece::Text(text));
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_from_shard_to_manifest() {
        assert_eq!(shard_name("m", 2, 10), "m-00002-of-00010.apr");
        assert_eq!(manifest_name("a-b-00002-of-00010.apr").as_deref(), Some("a-b.apr"));
        for name in ["m.apr", "m-2-of-3.apr", "m-00002-of-00010.gguf", "-of-.apr", "m-00002.apr"] {
            assert_eq!(manifest_name(name), None, "{name}");
        }
    }
}
