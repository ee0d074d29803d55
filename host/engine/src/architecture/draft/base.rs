//! The table that a draft builds on, and what the draft thereby guesses.

use super::{Draft, quoted};
use crate::architecture::config::nearest::{Near, missing};
use crate::architecture::config::{Config, ConfigScope, dimensions};
use crate::architecture::language::expression::{Scalar, Scope};
use crate::architecture::table::dialect::canonical;
use apr_sdk::Result;
use std::fmt::Write;
use toml::Value as Item;

impl Draft<'_> {
    /// Writes the nearest table as the base, with what that says about the computation.
    pub(super) fn base(&self, out: &mut String, near: &Near<'_>) -> Result<()> {
        let id = &near.table.id;
        let all = self.names.len();
        let known = near.known;
        let _ = writeln!(out, "# The closest architecture: it has {known} of {all} names.");
        if near.table.decoder.is_some() {
            let _ = writeln!(
                out,
                "# ? models of this architecture compute the same as `{id}` (see [decoder] in `apr arch \
                 show {id}`)"
            );
        }
        for (name, value) in self.defaults(near)? {
            let _ = writeln!(
                out,
                "# ? the model does not state `{name}`, or states it under another name: {value} as in `{id}`"
            );
        }
        let _ = writeln!(out, "base = {}", quoted(id));
        let _ = writeln!(
            out,
            "# ? norm: adjacent pairs (rows of Q and K are permuted); neox: halves; none\nrope = {}",
            quoted(&near.table.rope)
        );
        let gone = missing(near.table, &self.dialect, &self.names);
        let gone: Vec<Item> = gone.map(|rule| Item::String(rule.members[0].text().to_owned())).collect();
        if !gone.is_empty() {
            let _ = writeln!(out, "remove = {}", Item::Array(gone));
        }
        Ok(())
    }

    /// The nearest table's defaults where the model states nothing, of the names that decide what is computed.
    fn defaults(&self, near: &Near<'_>) -> Result<Vec<(String, Scalar)>> {
        let Some(section) = &near.table.decoder else { return Ok(Vec::new()) };
        let own = canonical();
        let from = near.table.dialect(&self.dialect).unwrap_or(&own);
        let dimensions = dimensions(near.table, &self.dialect, &self.model.tensors);
        let (config, _) = Config::read(near.table, from, self.lookup, &dimensions)?;
        let scope = ConfigScope::new(near.table, &config, &dimensions);
        let used = section.names();
        let mut defaults = Vec::new();
        for entry in near.table.config.iter().filter(|entry| used.contains(&entry.name)) {
            if entry.default.is_some()
                && config.get(&entry.name).is_none()
                && let Ok(Some(value)) = scope.value(&entry.name)
            {
                defaults.push((entry.name.clone(), value));
            }
        }
        Ok(defaults)
    }
}
