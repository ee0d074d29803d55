//! One layer: attention and a feed-forward network, with their norms, each added to the hidden state.

use super::builder::{Builder, part_of, product, sum};
use super::norm::norm;
use super::{experts, feed_forward};
use apr_engine::architecture::{Decoder, Layer, NormPlace, QkNorm, Roles, Rotation};
use apr_sdk::{
    Append, Attention, Binary, BinaryKind, Error, Linear, Norm, PagedState, Result, Rope, Slice, Unary,
    UnaryKind,
};

/// Appends a layer over the hidden state `x`; returns the hidden state behind it.
pub(super) fn block(builder: &mut Builder<'_>, decoder: &Decoder, layer: &Layer, x: Slice) -> Result<Slice> {
    let first = before(builder, decoder, layer, "attention", x)?;
    // In parallel, both look at the hidden state before either is added.
    let second = match layer.parallel {
        false => None,
        true if builder.has(&layer.roles, "feed_forward.norm") => {
            Some(before(builder, decoder, layer, "feed_forward", x)?)
        }
        true => Some(first),
    };
    let heads = attention(builder, decoder, layer, first)?;
    let x = add(builder, decoder, layer, "attention", x, &mut |builder, residual, out| {
        let part = builder.part(&layer.roles, "attention.output", heads.width, out)?;
        builder.push(Linear { x: heads, parts: vec![part], residual, scale: layer.branch_scale });
        Ok(())
    })?;
    let second = match second {
        Some(second) => second,
        None => before(builder, decoder, layer, "feed_forward", x)?,
    };
    add(builder, decoder, layer, "feed_forward", x, &mut |builder, residual, out| match &layer.experts {
        Some(these) => experts::experts(builder, layer, these, second, residual, out),
        None => {
            let width = layer.feed_forward.width;
            let inner = feed_forward::inner(builder, layer, "feed_forward", width, second)?;
            feed_forward::down(builder, layer, "feed_forward", inner, residual, out)
        }
    })
}

/// The norm before a branch, if there is one.
fn before(
    builder: &mut Builder<'_>,
    decoder: &Decoder,
    layer: &Layer,
    branch: &str,
    x: Slice,
) -> Result<Slice> {
    if matches!(decoder.norm.place, NormPlace::AfterBranch | NormPlace::AfterSum) {
        return Ok(x);
    }
    let out = builder.value(&format!("{branch}.norm"), x.width)?;
    norm(builder, decoder, &layer.roles, &format!("{branch}.norm"), x, out)
}

