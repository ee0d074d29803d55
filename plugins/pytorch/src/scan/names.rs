//! Judges what a name would do in a program that imports it.

use crate::pickle::allow_list;

/// How a name is judged, from harmless to harmful.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    /// On the list of names that rebuild tensors and plain containers.
    Known,
    /// Not on it.
    Unknown,
    /// Of a module that runs code, reaches out of the process, or unpickles again.
    Dangerous,
}

impl Verdict {
    /// The word for it in reports: `known`, `unknown` or `dangerous`.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Known => "known",
            Verdict::Unknown => "unknown",
            Verdict::Dangerous => "dangerous",
        }
    }
}

/// Modules of which nothing belongs into a checkpoint: each runs code, files, processes or connections, or gives a way to
/// what does.
#[rustfmt::skip] // a table
const DANGEROUS: [&str; 86] = [
    "__builtin__", "__main__", "_aix_support", "_codecs", "_ctypes", "_io", "_operator", "_osx_support", "_pickle",
    "_posixsubprocess", "_pyrepl", "_thread", "aiohttp", "ast", "asyncio", "atexit", "bdb", "builtins", "cProfile",
    "cgitb", "cloudpickle", "cmd", "code", "codecs", "codeop", "commands", "concurrent", "copyreg", "copy_reg", "ctypes",
    "dill", "distutils", "doctest", "ensurepip", "fileinput", "ftplib", "functools", "gc", "glob", "http", "httplib",
    "idlelib", "imaplib", "imp", "importlib", "inspect", "io", "joblib", "lib2to3", "linecache", "logging", "marshal",
    "mmap", "multiprocessing", "nt", "operator", "os", "pathlib", "pdb", "pickle", "pip", "pkgutil", "platform",
    "poplib", "posix", "profile", "pty", "pydoc", "requests", "runpy", "setuptools", "shelve", "shutil", "site",
    "smtplib", "socket", "subprocess", "sys", "tempfile", "threading", "timeit", "trace", "types", "urllib",
    "webbrowser", "zipimport",
];

/// Parts of larger packages of which the same is true.
const DANGEROUS_PARTS: [&str; 14] = [
    "numpy.testing",
    "numpy.f2py",
    "numpy.distutils",
    "numpy.load",
    "torch.load",
    "torch.hub",
    "torch.serialization",
    "torch.storage",
    "torch.package",
    "torch.jit",
    "torch._inductor",
    "torch._dynamo",
    "torch.utils",
    "torch.fx",
];

/// Judges the global `module.name`.
pub fn judge(module: &str, name: &str) -> Verdict {
    let script = module == "__torch__" || module.starts_with("__torch__.");
    if allow_list::find(module, name).is_some() || script {
        return Verdict::Known;
    }
    let root = module.split('.').next().unwrap_or_default().trim();
    let full = format!("{module}.{name}");
    let part = |part: &&str| full == **part || full.starts_with(&format!("{part}."));
    if DANGEROUS.contains(&root) || DANGEROUS_PARTS.iter().any(part) {
        return Verdict::Dangerous;
    }
    Verdict::Unknown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_judged_by_what_they_reach() {
        for (module, name, verdict) in [
            ("collections", "OrderedDict", Verdict::Known),
            ("torch._utils", "_rebuild_sparse_tensor", Verdict::Known),
            ("builtins", "eval", Verdict::Dangerous),
            ("builtins", "set", Verdict::Known),
            ("os", "system", Verdict::Dangerous),
            ("os.path", "join", Verdict::Dangerous),
            ("ossify", "x", Verdict::Unknown),
            ("numpy", "load", Verdict::Dangerous),
            ("numpy", "loaded", Verdict::Unknown),
            ("numpy.testing._private.utils", "runstring", Verdict::Dangerous),
            ("torch", "load", Verdict::Dangerous),
            ("argparse", "Namespace", Verdict::Known),
            ("argparse", "ArgumentParser", Verdict::Unknown),
            ("pathlib", "PosixPath", Verdict::Known),
            ("pathlib", "Path.write_text", Verdict::Dangerous),
            ("types", "CodeType", Verdict::Dangerous),
        ] {
            assert_eq!(judge(module, name), verdict, "{module}.{name}");
        }
    }
}
