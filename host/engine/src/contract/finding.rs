//! A problem found in a tensor.

use super::rules::Broken;
use crate::architecture::TensorSpec;
use apr_sdk::Error;
use serde::{Deserialize, Serialize};

/// The severity of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// All is well.
    Ok,
    /// Worth a look.
    Warning,
    /// Would be an error, but the user allowed it.
    PassedOver,
    /// Stops the work, or makes the check fail.
    Error,
}

/// A problem found in a tensor.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The tensor's name.
    pub tensor: String,
    /// The tensor's role in the architecture, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
    /// The stable code of the broken rule.
    pub code: &'static str,
    /// The severity.
    #[serde(rename = "standing")]
    pub severity: Severity,
    /// The measured value and the expected one.
    pub message: String,
}

impl Finding {
    pub(super) fn new(tensor: &str, spec: &TensorSpec, broken: Broken, severity: Severity) -> Finding {
        let Broken { code, what: message } = broken;
        Finding { tensor: tensor.to_owned(), role: spec.role.clone(), code, severity, message }
    }

    /// The finding as an error.
    pub fn error(&self) -> Error {
        let error = Error::failed(self.message.clone()).code(self.code).tensor(&self.tensor);
        error.hint("pass --relaxed to record it and continue")
    }
}
