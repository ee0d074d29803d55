//! Tables that build on others, and how they are merged with their base.

use apr_sdk::{Error, Result};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use toml::{Table as Toml, Value as Item};

/// The longest text of a table: thirty times that of the largest here.
const LONGEST: usize = 1 << 19;

/// How many tables may build on one another: far more than anyone could follow.
const DEEPEST: u32 = 12;

/// The tables that others build on, each parsed once.
pub struct Bases<F> {
    text: F,
    whole: Mutex<HashMap<String, Arc<Toml>>>,
}

impl<F: Fn(&str) -> Result<String>> Bases<F> {
    /// `text` returns the text of a table by its id.
    pub fn new(text: F) -> Bases<F> {
        Bases { text, whole: Mutex::default() }
    }

    /// The TOML text of a table.
    ///
    /// # Errors
    /// Any error from `text`.
    pub fn text(&self, id: &str) -> Result<String> {
        (self.text)(id)
    }

    fn whole(&self, id: &str, depth: u32) -> Result<Arc<Toml>> {
        let known = || self.whole.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(whole) = known().get(id) {
            return Ok(Arc::clone(whole));
        }
        let whole = Arc::new(with_base(&self.text(id)?, self, depth)?);
        known().insert(id.to_owned(), Arc::clone(&whole));
        Ok(whole)
    }
}

/// Refuses a text that is too long for a table, wherever it comes from.
///
/// # Errors
/// LimitExceeded.
pub fn check_len(text: &str) -> Result<()> {
    if text.len() <= LONGEST {
        return Ok(());
    }
    let has = text.len();
    let most = LONGEST;
    Err(Error::limit(format!("the architecture table has {has} bytes, more than the limit of {most}")))
}

/// The table's TOML merged with its base; `depth` counts the bases of bases.
///
/// # Errors
/// InvalidArgument for text that is not TOML, and for circular bases; any error from the bases' texts.
pub fn with_base<F: Fn(&str) -> Result<String>>(text: &str, bases: &Bases<F>, depth: u32) -> Result<Toml> {
    check_len(text)?;
    let mut toml: Toml = text.parse().map_err(|e: toml::de::Error| {
        Error::invalid_argument(format!("the architecture table is not valid TOML: {e}"))
    })?;
    let Some(name) = toml.remove("base") else { return Ok(toml) };
    let name = name.as_str().unwrap_or_default();
    if depth > DEEPEST {
        return Err(Error::invalid_argument(format!(
            "the `base` of architecture table `{name}` is circular"
        )));
    }
    let mut whole = bases.whole(name, depth + 1)?.as_ref().clone();
    for key in ["is_base", "sources", "judges"] {
        whole.remove(key);
    }
    if let Some(Item::Array(gone)) = toml.remove("remove")
        && let Some(Item::Array(tensors)) = whole.get_mut("tensor")
    {
        let all = gone.iter().any(|g| g.as_str() == Some("*"));
        tensors.retain(|tensor| !all && !gone.iter().any(|g| tensor.get("name") == Some(g)));
    }
    if let Some(Item::Array(gone)) = toml.remove("remove_config")
        && let Some(Item::Table(config)) = whole.get_mut("config")
    {
        config.retain(|name, _| !gone.iter().any(|g| g.as_str() == Some(name)));
    }
    remove_keys(&mut whole, &mut toml);
    merge(&mut whole, toml);
    Ok(whole)
}

/// Takes the keys out of the base's dialects that `remove_keys` of the same dialect lists; a trailing `*` stands for any rest.
fn remove_keys(whole: &mut Toml, over: &mut Toml) {
    let (Some(Item::Table(have)), Some(Item::Table(dialects))) =
        (whole.get_mut("dialect"), over.get_mut("dialect"))
    else {
        return;
    };
    for (id, dialect) in dialects {
        let Some(Item::Array(gone)) =
            dialect.as_table_mut().and_then(|dialect| dialect.remove("remove_keys"))
        else {
            continue;
        };
        let Some(Item::Array(keys)) = have.get_mut(id).and_then(|dialect| dialect.get_mut("key")) else {
            continue;
        };
        keys.retain(|entry| {
            let Some(key) = entry.get("key").and_then(Item::as_str) else { return true };
            !gone.iter().filter_map(Item::as_str).any(|gone| match gone.strip_suffix('*') {
                Some(start) => key.starts_with(start),
                None => key == gone,
            })
        });
    }
}

/// Merges `over` into `under`: tables by key, lists of tensors by `name` or `names`, lists of keys by `key`; entries to
/// ignore, drop, rename, refuse, unstack, warn of, know by name or give a template to are appended to the base's; everything else is replaced.
fn merge(under: &mut Toml, over: Toml) {
    for (key, value) in over {
        match (under.get_mut(&key), value) {
            (Some(Item::Table(have)), Item::Table(more)) => merge(have, more),
            (Some(Item::Array(have)), Item::Array(more)) if ["tensor", "key"].contains(&key.as_str()) => {
                let names: &[&str] = if key == "key" { &["key"] } else { &["name", "names"] };
                replace_named(have, more, names);
                // An empty value removes a key of the base.
                have.retain(|item| item.get("value").and_then(Item::as_str) != Some(""));
            }
            (Some(Item::Array(have)), Item::Array(more))
                if ["ignore", "drop", "named", "rename", "refuse", "stacked", "template", "warn"]
                    .contains(&key.as_str()) =>
            {
                // A refusal for the same keys replaces the base's; so does a warning of the same effect.
                let own = [("refuse", "keys"), ("warn", "effect")].into_iter().find(|(list, _)| *list == key);
                if let Some((_, own)) = own {
                    have.retain(|old| {
                        old.get(own).is_none() || more.iter().all(|new| new.get(own) != old.get(own))
                    });
                }
                have.extend(more);
            }
            (_, value) => {
                under.insert(key, value);
            }
        }
    }
}

