//! The compute backends among the plugins.

use super::{Provider, Registry};
use apr_sdk::{Error, Kernel, Manifest, OptionSpec, Options, Result, escape};
use std::sync::{Arc, OnceLock};

/// A compute backend that a plugin provides, created on first use.
pub(super) struct KernelSlot {
    /// Its id, as in `--backend`.
    pub(super) id: String,
    /// Index of the plugin in [`Registry::plugins`].
    pub(super) plugin: usize,
    /// The options that a device can be opened with.
    options: Vec<OptionSpec>,
    provider: Arc<dyn Provider>,
    made: OnceLock<Result<Arc<dyn Kernel>>>,
}

impl KernelSlot {
    /// The backends of a plugin.
    pub(super) fn all(
        manifest: &Manifest,
        plugin: usize,
        provider: &Arc<dyn Provider>,
    ) -> impl Iterator<Item = KernelSlot> {
        manifest.kernels.iter().map(move |id| {
            let options = manifest.kernel_options.iter();
            let options = options.filter(|(of, _)| of == id).map(|(_, option)| option.clone()).collect();
            KernelSlot {
                id: id.clone(),
                plugin,
                options,
                provider: Arc::clone(provider),
                made: OnceLock::new(),
            }
        })
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

    /// Returns whether a compute backend may be chosen without being named: one that comes with apr, one that was named on the
    /// command line, or one of [`Registry::auto_backends`]. An installed plugin must not become everyone's default.
    pub fn is_automatic(&self, id: &str) -> bool {
        let slot = self.kernels.iter().find(|slot| slot.id == id);
        slot.is_some_and(|slot| !self.plugins[slot.plugin].origin.is_installed())
            || self.auto_backends.iter().any(|named| named == id)
    }

    /// Finds a compute backend by its id.
    ///
    /// # Errors
    /// InvalidArgument, naming those that are there; Plugin if it cannot be created.
    pub fn kernel(&self, id: &str) -> Result<Arc<dyn Kernel>> {
        let found = self.kernels.iter().find(|slot| slot.id == id);
        found.map_or_else(|| Err(self.no_kernel(id)), KernelSlot::make)
    }

    /// The options that a backend's device is opened with: the defaults, and those that the user gave.
    ///
    /// # Errors
    /// InvalidArgument for an option that the backend does not declare, or a value that it does not accept.
    pub fn kernel_options(&self, id: &str, given: &Options) -> Result<Options> {
        let slot = self.kernels.iter().find(|slot| slot.id == id).ok_or_else(|| self.no_kernel(id))?;
        let mut options = Options::new();
        for spec in slot.options.iter().filter(|spec| !spec.default.is_empty()) {
            options.set(&spec.name, &spec.default);
        }
        for (name, value) in given.iter() {
            let Some(spec) = slot.options.iter().find(|spec| spec.name == name) else {
                let names: Vec<_> = slot.options.iter().map(|spec| spec.name.as_str()).collect();
                let hint = match names[..] {
                    [] => "remove it: this backend has no options".to_owned(),
                    _ => format!("use one of {}", names.join(", ")),
                };
                let message =
                    format!("the backend `{}` has no option `{}`", escape(id, 80), escape(name, 80));
                return Err(Error::invalid_argument(message).hint(hint));
            };
            spec.check(id, value)?;
            options.set(name, value);
        }
        Ok(options)
    }

    fn no_kernel(&self, id: &str) -> Error {
        let known: Vec<_> = self.kernel_ids().collect();
        let hint = match known[..] {
            [] => "run `apr plugins list`: no plugin with a compute backend is loaded".to_owned(),
            _ => format!("use one of the available backends: {}", known.join(", ")),
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
    use apr_sdk::{Device, DeviceSink, ErrorKind, OpSpec, PluginDecl, Support};

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
        manifest: "id=a\nversion=1\nkernels=plain\nplain.option.speed=open choice:low,high low How fast\n\
                   plain.option.note=open text - Whatever\n",
        kernel: || Some(Box::new(Nothing)),
        ..PluginDecl::EMPTY
    };
    static EMPTY: PluginDecl =
        PluginDecl { manifest: "id=b\nversion=1\nkernels=empty\n", ..PluginDecl::EMPTY };
    static SAME: PluginDecl = PluginDecl { manifest: "id=c\nversion=1\nkernels=plain\n", ..PLAIN };

    fn registry(decls: &[&'static PluginDecl]) -> Registry {
        registry_of(Origin::Bundled, decls)
    }

    fn registry_of(origin: Origin, decls: &[&'static PluginDecl]) -> Registry {
        let mut registry = Registry::new();
        for decl in decls {
            let manifest = Manifest::parse(decl.manifest).unwrap();
            let state: Result<Arc<dyn Provider>> = Ok(Arc::new(Linked(decl)));
            registry.add(Plugin { manifest: Some(manifest), path: None, origin, abi: None, state });
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
    fn an_installed_backend_is_automatic_only_if_it_is_listed() {
        assert!(registry(&[&PLAIN]).is_automatic("plain"));
        assert!(registry_of(Origin::Flag, &[&PLAIN]).is_automatic("plain"));
        for origin in [Origin::User, Origin::System, Origin::Variable] {
            let mut registry = registry_of(origin, &[&PLAIN]);
            assert!(!registry.is_automatic("plain"), "{origin:?}");
            registry.auto_backends = vec!["plain".to_owned()];
            assert!(registry.is_automatic("plain"), "{origin:?}");
        }
    }

    #[test]
    fn options_are_checked_and_have_defaults() {
        let registry = registry(&[&PLAIN]);
        let given = |name, value| registry.kernel_options("plain", &Options::new().with(name, value));
        assert_eq!(registry.kernel_options("plain", &Options::new()).unwrap().get("speed"), Some("low"));
        assert_eq!(given("speed", "high").unwrap().get("speed"), Some("high"));
        assert_eq!(given("note", "x=y").unwrap().get("note"), Some("x=y"));
        let error = given("sped", "high").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert_eq!(error.hint_text(), Some("use one of speed, note"));
        let error = given("speed", "middle").unwrap_err();
        assert_eq!(error.message(), "option `plain.speed` cannot be `middle`");
        assert_eq!(error.hint_text(), Some("pass low or high: How fast"));
        assert!(registry.kernel_options("tpu", &Options::new()).is_err());
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
