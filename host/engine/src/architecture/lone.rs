//! Files of weights alone: what they do not state, other files of their model do, beside which a folder format would open them.

use crate::architecture::description::{find_table, stated};
use crate::architecture::table::Table;
use crate::architecture::table::config_name::names_in;
use crate::engine::Engine;
use crate::registry::Registry;
use apr_sdk::{Error, ErrorKind, Model, escape};

/// The way out for a file of weights that lies alone, as an imperative: a folder format would find in other files what it does
/// not state. `None` for any other model.
pub fn way_out_of_lone(registry: &Registry, model: &Model) -> Option<String> {
    let folder = registry
        .formats()
        .iter()
        .map(|format| &format.manifest)
        .find(|manifest| !manifest.claims.is_empty() && manifest.parts.contains(&model.format))?;
    let claim = folder.claims.first()?;
    Some(format!(
        "put the other files of its model beside it: `{}`, and for text those of its tokenizer",
        escape(claim, 80)
    ))
}

/// Says of an error that a file of weights that lies alone states none of the configuration that its architecture needs, if
/// that is so: the rest of the message follows from it.
#[must_use]
pub fn explain_lone(engine: &Engine, model: &Model, arch: Option<&str>, error: Error) -> Error {
    let follows =
        matches!(error.kind(), ErrorKind::Malformed | ErrorKind::Unsupported | ErrorKind::InvalidArgument);
    let Some(way) = way_out_of_lone(&engine.registry, model).filter(|_| follows) else { return error };
    let message = match find_table(engine, model, arch) {
        Ok(Some((table, from))) if states_nothing(table, &from, model) => {
            let id = escape(&table.id, 80);
            format!("the file does not state the configuration that architecture `{id}` requires")
        }
        Ok(None) => "the file states neither its architecture nor its configuration".to_owned(),
        _ => return error,
    };
    Error::unsupported(message).hint(way).cause(error.message())
}

/// Returns whether a model states no value of its table's configuration.
fn states_nothing(table: &Table, dialect: &str, model: &Model) -> bool {
    let Some(dialect) = table.dialect(dialect) else { return false };
    let names = table.config.iter().flat_map(|entry| names_in(entry, dialect));
    let keys = dialect.keys.iter().map(|key| key.key.as_str());
    names.chain(keys).all(|name| dialect.roots.stated(name, &|key| stated(model, key)).is_none())
}
