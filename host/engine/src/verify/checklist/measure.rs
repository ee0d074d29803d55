//! The measurements behind the points, and the conditions under which these apply. None knows a format.

use super::{Evidence, Measured, Point, Verdict};
use crate::sizes::show_size;
use crate::verify::encoded_tensors::n_encoded;
use crate::wording::n_of;
use apr_sdk::escape;
use serde::Deserialize;

/// Bytes from which on a header is huge.
const HUGE: u64 = 100_000_000;
/// The most dimensions of a tensor.
const MAX_DIMS: usize = 8;
/// The memory that opening may take: so many times the header, and so many bytes.
const OPENING: (u64, u64) = (16, 64 << 20);
/// Bytes that WebAssembly with 32-bit addresses can have.
const BROWSER: u64 = 4 << 30;

/// The condition under which a point applies.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Condition {
    /// The files store checksums.
    Checksums,
    /// Some payload is compressed or encoded.
    Encoded,
    /// The model has no tensors.
    NoTensors,
    /// Some tensor has no dimensions.
    Scalar,
    /// The model is in several files.
    SeveralFiles,
    /// More than 100 MB were read to open it.
    HugeHeader,
}

/// The way to judge a point that applies.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Measure {
    /// A file that fails is not opened.
    Opened,
    /// The format's own report says so.
    Stated,
    /// By comparing the stored checksums.
    Checksums,
    /// By decoding encoded payload.
    Payload,
    /// By counting dimensions.
    Dimensions,
    /// By the memory that opening may take.
    Browser,
}

impl Evidence<'_> {
    /// The reason why something under this condition does not apply, if it does not.
    pub(super) fn unless(&self, condition: Condition) -> Option<String> {
        let tensors = &self.opened.model.tensors;
        let files = self.opened.files().len();
        let header = self.header_bytes;
        let (applies, reason) = match condition {
            Condition::Checksums => {
                (!self.opened.model.checksums.is_empty(), "no checksum is stored".to_owned())
            }
            Condition::Encoded => (n_encoded(self.opened) > 0, "no payload is compressed".to_owned()),
            Condition::NoTensors => {
                (tensors.is_empty(), format!("the model has {}", n_of(tensors.len(), "tensor")))
            }
            Condition::Scalar => (
                tensors.iter().any(|tensor| tensor.shape.is_empty()),
                "every tensor has dimensions".to_owned(),
            ),
            Condition::SeveralFiles => (files > 1, "the model is one file".to_owned()),
            // How many bytes are read depends on the machine's pages.
            Condition::HugeHeader => (header > HUGE, format!("the header has at most {}", show_size(HUGE))),
        };
        (!applies).then_some(reason)
    }

    /// The verdict on a point that applies, and its reason.
    pub(super) fn measure(&self, point: &Point) -> (Verdict, String) {
        match point.measure {
            Measure::Opened => (Verdict::Pass, "proved by opening".to_owned()),
            Measure::Stated => match self.stated.iter().find(|stated| stated.number == point.number) {
                Some(stated) => (stated.verdict, escape(&stated.reason, 600)),
                None => {
                    let format = &self.opened.format;
                    let reason = format!("the plugin for `{format}` states nothing about it");
                    (Verdict::NotApplicable, reason)
                }
            },
            Measure::Checksums => match &self.checksums {
                Some(measured) => verdict(measured, "stored checksum", "matches", "match"),
                None => (Verdict::NotMeasured, "pass --checksum".to_owned()),
            },
            Measure::Payload => self.payload(),
            Measure::Dimensions => self.dimensions(),
            Measure::Browser => browser(self.header_bytes),
        }
    }

    fn payload(&self) -> (Verdict, String) {
        match (&self.payload, n_encoded(self.opened)) {
            (_, 0) => (Verdict::Pass, "every payload is inside its file".to_owned()),
            (Some(measured), _) => verdict(measured, "encoded tensor", "decodes", "decode"),
            (None, n) => {
                let reason = format!("pass --checksum to decode {}", n_of(n, "encoded tensor"));
                (Verdict::NotMeasured, reason)
            }
        }
    }

    fn dimensions(&self) -> (Verdict, String) {
        let most = self.opened.model.tensors.iter().max_by_key(|tensor| tensor.shape.len());
        let Some(most) = most else { return (Verdict::Pass, "the model has no tensors".to_owned()) };
        let n = most.shape.len();
        match n > MAX_DIMS {
            true => {
                let name = escape(&most.name, 120);
                (Verdict::Warn, format!("`{name}` has {n} dimensions, more than {MAX_DIMS}"))
            }
            false => (Verdict::Pass, format!("at most {}", n_of(n, "dimension"))),
        }
    }
}

fn verdict(measured: &Measured, what: &str, one: &str, several: &str) -> (Verdict, String) {
    match &measured.wrong {
        Some(wrong) => (Verdict::Fail, wrong.clone()),
        None => {
            let verb = if measured.count == 1 { one } else { several };
            (Verdict::Pass, format!("{} {verb}", n_of(measured.count, what)))
        }
    }
}

/// Judges whether a file with a header of so many bytes can be opened in a browser.
fn browser(header: u64) -> (Verdict, String) {
    let (times, more) = OPENING;
    let need = header.saturating_mul(times).saturating_add(more);
    match need <= BROWSER {
        true => (Verdict::Pass, "the header is small enough".to_owned()),
        false => {
            let (need, most) = (show_size(need), show_size(BROWSER));
            (Verdict::Warn, format!("opening may take {need}, but a browser has at most {most}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_browser_opens_headers_up_to_its_memory() {
        let most = (BROWSER - OPENING.1) / OPENING.0;
        assert_eq!(browser(0).0, Verdict::Pass);
        assert_eq!(browser(most).0, Verdict::Pass);
        assert_eq!(browser(most + 1).0, Verdict::Warn);
        assert_eq!(browser(u64::MAX).0, Verdict::Warn);
    }
}
