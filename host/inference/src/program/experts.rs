//! Experts: each token uses a few of many feed-forward networks, and perhaps one that all tokens share.

use super::builder::{Builder, part_of, product};
use super::feed_forward;
use apr_engine::architecture::{Experts, Layer, Shared};
use apr_sdk::{
    Binary, BinaryKind, Combine, ExpertLinear, Linear, Result, Route, Slice, Unary, UnaryKind, WeightPart,
};

/// Appends a layer's experts over `x`; their sum and `residual` go to `out`.
pub(super) fn experts(
    builder: &mut Builder<'_>,
    layer: &Layer,
    experts: &Experts,
    x: Slice,
    residual: Option<Slice>,
    out: Slice,
) -> Result<()> {
    let roles = &layer.roles;
    let used = experts.used;
    let scores = builder.value("router.scores", experts.count)?;
    let part = builder.part(roles, "router", x.width, scores)?;
    builder.push(Linear { x, parts: vec![part], residual: None, scale: 1.0 });
    let route = builder.value("router.route", product(2, used)?)?;
    let correction = builder.maybe(roles, "router.correction", &[experts.count])?;
    builder.push(Route {
        scores,
        out: route,
        score: experts.score,
        normalize: experts.normalize,
        // What the weights multiply is summed up, and so is what multiplies the sum.
        scale: experts.scale * layer.branch_scale,
        bias: correction,
        groups: experts.groups,
        groups_used: experts.groups_used,
    });
    let width = product(used, experts.width)?;
    let (gate, up, parts) = if layer.feed_forward.gated {
        let both = builder.value("experts.gate_up", product(2, width)?)?;
        let gate = part_of(both, 0, width);
        let up = part_of(both, width, width);
        builder.name(gate, "experts.gate");
        builder.name(up, "experts.up");
        let parts = vec![
            expert_part(builder, layer, "experts.gate", [experts.count, experts.width, x.width], gate)?,
            expert_part(builder, layer, "experts.up", [experts.count, experts.width, x.width], up)?,
        ];
        (gate, Some(up), parts)
    } else {
        let up = builder.value("experts.up", width)?;
        let shape = [experts.count, experts.width, x.width];
        (up, None, vec![expert_part(builder, layer, "experts.up", shape, up)?])
    };
    builder.push(ExpertLinear { x, route, experts: experts.count, used, shared_input: true, parts });
    let inner = builder.over(gate, "experts.activated")?;
    builder.push(feed_forward::activate(layer, gate, up, inner));
    let each = builder.value("experts.each", product(used, x.width)?)?;
    let shape = [experts.count, x.width, experts.width];
    let parts = vec![expert_part(builder, layer, "experts.down", shape, each)?];
    builder.push(ExpertLinear { x: inner, route, experts: experts.count, used, shared_input: false, parts });
    let Some(shared) = experts.shared else {
        builder.push(Combine { x: each, route, used, out, residual });
        return Ok(());
    };
    let beside = shared_expert(builder, layer, shared, x)?;
    let sum = builder.over(out, "experts.sum")?;
    builder.push(Combine { x: each, route, used, out: sum, residual });
    builder.push(Binary { kind: BinaryKind::ADD, a: sum, b: beside, out });
    Ok(())
}

/// A matrix of each expert, all in one tensor of the shape (experts, rows, columns).
fn expert_part(
    builder: &mut Builder<'_>,
    layer: &Layer,
    role: &str,
    shape: [u32; 3],
    out: Slice,
) -> Result<WeightPart> {
    let weight = builder.needs(&layer.roles, role, &shape)?;
    let bias = builder.bias(&layer.roles, role, &shape[..2])?;
    Ok(WeightPart { weight, first_row: 0, bias, out })
}

/// Appends the expert that every token goes through, and gives its result.
fn shared_expert(builder: &mut Builder<'_>, layer: &Layer, shared: Shared, x: Slice) -> Result<Slice> {
    let out = builder.value("shared_expert", x.width)?;
    let inner = feed_forward::inner(builder, layer, "shared_expert", shared.width, x)?;
    feed_forward::down(builder, layer, "shared_expert", inner, None, out)?;
    if !shared.gated {
        return Ok(out);
    }
    let score = builder.value("shared_expert.score", 1)?;
    let part = builder.part(&layer.roles, "shared_expert.router", x.width, score)?;
    builder.push(Linear { x, parts: vec![part], residual: None, scale: 1.0 });
    let gate = builder.over(score, "shared_expert.gate")?;
    builder.push(Unary { kind: UnaryKind::SIGMOID, x: score, out: gate, a: 0.0, b: 0.0 });
    let gated = builder.over(out, "shared_expert.gated")?;
    builder.push(Binary { kind: BinaryKind::MULTIPLY, a: out, b: gate, out: gated });
    Ok(gated)
}
