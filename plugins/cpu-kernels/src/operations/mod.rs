//! The operations, a file for each: the tasks that it becomes.

pub(crate) mod activate;
pub(crate) mod append;
pub(crate) mod attention;
pub(crate) mod binary;
pub(crate) mod combine;
pub(crate) mod embed;
pub(crate) mod expert_linear;
pub(crate) mod functions;
pub(crate) mod head_linear;
pub(crate) mod linear;
pub(crate) mod measure;
pub(crate) mod norm;
pub(crate) mod pool;
pub(crate) mod rope;
pub(crate) mod route;
pub(crate) mod sample;
pub(crate) mod unary;
pub(crate) mod vector;

use crate::session::compile::Compiler;
use apr_sdk::{Error, Operation, Result};

/// Adds an operation's tasks.
///
/// # Errors
/// Unsupported for one that is not known here or is larger than this backend's limits.
pub(crate) fn compile(operation: &Operation, compiler: &mut Compiler<'_>) -> Result<()> {
    match operation {
        Operation::Embed(operation) => embed::compile(operation, compiler),
        Operation::Norm(operation) => norm::compile(operation, compiler),
        Operation::Linear(operation) => linear::compile(operation, compiler),
        Operation::HeadLinear(operation) => head_linear::compile(operation, compiler),
        Operation::Activate(operation) => activate::compile(operation, compiler),
        Operation::Rope(operation) => rope::compile(operation, compiler),
        Operation::Append(operation) => append::compile(operation, compiler),
        Operation::Attention(operation) => attention::compile(operation, compiler),
        Operation::Route(operation) => route::compile(operation, compiler)?,
        Operation::ExpertLinear(operation) => expert_linear::compile(operation, compiler),
        Operation::Combine(operation) => combine::compile(operation, compiler),
        Operation::Binary(operation) => binary::compile(operation, compiler),
        Operation::Unary(operation) => unary::compile(operation, compiler),
        Operation::Pool(operation) => pool::compile(operation, compiler),
        Operation::Measure(operation) => measure::compile(operation, compiler),
        Operation::Sample(operation) => sample::compile(operation, compiler),
        _ => {
            let name = operation.code().0.name();
            return Err(Error::unsupported(format!("unknown operation `{name}`")));
        }
    }
    Ok(())
}
