//! Converts the system's errors to ours.

use apr_engine::wording::nearest;
use apr_sdk::{Error, ErrorKind, escape};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};
use std::path::Path;

/// Converts an I/O error; NotFound has its own exit code.
pub fn io_error(error: &std::io::Error, verb: &str) -> Error {
    match error.kind() {
        std::io::ErrorKind::NotFound => Error::not_found("no such file or folder"),
        std::io::ErrorKind::StorageFull => {
            Error::io("the disk is full").hint("free some space, or write elsewhere")
        }
        std::io::ErrorKind::FileTooLarge => {
            Error::io(format!("cannot {verb}: the file would exceed the size limit"))
                .hint("raise the limit (`ulimit -f`), or write to a file system that allows larger files")
        }
        _ if error.raw_os_error().map(Errno::from_raw_os_error) == Some(Errno::MFILE) => {
            // The soft limit was raised to the hard one when the program started.
            let may = getrlimit(Resource::Nofile).current.map(|n| format!("{n} ")).unwrap_or_default();
            Error::io(format!("cannot {verb}: apr may not open more than {may}files at once")).hint(
                "raise the hard limit (`ulimit -Hn`), which requires administrator rights: apr already uses \
                 all of it",
            )
        }
        _ => Error::io(format!("cannot {verb}: {error}")),
    }
}

/// Converts an I/O error of the file or folder at `path`.
pub fn path_error(error: &std::io::Error, verb: &str, path: &Path) -> Error {
    io_error(error, verb).in_file(path.display().to_string())
}

/// The error of opening a path that the user typed: of one that does not exist it says where the path breaks off, or
/// which name in its folder was probably meant.
pub fn with_way_out(error: Error, path: &Path) -> Error {
    if error.kind() == ErrorKind::NotFound { error.hint(way_out(path)) } else { error }
}

fn way_out(path: &Path) -> String {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return format!(
            "check the path: the folder `{}` does not exist",
            escape(&folder.display().to_string(), 200)
        );
    }
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    // A folder may hold millions of files, and this is only a guess.
    let names: Vec<String> =
        entries.take(10_000).filter_map(|entry| entry.file_name().into_string().ok()).collect();
    let wanted = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    match nearest(wanted, names.iter().map(String::as_str)) {
        Some(near) => {
            let near = path.with_file_name(near).display().to_string();
            format!("did you mean `{}`?", escape(&near, 200))
        }
        None => "check the path".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_path_that_does_not_exist_leads_to_one_that_does() {
        let folder = std::env::temp_dir().join(format!("apr-way-out-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        std::fs::write(folder.join("model.gguf"), b"").unwrap();
        let way_out = |name: &str| super::way_out(&folder.join(name));
        assert_eq!(way_out("modle.gguf"), format!("did you mean `{}`?", folder.join("model.gguf").display()));
        assert_eq!(way_out("weights.bin"), "check the path");
        let gone = folder.join("gone");
        assert_eq!(
            way_out("gone/model.gguf"),
            format!("check the path: the folder `{}` does not exist", gone.display())
        );
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
