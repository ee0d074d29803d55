//! A copy of a library to be changed, with a token of its own: if any of its code runs, a file of that name appears.

use crate::build::WORK;
use apr_abi::manifest::{HEAD_LEN, MAGIC};
use apr_engine::registry::{Plugin, Registry};
use apr_host::plugins::DiscoverOptions;
use apr_sdk::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

pub struct Library {
    pub bytes: Vec<u8>,
    pub path: PathBuf,
    token: String,
}

/// A fresh folder that only the user may write.
pub fn folder() -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let folder = WORK.join("run").join(format!("{}-{number}", std::process::id()));
    let _ = fs::remove_dir_all(&folder);
    fs::create_dir_all(&folder).unwrap();
    folder
}

impl Library {
    /// A copy of `original`, not written yet.
    pub fn copy_of(original: &Path) -> Library {
        let folder = folder();
        let number: u64 = folder
            .to_str()
            .unwrap()
            .bytes()
            .fold(7, |n, byte| n.wrapping_mul(31).wrapping_add(u64::from(byte)));
        let token = format!("rogue-token-{:08}", number % 100_000_000);
        let path = folder.join(apr_host::plugins::file_name("rogue"));
        let mut library = Library { bytes: fs::read(original).unwrap(), path, token };
        let token = library.token.clone();
        library.replace(b"rogue-token-00000000", token.as_bytes());
        let _ = fs::remove_file(library.marker());
        library
    }

    /// The bytes that are this copy's own.
    pub fn token(&self) -> &str {
        &self.token
    }

    fn marker(&self) -> PathBuf {
        WORK.join("markers").join(&self.token)
    }

    /// Replaces bytes wherever they are.
    pub fn replace(&mut self, from: &[u8], to: &[u8]) -> &mut Library {
        assert_eq!(from.len(), to.len());
        let places: Vec<_> =
            (0..=self.bytes.len() - from.len()).filter(|at| self.bytes[*at..].starts_with(from)).collect();
        assert!(!places.is_empty(), "the library has no {:?}", String::from_utf8_lossy(from));
        places.iter().for_each(|at| self.bytes[*at..*at + to.len()].copy_from_slice(to));
        self
    }

    /// Where the manifest section begins.
    pub fn section(&self) -> usize {
        let head = [MAGIC.as_slice(), &(HEAD_LEN as u32).to_le_bytes()].concat();
        self.bytes.windows(head.len()).position(|window| window == head).unwrap()
    }

    /// Sets a number of the manifest's head.
    pub fn head(&mut self, at: usize, value: u32) -> &mut Library {
        let at = self.section() + at;
        self.bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        self
    }

    pub fn write(&self) -> &Library {
        fs::write(&self.path, &self.bytes).unwrap();
        self
    }

    /// Whether any of its code ran.
    pub fn ran(&self) -> bool {
        self.marker().exists()
    }

    /// Why the library is refused, having checked that what is said is one line with its file.
    pub fn refusal(&self) -> Error {
        self.write();
        let error = refusal(&discover(&self.path));
        assert_eq!(error.file(), self.path.to_str());
        assert!(!error.message().contains('\n') && error.message().len() < 300, "{error}");
        error
    }
}

/// The copies are large; what was loaded of them stays mapped.
impl Drop for Library {
    fn drop(&mut self) {
        let _ = fs::remove_file(self.marker());
        let _ = self.path.parent().map(fs::remove_dir_all);
    }
}

/// Only the named file, loaded.
pub fn discover(path: &Path) -> Registry {
    let options = DiscoverOptions { named: vec![path.to_owned()], ..DiscoverOptions::default() };
    let mut registry = apr_host::plugins::discover(&options);
    registry.load_all();
    registry
}

/// Why the last plugin was refused.
pub fn refusal(registry: &Registry) -> Error {
    let plugin: &Plugin = registry.plugins().last().unwrap();
    plugin.state.as_ref().err().cloned().unwrap()
}
