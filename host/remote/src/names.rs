//! Names of the hub: repositories, revisions, and files in them.

use apr_engine::place::check_name;
use apr_sdk::{Error, Result, escape};
use std::fmt;

/// Characters in one part of a repository's name.
const LONGEST_PART: usize = 96;

/// A model repository of the hub: `org/name`, or `name` for the few without an owner.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RepositoryId {
    text: String,
}

impl RepositoryId {
    /// The repository with this name, by the hub's grammar.
    ///
    /// # Errors
    /// InvalidArgument for a name that no repository can have.
    pub fn new(text: &str) -> Result<RepositoryId> {
        let parts: Vec<&str> = text.split('/').collect();
        if parts.len() > 2 || !parts.iter().all(|part| is_part(part)) {
            let message = format!("`{}` cannot be the name of a model on the hub", escape(text, 200));
            return Err(
                Error::invalid_argument(message).hint("write it as the hub does, for example hf://org/name")
            );
        }
        Ok(RepositoryId { text: text.to_owned() })
    }

    /// The name, as the hub writes it.
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// The name of its folder in the cache: `models--org--name`.
    pub fn folder(&self) -> String {
        format!("models--{}", self.text.replace('/', "--"))
    }

    /// The repository whose folder in the cache has this name.
    pub fn of_folder(folder: &str) -> Option<RepositoryId> {
        let name = folder.strip_prefix("models--")?;
        RepositoryId::new(&name.replacen("--", "/", 1)).ok()
    }
}

impl fmt::Display for RepositoryId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

fn is_part(part: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
    (1..=LONGEST_PART).contains(&part.len())
        && part.bytes().all(fits)
        && !part.contains("--")
        && !part.contains("..")
        && !part.starts_with(['-', '.'])
        && !part.ends_with(['-', '.'])
        && !part.ends_with(".git")
}

/// Fails for a name of a revision (a branch, a tag, a commit, `refs/pr/1`) that leads out of a folder.
///
/// # Errors
/// InvalidArgument.
pub fn check_revision(revision: &str) -> Result<()> {
    let fits = revision.len() <= 255 && check_name(revision).is_ok() && !revision.contains('\\');
    if fits {
        return Ok(());
    }
    let message = format!("`{}` cannot be the name of a revision", escape(revision, 200));
    Err(Error::invalid_argument(message).hint("name a branch, a tag or a commit"))
}

/// Returns whether a text is a commit: 40 hexadecimal digits in lower case.
pub fn is_commit(text: &str) -> bool {
    text.len() == 40 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Fails for a file's name, as a server gives it, that no path may be built from.
///
/// # Errors
/// Malformed.
pub fn check_file(name: &str) -> Result<()> {
    check_name(name)?;
    // Some systems take off a dot or a blank at the end of a name.
    let is_cut = |part: &str| part.is_empty() || part.ends_with(['.', ' ']);
    let is_foreign = name.contains('\\') || name.split('/').any(|part| is_device(part) || is_cut(part));
    if is_foreign || name.len() > 1024 {
        let message = format!("the file name `{}` is not one that every system can hold", escape(name, 200));
        return Err(Error::malformed(message));
    }
    Ok(())
}

/// Returns whether a name belongs to a device, or a drive, on another system: such a path means another file there.
fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default().to_ascii_uppercase();
    let numbered = |prefix: &str| {
        stem.strip_prefix(prefix).is_some_and(|n| n.len() == 1 && n.bytes().all(|b| b.is_ascii_digit()))
    };
    ["CON", "PRN", "AUX", "NUL"].contains(&stem.as_str())
        || numbered("COM")
        || numbered("LPT")
        || name.contains(':')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repositories_have_the_grammar_of_the_hub() {
        for good in ["org/name", "gpt2", "a.b/c_d-e", "Qwen/Qwen3-0.6B"] {
            let id = RepositoryId::new(good).unwrap();
            assert_eq!(RepositoryId::of_folder(&id.folder()), Some(id));
        }
        let bad =
            ["", "a/b/c", "a--b/c", "../b", "a/..", "-a/b", "a/b.", "a/b.git", "a b/c", "a/", "/b", "a/b\0"];
        bad.iter().for_each(|bad| assert!(RepositoryId::new(bad).is_err(), "{bad:?}"));
    }

    #[test]
    fn no_name_leads_out_of_a_folder() {
        for bad in [
            "",
            "../a",
            "/a",
            "a/../b",
            "a\\b",
            "C:x",
            "nul",
            "a/aux.txt",
            "com1.bin",
            "a\0b",
            "a/",
            "a\nb",
            "a//b",
            "a.",
            "a ./b",
        ] {
            assert!(check_file(bad).is_err(), "{bad:?}");
        }
        ["config.json", "onnx/model.onnx", "a.b/c", "console.txt"]
            .iter()
            .for_each(|good| check_file(good).unwrap());
        ["main", "v1.0", "refs/pr/1", &"0".repeat(40)].iter().for_each(|good| check_revision(good).unwrap());
        ["", "../x", "a\\b", "/a"].iter().for_each(|bad| assert!(check_revision(bad).is_err(), "{bad:?}"));
    }
}
