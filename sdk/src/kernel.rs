//! Kernel plugins: they compute on rows and are chosen by rank and by what the machine supports. Only an
//! outline: the host knows the manifest kind and lists such plugins, but nothing calls them yet.

/// A compute backend.
pub trait Kernel: Send + Sync {
    /// The backend's name (`cpu`, `cuda`, ...).
    fn name(&self) -> String;

    /// The preference among supported backends; the host picks the highest.
    fn rank(&self) -> u32;

    /// Whether this machine can run it.
    fn is_supported(&self) -> bool;
}
