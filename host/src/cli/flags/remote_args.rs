//! Where models that are elsewhere come from, and how.

use apr_host::sizes::parse_size;
use apr_remote::http::Secret;
use apr_remote::places::RemoteOptions;
use apr_remote::settings::environment;
use apr_sdk::{Error, Result, escape};
use std::path::{Path, PathBuf};

/// How models behind `https://` and `hf://` are read.
#[derive(Clone, Debug, Default, clap::Args)]
#[command(next_help_heading = "Models from elsewhere")]
pub struct RemoteArgs {
    /// Read this branch, tag or commit of a model on the hub
    #[arg(long, value_name = "REVISION")]
    pub revision: Option<String>,
    /// Send the headers in FILE, one per line, to the server of an https address
    #[arg(long, value_name = "FILE")]
    pub header_file: Option<PathBuf>,
    /// Keep nothing that is downloaded
    #[arg(long)]
    pub no_cache: bool,
    /// With --no-cache: do not fetch more than is needed only to compare the digest; the output records it
    #[arg(long, requires = "no_cache")]
    pub allow_unverified: bool,
    /// Receive at most RATE bytes per second: 10M, 500k
    #[arg(long, value_name = "RATE", value_parser = parse_size)]
    pub limit_rate: Option<u64>,
    /// Allow http, which anyone on the way can read and change, to other machines
    #[arg(long)]
    pub insecure_http: bool,
    /// The SHA-256 that the file behind an https address must have, for the verbs that take one.
    #[arg(skip)]
    pub sha256: Option<String>,
}

impl RemoteArgs {
    /// The options that flags and environment make.
    ///
    /// # Errors
    /// Any error from reading the file of headers; InvalidArgument for what is no header in it.
    pub fn options(&self, env: environment::Env<'_>) -> Result<RemoteOptions> {
        let mut options = environment::options(env)?;
        options.client.insecure_http = self.insecure_http;
        options.client.limit_rate = self.limit_rate;
        options.sha256.clone_from(&self.sha256);
        options.keeps_nothing = self.no_cache;
        options.allows_unverified = self.allow_unverified;
        options.revision.clone_from(&self.revision);
        if let Some(file) = &self.header_file {
            options.headers = headers(file)?;
        }
        Ok(options)
    }
}

/// 64 hexadecimal digits, in lower case.
///
/// # Errors
/// A sentence saying what is wrong.
pub fn parse_sha256(text: &str) -> std::result::Result<String, String> {
    let digits = text.trim().trim_start_matches("sha256:").to_ascii_lowercase();
    match digits.len() == 64 && digits.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        true => Ok(digits),
        false => Err(format!("invalid SHA-256 `{text}`: expected 64 hexadecimal digits")),
    }
}

/// Bytes of a file of headers.
const MOST_HEADERS: u64 = 64 << 10;

/// The headers in a file: `NAME: VALUE`, one per line; empty lines and those that begin with `#` are none.
fn headers(file: &Path) -> Result<Vec<(String, Secret)>> {
    let shown = file.display().to_string();
    let bytes = apr_host::storage::small_file::read_bytes(file)?;
    if bytes.len() as u64 > MOST_HEADERS {
        return Err(
            Error::limit(format!("a file of headers has at most {MOST_HEADERS} bytes")).in_file(shown)
        );
    }
    let text = String::from_utf8(bytes)
        .map_err(|_| Error::invalid_argument("the file of headers is not text").in_file(shown.clone()))?;
    let lines = text.lines().enumerate().map(|(at, line)| (at + 1, line.trim()));
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|(number, line)| {
            let header = line.split_once(':').filter(|(name, _)| !name.trim().is_empty());
            // The line itself may be a secret.
            let (name, value) = header.ok_or_else(|| {
                let message = format!("line {number} is not a header");
                Error::invalid_argument(message).in_file(shown.clone()).hint("write it as `NAME: VALUE`")
            })?;
            Ok((escape(name.trim(), 200).to_string(), Secret::new(value.trim())))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_read_and_what_is_none_is_not_shown() {
        let file = std::env::temp_dir().join(format!("apr-headers-{}", std::process::id()));
        std::fs::write(&file, "# mine\n\nAuthorization: Bearer a:b\r\nX-Key:  k \n").unwrap();
        let read = headers(&file).unwrap();
        let shown: Vec<_> = read.iter().map(|(name, value)| (name.as_str(), value.reveal())).collect();
        assert_eq!(shown, [("Authorization", "Bearer a:b"), ("X-Key", "k")]);
        std::fs::write(&file, "hunter2").unwrap();
        let error = headers(&file).unwrap_err();
        assert!(!format!("{error:?}").contains("hunter2"));
        std::fs::remove_file(&file).unwrap();
    }
}
