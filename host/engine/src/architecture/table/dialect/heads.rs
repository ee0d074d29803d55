//! Which classes of a dialect have a head.

use crate::architecture::language::members::{list, only, words};
use crate::architecture::language::table_error::Read;
use apr_sdk::{Error, Value};
use toml::Table as Toml;

/// The classes whose models turn vectors into logits.
#[derive(Clone, Debug)]
pub struct Heads {
    /// The key that names a model's classes.
    pub key: String,
    /// Ends of the names of such classes.
    pub classes: Vec<String>,
    /// The end of the name of a class without one, if such classes have names.
    pub body: Option<String>,
    /// Keys of models that are used without their head, whatever the class.
    pub without: Vec<String>,
}

impl Heads {
    /// Parses a dialect's `heads`.
    ///
    /// # Errors
    /// InvalidArgument for an unknown member, or one that is missing.
    pub(in crate::architecture) fn read(toml: &Toml) -> Read<Heads> {
        only(toml, &["key", "classes", "body", "without"], "`heads`")?;
        let key = words(toml, "key")?.ok_or_else(|| Error::invalid_argument("`heads` has no `key`"))?;
        let [classes, without] = [list(toml, "classes")?, list(toml, "without")?];
        Ok(Heads { key, classes, body: words(toml, "body")?, without })
    }

    /// Whether a class has a head.
    pub fn has(&self, class: &str) -> bool {
        self.classes.iter().any(|end| class.ends_with(end.as_str()))
    }

    /// Names the classes without a head in place of those with one, among keys that are written.
    pub fn name_bodies(&self, keys: &mut [(String, Value)]) {
        let Some((_, classes)) = keys.iter_mut().find(|(key, _)| *key == self.key) else { return };
        let stated = classes.items();
        let names = stated.iter().filter_map(Value::as_str).map(|class| self.body_of(class));
        *classes = Value::from_strings(&names.collect::<Vec<String>>());
    }

    fn body_of(&self, class: &str) -> String {
        let start = self.classes.iter().find_map(|end| class.strip_suffix(end.as_str()));
        let named = start.zip(self.body.as_ref()).map(|(start, body)| format!("{start}{body}"));
        named.unwrap_or_else(|| class.to_owned())
    }
}
