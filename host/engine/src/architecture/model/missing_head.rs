//! A head that a model's class has, that is not tied to the embedding, and that is not there: its own library would compute with
//! random values in its place, other programs with the embedding.

use crate::architecture::config::contradiction::{Claimed, claimed};
use crate::architecture::config::{Config, Dimensions, key_of};
use crate::architecture::language::expression::Scalar;
use crate::architecture::language::value::from_value;
use crate::architecture::table::rule::images;
use crate::architecture::table::{ConfigName, Dialect, Table};
use crate::engine::Engine;
use apr_sdk::{Error, Result, Tensor, Value, escape};

/// A model's tensors and what it states.
pub(in crate::architecture) struct Headed<'m> {
    pub table: &'m Table,
    pub dialect: &'m Dialect,
    pub config: &'m Config,
    pub lookup: &'m dyn Fn(&str) -> Option<Value>,
    pub dimensions: Dimensions<'m>,
    /// The tensors, under the table's own names.
    pub names: &'m [Tensor],
    /// The same under the model's.
    pub called: &'m [Tensor],
}

impl Headed<'_> {
    /// Fails for a model that lacks the head of its class; warns where the model states no class.
    ///
    /// # Errors
    /// Malformed, naming key and tensor; any error from evaluating defaults.
    pub fn refuse_missing(&self, engine: &Engine) -> Result<()> {
        let Some(heads) = &self.dialect.heads else { return Ok(()) };
        let is_bare = heads.without.iter().any(|key| (self.lookup)(key).is_some()) || self.is_body();
        let classes = (self.lookup)(&heads.key).map(|value| value.items()).unwrap_or_default();
        let is_headed = classes.iter().filter_map(Value::as_str).any(|class| heads.has(class));
        if is_bare || !is_headed && !classes.is_empty() {
            return Ok(());
        }
        let Some(Missing { key, stated, tensor, is_sure }) = self.missing()? else { return Ok(()) };
        let what = format!("`{key}` is {stated}, but the model has no `{tensor}`");
        if !is_headed || !is_sure {
            let instead = if is_headed {
                "the embedding takes its place"
            } else {
                "it is taken for a model without a head"
            };
            engine.warn_once(&format!("{what}: {instead}"));
            return Ok(());
        }
        let hint = format!(
            "pass --set {key}={} if the embedding is also the head, or add the tensor: the model's own library would \
             fill it with random values",
            Scalar::Bool(stated != Scalar::Bool(true))
        );
        Err(Error::malformed(what).tensor(tensor).hint(hint))
    }

    /// The flag of a head that is missing because the model's outermost class ties it to the embedding, whatever is said inside of its
    /// configuration; and the value that says so.
    ///
    /// # Errors
    /// Any error from evaluating defaults.
    pub fn tied_outside(&self) -> Result<Option<(String, Scalar)>> {
        let Some(heads) = &self.dialect.heads else { return Ok(None) };
        let classes = (self.lookup)(&heads.key).map(|value| value.items()).unwrap_or_default();
        if !classes.iter().filter_map(Value::as_str).any(|class| heads.has(class)) || self.is_body() {
            return Ok(None);
        }
        for entry in &self.table.config {
            let claimed = claimed(entry, self.table, self.config, self.dimensions)?;
            let claimed = claimed.filter(|claimed| claimed.rule.role.as_deref() == Some("output"));
            let Some(Claimed { stated, .. }) = claimed else { continue };
            let key = key_of(self.table, &self.dialect.id, &entry.name);
            let outermost = (self.lookup)(key).and_then(|value| from_value(&value));
            let is_inside = match outermost {
                Some(outermost) => outermost != stated,
                None => self.dialect.roots.of_class_at_root(key, self.lookup).is_none(),
            };
            if is_inside {
                return Ok(Some((entry.name.clone(), Scalar::Bool(stated != Scalar::Bool(true)))));
            }
        }
        Ok(None)
    }

    /// Whether names lack the prefix of the class's body, as a body has them that is saved alone.
    fn is_body(&self) -> bool {
        let prefixes = self.dialect.renames.iter().filter(|rename| rename.start.as_deref() == Some(""));
        let mut prefixes = prefixes.map(|rename| rename.to.as_str());
        let pairs = self.names.iter().zip(self.called);
        let mut other = pairs.filter(|(own, called)| own.name != called.name);
        let shortened = other.next().and_then(|(own, called)| own.name.strip_suffix(called.name.as_str()));
        shortened.is_some_and(|prefix| prefixes.any(|known| known == prefix))
    }

    fn missing(&self) -> Result<Option<Missing>> {
        for entry in &self.table.config {
            if let Some(found) = self.missing_by(entry)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The head that is missing by one flag.
    fn missing_by(&self, entry: &ConfigName) -> Result<Option<Missing>> {
        let claimed = claimed(entry, self.table, self.config, self.dimensions)?;
        let claimed = claimed.filter(Claimed::is_head);
        let Some(Claimed { stated, rule }) = claimed else { return Ok(None) };
        let Some(image) = images(rule, &self.dialect.id).0.first() else { return Ok(None) };
        let key = key_of(self.table, &self.dialect.id, &entry.name);
        // The outermost class decides, whatever is said inside of its configuration.
        let outermost = (self.lookup)(key).and_then(|value| from_value(&value));
        if outermost.as_ref().is_some_and(|other| *other != stated) {
            return Ok(None);
        }
        Ok(Some(Missing {
            key: escape(key, 80).to_string(),
            stated,
            tensor: escape(image.text(), 120).to_string(),
            is_sure: outermost.is_some() || self.dialect.roots.of_class_at_root(key, self.lookup).is_some(),
        }))
    }
}

/// A head that a model should have.
struct Missing {
    /// The key of the flag by which it should.
    key: String,
    /// What it says.
    stated: Scalar,
    /// The head's name.
    tensor: String,
    /// Whether the outermost class says so.
    is_sure: bool,
}
