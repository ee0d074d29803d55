//! The compute backends among the plugins.

use super::{Provider, Registry};
use apr_sdk::{Error, Kernel, Result, escape};
use std::sync::{Arc, OnceLock};

/// A compute backend that a plugin provides, created on first use.
pub(super) struct KernelSlot {
    /// Its id, as in `--backend`.
    pub(super) id: String,
    /// Index of the plugin in [`Registry::plugins`].
    pub(super) plugin: usize,
    provider: Arc<dyn Provider>,
    made: OnceLock<Result<Arc<dyn Kernel>>>,
}

impl KernelSlot {
    /// A backend named `id` of a plugin.
    pub(super) fn new(id: &str, plugin: usize, provider: Arc<dyn Provider>) -> KernelSlot {
        KernelSlot { id: id.to_owned(), plugin, provider, made: OnceLock::new() }
    }

    /// The backend, or why there is none.
    pub(super) fn make(&self) -> Result<Arc<dyn Kernel>> {
        self.made.get_or_init(|| self.provider.kernel().map(Arc::from)).clone()
    }
}

impl Registry {
    /// The ids of the compute backends, in search order.
    pub fn kernel_ids(&self) -> impl Iterator<Item = &str> {
        self.kernels.iter().map(|slot| slot.id.as_str())
    }

    /// Every compute backend with its id, in search order; one that cannot be created is an error.
    pub fn kernels(&self) -> Vec<(String, Result<Arc<dyn Kernel>>)> {
        self.kernels.iter().map(|slot| (slot.id.clone(), slot.make())).collect()
    }

    /// Finds a compute backend by its id.
    ///
    /// # Errors
    /// InvalidArgument, naming those that are there; Plugin if it cannot be created.
    pub fn kernel(&self, id: &str) -> Result<Arc<dyn Kernel>> {
        let found = self.kernels.iter().find(|slot| slot.id == id);
        found.map_or_else(|| Err(self.no_kernel(id)), KernelSlot::make)
    }

    fn no_kernel(&self, id: &str) -> Error {
        let known: Vec<_> = self.kernel_ids().collect();
        let hint = match known[..] {
            [] => "run `apr plugins list`: no plugin with a compute backend is loaded".to_owned(),
            _ => format!("choose one of the backends present: {}", known.join(", ")),
        };
        let hint = self.absent().map_or(hint.clone(), |absent| format!("{hint}; {absent}"));
        Error::invalid_argument(format!("no plugin provides a compute backend `{}`", escape(id, 80)))
            .hint(hint)
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Linked, Origin, Plugin};
    use super::*;
    use apr_sdk::{Device, DeviceSink, ErrorKind, Manifest, OpSpec, Options, PluginDecl, Support};

    struct Nothing;

    impl Kernel for Nothing {
        fn devices(&self, _: &mut dyn DeviceSink) -> Result<()> {
            Ok(())
        }
        fn supports(&self, _: u32, _: &OpSpec<'_>) -> Result<Support> {
            Ok(Support::No("nothing".to_owned()))
        }
        fn open(&self, _: u32, _: &Options) -> Result<Box<dyn Device>> {
            Err(Error::unsupported("nothing to open"))
        }
    }

    static PLAIN: PluginDecl = PluginDecl {
        manifest: "id=a\nversion=1\nkernels=plain\n",
        kernel: || Some(Box::new(Nothing)),
        ..PluginDecl::EMPTY
    };
    static EMPTY: PluginDecl =
        PluginDecl { manifest: "id=b\nversion=1\nkernels=empty\n", ..PluginDecl::EMPTY };
    static SAME: PluginDecl = PluginDecl { manifest: "id=c\nversion=1\nkernels=plain\n", ..PLAIN };

    fn registry(decls: &[&'static PluginDecl]) -> Registry {
        let mut registry = Registry::new();
        for decl in decls {
            let manifest = Manifest::parse(decl.manifest).unwrap();
            let state: Result<Arc<dyn Provider>> = Ok(Arc::new(Linked(decl)));
            registry.add(Plugin {
                manifest: Some(manifest),
                path: None,
                origin: Origin::Bundled,
                abi: None,
                state,
            });
        }
        registry
    }

    #[test]
    fn backends_are_found_in_search_order_and_the_others_named() {
        let registry = registry(&[&EMPTY, &PLAIN]);
        let made: Vec<_> = registry.kernels().into_iter().map(|(id, made)| (id, made.is_ok())).collect();
        assert_eq!(made, [("empty".to_owned(), false), ("plain".to_owned(), true)]);
        assert!(registry.kernel("plain").is_ok());
        let error = registry.kernel("tpu").err().unwrap();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.hint_text().unwrap().contains("empty, plain"), "{error:?}");
        assert_eq!(registry.kernel("empty").err().unwrap().kind(), ErrorKind::Plugin);
        assert!(Registry::new().kernel("plain").err().unwrap().hint_text().unwrap().contains("plugins list"));
    }

    #[test]
    fn a_second_backend_of_an_id_gives_way() {
        let registry = registry(&[&PLAIN, &SAME]);
        assert!(registry.plugins()[1].gives_way());
        let why = registry.plugins()[1].state.as_ref().err().unwrap();
        assert!(why.message().contains("compute backend `plain`"), "{why}");
        assert_eq!(registry.kernels().len(), 1);
    }

    #[test]
    fn loading_all_refuses_a_plugin_without_its_backend() {
        let mut registry = registry(&[&EMPTY, &PLAIN]);
        registry.load_all();
        let states: Vec<_> = registry.plugins().iter().map(|plugin| plugin.state.is_ok()).collect();
        assert_eq!(states, [false, true]);
    }
}
