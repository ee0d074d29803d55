//! Checks that a model is complete. The file does not state its number of tensors, so one that was truncated
//! between two of them looks complete; the hyperparameters and the loaders' own lists tell what must be
//! there.

use crate::header::Header;
use crate::index::Info;
use crate::layout::{Layers, Program};
use apr_sdk::{Error, Result};
use std::collections::BTreeMap;

/// Checks layers, the tensors outside them, and that the file is not one of several.
///
/// # Errors
/// Malformed for what is missing; Unsupported for one file of several.
pub fn check(program: &Program, header: &Header, infos: &[Info]) -> Result<()> {
    for layers in program.layers {
        check_layers(layers, header.hparam(layers.count), infos)?;
    }
    for &name in program.needs {
        if !infos.iter().any(|info| info.name == name) {
            return Err(cut_off(format!("tensor `{name}` is missing, but `{}` requires it", program.name)));
        }
    }
    let Some((name, hparam)) = program.width else { return Ok(()) };
    let (width, expected) = (row(infos, name), header.hparam(hparam));
    if width == expected {
        return Ok(());
    }
    let message = format!("its rows have {width} elements, but `{hparam}` is {expected}");
    if width != 0 && expected % width == 0 {
        let error = Error::unsupported(format!("{message}: the file is one of {}", expected / width));
        return Err(error.tensor(name).hint("convert the original model again into a single file"));
    }
    Err(Error::malformed(message).tensor(name))
}

fn check_layers(layers: &Layers, count: u64, infos: &[Info]) -> Result<()> {
    let prefix = layers.prefix;
    let mut found: BTreeMap<u64, u64> = BTreeMap::new();
    for info in infos {
        if let Some(number) = number_of(&info.name, prefix) {
            *found.entry(number).or_default() += 1;
        }
    }
    if let Some((number, _)) = found.range(count..).next() {
        let message =
            format!("the file has a tensor of `{prefix}{number}`, but `{}` is {count}", layers.count);
        return Err(Error::malformed(message).hint(
            "check the origin of the file: its hyperparameters belong to another program, or are corrupt",
        ));
    }
    // The first gap, without a list as long as `count` claims.
    let gap = (0..count).zip(found.keys()).find(|(wanted, have)| wanted != *have).map(|(wanted, _)| wanted);
    if found.len() as u64 != count {
        let missing = gap.unwrap_or(found.len() as u64);
        let message = format!("`{prefix}{missing}` has no tensors, but `{}` is {count}", layers.count);
        return Err(cut_off(message));
    }
    match found.iter().find(|(_, have)| **have < layers.tensors) {
        Some((number, have)) => {
            Err(cut_off(format!("`{prefix}{number}` has only {have} of {} tensors", layers.tensors)))
        }
        None => Ok(()),
    }
}

/// The layer's number in a name such as `layers.12.ffn_norm.weight`; `None` for tensors outside layers.
fn number_of(name: &str, prefix: &str) -> Option<u64> {
    let rest = name.strip_prefix(prefix)?;
    let end = rest.find(|c: char| !c.is_ascii_digit())?;
    rest.get(..end)?.parse().ok()
}

fn row(infos: &[Info], name: &str) -> u64 {
    let info = infos.iter().find(|info| info.name == name);
    info.and_then(|info| info.shape().last().copied()).unwrap_or(0)
}

fn cut_off(message: String) -> Error {
    Error::malformed(message).hint("get the file again: it is truncated")
}
