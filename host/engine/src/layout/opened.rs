//! The source of a conversion, opened once as its options say: the first stage.

use crate::engine::Engine;
use crate::open::{GivenOption, OpenOptions, OpenedModel, format_of, open};
use crate::plan::rename::Renaming;
use crate::plan::request::ConvertOptions;
use apr_sdk::Result;
use std::path::Path;

/// The source of a conversion, opened as its options say.
pub struct Opened {
    /// The source.
    pub source: OpenedModel,
    /// How it was opened.
    pub(super) options: OpenOptions,
    /// What is left of the renaming that was asked for.
    pub(super) renaming: Renaming,
    /// Whether the reader left tensors out.
    pub(super) left_by_reader: bool,
}

impl Opened {
    /// Opens the source. `look` says that payload will be read: then account of it is kept.
    ///
    /// # Errors
    /// Whatever opening raises.
    pub fn new(engine: &Engine, options: &ConvertOptions, look: bool) -> Result<Opened> {
        let mut open_options = OpenOptions {
            from: options.from.clone(),
            options: options.options.clone(),
            bare: options.bare,
            witnessed: look,
        };
        let mut renaming = options.renaming.clone();
        let own_prefix = own_prefix(engine, &options.input, &open_options, &mut renaming)?;
        let left_by_reader = own_prefix.is_some();
        open_options.options.extend(own_prefix);
        let source = open(engine, &options.input, &open_options)?;
        Ok(Opened { source, options: open_options, renaming, left_by_reader })
    }
}

/// `--prefix` as an option of the source's format, if that has one of the name: what lies below a path may be hidden there,
/// and what lies elsewhere may keep the file from opening as a whole.
fn own_prefix(
    engine: &Engine,
    input: &Path,
    options: &OpenOptions,
    renaming: &mut Renaming,
) -> Result<Option<GivenOption>> {
    if renaming.prefix.is_none() {
        return Ok(None);
    }
    let format = format_of(engine, input, options)?;
    if !format.manifest.options.iter().any(|option| option.name == "prefix" && option.read) {
        return Ok(None);
    }
    Ok(renaming.prefix.take().map(|prefix| (Some(format.id().to_owned()), "prefix".to_owned(), prefix)))
}
