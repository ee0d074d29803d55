//! Feed-forward networks, gated or not.

use super::builder::{Builder, part_of, product};
use apr_engine::architecture::Layer;
use apr_sdk::{Activate, Linear, Result, Slice};

/// The part before the last matrix of the network whose roles begin with `named`.
pub(super) fn inner(
    builder: &mut Builder<'_>,
    layer: &Layer,
    named: &str,
    width: u32,
    x: Slice,
) -> Result<Slice> {
    let (roles, form) = (&layer.roles, layer.feed_forward);
    let role = |what: &str| format!("{named}.{what}");
    if !form.gated {
        let made = builder.value(&role("up"), width)?;
        let part = builder.part(roles, &role("up"), x.width, made)?;
        builder.push(Linear { x, parts: vec![part], residual: None, scale: 1.0 });
        let out = builder.over(made, &role("activated"))?;
        builder.push(activate(layer, made, None, out));
        return Ok(out);
    }
    let both = builder.value(&role("gate_up"), product(2, width)?)?;
    let (gate, up) = (part_of(both, 0, width), part_of(both, width, width));
    let parts = if builder.has(roles, &role("gate_up")) {
        // The rows of the gate come first.
        vec![builder.part(roles, &role("gate_up"), x.width, both)?]
    } else {
        let gate = builder.part(roles, &role("gate"), x.width, gate)?;
        vec![gate, builder.part(roles, &role("up"), x.width, up)?]
    };
    builder.push(Linear { x, parts, residual: None, scale: 1.0 });
    let out = builder.over(gate, &role("activated"))?;
    builder.push(activate(layer, gate, Some(up), out));
    Ok(out)
}

/// The last matrix of the network, whose product the layer may scale.
pub(super) fn down(
    builder: &mut Builder<'_>,
    layer: &Layer,
    named: &str,
    x: Slice,
    residual: Option<Slice>,
    out: Slice,
) -> Result<()> {
    let part = builder.part(&layer.roles, &format!("{named}.down"), x.width, out)?;
    builder.push(Linear { x, parts: vec![part], residual, scale: layer.branch_scale });
    Ok(())
}

/// The layer's activation function.
pub(super) fn activate(layer: &Layer, gate: Slice, up: Option<Slice>, out: Slice) -> Activate {
    let form = layer.feed_forward;
    Activate { kind: form.activation, gate, up, out, alpha: form.alpha, limit: form.limit }
}
