//! A reader works under the limits it is given: one below what a file needs is an error, and what it reads is accounted
//! for in the budget it was lent.

use crate::subject::{about, guarded};
use crate::{Fixture, MeteringSource, Subject, Verdict, read_limited};
use apr_sdk::{Budget, Error, ErrorKind, Limits, Model, Reader, Result};

pub(super) fn limits(subject: &Subject<'_>) -> Result<Verdict> {
    let (reader, models) = match subject.reading()? {
        Ok(found) => found,
        Err(skipped) => return Ok(skipped),
    };
    let mut tried = 0;
    for fixture in &models {
        about(fixture, || "limits".into(), draws_on_budget(subject, reader, fixture))?;
        let source = fixture.source();
        let options = subject.options(false);
        let (_, model) =
            guarded(|| read_limited(reader, subject.id(), &source, &options, &Limits::default()))??;
        for (what, limits) in one_below(&model) {
            let outcome = guarded(|| read_limited(reader, subject.id(), &source, &options, &limits))?;
            let kind = outcome.err().map(|e| e.kind());
            // A file's own rule may be stricter than the cap, so Unsupported will do; success will not.
            if !matches!(kind, Some(ErrorKind::LimitExceeded | ErrorKind::Unsupported)) {
                let message = format!("it opens although the limit is one {what} too low: {kind:?}");
                return about(fixture, || "limits".into(), Err(Error::failed(message)));
            }
            tried += 1;
        }
    }
    Verdict::passed(format!("{} models, {tried} limits", models.len()))
}

/// Limits that the model just does not fit.
fn one_below(model: &Model) -> Vec<(&'static str, Limits)> {
    let mut limits = Vec::new();
    let tensors = model.tensors.len() as u64;
    let longest = model.tensors.iter().map(|t| t.name.len() as u64).max().unwrap_or(0);
    let dims = model.tensors.iter().map(|t| t.shape.len()).max().unwrap_or(0);
    let files = model.foreign.iter().flat_map(|foreign| &foreign.files);
    let keys = files.map(|file| file.typed.len() as u64).max().unwrap_or(0);
    if tensors > 0 {
        limits.push(("tensor", Limits { tensors: tensors - 1, ..Limits::default() }));
    }
    if longest > 0 {
        limits.push(("byte of a name", Limits { name_bytes: longest - 1, ..Limits::default() }));
    }
    if dims > 0 {
        limits.push(("dimension", Limits { dims: dims - 1, ..Limits::default() }));
    }
    if keys > 0 {
        limits.push(("metadata key", Limits { metadata_keys: keys - 1, ..Limits::default() }));
    }
    limits
}

/// Checks that reads by position show in the budget: a reader that opens under limits of its own is seen here.
fn draws_on_budget(subject: &Subject<'_>, reader: &dyn Reader, fixture: &Fixture) -> Result<()> {
    let source = fixture.source();
    let metering = MeteringSource::new(&source);
    let limits = Limits::default();
    let _open = guarded(|| reader.open(&metering, &limits, &subject.options(false)))??;
    if metering.bytes_positioned() > 0 && limits.budget.left() == Budget::BASE {
        return Err(Error::failed(format!(
            "{} bytes were read without charging the budget: pass the given limits to `Cursor`, or charge \
             them",
            metering.bytes_positioned()
        )));
    }
    Ok(())
}
