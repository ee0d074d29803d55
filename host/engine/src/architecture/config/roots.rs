//! Where a dialect's files state their configuration: at the root, inside of a nested object (`text_config`), or
//! nowhere, because the library's class of the model says it already.

use crate::architecture::config::from_value;
use crate::architecture::table::expression::Scalar;
use crate::architecture::table::members::{list, scalar, sub_table, words};
use apr_sdk::{Error, Result, Value, ValueType, escape};
use toml::Table as Toml;

/// Where a dialect's files state their configuration.
#[derive(Clone, Debug, Default)]
pub struct Roots {
    /// Paths of nested objects that may hold it; what one of them states counts before the root's.
    nested: Vec<String>,
    /// The path under which a configuration from another dialect is written; empty for the root.
    written: String,
    /// What the library's class says where a file is silent: by `model_type`, keys and values.
    classes: Vec<(String, Vec<(String, Value)>)>,
}

/// The key that names the library's class.
const MODEL_TYPE: &str = "model_type";

/// Looks up the value of a file's key by its full path.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<Value>;

impl Roots {
    /// Reads `roots`, `written_root` and `defaults` of a dialect.
    ///
    /// # Errors
    /// InvalidArgument for values of another kind, and for a root that occurs twice.
    pub(in crate::architecture) fn read(dialect: &Toml) -> Result<Roots> {
        let nested = list(dialect, "roots")?;
        for (at, root) in nested.iter().enumerate() {
            if root.is_empty() || nested[..at].contains(root) {
                let message = format!(
                    "`roots` has `{}` twice, or an empty entry: the root itself always counts",
                    escape(root, 80)
                );
                return Err(Error::invalid_argument(message));
            }
        }
        let written = words(dialect, "written_root")?.unwrap_or_default();
        if !written.is_empty() && !nested.contains(&written) {
            return Err(Error::invalid_argument("`written_root` is not one of the `roots`"));
        }
        let mut classes = Vec::new();
        for (class, item) in sub_table(dialect, "defaults")? {
            let keys = item.as_table().ok_or_else(|| {
                Error::invalid_argument(format!("the defaults of `{}` are no table", escape(class, 80)))
            })?;
            let mut values = Vec::new();
            for (key, item) in keys {
                let value = super::typed(&scalar(item)?, None).ok_or_else(|| {
                    Error::invalid_argument(format!("the default of `{}` has no type", escape(key, 80)))
                })?;
                values.push((key.clone(), value));
            }
            classes.push((class.clone(), values));
        }
        Ok(Roots { nested, written, classes })
    }

    /// The key's path where a configuration from another dialect is written. A key that begins with `/` lies at the
    /// file's root, whatever the roots are.
    pub fn path(&self, key: &str) -> String {
        if let Some(key) = key.strip_prefix('/') {
            return key.to_owned();
        }
        if self.written.is_empty() { key.to_owned() } else { format!("{}.{key}", self.written) }
    }

