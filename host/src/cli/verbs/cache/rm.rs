//! `apr cache rm`: how does a model leave the cache?

use super::find;
use super::removal::Removed;
use apr_remote::cache::{Cache, Removal};
use apr_sdk::{Error, Result, escape};

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
    let mut plan = Removal::default();
    for model in &args.models {
        let (name, revision) = match model.split_once('@') {
            Some((name, revision)) => (name, Some(revision)),
            None => (model.as_str(), None),
        };
        let repository = find(&contents, name)?;
        let commit = match revision {
            None => None,
            Some(named) => Some(repository.revision(named).ok_or_else(|| {
                let shown = escape(named, 200);
                Error::not_found(format!("the cache has no revision `{shown}` of {}", escape(name, 200)))
                    .hint("run `apr cache ls` to list the revisions that are there")
            })?),
        };
        plan.add(cache.plan_removal(repository, commit.map(|revision| revision.commit.as_str()))?);
    }
    Removed::by(&plan, cache, args.dry_run, "apr.cache.rm/1")
}
