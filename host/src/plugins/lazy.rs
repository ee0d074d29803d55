//! Loads a plugin's library on first use: most commands need one or two of many.

use super::load::load;
use super::rehearsal::Rehearsal;
use super::section::Section;
use apr_abi::link::Module;
use apr_engine::registry::Provider;
use apr_sdk::{Error, Kernel, Quantizer, Reader, Result, Writer};
use std::path::PathBuf;
use std::sync::OnceLock;

/// A library that passed all checks, loaded at most once.
pub(super) struct Library {
    path: PathBuf,
    id: String,
    manifest: Vec<u8>,
    rehearsal: Option<Rehearsal>,
    module: OnceLock<Result<Module>>,
}

impl Library {
    /// The library at the canonical `path`, with its manifest in `section`.
    pub(super) fn new(path: PathBuf, section: &Section, rehearsal: Option<Rehearsal>) -> Library {
        Library {
            path,
            id: section.manifest.id.clone(),
            manifest: section.bytes.clone(),
            rehearsal,
            module: OnceLock::new(),
        }
    }

    fn module(&self) -> Result<&Module> {
        let module = self.module.get_or_init(|| {
            let tried =
                self.rehearsal.as_ref().map_or(Ok(()), |rehearsal| rehearsal.pass(&self.path, &self.id));
            tried
                .and_then(|()| load(&self.path, &self.id, &self.manifest))
                .map_err(|error| error.in_file(self.path.to_string_lossy()))
        });
        module.as_ref().map_err(Error::clone)
    }
}

impl Provider for Library {
    fn reader(&self, format: &str) -> Result<Box<dyn Reader>> {
        self.module()?.reader(format)
    }

    fn writer(&self, format: &str) -> Result<Box<dyn Writer>> {
        self.module()?.writer(format)
    }

    fn quantizer(&self) -> Result<Box<dyn Quantizer>> {
        self.module()?.quantizer()
    }

    fn kernel(&self) -> Result<Box<dyn Kernel>> {
        self.module()?.kernel()
    }

    fn architecture(&self, id: &str) -> Result<String> {
        self.module()?.architecture(id)
    }

    fn load(&self) -> Result<()> {
        self.module().map(|_| ())
    }

    fn faults(&self) -> Vec<Error> {
        let module = self.module.get().and_then(|module| module.as_ref().ok());
        let faults = module.map(Module::take_faults).unwrap_or_default();
        faults.into_iter().map(|fault| Error::plugin(fault).code("E_PLUGIN")).collect()
    }
}
