//! Where the key of an edit lies: in which format's metadata, and in which of its files.

use crate::registry::{Format, Registry};
use apr_sdk::{Asset, Error, Foreign, ForeignFile, FormatManifest, Model, Value, escape};

/// The place of a key.
#[derive(Debug)]
pub struct KeyPlace<'k> {
    /// The format whose key it is, if the user says so.
    pub format: Option<String>,
    /// The file of that format, if the user says so, or the manifest does.
    pub file: Option<String>,
    /// The key there.
    pub key: &'k str,
}

impl<'k> KeyPlace<'k> {
    /// Splits `FORMAT.KEY`, `FILE.KEY` and `FORMAT.FILE.KEY`, unless it is itself a key or does not begin with a format
    /// involved or a file of one; otherwise just the key.
    pub fn of(key: &'k str, model: &Model, target: &Format, registry: &Registry) -> KeyPlace<'k> {
        let mut place = KeyPlace { format: None, file: None, key };
        if model.foreign.iter().any(|foreign| foreign.get(key).is_some()) {
            return place;
        }
        let mut ids: Vec<&str> = model.foreign.iter().map(|foreign| foreign.format.as_str()).collect();
        ids.extend([target.id(), model.format.as_str()]);
        if let Some((id, rest)) = ids.iter().find_map(|id| Some((*id, after(key, id)?))) {
            place.format = Some(id.to_owned());
            place.key = rest;
            ids = vec![id];
        }
        let manifests = ids.iter().filter_map(|id| registry.format(id).ok()).map(|format| &format.manifest);
        if let Some((format, file, rest)) =
            manifests.into_iter().find_map(|manifest| in_file(manifest, place.key))
        {
            place = KeyPlace { format: Some(format.to_owned()), file: Some(file.to_owned()), key: rest };
        }
        place
    }

    /// The key's value in a format's metadata.
    pub fn value<'f>(&self, foreign: &'f Foreign) -> Option<&'f Value> {
        self.files(foreign).find_map(|file| file.get(self.key))
    }

    fn files<'f>(&self, foreign: &'f Foreign) -> impl Iterator<Item = &'f ForeignFile> {
        foreign.files.iter().filter(|file| self.is_of(file))
    }

    /// Whether the key may lie in a file.
    pub fn is_of(&self, file: &ForeignFile) -> bool {
        self.file.as_ref().is_none_or(|name| *name == file.name)
    }

    /// The place that a format's manifest gives a new key, and the name of its type.
    pub fn known(&self, manifest: &FormatManifest) -> Option<(KeyPlace<'k>, String)> {
        let (format, key) = (Some(manifest.id.clone()), self.key);
        if let Some((_, kind)) = manifest.keys.iter().find(|(name, _)| name == key) {
            return self.file.is_none().then(|| (KeyPlace { format, file: None, key }, kind.clone()));
        }
        let mut known = manifest.file_keys.iter().filter(|known| known.name == key);
        let known = known.find(|known| self.file.as_ref().is_none_or(|file| *file == known.file))?;
        Some((KeyPlace { format, file: Some(known.file.clone()), key }, known.kind.clone()))
    }

    /// A known key of a format with the same last word.
    pub fn near<'m>(&self, manifest: &'m FormatManifest) -> Option<&'m str> {
        let last = |key: &str| key.rsplit('.').next().unwrap_or_default().to_owned();
        let keys = manifest.keys.iter().map(|(name, _)| name.as_str());
        let mut all = keys.chain(manifest.file_keys.iter().map(|known| known.name.as_str()));
        all.find(|name| last(name) == last(self.key))
    }

    /// The error for a new key without a format, of type `kind`, that says something in metadata of formats other than
    /// `format` alone; `None` for any other key.
    pub fn of_another(&self, kind: &str, format: &Format, registry: &Registry) -> Option<Error> {
        if self.format.is_some() || self.known(&format.manifest).is_some() {
            return None;
        }
        let other = registry.formats().iter().find(|other| self.known(&other.manifest).is_some())?;
        let key = escape(self.key, 120);
        let name = &format.manifest.name;
        let hint = match self.near(&format.manifest) {
            Some(known) => format!("use `{known}`, which is the key of {name}"),
            None => {
                format!("to add it nevertheless, name the format: --set '{}.{key}:{kind}=VALUE'", format.id())
            }
        };
        let of = &other.manifest.name;
        let message = format!("`{key}` is a key of {of}, and would say nothing in metadata of {name}");
        Some(Error::unsupported(message).hint(hint))
    }

    /// The companion file whose text is the key's value.
    pub fn text<'m>(&self, manifest: &FormatManifest, assets: &'m mut [Asset]) -> Option<&'m mut Asset> {
        let (_, file) = manifest.key_texts.iter().find(|(key, _)| key == self.key)?;
        assets.iter_mut().find(|asset| asset.name == *file)
    }
}

/// What follows a word and a point.
fn after<'k>(key: &'k str, word: &str) -> Option<&'k str> {
    key.strip_prefix(word)?.strip_prefix('.').filter(|rest| !rest.is_empty())
}

/// The format, its file and the key there of `FILE.KEY`; the file's extension may be left out.
fn in_file<'m, 'k>(manifest: &'m FormatManifest, key: &'k str) -> Option<(&'m str, &'m str, &'k str)> {
    manifest.file_keys.iter().find_map(|known| {
        let file = known.file.as_str();
        let stem = file.rsplit_once('.').map_or(file, |(stem, _)| stem);
        let rest = after(key, file).or_else(|| after(key, stem))?;
        Some((manifest.id.as_str(), file, rest))
    })
}
