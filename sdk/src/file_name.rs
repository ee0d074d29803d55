//! The file names that a model may give.

use crate::{Error, Result, escape, has_controls};

/// Checks a name that a model's file gives to another file (a companion, a part). It must stay inside the
/// model's folder on every system, and must not be able to pass for another name on a terminal.
///
/// # Errors
/// Malformed; `what` says whose name it is.
pub fn check_file_name(what: &str, name: &str) -> Result<()> {
    let leaves = name.starts_with('/') || name.contains('\\');
    let fault = if leaves || name.split('/').any(|piece| matches!(piece, "" | "." | "..")) {
        "points outside the model's folder"
    } else if has_controls(name) {
        "contains control characters"
    } else {
        return Ok(());
    };
    Err(Error::malformed(format!("{what} `{}` {fault}", escape(name, 120))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_names_that_are_none_for_files() {
        for name in [
            "",
            "/a",
            "../a",
            "a/../b",
            "a//b",
            "a\\b",
            "./a",
            "a\0",
            "a\u{1b}[31m",
            "a\u{202e}b",
            "a\nb",
            "\u{9b}",
        ] {
            check_file_name("asset name", name).unwrap_err();
        }
        for name in ["a/b.txt", "héllo 模型.md", "\u{1f469}\u{200d}\u{1f680}.png"] {
            check_file_name("asset name", name).unwrap();
        }
    }
}
