//! All stages of a conversion in a row, into any sink, and its outcome.

use super::lay_out::LaidOut;
use super::open::Opened;
use super::output::Output;
use super::run::{OutputWork, write};
use super::translate::Translate;
use super::verify::{EncodedPayload, WrittenOutput, finish};
use crate::contract::{ContractReport, summary};
use crate::engine::Engine;
use crate::planned::coverage::Coverage;
use crate::planned::request::Request;
use crate::tiles::TileSink;
use crate::tiles::losses::Quantized;
use crate::verify::value_changes::ChangedTensor;
use apr_sdk::Result;

/// Creates the sink for a layout.
pub type MakeSink<'m> = dyn FnMut(&LaidOut<'_>) -> Result<Box<dyn TileSink>> + 'm;

/// Converts the request's input into the sink that `sink` creates once the layout is known; `translate` is the third
/// planning stage. What was written counts only if this returns without an error.
///
/// # Errors
/// Any error from opening, planning, writing and verifying, and from the sink.
pub fn run(
    engine: &Engine,
    request: &Request,
    output: Output<'_>,
    translate: &Translate<'_>,
    sink: &mut MakeSink<'_>,
) -> Result<Outcome> {
    let opened = Opened::new(engine, request, true)?;
    let mut laid_out = LaidOut::plan(engine, request, opened, output, translate, true)?;
    let sink = sink(&laid_out)?;
    let work =
        OutputWork { laid_out: &laid_out, quality: request.quality, sink: sink.as_ref(), earlier: None };
    let payload = write(engine, work)?;
    let written = finish(engine, request, &mut laid_out, sink.as_ref(), payload)?;
    Ok(Outcome::new(laid_out, written))
}

/// The outcome of a conversion that was written and verified.
pub struct Outcome {
    /// The input, as typed.
    pub input: String,
    /// The id of the input's format.
    pub from: String,
    /// The id of the output's format.
    pub to: String,
    /// Number of tensors in the output.
    pub tensors: usize,
    /// The length of each file in bytes, in layout order.
    pub lengths: Vec<u64>,
    /// The claims that verify has proved.
    pub verified: Vec<String>,
    /// Tensors with values that a cast or an addition could not keep.
    pub changed: Vec<ChangedTensor>,
    /// The losses of quantized tensors.
    pub quantized: Option<Quantized>,
    /// The tensors that the output's format encoded.
    pub encoded: Option<EncodedPayload>,
    /// The destination of everything in the source.
    pub coverage: Coverage,
    /// The findings about the tensors' values and shapes.
    pub looked: ContractReport,
    /// Notes on what was assumed, changed or not carried.
    pub notes: Vec<String>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

impl Outcome {
    /// The outcome of a plan and of what was written.
    pub fn new(laid_out: LaidOut<'_>, written: WrittenOutput) -> Outcome {
        let LaidOut { source, model, plan, output, findings, .. } = laid_out;
        let mut notes = plan.notes;
        notes.extend(written.notes());
        let WrittenOutput { lengths, proved, changed, looked, quantized, encoded, .. } = written;
        let looked = looked.behind(findings);
        let mut warnings = source.warnings.clone();
        warnings.extend(plan.warnings);
        warnings.extend(summary(&looked.findings));
        Outcome {
            input: plan.input,
            from: plan.from,
            to: output.format.id().to_owned(),
            tensors: model.tensors.len(),
            lengths,
            verified: proved,
            changed,
            quantized,
            encoded,
            coverage: plan.coverage,
            looked,
            notes,
            warnings,
        }
    }
}
