//! `apr rosetta plot`: does error grow along a chain as chance would have it, or as a fault would?

use crate::cli::context::Context;
use crate::cli::output::verb_report::{Report, with_schema};
use crate::cli::verbs::rosetta::chain;
use apr_host::rosetta::growth::Verdict;
use apr_host::rosetta::hops::Chain;
use apr_host::rosetta::plot::{growth, html, svg, text};
use apr_sdk::{Error, Result};
use clap::ValueEnum;
use serde_json::Value as Json;
use std::fmt;

/// Draw a chain's error against its hops, with the fitted growth
///
/// Random errors grow with the square root of the hops, exponent 0.5; a
/// systematic one grows linearly, exponent 1. Exit 5 if the exponent is 0.75 or
/// more. A chain without any error has no growth.
///
/// Examples:
///   apr rosetta plot model.gguf --via apr,gguf,apr,gguf
///   apr rosetta plot model.gguf --via apr,gguf --form svg > error.svg
///   apr rosetta plot model.gguf --via apr,gguf --form html > error.html
#[derive(Debug, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Args {
    #[command(flatten)]
    chain: chain::Args,
    /// Form of the drawing; --json prints the numbers
    #[arg(long, value_name = "FORM", default_value = "text")]
    form: Form,
}

/// How a plot is drawn.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Form {
    /// A bar for each hop
    Text,
    /// A picture
    Svg,
    /// A page with the picture and its numbers
    Html,
}

/// The plot. JSON: as `apr.rosetta.chain/1`.
#[derive(Debug)]
pub struct Plotted {
    chain: Chain,
    drawn: String,
}

/// Carries the chain out.
///
/// # Errors
/// What a hop raised; linear growth is the report's verdict.
pub fn run(args: &Args, context: &Context) -> Result<Plotted> {
    let chain = args.chain.carry_out(context)?;
    let drawn = match args.form {
        Form::Text => text(&chain),
        Form::Svg => svg(&chain),
        Form::Html => html(&chain)?,
    };
    Ok(Plotted { chain, drawn })
}

impl Report for Plotted {
    fn json(&self) -> Result<Json> {
        with_schema("apr.rosetta.plot/1", &self.chain)
    }

    fn verdict(&self) -> Result<()> {
        if self.chain.growth.verdict != Verdict::Linear {
            return Ok(());
        }
        let error = Error::failed(format!("the error grows systematically: {}", growth(self.chain.growth)));
        Err(error.code("ROSETTA-QUANT-001").in_file(self.chain.input.clone()))
    }
}

impl fmt::Display for Plotted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.drawn)
    }
}
