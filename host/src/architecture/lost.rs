//! What of a configuration the keys and the computed tensors of a dialect do not tell its readers.

use super::config::{Config, ConfigScope, Dimensions};
use super::expression::same;
use super::generate::recover;
use super::refusal::not_covered;
use super::table::{Dialect, Table};
use apr_sdk::{Result, Value, escape};

/// What was written in a dialect.
pub struct Written<'a> {
    /// The dialect.
    pub dialect: &'a Dialect,
    /// Its keys.
    pub keys: &'a [(String, Value)],
    /// Names and bytes of the tensors that were computed from the configuration.
    pub computed: &'a [(String, Vec<u8>)],
}

/// The names of the configuration that what was written does not tell.
///
/// # Errors
/// Unsupported if one of them changes what the model computes; what reading and evaluating raise.
pub fn lost(
    table: &Table,
    config: &Config,
    written: &Written<'_>,
    dimensions: Dimensions<'_>,
) -> Result<Vec<String>> {
    let told = told(table, config, written, dimensions)?;
    let mut names = config.beyond(&ConfigScope::new(table, &told, dimensions))?;
    let mut changes = Vec::new();
    names.retain(|name| {
        let entry = table.config.iter().find(|entry| entry.name == *name);
        let covers = entry.and_then(|entry| entry.covers.as_ref());
        let (Some(covers), Some(value)) = (covers, config.get(name)) else { return true };
        if !covers.iter().any(|one| same(one, value)) {
            let (name, whose) = (escape(name, 80), &written.dialect.id);
            changes.push(format!("`{name}` {value} (names and keys of the dialect `{whose}` cannot say it)"));
        }
        false
    });
    not_covered(table, changes)?;
    Ok(names)
}

/// The configuration that a reader finds.
fn told(table: &Table, config: &Config, written: &Written<'_>, dimensions: Dimensions<'_>) -> Result<Config> {
    let Written { dialect, keys, computed } = written;
    let lookup = |name: &str| keys.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
    let (mut told, _) = Config::read(table, dialect, &lookup, dimensions)?;
    for side in table.rules.iter().filter_map(|rule| rule.side(&dialect.id)) {
        let image = side.images.first();
        let bytes = computed.iter().find(|(name, _)| image.is_some_and(|i| i.numbers(name).is_some()));
        let (Some(what), Some((_, bytes))) = (&side.generated, bytes) else { continue };
        // Names and values in the model's own words, as far as the tensor leads back to them.
        for (name, value) in recover(what, bytes, table, config, dimensions)?.unwrap_or_default() {
            told.set(&name, value);
        }
    }
    Ok(told)
}