/// Appends what a branch ends with: its result, plus the residual if there is one, goes to the last slice.
type Make<'m> = &'m mut dyn FnMut(&mut Builder<'_>, Option<Slice>, Slice) -> Result<()>;

/// Appends a branch, which `make` writes and adds to the hidden state, with the norm behind it.
fn add(
    builder: &mut Builder<'_>,
    decoder: &Decoder,
    layer: &Layer,
    branch: &str,
    x: Slice,
    make: Make<'_>,
) -> Result<Slice> {
    let post = format!("{branch}.post_norm");
    if matches!(decoder.norm.place, NormPlace::Before | NormPlace::AfterSum) {
        let sum = builder.over(x, &format!("{branch}.sum"))?;
        make(builder, Some(x), sum)?;
        if decoder.norm.place == NormPlace::Before {
            return Ok(sum);
        }
        let out = builder.over(sum, &post)?;
        return norm(builder, decoder, &layer.roles, &post, sum, out);
    }
    let made = builder.value("branch", x.width)?;
    make(builder, None, made)?;
    let normed = builder.over(made, &post)?;
    norm(builder, decoder, &layer.roles, &post, made, normed)?;
    let out = builder.over(x, &format!("{branch}.sum"))?;
    builder.push(Binary { kind: BinaryKind::ADD, a: x, b: normed, out });
    Ok(out)
}

/// Queries, keys and values of `x`, and what attention makes of them, before the output matrix.
fn attention(builder: &mut Builder<'_>, decoder: &Decoder, layer: &Layer, x: Slice) -> Result<Slice> {
    let (roles, attention) = (&layer.roles, &layer.attention);
    if attention.within > 0 && builder.request.context > attention.within {
        let within = attention.within;
        let message =
            format!("apr does not compute what this model does to tokens beyond the first {within}");
        return Err(Error::unsupported(message).hint(format!("pass --context {within}, or less")));
    }
    let queries = product(attention.heads, attention.key)?;
    let (keys, values) =
        (product(attention.key_heads, attention.key)?, product(attention.key_heads, attention.value)?);
    let mut all = builder.value("attention.qkv", sum(&[queries, keys, values])?)?;
    let places = |all: Slice| {
        (part_of(all, 0, queries), part_of(all, queries, keys), part_of(all, queries + keys, values))
    };
    let parts = if builder.has(roles, "attention.query_key_value") {
        vec![builder.part(roles, "attention.query_key_value", x.width, all)?]
    } else {
        let (query, key, value) = places(all);
        vec![
            builder.part(roles, "attention.query", x.width, query)?,
            builder.part(roles, "attention.key", x.width, key)?,
            builder.part(roles, "attention.value", x.width, value)?,
        ]
    };
    builder.push(Linear { x, parts, residual: None, scale: 1.0 });
    if attention.clamp > 0.0 {
        let out = builder.over(all, "attention.clamped")?;
        let (a, b) = (-attention.clamp, attention.clamp);
        builder.push(Unary { kind: UnaryKind::CLAMP, x: all, out, a, b });
        all = out;
    }
    let (mut query, mut key, value) = places(all);
    for (slice, what, heads) in
        [(&mut query, "query", attention.heads), (&mut key, "key", attention.key_heads)]
    {
        let role = format!("attention.{what}");
        if !attention.norm_after_rotation {
            *slice = qk_norm(builder, decoder, layer, &role, heads, *slice)?;
        }
        if let Some(rope) = &attention.rope {
            *slice = rotate(builder, decoder, rope, &format!("{role}.rotated"), heads, *slice)?;
        }
        if attention.norm_after_rotation {
            *slice = qk_norm(builder, decoder, layer, &role, heads, *slice)?;
        }
    }
    let state = builder.state(PagedState {
        heads: attention.key_heads,
        key: attention.key,
        value: attention.value,
        dtype: builder.cache(),
        window: attention.window,
    })?;
    builder.push(Append { state, key, value: Some(value) });
    let sinks = builder.maybe(roles, "attention.sinks", &[attention.heads])?;
    let out = builder.value("attention.heads", product(attention.heads, attention.value)?)?;
    builder.push(Attention {
        state,
        query,
        out,
        heads: attention.heads,
        scale: attention.scale,
        mask: attention.mask,
        window: attention.window,
        soft_cap: attention.soft_cap,
        sinks,
        slopes: attention.slopes.clone(),
        value_first: 0,
    });
    gated(builder, layer, x, out)
}

/// The heads, each element times the sigmoid of what the layer's gate makes of `x`, if it has one.
fn gated(builder: &mut Builder<'_>, layer: &Layer, x: Slice, heads: Slice) -> Result<Slice> {
    if !builder.has(&layer.roles, "attention.gate") {
        return Ok(heads);
    }
    let made = builder.value("attention.gate", heads.width)?;
    let part = builder.part(&layer.roles, "attention.gate", x.width, made)?;
    builder.push(Linear { x, parts: vec![part], residual: None, scale: 1.0 });
    let gate = builder.over(made, "attention.gate.sigmoid")?;
    builder.push(Unary { kind: UnaryKind::SIGMOID, x: made, out: gate, a: 0.0, b: 0.0 });
    let out = builder.over(heads, "attention.gated")?;
    builder.push(Binary { kind: BinaryKind::MULTIPLY, a: heads, b: gate, out });
    Ok(out)
}

/// The norm of queries or keys, if the model has one.
fn qk_norm(
    builder: &mut Builder<'_>,
    decoder: &Decoder,
    layer: &Layer,
    role: &str,
    heads: u32,
    x: Slice,
) -> Result<Slice> {
    let (roles, role) = (&layer.roles, format!("{role}.norm"));
    let spans = layer.attention.qk_norm;
    if spans == QkNorm::None || !builder.has(roles, &role) {
        return Ok(x);
    }
    let vector = |builder: &mut Builder<'_>, roles: &Roles, role: &str| -> Result<Option<u32>> {
        let Some(name) = roles.name(role) else { return Ok(None) };
        let Some(found) = (builder.request.tensors)(name) else { return Ok(None) };
        // A gain of its own for each head lies in rows, and is one vector to a program.
        if spans == QkNorm::Head && found.shape.len() == 2 {
            builder.maybe(roles, role, &[heads, x.width / heads])?;
            return builder.vector(name, x.width).map(Some);
        }
        builder.maybe(roles, role, &[if spans == QkNorm::Head { x.width / heads } else { x.width }])
    };
    let gain = vector(builder, roles, &role)?;
    let bias = vector(builder, roles, &format!("{role}.bias"))?;
    let out = builder.over(x, &role)?;
    builder.push(Norm {
        x,
        out,
        kind: decoder.norm.kind,
        gain,
        bias,
        epsilon: decoder.norm.epsilon,
        heads: if spans == QkNorm::Head { heads } else { 1 },
    });
    Ok(out)
}

/// Rotates queries or keys.
fn rotate(
    builder: &mut Builder<'_>,
    decoder: &Decoder,
    rope: &Rotation,
    purpose: &str,
    heads: u32,
    x: Slice,
) -> Result<Slice> {
    let frequencies = frequencies(builder, decoder, rope)?;
    let out = builder.over(x, purpose)?;
    #[allow(clippy::cast_possible_truncation, reason = "programs hold F32")]
    let magnitude = rope.magnitude as f32;
    builder.push(Rope { x, out, heads, first: 0, style: rope.style, frequencies, magnitude });
    Ok(out)
}

/// The frequencies of a rotation, divided by the model's factors: the long ones, where there is room for more positions than
/// there were before the context was extended.
fn frequencies(builder: &mut Builder<'_>, decoder: &Decoder, rope: &Rotation) -> Result<Vec<f32>> {
    let role = match rope.original {
        Some(original) if builder.request.context > original => "rope.factors.long",
        Some(_) => "rope.factors.short",
        None => "rope.factors",
    };
    let name = decoder.roles.name(role).filter(|_| rope.takes_factors);
    let found = name.and_then(|name| Some((name, (builder.request.tensors)(name)?.shape)));
    let mut factors = Vec::new();
    if let Some((name, shape)) = found {
        let wrong = || {
            let message = format!("it has to hold {} positive factors", rope.frequencies.len());
            Error::malformed(message).tensor(name)
        };
        let count = u64::try_from(rope.frequencies.len()).unwrap_or(u64::MAX);
        if shape != [count] {
            return Err(wrong());
        }
        factors = builder.reads(name)?;
        if factors.len() != rope.frequencies.len() || factors.iter().any(|x| x.is_nan() || *x <= 0.0) {
            return Err(wrong());
        }
    }
    let factor = |at: usize| factors.get(at).map_or(1.0, |x| f64::from(*x));
    #[allow(clippy::cast_possible_truncation, reason = "programs hold F32")]
    let divided = rope.frequencies.iter().enumerate().map(|(at, frequency)| (frequency / factor(at)) as f32);
    Ok(divided.collect())
}
