//! The origin of a URL: what a token belongs to.

use std::fmt;
use url::Url;

/// Scheme, host and port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Origin {
    scheme: String,
    host: String,
    port: u16,
}

impl Origin {
    /// The origin of a URL; `None` if it has no host.
    pub fn of(url: &Url) -> Option<Origin> {
        let host = url.host_str()?.trim_end_matches('.').to_ascii_lowercase();
        Some(Origin { scheme: url.scheme().to_owned(), host, port: url.port_or_known_default()? })
    }

    /// The host: a name, or an address as URLs have it.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let usual = if self.scheme == "https" { 443 } else { 80 };
        write!(f, "{}://{}", self.scheme, self.host)?;
        if self.port == usual { Ok(()) } else { write!(f, ":{}", self.port) }
    }
}

/// A URL as it may be printed and stored: without user, password, query and fragment, which may be secrets.
pub fn shown(url: &Url) -> String {
    let mut plain = url.clone();
    plain.set_query(None);
    plain.set_fragment(None);
    // Only URLs without a host refuse these, and they have neither.
    let _ = plain.set_username("");
    let _ = plain.set_password(None);
    plain.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_in_a_url_are_not_shown() {
        let url = Url::parse("https://ada:pass@example.org/a/m.gguf?sig=secret#x").unwrap();
        assert_eq!(shown(&url), "https://example.org/a/m.gguf");
        assert_eq!(Origin::of(&url).unwrap().to_string(), "https://example.org");
    }

    #[test]
    fn origins_differ_in_scheme_host_and_port() {
        let of = |text: &str| Origin::of(&Url::parse(text).unwrap()).unwrap();
        assert_eq!(of("https://Example.org/"), of("https://example.org.:443/x"));
        assert_ne!(of("https://example.org/"), of("http://example.org/"));
        assert_ne!(of("https://example.org/"), of("https://example.org:8443/"));
        assert_ne!(of("https://example.org/"), of("https://example.org.evil.net/"));
    }
}
