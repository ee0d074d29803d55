//! The context of every verb: the terminal, the settings and, when it asks, the host with its plugins.

use crate::cli::flags::globals::{ColorWhen, Globals};
use crate::cli::flags::remote_args::RemoteArgs;
use crate::cli::folders::{cache_home, process_env};
use crate::cli::output::progress;
use crate::cli::output::terminal::{Terminal, color_wanted};
use crate::cli::settings::Settings;
use crate::cli::signals;
use apr_engine::progress::Progress;
use apr_engine::registry::{Origin, Registry};
use apr_host::host::Host;
use apr_host::plugins::{DiscoverOptions, Rehearsal, places};
use apr_host::storage::error::with_way_out;
use apr_host::storage::overwrite::Inputs;
use apr_remote::cache::{Cache, Roots};
use apr_remote::http::client::Observer;
use apr_remote::places::Anywhere;
use apr_remote::settings::environment;
use apr_remote::typed::TypedAddresses;
use apr_sdk::{Error, LogLevel, Result};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The name of the hidden action of `apr plugins` in which libraries are tried.
pub const LOAD_CHILD: &str = "load-child";

/// The surroundings of a verb.
pub struct Context {
    /// The global flags as given.
    pub globals: Globals,
    /// The settings, flags and environment applied.
    pub settings: Settings,
    /// The terminal that the answer goes to.
    pub terminal: Terminal,
    /// Where models that are elsewhere come from.
    pub remote: RemoteArgs,
    /// Addresses as they were typed.
    pub typed: TypedAddresses,
}

impl Context {
    /// Reads the configuration.
    ///
    /// # Errors
    /// As [`Settings::load`].
    pub fn new(globals: Globals) -> Result<Context> {
        let settings = Settings::load(&globals, &process_env)?;
        let when = ColorWhen::from_word(settings.text("defaults.color")).unwrap_or(ColorWhen::Auto);
        let terminal = Terminal {
            json: settings.text("defaults.output_format") == "json",
            quiet: globals.quiet,
            verbose: globals.verbose,
            color: color_wanted(when),
            waiting: Arc::default(),
            told: Arc::default(),
        };
        settings.warnings.iter().for_each(|warning| terminal.warn(warning));
        Ok(Context {
            globals,
            settings,
            terminal,
            remote: RemoteArgs::default(),
            typed: TypedAddresses::default(),
        })
    }

    /// The host: every plugin that is found, the wanted threads, progress on stderr, Ctrl-C as a polite stop.
    pub fn host(&self) -> Host {
        self.host_of(self.registry())
    }

    /// The same with an architecture table that precedes all others.
    ///
    /// # Errors
    /// The refusal of the table, with its code.
    pub fn host_with_table(&self, table: &Path) -> Result<Host> {
        let mut options = self.discover_options();
        options.named.insert(0, table.to_owned());
        let registry = apr_host::plugins::discover(&options);
        registry.check_named()?;
        Ok(self.host_of(self.with_settings(registry)))
    }

    fn host_of(&self, registry: Registry) -> Host {
        let mut host = Host::new(registry);
        match self.settings.number("defaults.threads") {
            0 => {}
            threads => host.set_threads(threads),
        }
        // For tests, whose jobs are smaller and shorter than any that keeps a journal: not settings, and in no help.
        if let Some(bytes) = number_in("APR_JOURNAL_BYTES") {
            host.journal_bytes = bytes;
        }
        if let Some(milliseconds) = number_in("APR_JOURNAL_MILLISECONDS") {
            host.journal_interval = Duration::from_millis(milliseconds);
        }
        let form = self.settings.text("defaults.progress");
        let level = self.settings.text("log.level");
        host.progress = progress::shown(form, level, &self.terminal);
        signals::on_interrupt(&host);
        host.places = Arc::new(self.anywhere(&host));
        host
    }

    /// The cache of downloads from the hub.
    ///
    /// # Errors
    /// NotFound if neither a setting nor the environment names a folder for it.
    pub fn cache(&self) -> Result<Cache> {
        let env = with_cache_folder(self.settings.text("cache.folder").to_owned());
        Ok(Cache::new(Roots::of_env(&env)?.hub, environment::state(&env)))
    }

    /// Models elsewhere, and paths as the host resolves them.
    pub fn anywhere(&self, host: &Host) -> Anywhere {
        let args = self.remote.clone();
        let typed = self.typed.clone();
        let cancel = Arc::clone(&host.cancel);
        let progress = Arc::clone(&host.progress);
        let env = with_cache_folder(self.settings.text("cache.folder").to_owned());
        let make = move || {
            let mut options = args.options(&env)?;
            options.typed = typed.clone();
            options.client.cancel = Arc::clone(&cancel);
            options.client.observer = Arc::new(Observed(Arc::clone(&progress)));
            Ok(options)
        };
        Anywhere::new(Arc::clone(&host.places), Box::new(make))
    }

