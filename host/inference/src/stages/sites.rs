//! The stage and the layer of each operation.

use crate::program::{Built, layer_of};
use apr_sdk::{Operation, RowIndex};

/// An operation's place in the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Site {
    /// The stage that it belongs to, from 1.
    pub(super) stage: usize,
    /// Its layer; `None` before the first and after the last.
    pub(super) layer: Option<usize>,
}

/// The places of all operations, by number.
pub(super) struct Sites(Vec<Site>);

/// The part of the model that operations belong to, as they follow one another.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Input,
    Projections,
    Attention,
    FeedForward,
    Output,
}

impl Sites {
    pub(super) fn of(built: &Built) -> Sites {
        let mut part = Part::Input;
        let mut layer = None;
        let mut sites = Vec::with_capacity(built.program.operations.len());
        for operation in &built.program.operations {
            let name = result_name(built, operation);
            let here = layer_of(name);
            if here.is_some() && here != layer {
                part = Part::Projections;
            } else if here.is_none() && layer.is_some() && !name.is_empty() {
                part = Part::Output;
            }
            // What has no result lies in the layer of what goes before.
            if !name.is_empty() {
                layer = here;
            }
            sites.push(Site { stage: stage_of(operation, part), layer });
            if matches!(operation, Operation::Attention(_)) {
                part = Part::Attention;
            }
            if part == Part::Attention && ends_attention(built, name) {
                part = Part::FeedForward;
            }
        }
        Sites(sites)
    }

    /// The place of an operation.
    pub(super) fn at(&self, number: usize) -> Site {
        self.0.get(number).copied().unwrap_or(Site { stage: 8, layer: None })
    }
}

/// Name of the value that an operation writes; empty if it only stores.
pub(super) fn result_name<'a>(built: &'a Built, operation: &Operation) -> &'a str {
    let Some(first) = operation.writes().first().map(|slice| slice.value) else { return "" };
    built.taps.iter().find(|(_, value)| *value == first).map_or("", |(name, _)| name)
}

/// True for the last result of attention: the sum, or the norm that follows the sum.
fn ends_attention(built: &Built, name: &str) -> bool {
    let Some(layer) = name.strip_suffix("attention.sum") else {
        return name.ends_with("attention.post_norm") && !has(built, name, "attention.sum", true);
    };
    let normed = format!("{layer}attention.post_norm");
    // Behind the sum, where a norm follows that; before it, where it belongs to the branch.
    let place = |wanted: &str| built.taps.iter().position(|(name, _)| name == wanted);
    place(&normed).is_none_or(|normed| Some(normed) < place(name))
}

/// True if the same layer's `other` comes behind `name`.
fn has(built: &Built, name: &str, other: &str, behind: bool) -> bool {
    let layer = name.trim_end_matches("attention.post_norm");
    let wanted = format!("{layer}{other}");
    let place = |wanted: &str| built.taps.iter().position(|(name, _)| name == wanted);
    matches!((place(&wanted), place(name)), (Some(other), Some(own)) if (other > own) == behind)
}

fn stage_of(operation: &Operation, part: Part) -> usize {
    match (operation, part) {
        (Operation::Embed(embed), _) if embed.index == RowIndex::TOKEN => 2,
        (Operation::Embed(_) | Operation::Rope(_), _) => 3,
        (Operation::Norm(_), _) => 7,
        (Operation::Attention(_), _) => 5,
        (_, Part::Input) => 3,
        (_, Part::Projections) => 4,
        (_, Part::Attention) => 5,
        (_, Part::FeedForward) => 6,
        (_, Part::Output) => 9,
    }
}
