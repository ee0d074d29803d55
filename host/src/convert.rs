//! Converting a model: open, plan, write, verify, publish.

use crate::changed;
pub use crate::changed::ChangedTensor;
use crate::contract::{Looked, Watch, summary};
use crate::coverage::Coverage;
use crate::finish::{WrittenOutput, finish, write_inline};
use crate::host::Host;
use crate::journal::Journal;
use crate::journaling::Journaling;
use crate::layout::Segment;
use crate::loss::{Losses, Quantized};
use crate::making::copies;
use crate::pipeline::{self, Job};
use crate::plan::Plan;
pub use crate::prepare::Remake;
use crate::prepare::{Prepared, prepare, versions};
use crate::publish::outlook::{Outlook, foresee, foretell, outlook};
use crate::publish::{Finished, Wishes, finish_before};
pub use crate::request::ConvertOptions;
use crate::sink::Staging;
use crate::tile::Tiles;
use crate::tile_sums::TileSums;
use crate::witness::taken_over;
use crate::wording::hex;
use apr_sdk::{Error, ErrorKind, LogLevel, Result};
use serde::Serialize;
use sha2::{Digest, Sha256};
use std::path::PathBuf;
use std::time::Instant;

/// What a conversion did.
#[derive(Clone, Debug, Serialize)]
pub struct Converted {
    /// `apr.convert/1`.
    pub schema: &'static str,
    /// The input as typed.
    pub input: String,
    /// The input's format.
    pub from: String,
    /// The output's format.
    pub to: String,
    /// The files that were written.
    pub files: Vec<ConvertedFile>,
    /// How many tensors.
    pub tensors: usize,
    /// Bytes of all files.
    pub bytes: u64,
    /// Wall time.
    pub seconds: f64,
    /// What was proved.
    pub verified: Vec<String>,
    /// Tensors with values that a cast or an addition could not keep.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<ChangedTensor>,
    /// How far quantized tensors are from what they were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub quantized: Option<Quantized>,
    /// Where everything of the source went.
    pub coverage: Coverage,
    /// What was found in the values and shapes of the tensors on their way.
    pub looked: Looked,
    /// What was assumed, changed or not carried.
    pub notes: Vec<String>,
    /// What the user should look at.
    pub warnings: Vec<String>,
}

/// A file that was written.
#[derive(Clone, Debug, Serialize)]
pub struct ConvertedFile {
    /// Its path.
    pub path: String,
    /// Its length in bytes.
    pub bytes: u64,
}

/// Says what a conversion would do.
///
/// # Errors
/// As [`convert`], but nothing is written.
pub fn plan(host: &Host, options: &ConvertOptions) -> Result<Plan> {
    plan_as(host, options, &|source, _| copies(&source.model))
}

/// Says what the conversion to a model made anew would do.
///
/// # Errors
/// As [`plan`]; what `remake` raises.
pub fn plan_as(host: &Host, options: &ConvertOptions, remake: &Remake<'_>) -> Result<Plan> {
    let prepared = prepare(host, options, remake, false)?;
    let outlook = foretell(host, &prepared, options.force)?;
    let mut plan = prepared.plan;
    plan.notes.extend(outlook.notes(false));
    plan.warnings.extend(outlook.warnings);
    Ok(plan)
}

/// Converts a model.
///
/// # Errors
/// Whatever opening, planning, writing and verifying raise. Then nothing is under the output's name but what was there.
pub fn convert(host: &Host, options: &ConvertOptions) -> Result<Converted> {
    convert_as(host, options, &|source, _| copies(&source.model))
}

