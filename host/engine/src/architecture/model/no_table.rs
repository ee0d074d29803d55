//! Models that no table translates: the reason, and hints.

use crate::architecture::adapter::refuse_adapter;
use crate::architecture::description::{names_of, stated};
use crate::architecture::language::value::from_value;
use crate::architecture::lone::way_out_of_lone;
use crate::architecture::model::Translation;
use crate::architecture::table::tables::Tables;
use crate::engine::Engine;
use crate::registry::Format;
use apr_sdk::{Error, Model, Result, escape};

/// Handles a model that no table translates to the dialect `want`: its names are kept, if `target` allows it.
///
/// # Errors
/// Unsupported if `target` requires that dialect: the reason, with hints.
pub fn no_table(
    engine: &Engine,
    model: &Model,
    target: &Format,
    want: &str,
    required: bool,
) -> Result<Translation> {
    let tables = engine.tables();
    let have = model.dialect.as_str();
    let what = &target.manifest.name;
    let mut translation = Translation::default();
    // For a bag of tensors that may stay one, no table matters.
    if have == "none" && !required {
        return Ok(translation);
    }
    for (id, error) in tables.broken() {
        let id = escape(id, 80);
        translation.notes.push(format!("the table of architecture `{id}` was skipped: {}", error.message()));
    }
    if required {
        refuse_adapter(model, &engine.registry)?;
        let keys = keys_of_architecture(tables, model);
        let nearly = tables.nearly(have, &|key| stated(model, key));
        let mut message = match (keys.is_empty(), have) {
            (false, _) => match untold(&nearly) {
                Some(untold) => format!("{untold} ({})", keys.join(", ")),
                None => format!("no table covers this architecture ({})", keys.join(", ")),
            },
            (true, "none") => "the model does not state its architecture".to_owned(),
            (true, _) => format!("no table translates names from the dialect `{have}`"),
        };
        message += &format!(", and {what} requires names in the dialect `{want}`");
        // Nothing that its names suggest would lead far without a configuration.
        if let Some(way) = way_out_of_lone(&engine.registry, model).filter(|_| keys.is_empty()) {
            let hint = match model.foreign_of(target.id()) {
                Some(_) => format!(
                    "its metadata is that of a {what}: pass --arch none to keep every name and write one again"
                ),
                None => format!("{way}; or pass --arch none to keep every name"),
            };
            return Err(translation
                .notes
                .into_iter()
                .fold(Error::unsupported(message).hint(hint), Error::cause));
        }
        let names = names_of(model);
        let mut hint = String::new();
        if !nearly.is_empty() {
            let ways: Vec<String> = nearly.iter().map(|(id, _)| format!("--arch {id}")).collect();
            hint = format!("pass {} to specify it; ", ways.join(" or "));
        } else if let Some(near) = tables
            .nearest(&names, have, &|key| stated(model, key))
            .filter(|near| near.known * 2 >= names.len())
        {
            let id = &near.table.id;
            let known = near.known;
            let all = names.len();
            hint = format!(
                "`{id}` matches {known} of its {all} names, but names alone do not determine the \
                 computation: pass --arch {id} only if this model computes the same; "
            );
        }
        hint += "run `apr arch draft IN` to start a table for it, or pass --arch none to keep every name";
        let error = Error::unsupported(message).hint(hint);
        return Err(translation.notes.into_iter().fold(error, Error::cause));
    }
    let note = format!("names are kept in the dialect `{have}`: no table translates them to `{want}`");
    translation.notes.push(note);
    Ok(translation)
}

/// Explains which missing keys leave the architecture open, among those that the model's keys fit.
fn untold(nearly: &[(&str, Vec<&str>)]) -> Option<String> {
    if nearly.is_empty() {
        return None;
    }
    let mut keys: Vec<&str> = nearly.iter().flat_map(|(_, keys)| keys).copied().collect();
    keys.sort_unstable();
    keys.dedup();
    let ids: Vec<&str> = nearly.iter().map(|(id, _)| *id).collect();
    Some(format!(
        "the model could be of architecture {}: {} {}",
        quoted(&ids, " or "),
        if keys.len() == 1 { "it states no" } else { "it does not state" },
        quoted(&keys, ", ")
    ))
}

fn quoted(texts: &[&str], between: &str) -> String {
    let quoted: Vec<String> = texts.iter().map(|text| format!("`{}`", escape(text, 80))).collect();
    quoted.join(between)
}

/// The model's keys about its architecture: those that tables use.
fn keys_of_architecture(tables: &Tables, model: &Model) -> Vec<String> {
    let mut keys = Vec::new();
    for key in tables.marking_keys(&model.dialect) {
        if let Some(value) = stated(model, &key).as_ref().and_then(from_value) {
            keys.push(format!("{} {value}", escape(&key, 80)));
        }
    }
    keys
}
