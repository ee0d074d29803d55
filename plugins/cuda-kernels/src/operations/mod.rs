//! The operations, a file for each: the kernels that it becomes.

pub(crate) mod activate;
pub(crate) mod append;
pub(crate) mod attention;
pub(crate) mod binary;
pub(crate) mod combine;
pub(crate) mod embed;
pub(crate) mod expert_linear;
pub(crate) mod head_linear;
pub(crate) mod linear;
pub(crate) mod norm;
pub(crate) mod pool;
pub(crate) mod product;
pub(crate) mod rope;
pub(crate) mod route;
#[allow(unsafe_code, reason = "tokens come from the device")]
pub(crate) mod sample;
pub(crate) mod unary;

use crate::session::compile::Compiler;
use apr_sdk::{Error, Operation, Result};

/// Threads of kernels that take elements one by one.
pub(crate) const THREADS: usize = 256;

/// Adds an operation's nodes.
///
/// # Errors
/// Unsupported for one that is not known here or is larger than this backend's limits; Io if the device has
/// no memory left.
pub(crate) fn compile(operation: &Operation, compiler: &mut Compiler<'_>) -> Result<()> {
    match operation {
        Operation::Embed(operation) => embed::compile(operation, compiler),
        Operation::Norm(operation) => norm::compile(operation, compiler)?,
        Operation::Linear(operation) => linear::compile(operation, compiler)?,
        Operation::HeadLinear(operation) => head_linear::compile(operation, compiler)?,
        Operation::Activate(operation) => activate::compile(operation, compiler),
        Operation::Rope(operation) => rope::compile(operation, compiler)?,
        Operation::Append(operation) => append::compile(operation, compiler),
        Operation::Attention(operation) => attention::compile(operation, compiler)?,
        Operation::Route(operation) => route::compile(operation, compiler)?,
        Operation::ExpertLinear(operation) => expert_linear::compile(operation, compiler)?,
        Operation::Combine(operation) => combine::compile(operation, compiler),
        Operation::Binary(operation) => binary::compile(operation, compiler),
        Operation::Unary(operation) => unary::compile(operation, compiler),
        Operation::Pool(operation) => pool::compile(operation, compiler),
        Operation::Sample(operation) => sample::compile(operation, compiler),
        _ => {
            let name = operation.code().0.name();
            return Err(Error::unsupported(format!("unknown operation `{name}`")));
        }
    }
    Ok(())
}

/// Blocks that a launch has at most in its second and third direction.
const MOST_LAUNCHED: usize = 65_535;

/// Checks that a launch has room for so many blocks in one direction.
///
/// # Errors
/// LimitExceeded if it has not.
fn launchable(count: u32, what: &str) -> Result<()> {
    if crate::session::step::index(count) <= MOST_LAUNCHED {
        return Ok(());
    }
    let message = format!("{count} {what} exceed the limit of {MOST_LAUNCHED} for this device");
    Err(Error::limit(message))
}

/// Checks that kernels hold a head of so many elements.
///
/// # Errors
/// Unsupported if they do not.
fn held(width: usize) -> Result<()> {
    let most = crate::session::compile::MOST_HEAD;
    if width <= most {
        return Ok(());
    }
    Err(Error::unsupported(format!("a head of {width} elements exceeds the limit of {most}")))
}