/// Converts a model into one made anew: `remake` changes the source's model into it, and says how each of its tensors is
/// made.
///
/// # Errors
/// As [`convert`]; what `remake` raises.
pub fn convert_as(host: &Host, options: &ConvertOptions, remake: &Remake<'_>) -> Result<Converted> {
    let began = Instant::now();
    let finished = finish_before(host, options)?;
    let prepared = prepare(host, options, remake, true)?;
    let Prepared { source, output, layout, .. } = &prepared;
    if let Some(finished) = finished {
        host.progress.log(LogLevel::Warning, &finished.to_string());
        if finished.work == work_digest(host, &prepared)? {
            return Ok(put_in_place(prepared, &finished, began));
        }
    }
    let identities: Vec<_> = source.files.all().iter().map(|f| f.identity).collect();
    if options.resume {
        // A wrong --resume must not cost what is there, nor leave anything.
        Journal::records(&output.target.beside(".apr-journal"), &describe_work(host, &prepared)?)?;
    }
    let mut staging =
        Staging::create(host, output.target.clone(), layout, &identities, options.force, options.resume)?;
    let written = match write(host, options, (&prepared, began), &mut staging) {
        Ok(written) => written,
        Err((error, keep)) => {
            if keep {
                staging.keep();
                return Err(error.hint("run it again with --resume: what is finished is kept"));
            }
            return Err(error);
        }
    };
    let (finals, outlook) = publish(host, options, &prepared, staging)?;
    let files = finals
        .iter()
        .zip(&written.lengths)
        .map(|(path, &bytes)| ConvertedFile { path: output.target.show(path), bytes })
        .collect();
    let Prepared { source, model, plan, output, coverage, findings, .. } = prepared;
    let looked = written.looked.behind(findings);
    let mut warnings = source.warnings;
    warnings.extend(plan.warnings);
    warnings.extend(summary(&looked.findings));
    let mut notes = plan.notes;
    notes.extend(outlook.notes(true));
    warnings.extend(outlook.warnings);
    notes.extend(changed::notes(&written.changed));
    if !written.dropped.is_empty() {
        notes.push(format!("metadata keys not in the output: {}", written.dropped.join(", ")));
    }
    Ok(Converted {
        schema: "apr.convert/1",
        input: plan.input,
        from: plan.from,
        to: output.format.id().to_owned(),
        files,
        tensors: model.tensors.len(),
        bytes: written.lengths.iter().sum(),
        seconds: began.elapsed().as_secs_f64(),
        verified: written.proved,
        changed: written.changed,
        quantized: written.quantized,
        coverage,
        looked,
        notes,
        warnings,
    })
}

/// Gives the staged files their names; also says what that means for others in the folder.
fn publish(
    host: &Host,
    options: &ConvertOptions,
    prepared: &Prepared<'_>,
    mut staging: Staging,
) -> Result<(Vec<PathBuf>, Outlook)> {
    let published = outlook(host, prepared, &staging, options.force).and_then(|outlook| {
        // One rename needs no record.
        let alone = staging.files.len() == 1 || !prepared.output.target.is_within();
        let work = if alone { String::new() } else { work_digest(host, prepared)? };
        let wishes = Wishes { force: options.force, removing: outlook.removing(), work };
        Ok((staging.publish(&wishes)?, outlook))
    });
    let is_kept = staging.is_kept();
    published.map_err(|error| {
        if is_kept || !prepared.output.target.beside(".apr-journal").exists() {
            return error;
        }
        // Hours of work are not thrown away for a file in the way.
        staging.keep();
        error.cause("what was written is kept: run the same command with --resume to go on")
    })
}

/// What is said of a conversion that had only been stopped while its files were put in place.
fn put_in_place(prepared: Prepared<'_>, finished: &Finished, began: Instant) -> Converted {
    let Prepared { source, model, plan, output, layout, coverage, findings, .. } = prepared;
    let finals = output.target.finals(&layout);
    let length = |path: &PathBuf| std::fs::metadata(path).map_or(0, |meta| meta.len());
    let files: Vec<_> = finals
        .iter()
        .map(|path| ConvertedFile { path: output.target.show(path), bytes: length(path) })
        .collect();
    let mut notes = plan.notes;
    notes.push(finished.to_string());
    Converted {
        schema: "apr.convert/1",
        input: plan.input,
        from: plan.from,
        to: output.format.id().to_owned(),
        tensors: model.tensors.len(),
        bytes: files.iter().map(|file| file.bytes).sum(),
        files,
        seconds: began.elapsed().as_secs_f64(),
        verified: vec!["before it was stopped".to_owned()],
        changed: Vec::new(),
        quantized: None,
        coverage,
        looked: Looked::default().behind(findings),
        notes,
        warnings: source.warnings,
    }
}

