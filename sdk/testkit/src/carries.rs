//! Models that a format cannot hold: the host refuses them before work starts, by what the manifest says.

use apr_sdk::{Carries, Error, FormatManifest, Manifest, Model, PluginDecl, Result};

/// Reads what the format of this id carries from the manifest of a plugin that is linked in.
///
/// # Errors
/// Plugin for a manifest that does not parse; InvalidArgument for a format that is not in it.
pub fn carries(plugin: &PluginDecl, format: &str) -> Result<Carries> {
    let known = Manifest::parse(plugin.manifest)?.formats.into_iter().find(|known| known.id == format);
    let known =
        known.ok_or_else(|| Error::invalid_argument(format!("the plugin has no format `{format}`")))?;
    Ok(known.carries)
}

/// Refuses a model that the manifest of `format` does not carry: its tensors, and metadata of the format's own.
///
/// # Errors
/// As [`Carries::check`] and [`metadata_carried`].
pub fn carried(format: &FormatManifest, model: &Model) -> Result<()> {
    format.carries.check(model).map_err(|refusal| refusal.error(&format.name))?;
    metadata_carried(format, model)
}

/// Refuses metadata of the format's own that the manifest does not claim.
///
/// # Errors
/// Unsupported, with the key and its type.
pub fn metadata_carried(format: &FormatManifest, model: &Model) -> Result<()> {
    let files = model.foreign_of(&format.id).map(|foreign| foreign.files.as_slice()).unwrap_or_default();
    for (key, value) in files.iter().flat_map(|file| &file.typed) {
        let word = value.kind.name().unwrap_or("?");
        if !format.carries.metadata_type(word) {
            let key = apr_sdk::escape(key, 80);
            return Err(Error::unsupported(format!(
                "`{}.metadata` does not list `{word}`, the type of its own key `{key}`",
                format.id
            )));
        }
    }
    Ok(())
}
