//! The subject of the checks, and the way they call it: every panic and every breach of the contract is a finding.

use crate::{Fixture, Opened, read_with_parts, write};
use apr_sdk::{Error, ErrorKind, FormatManifest, LayoutRequest, Options, Reader, Result, Source, Writer};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// The longest a single opening of a fixture may take. 10 s: fixtures are small, a loop without end is not.
const LONGEST: Duration = Duration::from_secs(10);

/// Payload bytes that one opening of a damaged file reads at most. 1 MiB: enough to touch every small tensor.
const PAYLOAD: u64 = 1 << 20;

/// A reader and the models it is tried on, or why there is nothing to try.
pub(crate) type Reading<'a> = std::result::Result<(&'a dyn Reader, Vec<Fixture>), Verdict>;

/// One format of a plugin, and files of it.
pub struct Subject<'a> {
    /// Its reader, if it has one.
    pub reader: Option<&'a dyn Reader>,
    /// Its writer, if it has one.
    pub writer: Option<&'a dyn Writer>,
    /// Its manifest.
    pub manifest: &'a FormatManifest,
    /// Models to open. Where there are none, the checks make do with what the writer makes.
    pub fixtures: &'a [Fixture],
    /// True if a fixture that is read and written again must be the same bytes.
    pub byte_identical: bool,
    /// The names of fixtures for which that does not hold.
    pub except: &'a [&'a str],
}

/// The result of a check that found nothing wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It holds; what was tried, with figures.
    Passed(String),
    /// There was nothing to try, and why.
    Skipped(String),
}

impl Verdict {
    pub(crate) fn passed(what: impl Into<String>) -> Result<Verdict> {
        Ok(Verdict::Passed(what.into()))
    }

    pub(crate) fn skipped(why: impl Into<String>) -> Result<Verdict> {
        Ok(Verdict::Skipped(why.into()))
    }
}

impl<'a> Subject<'a> {
    /// A format without promises of identical bytes.
    pub fn new(
        reader: Option<&'a dyn Reader>,
        writer: Option<&'a dyn Writer>,
        manifest: &'a FormatManifest,
        fixtures: &'a [Fixture],
    ) -> Subject<'a> {
        Subject { reader, writer, manifest, fixtures, byte_identical: false, except: &[] }
    }

    /// The format's id.
    pub fn id(&self) -> &'a str {
        &self.manifest.id
    }

    /// The default values of the options for reading or writing, as the host fills them in.
    pub fn options(&self, write: bool) -> Options {
        let concerned = self.manifest.options.iter().filter(|o| if write { o.write } else { o.read });
        concerned
            .filter(|option| !option.default.is_empty())
            .fold(Options::new(), |options, option| options.with(&option.name, &option.default))
    }

    /// A request for one file with the format's extension.
    pub fn request(&self) -> LayoutRequest {
        let extension = self.manifest.extensions.first().map_or("bin", String::as_str);
        let mut request = LayoutRequest::file(&format!("kit.{extension}"));
        request.options = self.options(true);
        request
    }

    /// The fixtures; where none were given, a model that the writer made; where there is none, nothing.
    pub(crate) fn models(&self) -> Result<Vec<Fixture>> {
        match self.writer {
            Some(writer) if self.fixtures.is_empty() => crate::checks::generated(self, writer),
            _ => Ok(self.fixtures.to_vec()),
        }
    }

    /// The reader and what it is tried on, or why there is nothing to try.
    pub(crate) fn reading(&self) -> Result<Reading<'a>> {
        let Some(reader) = self.reader else {
            return Ok(Err(Verdict::Skipped("the format has no reader".to_owned())));
        };
        let models = self.models()?;
        if models.is_empty() {
            return Ok(Err(Verdict::Skipped("no file to read, and no writer to create one".to_owned())));
        }
        Ok(Ok((reader, models)))
    }

    /// Opens a model that must be right.
    pub(crate) fn open(&self, reader: &dyn Reader, source: &dyn Source) -> Result<Opened> {
        guarded(|| read_with_parts(reader, self.id(), source, &self.options(false)))?
    }

    /// Writes a model as it was opened.
    pub(crate) fn write(
        &self,
        writer: &dyn Writer,
        opened: &Opened,
        source: &dyn Source,
        request: &LayoutRequest,
    ) -> Result<Vec<(String, Vec<u8>)>> {
        let carries = &self.manifest.carries;
        guarded(|| {
            write(writer, carries, &opened.model, source, &|index| opened.payload(index, source), request)
        })?
    }

    /// Opens a model that may be damaged and reads its payloads. The outer error is a finding, the inner one a refusal,
    /// which is as good as a model.
    pub(crate) fn attempt(&self, reader: &dyn Reader, source: &dyn Source) -> Result<Result<Opened>> {
        let start = Instant::now();
        let outcome = guarded(|| {
            let opened = read_with_parts(reader, self.id(), source, &self.options(false))?;
            let mut left = PAYLOAD;
            for index in 0..opened.model.tensors.len() {
                let len = opened.model.tensors[index].payload_len()?;
                let Some(rest) = left.checked_sub(len) else { continue };
                opened.payload(index, source)?;
                left = rest;
            }
            Ok(opened)
        });
        let took = start.elapsed();
        if took > LONGEST {
            return Err(Error::failed(format!("opening a file took {} s", took.as_secs())));
        }
        outcome
    }
}

/// Runs a call of the plugin. The outer error is a finding: a panic, or an error of the kind that stands for a panic
/// or a broken contract.
pub(crate) fn guarded<T>(call: impl FnOnce() -> Result<T>) -> Result<Result<T>> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Err(error)) if error.kind() == ErrorKind::Plugin => Err(error),
        Ok(result) => Ok(result),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
            Err(Error::failed(format!("the plugin panicked: {text}")))
        }
    }
}

/// Adds which fixture and which attempt a finding is about.
pub(crate) fn about<T>(fixture: &Fixture, what: impl FnOnce() -> String, result: Result<T>) -> Result<T> {
    result.map_err(|error| {
        let message = format!("{}: {}: {error}", fixture.name, what());
        Error::new(ErrorKind::Failed, message)
    })
}
