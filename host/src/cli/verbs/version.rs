//! `apr --version`: program, package (other programs are called apr too), target, and which plugins fit. It loads nothing.

use apr_abi::manifest::TARGET;
use serde_json::json;

/// For people.
pub fn text() -> String {
    let commit = option_env!("APR_COMMIT").map(|commit| format!(", commit {commit}")).unwrap_or_default();
    let version = env!("CARGO_PKG_VERSION");
    let package = env!("CARGO_PKG_NAME");
    let interface = abi_range();
    format!("apr {version}{commit}\npackage {package}\ntarget {TARGET}\nplugin interface {interface}\n")
}

/// For programs. JSON: of `apr --version --json`: `version`, `commit` (or null), `package`, `target`, `plugin_interface`.
pub fn json() -> String {
    let document = json!({
        "schema": "apr.version/1",
        "version": env!("CARGO_PKG_VERSION"),
        "commit": option_env!("APR_COMMIT"),
        "package": env!("CARGO_PKG_NAME"),
        "target": TARGET,
        "plugin_interface": abi_range(),
    });
    format!("{document:#}\n")
}

/// The versions of the plugin interface that are understood: this major one, up to this minor one.
fn abi_range() -> String {
    match apr_abi::ABI {
        (major, 0) => format!("{major}.0"),
        (major, minor) => format!("{major}.0 to {major}.{minor}"),
    }
}
