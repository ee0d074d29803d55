//! Finds the model in a folder.

use crate::{EXTENSION, shards};
use apr_sdk::{Error, FileId, Result, Source, escape};

/// Whether a name is that of an APR file.
pub fn is_weights(name: &str) -> bool {
    name.strip_suffix(EXTENSION).is_some_and(|stem| stem.len() > 1 && stem.ends_with('.'))
}

/// The only model in the folder: its only file that is not a shard, or its only file.
///
/// # Errors
/// NotFound without any; InvalidArgument for several, which it lists.
pub fn choose(source: &dyn Source) -> Result<FileId> {
    let entries = source.entries()?;
    let mut all: Vec<_> = entries.into_iter().filter(|name| is_weights(name)).collect();
    let shards: Vec<_> = all.iter().filter(|name| shards::manifest_name(name).is_some()).cloned().collect();
    if shards.len() < all.len() {
        all.retain(|name| !shards.contains(name));
    }
    match all.as_slice() {
        [one] => source.sibling(one),
        [] => Err(Error::not_found(format!("the folder has no file with the extension `.{EXTENSION}`"))),
        [first, ..] => {
            if let Some(manifest) = shards::manifest_name(first).filter(|_| shards.len() == all.len()) {
                let message = format!("the folder has {} shards, but no manifest", shards.len());
                return Err(Error::not_found(message)
                    .in_file(manifest)
                    .code("E007")
                    .hint("get the manifest, or open a single shard"));
            }
            let listed: Vec<_> = all.iter().map(|name| format!("`{}`", escape(name, 120))).collect();
            let message = format!("the folder has {} models: {}", listed.len(), listed.join(", "));
            Err(Error::invalid_argument(message).hint("specify one of the files"))
        }
    }
}
