//! All stages of a conversion in a row, into any sink.

use super::lay_out::LaidOut;
use super::open::Opened;
use super::outcome::Outcome;
use super::output::Output;
use super::run::{OutputWork, write};
use super::translate::Translate;
use super::verify::finish;
use crate::engine::Engine;
use crate::planned::request::Request;
use crate::tiles::TileSink;
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
