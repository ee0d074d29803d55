//! Reads a model the way the host does: open, describe into a builder under the limits.

use apr_sdk::{Limits, Model, ModelBuilder, OpenModel, Options, Reader, Result, Source};

/// Opens `source` and gives its model. Parts stay parts; see [`crate::read_with_parts`].
///
/// # Errors
/// What the reader raised, and every check of [`ModelBuilder`].
pub fn read(reader: &dyn Reader, format: &str, source: &dyn Source, options: &Options) -> Result<Model> {
    read_open(reader, format, source, options).map(|(_, model)| model)
}

/// As [`read()`], and gives the opened model too, which [`crate::payload()`] needs.
///
/// # Errors
/// As [`read()`].
pub fn read_open(
    reader: &dyn Reader,
    format: &str,
    source: &dyn Source,
    options: &Options,
) -> Result<(Box<dyn OpenModel>, Model)> {
    read_limited(reader, format, source, options, &Limits::default())
}

/// As [`read_open`], under the given limits.
///
/// # Errors
/// As [`read()`].
pub fn read_limited(
    reader: &dyn Reader,
    format: &str,
    source: &dyn Source,
    options: &Options,
    limits: &Limits,
) -> Result<(Box<dyn OpenModel>, Model)> {
    let open = reader.open(source, limits, options)?;
    let file_len = |file| source.len(file);
    let mut builder = ModelBuilder::new(format, limits, &file_len);
    open.describe(source, &mut builder)?;
    Ok((open, builder.finish()))
}
