//! The result of a run: what arrived, what was refused and why, what was lost, and what failed (red).

use serde::Serialize;
use std::collections::BTreeMap;

/// Names of models that do not apply, by reason.
pub type Reasons = BTreeMap<String, Vec<String>>;

/// The results of all pairs and chains. Keys of `apr.rosetta.run/1`.
#[derive(Clone, Debug, Serialize)]
pub struct Matrix {
    /// The name of every model, before any format's limits.
    pub models: Vec<String>,
    /// Every format as a source.
    pub formats: Vec<FormatRow>,
    /// Every ordered pair.
    pub pairs: Vec<PairRow>,
    /// Chains, one row per length.
    pub chains: Vec<ChainRow>,
    /// Every failure.
    pub red: Vec<Red>,
    /// Number of conversions done.
    pub conversions: usize,
    /// Wall time in seconds.
    pub seconds: f64,
}

/// A format as a source.
#[derive(Clone, Debug, Serialize)]
pub struct FormatRow {
    /// The format's id.
    pub id: String,
    /// Number of models that can start in it.
    pub models: usize,
    /// The reasons why the others cannot.
    pub not_applicable: Reasons,
}

/// An ordered pair of formats.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PairRow {
    /// The id of the source format.
    pub from: String,
    /// The id of the target format.
    pub to: String,
    /// Number of models that arrived with every tensor intact.
    pub arrived: usize,
    /// Number of those that also came back intact.
    pub returned: usize,
    /// Models that the target refused, as expected, by reason.
    pub not_applicable: Reasons,
    /// The reason why nothing comes back, if known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_return: Option<String>,
    /// Unexpected losses besides tensors.
    pub loses: Vec<&'static str>,
    /// Number of models that failed.
    pub red: usize,
    /// True if the same conversion on the command line gave the same bytes; absent if it was not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command_line: Option<bool>,
}

/// The chains of one length.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ChainRow {
    /// Number of conversions in each.
    pub hops: usize,
    /// Number of chains.
    pub chains: usize,
    /// Number of models that went all the way, over all chains.
    pub arrived: usize,
    /// Number of models that some format of the chain cannot hold.
    pub not_applicable: usize,
    /// Number of models that failed.
    pub red: usize,
}

/// A failure.
#[derive(Clone, Debug, Serialize)]
pub struct Red {
    /// Ids of the formats, from the source on.
    pub route: Vec<String>,
    /// The model's name.
    pub model: String,
    /// The fault.
    pub what: String,
    /// Commands that reproduce it.
    pub commands: Vec<String>,
}

impl Matrix {
    /// Returns whether nothing failed and something was tried.
    pub fn is_green(&self) -> bool {
        self.red.is_empty() && self.pairs.iter().any(|pair| pair.arrived > 0)
    }

    /// The matrix for a README: sources down, targets across; each cell has the number of the source's models
    /// that arrive, and letters for what is lost.
    pub fn markdown(&self) -> String {
        let mut targets: Vec<&FormatRow> = self.formats.iter().collect();
        targets.retain(|f| self.pairs.iter().any(|pair| pair.to == f.id));
        let ids: Vec<_> = targets.iter().map(|f| format!("`{}`", f.id)).collect();
        let mut text = format!("| from \\ to | {} |\n", ids.join(" | "));
        text += &format!("|{}\n", " --- |".repeat(targets.len() + 1));
        for from in &self.formats {
            let cells: Vec<_> = targets.iter().map(|to| self.cell(from, &to.id)).collect();
            text += &format!("| `{}` | {} |\n", from.id, cells.join(" | "));
        }
        text
    }

    fn cell(&self, from: &FormatRow, to: &str) -> String {
        let Some(pair) = self.pairs.iter().find(|pair| pair.from == from.id && pair.to == to) else {
            return "–".to_owned();
        };
        if from.models == 0 {
            return "n/a".to_owned();
        }
        let letters: String = pair.loses.iter().filter_map(|what| what.chars().next()).collect();
        let red = if pair.red > 0 { format!(", **{} red**", pair.red) } else { String::new() };
        let space = if letters.is_empty() { "" } else { " " };
        format!("{} of {}{space}{letters}{red}", pair.arrived, from.models)
    }
}
