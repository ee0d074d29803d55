//! The meaning of a source after its keys were changed: the tokenizer and the model card, as its own format
//! reads them.

use super::preview::{Preview, preview};
use crate::engine::Engine;
use crate::open::OpenedModel;
use crate::registry::{Format, Registry};
use apr_sdk::{Bytes, CheckedModel, Error, LayoutRequest, Model, Result};

/// The tokenizer and card to use for the source.
#[derive(Debug, Default)]
pub struct Understood {
    /// The tokenizer, or why it was not understood; `None` if it is unchanged.
    pub tokenizer: Option<std::result::Result<Option<Bytes>, Error>>,
}

impl Understood {
    /// Reads the changed keys of `formats`, given the model before and after. The card, and a tokenizer that
    /// the model itself holds, are changed in place.
    ///
    /// # Errors
    /// Any error from laying out and reading.
    pub fn new(
        engine: &Engine,
        source: &OpenedModel,
        before: &Model,
        after: &mut Model,
        formats: &[String],
    ) -> Result<Understood> {
        let mut understood = Understood::default();
        let name = source.files.get(0).map(|file| file.name.clone()).unwrap_or_default();
        for format in formats {
            let Ok(format) = engine.registry.format(format) else { continue };
            // A model that cannot be written cannot be reread; then only the keys change.
            let carries = &format.manifest.carries;
            let writes = format.manifest.writes && !carries.one_tensor;
            if !(format.manifest.reads && writes && carries.has_metadata()) {
                continue;
            }
            let was = bare_preview(&engine.registry, source, before, format, &name)?;
            let is = bare_preview(&engine.registry, source, after, format, &name)?;
            if was.card != is.card {
                after.model_card.clone_from(&is.card);
            }
            let same = matches!((&was.tokenizer, &is.tokenizer), (Ok(was), Ok(is)) if was == is);
            if same {
                continue;
            }
            if format.id() == source.format {
                understood.tokenizer = Some(is.tokenizer);
            } else if after.tokenizer.is_some() {
                after.tokenizer = is.tokenizer?;
            }
        }
        Ok(understood)
    }
}

/// What a format's reader finds in a model of its keys alone: no tensor is needed to interpret them, and nothing
/// should be made up.
fn bare_preview(
    registry: &Registry,
    source: &OpenedModel,
    model: &Model,
    format: &Format,
    name: &str,
) -> Result<Preview> {
    let mut bare = Model::default();
    format.id().clone_into(&mut bare.format);
    bare.dialect.clone_from(&model.dialect);
    bare.foreign = model.foreign_of(format.id()).cloned().into_iter().collect();
    bare.assets.clone_from(&model.assets);
    let bare = CheckedModel::new(bare, &format.manifest.carries);
    let bare = bare.map_err(|refusal| refusal.error(&format.manifest.name))?;
    let request = match format.manifest.folder {
        true => LayoutRequest::folder("model"),
        false => LayoutRequest::file("model"),
    };
    preview(registry, source, &bare, format, &request, name)
}
