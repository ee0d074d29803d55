//! Plugins linked into the program: makes providers of their declarations.

use super::Provider;
use apr_sdk::{Error, Kernel, PluginDecl, Quantizer, Reader, Result, Writer, escape};

/// A plugin linked into the program, given by its declaration.
#[derive(Clone, Copy)]
pub struct Linked(pub &'static PluginDecl);

impl Provider for Linked {
    fn reader(&self, format: &str) -> Result<Box<dyn Reader>> {
        (self.0.reader)(format).ok_or_else(|| lacks("reader", format))
    }

    fn writer(&self, format: &str) -> Result<Box<dyn Writer>> {
        (self.0.writer)(format).ok_or_else(|| lacks("writer", format))
    }

    fn quantizer(&self) -> Result<Box<dyn Quantizer>> {
        (self.0.quantizer)()
            .ok_or_else(|| Error::plugin("has no quantizer, although its manifest declares one"))
    }

    fn kernel(&self) -> Result<Box<dyn Kernel>> {
        (self.0.kernel)()
            .ok_or_else(|| Error::plugin("has no compute backend, although its manifest declares one"))
    }

    fn architecture(&self, id: &str) -> Result<String> {
        (self.0.name_mapper)().ok_or_else(|| lacks("table", id))?.table(id)
    }
}

fn lacks(role: &str, id: &str) -> Error {
    Error::plugin(format!("has no {role} for `{}`, although its manifest declares one", escape(id, 80)))
}
