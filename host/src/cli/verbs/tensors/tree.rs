//! `apr tensors FILE --tree`: the names as a tree, with sums.

use crate::cli::output::verb_report::{Report, Streamed, with_schema, write_document};
use apr_engine::open::OpenedModel;
use apr_engine::verify::tree::{Body, Group, Totals, totals, tree};
use apr_host::sizes::{show_count, show_number_of, show_size};
use apr_sdk::{Result, escape};
use serde::Serialize;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};

/// A model's tensors as a tree. JSON: `tensors`, `parameters`, `bytes` and `types` of all, and `groups`:
/// `name`, the same sums, of a tensor `dtype` and `shape`, of others `types` and `groups`. Layers that are made alike are one
/// group with `members`, pairs of first and last number: its sums are of all of them, those inside it of each.
#[derive(Debug, Serialize)]
pub struct Tree {
    schema: &'static str,
    tensors: u64,
    parameters: u64,
    bytes: u64,
    types: BTreeMap<&'static str, u64>,
    groups: Vec<Group>,
    warnings: Vec<String>,
}

/// The tree of a model.
///
/// # Errors
/// Unsupported for a type that is unknown.
pub fn of(opened: &OpenedModel) -> Result<Tree> {
    let groups = tree(&opened.model.tensors)?;
    let Totals { tensors, parameters, bytes, types } = totals(&groups);
    let warnings = opened.warnings.clone();
    Ok(Tree { schema: "apr.tree/1", tensors, parameters, bytes, types, groups, warnings })
}

impl Report for Tree {
    fn json(&self) -> Result<Json> {
        with_schema("apr.tree/1", self)
    }

    fn write_json(&self, out: &mut dyn Write) -> io::Result<Streamed> {
        write_document(out, self)
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }
}

/// One line of the tree.
#[derive(Clone, Debug)]
pub struct Line {
    /// The group's name, escaped, indented by its depth.
    pub name: String,
    /// The elements of all its tensors.
    pub parameters: u64,
    /// The bytes of all its tensors.
    pub bytes: u64,
    /// Type and shape of a tensor, or the types of a group; and how many are alike.
    pub what: String,
}

/// The lines of a tree, each group before what is in it.
pub fn lines(groups: &[Group]) -> Vec<Line> {
    let mut lines = Vec::new();
    groups.iter().for_each(|group| add(group, 0, &mut lines));
    lines
}

impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        /// One absurd name must not push every other column off the screen.
        const WIDEST: usize = 60;
        let lines = lines(&self.groups);
        let name_width = lines.iter().map(|line| line.name.chars().count()).max().unwrap_or(0).min(WIDEST);
        let count_width = show_count(self.parameters.into()).len();
        for Line { name, parameters, bytes, what } in &lines {
            let count = show_count((*parameters).into());
            let size = show_size(*bytes);
            writeln!(f, "{name:name_width$}  {count:>count_width$}  {size:>9}  {what}")?;
        }
        let tensors = show_number_of(usize::try_from(self.tensors).unwrap_or(usize::MAX), "tensor");
        let count = show_count(self.parameters.into());
        write!(f, "total: {tensors}, {count} parameters, {}", show_size(self.bytes))?;
        match self.types.is_empty() {
            true => writeln!(f),
            false => writeln!(f, ": {}", types(&self.types)),
        }
    }
}

fn add(group: &Group, depth: usize, lines: &mut Vec<Line>) {
    let sum = group.totals();
    let what = match &group.body {
        Body::Tensor { dtype, shape, .. } => format!("{dtype} {shape:?}"),
        Body::Groups(_) => types(&sum.types),
    };
    let what = match group.count() {
        1 => what,
        count => format!("{what}, {} identical, each:", show_count(count.into())),
    };
    let name = format!("{}{}", "  ".repeat(depth), escape(&group.name, 200));
    lines.push(Line { name, parameters: sum.parameters, bytes: sum.bytes, what });
    group.groups().iter().for_each(|inner| add(inner, depth + 1, lines));
}

/// `4 F32, 8 Q4_K`.
fn types(types: &BTreeMap<&'static str, u64>) -> String {
    let words = types.iter().map(|(dtype, count)| format!("{} {dtype}", show_count((*count).into())));
    words.collect::<Vec<_>>().join(", ")
}
