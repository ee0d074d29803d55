//! What a model computes by its own configuration and by what is left of it in another dialect.

use super::Decoder;
use super::resolve::resolve;
use crate::architecture::config::ConfigScope;
use crate::architecture::config::omissions::{Written, told};
use crate::architecture::config::refusal::not_covered;
use apr_sdk::{Result, escape};

/// Fails if whoever reads the output would compute something else, although the table says of no name that it changes what is
/// computed. `tensors` are names and shapes in the output's dialect.
///
/// # Errors
/// Unsupported, naming what is not carried; any error from reading and evaluating.
pub(in crate::architecture) fn refuse_differing(
    scope: &ConfigScope<'_>,
    written: &Written<'_>,
    tensors: &[(String, Vec<u64>)],
) -> Result<()> {
    let table = scope.table;
    let config = scope.config;
    let section = table.decoder.as_ref().filter(|section| section.refused.is_none());
    let Some(section) = section.filter(|section| section.rows == written.dialect.id) else { return Ok(()) };
    let mut read_back = told(scope, written)?;
    let mut untold = config.beyond(&scope.over(&read_back))?;
    // What the table says of a name is heeded elsewhere.
    untold.retain(|name| {
        let entry = table.entry(name);
        let is_heeded = entry.is_some_and(|entry| entry.effect.is_some() || entry.covers.is_some());
        if let Some(value) = config.get(name).filter(|_| is_heeded) {
            read_back.set(name, value.clone());
        }
        !is_heeded
    });
    if untold.is_empty() {
        return Ok(());
    }
    // What cannot be computed here cannot be compared.
    let Ok(own) = resolve(table, section, config, tensors) else { return Ok(()) };
    if resolve(table, section, &read_back, tensors).is_ok_and(|other| rounded_to(other, &own) == own) {
        return Ok(());
    }
    let decides = section.names();
    let (deciding, others): (Vec<String>, Vec<String>) =
        untold.into_iter().partition(|name| decides.contains(name));
    let named = if deciding.is_empty() { others } else { deciding };
    let whose = &written.dialect.id;
    let mut changes = Vec::new();
    for name in named {
        let value = config.get(&name).map(|value| format!(" {value}")).unwrap_or_default();
        changes.push(format!("`{}`{value} (the dialect `{whose}` cannot represent it)", escape(&name, 80)));
    }
    not_covered(table, changes)
}

/// How far numbers may be apart, relatively, that come of one through a file's F32.
const NEAR: f64 = 1e-5;

/// A decoder with the numbers of another where they are as good as the same.
fn rounded_to(mut decoder: Decoder, other: &Decoder) -> Decoder {
    // How long texts were in training changes nothing by itself.
    decoder.context = other.context;
    round(&mut decoder.norm.epsilon, other.norm.epsilon);
    round(&mut decoder.input.scale, other.input.scale);
    round(&mut decoder.output.scale, other.output.scale);
    round(&mut decoder.output.soft_cap, other.output.soft_cap);
    for (layer, other) in decoder.layers.iter_mut().zip(&other.layers) {
        round(&mut layer.branch_scale, other.branch_scale);
        round(&mut layer.feed_forward.alpha, other.feed_forward.alpha);
        round(&mut layer.feed_forward.limit, other.feed_forward.limit);
        let attention = &mut layer.attention;
        let of_other = &other.attention;
        round(&mut attention.scale, of_other.scale);
        round(&mut attention.soft_cap, of_other.soft_cap);
        round(&mut attention.clamp, of_other.clamp);
        for (slope, other) in attention.slopes.iter_mut().zip(&of_other.slopes) {
            round(slope, *other);
        }
        if let (Some(rope), Some(other)) = (&mut attention.rope, &of_other.rope) {
            round(&mut rope.magnitude, other.magnitude);
            for (frequency, other) in rope.frequencies.iter_mut().zip(&other.frequencies) {
                round(frequency, *other);
            }
        }
        if let (Some(experts), Some(other)) = (&mut layer.experts, &other.experts) {
            round(&mut experts.scale, other.scale);
        }
    }
    decoder
}

/// Takes the other number if both are as good as the same.
fn round<F: Copy + Into<f64>>(number: &mut F, other: F) {
    let own: f64 = (*number).into();
    let wanted: f64 = other.into();
    if (own - wanted).abs() <= NEAR * wanted.abs() {
        *number = other;
    }
}
