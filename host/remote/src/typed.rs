//! Addresses as they are typed, and as everything that is printed has them.

use std::collections::HashMap;
use std::ffi::OsString;
use std::path::Path;
use url::Url;

/// Addresses whose user, password and query were taken off before anything could print them.
#[derive(Clone, Default)]
pub struct TypedAddresses(HashMap<String, Url>);

impl TypedAddresses {
    /// Takes what may be secret off all addresses among arguments. Two that are then the same are told apart by a number.
    pub fn take(args: &mut [OsString]) -> TypedAddresses {
        let mut typed = TypedAddresses::default();
        for arg in args {
            if let Some(plain) = arg.to_str().and_then(|text| typed.plain(text)) {
                *arg = plain.into();
            }
        }
        typed
    }

    fn plain(&mut self, text: &str) -> Option<String> {
        let is_address = ["http://", "https://"]
            .iter()
            .any(|scheme| text.get(..scheme.len()).is_some_and(|start| start.eq_ignore_ascii_case(scheme)));
        let url = Url::parse(text).ok().filter(|_| is_address)?;
        let has_secrets = !url.username().is_empty() || url.password().is_some() || url.query().is_some();
        if !has_secrets {
            return None;
        }
        let shown = crate::http::shown(&url);
        let numbered = (2..).map(|n| format!("{shown}#{n}"));
        let mut names = std::iter::once(shown.clone()).chain(numbered);
        let name = names.find(|name| self.0.get(name).is_none_or(|known| *known == url))?;
        self.0.insert(name.clone(), url);
        Some(name)
    }

    /// The address that was typed where this one is shown.
    pub fn of(&self, path: &Path) -> Option<&Url> {
        self.0.get(path.to_str()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_taken_off_arguments() {
        let words = [
            "apr",
            "diff",
            "https://ada:pw@h/m?sig=1",
            "https://h/m?sig=2",
            "https://h/plain",
            "HTTPS://h/m?sig=1",
            "m?.gguf",
        ];
        let mut args: Vec<OsString> = words.map(OsString::from).into();
        let typed = TypedAddresses::take(&mut args);
        let shown: Vec<&str> = args[2..].iter().map(|arg| arg.to_str().unwrap()).collect();
        assert_eq!(shown, ["https://h/m", "https://h/m#2", "https://h/plain", "https://h/m#3", "m?.gguf"]);
        assert_eq!(typed.of(Path::new("https://h/m")).unwrap().as_str(), "https://ada:pw@h/m?sig=1");
        assert_eq!(typed.of(Path::new("https://h/m#2")).unwrap().query(), Some("sig=2"));
        assert!(typed.of(Path::new("https://h/plain")).is_none());
    }
}