    /// The files that every verb reads, besides plugins and operands: its configuration.
    pub fn reads(&self) -> impl Iterator<Item = &PathBuf> {
        self.settings.files.iter().chain(&self.globals.plugins).chain(&self.remote.header_file)
    }

    /// The files that no verb may write over, whatever else it reads.
    pub fn inputs(&self, registry: &Registry) -> Inputs {
        let mut inputs = Inputs::of_plugins(registry);
        self.reads().for_each(|path| inputs.add(path));
        inputs
    }

    /// Every plugin that is found.
    pub fn registry(&self) -> Registry {
        self.with_settings(apr_host::plugins::discover(&self.discover_options()))
    }

    /// A registry that follows the user's settings.
    fn with_settings(&self, mut registry: Registry) -> Registry {
        registry.auto_backends = self.settings.words("backends.auto");
        registry
    }

    /// Every plugin that is found, each tried in a process of its own and then loaded: what would be refused at its first
    /// use is refused now, and a verdict that was remembered is not asked.
    pub fn tried_registry(&self) -> Registry {
        let options = self.discover_options();
        let rehearsal = options.rehearsal.map(|known| Rehearsal { remembered: None, every: true, ..known });
        let mut registry = apr_host::plugins::discover(&DiscoverOptions { rehearsal, ..options });
        registry.load_all();
        registry
    }

    /// Fails if a plugin that the user named is not there or refused: nobody names one that need not be there. A folder may
    /// be, and is only told of.
    ///
    /// # Errors
    /// The refusal, with its code.
    pub fn check_named_plugins(&self) -> Result<()> {
        let everywhere = self.discover_options();
        if everywhere.named.is_empty() && everywhere.plugin_path.is_empty() {
            return Ok(());
        }
        for place in places(&everywhere) {
            if place.origin == Origin::Variable && !place.path.exists() {
                let shown = place.path.display();
                self.terminal.warn(&format!("the folder `{shown}` in `APR_PLUGIN_PATH` does not exist"));
            }
        }
        let named = DiscoverOptions {
            user: None,
            executable: None,
            system: Vec::new(),
            bundled: false,
            ..everywhere
        };
        apr_host::plugins::discover(&named).check_named()
    }

    /// The plugin of one library, found by no other way.
    ///
    /// # Errors
    /// NotFound if the file is not there.
    pub fn registry_of(&self, library: &Path) -> Result<Registry> {
        self.only_of(library, None)
    }

    /// The same, tried in a process of its own and then loaded.
    ///
    /// # Errors
    /// As [`Context::registry_of`].
    pub fn tried_registry_of(&self, library: &Path) -> Result<Registry> {
        let mut registry = self.only_of(library, rehearsal())?;
        registry.load_all();
        Ok(registry)
    }

    fn only_of(&self, library: &Path, rehearsal: Option<Rehearsal>) -> Result<Registry> {
        if !library.is_file() {
            let shown = library.display().to_string();
            let error = Error::not_found("no such library").code("E_NOT_FOUND").in_file(shown);
            return Err(with_way_out(error, library));
        }
        let everywhere = self.discover_options();
        Ok(apr_host::plugins::discover(&DiscoverOptions {
            named: vec![library.to_owned()],
            trusted_folders: everywhere.trusted_folders,
            executable: None,
            rehearsal,
            ..DiscoverOptions::default()
        }))
    }

    /// The places to look for plugins: what flags, environment and configuration say.
    pub fn discover_options(&self) -> DiscoverOptions {
        let words = self.settings.words("plugins.trusted_folders");
        DiscoverOptions {
            named: self.globals.plugins.clone(),
            trusted_folders: words.iter().map(PathBuf::from).collect(),
            rehearsal: rehearsal(),
            ..DiscoverOptions::from_environment()
        }
    }
}

/// The environment, with a setting in the place of the variable that it follows.
fn with_cache_folder(folder: String) -> impl Fn(&str) -> Option<String> + Send + Sync {
    move |name| match name {
        "APR_CACHE" if !folder.is_empty() => Some(folder.clone()),
        name => process_env(name),
    }
}

/// Passes on what happens on the way to models elsewhere.
struct Observed(Arc<dyn Progress>);

impl Observer for Observed {
    fn waits(&self, why: &str) {
        self.0.log(LogLevel::Note, why);
    }

    fn warn(&self, message: &str) {
        self.0.warn(message);
    }
}

/// This program, as the child in which libraries are tried.
fn rehearsal() -> Option<Rehearsal> {
    let command = vec![std::env::current_exe().ok()?, "plugins".into(), LOAD_CHILD.into()];
    let remembered = cache_home(&process_env).map(|cache| cache.join("apr").join("plugins-tried"));
    Some(Rehearsal { command, remembered, every: false })
}

/// The number in an environment variable, if it is there and one.
fn number_in(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}
