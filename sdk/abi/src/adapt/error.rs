//! Converts errors to the wire and back without losing a field.

use crate::wire::{ErrorNumber, R, WireError};
use abi_stable::std_types::{RBox, ROption, RString};
use apr_sdk::{Error, ErrorKind, Result};

fn kind_to_wire(kind: ErrorKind) -> ErrorNumber {
    match kind {
        ErrorKind::Malformed => ErrorNumber::MALFORMED,
        ErrorKind::Unsupported => ErrorNumber::UNSUPPORTED,
        ErrorKind::LimitExceeded => ErrorNumber::LIMIT_EXCEEDED,
        ErrorKind::InvalidArgument => ErrorNumber::INVALID_ARGUMENT,
        ErrorKind::NotFound => ErrorNumber::NOT_FOUND,
        ErrorKind::Io => ErrorNumber::IO,
        ErrorKind::Failed => ErrorNumber::FAILED,
        ErrorKind::Cancelled => ErrorNumber::CANCELLED,
        _ => ErrorNumber::PLUGIN,
    }
}

fn kind_from_wire(number: ErrorNumber) -> ErrorKind {
    match number {
        ErrorNumber::MALFORMED => ErrorKind::Malformed,
        ErrorNumber::UNSUPPORTED => ErrorKind::Unsupported,
        ErrorNumber::LIMIT_EXCEEDED => ErrorKind::LimitExceeded,
        ErrorNumber::INVALID_ARGUMENT => ErrorKind::InvalidArgument,
        ErrorNumber::NOT_FOUND => ErrorKind::NotFound,
        ErrorNumber::IO => ErrorKind::Io,
        ErrorNumber::FAILED => ErrorKind::Failed,
        ErrorNumber::CANCELLED => ErrorKind::Cancelled,
        _ => ErrorKind::Plugin,
    }
}

fn text(text: Option<&str>) -> ROption<RString> {
    text.map(RString::from).into()
}

/// Converts an error to the wire.
#[cold]
pub fn to_wire(error: &Error) -> RBox<WireError> {
    RBox::new(WireError {
        kind: kind_to_wire(error.kind()),
        message: error.message().into(),
        code: text(error.explicit_code()),
        file: text(error.file()),
        offset: error.offset().into(),
        tensor: text(error.tensor_name()),
        hint: text(error.hint_text()),
        causes: error.causes().iter().map(|cause| RString::from(cause.as_str())).collect(),
        reserved: [0; 2],
    })
}

/// Converts an error from the wire. A kind unknown to this side becomes Plugin.
#[cold]
pub fn from_wire(wire: RBox<WireError>) -> Error {
    let wire = RBox::into_inner(wire);
    let mut error = Error::new(kind_from_wire(wire.kind), String::from(wire.message));
    if let ROption::RSome(code) = wire.code {
        error = error.code(String::from(code));
    }
    if let ROption::RSome(file) = wire.file {
        error = error.in_file(String::from(file));
    }
    if let ROption::RSome(offset) = wire.offset {
        error = error.at(offset);
    }
    if let ROption::RSome(tensor) = wire.tensor {
        error = error.tensor(String::from(tensor));
    }
    if let ROption::RSome(hint) = wire.hint {
        error = error.hint(String::from(hint));
    }
    wire.causes.into_iter().fold(error, |error, cause| error.cause(String::from(cause)))
}

/// Converts a result from the wire.
pub(crate) fn result<T>(wire: R<T>) -> Result<T> {
    wire.into_result().map_err(from_wire)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_survives() {
        for kind in ErrorKind::ALL {
            let plain = Error::new(kind, "m");
            assert_eq!(from_wire(to_wire(&plain)), plain);
            let full = plain.code("E1").in_file("f\0").at(7).tensor("t").hint("h").cause("a").cause("b");
            assert_eq!(from_wire(to_wire(&full)), full);
        }
    }

    #[test]
    fn unknown_kind_is_a_plugins() {
        let mut wire = to_wire(&Error::io("m"));
        wire.kind = ErrorNumber(99);
        assert_eq!(from_wire(wire).kind(), ErrorKind::Plugin);
    }
}