/// Puts each item in the place of the base's that has the same value at the first of `names` that it has, or behind all.
fn replace_named(have: &mut Vec<Item>, more: Vec<Item>, names: &[&str]) {
    // Only the base's are replaced: several layouts of one tensor are several rules of its name.
    let mut own = Vec::new();
    for item in more {
        let name = name_of(&item, names);
        let mut places = (0..have.len()).filter(|place| !own.contains(place));
        let place = places.find(|place| name_of(&have[*place], names) == name).unwrap_or(have.len());
        own.push(place);
        match have.get_mut(place) {
            Some(old) => *old = item,
            None => have.push(item),
        }
    }
}

fn name_of<'i>(item: &'i Item, names: &[&str]) -> Option<&'i Item> {
    names.iter().find_map(|name| item.get(name))
}

#[cfg(test)]
mod tests {
    use crate::architecture::Table;
    use crate::architecture::config::{Config, ConfigScope};
    use crate::architecture::table::dialect::warning::effects;

    const BASE: &str = "id = 'base'\n[dialect.hf]\nsame_names = true\nrename = [{ start = '', to = 'model.' }]\n\
        [[dialect.hf.ignore]]\nkeys = ['a.*']\nreason = 'x'\n[[tensor]]\nname = 'model.a'\n[[tensor]]\nname = 'model.b'\n";

    #[test]
    fn what_is_renamed_and_ignored_adds_up_and_tensors_are_taken_out() {
        let over = "id = 'over'\nbase = 'base'\nremove = ['*']\n[[dialect.hf.rename]]\nend = '.gamma'\nto = '.weight'\n\
            [[dialect.hf.ignore]]\nkeys = ['b']\nreason = 'y'\n[[tensor]]\nname = 'model.{layer}.weight'\n";
        let table = Table::parse(over, &|_| Ok(BASE.to_owned())).unwrap();
        assert_eq!(table.rules.len(), 1);
        let dialect = table.dialect("hf").unwrap();
        let ignored = ["a.b", "a", "b", "b.c"].map(|key| dialect.ignores(key));
        assert_eq!(ignored, [true, false, true, false]);
        for (name, own) in [
            ("3.weight", Some("model.3.weight")),
            ("model.3.gamma", Some("model.3.weight")),
            ("3.gamma", Some("model.3.weight")),
            ("model.3.weight", None),
            ("model.a", None),
            ("gamma", None),
        ] {
            assert_eq!(table.own_name("hf", name).as_deref(), own, "{name}");
        }
        let base = "id = 'base'\n[[dialect.hf.key]]\nkey = 'a.b'\nconst = 1\n[[dialect.hf.key]]\nkey = 'a.c'\nconst = 1\n[[dialect.hf.key]]\nkey = 'b'\nconst = 1\n";
        let over = "id = 'over'\nbase = 'base'\n[dialect.hf]\nremove_keys = ['a.*']\n[[dialect.hf.key]]\nkey = 'a.c'\nconst = 2\n";
        let table = Table::parse(over, &|_| Ok(base.to_owned())).unwrap();
        let keys: Vec<&str> = table.dialect("hf").unwrap().keys.iter().map(|key| key.key.as_str()).collect();
        assert_eq!(keys, ["b", "a.c"]);
        for wrong in ["to = 'x'", "start = ''\nend = ''\nto = ''", "start = ''"] {
            let text = format!("id = 'x'\n[[dialect.hf.rename]]\n{wrong}\n");
            Table::parse(&text, &|_| Ok(String::new())).unwrap_err();
        }
    }

    #[test]
    fn a_warning_of_the_same_effect_replaces_the_base_s() {
        let base = "id = 'base'\n[[dialect.gguf.warn]]\nwhen = 'true'\neffect = 'a'\n[[dialect.gguf.warn]]\nwhen = 'true'\neffect = 'b'\n";
        let over = "id = 'over'\nbase = 'base'\n[dialect.gguf]\narch = 'x'\n[[dialect.gguf.warn]]\nwhen = 'false'\neffect = 'a'\n\
            [[dialect.gguf.warn]]\nwhen = 'true'\neffect = 'of {arch}'\n";
        let table = Table::parse(over, &|_| Ok(base.to_owned())).unwrap();
        let config = Config::default();
        let scope = ConfigScope::new(&table, &config, &|_, _| None);
        assert_eq!(effects(table.dialect("gguf").unwrap(), &scope).unwrap(), ["b", "of x"]);
        for wrong in ["when = 'true'", "effect = 'a'", "when = 'true'\neffect = 'a'\nkeys = ['b']"] {
            let text = format!("id = 'x'\n[[dialect.gguf.warn]]\n{wrong}\n");
            Table::parse(&text, &|_| Ok(String::new())).unwrap_err();
        }
    }

    #[test]
    fn rules_of_one_table_do_not_replace_one_another() {
        let base = "id = 'base'\n[[tensor]]\nname = 'a'\nshape = [1]\n[[tensor]]\nname = 'b'\n";
        let over = "id = 'over'\nbase = 'base'\n[[tensor]]\nname = 'a'\nshape = [2]\nwhen = 'true'\n\
            [[tensor]]\nname = 'a'\nshape = [3]\nwhen = 'false'\n";
        let table = Table::parse(over, &|_| Ok(base.to_owned())).unwrap();
        let names: Vec<&str> = table.rules.iter().map(|rule| rule.members[0].text()).collect();
        assert_eq!(names, ["a", "b", "a"]);
    }
}