    /// The key without the nested object that it lies in.
    pub fn own<'k>(&self, path: &'k str) -> &'k str {
        let inside = |root: &String| path.strip_prefix(root.as_str())?.strip_prefix('.');
        self.nested.iter().find_map(inside).unwrap_or(path)
    }

    /// The value of a key, and the path where the file states it.
    pub fn stated(&self, key: &str, lookup: Lookup<'_>) -> Option<(String, Value)> {
        if let Some(key) = key.strip_prefix('/') {
            return lookup(key).map(|value| (key.to_owned(), value));
        }
        let nested = self.nested.iter().map(|root| format!("{root}.{key}"));
        nested.chain([key.to_owned()]).find_map(|path| lookup(&path).map(|value| (path, value)))
    }

    /// What the library's class says of a key, where the file is silent: that of a nested object all that it has; that of a file which
    /// states its configuration at the root floats and texts alone, since tensors tell sizes.
    pub fn of_class(&self, key: &str, lookup: Lookup<'_>) -> Option<&Value> {
        let kind = |path: &str| match from_value(&lookup(path)?)? {
            Scalar::Text(text) => Some(text),
            _ => None,
        };
        let says = |class: &str| {
            let (_, values) = self.classes.iter().find(|(known, _)| known == class)?;
            values.iter().find(|(own, _)| own == key).map(|(_, value)| value)
        };
        if self.classes.is_empty() {
            return None;
        }
        let nested = self.nested.iter().find_map(|root| kind(&format!("{root}.{MODEL_TYPE}")));
        match nested {
            Some(class) => says(&class),
            None => says(&kind(MODEL_TYPE)?)
                .filter(|value| [ValueType::F64, ValueType::STRING].contains(&value.kind)),
        }
    }

    /// The value of a key, stated or of the class, and the path where the file states it.
    pub fn find(&self, key: &str, lookup: Lookup<'_>) -> Option<(Option<String>, Value)> {
        let stated = self.stated(key, lookup).map(|(path, value)| (Some(path), value));
        stated.or_else(|| self.of_class(key, lookup).map(|value| (None, value.clone())))
    }

    /// Fails if more than one nested object states any of these keys: nothing says which counts.
    ///
    /// # Errors
    /// Malformed, with both.
    pub fn check(&self, keys: &[&str], lookup: Lookup<'_>) -> Result<()> {
        let states = |root: &&String| {
            keys.iter().any(|key| !key.starts_with('/') && lookup(&format!("{root}.{key}")).is_some())
        };
        let found: Vec<&str> = self.nested.iter().filter(states).map(String::as_str).collect();
        match found[..] {
            [first, second, ..] => Err(Error::malformed(format!(
                "both `{first}` and `{second}` state the configuration of a model of text"
            ))
            .hint("leave one of them in config.json")),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOML: &str = "roots = ['text_config', 'llm_config']\nwritten_root = 'text_config'\n\
        [defaults.small_text]\nheads = 8\n[defaults.flat]\nheads = 4\nepsilon = 0.5\n";

    fn roots(text: &str) -> Result<Roots> {
        Roots::read(&text.parse().unwrap())
    }

    #[test]
    fn what_is_nested_counts_before_the_root_and_the_class_last() {
        let roots = roots(TOML).unwrap();
        let file = |stated: &'static [(&'static str, &'static str)]| {
            move |key: &str| stated.iter().find(|(k, _)| *k == key).map(|(_, v)| Value::from_string(v))
        };
        let nested = file(&[
            ("text_config.a", "nested"),
            ("a", "root"),
            ("model_type", "small"),
            ("text_config.model_type", "small_text"),
        ]);
        assert_eq!(roots.find("/a", &nested).unwrap().1.as_str(), Some("root"));
        assert_eq!(roots.path("/a"), "a");
        let (path, value) = roots.find("a", &nested).unwrap();
        assert_eq!((path.as_deref(), value.as_str()), (Some("text_config.a"), Some("nested")));
        assert_eq!(roots.find("heads", &nested).unwrap(), (None, Value::from_i64(8)));
        let flat = file(&[("a", "root"), ("model_type", "small")]);
        assert_eq!(roots.find("a", &flat).unwrap().0.as_deref(), Some("a"));
        assert_eq!(roots.find("heads", &flat), None);
        assert_eq!(roots.find("heads", &file(&[("model_type", "other")])), None);
        let silent = file(&[("model_type", "flat")]);
        assert_eq!(roots.find("heads", &silent), None);
        assert_eq!(roots.find("epsilon", &silent).unwrap(), (None, Value::from_f64(0.5)));
        assert_eq!(roots.find("epsilon", &nested), None);
        assert_eq!(
            (roots.path("a"), roots.own("llm_config.a.b"), roots.own("other.a")),
            ("text_config.a".into(), "a.b", "other.a")
        );
        roots.check(&["a", "b"], &nested).unwrap();
        let twice = file(&[("text_config.a", ""), ("llm_config.b", "")]);
        let error = roots.check(&["a", "b"], &twice).unwrap_err();
        assert!(error.message().contains("`text_config` and `llm_config`"), "{}", error.message());
    }

    #[test]
    fn what_cannot_be_a_root_is_refused() {
        for text in [
            "roots = ['']",
            "roots = ['a', 'a']",
            "roots = ['a']\nwritten_root = 'b'",
            "[defaults]\na = 1",
            "roots = 1",
        ] {
            roots(text).unwrap_err();
        }
    }
}
