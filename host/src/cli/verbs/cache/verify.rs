//! `apr cache verify`: are the downloads what their names say?

use super::find;
use super::table::write_table;
use crate::cli::context::Context;
use crate::cli::output::progress;
use crate::cli::output::verb_report::{Report, with_schema};
use apr_host::sizes::{show_number_of, show_size};
use apr_remote::cache::{BlobName, Cache, RepositoryContents, Verdict};
use apr_sdk::{Error, Result, escape};
use serde::Serialize;
use serde_json::Value as Json;
use std::cell::Cell;
use std::fmt;

/// Hash every downloaded file and compare it with its name
///
/// A file in the cache is named after the digest that the hub announced. This
/// reads each one from disk and computes it again, also for files that other
/// programs downloaded. Exit code 5 if any is damaged.
///
/// Examples:
///   apr cache verify
///   apr cache verify org/name
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    /// Models to verify; all if none is given
    #[arg(value_name = "MODEL")]
    models: Vec<String>,
}

/// The verdicts. JSON: `bytes` that were hashed; `damage`, what else is wrong, a sentence each; and `blobs`, each with the
/// fields of [`Row`].
#[derive(Debug, Serialize)]
pub struct Verdicts {
    bytes: u64,
    blobs: Vec<Row>,
    damage: Vec<String>,
}

/// A blob.
#[derive(Debug, Serialize)]
struct Row {
    /// The repository.
    repository: String,
    /// The name of the blob: the digest that its content should have.
    blob: String,
    /// Its files, in any revision.
    files: Vec<String>,
    /// Its bytes.
    bytes: u64,
    /// `right`, `wrong`, `unknown` (its name is no digest) or `unreadable`.
    verdict: &'static str,
    /// The digest of a wrong one.
    digest: Option<String>,
    /// Why it could not be read.
    reason: Option<String>,
}

/// Hashes the blobs.
///
/// # Errors
/// NotFound for a model that is not in the cache; Io.
pub fn run(args: &Args, cache: &Cache, context: &Context) -> Result<Verdicts> {
    let contents = cache.contents()?;
    let chosen: Vec<&RepositoryContents> = match args.models.is_empty() {
        true => contents.repositories.iter().collect(),
        false => args.models.iter().map(|model| find(&contents, model)).collect::<Result<_>>()?,
    };
    let progress = progress::shown(
        context.settings.text("defaults.progress"),
        context.settings.text("log.level"),
        &context.terminal,
    );
    let total = chosen.iter().flat_map(|of| &of.blobs).map(|blob| blob.bytes).sum();
    let done = Cell::new(0_u64);
    let proofs = cache.proofs();
    let mut verdicts = Verdicts { bytes: 0, blobs: Vec::new(), damage: Vec::new() };
    for repository in chosen {
        let open = cache.repository_of(repository);
        let name = repository.shown();
        let damage = repository.damage.iter().map(|sentence| format!("{}: {sentence}", escape(&name, 200)));
        verdicts.damage.extend(damage);
        for blob in &repository.blobs {
            let tick = |bytes: u64| {
                done.set(done.get() + bytes);
                progress.bytes(done.get(), total, &blob.name);
                Ok(())
            };
            let judged = match BlobName::new(&blob.name) {
                Ok(named) => open.verify(&named, &proofs, &tick),
                Err(_) => Ok(Verdict::Unknown),
            };
            let (verdict, digest, reason) = match judged {
                Ok(Verdict::Right(_)) => ("right", None, None),
                Ok(Verdict::Wrong(found)) => ("wrong", Some(found.digits().to_owned()), None),
                Ok(Verdict::Unknown) => ("unknown", None, None),
                Err(error) => ("unreadable", None, Some(error.message().to_owned())),
            };
            let files = files_of(repository, &blob.name);
            let (repository, blob, bytes) = (name.clone(), blob.name.clone(), blob.bytes);
            verdicts.blobs.push(Row { repository, blob, files, bytes, verdict, digest, reason });
        }
    }
    verdicts.bytes = done.get();
    Ok(verdicts)
}

/// The names of the files that a blob is the content of.
fn files_of(repository: &RepositoryContents, blob: &str) -> Vec<String> {
    let files = repository.revisions.iter().flat_map(|revision| &revision.files);
    let names = files.filter(|file| file.blob.as_deref() == Some(blob)).map(|file| file.name.clone());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names.dedup();
    names
}

impl Verdicts {
    fn n_of(&self, verdict: &str) -> usize {
        self.blobs.iter().filter(|row| row.verdict == verdict).count()
    }

    fn n_bad(&self) -> usize {
        self.n_of("wrong") + self.n_of("unreadable")
    }
}

impl Report for Verdicts {
    fn json(&self) -> Result<Json> {
        with_schema("apr.cache.verify/1", self)
    }

    fn quiet(&self) -> String {
        let bad = self.blobs.iter().filter(|row| !["right", "unknown"].contains(&row.verdict));
        bad.map(|row| format!("{} {}\n", row.repository, row.blob)).collect()
    }

    fn verdict(&self) -> Result<()> {
        let faults = self.n_bad() + self.damage.len();
        if faults == 0 {
            return Ok(());
        }
        let message = format!("the cache has {}", show_number_of(faults, "fault"));
        Err(Error::failed(message)
            .hint("run `apr cache rm MODEL` for what is damaged, and download it again"))
    }
}

impl fmt::Display for Verdicts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bad: Vec<[String; 4]> = self
            .blobs
            .iter()
            .filter(|row| row.verdict != "right")
            .map(|row| {
                let shown = if row.files.is_empty() { row.blob.clone() } else { row.files.join(", ") };
                let why = match (row.verdict, &row.digest, &row.reason) {
                    ("wrong", Some(digest), _) => format!("damaged: named {}, hashes to {digest}", row.blob),
                    (_, _, Some(reason)) => reason.clone(),
                    _ => format!("no hash known: its name is {}", row.blob),
                };
                [escape(&row.repository, 120), escape(&shown, 200), show_size(row.bytes), escape(&why, 400)]
            })
            .collect();
        if !bad.is_empty() {
            write_table(f, ["model", "file", "size", "state"], &bad)?;
        }
        self.damage.iter().try_for_each(|sentence| writeln!(f, "{sentence}"))?;
        let right = show_number_of(self.n_of("right"), "file");
        writeln!(
            f,
            "{right} verified, {} damaged, {} without a known hash",
            self.n_bad(),
            self.n_of("unknown")
        )
    }
}
