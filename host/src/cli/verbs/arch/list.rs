//! `apr arch list`: the architectures that have a table.

use crate::cli::output::verb_report::{Report, with_schema};
use apr_engine::architecture::{Table, Tables, draft_warning, not_run};
use apr_engine::registry::Registry;
use apr_sdk::{Result, escape};
use serde::Serialize;
use serde_json::Value as Json;
use std::fmt;

/// The architectures. JSON: `architectures`, each with the fields of [`Row`].
#[derive(Debug, Serialize)]
pub struct Architectures {
    architectures: Vec<Row>,
    #[serde(skip)]
    warnings: Vec<String>,
}

/// Lists the tables of every plugin.
pub fn list(registry: &Registry) -> Architectures {
    let tables = Tables::of(registry);
    let warnings = tables.all().filter(|table| table.draft).map(|table| {
        let plugin = registry.table_provider(&table.id);
        draft_warning(&table.id, plugin.and_then(|plugin| plugin.path.as_deref()))
    });
    let warnings = warnings.collect();
    Architectures { architectures: tables.all().map(Row::new).collect(), warnings }
}

/// One architecture.
#[derive(Debug, Serialize)]
struct Row {
    /// Its id.
    id: String,
    /// Its name for people.
    name: String,
    /// The arrangement of Q's and K's rows for rotary embedding in GGUF: `norm`, `neox` or `none`.
    rope: String,
    /// The dialects that its table knows besides its own.
    dialects: Vec<String>,
    /// The classes of transformers by which its models are recognized.
    classes: Vec<String>,
    /// Where the table's facts come from.
    sources: Vec<String>,
    /// The programs whose results agree with the table's: `converter` (llama.cpp's), `llama.cpp`, `transformers`.
    judges: Vec<String>,
    /// True if it is a draft, whose guesses nobody has checked.
    draft: bool,
    /// The reason why `apr run` does not run its models; null if it does.
    not_run: Option<String>,
    /// Tensors that a dialect has no place for (each `dialect`, `role`, `reason`).
    left_out: Vec<LeftOut>,
}

/// Tensors that a dialect has no place for.
#[derive(Debug, Serialize)]
struct LeftOut {
    dialect: String,
    role: String,
    reason: String,
}

impl Row {
    fn new(table: &Table) -> Row {
        Row {
            id: table.id.clone(),
            name: table.name.clone(),
            rope: table.rope.clone(),
            dialects: table.dialects.iter().map(|dialect| dialect.id.clone()).collect(),
            classes: table.classes().into_iter().map(str::to_owned).collect(),
            sources: table.sources.clone(),
            judges: table.judges.clone(),
            draft: table.draft,
            not_run: not_run(table).map(str::to_owned),
            left_out: table.dialects.iter().flat_map(|dialect| left_out(table, &dialect.id)).collect(),
        }
    }
}

fn left_out<'a>(table: &'a Table, dialect: &'a str) -> impl Iterator<Item = LeftOut> + 'a {
    table.left_out(dialect).into_iter().map(|(role, reason)| LeftOut {
        dialect: dialect.to_owned(),
        role: role.to_owned(),
        reason: reason.to_owned(),
    })
}

impl Report for Architectures {
    fn json(&self) -> Result<Json> {
        with_schema("apr.arch.list/1", self)
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn quiet(&self) -> String {
        self.architectures.iter().map(|row| format!("{}\n", row.id)).collect()
    }
}

impl fmt::Display for Architectures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.architectures.is_empty() {
            return writeln!(
                f,
                "no plugin provides a table: run `apr plugins list` to see the available plugins"
            );
        }
        let width = self.architectures.iter().map(|row| row.id.len()).max().unwrap_or(0);
        for row in &self.architectures {
            let name = escape(&row.name, 60);
            let dialects = row.dialects.join(", ");
            let classes: Vec<String> =
                row.classes.iter().map(|class| escape(class, 80).to_string()).collect();
            let classes =
                if classes.is_empty() { String::new() } else { format!(": {}", classes.join(", ")) };
            writeln!(f, "{:width$}  {:5}  {dialects:10}  {name}{classes}", row.id, row.rope)?;
            if !row.judges.is_empty() {
                let judges: Vec<String> =
                    row.judges.iter().map(|judge| escape(judge, 40).to_string()).collect();
                writeln!(f, "{:width$}  checked against {}", "", judges.join(", "))?;
            }
            if row.draft {
                writeln!(f, "{:width$}  draft with unchecked guesses", "")?;
            }
            match &row.not_run {
                None => writeln!(f, "{:width$}  supported by `apr run`", "")?,
                Some(reason) => {
                    writeln!(f, "{:width$}  not supported by `apr run`: {}", "", escape(reason, 200))?;
                }
            }
            for left in &row.left_out {
                let dialect = escape(&left.dialect, 40);
                let role = escape(&left.role, 80);
                let reason = escape(&left.reason, 200);
                writeln!(f, "{:width$}  {dialect} omits {role}: {reason}", "")?;
            }
        }
        Ok(())
    }
}
