//! The report `check`: points of the specification's checklist that only this format can judge. Opening proves most of
//! them; the rest it accepts, so that a file with odd flags or padding can still be read.

use crate::file::section;
use crate::index::{self, Entry};
use crate::layout::{Footer, Header, flags};
use crate::reader::{header_of, open_shard};
use crate::sections::{behind_footer, undefined_in_header, undefined_in_index};
use apr_sdk::{FileId, Limits, Report, Result, Source, escape};
use serde_json::{Value as Json, json};

/// The report's id.
pub const REPORT: &str = "check";

/// The alignment of tensors in a file whose header promises none.
const DEFAULT_ALIGNMENT: u64 = 64;

/// Bytes of padding that are read of one file: 64 for each of a million tensors.
const MOST_PADDING: u64 = 64 << 20;

/// A point of the checklist.
struct Point {
    number: u8,
    /// The statement that is true of a file that passes.
    holds: &'static str,
    judged: Judged,
}

/// The way to judge a point.
#[derive(Clone, Copy)]
enum Judged {
    /// A file that breaks it is not opened.
    ByOpening,
    /// By a function that knows the exceptions, and by a note when the file is opened.
    AndNoted(Judge),
    /// By a function that knows the exceptions.
    Here(Judge),
}

type Judge = fn(&Sections<'_>) -> Result<Option<Exception>>;

/// Every point that this format states, by number.
const POINTS: [Point; 11] = [
    Point {
        number: 2,
        holds: "metadata, index and data lie where the 32-byte header says, in this order",
        judged: Judged::ByOpening,
    },
    Point {
        number: 5,
        holds: "the metadata is a JSON object with the required keys",
        judged: Judged::ByOpening,
    },
    Point {
        number: 6,
        holds: "every tensor has the alignment that the header promises, or 64",
        judged: Judged::Here(alignment),
    },
    Point { number: 7, holds: "the names in the index ascend", judged: Judged::ByOpening },
    Point {
        number: 10,
        holds: "header, index and footer agree when read as little-endian",
        judged: Judged::ByOpening,
    },
    Point { number: 11, holds: "no undefined flag is set", judged: Judged::AndNoted(undefined_flags) },
    Point {
        number: 12,
        holds: "`2RPA` stands where the index says that the data ends",
        judged: Judged::ByOpening,
    },
    Point { number: 13, holds: "the file ends with its footer", judged: Judged::AndNoted(length) },
    Point { number: 22, holds: "all padding is zero", judged: Judged::Here(padding) },
    Point { number: 23, holds: "the signature is valid", judged: Judged::AndNoted(signature) },
    Point { number: 24, holds: "all of it was decrypted", judged: Judged::AndNoted(encryption) },
];

/// The verdict on a file that does not simply pass, the worst last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Verdict {
    NotApplicable,
    NotMeasured,
    Warn,
}

impl Verdict {
    fn name(self) -> &'static str {
        match self {
            Verdict::NotApplicable => "not-applicable",
            Verdict::NotMeasured => "not-measured",
            Verdict::Warn => "warn",
        }
    }
}

/// The reason why a file does not simply pass a point.
struct Exception {
    verdict: Verdict,
    reason: String,
}

impl Exception {
    fn warn(reason: String) -> Exception {
        Exception { verdict: Verdict::Warn, reason }
    }
}

/// What is judged of one file.
struct Sections<'a> {
    source: &'a dyn Source,
    file: FileId,
    header: Header,
    entries: Vec<Entry>,
    footer_at: u64,
    len: u64,
}

