//! Names the points that a file fails when it cannot be opened.

use super::{Point, points};
use apr_sdk::{Error, ErrorKind};

/// The key in the table for an unsupported feature without a code of its own.
const UNSUPPORTED: &str = "unsupported";

/// Adds to the hint of an error at opening which points it shows to be false, if its code says so.
#[must_use]
pub fn falsified(error: Error) -> Error {
    let all = points().unwrap_or_default();
    let failed: Vec<&Point> = match code(&error) {
        Some(code) => all.iter().filter(|point| point.errors.iter().any(|own| own == code)).collect(),
        None => Vec::new(),
    };
    let named = match &failed[..] {
        [] => return error,
        [point] => format!("this fails point {} of the checklist, {}", point.number, point.title),
        [rest @ .., last] => {
            let rest: Vec<String> = rest.iter().map(|point| point.number.to_string()).collect();
            format!("this fails point {} or {} of the checklist", rest.join(", "), last.number)
        }
    };
    let hint = match (error.hint_text(), &failed[..]) {
        (Some(hint), _) => format!("{hint} ({named})"),
        (None, [point]) => format!("{} ({named})", point.help),
        (None, _) => named,
    };
    error.with_hint(hint)
}

/// The key of an error in the table; `None` if the file is not to blame.
fn code(error: &Error) -> Option<&str> {
    match error.kind() {
        ErrorKind::Malformed | ErrorKind::LimitExceeded => error.stable_code(),
        ErrorKind::Unsupported => Some(error.explicit_code().unwrap_or(UNSUPPORTED)),
        ErrorKind::NotFound | ErrorKind::Failed => error.explicit_code(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(error: Error) -> String {
        falsified(error).hint_text().unwrap_or_default().to_owned()
    }

    #[test]
    fn only_errors_of_the_file_name_points() {
        assert!(hint(Error::malformed("m")).contains("point 2, 5, "));
        assert!(hint(Error::malformed("m").hint("do it")).starts_with("do it (this fails point 2, "));
        assert!(hint(Error::not_found("m").code("E007")).contains("point 9 of the checklist, sharding"));
        assert!(hint(Error::limit("m")).contains("point 16 of the checklist, huge header"));
        assert!(hint(Error::unsupported("m")).contains("point 8, 19, 21 or 24"));
        assert!(hint(Error::unsupported("m").code("E003")).contains("point 1, 3, 8 or 10"));
        for error in [Error::not_found("m"), Error::io("m"), Error::io("m").code("E007"), Error::plugin("m")]
        {
            assert_eq!(hint(error), "");
        }
    }
}
