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
    let roles = &layer.roles;
    let up_role = format!("{named}.up");
    let both_role = format!("{named}.gate_up");
    let (gate, up, parts) = if !layer.feed_forward.gated {
        let up = builder.value(&up_role, width)?;
        (up, None, vec![builder.part(roles, &up_role, x.width, up)?])
    } else {
        let both = builder.value(&both_role, product(2, width)?)?;
        let gate = part_of(both, 0, width);
        let up = part_of(both, width, width);
        let parts = if builder.has(roles, &both_role) {
            // The rows of the gate come first.
            vec![builder.part(roles, &both_role, x.width, both)?]
        } else {
            builder.name(gate, &format!("{named}.gate"));
            builder.name(up, &up_role);
            vec![
                builder.part(roles, &format!("{named}.gate"), x.width, gate)?,
                builder.part(roles, &up_role, x.width, up)?,
            ]
        };
        (gate, Some(up), parts)
    };
    builder.push(Linear { x, parts, residual: None, scale: 1.0 });
    let out = builder.over(gate, &format!("{named}.activated"))?;
    builder.push(activate(layer, gate, up, out));
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
