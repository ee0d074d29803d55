//! Kernel plugins: compute on rows, chosen by rank and by what the machine supports. An outline: the manifest kind is
//! known, the host lists such plugins, and nothing calls them yet.

/// A compute backend.
pub trait Kernel: Send + Sync {
    /// Its name (`cpu`, `cuda`, ...).
    fn name(&self) -> String;

    /// How good it is where it is supported; the host takes the highest.
    fn rank(&self) -> u32;

    /// Whether this machine has what it needs.
    fn is_supported(&self) -> bool;
}
