//! The end: logits, or a token chosen by them. The session gives them to the sink after the workers have ended.

use super::vector;
use crate::level::Level;
use crate::session::compile::Compiler;
use apr_sdk::{Error, Result};

pub(super) fn compile(operation: &apr_sdk::Sample, compiler: &mut Compiler<'_>) {
    compiler.plan.logits = Some(compiler.columns(&operation.logits));
}

/// The largest logit's id; the lowest of equal ones.
///
/// # Errors
/// Failed if a logit is NaN.
pub(crate) fn greedy(level: Level, logits: &[f32]) -> Result<u32> {
    let most = vector::largest(level, logits);
    let chosen = logits.iter().position(|logit| *logit == most);
    match chosen.map(u32::try_from) {
        Some(Ok(id)) if !vector::has_nan(level, logits) => Ok(id),
        _ => Err(Error::failed("no token can be chosen: the logits are NaN")
            .hint("check the model's weights for non-finite values")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lowest_of_equal_logits_is_chosen() {
        for level in vector::levels() {
            let mut logits = vec![-1.0; 100];
            (logits[41], logits[97]) = (3.5, 3.5);
            assert_eq!(greedy(level, &logits).unwrap(), 41);
            assert_eq!(greedy(level, &[f32::NEG_INFINITY; 3]).unwrap(), 0);
            logits[50] = f32::NAN;
            assert!(greedy(level, &logits).is_err());
        }
    }
}
