//! The configuration in a draft: keys that the nearest table does not know.

use super::{Draft, HOME, SIZES, canonical_name, quoted};
use crate::architecture::config::{Config, ConfigScope, dimensions};
use crate::architecture::language::expression::{Expression, Scalar, Scope};
use crate::architecture::language::value::from_value;
use crate::architecture::table::Kind;
use crate::architecture::table::dialect::canonical;
use apr_sdk::Result;
use std::fmt::Write;

impl Draft<'_> {
    /// Writes the keys that the nearest table does not know; returns all sizes by name.
    pub(super) fn configuration(&self, out: &mut String) -> Result<Vec<(String, i64)>> {
        let mut sizes: Vec<(String, i64)> = Vec::new();
        let mut used = std::collections::HashSet::new();
        if let Some(near) = self.near {
            let own = canonical();
            let from = near.table.dialect(&self.dialect).unwrap_or(&own);
            let dimensions = dimensions(near.table, &self.dialect, &self.model.tensors);
            let (config, known) = Config::read(near.table, from, self.lookup, &dimensions)?;
            used = known;
            let scope = ConfigScope::new(near.table, &config, &dimensions);
            for text in SIZES {
                if let Ok(Some(Scalar::Int(n))) = Expression::parse(text)?.value(&scope) {
                    sizes.push(((*text).to_owned(), n));
                }
            }
            for entry in near.table.config.iter().filter(|entry| entry.kind == Kind::Int) {
                if let Ok(Some(Scalar::Int(n))) = scope.value(&entry.name) {
                    sizes.push((entry.name.clone(), n));
                }
            }
        }
        if self.dialect != HOME {
            return Ok(sizes);
        }
        let file = self.model.foreign_of(&self.model.format).and_then(|foreign| foreign.files.first());
        let mut entries = String::new();
        for (key, value) in file.map_or(&[][..], |file| &file.typed) {
            let Some(value) = from_value(value).filter(|_| !used.contains(key)) else { continue };
            let kind = match &value {
                Scalar::Int(n) => {
                    sizes.push((canonical_name(key), *n));
                    "int"
                }
                Scalar::Float(_) => "float",
                Scalar::Bool(_) => "bool",
                Scalar::Text(_) => "text",
                Scalar::List(_) => "list",
            };
            if self.keys.contains(key) {
                continue;
            }
            let name = quoted(&canonical_name(key));
            match self.effect(key, kind) {
                // A dialect that cannot state it would give a different model, which is refused.
                Some(effect) => {
                    let _ = writeln!(
                        entries,
                        "# ? {effect}: each dialect needs a key for it\n{name} = {{ type = \"{kind}\", hf = \
                         [{}], covers = [] }}",
                        quoted(key)
                    );
                }
                None => {
                    let _ = writeln!(entries, "{name} = {{ type = \"{kind}\", hf = [{}] }}", quoted(key));
                }
            }
        }
        if !entries.is_empty() {
            out.push_str(
                "\n# ? which of these the architecture needs; move the rest to \
                 [[dialect.hf.ignore]] with a reason\n[config]\n",
            );
            out.push_str(&entries);
        }
        Ok(sizes)
    }

    /// The effect on the model of a key that the nearest table does not know, as far as its name or that
    /// table tells.
    fn effect(&self, key: &str, kind: &str) -> Option<String> {
        const WORDS: [&str; 5] = ["multiplier", "scal", "softcap", "clip", "clamp"];
        let value = (self.lookup)(key)?;
        let refused = self.near.and_then(|near| near.table.dialect(&self.dialect)).map(|d| &d.refused);
        let known = refused.into_iter().flatten().find_map(|refusal| refusal.effect(key, &value));
        let sounds = ["float", "int"].contains(&kind) && WORDS.iter().any(|word| key.contains(word));
        known.map(str::to_owned).or_else(|| sounds.then(|| "may scale or limit activations".to_owned()))
    }
}
