//! Where a dialect's files state their configuration: at the root, inside of a nested object (`text_config`), or
//! nowhere, because the library's class of the model says it already.

use crate::architecture::language::expression::Scalar;
use crate::architecture::language::members::{entries, list, scalar, words};
use crate::architecture::language::table_error::{Read, Within};
use crate::architecture::language::value::{from_value, says_null, typed};
use apr_sdk::{Error, Result, Value, escape};
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
    /// Other spellings that the library's class reads: by `model_type`, a key and what else it may be called.
    spellings: Vec<(String, Spellings)>,
    /// The keys of objects that replace the class's own as a whole: what the class says of one of them is nothing where the file
    /// states another.
    of_objects: Vec<String>,
}

/// Keys, and what else each may be called.
type Spellings = Vec<(String, Vec<String>)>;

/// The key that names the library's class.
const MODEL_TYPE: &str = "model_type";

/// Looks up the value of a file's key by its full path.
pub type Lookup<'a> = &'a dyn Fn(&str) -> Option<Value>;

impl Roots {
    /// Reads `roots`, `written_root`, `defaults` and `spellings` of a dialect.
    ///
    /// # Errors
    /// InvalidArgument for values of another kind, and for a root that occurs twice.
    pub(in crate::architecture) fn read(dialect: &Toml) -> Read<Roots> {
        let nested = list(dialect, "roots")?;
        for (at, root) in nested.iter().enumerate() {
            if root.is_empty() || nested[..at].contains(root) {
                let message = format!(
                    "`roots` has an empty or duplicate entry `{}`: the root itself is always included",
                    escape(root, 80)
                );
                return Err(Error::invalid_argument(message)).within(at).within("roots");
            }
        }
        let written = words(dialect, "written_root")?.unwrap_or_default();
        if !written.is_empty() && !nested.contains(&written) {
            let message = "`written_root` is not one of the `roots`";
            return Err(Error::invalid_argument(message)).within("written_root");
        }
        let classes = entries(dialect, "defaults", |class, item| {
            let keys = item.as_table().ok_or_else(|| {
                Error::invalid_argument(format!("the defaults of `{}` are not a table", escape(class, 80)))
            })?;
            let mut values = Vec::new();
            for (key, item) in keys {
                let value = typed(&scalar(item).within(key.as_str())?, None).ok_or_else(|| {
                    Error::invalid_argument(format!("the default of `{}` has no type", escape(key, 80)))
                });
                values.push((key.clone(), value.within(key.as_str())?));
            }
            Ok((class.to_owned(), values))
        })?;
        let spellings = entries(dialect, "spellings", |class, item| {
            let keys = item.as_table().ok_or_else(|| {
                Error::invalid_argument(format!("the spellings of `{}` are not a table", escape(class, 80)))
            })?;
            let others = keys.keys().map(|key| Ok((key.clone(), list(keys, key)?)));
            Ok((class.to_owned(), others.collect::<Read<_>>()?))
        })?;
        Ok(Roots { nested, written, classes, spellings, of_objects: Vec::new() })
    }

    /// Says which of a table's keys lie in objects that replace the class's own as a whole.
    pub(in crate::architecture) fn set_of_objects(&mut self, objects: &[String], mut keys: Vec<String>) {
        keys.retain(|key| {
            objects.iter().any(|object| key.strip_prefix(&**object).is_some_and(|rest| rest.starts_with('.')))
        });
        self.of_objects = keys;
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
        let inside = self.nested.iter().find_map(|root| path.strip_prefix(root.as_str())?.strip_prefix('.'));
        inside.unwrap_or(path)
    }

    /// The value of a key, and the path where the file states it, in whichever spelling.
    pub fn stated(&self, key: &str, lookup: Lookup<'_>) -> Option<(String, Value)> {
        self.stated_so(key, lookup)
            .or_else(|| self.spelled(key, lookup).iter().find_map(|other| self.stated_so(other, lookup)))
    }

    /// Every value that a file states for a key, one for each spelling, and the paths.
    pub fn stated_all(&self, key: &str, lookup: Lookup<'_>) -> Vec<(String, Value)> {
        let others = self.spelled(key, lookup).iter().map(String::as_str);
        [key].into_iter().chain(others).filter_map(|key| self.stated_so(key, lookup)).collect()
    }

    /// The value of a key in this very spelling.
    fn stated_so(&self, key: &str, lookup: Lookup<'_>) -> Option<(String, Value)> {
        if let Some(key) = key.strip_prefix('/') {
            return lookup(key).map(|value| (key.to_owned(), value));
        }
        for root in &self.nested {
            let path = format!("{root}.{key}");
            if let Some(value) = lookup(&path) {
                return Some((path, value));
            }
            // Null in place of the object says that there is none, whatever lies at the root.
            let object = key.split_once('.').map(|(object, _)| format!("{root}.{object}"));
            if object.and_then(|object| lookup(&object)).is_some_and(|value| says_null(&value)) {
                return None;
            }
        }
        lookup(key).map(|value| (key.to_owned(), value))
    }

