//! Experts: each token uses a few of many feed-forward networks, and perhaps one that all tokens share.

use super::builder::{Builder, part_of, product};
use super::feed_forward;
use apr_engine::architecture::{Experts, Layer};
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
    let (roles, used) = (&layer.roles, experts.used);
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
    let linear = |x: Slice, shared_input: bool, parts: Vec<WeightPart>| ExpertLinear {
        x,
        route,
        experts: experts.count,
        used,
        shared_input,
        parts,
    };
    let part =
        |builder: &mut Builder<'_>, role: &str, rows: u32, columns: u32, out: Slice| -> Result<WeightPart> {
            let weight = builder.needs(roles, role, &[experts.count, rows, columns])?;
            let bias = builder.bias(roles, role, &[experts.count, rows])?;
            Ok(WeightPart { weight, first_row: 0, bias, out })
        };
    let width = product(used, experts.width)?;
    let inner = if layer.feed_forward.gated {
        let both = builder.value("experts.gate_up", product(2, width)?)?;
        let (gate, up) = (part_of(both, 0, width), part_of(both, width, width));
        let parts = vec![
            part(builder, "experts.gate", experts.width, x.width, gate)?,
            part(builder, "experts.up", experts.width, x.width, up)?,
        ];
        builder.push(linear(x, true, parts));
        let made = builder.over(gate, "experts.activated")?;
        builder.push(feed_forward::activate(layer, gate, Some(up), made));
        made
    } else {
        let up = builder.value("experts.up", width)?;
        let parts = vec![part(builder, "experts.up", experts.width, x.width, up)?];
        builder.push(linear(x, true, parts));
        let made = builder.over(up, "experts.activated")?;
        builder.push(feed_forward::activate(layer, up, None, made));
        made
    };
    let each = builder.value("experts.each", product(used, x.width)?)?;
    let parts = vec![part(builder, "experts.down", x.width, experts.width, each)?];
    builder.push(linear(inner, false, parts));
    let Some(shared) = experts.shared else {
        builder.push(Combine { x: each, route, used, out, residual });
        return Ok(());
    };
    let mut made = builder.value("shared_expert", x.width)?;
    let inner = feed_forward::inner(builder, layer, "shared_expert", shared.width, x)?;
    feed_forward::down(builder, layer, "shared_expert", inner, None, made)?;
    if shared.gated {
        let score = builder.value("shared_expert.score", 1)?;
        let part = builder.part(roles, "shared_expert.router", x.width, score)?;
        builder.push(Linear { x, parts: vec![part], residual: None, scale: 1.0 });
        let gate = builder.over(score, "shared_expert.gate")?;
        builder.push(Unary { kind: UnaryKind::SIGMOID, x: score, out: gate, a: 0.0, b: 0.0 });
        let gated = builder.over(made, "shared_expert.gated")?;
        builder.push(Binary { kind: BinaryKind::MULTIPLY, a: made, b: gate, out: gated });
        made = gated;
    }
    let sum = builder.over(out, "experts.sum")?;
    builder.push(Combine { x: each, route, used, out: sum, residual });
    builder.push(Binary { kind: BinaryKind::ADD, a: sum, b: made, out });
    Ok(())
}
