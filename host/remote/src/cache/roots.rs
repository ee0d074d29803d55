//! The folders of the caches, as the environment says; the same ones that the hub's own client uses.

use apr_sdk::{Error, Result};
use std::path::PathBuf;

/// Looks up an environment variable.
pub type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The folders that downloads are kept in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Roots {
    /// Files from the hub; shared with the hub's own client unless `APR_CACHE` is set.
    pub hub: PathBuf,
    /// Files from elsewhere behind HTTPS; apr's own.
    pub https: PathBuf,
}

impl Roots {
    /// The folders that the environment names. `APR_CACHE` holds both; without it, that of the hub is `HF_HUB_CACHE`,
    /// else `HUGGINGFACE_HUB_CACHE`, else `hub` in `HF_HOME`, else `huggingface/hub` in the user's folder for caches.
    /// A variable that is blank counts as not set; `~` and `$VAR` in its value are expanded, as the hub's client does.
    ///
    /// # Errors
    /// NotFound if the environment names no folder, not even a home.
    pub fn of_env(env: Env<'_>) -> Result<Roots> {
        if let Some(own) = folder(env, "APR_CACHE") {
            return Ok(Roots { hub: own.join("hub"), https: own.join("https") });
        }
        let caches = folder(env, "XDG_CACHE_HOME").or_else(|| Some(home(env)?.join(".cache")));
        let hub = folder(env, "HF_HUB_CACHE")
            .or_else(|| folder(env, "HUGGINGFACE_HUB_CACHE"))
            .or_else(|| Some(hub_home(env)?.join("hub")));
        // A cache of the hub's that is named, in a process without a home: the other lies beside it.
        let https = caches
            .map(|caches| caches.join("apr").join("https"))
            .or_else(|| Some(hub.as_ref()?.with_file_name("apr-https")));
        match (hub, https) {
            (Some(hub), Some(https)) => Ok(Roots { hub, https }),
            _ => Err(Error::not_found("there is no folder for downloads: neither HOME nor APR_CACHE is set")
                .hint("set APR_CACHE to a folder that downloads may be kept in")),
        }
    }
}

/// The folder of the hub's own client, which holds the token that logging in wrote: `HF_HOME`, else `huggingface` in the
/// user's folder for caches.
pub fn hub_home(env: Env<'_>) -> Option<PathBuf> {
    let caches = || folder(env, "XDG_CACHE_HOME").or_else(|| Some(home(env)?.join(".cache")));
    folder(env, "HF_HOME").or_else(|| Some(caches()?.join("huggingface")))
}

/// The folder that a variable names.
fn folder(env: Env<'_>, name: &str) -> Option<PathBuf> {
    let value = env(name).filter(|value| !value.trim().is_empty())?;
    Some(PathBuf::from(expand_variables(&expand_home(&value, env), env)))
}

fn home(env: Env<'_>) -> Option<PathBuf> {
    let home = env("HOME").or_else(|| env("USERPROFILE"))?;
    Some(PathBuf::from(home)).filter(|home| home.is_absolute())
}

/// `~` at the start is the user's home; `~name` is left as it is.
fn expand_home(value: &str, env: Env<'_>) -> String {
    match (value.strip_prefix('~'), home(env)) {
        (Some(rest), Some(home)) if rest.is_empty() || rest.starts_with('/') => {
            format!("{}{rest}", home.display())
        }
        _ => value.to_owned(),
    }
}

/// `$NAME` and `${NAME}` are the values of these variables; what is not set is left as it is, as Python does.
fn expand_variables(value: &str, env: Env<'_>) -> String {
    let mut out = String::with_capacity(value.len());
    let mut rest = value;
    while let Some((before, after)) = rest.split_once('$') {
        out.push_str(before);
        let (name, behind) = match after.strip_prefix('{').and_then(|inner| inner.split_once('}')) {
            Some((name, behind)) => (name, behind),
            None => {
                let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
                after.split_at(after.find(|c| !is_name(c)).unwrap_or(after.len()))
            }
        };
        match env(name).filter(|_| !name.is_empty()) {
            Some(value) => out.push_str(&value),
            None => {
                out.push('$');
                out.push_str(&after[..after.len() - behind.len()]);
            }
        }
        rest = behind;
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hub(set: &[(&str, &str)]) -> String {
        roots(set).unwrap().hub.display().to_string()
    }

    fn roots(set: &[(&str, &str)]) -> Result<Roots> {
        let set: Vec<(String, String)> =
            set.iter().map(|(n, v)| ((*n).to_owned(), (*v).to_owned())).collect();
        Roots::of_env(&move |name| set.iter().find(|(of, _)| of == name).map(|(_, value)| value.clone()))
    }

    #[test]
    fn the_hub_s_own_variables_decide_in_its_order() {
        let home = ("HOME", "/home/ada");
        assert_eq!(hub(&[home]), "/home/ada/.cache/huggingface/hub");
        assert_eq!(hub(&[home, ("XDG_CACHE_HOME", "/c")]), "/c/huggingface/hub");
        assert_eq!(hub(&[home, ("XDG_CACHE_HOME", "/c"), ("HF_HOME", "/h")]), "/h/hub");
        assert_eq!(hub(&[("HF_HOME", "/h"), ("HUGGINGFACE_HUB_CACHE", "/old")]), "/old");
        assert_eq!(hub(&[("HUGGINGFACE_HUB_CACHE", "/old"), ("HF_HUB_CACHE", "/new")]), "/new");
        assert_eq!(hub(&[("HF_HUB_CACHE", "/new"), ("APR_CACHE", "/own")]), "/own/hub");
        assert_eq!(hub(&[home, ("HF_HUB_CACHE", " ")]), "/home/ada/.cache/huggingface/hub");
        assert_eq!(roots(&[("APR_CACHE", "/own")]).unwrap().https, PathBuf::from("/own/https"));
        assert_eq!(roots(&[home]).unwrap().https, PathBuf::from("/home/ada/.cache/apr/https"));
        assert_eq!(roots(&[("HF_HUB_CACHE", "/d/hub")]).unwrap().https, PathBuf::from("/d/apr-https"));
    }

    #[test]
    fn homes_and_variables_in_values_are_expanded() {
        let set = [("HOME", "/home/ada"), ("DISK", "/disk"), ("N", "1")];
        let with = |value| hub(&[&set[..], &[("HF_HUB_CACHE", value)]].concat());
        assert_eq!(with("~/hub"), "/home/ada/hub");
        assert_eq!(with("~bob/hub"), "~bob/hub");
        assert_eq!(with("$DISK/hub"), "/disk/hub");
        assert_eq!(with("${DISK}$N/a$"), "/disk1/a$");
        assert_eq!(with("$ABSENT/${ABSENT}/x"), "$ABSENT/${ABSENT}/x");
    }

    #[test]
    fn without_a_home_there_is_no_cache() {
        assert_eq!(
            roots(&[("HF_HUB_CACHE", "")]).unwrap_err().to_string(),
            "there is no folder for downloads: neither HOME nor APR_CACHE is set: set APR_CACHE to a folder that \
             downloads may be kept in"
        );
    }
}
