//! `apr cache info`: where is the cache, and how large is it?

use crate::cli::output::verb_report::{Report, with_schema};
use apr_host::sizes::{show_number_of, show_size};
use apr_remote::cache::{Cache, Contents, RepositoryContents};
use apr_sdk::{Result, escape};
use serde::Serialize;
use serde_json::Value as Json;
use std::fmt;

/// Show where the download cache is and how large it is
///
/// Examples:
///   apr cache info
///   apr cache info -q          only the folder
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {}

/// The cache as a whole. JSON: the fields below.
#[derive(Debug, Serialize)]
pub struct Info {
    /// Its folder.
    root: String,
    /// True if the folder is there.
    exists: bool,
    /// The folder in which apr keeps what it knows of downloads; `null` without a home.
    state: Option<String>,
    /// Bytes of everything in the cache, each file once.
    bytes: u64,
    /// Bytes of repositories that apr downloaded something of.
    from_apr_bytes: u64,
    /// Bytes of interrupted downloads.
    partial_bytes: u64,
    /// Bytes of the store that repositories share.
    shared_bytes: u64,
    /// Number of repositories.
    repositories: usize,
    /// Number of revisions.
    revisions: usize,
    /// Number of files in revisions.
    files: usize,
    /// Number of repositories that are damaged.
    damaged: usize,
    /// Bytes that are free on its disk; `null` if the system does not tell.
    free_bytes: Option<u64>,
}

/// Counts what is in the cache.
///
/// # Errors
/// Io.
pub fn run(_args: &Args, cache: &Cache) -> Result<Info> {
    let contents = cache.contents()?;
    let all = &contents.repositories;
    let from_apr = all.iter().filter(|repository| repository.is_own());
    let partials = all.iter().flat_map(|repository| &repository.partials);
    Ok(Info {
        root: cache.root().display().to_string(),
        exists: cache.root().is_dir(),
        state: cache.state().map(|path| path.display().to_string()),
        bytes: contents.bytes(),
        from_apr_bytes: from_apr.map(RepositoryContents::bytes).sum(),
        partial_bytes: partials.map(|partial| partial.bytes).sum(),
        shared_bytes: shared_bytes(&contents),
        repositories: all.len(),
        revisions: all.iter().map(|repository| repository.revisions.len()).sum(),
        files: all.iter().map(RepositoryContents::n_files).sum(),
        damaged: all.iter().filter(|repository| !repository.damage.is_empty()).count(),
        free_bytes: cache.free_bytes(),
    })
}

fn shared_bytes(contents: &Contents) -> u64 {
    contents.payloads.iter().map(|payload| payload.bytes).sum()
}

impl Report for Info {
    fn json(&self) -> Result<Json> {
        with_schema("apr.cache.info/1", self)
    }

    fn quiet(&self) -> String {
        format!("{}\n", self.root)
    }
}

impl fmt::Display for Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let absent = if self.exists { "" } else { " (does not exist yet)" };
        writeln!(f, "cache     {}{absent}", escape(&self.root, 400))?;
        let state = self.state.as_ref().map_or("none: HOME is not set".to_owned(), |path| escape(path, 400));
        writeln!(f, "state     {state}")?;
        let noun = if self.repositories == 1 { "repository" } else { "repositories" };
        let revisions = show_number_of(self.revisions, "revision");
        let files = show_number_of(self.files, "file");
        writeln!(f, "contents  {} {noun}, {revisions}, {files}", self.repositories)?;
        if self.damaged > 0 {
            writeln!(f, "damaged   {}: run `apr cache ls`", self.damaged)?;
        }
        writeln!(f, "size      {}", show_size(self.bytes))?;
        writeln!(f, "by apr    {}", show_size(self.from_apr_bytes))?;
        writeln!(f, "partial   {}", show_size(self.partial_bytes))?;
        writeln!(f, "shared    {}", show_size(self.shared_bytes))?;
        let free = self.free_bytes.map_or("unknown".to_owned(), show_size);
        writeln!(f, "free      {free}")
    }
}
