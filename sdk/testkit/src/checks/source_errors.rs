//! When the machine fails at any call, the reader says so: it neither panics nor goes on with half a model.

use crate::subject::{about, guarded};
use crate::{FailingSource, Fault, Subject, Verdict, read_with_parts};
use apr_sdk::{Error, ErrorKind, Reader, Result, Source};

/// The most calls of one fixture that are made to fail. 256: small files are opened in fewer.
const MOST: u64 = 256;

pub(super) fn source_errors(subject: &Subject<'_>) -> Result<Verdict> {
    let (reader, models) = match subject.reading()? {
        Ok(found) => found,
        Err(skipped) => return Ok(skipped),
    };
    let mut tried = 0;
    for fixture in &models {
        let source = fixture.source();
        let whole = FailingSource::new(&source, u64::MAX, Fault::Once);
        about(fixture, || "opening".into(), read(subject, reader, &whole).and_then(|r| r))?;
        let step = usize::try_from(whole.calls().div_ceil(MOST).max(1)).unwrap_or(1);
        for at in (0..whole.calls()).step_by(step) {
            for fault in [Fault::Once, Fault::Always, Fault::Short] {
                let result = fails(subject, reader, &source, at, fault);
                about(fixture, || format!("call {at} fails ({fault:?})"), result)?;
                tried += 1;
            }
        }
    }
    Verdict::passed(format!("{tried} failures"))
}

fn fails(
    subject: &Subject<'_>,
    reader: &dyn Reader,
    source: &dyn Source,
    at: u64,
    fault: Fault,
) -> Result<()> {
    let failing = FailingSource::new(source, at, fault);
    let outcome = read(subject, reader, &failing)?;
    match outcome {
        Ok(()) if fault == Fault::Short || !failing.failed() => Ok(()),
        Ok(()) => Err(Error::failed("the model opened nevertheless: an error of the source was ignored")),
        Err(error) if fault == Fault::Short || error.kind() == ErrorKind::Io => Ok(()),
        Err(error) => {
            Err(Error::failed(format!("it became a different kind of error ({:?}): {error}", error.kind())))
        }
    }
}

/// Opens and reads every payload.
fn read(subject: &Subject<'_>, reader: &dyn Reader, source: &dyn Source) -> Result<Result<()>> {
    guarded(|| {
        let opened = read_with_parts(reader, subject.id(), source, &subject.options(false))?;
        (0..opened.model.tensors.len()).try_for_each(|index| opened.payload(index, source).map(|_| ()))
    })
}
