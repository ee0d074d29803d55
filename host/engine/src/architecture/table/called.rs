//! The architecture that a model claims to have.

use crate::architecture::config::from_value;
use crate::architecture::description::{find_table, stated};
use crate::architecture::language::expression::Scalar;
use crate::engine::Engine;
use apr_sdk::Model;

/// The id of a model's architecture: from its table, otherwise as stated by the model.
pub fn called(engine: &Engine, model: &Model) -> Option<String> {
    if let Some(architecture) = &model.architecture {
        return Some(architecture.id.clone());
    }
    // A bag of tensors states nothing.
    model.foreign_of(&model.format).filter(|_| model.dialect != "none")?;
    if let Ok(Some((table, _))) = find_table(engine, model, None) {
        return Some(table.id.clone());
    }
    let texts = engine.tables().marking_keys(&model.dialect);
    texts.iter().find_map(|key| match from_value(&stated(model, key)?)? {
        Scalar::Text(text) => Some(text),
        _ => None,
    })
}
