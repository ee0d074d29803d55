//! The flags of every verb that changes metadata.

use crate::cli::flags::open_args::parse_pair;

/// Which metadata is changed.
#[derive(Clone, Debug, clap::Args)]
pub struct KeyArgs {
    /// Set a metadata key, keeping its type; may be repeated. VALUE may be @FILE; add a new key as KEY:TYPE=VALUE; use
    /// FORMAT.KEY to choose between the input's and the output's key
    #[arg(long, value_name = "KEY=VALUE", value_parser = parse_pair)]
    pub set: Vec<(String, String)>,
    /// Set a metadata key, as in llama.cpp: KEY=TYPE:VALUE with TYPE int, float, bool or str
    #[arg(long, value_name = "KEY=TYPE:VALUE", value_parser = parse_override, hide = true)]
    override_kv: Vec<(String, String)>,
    /// Remove a metadata key; may be repeated
    #[arg(long, value_name = "KEY")]
    pub unset: Vec<String>,
}

impl KeyArgs {
    /// Every key that is set, and to what.
    pub fn all_set(&self) -> Vec<(String, String)> {
        self.set.iter().chain(&self.override_kv).cloned().collect()
    }
}

/// An override of llama.cpp as a key and value of `--set`, with the types that llama-quantize writes.
fn parse_override(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once('=').and_then(|(key, value)| Some((key, value.split_once(':')?)));
    let typed = parts.and_then(|(key, (kind, value))| {
        let kind = match kind {
            "int" => "u32",
            "float" => "f32",
            "bool" => "bool",
            "str" => "str",
            _ => return None,
        };
        Some((format!("{key}:{kind}"), value.to_owned()))
    });
    let typed = typed.filter(|(key, _)| !key.starts_with(':'));
    typed.ok_or_else(|| format!("expected KEY=TYPE:VALUE with type int, float, bool or str, found `{text}`"))
}

#[cfg(test)]
mod tests {
    use super::parse_override;

    #[test]
    fn overrides_are_what_set_takes() {
        let typed = |key: &str, value: &str| Ok((key.to_owned(), value.to_owned()));
        assert_eq!(
            parse_override("llama.context_length=int:8192"),
            typed("llama.context_length:u32", "8192")
        );
        assert_eq!(parse_override("general.url=str:a=b:c"), typed("general.url:str", "a=b:c"));
        for bad in ["a", "a=1", "a=u8:1", "=int:1", "a=int"] {
            assert!(parse_override(bad).is_err(), "{bad}");
        }
    }
}
