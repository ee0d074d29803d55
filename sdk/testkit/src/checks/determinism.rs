//! The same bytes give the same model, and the same model the same bytes.

use crate::same::same_index;
use crate::subject::about;
use crate::{Subject, Verdict, carried};
use apr_sdk::{Error, Result};

pub(super) fn determinism(subject: &Subject<'_>) -> Result<Verdict> {
    let (reader, models) = match subject.reading()? {
        Ok(found) => found,
        Err(skipped) => return Ok(skipped),
    };
    let mut read = 0;
    let mut written = 0;
    for fixture in &models {
        let source = fixture.source();
        let first = about(fixture, || "opening".into(), subject.open(reader, &source))?;
        let second = about(fixture, || "opening again".into(), subject.open(reader, &fixture.source()))?;
        about(fixture, || "determinism".into(), same_index(&first.model, &second.model))?;
        read += 1;
        let Some(writer) = subject.writer.filter(|_| carried(subject.manifest, &first.model).is_ok()) else {
            continue;
        };
        let request = subject.request();
        let files = about(fixture, || "writing".into(), subject.write(writer, &first, &source, &request))?;
        let again = about(fixture, || "writing".into(), subject.write(writer, &first, &source, &request))?;
        if files != again {
            let odd = files.iter().zip(&again).find(|(a, b)| a != b).map_or("?", |(a, _)| a.0.as_str());
            let message = format!(
                "`{odd}` differs when written twice: the output must not depend on the clock, chance or a \
                 hash order"
            );
            return about(fixture, || "determinism".into(), Err(Error::failed(message)));
        }
        written += 1;
    }
    Verdict::passed(format!("{read} models read twice, {written} written twice"))
}
