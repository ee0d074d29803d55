//! `apr cache ls`: which downloads are kept, and how large are they?

use super::table::write_table;
use crate::cli::output::verb_report::{Report, with_schema};
use apr_host::sizes::{show_number_of, show_size};
use apr_remote::cache::{Cache, Kind, RepositoryContents, Revision};
use apr_sdk::{Result, escape};
use serde::Serialize;
use serde_json::Value as Json;
use std::fmt;

/// List what the download cache holds
///
/// Lists every repository and revision with its size, also those that other
/// programs downloaded, those that are incomplete, and damaged ones.
///
/// Examples:
///   apr cache ls
///   apr cache ls --json
///   apr cache ls -q            only the names, one per line
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {}

/// The cache. JSON: `root`; `bytes` of everything, each file once; `shared_bytes`, of the store that repositories share;
/// `strays`, the paths of what belongs to no cache; and `repositories`, each with the fields of [`Row`].
#[derive(Debug, Serialize)]
pub struct Listing {
    root: String,
    bytes: u64,
    shared_bytes: u64,
    repositories: Vec<Row>,
    strays: Vec<String>,
    #[serde(skip)]
    warnings: Vec<String>,
}

/// A repository.
#[derive(Debug, Serialize)]
pub struct Row {
    /// `org/name`; `datasets/org/name` for another kind.
    name: String,
    /// `model`, `dataset`, `space` or `kernel`.
    kind: &'static str,
    /// Bytes of its files and of what is not finished.
    bytes: u64,
    /// True if apr downloaded any of it.
    from_apr: bool,
    /// Its revisions, each with its `commit`; `refs`, the branches and tags that were last seen at it; `files` and `bytes` that are
    /// there; `missing`, the names of files that are not, or null if it is not known which files it has.
    revisions: Vec<RevisionRow>,
    /// Downloads that were interrupted, or are running: each with the `blob` that it would become, `bytes` of its file, and
    /// `from_apr`.
    partials: Vec<PartialRow>,
    /// Faults of it, a sentence each.
    damage: Vec<String>,
}

/// A revision.
#[derive(Debug, Serialize)]
struct RevisionRow {
    /// Its commit.
    commit: String,
    /// The branches and tags that were at it when they were last looked up.
    refs: Vec<String>,
    /// Number of its files that are there.
    files: usize,
    /// Bytes of those.
    bytes: u64,
    /// Names of files that are missing; `null` if it is not known which files it has.
    missing: Option<Vec<String>>,
}

/// A download that is not finished.
#[derive(Debug, Serialize)]
struct PartialRow {
    /// The name of the blob that it would become.
    blob: String,
    /// Bytes of its file.
    bytes: u64,
    /// True if apr began it, and resumes it.
    from_apr: bool,
}

/// Lists the cache.
///
/// # Errors
/// Io.
pub fn run(_args: &Args, cache: &Cache) -> Result<Listing> {
    let contents = cache.contents()?;
    let mut repositories = Vec::new();
    for repository in &contents.repositories {
        repositories.push(row(cache, repository)?);
    }
    let damaged = repositories.iter().filter(|row| !row.damage.is_empty()).count();
    let warnings = match damaged {
        0 => Vec::new(),
        n => vec![format!("{} damaged; download them again to repair them", show_number_of_are(n))],
    };
    Ok(Listing {
        root: cache.root().display().to_string(),
        bytes: contents.bytes(),
        shared_bytes: contents.payloads.iter().map(|payload| payload.bytes).sum(),
        repositories,
        strays: contents.strays.iter().map(|path| path.display().to_string()).collect(),
        warnings,
    })
}

fn show_number_of_are(n: usize) -> String {
    if n == 1 { "1 repository is".to_owned() } else { format!("{n} repositories are") }
}

