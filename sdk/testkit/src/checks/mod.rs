//! The promises every format makes, as functions that each judge one format of a plugin.

mod carries;
mod damage;
mod determinism;
mod header_only;
mod limits;
mod manifest;
mod probe;
mod refuses;
mod round_trip;
mod source_errors;
mod written;

use crate::{Fixture, ModelFixture, Subject, Verdict};
use apr_sdk::{DType, Error, Manifest, PluginDecl, Result, Writer};
use std::path::Path;

/// A check: what it found, or how the promise is broken.
pub type Check = fn(&Subject<'_>) -> Result<Verdict>;

/// Every check, by the name that `apr plugins check` prints and [`crate::conformance!`] gives the test.
pub const CHECKS: &[(&str, Check)] = &[
    ("manifest", manifest::manifest),
    ("probe", probe::probe),
    ("limits", limits::limits),
    ("truncation", damage::truncation),
    ("flips", damage::flips),
    ("determinism", determinism::determinism),
    ("carries", carries::carries),
    ("refuses", refuses::refuses),
    ("source_errors", source_errors::source_errors),
    ("round_trip", round_trip::round_trip),
    ("header_only", header_only::header_only),
];

/// Runs the check `name` on every format of a plugin that is linked in, with the models in `folder` as fixtures. What
/// [`crate::conformance!`] makes tests of.
///
/// # Errors
/// How the promise is broken; NotFound if no fixture has one of a format's extensions, or there is no such check.
pub fn check_plugin(
    name: &str,
    plugin: &PluginDecl,
    folder: &Path,
    byte_identical: bool,
    except: &[&str],
) -> Result<()> {
    let check = CHECKS.iter().find(|(known, _)| *known == name);
    let (_, check) = check.ok_or_else(|| Error::not_found(format!("no check is named `{name}`")))?;
    for format in &Manifest::parse(plugin.manifest)?.formats {
        let reader = (plugin.reader)(&format.id);
        let writer = (plugin.writer)(&format.id);
        let fixtures = match &reader {
            Some(reader) => Fixture::load(folder, format, &**reader)?,
            None => Vec::new(),
        };
        let reader = reader.as_deref();
        let subject = Subject {
            reader,
            writer: writer.as_deref(),
            manifest: format,
            fixtures: &fixtures,
            byte_identical,
            except,
        };
        check(&subject).map_err(|e| Error::failed(format!("format `{}`: {e}", format.id)))?;
    }
    Ok(())
}

/// A dtype the writer can hold: F32 if it can.
pub(crate) fn base_dtype(subject: &Subject<'_>) -> DType {
    let carries = &subject.manifest.carries;
    let first = DType::ALL.iter().find(|row| carries.dtype(row.name)).map_or(DType::F32, |row| row.dtype);
    if carries.dtype("F32") { DType::F32 } else { first }
}

/// A small model that the writer made, for formats of which there is no file.
pub(crate) fn generated(subject: &Subject<'_>, writer: &dyn Writer) -> Result<Vec<Fixture>> {
    let dtype = base_dtype(subject);
    let dims = subject.manifest.carries.max_dims.min(2);
    let shape = crate::shape_of(dtype, dims);
    let mut model = ModelFixture::new().tensor("first", dtype, &shape)?.tensor("second", dtype, &shape)?;
    if subject.manifest.carries.one_tensor {
        model.keep_one();
    }
    let files =
        crate::subject::guarded(|| model.write(writer, &subject.manifest.carries, &subject.request()))??;
    Ok(vec![Fixture { name: "generated".into(), files }])
}
