//! What a model states about itself, in its dialect.

use crate::architecture::config::ConfigScope;
use crate::architecture::language::expression::{Scalar, same};
use crate::architecture::language::value::from_value;
use crate::architecture::table::{Dialect, Key, Source};
use apr_sdk::{Tensor, Value, escape};
use std::collections::HashSet;

/// What a model states, in its dialect.
pub struct Stated<'a> {
    /// The dialect of the model.
    pub dialect: &'a Dialect,
    /// Looks up the value of a key.
    pub lookup: &'a dyn Fn(&str) -> Option<Value>,
    /// All of its keys.
    pub keys: &'a [&'a str],
    /// The keys that the table reads.
    pub used: &'a HashSet<String>,
    /// The configuration that they state.
    pub scope: &'a ConfigScope<'a>,
    /// The tensors, under the table's own names.
    pub tensors: &'a [Tensor],
    /// The model's names for itself, in lower case with hyphens.
    pub names: &'a [String],
}

impl Stated<'_> {
    /// Whether the table reads a key, or declares that it says nothing.
    pub(super) fn reads(&self, key: &str) -> bool {
        self.used.contains(key) || self.dialect.ignores(key)
    }

    /// Returns whether the library's class says something of a key, or inside of the object that it is.
    pub(super) fn is_of_class(&self, key: &str) -> bool {
        let roots = &self.dialect.roots;
        let either = &self.dialect.either;
        roots.of_class(key, self.lookup).is_some()
            || either.iter().any(|object| object == key)
                && either.iter().any(|object| roots.says_inside(object, self.lookup))
    }

    /// What the model states, or its class, for a key for which the table always writes one number or boolean, if it
    /// differs. Texts are names, of which a table may read several.
    pub(super) fn other_constant(&self, key: &Key) -> Option<String> {
        let Source::Constant(own @ (Scalar::Bool(_) | Scalar::Int(_) | Scalar::Float(_))) = &key.value else {
            return None;
        };
        let prefix = self.dialect.prefix.as_deref();
        let is_own = self.dialect.same_names || prefix.is_some_and(|prefix| key.key.starts_with(prefix));
        if !is_own || key.when.is_some() {
            return None;
        }
        let value = (self.lookup)(&key.key)
            .or_else(|| self.dialect.roots.of_class_at_root(&key.key, self.lookup).cloned())?;
        let value = from_value(&value).filter(|value| !same(value, own))?;
        Some(format!("`{}` {value} (the table supports only {own})", escape(&key.key, 80)))
    }
}
