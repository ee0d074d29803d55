//! Addresses that users type in place of a path: `https://…`, `hf://org/name[@revision][/file]`, `hf://org/name:Q4_K_M`,
//! and `-`.

use crate::names::{RepositoryId, check_file, check_revision};
use apr_sdk::{Error, Result, escape};
use std::path::{Path, PathBuf};
use url::Url;

/// Address of a model that is not in a file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A file behind HTTP.
    Url(Url),
    /// A repository of the hub, or a file in it.
    Hub(HubAddress),
    /// Standard input.
    Stdin,
}

/// A repository of the hub, and what of it is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubAddress {
    /// The repository.
    pub repository: RepositoryId,
    /// The branch, tag or commit, if one is named.
    pub revision: Option<String>,
    /// The file, or folder, in the repository; empty for all of it.
    pub file: String,
    /// The word that the file's name has: a type of weights.
    pub word: Option<String>,
}

impl Address {
    /// The address that a path is, if it is one.
    ///
    /// # Errors
    /// InvalidArgument for an address that leads nowhere.
    pub fn of(path: &Path) -> Option<Result<Address>> {
        let text = path.to_str()?;
        if text == "-" {
            return Some(Ok(Address::Stdin));
        }
        let (scheme, rest) = text.split_once("://")?;
        let is_scheme =
            !scheme.is_empty() && scheme.bytes().all(|b| b.is_ascii_alphanumeric() || b"+-.".contains(&b));
        let address = match scheme.to_ascii_lowercase().as_str() {
            _ if !is_scheme => return None,
            "hf" => HubAddress::parse(rest).map(Address::Hub),
            "http" | "https" => match Url::parse(text) {
                Ok(url) if url.host_str().is_some() => Ok(Address::Url(url)),
                _ => Err(Error::invalid_argument("this is not an address").hint("check it")),
            },
            other => {
                let message =
                    format!("addresses that begin with `{}://` are not supported", escape(other, 20));
                Err(Error::unsupported(message).hint("use https://, hf://, or a path"))
            }
        };
        Some(address.map_err(|error| error.in_file(without_secrets(text))))
    }
}

/// The path that a model has, or would have in the working folder if it is elsewhere: what outputs are named after.
pub fn local_path(path: &Path) -> PathBuf {
    let name = match Address::of(path) {
        None => return path.to_owned(),
        Some(Ok(Address::Hub(address))) => match address.file.rsplit('/').next() {
            Some(file) if !file.is_empty() => file.to_owned(),
            _ => address.repository.as_str().rsplit('/').next().unwrap_or_default().to_owned(),
        },
        Some(Ok(Address::Url(url))) => {
            let last = url.path_segments().and_then(|mut parts| parts.next_back()).unwrap_or_default();
            last.to_owned()
        }
        Some(Ok(Address::Stdin) | Err(_)) => "stdin".to_owned(),
    };
    PathBuf::from(if check_file(&name).is_ok() { name } else { "model".to_owned() })
}

/// A text that was to be a URL, without its query and user.
fn without_secrets(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    // A password may have any character that ends something else.
    let rest = if scheme == "hf" { rest } else { rest.rsplit('@').next().unwrap_or_default() };
    let rest = rest.split(['?', '#']).next().unwrap_or_default();
    let plain = format!("{scheme}://{rest}");
    let (host, path) = rest.split_once('/').map_or((rest, None), |(host, path)| (host, Some(path)));
    let host = host.rsplit('@').next().unwrap_or_default();
    match (scheme, path) {
        // `@` separates a revision here.
        ("hf", _) => plain,
        (_, Some(path)) => format!("{scheme}://{host}/{path}"),
        (_, None) => format!("{scheme}://{host}"),
    }
}

/// Kinds of repositories that hold no model.
const OTHER_KINDS: [&str; 4] = ["datasets", "spaces", "buckets", "kernels"];

