//! What a model computes by its own configuration and by what is left of it in another dialect.

use super::Decoder;
use super::resolve::resolve;
use crate::architecture::config::omissions::{Written, told};
use crate::architecture::config::refusal::not_covered;
use crate::architecture::config::{Config, ConfigScope, Dimensions};
use crate::architecture::table::Table;
use apr_sdk::{Result, escape};

/// Fails if whoever reads the output would compute something else, although the table says of no name that it changes what is
/// computed. `tensors` are names and shapes in the output's dialect.
///
/// # Errors
/// Unsupported, naming what is not carried; any error from reading and evaluating.
pub(in crate::architecture) fn refuse_differing(
    table: &Table,
    config: &Config,
    written: &Written<'_>,
    dimensions: Dimensions<'_>,
    tensors: &[(String, Vec<u64>)],
) -> Result<()> {
    let section = table.decoder.as_ref().filter(|section| section.refused.is_none());
    let Some(section) = section.filter(|section| section.rows == written.dialect.id) else { return Ok(()) };
    let mut told = told(table, config, written, dimensions)?;
    let mut untold = config.beyond(&ConfigScope::new(table, &told, dimensions))?;
    // What the table says of a name is heeded elsewhere.
    untold.retain(|name| {
        let entry = table.config.iter().find(|entry| entry.name == *name);
        let is_heeded = entry.is_some_and(|entry| entry.effect.is_some() || entry.covers.is_some());
        if let Some(value) = config.get(name).filter(|_| is_heeded) {
            told.set(name, value.clone());
        }
        !is_heeded
    });
    if untold.is_empty() {
        return Ok(());
    }
    let computed = |config: &Config| {
        let mut decoder = resolve(table, section, config, tensors).ok()?;
        // How long texts were in training changes nothing by itself.
        decoder.context = None;
        Some(decoder)
    };
    // What cannot be computed here cannot be compared.
    let Some(own) = computed(config) else { return Ok(()) };
    if computed(&told).is_some_and(|other| rounded_to(other, &own) == own) {
        return Ok(());
    }
    let decides = section.names();
    let (deciding, others): (Vec<String>, Vec<String>) =
        untold.into_iter().partition(|name| decides.contains(name));
    let named = if deciding.is_empty() { others } else { deciding };
    let whose = &written.dialect.id;
    let said = |name: String| {
        let value = config.get(&name).map(|value| format!(" {value}")).unwrap_or_default();
        format!("`{}`{value} (the dialect `{whose}` cannot represent it)", escape(&name, 80))
    };
    not_covered(table, named.into_iter().map(said).collect())
}

/// How far numbers may be apart, relatively, that come of one through a file's F32.
const NEAR: f64 = 1e-5;

/// A decoder with the numbers of another where they are as good as the same.
fn rounded_to(mut decoder: Decoder, other: &Decoder) -> Decoder {
    round(&mut decoder.norm.epsilon, other.norm.epsilon);
    round(&mut decoder.input.scale, other.input.scale);
    round(&mut decoder.output.scale, other.output.scale);
    round(&mut decoder.output.soft_cap, other.output.soft_cap);
    for (layer, other) in decoder.layers.iter_mut().zip(&other.layers) {
        round(&mut layer.branch_scale, other.branch_scale);
        round(&mut layer.feed_forward.alpha, other.feed_forward.alpha);
        round(&mut layer.feed_forward.limit, other.feed_forward.limit);
        let (attention, of_other) = (&mut layer.attention, &other.attention);
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
    let (own, wanted): (f64, f64) = ((*number).into(), other.into());
    if (own - wanted).abs() <= NEAR * wanted.abs() {
        *number = other;
    }
}
