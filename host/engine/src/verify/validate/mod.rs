//! Judges one file: is it consistent, and are its stored checksums right?

mod own_check;
mod payload;
mod tokenizer;

use crate::architecture::{incomplete, not_understood};
use crate::contract::Severity;
use crate::engine::Engine;
use crate::open::OpenedModel;
use crate::verify::checklist::{Evidence, Judged, Verdict};
use crate::verify::encoded_tensors::n_encoded;
use crate::wording::n_of;
use apr_sdk::{ErrorKind, Result};
use own_check::own_check;
use serde::Serialize;

/// Checks to make beyond what opening has proved.
#[derive(Clone, Copy, Debug, Default)]
pub struct ValidateOptions {
    /// Compute the checksums that the files store, which reads everything they cover.
    pub checksum: bool,
    /// Examine the values, which reads all payload.
    pub values: bool,
    /// Count warnings as failures.
    pub strict: bool,
    /// Judge every point of the specification's checklist.
    pub points: bool,
}

/// Something that was found, good or bad.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// The severity.
    pub severity: Severity,
    /// The stable code, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// The finding, in one sentence.
    pub message: String,
}

/// The verdict on a file.
#[derive(Clone, Debug, Serialize)]
pub struct Validation {
    /// `apr.validate/1`.
    pub schema: &'static str,
    /// The file, as typed.
    pub file: String,
    /// The id of its format.
    pub format: String,
    /// Everything that was found, including what is right.
    pub findings: Vec<Finding>,
    /// The points of the specification's checklist, if they were judged.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub points: Option<Vec<Judged>>,
    /// True if the file passed.
    pub ok: bool,
}

/// Judges an opened model.
///
/// # Errors
/// Any error from reading; a negative verdict is not an error.
pub fn validate(engine: &Engine, opened: &OpenedModel, options: ValidateOptions) -> Result<Validation> {
    let header_bytes = opened.header_bytes();
    if options.checksum || options.values {
        opened.will_read_payload()?;
    }
    let mut findings = vec![Finding { severity: Severity::Ok, code: None, message: structure(opened) }];
    findings.extend(opened.warnings.iter().chain(&opened.model.notes).map(|note| warning(note.clone())));
    findings.extend(incomplete(engine, opened, None).map(warning));
    let own = own_check(engine, opened)?;
    findings.extend(own.findings);
    match opened.tokenizer(engine) {
        Err(error) if matches!(error.kind(), ErrorKind::Io | ErrorKind::Cancelled) => return Err(error),
        Err(error) => findings.push(warning(not_understood(&error))),
        Ok(Some(json)) => {
            findings.extend(tokenizer::findings(engine, opened, &json)?.into_iter().map(warning))
        }
        Ok(None) => {}
    }
    let mut evidence = Evidence { opened, header_bytes, stated: &own.stated, checksums: None, payload: None };
    let mut undecodable = Vec::new();
    if options.checksum {
        evidence.checksums = Some(payload::checksums(engine, opened, &mut findings)?);
        let (measured, wrong) = payload::encoded(engine, opened, &mut findings)?;
        evidence.payload = Some(measured);
        undecodable = wrong;
    }
    if options.values {
        payload::values(engine, opened, &undecodable, &mut findings)?;
    }
    opened.files.refuse_changed()?;
    let points = options.points.then(|| evidence.judge()).transpose()?;
    let worst = if options.strict { Severity::Warning } else { Severity::Error };
    let warned = points.iter().flatten().any(|point| point.verdict == Verdict::Warn);
    let is_bad = findings.iter().any(|f| f.severity == Severity::Error || f.severity == worst);
    Ok(Validation {
        schema: "apr.validate/1",
        file: opened.path.display().to_string(),
        format: opened.format.clone(),
        ok: !(is_bad || options.strict && warned),
        findings,
        points,
    })
}

/// Says what opening has proved.
fn structure(opened: &OpenedModel) -> String {
    let n = opened.model.tensors.len();
    let encoded = n_encoded(opened);
    let raw = n.saturating_sub(encoded);
    let proved = "inside its file and of the size required by its shape";
    let all = n_of(n, "tensor");
    match (encoded, raw) {
        (0, _) => format!("structure: {all}, every payload {proved}"),
        (_, 0) => format!("structure: {all}, all encoded: only decoding proves their payload"),
        (_, 1) => format!(
            "structure: {all}, 1 payload {proved}, {encoded} encoded: only decoding proves their payload"
        ),
        _ => format!(
            "structure: {all}, {raw} payloads {proved}, {encoded} encoded: only decoding proves their payload"
        ),
    }
}

fn warning(message: String) -> Finding {
    Finding { severity: Severity::Warning, code: None, message }
}
