//! Names of blobs: what the hub calls a file's etag, which for most files is the digest of its content.

use apr_sdk::{Error, Result, escape};
use serde::{Deserialize, Serialize};
use sha1::{Digest as _, Sha1};
use sha2::Sha256;
use std::fmt;
use std::io::Read;

/// The name of a blob in a cache.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlobName(String);

/// The digest of a file's content.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ContentDigest {
    /// SHA-256: 64 hexadecimal digits. The hub names files in its large-file storage so.
    Sha256(String),
    /// SHA-1 of `blob LENGTH\0` and the content, which is git's id: 40 hexadecimal digits.
    Git(String),
}

impl BlobName {
    /// The blob with this name, which is an etag without its quotes.
    ///
    /// # Errors
    /// Malformed for a name that no path may be built from.
    pub fn new(etag: &str) -> Result<BlobName> {
        let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte);
        let is_partial = [".incomplete", ".json", ".lock", ".tmp"].iter().any(|end| etag.ends_with(end));
        if !(1..=128).contains(&etag.len()) || !etag.bytes().all(fits) || etag.starts_with('.') || is_partial
        {
            let message = format!("the etag `{}` cannot be the name of a file", escape(etag, 200));
            return Err(
                Error::malformed(message).hint("check that the endpoint is a hub, and not a proxy's page")
            );
        }
        Ok(BlobName(etag.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The digest that the content must have by this name; `None` for a name that says nothing of the content.
    pub fn digest(&self) -> Option<ContentDigest> {
        let is_hex = self.0.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        match self.0.len() {
            64 if is_hex => Some(ContentDigest::Sha256(self.0.clone())),
            40 if is_hex => Some(ContentDigest::Git(self.0.clone())),
            _ => None,
        }
    }
}

impl fmt::Display for BlobName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl ContentDigest {
    /// The hexadecimal digits.
    pub fn digits(&self) -> &str {
        match self {
            ContentDigest::Sha256(digits) | ContentDigest::Git(digits) => digits,
        }
    }

    /// The name of the algorithm.
    pub fn algorithm(&self) -> &'static str {
        match self {
            ContentDigest::Sha256(_) => "SHA-256",
            ContentDigest::Git(_) => "git SHA-1",
        }
    }

    /// The digest by the same algorithm of `len` bytes of content. `tick` is told how many bytes more were hashed, and may
    /// stop the work.
    ///
    /// # Errors
    /// Errors of reading and of `tick`; UnexpectedEof if there are fewer bytes, or more.
    pub fn of_content(
        &self,
        content: &mut dyn Read,
        len: u64,
        tick: &dyn Fn(u64) -> std::io::Result<()>,
    ) -> std::io::Result<ContentDigest> {
        match self {
            ContentDigest::Sha256(_) => {
                let mut hash = Sha256::new();
                feed(content, len, &mut |bytes| hash.update(bytes), tick)?;
                Ok(ContentDigest::Sha256(hex(&hash.finalize())))
            }
            ContentDigest::Git(_) => {
                let mut hash = Sha1::new();
                hash.update(format!("blob {len}\0"));
                feed(content, len, &mut |bytes| hash.update(bytes), tick)?;
                Ok(ContentDigest::Git(hex(&hash.finalize())))
            }
        }
    }
}

impl fmt::Display for ContentDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.algorithm(), self.digits())
    }
}

fn feed(
    content: &mut dyn Read,
    len: u64,
    update: &mut dyn FnMut(&[u8]),
    tick: &dyn Fn(u64) -> std::io::Result<()>,
) -> std::io::Result<()> {
    let mut buffer = vec![0; 1 << 20];
    let mut left = len;
    loop {
        let n = match content.read(&mut buffer) {
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
            read => read?,
        };
        match left.checked_sub(n as u64) {
            Some(0) if n == 0 => return Ok(()),
            Some(rest) if n > 0 => left = rest,
            _ => {
                return Err(std::io::Error::new(
                    std::io::ErrorKind::UnexpectedEof,
                    "the file changed meanwhile",
                ));
            }
        }
        update(&buffer[..n]);
        tick(n as u64)?;
    }
}

/// Bytes as hexadecimal digits, in lower case.
pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hash(name: &str, content: &[u8]) -> std::io::Result<String> {
        let digest = BlobName::new(name).unwrap().digest().unwrap();
        let mut content = content;
        let len = content.len() as u64;
        digest.of_content(&mut content, len, &|_| Ok(())).map(|found| found.digits().to_owned())
    }

    #[test]
    fn the_name_says_which_digest_the_content_has() {
        // `printf hello | sha256sum` and `printf hello | git hash-object --stdin`.
        let sha256 = "2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824";
        let git = "b6fc4c620b67d95f953a5c1c1230aaab5db5a1b0";
        assert_eq!(hash(sha256, b"hello").unwrap(), sha256);
        assert_eq!(hash(git, b"hello").unwrap(), git);
        assert_eq!(BlobName::new("abc-7").unwrap().digest(), None);
        assert_eq!(BlobName::new(&sha256.to_uppercase()).unwrap().digest(), None);
    }

    #[test]
    fn content_of_another_length_is_not_hashed() {
        let digest = ContentDigest::Git("0".repeat(40));
        for len in [4, 6] {
            let error = digest.of_content(&mut &b"hello"[..], len, &|_| Ok(())).unwrap_err();
            assert_eq!(error.kind(), std::io::ErrorKind::UnexpectedEof);
        }
    }

    #[test]
    fn no_name_is_a_path_or_that_of_another_file() {
        for bad in [
            "",
            "..",
            ".x",
            "a/b",
            "a\\b",
            "a:b",
            "a\0",
            "a.incomplete",
            "a.apr.json",
            "a.lock",
            &"a".repeat(129),
        ] {
            assert!(BlobName::new(bad).is_err(), "{bad:?}");
        }
        assert_eq!(
            BlobName::new("a/b").unwrap_err().to_string(),
            "E002 the etag `a/b` cannot be the name of a file: check that the endpoint is a hub, and not a proxy's page"
        );
    }
}
