//! The tables that are part of the plugin, by id.

use apr_sdk::{Error, NameMapper, Result};

/// The tables of this plugin.
pub struct Tables;

/// Id and text.
const TABLES: &[(&str, &str)] = &[
    ("bert", include_str!("../tables/bert.toml")),
    ("bloom", include_str!("../tables/bloom.toml")),
    ("command-r", include_str!("../tables/command-r.toml")),
    ("decoder", include_str!("../tables/decoder.toml")),
    ("deepseek2", include_str!("../tables/deepseek2.toml")),
    ("falcon", include_str!("../tables/falcon.toml")),
    ("gemma", include_str!("../tables/gemma.toml")),
    ("gemma2", include_str!("../tables/gemma2.toml")),
    ("gemma3", include_str!("../tables/gemma3.toml")),
    ("gpt-neox", include_str!("../tables/gpt-neox.toml")),
    ("gpt2", include_str!("../tables/gpt2.toml")),
    ("jina-bert-v2", include_str!("../tables/jina-bert-v2.toml")),
    ("llama", include_str!("../tables/llama.toml")),
    ("mistral", include_str!("../tables/mistral.toml")),
    ("mixtral", include_str!("../tables/mixtral.toml")),
    ("mpt", include_str!("../tables/mpt.toml")),
    ("nomic-bert", include_str!("../tables/nomic-bert.toml")),
    ("olmo2", include_str!("../tables/olmo2.toml")),
    ("phi2", include_str!("../tables/phi2.toml")),
    ("phi3", include_str!("../tables/phi3.toml")),
    ("qwen2-moe", include_str!("../tables/qwen2-moe.toml")),
    ("qwen2", include_str!("../tables/qwen2.toml")),
    ("qwen3-moe", include_str!("../tables/qwen3-moe.toml")),
    ("qwen3", include_str!("../tables/qwen3.toml")),
    ("roberta", include_str!("../tables/roberta.toml")),
    ("stablelm", include_str!("../tables/stablelm.toml")),
    ("starcoder2", include_str!("../tables/starcoder2.toml")),
    ("t5", include_str!("../tables/t5.toml")),
    ("whisper", include_str!("../tables/whisper.toml")),
];

impl NameMapper for Tables {
    fn table(&self, architecture: &str) -> Result<String> {
        let found = TABLES.iter().find(|(id, _)| *id == architecture);
        found.map(|(_, text)| (*text).to_owned()).ok_or_else(|| {
            Error::invalid_argument(format!("there is no table `{}`", apr_sdk::escape(architecture, 80)))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_is_listed_in_order_and_named_by_the_manifest() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tables");
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
        let mut files: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
        files.sort();
        let listed: Vec<String> = TABLES.iter().map(|(id, _)| format!("{id}.toml")).collect();
        assert_eq!(files, listed);
        let manifest = apr_sdk::Manifest::parse(crate::PLUGIN.manifest).unwrap();
        let ids: Vec<&str> = TABLES.iter().map(|(id, _)| *id).collect();
        assert_eq!(manifest.architectures, ids);
        for (id, text) in TABLES {
            assert!(text.contains(&format!("\nid = \"{id}\"\n")), "{id}");
        }
    }
}