/// Fills the staged files. An error says whether what is finished is to be kept.
fn write(
    host: &Host,
    options: &ConvertOptions,
    (prepared, began): (&Prepared<'_>, Instant),
    staging: &mut Staging,
) -> std::result::Result<WrittenOutput, (Error, bool)> {
    let discard = |e: Error| (e, false);
    let Prepared { source, model, output, layout, workings, .. } = prepared;
    let tiles = Tiles::new(layout, model, &workings.portions).map_err(discard)?;
    let sums = TileSums::new(&tiles);
    let watch = Watch::new(model, &tiles, prepared.concerns.clone(), options.quality());
    let journal_path = output.target.beside(".apr-journal");
    let begin = || Journal::create(&journal_path, &describe_work(host, prepared)?, tiles.count);
    let journaling = Journaling::new(began, host.journal_interval, &begin);
    let stopped = |e: Error| {
        let keep = journaling.is_begun() && e.kind() == ErrorKind::Cancelled;
        (e, keep)
    };
    if options.resume {
        let work = describe_work(host, prepared).map_err(discard)?;
        let resumed = Journal::resume(&journal_path, &work, (&tiles, &watch), &staging.files, &sums);
        journaling.take_up(resumed.map_err(|e| (e, true))?);
        taken_over(source, &tiles, &sums);
    } else if tiles.bytes >= host.journal_bytes {
        journaling.begin().map_err(discard)?;
    }
    write_inline(layout, &staging.files, options.resume).map_err(|e| (e, options.resume))?;
    foresee(host, prepared, staging, options.force).map_err(|e| (e, options.resume))?;
    let spooled = workings.spool.fill(host, source, staging).map_err(stopped)?;
    let (outputs, spool) = (&staging.files, spooled.as_ref());
    let allow_nonfinite = options.quality().passes_nonfinite();
    let watched = Some(&watch);
    let losses = Losses::new(model);
    let job = Job {
        source,
        model,
        tiles: &tiles,
        outputs,
        sums: &sums,
        watch: watched,
        losses: Some(&losses),
        spool,
        allow_nonfinite,
    };
    pipeline::run(host, job, Some(&journaling)).map_err(stopped)?;
    let vanished = losses.vanished(model, &prepared.concerns, options.quality()).map_err(discard)?;
    let mut written = finish(host, options, prepared, staging, &tiles, &sums).map_err(stopped)?;
    written.looked = watch.finish();
    written.looked.findings.extend(vanished);
    written.quantized = losses.finish(model, &tiles).map_err(discard)?;
    Ok(written)
}

/// A digest of what is converted to what, so that the same conversion is known when it is asked for again.
fn work_digest(host: &Host, prepared: &Prepared<'_>) -> Result<String> {
    Ok(hex(&Sha256::digest(describe_work(host, prepared)?.to_string())))
}

/// What a journal must agree with to be taken up.
fn describe_work(host: &Host, prepared: &Prepared<'_>) -> Result<serde_json::Value> {
    // Neither how the paths were typed nor the number of threads makes other work.
    let plan =
        Plan { input: String::new(), output: String::new(), payload_memory: 0, ..prepared.plan.clone() };
    let plan = serde_json::to_vec(&plan).map_err(|e| Error::plugin(format!("the plan is not JSON: {e}")))?;
    let mut digest = Sha256::new();
    digest.update(&plan);
    // The plan says where payload goes; what else the output holds is in the layout.
    for placed in prepared.layout.files.iter().flat_map(|f| &f.segments) {
        digest.update(format!("{} {} ", placed.offset, placed.len));
        if let Segment::Inline(bytes) = &placed.segment {
            digest.update(bytes);
        }
    }
    // And its words for an op do not say which elements go where.
    digest.update(format!("{:?}", prepared.workings.makings));
    let mut inputs = Vec::new();
    for file in prepared.source.files.all().iter().filter(|f| !f.is_folder()) {
        let mut head = vec![0; usize::try_from(file.len.min(1 << 20)).unwrap_or(0)];
        file.read_at(0, &mut head).map_err(|e| prepared.source.files.show(e))?;
        inputs.push(serde_json::json!({
            "bytes": file.len, "modified": file.modified.to_string(), "head": hex(&Sha256::digest(&head)),
        }));
    }
    Ok(serde_json::json!({
        "program": env!("CARGO_PKG_VERSION"),
        "plan": hex(&digest.finalize()),
        "plugins": versions(host, &prepared.source, prepared.output.format),
        "inputs": inputs,
    }))
}
