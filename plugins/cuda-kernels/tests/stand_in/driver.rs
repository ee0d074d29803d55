//! The library that stands in for the driver, and what it is told.

use crate::emulated::compiled;
use apr_sdk::Kernel;
use libloading::Library;
use std::ffi::CString;
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

type Obey = unsafe extern "C" fn(*const std::ffi::c_char);
type Count = unsafe extern "C" fn(u32) -> u64;

/// What is counted, by the library's numbers.
#[derive(Clone, Copy, Debug)]
pub enum What {
    Calls = 7,
    MostPinned = 8,
    Leaked = 9,
}

/// Allocations, pinned buffers, modules, graphs, streams, events and contexts.
pub const MADE: std::ops::Range<u32> = 0..7;

/// The driver. One test at a time has it.
pub struct Driver {
    library: &'static Library,
    _alone: MutexGuard<'static, ()>,
}

/// Where the library lies; `None` where there is no C++ compiler.
pub fn path() -> Option<&'static PathBuf> {
    static PATH: OnceLock<Option<PathBuf>> = OnceLock::new();
    // The name under which a driver is looked for first.
    let options = ["-Wl,-soname,libcuda.so", "-ldl"];
    PATH.get_or_init(|| {
        // A child is given its parent's.
        let given = std::env::var_os("APR_STAND_IN_LIBRARY").map(PathBuf::from);
        given.or_else(|| compiled("stand-in", include_str!("libcuda.cpp"), &[], &options))
    })
    .as_ref()
}

impl Driver {
    /// The driver with these devices, which fails nowhere.
    pub fn with(devices: &str) -> Option<Driver> {
        static LIBRARY: OnceLock<Option<Library>> = OnceLock::new();
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: nothing runs when the library is loaded.
        let load = || path().map(|path| unsafe { Library::new(path) }.unwrap());
        let driver = Driver { library: LIBRARY.get_or_init(load).as_ref()?, _alone: alone };
        driver
            .obey(&format!("devices={devices} memory=1073741824 left=1073741824 ptx=0 fail=0 lost=0 idle=0"));
        Some(driver)
    }

    /// Tells it something.
    pub fn obey(&self, line: &str) {
        let line = CString::new(line).unwrap();
        // SAFETY: the library's function has this type, and the line ends with a zero.
        unsafe { self.library.get::<Obey>(b"stand_in").unwrap()(line.as_ptr()) };
    }

    fn number(&self, what: u32) -> u64 {
        // SAFETY: the library's function has this type.
        unsafe { self.library.get::<Count>(b"stand_in_count").unwrap()(what) }
    }

    /// A number that it keeps.
    pub fn count(&self, what: What) -> u64 {
        self.number(what as u32)
    }

    /// How much of each kind there is.
    pub fn made(&self) -> Vec<u64> {
        MADE.map(|what| self.number(what)).collect()
    }
}

/// The backend over the system's driver, which the library is.
pub fn kernel() -> Box<dyn Kernel> {
    (apr_plugin_cuda_kernels::PLUGIN.kernel)().unwrap()
}
