//! A conversion done again: what it would write is compared with the files that are there, byte by byte. Nothing is
//! written.

use crate::convert::run::{OutputWork, write};
use crate::convert::verify::finish;
use crate::convert::{LaidOut, Opened, Output, Translated};
use crate::engine::Engine;
use crate::layout::Segment;
use crate::place::Backing;
use crate::planned::request::{Request, VerifyMode};
use crate::tiles::TileSink;
use crate::wording::n_of;
use apr_sdk::{Error, Result};
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Makes a file of so many bytes for what a conversion must set aside.
pub type MakeScratch<'s> = dyn Fn(u64) -> Result<Box<dyn TileSink>> + Sync + 's;

/// Opens one of a model's files by its name in the layout; `None` if there is none of that name.
pub type OpenFile<'f> = dyn Fn(&str) -> Result<Option<Arc<dyn Backing>>> + 'f;

/// The model that a conversion is said to have made.
pub struct Made<'m> {
    /// Its files.
    pub file: &'m OpenFile<'m>,
    /// Sizes of the inputs that its record names, in bytes.
    pub inputs: Option<Vec<u64>>,
}

/// A file of a model that was made again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct MadeFile {
    /// The file's name in the model.
    pub name: String,
    /// Its length in bytes, as it would be written.
    pub bytes: u64,
    /// Offset of the first byte that is another in the file that is there; `None` if there is none.
    pub differs_at: Option<u64>,
}

/// Does a conversion again and compares what it would write with the files of `made`.
///
/// # Errors
/// Any error from opening, planning and reading; Failed if the inputs are not those recorded.
pub fn reproduce(
    engine: &Engine,
    request: &Request,
    output: Output<'_>,
    made: &Made<'_>,
    scratch: &MakeScratch<'_>,
) -> Result<Vec<MadeFile>> {
    let request = Request { verify: VerifyMode::Off, ..request.clone() };
    let opened = Opened::new(engine, &request, true)?;
    let mut laid_out = LaidOut::plan(engine, &request, opened, output, &|it| Translated::new(it), true)?;
    if let Some(recorded) = &made.inputs {
        check_inputs(recorded, &laid_out.output.request.inputs).map_err(|e| request.of_source(e))?;
    }
    let mut files = Vec::new();
    for file in &laid_out.layout.files {
        let there = (made.file)(&file.name)?;
        files.push(Expected { name: file.name.clone(), there, differs_at: AtomicU64::new(u64::MAX) });
    }
    let sink = Comparing { files, scratch };
    let work = OutputWork { laid_out: &laid_out, quality: request.quality, sink: &sink, earlier: None };
    let payload = write(engine, work)?;
    let lengths = match finish(engine, &request, &mut laid_out, &sink, payload) {
        Ok(written) => written.lengths,
        // What is patched is computed from what is there: that it does not fit was to be expected.
        Err(_) if sink.differs() => laid_out.layout.files.iter().map(|file| file.len).collect(),
        Err(error) => return Err(error),
    };
    for (number, file) in laid_out.layout.files.iter().enumerate() {
        sink.files[number].compare_len(lengths[number]);
        for placed in &file.segments {
            if matches!(placed.segment, Segment::Pad { .. }) {
                sink.files[number].compare_zeros(placed.offset, placed.len)?;
            }
        }
    }
    let compared = sink.files.into_iter().zip(lengths).map(|(file, bytes)| {
        let at = file.differs_at.into_inner();
        MadeFile { name: file.name, bytes, differs_at: (at != u64::MAX).then_some(at) }
    });
    Ok(compared.collect())
}

/// Fails if the inputs do not have the sizes that a record names.
fn check_inputs(recorded: &[u64], found: &[u64]) -> Result<()> {
    if recorded == found {
        return Ok(());
    }
    let message = match recorded.iter().zip(found).position(|(recorded, found)| recorded != found) {
        _ if recorded.len() != found.len() => {
            format!("it has {}, but the model was made from {}", n_of(found.len(), "file"), recorded.len())
        }
        Some(n) => format!(
            "file {} has {} bytes, but the model was made from one of {}",
            n + 1,
            found[n],
            recorded[n]
        ),
        None => return Ok(()),
    };
    Err(Error::failed(message).hint(
        "pass the model that it was made from with --from; a file made from another APR file with other metadata or \
         compression keeps the record of that file",
    ))
}

/// A file that is there, and where it first differs.
struct Expected {
    name: String,
    there: Option<Arc<dyn Backing>>,
    differs_at: AtomicU64,
}

impl Expected {
    fn differs_from(&self, offset: u64) {
        self.differs_at.fetch_min(offset, Ordering::Relaxed);
    }

    fn compare(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let len = self.there.as_ref().map_or(0, |there| there.len());
        let n = usize::try_from(len.saturating_sub(offset)).unwrap_or(usize::MAX).min(bytes.len());
        if let Some(there) = self.there.as_ref().filter(|_| n > 0) {
            let mut held = vec![0; n];
            there.read_at(offset, &mut held).map_err(|e| e.in_file(self.name.clone()))?;
            if let Some(at) = held.iter().zip(bytes).position(|(there, made)| there != made) {
                self.differs_from(offset + at as u64);
                return Ok(());
            }
        }
        if n < bytes.len() {
            self.differs_from(len.max(offset));
        }
        Ok(())
    }

    fn compare_len(&self, made: u64) {
        let len = self.there.as_ref().map_or(0, |there| there.len());
        if self.there.is_none() || len != made {
            self.differs_from(len.min(made));
        }
    }

    /// Padding is not written: a new file is all zeros.
    fn compare_zeros(&self, offset: u64, len: u64) -> Result<()> {
        let zeros = [0; 4096];
        let mut at = 0;
        while at < len {
            let n = usize::try_from((len - at).min(zeros.len() as u64)).unwrap_or(zeros.len());
            self.compare(offset + at, &zeros[..n])?;
            at += n as u64;
        }
        Ok(())
    }
}

/// Compares instead of writing.
struct Comparing<'s> {
    files: Vec<Expected>,
    scratch: &'s MakeScratch<'s>,
}

impl Comparing<'_> {
    fn differs(&self) -> bool {
        self.files.iter().any(|file| file.differs_at.load(Ordering::Relaxed) != u64::MAX)
    }

    fn file(&self, number: usize) -> Result<&Expected> {
        self.files.get(number).ok_or_else(|| Error::plugin(format!("file {number} does not exist")))
    }
}

impl TileSink for Comparing<'_> {
    fn write_at(&self, file: usize, offset: u64, bytes: &[u8]) -> Result<()> {
        self.file(file)?.compare(offset, bytes)
    }

    fn set_len(&self, _file: usize, _len: u64) -> Result<()> {
        Ok(())
    }

    fn read_back(&self, file: usize) -> Result<Arc<dyn Backing>> {
        let file = self.file(file)?;
        let missing = || Error::not_found("no such file").in_file(file.name.clone());
        file.there.clone().ok_or_else(missing)
    }

    fn show(&self, file: usize) -> String {
        self.file(file).map(|file| file.name.clone()).unwrap_or_default()
    }

    fn scratch(&self, len: u64) -> Result<Box<dyn TileSink>> {
        (self.scratch)(len)
    }
}