fn row(cache: &Cache, repository: &RepositoryContents) -> Result<Row> {
    let mut revisions = Vec::new();
    for revision in &repository.revisions {
        revisions.push(RevisionRow {
            commit: revision.commit.clone(),
            refs: revision.refs.clone(),
            files: revision.files.iter().filter(|file| file.bytes.is_some()).count(),
            bytes: repository.bytes_of(revision),
            missing: missing(cache, repository, revision)?,
        });
    }
    let partials = repository.partials.iter().map(|partial| PartialRow {
        blob: partial.blob.clone(),
        bytes: partial.bytes,
        from_apr: partial.is_own,
    });
    Ok(Row {
        name: repository.shown(),
        kind: repository.kind.word(),
        bytes: repository.bytes(),
        from_apr: repository.is_own(),
        revisions,
        partials: partials.collect(),
        damage: repository.damage.clone(),
    })
}

/// The files that a revision lacks, if its listing is there. apr lists models alone.
fn missing(
    cache: &Cache,
    repository: &RepositoryContents,
    revision: &Revision,
) -> Result<Option<Vec<String>>> {
    if repository.kind != Kind::Model {
        return Ok(None);
    }
    let open = cache.repository_of(repository);
    let Some(tree) = open.tree(&revision.commit)? else { return Ok(None) };
    // A link out of the cache is damage, which is told of as such.
    Ok(open.missing(&revision.commit, &tree).ok())
}

impl Report for Listing {
    fn json(&self) -> Result<Json> {
        with_schema("apr.cache.ls/1", self)
    }

    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn quiet(&self) -> String {
        self.repositories.iter().map(|row| format!("{}\n", row.name)).collect()
    }
}

impl fmt::Display for Listing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.repositories.is_empty() && self.strays.is_empty() {
            return writeln!(f, "nothing is in the cache {}", self.root);
        }
        let rows: Vec<[String; 6]> = self.repositories.iter().flat_map(cells).collect();
        write_table(f, ["model", "commit", "refs", "files", "size", "state"], &rows)?;
        for row in self.repositories.iter().filter(|row| !row.damage.is_empty()) {
            writeln!(f, "{}:", escape(&row.name, 200))?;
            row.damage.iter().try_for_each(|sentence| writeln!(f, "  {sentence}"))?;
        }
        for path in &self.strays {
            writeln!(f, "not part of the cache: {}", escape(path, 400))?;
        }
        let count = self.repositories.len();
        let noun = if count == 1 { "repository" } else { "repositories" };
        writeln!(f, "{count} {noun}, {} in {}", show_size(self.bytes), self.root)
    }
}

/// A line for every revision of a repository, and one for what is not finished.
fn cells(row: &Row) -> Vec<[String; 6]> {
    let name = escape(&row.name, 120);
    let dash = || "-".to_owned();
    let is_damaged = if row.damage.is_empty() { "" } else { "damaged" };
    let mut lines: Vec<[String; 6]> = row
        .revisions
        .iter()
        .map(|revision| {
            let refs = revision.refs.iter().map(|name| escape(name, 60)).collect::<Vec<_>>().join(", ");
            let state = match &revision.missing {
                _ if !is_damaged.is_empty() => is_damaged.to_owned(),
                Some(missing) if missing.is_empty() => "complete".to_owned(),
                Some(missing) => format!("{} missing", show_number_of(missing.len(), "file")),
                None => dash(),
            };
            let commit = revision.commit.chars().take(12).collect();
            let refs = if refs.is_empty() { dash() } else { refs };
            [name.clone(), commit, refs, revision.files.to_string(), show_size(revision.bytes), state]
        })
        .collect();
    if !row.partials.is_empty() || lines.is_empty() {
        let bytes = row.partials.iter().map(|partial| partial.bytes).sum();
        let state = match row.partials.len() {
            0 if is_damaged.is_empty() => "no revision".to_owned(),
            0 => is_damaged.to_owned(),
            n => show_number_of(n, "partial download"),
        };
        lines.push([name, dash(), dash(), dash(), show_size(bytes), state]);
    }
    lines
}
