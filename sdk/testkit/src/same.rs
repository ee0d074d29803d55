//! Comparison of two models, with the difference if they are not the same.

use crate::Opened;
use crate::payload::read_extent;
use apr_sdk::{Bytes, Error, Model, Result, Source, Value, ValueType, escape};

/// Compares everything that two openings of the same bytes describe.
///
/// # Errors
/// Failed, with what differs.
pub fn same_index(a: &Model, b: &Model) -> Result<()> {
    let differs = [
        ("tensors", a.tensors == b.tensors),
        ("foreign metadata", a.foreign == b.foreign),
        ("assets", a.assets == b.assets),
        ("parts", a.parts == b.parts),
        ("architecture", a.architecture == b.architecture),
        ("tokenizer", a.tokenizer == b.tokenizer),
        (
            "dialect, recipe or provenance",
            (&a.dialect, &a.recipe, &a.provenance) == (&b.dialect, &b.recipe, &b.provenance),
        ),
        ("notes", a.notes == b.notes),
    ];
    match differs.iter().find(|(_, same)| !same) {
        Some((what, _)) => {
            Err(Error::failed(format!("the same bytes give different {what} the second time")))
        }
        None => Ok(()),
    }
}

/// A model with where its bytes are: what two models in different files are compared by.
pub(crate) struct Content<'a> {
    pub(crate) model: &'a Model,
    pub(crate) source: &'a dyn Source,
    pub(crate) payload: &'a dyn Fn(usize) -> Result<Vec<u8>>,
}

/// Compares tensors by name: dtype, shape and payload. Their order is the format's business.
pub(crate) fn same_tensors(wanted: &Content<'_>, found: &Content<'_>) -> Result<()> {
    let n = wanted.model.tensors.len();
    let m = found.model.tensors.len();
    if n != m {
        return Err(Error::failed(format!("{n} tensors became {m}")));
    }
    for (index, tensor) in wanted.model.tensors.iter().enumerate() {
        let there = found.model.tensors.iter().position(|t| t.name == tensor.name);
        let there =
            there.ok_or_else(|| Error::failed("it is missing from the result").tensor(&tensor.name))?;
        let [a, b] = [tensor, &found.model.tensors[there]].map(|t| format!("{} {:?}", t.dtype, t.shape));
        if a != b {
            return Err(Error::failed(format!("{a} became {b}")).tensor(&tensor.name));
        }
        let a = (wanted.payload)(index)?;
        let b = (found.payload)(there)?;
        if a != b {
            let at = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
            let message = format!("its payload differs at byte {at} of {}", a.len());
            return Err(Error::failed(message).tensor(&tensor.name));
        }
    }
    Ok(())
}

/// The typed metadata of `format`: keys, types and wire bytes, over all its files in order.
pub(crate) fn typed(
    model: &Model,
    source: &dyn Source,
    format: &str,
) -> Result<Vec<(String, ValueType, Vec<u8>)>> {
    let files = model.foreign_of(format).map(|foreign| foreign.files.as_slice()).unwrap_or_default();
    let mut values = Vec::new();
    for (key, Value { kind, bytes }) in files.iter().flat_map(|file| &file.typed) {
        values.push((key.clone(), *kind, fetch(bytes, source)?));
    }
    Ok(values)
}

/// Refuses metadata of `format` that is in one model only, differs, or has another place.
pub(crate) fn same_metadata(wanted: &Content<'_>, found: &Content<'_>, format: &str) -> Result<()> {
    let a = typed(wanted.model, wanted.source, format)?;
    let b = typed(found.model, found.source, format)?;
    let pairs = a
        .iter()
        .map(Some)
        .chain(std::iter::repeat(None))
        .zip(b.iter().map(Some).chain(std::iter::repeat(None)));
    for (a, b) in pairs.take(a.len().max(b.len())) {
        if a != b {
            let [a, b] = [a, b].map(|entry| match entry {
                Some((key, kind, _)) => format!("`{}` ({})", escape(key, 80), kind.name().unwrap_or("?")),
                None => "nothing".to_owned(),
            });
            return Err(Error::failed(format!("metadata {a} became {b}, or its value differs")));
        }
    }
    Ok(())
}

/// Refuses a metadata entry of the wanted model that the other lacks or has otherwise.
pub(crate) fn has_metadata(wanted: &Content<'_>, found: &Content<'_>, format: &str) -> Result<()> {
    let there = typed(found.model, found.source, format)?;
    for entry in typed(wanted.model, wanted.source, format)? {
        if !there.contains(&entry) {
            let kind = entry.1.name().unwrap_or("?");
            let at = there.iter().find(|(key, ..)| *key == entry.0);
            let what =
                at.map_or("is missing".to_owned(), |at| format!("became {}", at.1.name().unwrap_or("?")));
            return Err(Error::failed(format!(
                "metadata `{}` ({kind}) of `{format}` {what}, or its value differs",
                entry.0
            )));
        }
    }
    Ok(())
}

/// Refuses an asset of the wanted model that the other lacks or has otherwise.
pub(crate) fn has_assets(wanted: &Content<'_>, found: &Content<'_>) -> Result<()> {
    for asset in &wanted.model.assets {
        let there = found.model.assets.iter().find(|there| there.name == asset.name);
        let wanted = fetch(&asset.bytes, wanted.source)?;
        let Some(there) = there else {
            return Err(Error::failed(format!("asset `{}` is missing", escape(&asset.name, 80))));
        };
        if wanted != fetch(&there.bytes, found.source)? {
            return Err(Error::failed(format!("asset `{}` differs", escape(&asset.name, 80))));
        }
    }
    Ok(())
}

/// Bytes, read if they lie in a file.
pub(crate) fn fetch(bytes: &Bytes, source: &dyn Source) -> Result<Vec<u8>> {
    match bytes {
        Bytes::Inline(held) => Ok(held.to_vec()),
        Bytes::Extent(extent) => read_extent(*extent, source),
    }
}

/// Calls `check` with an opened model's content.
pub(crate) fn with_content<T>(
    opened: &Opened,
    source: &dyn Source,
    check: impl FnOnce(&Content<'_>) -> T,
) -> T {
    check(&Content { model: &opened.model, source, payload: &|index| opened.payload(index, source) })
}
