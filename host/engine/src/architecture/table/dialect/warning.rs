//! What a dialect's readers make of a model although its files state all of it: they cannot load it, or compute something else.

use super::Dialect;
use crate::architecture::language::expression::{Expression, Scope};
use crate::architecture::language::members::{expression, only, read_tables, words};
use crate::architecture::language::table_error::Read;
use apr_sdk::{Error, Result};
use toml::Table as Toml;

/// A case in which a dialect's readers do otherwise than the model.
#[derive(Clone, Debug)]
pub struct Warning {
    /// A condition on the configuration and the tensors.
    when: Expression,
    /// The consequence, in words.
    effect: String,
}

impl Warning {
    /// Parses a dialect's `warn` entries; `named` inserts the architecture's name into texts.
    ///
    /// # Errors
    /// InvalidArgument for an entry without a condition or without an effect.
    pub(in crate::architecture) fn read(
        dialect: &Toml,
        named: &dyn Fn(&str) -> String,
    ) -> Read<Vec<Warning>> {
        read_tables(dialect, "warn", |entry| {
            only(entry, &["when", "effect"], "a warning")?;
            let (Some(when), Some(effect)) = (expression(entry, "when")?, words(entry, "effect")?) else {
                return Err(Error::invalid_argument("a warning requires `when` and an `effect`").into());
            };
            Ok(Warning { when, effect: named(&effect) })
        })
    }

    /// The condition.
    pub(in crate::architecture) fn condition(&self) -> &Expression {
        &self.when
    }
}

/// The effects of a dialect's warnings that apply to a model.
///
/// # Errors
/// Any error from evaluating conditions.
pub fn effects(dialect: &Dialect, model: &dyn Scope) -> Result<Vec<String>> {
    let mut effects = Vec::new();
    for warning in &dialect.warned {
        if warning.when.holds(model)? {
            effects.push(warning.effect.clone());
        }
    }
    Ok(effects)
}
