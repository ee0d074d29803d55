//! A model's possible targets: for each, what would be refused or lost. Found by planning the conversion, which writes nothing.

use crate::convert::{ConvertOptions, plan};
use crate::host::Host;
use apr_engine::open::{OpenOptions, open};
use apr_sdk::{ErrorKind, Result, escape};
use serde::Serialize;
use std::path::Path;

/// The possible targets of a model. Keys of `apr.rosetta.inspect/1`.
#[derive(Clone, Debug, Serialize)]
pub struct Prospects {
    /// The model, as typed.
    pub input: String,
    /// The id of its format.
    pub format: String,
    /// Number of tensors.
    pub tensors: usize,
    /// Every writable format.
    pub targets: Vec<Target>,
}

/// The prospects of a model in another format.
#[derive(Clone, Debug, Serialize)]
pub struct Target {
    /// The id of the target format.
    pub to: String,
    /// True if the conversion is possible.
    pub possible: bool,
    /// True if it is only possible with `--arch none`, which keeps all names.
    pub needs_arch_none: bool,
    /// Size of the output in bytes.
    pub bytes: Option<u64>,
    /// Notes on what would not be carried, and what would be assumed.
    pub notes: Vec<String>,
    /// The reason why the conversion is not possible.
    pub refused: Option<String>,
}

/// Plans the conversion to every writable format.
///
/// # Errors
/// Any error from opening the model; Cancelled.
pub fn prospects(host: &Host, input: &Path) -> Result<Prospects> {
    let opened = open(host, input, &OpenOptions::default())?;
    let mut targets = Vec::new();
    for format in host.registry.formats().iter().filter(|f| f.manifest.writes) {
        let extension = format.manifest.extensions.first().map_or("bin", String::as_str);
        // Nothing is written there: a plan needs a name, and this one is unused.
        let name = format!("apr-rosetta-{}-planned.{extension}", std::process::id());
        let mut options = ConvertOptions {
            input: input.to_owned(),
            output: Some(std::env::temp_dir().join(&name)),
            to: Some(format.id().to_owned()),
            ..ConvertOptions::default()
        };
        let mut planned = plan(host, &options);
        let needs_arch_none = planned.is_err();
        if needs_arch_none {
            // Without translation, the remaining reason is the one that matters.
            options.arch = Some("none".to_owned());
            planned = plan(host, &options);
        }
        targets.push(match planned {
            Ok(plan) => Target {
                to: format.id().to_owned(),
                possible: true,
                needs_arch_none,
                bytes: Some(plan.bytes),
                notes: plan.notes,
                refused: None,
            },
            Err(error) if error.kind() == ErrorKind::Cancelled => return Err(error),
            Err(error) => Target {
                to: format.id().to_owned(),
                possible: false,
                needs_arch_none: false,
                bytes: None,
                notes: Vec::new(),
                refused: Some(match error.tensor_name() {
                    Some(tensor) => format!("{}: {}", escape(tensor, 120), error.message()),
                    None => error.message().to_owned(),
                }),
            },
        });
    }
    let tensors = opened.model.tensors.len();
    Ok(Prospects { input: input.display().to_string(), format: opened.format, tensors, targets })
}
