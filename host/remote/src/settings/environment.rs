//! Settings from the environment: the hub, the token, the cache, logins; by the variables of the hub's own client.

use crate::cache::{Roots, hub_home};
use crate::http::Secret;
use crate::places::RemoteOptions;
use crate::settings::netrc::Logins;
use apr_sdk::{Error, Result};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use crate::cache::Env;

/// Bytes of a file with a token, or with logins.
const MOST_SECRETS: u64 = 1 << 20;

/// The options that the environment makes.
///
/// # Errors
/// Io for a file with a token that is there and cannot be read.
pub fn options(env: Env<'_>) -> Result<RemoteOptions> {
    let mut options = RemoteOptions {
        endpoint: set(env, "HF_ENDPOINT"),
        token: token(env)?,
        is_offline: set(env, "HF_HUB_OFFLINE")
            .or_else(|| set(env, "TRANSFORMERS_OFFLINE"))
            .is_some_and(|v| is_on(&v)),
        has_no_links: set(env, "HF_HUB_DISABLE_SYMLINKS").is_some_and(|value| is_on(&value)),
        logins: logins(env)?,
        // Without a home there is none, which is an error only where one is needed.
        roots: Roots::of_env(env).ok(),
        state: state(env),
        scratch: std::env::temp_dir(),
        ..RemoteOptions::default()
    };
    let seconds = |name: &str| set(env, name)?.parse().ok().filter(|n| *n > 0).map(Duration::from_secs);
    if let Some(timeout) = seconds("HF_HUB_ETAG_TIMEOUT") {
        options.client.answer_timeout = timeout;
    }
    if let Some(timeout) = seconds("HF_HUB_DOWNLOAD_TIMEOUT") {
        options.client.read_timeout = timeout;
    }
    // For tests, which do not wait for seconds: in no help.
    if let Some(milliseconds) = set(env, "APR_RETRY_MILLISECONDS").and_then(|text| text.parse().ok()) {
        options.client.first_backoff = Duration::from_millis(milliseconds);
    }
    Ok(options)
}

/// The value of a variable that is set; blanks are none.
fn set(env: Env<'_>, name: &str) -> Option<String> {
    env(name).map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
}

fn is_on(value: &str) -> bool {
    ["1", "on", "yes", "true", "y"].contains(&value.to_ascii_lowercase().as_str())
}

/// The token for the hub: of a variable, or of the file that logging in wrote.
fn token(env: Env<'_>) -> Result<Option<Secret>> {
    if let Some(token) = set(env, "HF_TOKEN").or_else(|| set(env, "HUGGING_FACE_HUB_TOKEN")) {
        return Ok(Some(Secret::new(token)));
    }
    let file = match set(env, "HF_TOKEN_PATH") {
        Some(path) => Some(PathBuf::from(path)),
        None => hub_home(env).map(|home| home.join("token")),
    };
    let Some(file) = file else { return Ok(None) };
    let text = read(&file)?.unwrap_or_default();
    let token = text.trim();
    Ok((!token.is_empty()).then(|| Secret::new(token)))
}

/// The folder of what apr remembers: `apr` in `XDG_STATE_HOME`, else in `~/.local/state`.
pub fn state(env: Env<'_>) -> Option<PathBuf> {
    let absolute = |name: &str| set(env, name).map(PathBuf::from).filter(|path| path.is_absolute());
    let home = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(home.join("apr"))
}

fn logins(env: Env<'_>) -> Result<Logins> {
    let file = match set(env, "NETRC") {
        Some(path) => Some(PathBuf::from(path)),
        None => set(env, "HOME").map(|home| Path::new(&home).join(".netrc")),
    };
    let Some(file) = file else { return Ok(Logins::default()) };
    // One that cannot be read has nothing for anyone, as for other programs.
    Ok(Logins::parse(&read(&file).ok().flatten().unwrap_or_default()))
}

/// The text of a file, if there is one.
fn read(path: &Path) -> Result<Option<String>> {
    let failed = |error: &std::io::Error| {
        Error::io(format!("cannot read: {error}"))
            .in_file(path.display().to_string())
            .hint("check its permissions")
    };
    // What is no file, such as a pipe, would wait for ever.
    if !path.metadata().is_ok_and(|meta| meta.is_file()) {
        return Ok(None);
    }
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(|e| failed(&e))?;
    file.take(MOST_SECRETS).read_to_end(&mut bytes).map_err(|e| failed(&e))?;
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_token_comes_from_where_the_hubs_client_looks() {
        let folder = std::env::temp_dir().join(format!("apr-token-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("token"), " hf_file\n").unwrap();
        let home = folder.display().to_string();
        let token = |vars: &[(&str, &str)]| {
            let find =
                |name: &str| vars.iter().find(|(own, _)| *own == name).map(|(_, value)| (*value).to_owned());
            super::token(&find).unwrap().map(|token| token.reveal().to_owned())
        };
        assert_eq!(token(&[("HF_TOKEN", " a "), ("HUGGING_FACE_HUB_TOKEN", "b")]).as_deref(), Some("a"));
        assert_eq!(token(&[("HF_TOKEN", " "), ("HUGGING_FACE_HUB_TOKEN", "b")]).as_deref(), Some("b"));
        assert_eq!(token(&[("HF_HOME", &home)]).as_deref(), Some("hf_file"));
        assert_eq!(token(&[("HF_TOKEN_PATH", "/nowhere/token")]), None);
        assert_eq!(token(&[]), None);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