impl HubAddress {
    fn parse(text: &str) -> Result<HubAddress> {
        let text = text.strip_prefix("models/").unwrap_or(text).trim_end_matches('/');
        let first = text.split('/').next().unwrap_or_default();
        if OTHER_KINDS.contains(&first) {
            let kind = first.trim_end_matches('s');
            return Err(Error::unsupported(format!("this is a {kind} of the hub, not a model"))
                .hint("name a model: hf://org/name"));
        }
        // The revision ends at the first `/`, those of pull requests and conversions excepted.
        let (name, behind) = match text.split_once('@') {
            Some((name, behind)) if name.matches('/').count() <= 1 => (name, Some(behind)),
            _ => (text, None),
        };
        let (revision, in_revision) = match behind {
            Some(behind) => {
                let parts = if behind.starts_with("refs/") { 3 } else { 1 };
                let end = behind.match_indices('/').nth(parts - 1).map_or(behind.len(), |(at, _)| at);
                let revision = behind[..end].replace("%2F", "/").replace("%2f", "/");
                check_revision(&revision)?;
                (Some(revision), behind[end..].trim_start_matches('/'))
            }
            None => (None, ""),
        };
        let mut parts = name.splitn(3, '/');
        let (owner, own, below) = (parts.next().unwrap_or_default(), parts.next(), parts.next());
        let Some(own) = own else {
            let message = "the owner is missing in the name of the model";
            return Err(Error::invalid_argument(message).hint("write it as hf://org/name"));
        };
        let (own, word) = match own.split_once(':') {
            Some((own, word)) if below.is_none() && in_revision.is_empty() => (own, Some(word.to_owned())),
            _ => (own, None),
        };
        let repository = RepositoryId::new(&format!("{owner}/{own}"))?;
        let file = below.unwrap_or(in_revision).to_owned();
        if !file.is_empty() {
            check_file(&file)?;
        }
        Ok(HubAddress { repository, revision, file, word: word.filter(|word| !word.is_empty()) })
    }

    /// The repository as it is typed, with the revision if one was.
    pub fn shown(&self) -> String {
        match &self.revision {
            Some(revision) => format!("hf://{}@{revision}", self.repository),
            None => format!("hf://{}", self.repository),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hub(text: &str) -> HubAddress {
        match Address::of(Path::new(text)) {
            Some(Ok(Address::Hub(address))) => address,
            other => panic!("{text}: {other:?}"),
        }
    }

    #[test]
    fn repositories_have_revisions_files_and_words() {
        let parts = |text: &str| {
            let HubAddress { repository, revision, file, word } = hub(text);
            (repository.to_string(), revision, file, word)
        };
        let some = |text: &str| Some(text.to_owned());
        let name = || "org/name".to_owned();
        assert_eq!(parts("hf://org/name"), (name(), None, String::new(), None));
        assert_eq!(parts("hf://models/org/name/"), (name(), None, String::new(), None));
        assert_eq!(parts("hf://org/name@v1/a/b.bin"), (name(), some("v1"), "a/b.bin".to_owned(), None));
        assert_eq!(
            parts("hf://org/name@refs/pr/7/b.bin"),
            (name(), some("refs/pr/7"), "b.bin".to_owned(), None)
        );
        assert_eq!(parts("hf://org/name@refs%2Fpr%2F7"), (name(), some("refs/pr/7"), String::new(), None));
        assert_eq!(parts("hf://org/name/b@2.bin"), (name(), None, "b@2.bin".to_owned(), None));
        assert_eq!(parts("hf://org/name:Q4_K_M"), (name(), None, String::new(), some("Q4_K_M")));
        assert_eq!(hub("hf://org/name@v1/a").shown(), "hf://org/name@v1");
    }

    #[test]
    fn addresses_that_lead_nowhere_are_refused() {
        for bad in [
            "hf://",
            "hf://name",
            "hf://datasets/org/name",
            "hf://spaces/a/b",
            "hf://org/name/../x",
            "hf://a--b/c",
            "hf://org/name@../x",
            "https://",
            "ftp://example.org/x",
            "file:///etc/passwd",
            "s3://bucket/m",
        ] {
            assert!(matches!(Address::of(Path::new(bad)), Some(Err(_))), "{bad}");
        }
        for path in ["model.gguf", "./-", "/a://b", "a/b://c", "://x"] {
            assert!(Address::of(Path::new(path)).is_none(), "{path}");
        }
        assert_eq!(Address::of(Path::new("-")).unwrap().unwrap(), Address::Stdin);
    }

    #[test]
    fn outputs_are_named_after_what_is_elsewhere() {
        for (path, name) in [
            ("a/b.gguf", "a/b.gguf"),
            ("hf://org/name", "name"),
            ("hf://org/name@v1/a/b.bin", "b.bin"),
            ("https://h/a/b.gguf?sig=1", "b.gguf"),
            ("https://h/", "model"),
            ("https://h/%2e%2e", "model"),
            ("-", "stdin"),
        ] {
            assert_eq!(local_path(Path::new(path)), Path::new(name), "{path}");
        }
    }

    #[test]
    fn a_refusal_shows_no_secret() {
        assert_eq!(without_secrets("https://ada:pw@h/x?sig=1"), "https://h/x");
        assert_eq!(without_secrets("https://ada:p/w?#@h/x?sig=1"), "https://h/x");
        let error = Address::of(Path::new("ftp://ada:pw@example.org/x?sig=1")).unwrap().unwrap_err();
        assert_eq!(error.file(), Some("ftp://example.org/x"));
    }
}
