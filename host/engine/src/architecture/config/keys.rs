//! A configuration written as a dialect's keys.

use crate::architecture::config::contradiction::claims_head;
use crate::architecture::config::{Config, ConfigScope};
use crate::architecture::language::expression::{Scalar, Scope, same};
use crate::architecture::language::value::{from_value, narrowed, typed};
use crate::architecture::table::config_name::names_in;
use crate::architecture::table::{Dialect, Key, Source};
use apr_sdk::{Error, Result, Value, escape};

/// What stands for JSON null among typed values.
const NULL: &str = "null";

/// The value of a key among those that are written.
pub(in crate::architecture) fn value_of(keys: &[(String, Value)], path: &str) -> Option<Value> {
    keys.iter().find(|(key, _)| key == path).map(|(_, value)| value.clone())
}

impl ConfigScope<'_> {
    /// The names whose values these keys do not say.
    fn untold(&self, dialect: &Dialect, keys: &[(String, Value)]) -> Result<Vec<String>> {
        let (told, _) = Config::read(self.table, dialect, &|path| value_of(keys, path), self.dimensions)?;
        self.config.beyond(&self.over(&told))
    }

    /// The configuration as the keys of a dialect, in its order; those that other programs pass over come last, where the others
    /// leave something unsaid.
    ///
    /// # Errors
    /// InvalidArgument for a value that its key's type cannot hold.
    pub fn write(&self, dialect: &Dialect) -> Result<Vec<(String, Value)>> {
        let scope = self.over(self.config);
        let (unread, read): (Vec<&Key>, Vec<&Key>) = dialect.keys.iter().partition(|key| key.unread);
        let mut keys: Vec<(String, Value)> = Vec::new();
        for key in read {
            keys.extend(key.written(dialect, &scope)?);
        }
        if let Some(heads) = &dialect.heads
            && claims_head(self.table, self.config, self.dimensions)?
        {
            heads.name_bodies(&mut keys);
        }
        if !unread.is_empty() {
            let untold = self.untold(dialect, &keys)?;
            for key in unread.into_iter().filter(|key| key.sets.iter().any(|(name, _)| untold.contains(name)))
            {
                keys.extend(key.written(dialect, &scope)?);
            }
        }
        if dialect.same_names {
            for entry in &self.table.config {
                let Some(value) = self.config.get(&entry.name) else { continue };
                let Some(name) = names_in(entry, dialect).next() else { continue };
                let name = dialect.roots.path(name);
                if keys.iter().all(|(key, _)| *key != name)
                    && let Some(value) = typed(value, None)
                {
                    keys.push((name, value));
                }
            }
            keys.extend(scope.unlike_class(dialect, &keys)?);
        }
        Ok(keys)
    }

    /// Keys for what is left to the table's defaults and the library's class would take for something else.
    fn unlike_class(&self, dialect: &Dialect, keys: &[(String, Value)]) -> Result<Vec<(String, Value)>> {
        let lookup = |path: &str| value_of(keys, path);
        let mut more = Vec::new();
        for entry in self.table.config.iter().filter(|entry| self.config.get(&entry.name).is_none()) {
            if names_in(entry, dialect).any(|name| dialect.roots.stated(name, &lookup).is_some()) {
                continue;
            }
            let of_class = names_in(entry, dialect)
                .find_map(|name| Some((name, from_value(dialect.roots.of_class(name, &lookup)?)?)));
            let Some((name, of_class)) = of_class else { continue };
            let own = match self.value(&entry.name)? {
                Some(own) if !same(&narrowed(&own), &narrowed(&of_class)) => typed(&own, None),
                None if dialect.null.iter().any(|key| key == name) => Some(Value::from_strings(&[NULL])),
                _ => None,
            };
            more.extend(own.map(|value| (dialect.roots.path(name), value)));
        }
        Ok(more)
    }
}

impl Key {
    /// The key's path and value in a file, if it is to be written.
    pub(in crate::architecture) fn written(
        &self,
        dialect: &Dialect,
        scope: &ConfigScope<'_>,
    ) -> Result<Option<(String, Value)>> {
        if let Some(when) = &self.when
            && !when.holds(scope)?
        {
            return Ok(None);
        }
        let (value, path) = match &self.value {
            Source::Constant(value) => (Some(value.clone()), self.key.clone()),
            Source::Expression(value) => (value.value(scope)?, dialect.roots.path(&self.key)),
        };
        let Some(value) = value else { return Ok(None) };
        let items = self.list_kind.filter(|_| matches!(value, Scalar::List(_))).map(|items| (items, true));
        let typed = typed(&value, items.or(self.kind)).ok_or_else(|| {
            let message =
                format!("`{}` would be {value}, which does not match its type", escape(&self.key, 120));
            Error::invalid_argument(message)
        })?;
        Ok(Some((path, typed)))
    }
}
