//! The distribution that logits stand for.

use apr_sdk::{Error, Result};

/// A row of logits as the logarithms of probabilities: in F32 with a sum in F64, as llama-perplexity computes.
pub(super) struct Distribution<'a> {
    logits: &'a [f32],
    /// The largest logit.
    pub most: f32,
    /// The first token that has it.
    pub likeliest: usize,
    /// ln Σ exp(logit − most).
    pub log_sum: f64,
}

impl<'a> Distribution<'a> {
    /// The distribution of a row.
    ///
    /// # Errors
    /// Failed for a logit that is NaN or +∞, and for a row of −∞.
    pub(super) fn of(logits: &'a [f32]) -> Result<Distribution<'a>> {
        let mut most = f32::NEG_INFINITY;
        let mut likeliest = 0;
        for (token, logit) in logits.iter().enumerate() {
            if logit.is_nan() || *logit == f32::INFINITY {
                return Err(Error::failed(format!(
                    "the model computed {logit} as the logit of token {token}"
                )));
            }
            if *logit > most {
                most = *logit;
                likeliest = token;
            }
        }
        if most == f32::NEG_INFINITY {
            return Err(Error::failed("the model computed no finite logit"));
        }
        let sum: f64 = logits.iter().map(|logit| f64::from((logit - most).exp())).sum();
        Ok(Distribution { logits, most, likeliest, log_sum: sum.ln() })
    }

    /// −ln of the probability of a token.
    ///
    /// # Errors
    /// Failed if it is never given.
    pub(super) fn loss(&self, token: u32) -> Result<f64> {
        let logit = usize::try_from(token).ok().and_then(|token| self.logits.get(token)).copied();
        let logit = logit.filter(|logit| logit.is_finite());
        let logit = logit.ok_or_else(|| {
            Error::failed(format!("the model gives token {token} of the text a probability of zero"))
        })?;
        Ok(self.log_sum - f64::from(logit - self.most))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_logarithms_of_probabilities() {
        let logits = [1.0f32, 1.0 + 2.0f32.ln(), 1.0];
        let found = Distribution::of(&logits).unwrap();
        assert_eq!(found.likeliest, 1);
        assert!((found.loss(1).unwrap() - 2.0f64.ln()).abs() < 1e-6);
        assert!((found.loss(0).unwrap() - 4.0f64.ln()).abs() < 1e-6);
    }

    #[test]
    fn what_is_not_finite_is_told() {
        for (logits, says) in [
            ([0.0, f32::NAN], "NaN as the logit of token 1"),
            ([f32::INFINITY, 0.0], "inf as the logit of token 0"),
            ([f32::NEG_INFINITY; 2], "no finite logit"),
        ] {
            let error = Distribution::of(&logits).err().unwrap();
            assert!(error.message().contains(says), "{error}");
        }
        let never = Distribution::of(&[0.0, f32::NEG_INFINITY]).unwrap().loss(1).unwrap_err();
        assert!(never.message().contains("token 1 of the text a probability of zero"));
    }
}
