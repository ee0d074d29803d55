//! A file's metadata about each packed weight, in the words of the tool that packed it. The format's manifest names the key
//! that lists such keys (`F.described_weights`), so that they are known also where another format carries them along.

use crate::registry::Registry;
use apr_sdk::{ForeignFile, Model, Value};
use std::collections::HashSet;

/// Takes out all descriptions of a format, if its lists have a name of which `is_untrue` holds. Returns whether there were any.
pub fn forget(model: &mut Model, registry: &Registry, is_untrue: &dyn Fn(&str) -> bool) -> bool {
    let mut any = false;
    for foreign in &mut model.foreign {
        let format = registry.format(&foreign.format).ok();
        let Some(list) = format.and_then(|format| format.manifest.described_weights.as_deref()) else {
            continue;
        };
        // Each shard may have a list, whose plain tensors alone would describe nothing.
        let mut names = foreign.files.iter().filter_map(|file| listed(file, list)).flatten();
        if !names.any(|name| is_untrue(&name)) {
            continue;
        }
        for file in &mut foreign.files {
            let Some(names) = listed(file, list) else { continue };
            let names: HashSet<String> = names.into_iter().collect();
            file.typed.retain(|(key, _)| key != list && !names.contains(key));
            file.verbatim = None;
            any = true;
        }
    }
    any
}

/// The names that a file describes; `None` if it has no list, or describes none of what the list names.
fn listed(file: &ForeignFile, list: &str) -> Option<Vec<String>> {
    let names: Vec<String> = serde_json::from_str(file.get(list).and_then(Value::as_str)?).ok()?;
    let keys: HashSet<&str> = file.typed.iter().map(|(key, _)| key.as_str()).collect();
    names.iter().any(|name| keys.contains(name.as_str())).then_some(names)
}
