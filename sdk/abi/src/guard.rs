//! Turns panics into errors. abi_stable aborts the process when a panic reaches it, so none may: every entry
//! point of a plugin, every callback into the host, and every drop of an object that crossed runs under
//! [`guard`].

use crate::adapt::error::to_wire;
use crate::wire::R;
use abi_stable::std_types::{RErr, ROk};
use apr_sdk::{Error, Result};
use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::ops::{Deref, DerefMut};
use std::panic::{AssertUnwindSafe, catch_unwind, set_hook, take_hook};
use std::sync::{Arc, Mutex, Once, PoisonError};

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    static LAST: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Faults kept. 64: an object that panics on every call must not fill the memory.
const KEPT_FAULTS: usize = 64;

/// Panics that no call could report, because they happened in drops and probes. The host fetches them.
#[derive(Debug, Default)]
pub struct Faults(Mutex<Vec<String>>);

/// The faults of the library this is linked into.
pub static FAULTS: Faults = Faults(Mutex::new(Vec::new()));

impl Faults {
    /// Records the message of a panic; beyond the cap it is dropped.
    pub fn note(&self, message: &str) {
        let mut faults = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if faults.len() < KEPT_FAULTS {
            faults.push(message.to_owned());
        }
    }

    /// Returns the recorded faults and clears the list.
    pub fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// An object whose drop is guarded like its calls.
pub struct Guarded<T: ?Sized> {
    object: ManuallyDrop<Box<T>>,
    dropping: &'static str,
    faults: Option<Arc<Faults>>,
}

impl<T: ?Sized> Guarded<T> {
    /// Wraps `object`. A panic in its drop, described by `dropping`, is recorded in `faults`, or in
    /// [`FAULTS`].
    pub fn new(object: Box<T>, dropping: &'static str, faults: Option<Arc<Faults>>) -> Guarded<T> {
        Guarded { object: ManuallyDrop::new(object), dropping, faults }
    }
}

impl<T: ?Sized> Deref for Guarded<T> {
    type Target = T;
    fn deref(&self) -> &T {
        &self.object
    }
}

impl<T: ?Sized> DerefMut for Guarded<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.object
    }
}

impl<T: ?Sized> Drop for Guarded<T> {
    fn drop(&mut self) {
        // SAFETY: this is the drop of the only owner; nothing accesses the field afterwards.
        let object = unsafe { ManuallyDrop::take(&mut self.object) };
        if let Err(panic) = guard(|| drop(object)) {
            self.faults.as_deref().unwrap_or(&FAULTS).note(panicked(self.dropping, &panic).message());
        }
    }
}

/// Installs a panic hook, once per library. While a guard is active on the thread, the hook records message
/// and location and prints nothing; otherwise it calls the previous hook.
pub fn install_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |info| {
            if DEPTH.try_with(Cell::get).unwrap_or(0) == 0 {
                return before(info);
            }
            let payload = info.payload();
            let text = payload
                .downcast_ref::<&str>()
                .map(|text| (*text).to_owned())
                .or_else(|| payload.downcast_ref::<String>().cloned())
                .unwrap_or_else(|| "a panic without a message".to_owned());
            let place = info.location().map(|at| format!(" at {}:{}", at.file(), at.line()));
            let _ = LAST.try_with(|last| *last.borrow_mut() = Some(text + &place.unwrap_or_default()));
        }));
    });
}

/// Runs `f` and catches a panic.
///
/// # Errors
/// The panic's message and location.
pub fn guard<T>(f: impl FnOnce() -> T) -> std::result::Result<T, String> {
    DEPTH.with(|depth| depth.set(depth.get() + 1));
    let outcome = catch_unwind(AssertUnwindSafe(f));
    DEPTH.with(|depth| depth.set(depth.get() - 1));
    outcome.map_err(|payload| {
        // Dropping the payload may panic as well: leak it.
        std::mem::forget(payload);
        let recorded = LAST.with(|last| last.borrow_mut().take());
        recorded.unwrap_or_else(|| "a panic without a message".to_owned())
    })
}

/// Runs plugin code; a panic becomes a Plugin error, to which the host adds the plugin's name.
///
/// # Errors
/// Any error from `f`; Plugin with `E_PLUGIN` for a panic.
pub fn plugin<T>(doing: &str, f: impl FnOnce() -> Result<T>) -> Result<T> {
    guard(f).unwrap_or_else(|panic| Err(panicked(doing, &panic)))
}

/// The error for a plugin that panicked while `doing` something.
#[cold]
pub fn panicked(doing: &str, panic: &str) -> Error {
    Error::plugin(format!("panicked while {doing}: \"{}\"", apr_sdk::escape(panic, 600)))
        .code("E_PLUGIN")
        .hint("report it to the author of the plugin: this is a bug in the plugin")
}

/// [`plugin`], with its result in wire form.
pub(crate) fn plugin_wire<T>(doing: &str, f: impl FnOnce() -> Result<T>) -> R<T> {
    match plugin(doing, f) {
        Ok(value) => ROk(value),
        Err(error) => RErr(to_wire(&error)),
    }
}

/// Runs a callback of the host and returns a wire result. A panic there is a bug in the program, not in the
/// plugin.
pub(crate) fn host_wire<T>(doing: &str, f: impl FnOnce() -> Result<T>) -> R<T> {
    let outcome = guard(f).unwrap_or_else(|panic| {
        let panic = apr_sdk::escape(&panic, 600);
        Err(Error::io(format!("apr itself panicked while {doing}: \"{panic}\""))
            .code("E_HOST")
            .hint("report it: this is a bug in apr"))
    });
    match outcome {
        Ok(value) => ROk(value),
        Err(error) => RErr(to_wire(&error)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Mine;
    impl Drop for Mine {
        fn drop(&mut self) {
            panic!("the payload's drop");
        }
    }

    #[test]
    fn panics_become_messages_with_their_place() {
        install_hook();
        let error = plugin("probing", || -> Result<()> { panic!("no {}", 7) }).unwrap_err();
        assert!(error.message().starts_with("panicked while probing: \"no 7 at "), "{error}");
        assert_eq!(error.explicit_code(), Some("E_PLUGIN"));
        assert_eq!(guard(|| 3), Ok(3));
        let nested = guard(|| guard(|| panic!("inner")).unwrap_err());
        assert!(nested.unwrap().starts_with("inner"));
        assert!(guard(|| std::panic::panic_any(Mine)).is_err());
    }
}
