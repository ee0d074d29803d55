//! Opening reads the header, not the payload: counted, on fixtures and on a model of 4 MiB that the writer makes.

use super::base_dtype;
use crate::subject::{about, guarded};
use crate::{Fixture, MeteringSource, ModelFixture, Subject, Verdict, shape_of};
use apr_sdk::{DType, Error, Reader, Result, Writer};

/// Bytes that a reader may read beyond the header, for each file and once more. 64 KiB: the buffer of `Cursor`.
const SLACK: u64 = 64 * 1024;

pub(super) fn header_only(subject: &Subject<'_>) -> Result<Verdict> {
    let (reader, mut models) = match subject.reading()? {
        Ok(found) => found,
        Err(skipped) => return Ok(skipped),
    };
    if let Some(writer) = subject.writer {
        models.push(large(subject, writer)?);
    }
    let mut figures = (0, 0);
    for fixture in &models {
        let (read, total) = about(fixture, || "opening".into(), measure(subject, reader, fixture))?;
        figures = (figures.0 + read, figures.1 + total);
    }
    Verdict::passed(format!("{} models, {} of {} bytes read", models.len(), figures.0, figures.1))
}

fn measure(subject: &Subject<'_>, reader: &dyn Reader, fixture: &Fixture) -> Result<(u64, u64)> {
    let source = fixture.source();
    let metering = MeteringSource::new(&source);
    let opened = subject.open(reader, &metering)?;
    let read = metering.distinct_bytes();
    let total: u64 = fixture.files.iter().map(|(_, bytes)| bytes.len() as u64).sum();
    let payload: u64 = opened.stored(&source)?.iter().map(|(_, start, end)| end - start).sum();
    let allowed = (total - payload.min(total)) + SLACK * (1 + fixture.files.len() as u64);
    if read <= allowed {
        return Ok((read, total));
    }
    Err(Error::failed(format!(
        "opening read {read} of {total} bytes, of which {payload} are payload: at most {allowed} are allowed"
    )))
}

/// Four tensors of about 1 MiB.
fn large(subject: &Subject<'_>, writer: &dyn Writer) -> Result<Fixture> {
    let dtype = base_dtype(subject);
    let shape = match subject.manifest.carries.max_dims {
        1 => shape_of(dtype, 1),
        _ => shape_of(dtype, 2),
    };
    let mut model = ModelFixture::new();
    for name in ["a", "b", "c", "d"] {
        model = model.tensor(name, dtype, &stretched(dtype, &shape)?)?;
    }
    if subject.manifest.carries.one_tensor {
        model.keep_one();
    }
    let files = guarded(|| model.write(writer, &subject.manifest.carries, &subject.request()))??;
    Ok(Fixture { name: "a generated model of 4 MiB".into(), files })
}

/// The shape, its first dimension made so large that the tensor has about 1 MiB.
fn stretched(dtype: DType, shape: &[u64]) -> Result<Vec<u64>> {
    let each = apr_sdk::checked_payload_len(dtype, shape)?.max(1);
    let mut shape = shape.to_vec();
    if let Some(first) = shape.first_mut() {
        *first *= (1 << 20) / each;
    }
    Ok(shape)
}