impl<'a> Sections<'a> {
    /// Opens the file, which proves most points, and keeps its index.
    fn read(source: &'a dyn Source, file: FileId, limits: &Limits) -> Result<Sections<'a>> {
        let footer_at = open_shard(source, file, limits)?.footer_at();
        let header = header_of(source, file)?;
        let mut cursor = section(source, file, header.index_offset, header.index_size, limits)?;
        let (entries, _) = index::read(&mut cursor)?;
        Ok(Sections { source, file, header, entries, footer_at, len: source.len(file)? })
    }

    /// The offset of a tensor in the file.
    fn place(&self, entry: &Entry) -> u64 {
        u64::from(self.header.data_offset).saturating_add(entry.offset)
    }
}

/// Judges every point of the files that a model consists of, of which there are none in older layouts.
///
/// # Errors
/// As opening them; any error from reading.
pub fn report(source: &dyn Source, files: &[FileId], limits: &Limits) -> Result<Report> {
    let mut worst: Vec<Option<Exception>> = POINTS.iter().map(|_| None).collect();
    for &file in files {
        let sections = Sections::read(source, file, limits)?;
        for (point, worst) in POINTS.iter().zip(&mut worst) {
            let (Judged::Here(judge) | Judged::AndNoted(judge)) = point.judged else { continue };
            let Some(mut found) = judge(&sections)? else { continue };
            if worst.as_ref().is_some_and(|worst| worst.verdict >= found.verdict) {
                continue;
            }
            if files.len() > 1 {
                found.reason = format!("{}: {}", escape(&source.name(file), 120), found.reason);
            }
            *worst = Some(found);
        }
    }
    match files {
        [] => Ok(of(&[], "the file has an older layout, to which these points do not apply".to_owned())),
        _ => {
            let judged: Vec<_> = POINTS.iter().zip(&worst).collect();
            let lines: Vec<String> = judged.iter().map(|judged| line(*judged)).collect();
            Ok(of(&judged, lines.join("\n")))
        }
    }
}

/// A point and its exception, if there is one.
type Outcome<'a> = (&'a Point, &'a Option<Exception>);

fn of(judged: &[Outcome<'_>], text: String) -> Report {
    let warned = judged.iter().filter(|(point, _)| matches!(point.judged, Judged::Here(_)));
    let warned =
        warned.filter_map(|(_, found)| found.as_ref().filter(|found| found.verdict == Verdict::Warn));
    let findings: Vec<Json> =
        warned.map(|found| json!({ "severity": "warning", "message": found.reason })).collect();
    let points: Vec<Json> = judged
        .iter()
        .map(|outcome| {
            let (verdict, reason) = verdict(*outcome);
            json!({ "number": outcome.0.number, "verdict": verdict, "reason": reason })
        })
        .collect();
    let json = json!({ "schema": "apr.points/1", "points": points, "findings": findings });
    Report { text, json: json.to_string(), passed: true }
}

fn line(outcome: Outcome<'_>) -> String {
    let (verdict, reason) = verdict(outcome);
    format!("{:>2} {verdict}: {reason}", outcome.0.number)
}

/// The verdict's name, and its reason.
fn verdict<'a>((point, found): Outcome<'a>) -> (&'static str, &'a str) {
    found.as_ref().map_or(("pass", point.holds), |found| (found.verdict.name(), &found.reason))
}

fn alignment(sections: &Sections<'_>) -> Result<Option<Exception>> {
    // A file that breaks the promise of its header is not opened.
    if sections.header.alignment() > 1 {
        return Ok(None);
    }
    let is_off = |entry: &&Entry| entry.size > 0 && !sections.place(entry).is_multiple_of(DEFAULT_ALIGNMENT);
    let off = sections.entries.iter().filter(is_off).count();
    Ok(sections.entries.iter().find(is_off).map(|first| {
        Exception::warn(format!(
            "tensor `{}` starts at byte {}, which is not a multiple of {DEFAULT_ALIGNMENT} ({off} of {} tensors; the header \
             promises no alignment)",
            escape(&first.name, 120),
            sections.place(first),
            sections.entries.len()
        ))
    }))
}

fn undefined_flags(sections: &Sections<'_>) -> Result<Option<Exception>> {
    let found = [undefined_in_header(&sections.header), undefined_in_index(&sections.entries)];
    let found: Vec<String> = found.into_iter().flatten().collect();
    Ok((!found.is_empty()).then(|| Exception::warn(found.join("; "))))
}

fn length(sections: &Sections<'_>) -> Result<Option<Exception>> {
    Ok(behind_footer(sections.len, sections.footer_at + Footer::LEN).map(Exception::warn))
}

fn signature(sections: &Sections<'_>) -> Result<Option<Exception>> {
    Ok(Some(match sections.header.flags & flags::SIGNED {
        0 => Exception { verdict: Verdict::NotApplicable, reason: "the file is not signed".to_owned() },
        _ => Exception {
            verdict: Verdict::NotMeasured,
            reason: "checking signatures is not implemented yet".to_owned(),
        },
    }))
}

/// Encrypted files are not opened yet.
fn encryption(_: &Sections<'_>) -> Result<Option<Exception>> {
    let reason = "the file is not encrypted".to_owned();
    Ok(Some(Exception { verdict: Verdict::NotApplicable, reason }))
}

fn padding(sections: &Sections<'_>) -> Result<Option<Exception>> {
    let gaps = gaps(sections);
    let mut padding = Padding { sections, left: MOST_PADDING, buffer: [0; 4096] };
    let mut first = None;
    let mut n_dirty = 0;
    for &(start, end) in &gaps {
        let Some(found) = padding.first_nonzero(start, end)? else { continue };
        first.get_or_insert(found);
        n_dirty += 1;
    }
    if let Some((at, byte)) = first {
        let all = gaps.len();
        return Ok(Some(Exception::warn(format!(
            "byte {at} is padding but has the value {byte:#04x}, expected 0 ({n_dirty} of {all} gaps)"
        ))));
    }
    let all: u64 = gaps.iter().map(|(start, end)| end - start).sum();
    Ok((all > MOST_PADDING).then(|| {
        Exception::warn(format!(
            "{all} bytes are padding, more than any alignment requires; only the first {MOST_PADDING} were read"
        ))
    }))
}

/// Start and end of every gap between sections and tensors, in order.
fn gaps(sections: &Sections<'_>) -> Vec<(u64, u64)> {
    let Sections { header, entries, footer_at, .. } = sections;
    let mut taken = vec![
        (0, Header::LEN as u64),
        (u64::from(header.metadata_offset), u64::from(header.metadata_size)),
        (u64::from(header.index_offset), u64::from(header.index_size)),
        (*footer_at, Footer::LEN),
    ];
    taken.extend(entries.iter().map(|entry| (sections.place(entry), entry.size)).filter(|(_, len)| *len > 0));
    taken.sort_unstable();
    let mut gaps = Vec::new();
    let mut end = 0;
    for (start, len) in taken {
        if start > end {
            gaps.push((end, start));
        }
        end = end.max(start.saturating_add(len));
    }
    gaps
}

/// Reads padding, up to a limit.
struct Padding<'a> {
    sections: &'a Sections<'a>,
    left: u64,
    buffer: [u8; 4096],
}

impl Padding<'_> {
    /// The place and value of the first byte from `start` to `end` that is not zero.
    fn first_nonzero(&mut self, start: u64, end: u64) -> Result<Option<(u64, u8)>> {
        let Sections { source, file, .. } = self.sections;
        let mut at = start;
        while at < end && self.left > 0 {
            let len = (end - at).min(self.left).min(self.buffer.len() as u64);
            let piece = &mut self.buffer[..usize::try_from(len).unwrap_or(0)];
            source.read_at(*file, at, piece)?;
            if let Some((place, byte)) = (at..).zip(piece.iter()).find(|(_, byte)| **byte != 0) {
                return Ok(Some((place, *byte)));
            }
            at += len;
            self.left -= len;
        }
        Ok(None)
    }
}
