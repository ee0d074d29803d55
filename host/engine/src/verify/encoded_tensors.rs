//! Tensors whose payload is compressed or encoded: opening sees only what the file states of them, decoding proves it.

use crate::crew::map;
use crate::engine::Engine;
use crate::expression::evaluate::read;
use crate::open::OpenedModel;
use apr_sdk::{Error, ErrorKind, Payload, Result};

fn is_encoded(payload: &Payload) -> bool {
    match payload {
        Payload::Extent { .. } => false,
        Payload::Packed(weight) => weight.parts.iter().any(|part| is_encoded(&part.payload)),
        _ => true,
    }
}

/// The number of tensors with such a payload.
pub fn n_encoded(opened: &OpenedModel) -> usize {
    opened.model.tensors.iter().filter(|tensor| is_encoded(&tensor.payload)).count()
}

/// Decodes all of them, and returns those that cannot be, by number, with the reason.
///
/// # Errors
/// Any error that is not about the file: from the machine, a plugin or the user.
pub fn undecodable(engine: &Engine, opened: &OpenedModel) -> Result<Vec<(usize, Error)>> {
    let tensors = opened.model.tensors.iter().enumerate();
    let encoded: Vec<usize> =
        tensors.filter(|(_, tensor)| is_encoded(&tensor.payload)).map(|(number, _)| number).collect();
    let errors = map(engine.crew.as_ref(), encoded.len(), &|_, n| match read::stream(
        engine,
        opened,
        encoded[n],
        &mut |_| Ok(()),
    ) {
        Ok(()) => Ok(None),
        Err(error) if is_of_file(&error) => Ok(Some(error)),
        Err(error) => Err(error),
    })?;
    Ok(encoded.into_iter().zip(errors).filter_map(|(number, error)| Some((number, error?))).collect())
}

/// Returns whether an error from reading is about the file's contents.
pub fn is_of_file(error: &Error) -> bool {
    use ErrorKind::{Failed, LimitExceeded, Malformed, Unsupported};
    matches!(error.kind(), Failed | LimitExceeded | Malformed | Unsupported)
}
