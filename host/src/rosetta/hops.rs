//! A user-defined chain: converts one model through formats, and compares it with the original after every
//! hop.

use crate::convert::{ConvertOptions, convert};
use crate::host::Host;
use crate::rosetta::growth::{Growth, fit};
use crate::rosetta::scratch::Scratch;
use apr_engine::layout::carries::name_after;
use apr_engine::open::{OpenOptions, open};
use apr_engine::rosetta::compare::{Comparison, Finding, compare};
use apr_sdk::Result;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// A chain and its results. Keys of `apr.rosetta.chain/1`.
#[derive(Clone, Debug, Serialize)]
pub struct Chain {
    /// The model, as typed.
    pub input: String,
    /// The id of its format.
    pub from: String,
    /// The completed hops.
    pub hops: Vec<Hop>,
    /// Growth of the error.
    pub growth: Growth,
}

/// A hop, compared with the start of the chain.
#[derive(Clone, Debug, Serialize)]
pub struct Hop {
    /// The id of the target format.
    pub to: String,
    /// Length of the file in bytes.
    pub bytes: u64,
    /// Number of tensors with the original type, shape and bytes.
    pub identical: usize,
    /// Number of all tensors.
    pub tensors: usize,
    /// The largest absolute difference between two values.
    pub max_abs_diff: f64,
    /// Differences from the original.
    pub findings: Vec<Finding>,
    /// Notes from the conversion: what is not carried, what was assumed.
    pub notes: Vec<String>,
}

/// The request for a chain.
#[derive(Clone, Debug, Default)]
pub struct ChainOptions {
    /// The model to start with.
    pub input: PathBuf,
    /// The ids of the formats, in order.
    pub via: Vec<String>,
    /// Tolerance for values after the last hop; without it, bytes must be equal.
    pub tolerance: Option<f64>,
    /// An empty folder in which to keep every file.
    pub keep: Option<PathBuf>,
}

/// Converts hop by hop and compares each result with the original model.
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
        // A tensor whose name was never stored is no finding.
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
        // Keep all names, so that tensors can be compared by name.
        arch: Some("none".to_owned()),
        ..ConvertOptions::default()
    }
}