    /// What else the library's class reads for a key.
    fn spelled(&self, key: &str, lookup: Lookup<'_>) -> &[String] {
        if self.spellings.is_empty() {
            return &[];
        }
        let class = self.class(lookup);
        let keys = class.and_then(|class| self.spellings.iter().find(|(known, _)| *known == class));
        let others = keys.and_then(|(_, keys)| keys.iter().find(|(own, _)| own == key));
        others.map_or(&[], |(_, others)| others)
    }

    /// The library's class: that of a nested object if it names one that the table knows, or else that of the file, which then says
    /// what is inside.
    fn class(&self, lookup: Lookup<'_>) -> Option<String> {
        let nested = self.nested.iter().find_map(|root| text_of(&format!("{root}.{MODEL_TYPE}"), lookup));
        let known = nested.filter(|class| self.classes.iter().any(|(known, _)| known == class));
        known.or_else(|| text_of(MODEL_TYPE, lookup))
    }

    /// What the library's class says of a key, where the file is silent.
    pub fn of_class(&self, key: &str, lookup: Lookup<'_>) -> Option<&Value> {
        if self.classes.is_empty() {
            return None;
        }
        let class = self.class(lookup)?;
        let (_, values) = self.classes.iter().find(|(known, _)| *known == class)?;
        let (_, value) = values.iter().find(|(own, _)| own == key)?;
        let is_replaced = self.of_objects.iter().any(|own| own == key)
            && self.of_objects.iter().any(|own| self.stated(own, lookup).is_some());
        (!is_replaced).then_some(value)
    }

    /// Returns whether the library's class says anything inside of an object.
    pub fn says_inside(&self, object: &str, lookup: Lookup<'_>) -> bool {
        let class = self.class(lookup);
        let values = class.and_then(|class| self.classes.iter().find(|(known, _)| *known == class));
        let mut keys = values.into_iter().flat_map(|(_, values)| values).map(|(key, _)| key.as_str());
        keys.any(|key| key.strip_prefix(object).is_some_and(|rest| rest.starts_with('.')))
    }

    /// What [`Roots::of_class`] gives of a key that lies at the file's root whatever the roots are: nothing where the class is that of
    /// what lies inside.
    pub fn of_class_at_root(&self, key: &str, lookup: Lookup<'_>) -> Option<&Value> {
        self.of_class(key, lookup).filter(|_| self.nested.is_empty())
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
        let stating = self.nested.iter().filter(|root| {
            keys.iter().any(|key| !key.starts_with('/') && lookup(&format!("{root}.{key}")).is_some())
        });
        match stating.collect::<Vec<_>>()[..] {
            [first, second, ..] => Err(Error::malformed(format!(
                "both `{first}` and `{second}` contain the configuration of a text model"
            ))
            .hint("keep only one of them in config.json")),
            _ => Ok(()),
        }
    }
}

/// The text that a file states for a key.
fn text_of(path: &str, lookup: Lookup<'_>) -> Option<String> {
    match from_value(&lookup(path)?)? {
        Scalar::Text(text) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOML: &str = "roots = ['text_config', 'llm_config']\nwritten_root = 'text_config'\n\
        [defaults.small_text]\nheads = 8\n[defaults.flat]\nheads = 4\nepsilon = 0.5\n";

    fn roots(text: &str) -> Read<Roots> {
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
        assert_eq!(roots.find("heads", &silent).unwrap(), (None, Value::from_i64(4)));
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
    fn an_object_of_the_file_s_own_replaces_that_of_the_class() {
        let mut roots =
            roots("[defaults.turned]\n'rope.factor' = 8.0\n'rope.kind' = 'yarn'\nheads = 4\n").unwrap();
        roots
            .set_of_objects(&["rope".into()], vec!["rope.factor".into(), "rope.kind".into(), "heads".into()]);
        let file = |stated: &'static [&'static str]| {
            move |key: &str| match key {
                "model_type" => Some(Value::from_string("turned")),
                key => stated.contains(&key).then(|| Value::from_string("linear")),
            }
        };
        assert_eq!(roots.find("rope.factor", &file(&[])).unwrap().1, Value::from_f64(8.0));
        assert_eq!(roots.find("rope.factor", &file(&["rope.kind"])), None);
        assert_eq!(roots.find("heads", &file(&["rope.kind"])).unwrap().1, Value::from_i64(4));
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
