//! The source of a conversion, opened once as its options say: the first stage.

use crate::engine::Engine;
use crate::open::{GivenOption, OpenOptions, OpenedModel, Probed, way_out};
use crate::plan::rename::Renaming;
use crate::plan::request::ConvertOptions;
use apr_sdk::Result;
use std::sync::Arc;

/// The source of a conversion, opened as its options say. Several outputs may be made of it.
#[derive(Clone)]
pub struct Opened<'e> {
    /// The source.
    pub source: Arc<OpenedModel>,
    /// What it was opened of.
    pub(super) probed: Probed<'e>,
    /// How it was opened.
    pub(super) options: OpenOptions,
    /// What is left of the renaming that was asked for.
    pub(super) renaming: Renaming,
    /// Whether the reader left tensors out.
    pub(super) left_by_reader: bool,
}

impl<'e> Opened<'e> {
    /// Opens the source. `look` says that payload will be read: then account of it is kept.
    ///
    /// # Errors
    /// Any error from opening.
    pub fn new(engine: &'e Engine, options: &ConvertOptions, look: bool) -> Result<Opened<'e>> {
        let mut open_options = OpenOptions {
            from: options.from.clone(),
            options: options.options.clone(),
            bare: options.bare,
            witnessed: look,
        };
        let probed = Probed::new(engine, &options.input, options.from.as_deref(), options.bare);
        let probed = probed.map_err(way_out)?;
        let mut renaming = options.renaming.clone();
        let own_prefix = own_prefix(&probed, &mut renaming);
        let left_by_reader = own_prefix.is_some();
        open_options.options.extend(own_prefix);
        let source = Arc::new(probed.open(&open_options)?);
        Ok(Opened { source, probed, options: open_options, renaming, left_by_reader })
    }
}

/// `--prefix` as an option of the source's format, if that has one of the name: what lies below a path may be hidden there,
/// and what lies elsewhere may keep the file from opening as a whole.
fn own_prefix(probed: &Probed<'_>, renaming: &mut Renaming) -> Option<GivenOption> {
    let format = probed.format();
    if !format.manifest.options.iter().any(|option| option.name == "prefix" && option.read) {
        return None;
    }
    renaming.prefix.take().map(|prefix| (Some(format.id().to_owned()), "prefix".to_owned(), prefix))
}
