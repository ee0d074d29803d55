//! Listing of a repository at one commit.

use crate::names::{check_file, is_commit};
use apr_sdk::{Error, Result, escape};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Files in one repository. Ten times as many as any model has.
pub const MOST_FILES: usize = 100_000;

/// A file of a repository.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Length in bytes, if the hub said it.
    pub size: Option<u64>,
    /// Git's id of the file, or of the pointer to a large one.
    pub git_id: Option<String>,
    /// The SHA-256 of a large file, in hexadecimal digits.
    pub sha256: Option<String>,
}

/// A repository at one commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// The commit, 40 hexadecimal digits.
    pub commit: String,
    /// Files by name.
    pub files: BTreeMap<String, Listed>,
    /// The licence that the model's card names.
    pub licence: Option<String>,
    /// Kind of access, if it is not given to everyone: `auto` or `manual`.
    pub gated: Option<String>,
}

/// The answer to `api/models/{id}/revision/{revision}?blobs=true`.
#[derive(Deserialize)]
struct Info {
    sha: String,
    #[serde(default)]
    siblings: Vec<Sibling>,
    #[serde(default)]
    gated: serde_json::Value,
    #[serde(default, rename = "cardData")]
    card: serde_json::Value,
}

#[derive(Deserialize)]
struct Sibling {
    rfilename: String,
    size: Option<u64>,
    #[serde(rename = "blobId")]
    blob_id: Option<String>,
    lfs: Option<Lfs>,
}

#[derive(Deserialize)]
struct Lfs {
    #[serde(alias = "oid")]
    sha256: Option<String>,
    size: Option<u64>,
}

impl Listing {
    /// Reads the hub's answer.
    ///
    /// # Errors
    /// Malformed for what is no such answer, and for names that no path may be built from; LimitExceeded.
    pub fn parse(bytes: &[u8]) -> Result<Listing> {
        let info: Info = serde_json::from_slice(bytes).map_err(|error| {
            Error::malformed(format!("the server's answer is not the hub's: {error}"))
                .hint("check HF_ENDPOINT, and whether a proxy answers in the hub's place")
        })?;
        if !is_commit(&info.sha) {
            let message = format!("the hub names `{}` as the commit", escape(&info.sha, 80));
            return Err(Error::malformed(message).hint("check HF_ENDPOINT"));
        }
        if info.siblings.len() > MOST_FILES {
            return Err(Error::limit(format!("the repository has more than {MOST_FILES} files")));
        }
        let mut files = BTreeMap::new();
        for file in info.siblings {
            check_file(&file.rfilename)?;
            let is_hexadecimal = |text: &String, len: usize| {
                text.len() == len && text.bytes().all(|b| matches!(b, b'0'..=b'9' | b'a'..=b'f'))
            };
            let lfs = file.lfs.as_ref();
            let listed = Listed {
                size: lfs.and_then(|lfs| lfs.size).or(file.size),
                git_id: file.blob_id.filter(|id| is_hexadecimal(id, 40)),
                sha256: lfs.and_then(|lfs| lfs.sha256.clone()).filter(|sha| is_hexadecimal(sha, 64)),
            };
            if files.insert(file.rfilename.clone(), listed).is_some() {
                let message = format!("the hub lists `{}` twice", escape(&file.rfilename, 200));
                return Err(Error::malformed(message));
            }
        }
        let licence = info.card.get("license_name").filter(|name| name.is_string());
        let licence = licence.or_else(|| info.card.get("license")).and_then(|licence| match licence {
            serde_json::Value::Array(all) => all.first()?.as_str(),
            one => one.as_str(),
        });
        let gated = match &info.gated {
            serde_json::Value::String(how) => Some(how.clone()),
            serde_json::Value::Bool(true) => Some("manual".to_owned()),
            _ => None,
        };
        Ok(Listing { commit: info.sha, files, licence: licence.map(str::to_owned), gated })
    }

    /// Returns whether a folder is in the repository.
    pub fn has_folder(&self, folder: &str) -> bool {
        let prefix = format!("{folder}/");
        self.files.range(prefix.clone()..).next().is_some_and(|(name, _)| name.starts_with(&prefix))
    }

    /// The names in a folder (`""` for the repository itself), sorted; folders end in `/`.
    pub fn entries(&self, folder: &str) -> Vec<String> {
        let prefix = if folder.is_empty() { String::new() } else { format!("{folder}/") };
        let below = self.files.keys().filter_map(|name| name.strip_prefix(&prefix));
        let mut names: Vec<String> =
            below.map(|rest| rest.split_inclusive('/').next().unwrap_or_default().to_owned()).collect();
        names.sort();
        names.dedup();
        names
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(siblings: &str) -> String {
        format!(
            r#"{{"sha":"{}","gated":"auto","cardData":{{"license":"mit"}},"siblings":[{siblings}]}}"#,
            "a".repeat(40)
        )
    }

    #[test]
    fn a_listing_has_sizes_and_folders() {
        let sha = "b".repeat(64);
        let files = format!(
            r#"{{"rfilename":"config.json","size":3,"blobId":"{}"}},
               {{"rfilename":"onnx/model.onnx","size":134,"lfs":{{"sha256":"{sha}","size":9,"pointerSize":134}}}}"#,
            "c".repeat(40)
        );
        let listing = Listing::parse(info(&files).as_bytes()).unwrap();
        assert_eq!(listing.entries(""), ["config.json", "onnx/"]);
        assert_eq!(listing.entries("onnx"), ["model.onnx"]);
        assert!(listing.has_folder("onnx") && !listing.has_folder("onn"));
        let model = &listing.files["onnx/model.onnx"];
        assert_eq!((model.size, model.sha256.as_deref()), (Some(9), Some(sha.as_str())));
        assert_eq!((listing.licence.as_deref(), listing.gated.as_deref()), (Some("mit"), Some("auto")));
    }

    #[test]
    fn a_hostile_listing_is_refused() {
        for name in ["../x", "/x", "a\\\\b", "a\\u0000b", "C:/x", "a//../b"] {
            let text = info(&format!(r#"{{"rfilename":"{name}"}}"#));
            assert!(Listing::parse(text.as_bytes()).is_err(), "{name}");
        }
        assert!(Listing::parse(b"<html>").is_err());
        assert!(Listing::parse(br#"{"sha":"../../x","siblings":[]}"#).is_err());
        let twice = info(r#"{"rfilename":"a"},{"rfilename":"a"}"#);
        assert!(Listing::parse(twice.as_bytes()).is_err());
    }
}
