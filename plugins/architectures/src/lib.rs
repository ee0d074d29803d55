//! Architectures as data: one table each in `tables/`, with the names of tensors and configuration keys, and
//! the order of rows, in each dialect (`canonical`, `hf`, `gguf`). The host's engine interprets them; the
//! README describes their form. A table in a plugin folder (`NAME.toml`) works without any code.

#![forbid(unsafe_code)]

mod tables;

apr_sdk::export_plugin! {
    id: architectures,
    manifest: concat!("architectures=", env!("APR_TABLES")),
    name_mapper: || Some(Box::new(tables::Tables)),
}
