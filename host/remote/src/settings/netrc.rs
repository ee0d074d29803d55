//! Users and passwords for hosts, as `~/.netrc` keeps them.

use crate::http::Secret;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use std::collections::HashMap;

/// Values of the header `Authorization` by host.
#[derive(Clone, Debug, Default)]
pub struct Logins {
    hosts: HashMap<String, Secret>,
    default: Option<Secret>,
}

impl Logins {
    /// Reads the text of a `.netrc`: `machine HOST login USER password WORD`, in any lines; `default` stands for all other
    /// hosts. Macros are passed over.
    pub fn parse(text: &str) -> Logins {
        let mut logins = Logins::default();
        let mut entry: Option<Entry> = None;
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            let mut words = line.split_whitespace();
            while let Some(word) = words.next() {
                match word {
                    _ if word.starts_with('#') => break,
                    "machine" => {
                        logins.add(entry.take());
                        entry = Some(Entry { host: words.next().map(str::to_owned), ..Entry::default() });
                    }
                    "default" => {
                        logins.add(entry.take());
                        entry = Some(Entry { is_default: true, ..Entry::default() });
                    }
                    "login" => set(&mut entry, words.next(), |entry| &mut entry.login),
                    "password" => set(&mut entry, words.next(), |entry| &mut entry.password),
                    "account" => drop(words.next()),
                    "macdef" => {
                        lines.by_ref().find(|line| line.trim().is_empty());
                        break;
                    }
                    _ => {}
                }
            }
        }
        logins.add(entry);
        logins
    }

    /// The header's value for a host.
    pub fn of(&self, host: &str) -> Option<Secret> {
        self.hosts.get(&host.to_ascii_lowercase()).or(self.default.as_ref()).cloned()
    }

    fn add(&mut self, entry: Option<Entry>) {
        let Some(Entry { host, is_default, login: Some(login), password }) = entry else { return };
        let value = basic(&login, &password.unwrap_or_default());
        match host {
            // The first of several counts, as for other programs.
            Some(host) => drop(self.hosts.entry(host.to_ascii_lowercase()).or_insert(value)),
            None if is_default && self.default.is_none() => self.default = Some(value),
            None => {}
        }
    }
}

#[derive(Default)]
struct Entry {
    host: Option<String>,
    is_default: bool,
    login: Option<String>,
    password: Option<String>,
}

fn set(entry: &mut Option<Entry>, value: Option<&str>, field: fn(&mut Entry) -> &mut Option<String>) {
    if let (Some(entry), Some(value)) = (entry, value) {
        *field(entry) = Some(value.to_owned());
    }
}

/// The header's value for a user and a password (RFC 7617).
pub fn basic(user: &str, password: &str) -> Secret {
    Secret::new(format!("Basic {}", STANDARD.encode(format!("{user}:{password}"))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_have_their_logins() {
        let text = "# mine\nmachine a.example login ada password x\nmachine b.example\n  login bob\n  password y\n\
                    macdef init\ncd /pub\nmachine evil login z password z\n\nmachine a.example login eve password e\n";
        let logins = Logins::parse(text);
        assert_eq!(logins.of("A.example"), Some(basic("ada", "x")));
        assert_eq!(logins.of("b.example").unwrap().reveal(), "Basic Ym9iOnk=");
        assert_eq!(logins.of("evil"), None);
        assert_eq!(Logins::parse("default login d password p").of("any"), Some(basic("d", "p")));
        assert_eq!(Logins::parse("machine x password p login").of("x"), None);
    }
}
