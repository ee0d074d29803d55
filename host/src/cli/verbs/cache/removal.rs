//! The report of a removal, announced or done.

use crate::cli::output::verb_report::{Report, with_schema};
use apr_host::sizes::show_size;
use apr_remote::cache::{Cache, Removal, Subject};
use apr_sdk::{Result, escape};
use serde::Serialize;
use serde_json::Value as Json;
use std::fmt;

/// A removal, planned or done.
#[derive(Debug, Serialize)]
pub struct Removed {
    dry_run: bool,
    bytes: u64,
    files: usize,
    removed: Vec<Row>,
    kept: Vec<String>,
    #[serde(skip)]
    schema: &'static str,
}

/// Something that goes.
#[derive(Debug, Serialize)]
struct Row {
    repository: Option<String>,
    what: String,
    bytes: u64,
    from_apr: bool,
}

impl Row {
    fn new(subject: &Subject) -> Row {
        Row {
            repository: (!subject.repository.is_empty()).then(|| subject.repository.clone()),
            what: subject.what.clone(),
            bytes: subject.bytes,
            from_apr: subject.is_own,
        }
    }
}

impl Removed {
    /// Carries out a removal, or only tells of it.
    ///
    /// # Errors
    /// Io if nothing can be removed.
    pub fn by(plan: &Removal, cache: &Cache, dry_run: bool, schema: &'static str) -> Result<Removed> {
        let done = if dry_run { None } else { Some(plan.run(cache)?) };
        let mut kept = plan.kept.clone();
        let bytes = done.as_ref().map_or(plan.bytes(), |done| done.bytes);
        let files = done.as_ref().map_or(0, |done| done.files);
        kept.extend(done.into_iter().flat_map(|done| done.left));
        let removed = plan.subjects.iter().map(Row::new).collect();
        Ok(Removed { dry_run, bytes, files, removed, kept, schema })
    }
}

/// Lines that say what a removal takes with it.
pub fn subject_lines(plan: &Removal) -> String {
    plan.subjects.iter().map(|subject| line(&Row::new(subject))).collect()
}

fn line(row: &Row) -> String {
    let repository =
        row.repository.as_ref().map(|name| format!("{} ", escape(name, 200))).unwrap_or_default();
    let whose = if row.from_apr { "" } else { " (not downloaded by apr)" };
    format!("  {repository}{}, {}{whose}\n", escape(&row.what, 200), show_size(row.bytes))
}

impl Report for Removed {
    fn json(&self) -> Result<Json> {
        with_schema(self.schema, self)
    }

    fn warnings(&self) -> &[String] {
        &self.kept
    }

    fn quiet(&self) -> String {
        String::new()
    }

    fn done(&self) -> Option<&'static str> {
        (!self.dry_run).then_some("the files were removed")
    }
}

impl fmt::Display for Removed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.removed.is_empty() {
            return writeln!(f, "nothing to remove");
        }
        let verb = if self.dry_run { "would remove" } else { "removed" };
        writeln!(f, "{verb}:")?;
        self.removed.iter().try_for_each(|row| f.write_str(&line(row)))?;
        let verb = if self.dry_run { "would free" } else { "freed" };
        writeln!(f, "{verb} {}", show_size(self.bytes))
    }
}
