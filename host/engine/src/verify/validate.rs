//! Judges one file: is it consistent, and are its stored checksums right?

use crate::architecture::{incomplete, not_understood, tensor_specs};
use crate::contract::Severity;
use crate::engine::Engine;
use crate::open::reports::{declares, report};
use crate::open::stored_sums::{StoredSum, decoded};
use crate::open::{OpenOptions, OpenedModel};
use crate::types::token_rows;
use crate::verify::stats::{RowOptions, each_row};
use crate::wording::n_of;
use apr_sdk::tokenizer::Tokenizer;
use apr_sdk::{Bytes, Coding, ErrorKind, Extent, Result, escape};
use crc32fast::Hasher;
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
}

/// Something that was found, good or bad.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// The severity.
    pub severity: Severity,
    /// The stable code, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<&'static str>,
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
    /// True if the file passed.
    pub ok: bool,
}

/// Judges an opened model.
///
/// # Errors
/// Any error from reading; a negative verdict is not an error.
pub fn validate(engine: &Engine, opened: &OpenedModel, options: ValidateOptions) -> Result<Validation> {
    if options.checksum || options.values {
        opened.will_read_payload()?;
    }
    let n = opened.model.tensors.len();
    let mut findings = vec![Finding {
        severity: Severity::Ok,
        code: None,
        message: format!(
            "structure: {}, every payload inside its file and of the size required by its shape",
            n_of(n, "tensor")
        ),
    }];
    findings.extend(opened.warnings.iter().chain(&opened.model.notes).map(|note| warning(note.clone())));
    findings.extend(incomplete(engine, opened, None).map(warning));
    findings.extend(own_check(engine, opened)?);
    match opened.tokenizer(engine) {
        Err(error) if matches!(error.kind(), ErrorKind::Io | ErrorKind::Cancelled) => return Err(error),
        Err(error) => findings.push(warning(not_understood(&error))),
        Ok(Some(json)) => findings.extend(of_tokenizer(engine, opened, &json)?.into_iter().map(warning)),
        Ok(None) => {}
    }
    if options.checksum {
        checksums(engine, opened, &mut findings)?;
    }
    if options.values {
        values(engine, opened, &mut findings)?;
    }
    opened.files.refuse_changed()?;
    let worst = if options.strict { Severity::Warning } else { Severity::Error };
    let is_bad = findings.iter().any(|f| f.severity == Severity::Error || f.severity == worst);
    Ok(Validation {
        schema: "apr.validate/1",
        file: opened.path.display().to_string(),
        format: opened.format.clone(),
        ok: !is_bad,
        findings,
    })
}

fn warning(message: String) -> Finding {
    Finding { severity: Severity::Warning, code: None, message }
}

/// What a tokenizer says in two ways, or of ids that no token has, and the ids that the embedding has no row for.
fn of_tokenizer(engine: &Engine, opened: &OpenedModel, json: &Bytes) -> Result<Vec<String>> {
    let json = opened.fetch(json)?;
    let tokenizer = match Tokenizer::from_json(json.inline().unwrap_or_default()) {
        Ok(tokenizer) => tokenizer,
        Err(error) => return Ok(vec![not_understood(&error)]),
    };
    let mut messages: Vec<String> = tokenizer.notes.iter().map(|note| escape(note, MAX_NOTE)).collect();
    // Of tensors that no table describes, none is known to be the embedding.
    match tensor_specs(engine, &opened.model, None) {
        Err(error) if matches!(error.kind(), ErrorKind::Io | ErrorKind::Cancelled) => return Err(error),
        Err(_) => {}
        Ok(specs) => messages.extend(
            token_rows::embedding(&opened.model, &specs)
                .and_then(|(tensor, rows)| beyond_rows(&tokenizer, &tensor.name, rows)),
        ),
    }
    Ok(messages)
}

