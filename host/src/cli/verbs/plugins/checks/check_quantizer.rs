//! The checks of a quantizer: those of its own tests.

use super::check_line::Line;
use apr_sdk::{BlockType, Quantizer, Result};
use apr_testkit::Verdict;
use apr_testkit::quantizers::{CHECKS, Subject};

/// Checks the quantizer `id`, whose plugin declares some block types; `say` hears of each check as it starts and as it ends.
///
/// # Errors
/// Any error from `say`.
pub fn check_quantizer(
    id: &str,
    quantizer: &dyn Quantizer,
    declared: &[BlockType],
    say: &dyn Fn(&Line) -> Result<()>,
) -> Result<()> {
    for (name, check) in CHECKS {
        say(&Line::new(id, name, "started", String::new()))?;
        let (result, detail) = match Subject::new(quantizer, declared).and_then(|subject| check(&subject)) {
            Ok(Verdict::Passed(what)) => ("passed", what),
            Ok(Verdict::Skipped(why)) => ("skipped", why),
            Err(error) => ("failed", error.to_string()),
        };
        say(&Line::new(id, name, result, detail))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use apr_sdk::DType;
    use std::cell::RefCell;

    /// Lists nothing.
    struct Empty;

    impl Quantizer for Empty {
        fn dtypes(&self) -> Result<Vec<DType>> {
            Ok(Vec::new())
        }
    }

    #[test]
    fn each_check_has_a_result() {
        let lines = RefCell::new(Vec::new());
        check_quantizer("x", &Empty, &[], &|line| {
            lines.borrow_mut().push((line.check.clone(), line.result.clone()));
            Ok(())
        })
        .unwrap();
        let lines = lines.into_inner();
        assert_eq!(lines.len(), 2 * CHECKS.len());
        assert_eq!(lines[1], ("types".to_owned(), "failed".to_owned()));
    }
}
