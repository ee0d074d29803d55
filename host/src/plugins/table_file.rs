//! An architecture table in a file of its own: a plugin without code.

use crate::storage::small_file::read_bytes;
use apr_engine::architecture::check_len;
use apr_engine::registry::{Provider, TABLE_PREFIX};
use apr_sdk::{Error, Kernel, Manifest, Quantizer, Reader, Result, Writer, escape};
use std::path::Path;

/// The text of a table.
pub(super) struct TableFile {
    id: String,
    text: String,
}

impl TableFile {
    /// Reads the table at `path`; also returns the equivalent manifest.
    ///
    /// # Errors
    /// Plugin with `E_NOT_A_PLUGIN` for a file that is not a table.
    pub(super) fn read(path: &Path) -> Result<(Manifest, TableFile)> {
        let text = read_bytes(path)?;
        let text = String::from_utf8(text).map_err(|_| no_table("the table is not valid UTF-8"))?;
        check_len(&text).map_err(|error| no_table(error.message()))?;
        let toml: toml::Table = text.parse().map_err(|e: toml::de::Error| {
            no_table(&format!("the table is not valid TOML: {}", e.message()))
        })?;
        let id = toml.get("id").and_then(toml::Value::as_str);
        let id = id.ok_or_else(|| no_table("the table has no `id`"))?.to_owned();
        if id.is_empty()
            || id.len() > 64
            || !id.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
        {
            return Err(no_table(&format!(
                "the table's id `{}` must be 1 to 64 letters, digits, `_`, `-`, `.`",
                escape(&id, 80)
            )));
        }
        let mut manifest = Manifest::default();
        manifest.id = format!("{TABLE_PREFIX}{id}");
        let version = toml.get("version").and_then(toml::Value::as_str);
        version.unwrap_or("0").clone_into(&mut manifest.version);
        manifest.architectures = vec![id.clone()];
        Ok((manifest, TableFile { id, text }))
    }
}

fn no_table(message: &str) -> Error {
    Error::plugin(message).code("E_NOT_A_PLUGIN")
}

impl Provider for TableFile {
    fn reader(&self, format: &str) -> Result<Box<dyn Reader>> {
        Err(apr_abi::export::lacks("reader", format))
    }

    fn writer(&self, format: &str) -> Result<Box<dyn Writer>> {
        Err(apr_abi::export::lacks("writer", format))
    }

    fn quantizer(&self) -> Result<Box<dyn Quantizer>> {
        Err(apr_abi::export::lacks_quantizer())
    }

    fn kernel(&self) -> Result<Box<dyn Kernel>> {
        Err(apr_abi::export::lacks_kernel())
    }

    fn architecture(&self, id: &str) -> Result<String> {
        if id == self.id { Ok(self.text.clone()) } else { Err(apr_abi::export::lacks("table", id)) }
    }
}
