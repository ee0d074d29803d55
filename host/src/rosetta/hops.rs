//! A chain of the user's own: one model through formats, compared with where it began after every hop.

use crate::convert::{ConvertOptions, convert};
use crate::host::Host;
use crate::rosetta::growth::{Growth, fit};
use crate::rosetta::scratch::Scratch;
use apr_engine::open::{OpenOptions, open};
use apr_engine::plan::carries::name_after;
use apr_engine::rosetta::compare::{Comparison, Finding, compare};
use apr_sdk::Result;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// A chain and what came of it. Keys of `apr.rosetta.chain/1`.
#[derive(Clone, Debug, Serialize)]
pub struct Chain {
    /// The model as typed.
    pub input: String,
    /// Its format.
    pub from: String,
    /// The hops that were done.
    pub hops: Vec<Hop>,
    /// How the error grows.
    pub growth: Growth,
}

/// A hop and how its result compares with where the chain began.
#[derive(Clone, Debug, Serialize)]
pub struct Hop {
    /// The format that was converted to.
    pub to: String,
    /// The file's length in bytes.
    pub bytes: u64,
    /// Tensors whose type, shape and bytes are those of the beginning.
    pub identical: usize,
    /// All tensors.
    pub tensors: usize,
    /// The largest absolute difference of a value.
    pub max_abs_diff: f64,
    /// What is not as it was.
    pub findings: Vec<Finding>,
    /// What the conversion said: what is not carried, what was assumed.
    pub notes: Vec<String>,
}

/// What is asked of a chain.
#[derive(Clone, Debug, Default)]
pub struct ChainOptions {
    /// The model.
    pub input: PathBuf,
    /// The formats, in order.
    pub via: Vec<String>,
    /// How far values may be off after the last hop; without it bytes must be equal.
    pub tolerance: Option<f64>,
    /// An empty folder in which every file stays.
    pub keep: Option<PathBuf>,
}

/// Converts hop by hop and compares each result with the model at the beginning.
///
/// # Errors
/// InvalidArgument for a format that is not present; what a conversion refuses, with the hop; any error from comparing.
pub fn chain(host: &Host, options: &ChainOptions) -> Result<Chain> {
    for id in &options.via {
        host.registry.format(id)?;
    }
    let mut began = open(host, &options.input, &OpenOptions::default())?;
    let scratch = Scratch::new(options.keep.as_deref())?;
    let folder = scratch.folder("hops")?;
    let mut hops: Vec<Hop> = Vec::new();
    let mut here = options.input.clone();
    for (number, id) in options.via.iter().enumerate() {
        let format = host.registry.format(id)?;
        let extension = format.manifest.extensions.first().map_or("bin", String::as_str);
        let next = folder.join(format!("{}.{extension}", number + 1));
        let done = convert(host, &hop_options(&here, &next, id)).map_err(|error| {
            let input = options.input.display().to_string();
            error.with_file(input).hint(format!("choose another format for hop {}, to {id}", number + 1))
        })?;
        let result = open(host, &next, &OpenOptions { from: Some(id.clone()), ..OpenOptions::default() })?;
        // The name of a tensor that no name was kept of is no finding.
        let file = next.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        name_after(&mut began.model, format, &file);
        let Comparison { findings, tensors, identical, max_abs_diff, .. } =
            compare(host, &began, &result, options.tolerance)?;
        hops.push(Hop {
            to: id.clone(),
            bytes: done.bytes,
            identical,
            tensors,
            max_abs_diff,
            findings,
            notes: done.notes,
        });
        here = next;
    }
    let errors: Vec<f64> = hops.iter().map(|hop| hop.max_abs_diff).collect();
    let growth = fit(&errors);
    Ok(Chain { input: options.input.display().to_string(), from: began.format, hops, growth })
}

fn hop_options(input: &Path, output: &Path, to: &str) -> ConvertOptions {
    ConvertOptions {
        input: input.to_owned(),
        output: Some(output.to_owned()),
        to: Some(to.to_owned()),
        // Every name as it is, so that tensors can be compared by name.
        arch: Some("none".to_owned()),
        ..ConvertOptions::default()
    }
}
