//! The program's exit codes.

use apr_sdk::ErrorKind;

/// Their list in the help of every verb.
pub const EXIT_CODES: &str = "Exit codes:
  0    done
  1    general error: disk full, not writable, output exists, plugin refused
  2    invalid arguments
  3    file not found
  4    invalid or unsupported file
  5    validation or verification failed, or the models differ
  130  interrupted (Ctrl-C)";

/// The exit code of an error (design section 8).
pub fn exit_code(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::InvalidArgument => 2,
        ErrorKind::NotFound => 3,
        ErrorKind::Malformed | ErrorKind::Unsupported | ErrorKind::LimitExceeded => 4,
        ErrorKind::Failed => 5,
        ErrorKind::Cancelled => 130,
        // Io and Plugin, and whatever a later SDK adds: the machine or a plugin failed, not the file.
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_its_exit_code() {
        let codes: Vec<u8> = ErrorKind::ALL.iter().map(|kind| exit_code(*kind)).collect();
        assert_eq!(codes, [4, 4, 4, 2, 3, 1, 1, 5, 130]);
    }
}
