//! The roles of a model's tensors.

use crate::architecture::config::ConfigScope;
use crate::architecture::table::Table;
use crate::architecture::table::rule::images;
use apr_sdk::Result;
use std::collections::{BTreeMap, HashSet};

/// Names of tensors by role, in the decoder's dialect.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Roles {
    /// Names, and whether every model of the architecture has the tensor.
    names: BTreeMap<String, (String, bool)>,
}

/// From roles, names, and whether every model of the architecture has the tensor.
impl FromIterator<(String, String, bool)> for Roles {
    fn from_iter<I: IntoIterator<Item = (String, String, bool)>>(all: I) -> Roles {
        let names = all.into_iter().map(|(role, name, required)| (role, (name, required)));
        Roles { names: names.collect() }
    }
}

impl Roles {
    /// The name of the tensor with a role, which the model need not have; `None` if the architecture has no such role.
    pub fn name(&self, role: &str) -> Option<&str> {
        self.names.get(role).map(|(name, _)| name.as_str())
    }

    /// Returns whether a model with these tensors has one of a role.
    pub(super) fn is_held(&self, role: &str, tensors: &HashSet<&str>) -> bool {
        self.name(role).is_some_and(|name| tensors.contains(name))
    }

    /// Every role with its tensor's name, and whether every model of the architecture has it.
    pub fn all(&self) -> impl Iterator<Item = (&str, &str, bool)> {
        self.names.iter().map(|(role, (name, required))| (role.as_str(), name.as_str(), *required))
    }

    /// The tensors of a layer, or those of the whole model.
    ///
    /// # Errors
    /// Any error from evaluating when a tensor exists.
    pub(super) fn of(
        table: &Table,
        rows: &str,
        layer: Option<u64>,
        scope: &ConfigScope<'_>,
        has: &HashSet<&str>,
    ) -> Result<Roles> {
        let numbers: Vec<(String, u64)> =
            layer.map(|layer| ("layer".to_owned(), layer)).into_iter().collect();
        let mut roles = Roles::default();
        for rule in &table.rules {
            let (patterns, side) = images(rule, rows);
            let of_parts = side.map_or(&[][..], |side| &side.roles);
            let own: Vec<&String> = match patterns {
                _ if !of_parts.is_empty() => of_parts.iter().collect(),
                [_] => rule.role.iter().collect(),
                _ => Vec::new(),
            };
            for (role, pattern) in own.into_iter().zip(patterns) {
                let places = pattern.places();
                let fits = match layer {
                    None => places.is_empty(),
                    Some(_) => places.len() == 1 && places[0] == "layer",
                };
                if !fits || pattern.is_open() || !rule.applies(&scope.at(&numbers))? {
                    continue;
                }
                let name = pattern.name(|_| layer.unwrap_or(0));
                // Of several that may have the role, the one that the model has.
                if has.contains(name.as_str()) || !roles.names.contains_key(role) {
                    roles.names.insert(role.clone(), (name, rule.is_required()));
                }
            }
        }
        Ok(roles)
    }
}
