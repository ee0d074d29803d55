//! The environment, and the user's folders as the XDG base directories say.

use std::path::PathBuf;

/// Looks up an environment variable; a value, so that tests need not change the process's own.
pub type Env<'a> = &'a dyn Fn(&str) -> Option<String>;

/// The process's environment.
pub fn process_env(name: &str) -> Option<String> {
    std::env::var(name).ok()
}

/// `~/.config`, or where `XDG_CONFIG_HOME` points. Only absolute paths count, as the XDG text says.
pub fn config_home(env: Env<'_>) -> Option<PathBuf> {
    xdg(env, "XDG_CONFIG_HOME", ".config")
}

/// `~/.cache`, or where `XDG_CACHE_HOME` points.
pub fn cache_home(env: Env<'_>) -> Option<PathBuf> {
    xdg(env, "XDG_CACHE_HOME", ".cache")
}

/// `~/.local/state`, or where `XDG_STATE_HOME` points.
pub fn state_home(env: Env<'_>) -> Option<PathBuf> {
    xdg(env, "XDG_STATE_HOME", ".local/state")
}

fn xdg(env: Env<'_>, name: &str, otherwise: &str) -> Option<PathBuf> {
    env(name).and_then(absolute).or_else(|| {
        let home = env("HOME").or_else(|| env("USERPROFILE")).and_then(absolute)?;
        Some(home.join(otherwise))
    })
}

fn absolute(path: String) -> Option<PathBuf> {
    Some(PathBuf::from(path)).filter(|path| path.is_absolute())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn relative_folders_are_ignored() {
        let home = |xdg: &'static str| {
            config_home(&move |name| match name {
                "XDG_CONFIG_HOME" => Some(xdg.to_owned()),
                "HOME" => Some("/home/ada".to_owned()),
                _ => None,
            })
        };
        assert_eq!(home("relative"), Some("/home/ada/.config".into()));
        assert_eq!(home("/etc/ada"), Some("/etc/ada".into()));
        assert_eq!(config_home(&|_| None), None);
    }
}
