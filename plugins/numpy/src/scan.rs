//! The report `scan`: the arrays of Python objects, each of which is a pickle that NumPy runs if it is told to load
//! it (`allow_pickle=True`).

use crate::array::Array;
use crate::header::Header;
use crate::layout::{MAGIC, NPY, NPZ, SUFFIX};
use apr_sdk::{Error, ErrorKind, Extent, Limits, Options, Report, Result, Source, escape};
use apr_zip::{Archive, Entry, Inflate, Method};
use serde_json::json;

/// Arrays that the report lists. 10,000: no model has more, an archive may.
const LISTED: usize = 10_000;

/// The report of a file, or of an archive.
///
/// # Errors
/// Malformed for a file without the magic of an array; LimitExceeded; any error from the source.
pub fn report(archive: bool, source: &dyn Source, limits: &Limits, options: &Options) -> Result<Report> {
    let mut scan = Scan { source, limits, options, n_arrays: 0, bad: Vec::new(), n_bad: 0, dangerous: false };
    if archive {
        scan.archive()?;
    } else {
        let len = source.len(0)?;
        let mut magic = [0; MAGIC.len()];
        if len >= magic.len() as u64 {
            source.read_at(0, 0, &mut magic)?;
        }
        if magic != MAGIC {
            return Err(Error::malformed("the magic of an array file is missing").at(0));
        }
        let judged = judge_stored(source, Extent::new(0, 0, len), limits, options);
        scan.add(&source.name(0), 0, judged)?;
    }
    Ok(scan.report(if archive { NPZ } else { NPY }))
}

/// The arrays that were not safe.
struct Scan<'a> {
    source: &'a dyn Source,
    limits: &'a Limits,
    options: &'a Options,
    n_arrays: u64,
    /// The first of them: name, offset, what is wrong.
    bad: Vec<(String, u64, String)>,
    n_bad: u64,
    dangerous: bool,
}

impl Scan<'_> {
    fn archive(&mut self) -> Result<()> {
        let archive = Archive::open(self.source, 0, self.limits)?;
        for entry in archive.entries() {
            let judged = match is_named_pickle(&entry.name) {
                // NumPy gives its bytes, but another library may load the same file by this entry.
                true => Err(Error::unsupported("its name is that of a pickle, which is not scanned here")),
                false => judge_entry(self.source, entry, self.limits, self.options),
            };
            let name = entry.name.strip_suffix(SUFFIX).unwrap_or(&entry.name);
            self.add(name, entry.data.offset, judged)?;
        }
        Ok(())
    }

    fn add(&mut self, name: &str, at: u64, judged: Result<bool>) -> Result<()> {
        self.n_arrays += 1;
        let why = match judged {
            Ok(false) => return Ok(()),
            Ok(true) => {
                self.dangerous = true;
                "its elements may be Python objects, which are pickled".to_owned()
            }
            Err(error) if matches!(error.kind(), ErrorKind::Io | ErrorKind::Cancelled) => return Err(error),
            Err(error) => format!("broken: {}", error.message()),
        };
        self.n_bad += 1;
        if self.bad.len() < LISTED {
            self.limits.budget.charge((name.len() + why.len() + 64) as u64)?;
            self.bad.push((escape(name, 120), at, why));
        }
        Ok(())
    }

    fn report(&self, format: &str) -> Report {
        let passed = self.n_bad == 0;
        let (verdict, why) = match (self.dangerous, passed) {
            (true, _) => ("dangerous", "loading it elsewhere with allow_pickle=True would run code"),
            (false, true) => ("safe", "no array holds Python objects"),
            (false, false) => ("broken", "no Python objects were found, but not everything could be read"),
        };
        let mut lines: Vec<_> =
            self.bad.iter().map(|(name, at, why)| format!("{name} at {at}: {why}")).collect();
        lines.push(format!("verdict: {verdict}: {why}"));
        let bad: Vec<_> = self
            .bad
            .iter()
            .map(|(name, at, why)| json!({"name": name, "offset": at, "problem": why}))
            .collect();
        let json = json!({
            "schema": format!("{format}.scan/1"),
            "verdict": verdict,
            "entries": self.n_arrays,
            "problems": self.n_bad,
            "arrays": bad,
        });
        Report { text: lines.join("\n"), json: json.to_string(), passed }
    }
}

/// Whether an entry is named like a pickle instead of an array.
fn is_named_pickle(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    [".pkl", ".pickle", ".p", ".joblib", ".dill"].iter().any(|ext| name.ends_with(ext))
}

/// Whether a stored array may hold objects.
fn judge_stored(source: &dyn Source, extent: Extent, limits: &Limits, options: &Options) -> Result<bool> {
    let (mut at, end) = (extent.offset, extent.end().unwrap_or(u64::MAX));
    let fill = |out: &mut [u8]| {
        let len = out.len() as u64;
        if len > end - at {
            return Err(Error::malformed(format!("expected {len} bytes, only {} are left", end - at)).at(at));
        }
        source.read_at(extent.file, at, out)?;
        limits.budget.earn(len);
        at += len;
        Ok(())
    };
    let (text, _) = Header::text(fill, extent.offset, limits)?;
    judge(&text, Array::stored(source, String::new(), extent, limits, options))
}

/// Whether an archive's entry is an array that may hold objects.
fn judge_entry(source: &dyn Source, entry: &Entry, limits: &Limits, options: &Options) -> Result<bool> {
    match Array::of_entry(source, entry, limits, options) {
        Ok(_) => return Ok(false),
        Err(error) if matches!(error.kind(), ErrorKind::Io | ErrorKind::Cancelled) => return Err(error),
        Err(_) => {}
    }
    if entry.method == Method::Stored {
        return judge_stored(source, entry.data, limits, options);
    }
    let mut inflate = Inflate::new(entry);
    let fill = |out: &mut [u8]| {
        limits.budget.earn(out.len() as u64);
        inflate.fill(source, out)
    };
    let (text, _) = Header::text(fill, entry.data.offset, limits)?;
    judge(&text, Array::deflated(source, String::new(), entry, limits, options))
}

/// Whether an array with this header may hold objects. No other type's spelling has an `O`, and a record's field that
/// is named with one is better suspected than overlooked; so is what an escape may spell.
fn judge(text: &[u8], read: Result<Array>) -> Result<bool> {
    let Err(error) = read else { return Ok(false) };
    let suspect =
        text.iter().any(|byte| b"O\\".contains(byte)) || text.windows(6).any(|word| word == b"object");
    match error.kind() {
        _ if suspect => Ok(true),
        // Strings, dates and records of numbers are no tensors, but no code either.
        ErrorKind::Unsupported => Ok(false),
        _ => Err(error),
    }
}
