//! Keys of a file that say something else than the configuration that was read of all of them: another key says it too and counts,
//! or the table takes it from others.

use crate::architecture::config::ConfigScope;
use crate::architecture::language::expression::{Scalar, same};
use crate::architecture::language::value::{from_value, narrowed};
use crate::architecture::table::{Dialect, Source};
use crate::engine::Engine;
use apr_sdk::{Result, Value, escape};

/// A key whose value does not count.
pub(in crate::architecture) struct Overruled<'d> {
    /// The key.
    pub key: &'d str,
    /// What the file states.
    pub stated: Scalar,
    /// What it would say of the configuration.
    pub taken: Scalar,
}

/// The keys whose values are not what `scope`'s configuration would be written as. Lists are not compared, nor dialects whose keys are
/// the configuration's own.
///
/// # Errors
/// Any error from evaluating the table's expressions.
pub(in crate::architecture) fn overruled<'d>(
    dialect: &'d Dialect,
    scope: &ConfigScope<'_>,
    lookup: &dyn Fn(&str) -> Option<Value>,
) -> Result<Vec<Overruled<'d>>> {
    let mut overruled = Vec::new();
    let computed =
        dialect.keys.iter().filter(|key| matches!(key.value, Source::Expression(_)) && !key.unread);
    for key in computed.filter(|_| !dialect.same_names) {
        let Some(stated) = lookup(&key.key).as_ref().and_then(from_value) else { continue };
        let written = key.written(dialect, scope)?.and_then(|(_, value)| from_value(&value));
        let Some(taken) = written.filter(|taken| is_one(taken) && is_one(&stated)) else { continue };
        if !same(&narrowed(&stated), &narrowed(&taken)) {
            overruled.push(Overruled { key: &key.key, stated, taken });
        }
    }
    Ok(overruled)
}

fn is_one(value: &Scalar) -> bool {
    !matches!(value, Scalar::List(_))
}

/// Warns of each such key.
///
/// # Errors
/// As [`overruled`].
pub(in crate::architecture) fn tell_of_overruled(
    engine: &Engine,
    dialect: &Dialect,
    scope: &ConfigScope<'_>,
    lookup: &dyn Fn(&str) -> Option<Value>,
) -> Result<()> {
    for Overruled { key, stated, taken } in overruled(dialect, scope, lookup)? {
        let key = escape(key, 120);
        engine.warn_once(&format!(
            "`{key}` is {stated}, but the file's other keys and tensors say {taken}, which is taken: other programs \
             may compute something else, or not load the file"
        ));
    }
    Ok(())
}
