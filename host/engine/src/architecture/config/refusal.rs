//! What a model states but its table does not cover: such models are refused by name, never translated into
//! something that computes differently.

use crate::architecture::config::contradiction::refuse_contradictions;
use crate::architecture::config::statement::Stated;
use crate::architecture::language::expression::Scope;
use crate::architecture::language::value::{from_value, says_null};
use crate::architecture::table::Table;
use crate::architecture::table::dialect::refusal::Refusal;
use apr_sdk::{Error, Result, escape};

impl Refusal {
    /// What the model states that matches, in words; empty if it does not apply.
    fn found(&self, model: &Stated<'_>) -> Result<Vec<String>> {
        let reason = &self.reason;
        let is_named = self.named.iter().any(|part| model.names.iter().any(|name| name.contains(part)));
        if !self.named.is_empty() && !is_named {
            return Ok(Vec::new());
        }
        if self.tensor.is_none() && !self.holds(model.scope)? {
            return Ok(Vec::new());
        }
        let stated = self.stated(model);
        if !self.keys.is_empty() && stated.is_empty() {
            return Ok(Vec::new());
        }
        if let Some(tensor) = self.tensor(model)? {
            let beside = stated.iter().map(|key| format!("{key} beside ")).collect::<String>();
            return Ok(vec![format!("{beside}the tensor `{}` ({reason})", escape(&tensor, 120))]);
        }
        Ok(match (&self.tensor, self.keys.is_empty()) {
            (Some(_), _) => Vec::new(),
            (None, true) => vec![reason.clone()],
            (None, false) => stated.into_iter().map(|key| format!("{key} ({reason})")).collect(),
        })
    }

    /// The first of the model's tensors that it is about.
    fn tensor(&self, model: &Stated<'_>) -> Result<Option<String>> {
        let Some(pattern) = &self.tensor else { return Ok(None) };
        for tensor in model.tensors {
            let Some(numbers) = pattern.places_in(&tensor.name) else { continue };
            if self.holds(&model.scope.at(&numbers))? {
                return Ok(Some(tensor.name.clone()));
            }
        }
        Ok(None)
    }

    /// The keys that it is about, with their values, in words.
    fn stated(&self, model: &Stated<'_>) -> Vec<String> {
        let (open, exact): (Vec<&String>, Vec<&String>) =
            self.keys.iter().partition(|key| key.ends_with('*'));
        let fitting = open.into_iter().flat_map(|pattern| self.fitting(pattern, model));
        let keys = exact.into_iter().map(String::as_str).chain(fitting);
        keys.filter_map(|key| self.stated_key(key, model)).collect()
    }

    /// A key with its value, in words, if the model states it, and it is about that value.
    fn stated_key(&self, key: &str, model: &Stated<'_>) -> Option<String> {
        let (path, value) = model.dialect.roots.find(key, model.lookup)?;
        // What the class says is listed only for keys that the table reads.
        let is_left = !self.only_unknown || path.is_some_and(|path| !model.reads(&path));
        if !is_left || !self.values.hold(&value) {
            return None;
        }
        // Null states something where the class says something else.
        if says_null(&value) && !model.is_of_class(key) {
            return None;
        }
        let shown = from_value(&value).map_or_else(String::new, |value| format!(" {value}"));
        Some(format!("`{}`{shown}", escape(key, 80)))
    }

    /// The keys of a model that a pattern with an open end stands for: those that no other refusal judges by their names.
    fn fitting<'m>(&self, pattern: &str, model: &Stated<'m>) -> Vec<&'m str> {
        let own = model.keys.iter().map(|path| model.dialect.roots.own(path));
        let fitting = own.filter(|key| self.is_open_to(pattern, key));
        fitting.filter(|key| !model.dialect.refused.iter().any(|other| other.names(key))).collect()
    }

    fn holds(&self, scope: &dyn Scope) -> Result<bool> {
        self.when.as_ref().map_or(Ok(true), |when| when.holds(scope))
    }
}

/// Fails if a model states something that its table does not cover, or contradicts itself.
///
/// # Errors
/// Unsupported, naming all that is not covered; Malformed for a contradiction; any error from evaluating conditions.
pub fn refuse(table: &Table, model: &Stated<'_>) -> Result<()> {
    let mut found = Vec::new();
    for refusal in &model.dialect.refused {
        found.extend(refusal.found(model)?);
    }
    found.extend(model.dialect.keys.iter().filter_map(|key| model.other_constant(key)));
    not_covered(table, found)?;
    refuse_without_required(model)?;
    refuse_contradictions(table, model)
}

/// Fails for a model that lacks a key which its readers require, and which the table would otherwise take from a default.
///
/// # Errors
/// Malformed, naming the key.
fn refuse_without_required(model: &Stated<'_>) -> Result<()> {
    let is_read = |key: &&str| model.dialect.keys.iter().any(|own| own.key == *key && !own.sets.is_empty());
    for required in &model.dialect.required {
        let mut either = required.split(OR);
        let keys: Vec<&str> = required.split(OR).filter(is_read).collect();
        if keys.is_empty() || either.any(|key| (model.lookup)(key).is_some()) {
            continue;
        }
        let shown: Vec<String> = keys.iter().map(|key| format!("`{}`", escape(key, 80))).collect();
        let message = format!("{} is missing, which readers of the file require", shown.join(" or "));
        let hint =
            "pass --set KEY:TYPE=VALUE if you know the value, or convert the model to this format again";
        return Err(Error::malformed(message).hint(hint));
    }
    Ok(())
}

/// Separator of keys of which one is enough.
const OR: char = '|';

/// Fails for what a table does not cover.
///
/// # Errors
/// Unsupported, naming everything in `found`.
pub fn not_covered(table: &Table, mut found: Vec<String>) -> Result<()> {
    const SHOWN: usize = 8;
    if found.is_empty() {
        return Ok(());
    }
    let more = found.len().saturating_sub(SHOWN);
    found.truncate(SHOWN);
    let more = if more > 0 { format!("; and {more} more") } else { String::new() };
    let message = format!(
        "the table of architecture `{}` does not cover what the model states: {}{more}",
        table.id,
        found.join("; ")
    );
    let hint = "cover it in your own table (`apr arch draft IN`), or pass --arch none to keep every name";
    Err(Error::unsupported(message).hint(hint))
}