/// Says that tokens, or ids with a purpose, have no row among the `rows` of the embedding.
fn beyond_rows(tokenizer: &Tokenizer, embedding: &str, rows: u64) -> Option<String> {
    let unk = tokenizer.unk.map(|id| ("unk", id));
    let ends = tokenizer.ends.iter().map(|id| ("eos", *id));
    let special = tokenizer.special.iter().map(|(name, id)| (name.as_str(), *id)).chain(unk).chain(ends);
    let special: Vec<String> = special
        .filter(|(_, id)| u64::from(*id) >= rows)
        .map(|(name, id)| format!("`{}` ({id})", escape(name, 40)))
        .take(MAX_NAMED)
        .collect();
    let mut tokens = tokenizer.each().filter(|(id, _)| u64::from(*id) >= rows);
    let first = tokens.next().map(|(id, text)| {
        format!("{} (the first is {id} `{}`)", n_of(1 + tokens.count(), "token"), escape(text, 60))
    });
    let special = (!special.is_empty()).then(|| special.join(", "));
    let beyond = match (first, special) {
        (Some(first), Some(special)) => format!("{first}, nor for {special}"),
        (first, special) => first.or(special)?,
    };
    let embedding = escape(embedding, 120);
    Some(format!(
        "the embedding `{embedding}` has {}, but none for {beyond}",
        n_of(usize::try_from(rows).unwrap_or(usize::MAX), "row")
    ))
}

/// How many names are listed in a finding. 8: there are seven usual purposes of tokens.
const MAX_NAMED: usize = 8;

/// The longest note that is shown, in characters. 600: those of the plugins are shorter.
const MAX_NOTE: usize = 600;

/// The report of formats that can say more about a file than opening reveals.
const CHECK: &str = "check";

/// The findings of the format's own report on the file, if it has one.
fn own_check(engine: &Engine, opened: &OpenedModel) -> Result<Vec<Finding>> {
    if !declares(engine.registry.format(&opened.format)?, CHECK) {
        return Ok(Vec::new());
    }
    let options = OpenOptions { from: Some(opened.format.clone()), bare: true, ..OpenOptions::default() };
    let report = report(engine, &opened.path, CHECK, &options)?;
    let severity = if report.passed { Severity::Ok } else { Severity::Error };
    let lines = report.text.lines();
    Ok(lines.map(|line| Finding { severity, code: None, message: format!("{CHECK}: {line}") }).collect())
}

fn checksums(engine: &Engine, opened: &OpenedModel, findings: &mut Vec<Finding>) -> Result<()> {
    if opened.model.checksums.is_empty() {
        let message = format!("checksum: `{}` files store none, so nothing was compared", opened.format);
        findings.push(Finding { severity: Severity::Ok, code: None, message });
    }
    for (number, checksum) in opened.model.checksums.iter().enumerate() {
        let computed = match checksum.coding {
            Coding::Raw => crc32(engine, opened, checksum.covers)?,
            _ => decoded(engine, opened, number)?,
        };
        let sum = StoredSum::new(opened, number, computed)?;
        let (severity, code) =
            if sum.is_right() { (Severity::Ok, None) } else { (Severity::Error, Some("E004")) };
        findings.push(Finding { severity, code, message: sum.finding() });
    }
    Ok(())
}

fn crc32(engine: &Engine, opened: &OpenedModel, extent: Extent) -> Result<u32> {
    let mut hasher = Hasher::new();
    let mut buffer = vec![0; 1 << 20];
    let mut at = 0;
    while at < extent.len {
        engine.check_cancelled()?;
        let n = usize::try_from((extent.len - at).min(buffer.len() as u64)).unwrap_or(0);
        opened
            .files
            .read_at(extent.file, extent.offset + at, &mut buffer[..n])
            .map_err(|e| opened.files.show(e))?;
        hasher.update(&buffer[..n]);
        at += n as u64;
    }
    Ok(hasher.finalize())
}

fn values(engine: &Engine, opened: &OpenedModel, findings: &mut Vec<Finding>) -> Result<()> {
    let n_tensors = opened.model.tensors.len();
    let mut unread = 0;
    let mut nonfinite = 0;
    each_row(engine, opened, RowOptions { sha256: false, stats: true }, &mut |row| match &row.stats {
        Some(stats) if stats.nans + stats.infs > 0 => {
            let name = escape(&row.name, 120);
            let message = format!(
                "values: {name} has {} NaN and {} infinite values of {}",
                stats.nans, stats.infs, stats.count
            );
            findings.push(warning(message));
            nonfinite += 1;
        }
        Some(_) => {}
        None => unread += 1,
    })?;
    let mut message = format!("values: {} tensors read", n_tensors - unread);
    if unread > 0 {
        message += &format!(", {unread} not read: no quantizer plugin can decode their types");
    }
    if nonfinite > 0 {
        message += &format!(", {} of them without NaN or infinity", n_tensors - unread - nonfinite);
    }
    findings.push(Finding { severity: Severity::Ok, code: None, message });
    Ok(())
}
