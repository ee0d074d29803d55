//! Check that the manifest refuses what a format cannot carry, so that no writer is handed it; metadata that is not
//! claimed does not make a writer stumble.

use super::base_dtype;
use super::carries::{Case, scalar, zero_size};
use crate::subject::{Subject, Verdict, about, guarded};
use crate::{ModelFixture, carried, metadata_carried, shape_of};
use apr_sdk::{DType, Error, Result, Value, Writer};

pub(super) fn refuses(subject: &Subject<'_>) -> Result<Verdict> {
    let Some(writer) = subject.writer else { return Verdict::skipped("the format has no writer") };
    let cases = cases(subject)?;
    for case in &cases {
        let (model, _) = case.model.build()?;
        if carried(subject.manifest, &model).is_ok() {
            return Err(Error::failed(format!(
                "the manifest does not claim {}, but it is carried",
                case.what
            )));
        }
        let is_handed_over = subject.manifest.carries.check(&model).is_ok();
        if is_handed_over {
            survives(subject, writer, case)
                .map_err(|e| Error::failed(format!("a writer that is given {}: {e}", case.what)))?;
        }
    }
    let held = own_files(subject)?;
    Verdict::passed(format!("{} models refused, {held}", cases.len()))
}

/// A model of which metadata alone is not claimed reaches the writer, which may write something, but neither panic nor break
/// the contract.
fn survives(subject: &Subject<'_>, writer: &dyn Writer, case: &Case) -> Result<()> {
    let outcome = guarded(|| case.model.write(writer, &subject.manifest.carries, &subject.request()))?;
    drop(outcome);
    Ok(())
}

/// The format's own files: their metadata must be claimed, and at least one of them must be carried as a whole, or no
/// file could ever be written again.
fn own_files(subject: &Subject<'_>) -> Result<String> {
    let Some(reader) = subject.reader else { return Ok("no reader".into()) };
    let mut held = 0;
    let mut last = None;
    let models = subject.models()?;
    for fixture in &models {
        let opened = about(fixture, || "opening".into(), subject.open(reader, &fixture.source()))?;
        about(fixture, || "manifest".into(), metadata_carried(subject.manifest, &opened.model))?;
        match carried(subject.manifest, &opened.model) {
            Ok(()) => held += 1,
            Err(error) => last = Some(error),
        }
    }
    match last {
        Some(error) if held == 0 => {
            Err(Error::failed(format!("the manifest does not carry any of the format's own files: {error}")))
        }
        _ => Ok(format!("{held} of {} own files carried", models.len())),
    }
}

/// Models that use exactly what the manifest does not claim.
fn cases(subject: &Subject<'_>) -> Result<Vec<Case>> {
    let carries = &subject.manifest.carries;
    let base = base_dtype(subject);
    let shape = shape_of(base, 1);
    let mut cases = Vec::new();
    if carries.one_tensor {
        cases.push(Case::new("no tensor", ModelFixture::new()));
        let model = ModelFixture::new().tensor("a", base, &shape)?.tensor("b", base, &shape)?;
        cases.push(Case::new("two tensors", model));
    }
    for row in DType::ALL.iter().filter(|row| !carries.dtype(row.name)) {
        let model = ModelFixture::new().tensor("t", row.dtype, &shape_of(row.dtype, 1))?;
        cases.push(Case::new(format!("dtype {}", row.name), model));
    }
    if carries.max_dims < 8 {
        let dims = carries.max_dims + 1;
        let model = ModelFixture::new().tensor("t", base, &shape_of(base, dims))?;
        cases.push(Case::new(format!("{dims} dimensions"), model));
    }
    if !carries.scalars {
        cases.extend(scalar(base)?);
    }
    if !carries.zero_size {
        cases.push(Case::new("dimensions of size 0", zero_size(base, carries.max_dims)?));
    }
    if carries.max_name_bytes < 65_535 {
        let name = "n".repeat(carries.max_name_bytes + 1);
        cases.push(Case::new("a longer name", ModelFixture::new().tensor(&name, base, &shape)?));
    }
    for name in ["a\0b", "a\nb"] {
        let model = ModelFixture::new().tensor(name, base, &shape)?;
        if carried(subject.manifest, &model.build()?.0).is_err() {
            cases.push(Case::new(format!("the name {name:?}"), model));
        }
    }
    if !carries.metadata_type("u32") {
        let model = ModelFixture::new().tensor("t", base, &shape)?;
        let model = model.foreign(subject.id(), "kit.u32", Value::from_u32(1));
        cases.push(Case::new("metadata of type u32", model));
    }
    Ok(cases)
}
