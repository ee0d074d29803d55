//! `--tensor-mapping FILE`: other names for tensors.

use apr_host::storage::small_file::read_text;
use apr_sdk::{Error, Result, escape};
use std::path::Path;

/// The pairs of a mapping file, TOML or a JSON object. Names need quotes only where TOML wants them: tables within tables
/// are joined by dots.
///
/// # Errors
/// NotFound and the like; InvalidArgument for what is no mapping.
pub fn read_mapping(path: &Path) -> Result<Vec<(String, String)>> {
    let shown = path.display().to_string();
    let text = read_text(path)?;
    pairs(&text).map_err(|message| {
        Error::invalid_argument(message).in_file(shown).hint(
            "write lines such as \"one name\" = \"other name\"; both may contain placeholders: \
             \"h.{layer}.w\"",
        )
    })
}

fn pairs(text: &str) -> std::result::Result<Vec<(String, String)>, String> {
    let table: toml::Table = match text.trim_start().starts_with('{') {
        true => serde_json::from_str(text).map_err(|error| error.to_string())?,
        false => text.parse().map_err(|error: toml::de::Error| error.message().to_owned())?,
    };
    let mut pairs = Vec::new();
    flatten("", &table, &mut pairs)?;
    Ok(pairs)
}

fn flatten(
    above: &str,
    table: &toml::Table,
    pairs: &mut Vec<(String, String)>,
) -> std::result::Result<(), String> {
    for (key, value) in table {
        let name = if above.is_empty() { key.clone() } else { format!("{above}.{key}") };
        match value {
            toml::Value::String(other) => pairs.push((name, other.clone())),
            toml::Value::Table(inner) => flatten(&name, inner, pairs)?,
            other => {
                return Err(format!(
                    "`{}` is mapped to a value of type {}, expected a name",
                    escape(&name, 200),
                    other.type_str()
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_need_quotes_only_where_toml_does() {
        let table = "a.b = 'x'\n\"c.d\" = 'y.z'\n[e]\nf = 'g'".parse().unwrap();
        let mut pairs = Vec::new();
        flatten("", &table, &mut pairs).unwrap();
        pairs.sort();
        let wanted = [("a.b", "x"), ("c.d", "y.z"), ("e.f", "g")];
        assert_eq!(pairs, wanted.map(|(a, b)| (a.to_owned(), b.to_owned())));
        assert!(flatten("", &"a = 1".parse().unwrap(), &mut pairs).unwrap_err().contains("integer"));
    }
}
