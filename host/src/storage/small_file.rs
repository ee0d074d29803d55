//! The user's files that are read whole: settings, recipes, mappings, tables. Reading must end, and must not
//! wait: devices and pipes may violate either.

use crate::storage::error::{path_error, with_way_out};
use apr_sdk::{Error, Result};
use rustix::fs::OFlags;
use std::fs::{File, FileType, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

/// Bytes of such a file. The largest that people write are vocabularies of some tens of MB.
const MOST: u64 = 64 << 20;

/// Opens a regular file for reading. Does not wait for a pipe's writer.
///
/// # Errors
/// InvalidInput for anything else; any error from opening.
pub fn open_regular(path: &Path) -> io::Result<File> {
    let (file, kind) = open_any(path)?;
    if kind.is_file() { Ok(file) } else { Err(irregular(kind)) }
}

fn open_any(path: &Path) -> io::Result<(File, FileType)> {
    let not_waiting = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(not_waiting).open(path)?;
    let kind = file.metadata()?.file_type();
    Ok((file, kind))
}

fn irregular(kind: FileType) -> io::Error {
    let what = if kind.is_dir() { "a folder" } else { "a device, a pipe or a socket" };
    io::Error::new(io::ErrorKind::InvalidInput, format!("this is {what}, not a regular file"))
}

/// Reads a small file.
///
/// # Errors
/// NotFound; InvalidArgument for a folder, a pipe and the like; LimitExceeded above 64 MiB; Io. Errors name
/// the file.
pub fn read_bytes(path: &Path) -> Result<Vec<u8>> {
    let bytes = read_at_most(path, MOST + 1).map_err(|error| match error.kind() {
        io::ErrorKind::InvalidInput => {
            Error::invalid_argument(error.to_string()).in_file(path.display().to_string())
        }
        _ => with_way_out(path_error(&error, "read", path), path),
    })?;
    if bytes.len() as u64 > MOST {
        let message = format!("the file exceeds the limit of {MOST} bytes");
        return Err(Error::limit(message).in_file(path.display().to_string()));
    }
    Ok(bytes)
}

fn read_at_most(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let (file, kind) = open_any(path)?;
    // People use `/dev/null` for "none"; an endless device hits the limit.
    if !kind.is_file() && !kind.is_char_device() {
        return Err(irregular(kind));
    }
    let mut bytes = Vec::new();
    // The length of files that the system generates may be 0, or grow: count what arrives.
    file.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Reads a small text file.
///
/// # Errors
/// As [`read_bytes`]; InvalidArgument for anything but UTF-8.
pub fn read_text(path: &Path) -> Result<String> {
    String::from_utf8(read_bytes(path)?).map_err(|error| {
        let at = error.utf8_error().valid_up_to() as u64;
        Error::invalid_argument("the file is not valid UTF-8").in_file(path.display().to_string()).at(at)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use apr_sdk::ErrorKind;

    fn kind(path: &Path) -> ErrorKind {
        read_text(path).unwrap_err().kind()
    }

    #[test]
    fn only_regular_files_are_read_and_only_so_far() {
        let folder = std::env::temp_dir().join(format!("apr-small-file-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let [text, long, other] = ["text", "long", "other"].map(|name| folder.join(name));
        std::fs::write(&text, "caf\u{e9}").unwrap();
        std::fs::write(&other, b"caf\xe9!").unwrap();
        File::create(&long).unwrap().set_len(MOST + 1).unwrap();
        assert_eq!(read_text(&text).unwrap(), "caf\u{e9}");
        assert_eq!(kind(&long), ErrorKind::LimitExceeded);
        assert_eq!(kind(&other), ErrorKind::InvalidArgument);
        assert_eq!(kind(&folder), ErrorKind::InvalidArgument);
        assert_eq!(kind(&folder.join("absent")), ErrorKind::NotFound);
        assert_eq!(kind(Path::new("/dev/zero")), ErrorKind::LimitExceeded);
        assert_eq!(read_text(Path::new("/dev/null")).unwrap(), "");
        assert!(open_regular(Path::new("/dev/null")).is_err() && open_regular(&text).is_ok());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
