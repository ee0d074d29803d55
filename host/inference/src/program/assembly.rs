//! From tokens through all layers to logits or hidden states.

use super::builder::Builder;
use super::norm::norm;
use super::{Built, Output, Request, block};
use apr_engine::architecture::{Decoder, NormPlace};
use apr_sdk::{
    Binary, BinaryKind, Embed, Error, Linear, Mask, Pool, Pooling, Result, RowIndex, RowsOf, Sample, Slice,
    Unary, UnaryKind, WeightPart,
};

/// Builds the program of a model.
///
/// # Errors
/// Malformed for a tensor that is missing or has another shape than the configuration says, naming it; Unsupported for a tensor
/// of a layer that nothing uses; LimitExceeded for more positions than the model has; any error from reading small tensors.
pub fn build(request: &Request<'_>) -> Result<Built> {
    let decoder = request.decoder;
    let builder = &mut Builder::new(*request);
    let mut x = input(builder, decoder)?;
    for (number, layer) in decoder.layers.iter().enumerate() {
        builder.at(format!("layer.{number}."));
        x = block::block(builder, decoder, layer, x)?;
        builder.finish_layer(&layer.roles)?;
    }
    builder.at(String::new());
    let roles = &decoder.roles;
    if decoder.norm.place != NormPlace::AfterSum || builder.has(roles, "output.norm") {
        let out = builder.over(x, "output.norm")?;
        x = norm(builder, decoder, roles, "output.norm", x, out)?;
    }
    let (kind, normalize) = match request.output {
        Output::Logits => (Pooling::OUTPUTS, false),
        Output::Hidden { pooling, normalize } => (pooling, normalize),
    };
    let rows = builder.value_of("output", decoder.width, RowsOf::OUTPUTS)?;
    builder.push(Pool { kind, x, out: rows, normalize });
    let output = match request.output {
        Output::Hidden { .. } => rows,
        Output::Logits => logits(builder, decoder, rows)?,
    };
    let builder = std::mem::replace(builder, Builder::new(*request));
    Ok(builder.build(output.value))
}

/// Embeddings of tokens, and what is added to them.
fn input(builder: &mut Builder<'_>, decoder: &Decoder) -> Result<Slice> {
    let roles = &decoder.roles;
    let width = decoder.width;
    let table = builder.needs(roles, "embedding", &[decoder.vocabulary, width])?;
    let mut x = builder.value("hidden", width)?;
    builder.push(Embed { table, index: RowIndex::TOKEN, offset: 0, scale: decoder.input.scale, out: x });
    let mut more = Vec::new();
    if decoder.input.positions {
        let role = "embedding.position";
        let name = roles.name(role).unwrap_or_default();
        let rows = (builder.request.tensors)(name).and_then(|tensor| tensor.shape.first().copied());
        let positions = u32::try_from(rows.unwrap_or(0)).unwrap_or(u32::MAX);
        let table = builder.needs(roles, role, &[positions, width])?;
        if builder.request.context > positions {
            return Err(Error::limit(format!(
                "{} positions are required, but the model has only {positions}",
                builder.request.context
            ))
            .hint(format!("pass --context {positions} or less")));
        }
        more.push(("input.positions", table, RowIndex::POSITION));
    }
    if decoder.input.types {
        let role = "embedding.token_type";
        let name = roles.name(role).unwrap_or_default();
        let rows = (builder.request.tensors)(name).and_then(|tensor| match tensor.shape[..] {
            // Some converters leave out that there is one.
            [_] => Some(1),
            _ => tensor.shape.first().copied(),
        });
        let types = u32::try_from(rows.unwrap_or(0)).unwrap_or(u32::MAX);
        more.push(("input.types", builder.needs(roles, role, &[types, width])?, RowIndex::CONSTANT));
    }
    for (purpose, table, index) in more {
        let b = builder.value(purpose, width)?;
        builder.push(Embed { table, index, offset: 0, scale: 1.0, out: b });
        let out = builder.over(x, "input.sum")?;
        builder.push(Binary { kind: BinaryKind::ADD, a: x, b, out });
        x = out;
    }
    if decoder.input.norm {
        let out = builder.over(x, "input.norm")?;
        x = norm(builder, decoder, roles, "embedding.norm", x, out)?;
    }
    Ok(x)
}

/// The logits of the rows that want output.
fn logits(builder: &mut Builder<'_>, decoder: &Decoder, rows: Slice) -> Result<Slice> {
    let roles = &decoder.roles;
    let has_output = builder.has(roles, "output");
    // What reads a whole text at once and has no output of its own makes vectors.
    if !has_output && decoder.layers.iter().any(|layer| layer.attention.mask == Mask::FULL) {
        let message =
            "the model is an encoder: it reads a whole text at once, and has no output for further tokens";
        let hint = "pass --embed to `apr run` for the vector that it makes of a text";
        return Err(Error::unsupported(message).hint(hint));
    }
    // A model without an output of its own takes its embedding.
    let role = if has_output { "output" } else { "embedding" };
    let mut out = builder.value_of("logits", decoder.vocabulary, RowsOf::OUTPUTS)?;
    let part = WeightPart {
        bias: builder.bias(roles, "output", &[decoder.vocabulary])?,
        ..builder.part(roles, role, decoder.width, out)?
    };
    builder.push(Linear { x: rows, parts: vec![part], residual: None, scale: decoder.output.scale });
    if decoder.output.soft_cap > 0.0 {
        let x = out;
        out = builder.over(x, "logits.capped")?;
        builder.push(Unary { kind: UnaryKind::SOFT_CAP, x, out, a: decoder.output.soft_cap, b: 0.0 });
    }
    builder.push(Sample { logits: out });
    Ok(out)
}
