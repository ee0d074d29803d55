//! Norms of the whole hidden state.

use super::builder::Builder;
use apr_engine::architecture::{Decoder, Roles};
use apr_sdk::{Norm, Result, Slice};

/// A norm of the whole hidden state.
pub(super) fn norm(
    builder: &mut Builder<'_>,
    decoder: &Decoder,
    roles: &Roles,
    role: &str,
    x: Slice,
    out: Slice,
) -> Result<Slice> {
    let gain = decoder.norm.has_gain.then(|| builder.needs(roles, role, &[x.width])).transpose()?;
    let bias = builder.bias(roles, role, &[x.width])?;
    let epsilon = decoder.norm.epsilon;
    builder.push(Norm { x, out, kind: decoder.norm.kind, gain, bias, epsilon, heads: 1 });
    Ok(out)
}
