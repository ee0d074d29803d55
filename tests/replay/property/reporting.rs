//! Reports on any bytes: one that is fit to print, the same each time, or a refusal with its place.

use super::arrange::Arrangement;
use super::errors::{check_refusal, check_shown};
use super::lent::Lent;
use super::{Subject, memory};
use apr_sdk::{Budget, Limits, Options, Report, Result};
use apr_testkit::{MeteringSource, read_with_parts};
use serde_json::Value as Json;
use std::time::{Duration, Instant};

/// The longest one report may take, as for opening.
const LONGEST: Duration = Duration::from_secs(5);

/// Memory that a report takes whatever the file is: what it lists is capped, but much larger than what it was read from.
const FIXED: u64 = 16 << 20;

/// Every report of the format; a model that opens has them all. Gives whether all were made.
pub fn check(subject: &Subject, input: &[u8]) -> bool {
    let name = format!("model.{}", subject.manifest.extensions[0]);
    let alone = Arrangement { files: vec![(name, input.to_vec())], folder: false };
    let budget = Budget::default();
    let source = Lent::new(&alone, &budget);
    let opens = read_with_parts(&*subject.reader, subject.id(), &source, &subject.options(false)).is_ok();
    let mut all = true;
    for (id, _) in &subject.manifest.reports {
        match make(subject, &alone, id) {
            Ok(report) => {
                check_report(id, &report);
                assert_eq!(make(subject, &alone, id).ok(), Some(report), "`{id}` changes");
            }
            Err(error) => {
                check_refusal(id, &error);
                assert!(!opens, "it opens, but `{id}` refuses: {error}");
                all = false;
            }
        }
    }
    all
}

fn make(subject: &Subject, alone: &Arrangement, id: &str) -> Result<Report> {
    let limits = Limits::default();
    let source = Lent::new(alone, &limits.budget);
    let source = MeteringSource::new(&source);
    let start = Instant::now();
    let (report, peak) = memory::peak(|| subject.reader.report(id, &source, &limits, &Options::new()));
    let (read, took) = (source.bytes_read(), start.elapsed());
    assert!(took < LONGEST, "`{id}` took {} s", took.as_secs());
    let allowed = FIXED + Budget::PER_BYTE * read;
    assert!(peak <= allowed, "`{id}`: {peak} bytes of memory for {read} that were read, at most {allowed}");
    report
}

fn check_report(id: &str, report: &Report) {
    for line in report.text.split('\n') {
        check_shown(id, line);
    }
    let json: Json = serde_json::from_str(&report.json).unwrap_or_else(|e| panic!("`{id}`: {e}"));
    assert!(json["schema"].is_string(), "`{id}` has no schema: {json}");
}
