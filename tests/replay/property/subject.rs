//! The formats under test.

use apr_sdk::{FormatManifest, LayoutRequest, Manifest, Options, PluginDecl, Reader, Writer};

/// One format: its two sides and what its manifest says.
pub struct Subject {
    /// What its manifest says.
    pub manifest: FormatManifest,
    /// The format's reader.
    pub reader: Box<dyn Reader>,
    /// Its writer; `None` for a format that is only read.
    pub writer: Option<Box<dyn Writer>>,
    /// Where its plugin lives, below `plugins`.
    pub folder: String,
    /// The format that carries everything, to go through on the way back to this one; `None` for itself.
    pub carrier: Option<Box<Subject>>,
}

impl Subject {
    /// The first format of a plugin of this repository.
    pub fn new(plugin: &PluginDecl) -> Subject {
        Subject::of(plugin, &Manifest::parse(plugin.manifest).unwrap().formats[0].id)
    }

    /// The format `id` of a plugin of this repository.
    pub fn of(plugin: &PluginDecl, id: &str) -> Subject {
        let all = Manifest::parse(plugin.manifest).unwrap();
        let folder = all.id.replace('_', "-");
        let manifest = all.formats.into_iter().find(|format| format.id == id).unwrap();
        let (reader, writer) = ((plugin.reader)(&manifest.id).unwrap(), (plugin.writer)(&manifest.id));
        Subject { manifest, reader, writer, folder, carrier: None }
    }

    /// The GGUF reader and writer.
    pub fn gguf() -> Subject {
        Subject { carrier: Some(Box::new(Subject::apr())), ..Subject::new(&apr_plugin_gguf::PLUGIN) }
    }

    /// The ONNX reader and writer.
    pub fn onnx() -> Subject {
        Subject { carrier: Some(Box::new(Subject::apr())), ..Subject::new(&apr_plugin_onnx::PLUGIN) }
    }

    /// PyTorch.
    pub fn pytorch() -> Subject {
        Subject { carrier: Some(Box::new(Subject::apr())), ..Subject::new(&apr_plugin_pytorch::PLUGIN) }
    }

    /// SafeTensors.
    pub fn safetensors() -> Subject {
        Subject { carrier: Some(Box::new(Subject::apr())), ..Subject::new(&apr_plugin_safetensors::PLUGIN) }
    }

    /// GGML before GGUF.
    pub fn ggml_legacy() -> Subject {
        Subject::new(&apr_plugin_ggml_legacy::PLUGIN)
    }

    /// NumPy's files of one array.
    pub fn npy() -> Subject {
        let carrier = Some(Box::new(Subject::apr()));
        Subject { carrier, ..Subject::of(&apr_plugin_numpy::PLUGIN, "npy") }
    }

    /// NumPy's archives, and with them ZIP.
    pub fn npz() -> Subject {
        let carrier = Some(Box::new(Subject::apr()));
        Subject { carrier, ..Subject::of(&apr_plugin_numpy::PLUGIN, "npz") }
    }

    /// The APR reader and writer.
    pub fn apr() -> Subject {
        Subject::new(&apr_plugin_apr::PLUGIN)
    }

    /// The format's id.
    pub fn id(&self) -> &str {
        &self.manifest.id
    }

    /// The default values of the options, as the host fills them in.
    pub fn options(&self, write: bool) -> Options {
        let concerned = self.manifest.options.iter().filter(|o| if write { o.write } else { o.read });
        concerned
            .filter(|option| !option.default.is_empty())
            .fold(Options::new(), |options, option| options.with(&option.name, &option.default))
    }

    /// A request for a file, or for a folder so that the model's own structure is used.
    pub fn request(&self, folder: bool) -> LayoutRequest {
        let mut request = match folder {
            true => LayoutRequest::folder("model"),
            false => LayoutRequest::file(&format!("model.{}", self.id())),
        };
        request.options = self.options(true);
        request
    }
}
