//! The answer of a run: what arrived, what was refused and why, what was lost, and what is red.

use serde::Serialize;
use std::collections::BTreeMap;

/// Models by the reason why they do not apply.
pub type Reasons = BTreeMap<String, Vec<String>>;

/// How every pair and chain went. Keys of `apr.rosetta.run/1`.
#[derive(Clone, Debug, Serialize)]
pub struct Matrix {
    /// Every model's name, before any format's limits.
    pub models: Vec<String>,
    /// Every format.
    pub formats: Vec<FormatRow>,
    /// Every ordered pair.
    pub pairs: Vec<PairRow>,
    /// Chains, one row a length.
    pub chains: Vec<ChainRow>,
    /// Everything that should not be.
    pub red: Vec<Red>,
    /// Conversions that were done.
    pub conversions: usize,
    /// Wall time.
    pub seconds: f64,
}

/// A format as a source.
#[derive(Clone, Debug, Serialize)]
pub struct FormatRow {
    /// Its id.
    pub id: String,
    /// How many models begin in it.
    pub models: usize,
    /// Why the others do not.
    pub not_applicable: Reasons,
}

/// An ordered pair.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PairRow {
    /// The source's format.
    pub from: String,
    /// The target's format.
    pub to: String,
    /// Models that arrived with every tensor as it was.
    pub arrived: usize,
    /// Those of them that also came back.
    pub returned: usize,
    /// Models that the target refused, as it should, by reason.
    pub not_applicable: Reasons,
    /// Why nothing comes back, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_return: Option<String>,
    /// What did not arrive besides tensors, as it should not.
    pub loses: Vec<&'static str>,
    /// Models that are red.
    pub red: usize,
    /// Whether the same conversion on the command line gave the same bytes; absent if it was not run.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub command_line: Option<bool>,
}

/// The chains of one length.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ChainRow {
    /// How many conversions each has.
    pub hops: usize,
    /// How many chains.
    pub chains: usize,
    /// Models that went all the way, over all chains.
    pub arrived: usize,
    /// Models that some format of the chain cannot hold.
    pub not_applicable: usize,
    /// Models that are red.
    pub red: usize,
}

/// A cell that should not be as it is.
#[derive(Clone, Debug, Serialize)]
pub struct Red {
    /// The formats, from the source on.
    pub route: Vec<String>,
    /// The model.
    pub model: String,
    /// What is wrong.
    pub what: String,
    /// Commands that show it.
    pub commands: Vec<String>,
}

impl Matrix {
    /// Whether no cell is red and something was tried.
    pub fn is_green(&self) -> bool {
        self.red.is_empty() && self.pairs.iter().any(|pair| pair.arrived > 0)
    }

    /// The matrix for a README: sources down, targets across; in each cell how many of the source's models arrive, and
    /// letters for what is lost.
    pub fn markdown(&self) -> String {
        let column = |f: &&FormatRow| self.pairs.iter().any(|pair| pair.to == f.id);
        let targets: Vec<&FormatRow> = self.formats.iter().filter(column).collect();
        let ids =
            |rows: &[&FormatRow]| rows.iter().map(|f| format!("`{}`", f.id)).collect::<Vec<_>>().join(" | ");
        let mut text = format!("| from \\ to | {} |\n", ids(&targets));
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
