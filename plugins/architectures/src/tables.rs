//! The tables that are part of the plugin, by id.

use apr_sdk::{Error, NameMapper, Result};

/// The tables of this plugin.
pub struct Tables;

/// Id and text of each, sorted: made by `build.rs` of what `tables/` holds.
const TABLES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/tables.rs"));

impl NameMapper for Tables {
    fn table(&self, architecture: &str) -> Result<String> {
        let found = TABLES.iter().find(|(id, _)| *id == architecture);
        found.map(|(_, text)| (*text).to_owned()).ok_or_else(|| {
            Error::invalid_argument(format!("unknown table `{}`", apr_sdk::escape(architecture, 80)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_is_listed_in_order_and_named_by_the_manifest() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tables");
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let mut files: Vec<String> =
            entries.map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
        files.sort();
        let listed: Vec<&str> = TABLES.iter().map(|(id, _)| *id).collect();
        assert_eq!(files, listed);
        let manifest = apr_sdk::Manifest::parse(crate::PLUGIN.manifest).unwrap();
        let ids: Vec<&str> = TABLES.iter().map(|(id, _)| *id).collect();
        assert_eq!(manifest.architectures, ids);
        for (id, text) in TABLES {
            assert!(text.contains(&format!("\nid = \"{id}\"\n")), "{id}");
        }
    }
}
