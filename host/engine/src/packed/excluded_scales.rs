//! Scales that a reader left out: tensors opened below a path may be codes whose scales are elsewhere in the
//! file.

use super::{Packed, Signed, announcements, scales, signed, unseen};
use crate::open::{OpenOptions, OpenedModel, Probed};
use apr_sdk::Tensor;
use std::collections::HashSet;

/// The option that makes a reader open only some of a file's tensors.
const PREFIX: &str = "prefix";

/// Description of 8-bit floats if the rest of the file cannot be opened.
const OUTSIDE: &str = "8-bit floats whose scales may be outside the prefix";

/// The evidence in the whole file about the opened tensors, if they are not all of them.
pub fn look(probed: &Probed<'_>, options: &OpenOptions, source: &OpenedModel) -> Option<Packed> {
    let taken = &source.model.tensors;
    let is_part = options.options.iter().any(|(_, name, _)| name == PREFIX);
    if !is_part || !taken.iter().any(scales::is_code) {
        return None;
    }
    let mut whole_options = OpenOptions { witnessed: false, ..options.clone() };
    whole_options.options.retain(|(_, name, _)| name != PREFIX);
    let Ok(whole) = probed.open(&whole_options) else {
        return Packed::shown(Vec::new(), unseen(taken, OUTSIDE), taken);
    };
    let names: HashSet<&str> = taken.iter().map(|tensor| tensor.name.as_str()).collect();
    // Codes that are left out anyway, such as an optimizer's, say nothing about the others.
    let seen: Vec<Tensor> = (whole.model.tensors.iter())
        .filter(|tensor| !scales::is_code(tensor) || is_below(&tensor.name, &names))
        .cloned()
        .collect();
    let signed: Option<Signed> = signed(&seen);
    Packed::shown(announcements(&whole), signed, taken)
}

/// Returns whether a tensor of the whole file is one of those that were opened below a path, with the path stripped.
fn is_below(name: &str, names: &HashSet<&str>) -> bool {
    let ends = name.match_indices('.').map(|(at, _)| &name[at + 1..]);
    std::iter::once(name).chain(ends).any(|end| names.contains(end))
}
