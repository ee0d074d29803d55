//! One layer: attention and a feed-forward network, with their norms, each added to the hidden state.

use super::builder::{Builder, part_of, product, sum};
use super::norm::norm;
use super::{experts, feed_forward};
use apr_engine::architecture::{Decoder, Layer, NormPlace, QkNorm, Rotation};
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
    let own = builder.value("branch", x.width)?;
    builder.name(own, &format!("{branch}.output"));
    make(builder, None, own)?;
    let normed = builder.over(own, &post)?;
    norm(builder, decoder, &layer.roles, &post, own, normed)?;
    let out = builder.over(x, &format!("{branch}.sum"))?;
    builder.push(Binary { kind: BinaryKind::ADD, a: x, b: normed, out });
    Ok(out)
}

/// The parts of a row that are queries, keys and values.
fn query_key_value(all: Slice, queries: u32, keys: u32, values: u32) -> [Slice; 3] {
    [part_of(all, 0, queries), part_of(all, queries, keys), part_of(all, queries + keys, values)]
}

/// Queries, keys and values of `x`, and what attention makes of them, before the output matrix.
fn attention(builder: &mut Builder<'_>, decoder: &Decoder, layer: &Layer, x: Slice) -> Result<Slice> {
    let roles = &layer.roles;
    let attention = &layer.attention;
    if attention.within > 0 && builder.request.context > attention.within {
        let within = attention.within;
        let message =
            format!("this model treats tokens after the first {within} in a way that apr does not support");
        return Err(Error::unsupported(message).hint(format!("pass --context {within} or less")));
    }
    let queries = product(attention.heads, attention.key)?;
    let keys = product(attention.key_heads, attention.key)?;
    let values = product(attention.key_heads, attention.value)?;
    let mut all = builder.value("attention.qkv", sum(&[queries, keys, values])?)?;
    let parts = if builder.has(roles, "attention.query_key_value") {
        vec![builder.part(roles, "attention.query_key_value", x.width, all)?]
    } else {
        let [query, key, value] = query_key_value(all, queries, keys, values);
        builder.name(query, "attention.query");
        builder.name(key, "attention.key");
        builder.name(value, "attention.value");
        vec![
            builder.part(roles, "attention.query", x.width, query)?,
            builder.part(roles, "attention.key", x.width, key)?,
            builder.part(roles, "attention.value", x.width, value)?,
        ]
    };
    builder.push(Linear { x, parts, residual: None, scale: 1.0 });
    if attention.clamp > 0.0 {
        let out = builder.over(all, "attention.clamped")?;
        let bound = attention.clamp;
        builder.push(Unary { kind: UnaryKind::CLAMP, x: all, out, a: -bound, b: bound });
        all = out;
    }
    let [mut query, mut key, value] = query_key_value(all, queries, keys, values);
    for (slice, role, heads) in
        [(&mut query, "attention.query", attention.heads), (&mut key, "attention.key", attention.key_heads)]
    {
        if !attention.norm_after_rotation {
            *slice = qk_norm(builder, decoder, layer, role, heads, *slice)?;
        }
        if let Some(rope) = &attention.rope {
            *slice = rotate(builder, decoder, rope, &format!("{role}.rotated"), heads, *slice)?;
        }
        if attention.norm_after_rotation {
            *slice = qk_norm(builder, decoder, layer, role, heads, *slice)?;
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
    let raw_gate = builder.value("attention.gate", heads.width)?;
    let part = builder.part(&layer.roles, "attention.gate", x.width, raw_gate)?;
    builder.push(Linear { x, parts: vec![part], residual: None, scale: 1.0 });
    let gate = builder.over(raw_gate, "attention.gate.sigmoid")?;
    builder.push(Unary { kind: UnaryKind::SIGMOID, x: raw_gate, out: gate, a: 0.0, b: 0.0 });
    let out = builder.over(heads, "attention.gated")?;
    builder.push(Binary { kind: BinaryKind::MULTIPLY, a: heads, b: gate, out });
    Ok(out)
}

/// The gain or bias of the norm of queries or keys, which are rows of `width` elements.
fn qk_vector(
    builder: &mut Builder<'_>,
    layer: &Layer,
    role: &str,
    heads: u32,
    width: u32,
) -> Result<Option<u32>> {
    let roles = &layer.roles;
    let Some(name) = roles.name(role) else { return Ok(None) };
    let Some(tensor) = (builder.request.tensors)(name) else { return Ok(None) };
    if layer.attention.qk_norm != QkNorm::Head {
        return builder.maybe(roles, role, &[width]);
    }
    // A gain of its own for each head lies in rows, and is one vector to a program.
    if tensor.shape.len() == 2 {
        builder.maybe(roles, role, &[heads, width / heads])?;
        return builder.vector(name, width).map(Some);
    }
    builder.maybe(roles, role, &[width / heads])
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
    let role = format!("{role}.norm");
    let spans = layer.attention.qk_norm;
    if spans == QkNorm::None || !builder.has(&layer.roles, &role) {
        return Ok(x);
    }
    let gain = qk_vector(builder, layer, &role, heads, x.width)?;
    let bias = qk_vector(builder, layer, &format!("{role}.bias"), heads, x.width)?;
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
    let tensor = name.and_then(|name| Some((name, (builder.request.tensors)(name)?)));
    let factors = match tensor {
        Some((name, tensor)) => factors(builder, name, &tensor.shape, rope.frequencies.len())?,
        None => vec![1.0; rope.frequencies.len()],
    };
    let pairs = rope.frequencies.iter().zip(factors);
    #[allow(clippy::cast_possible_truncation, reason = "programs hold F32")]
    let divided = pairs.map(|(frequency, factor)| (frequency / f64::from(factor)) as f32);
    Ok(divided.collect())
}

/// The factors that a tensor holds, one for each frequency.
fn factors(builder: &mut Builder<'_>, name: &str, shape: &[u64], count: usize) -> Result<Vec<f32>> {
    if shape == [u64::try_from(count).unwrap_or(u64::MAX)] {
        let factors = builder.reads(name)?;
        if factors.len() == count && factors.iter().all(|factor| *factor > 0.0) {
            return Ok(factors);
        }
    }
    let message = format!("expected {count} positive factors");
    Err(Error::malformed(message).tensor(name))
}
