//! `apr cache rm`: how does a model leave the cache?

use super::find;
use super::removal::Removed;
use apr_remote::cache::{Cache, Removal, RepositoryContents};
use apr_sdk::{Error, Result, escape};
use std::collections::BTreeMap;

/// Remove a model, or one of its revisions, from the cache
///
/// Removes what is named, whoever downloaded it. Files that another revision
/// or another model needs too stay.
///
/// Examples:
///   apr cache rm org/name
///   apr cache rm org/name@main
///   apr cache rm org/name@0123abcd -n    show what would go
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Model, as `apr cache ls` shows it, with a branch, tag or commit behind `@`
    #[arg(value_name = "MODEL[@REVISION]", required = true)]
    models: Vec<String>,
    /// Show what would be removed, and remove nothing
    #[arg(short = 'n', long)]
    dry_run: bool,
}

/// Removes what is named. JSON: `dry_run`; `bytes` that were freed, or would be; `files`, the number of those removed; `removed`
/// (each `repository`, or null for what belongs to none, `what`, `bytes`, `from_apr`); and `kept`: what stayed, and why.
///
/// # Errors
/// NotFound for what is not in the cache; Io, also for a model that is being downloaded.
pub fn run(args: &Args, cache: &Cache) -> Result<Removed> {
    let contents = cache.contents()?;
    // By folder, so that what two revisions share goes with both.
    let mut chosen: BTreeMap<&str, Chosen<'_>> = BTreeMap::new();
    for model in &args.models {
        let (name, revision) = match model.split_once('@') {
            Some((name, revision)) => (name, Some(revision)),
            None => (model.as_str(), None),
        };
        let repository = find(&contents, name)?;
        let chosen = chosen.entry(&repository.folder).or_insert(Chosen {
            repository,
            commits: Vec::new(),
            is_whole: false,
        });
        match revision {
            None => chosen.is_whole = true,
            Some(revision) => chosen.commits.push(commit(repository, revision)?),
        }
    }
    let mut plan = Removal::default();
    for chosen in chosen.into_values() {
        let commits = Some(&chosen.commits[..]).filter(|_| !chosen.is_whole);
        plan.add(cache.plan_removal(chosen.repository, commits)?);
    }
    Removed::by(&plan, cache, args.dry_run, "apr.cache.rm/1")
}

/// A repository of which something goes.
struct Chosen<'c> {
    repository: &'c RepositoryContents,
    commits: Vec<&'c str>,
    is_whole: bool,
}

/// The commit that a user means.
fn commit<'c>(repository: &'c RepositoryContents, revision: &str) -> Result<&'c str> {
    let found = repository.revision(revision).ok_or_else(|| {
        let shown = escape(revision, 200);
        Error::not_found(format!(
            "the cache has no revision `{shown}` of {}",
            escape(&repository.shown(), 200)
        ))
        .hint("run `apr cache ls` to list the revisions that are there")
    })?;
    Ok(&found.commit)
}
