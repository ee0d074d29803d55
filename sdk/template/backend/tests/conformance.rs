//! The operations that this backend knows, against the testkit's interpreter in double precision.

use apr_plugin_{{id}}::PLUGIN;
use apr_sdk::{OpCode, OpSpec, Options, Result, Support};
use apr_testkit::kernels::{Subject, operations};

fn subject() -> Result<Subject> {
    let kernel = (PLUGIN.kernel)().expect("the manifest says so");
    let device = kernel.open(0, &Options::new())?;
    Ok(Subject::new(kernel, vec![("plain", device)]))
}

#[test]
fn embed() -> Result<()> {
    operations::embed(&subject()?)
}

#[test]
fn linear_and_head_linear() -> Result<()> {
    operations::linear_and_head_linear(&subject()?)
}

#[test]
fn what_is_not_supported_is_said_with_a_reason() -> Result<()> {
    let op = OpSpec { code: OpCode::ATTENTION, version: 1, fields: &[], weights: &[] };
    assert!(matches!(subject()?.kernel.supports(0, &op)?, Support::No(reason) if !reason.is_empty()));
    Ok(())
}
