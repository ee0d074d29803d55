//! Bytes that come in order and only once, kept so that they can be read anywhere: in memory if they are few, else in a
//! file that has no name.

use apr_engine::place::{Backing, Version};
use apr_sdk::{Error, Result};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes that are kept in memory.
const IN_MEMORY: usize = 8 << 20;

/// Bytes read at a time.
const PIECE: usize = 1 << 20;

/// All bytes of something that cannot be read twice.
pub struct Spool {
    held: Held,
    len: u64,
}

enum Held {
    Memory(Vec<u8>),
    File(File),
}

impl Spool {
    /// Keeps what `read` gives, until it gives nothing; in a file in `folder` if there is much of it.
    ///
    /// # Errors
    /// Any error from `read`; Io if the file cannot be written.
    pub fn new(folder: &Path, read: &mut dyn FnMut(&mut [u8]) -> Result<usize>) -> Result<Spool> {
        let mut bytes = Vec::new();
        let mut file: Option<File> = None;
        let mut len = 0u64;
        let mut piece = vec![0; PIECE];
        loop {
            let n = read(&mut piece)?;
            if n == 0 {
                break;
            }
            len += n as u64;
            match &mut file {
                Some(file) => file.write_all(&piece[..n]).map_err(|e| failed(&e, folder))?,
                None => bytes.extend_from_slice(&piece[..n]),
            }
            if file.is_none() && bytes.len() > IN_MEMORY {
                let mut spooled = nameless(folder)?;
                spooled.write_all(&bytes).map_err(|e| failed(&e, folder))?;
                bytes = Vec::new();
                file = Some(spooled);
            }
        }
        let held = file.map_or(Held::Memory(bytes), Held::File);
        Ok(Spool { held, len })
    }
}

/// A new file in a folder, whose name is gone again.
fn nameless(folder: &Path) -> Result<File> {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let path = folder.join(format!(".apr-spool-{}-{number}", std::process::id()));
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path);
    let file = file.map_err(|e| failed(&e, folder))?;
    std::fs::remove_file(&path).map_err(|e| failed(&e, folder))?;
    Ok(file)
}

fn failed(error: &std::io::Error, folder: &Path) -> Error {
    let error = match error.kind() {
        std::io::ErrorKind::StorageFull => Error::io("the disk is full"),
        _ => Error::io(format!("cannot keep what was read: {error}")),
    };
    error.in_file(folder.display().to_string()).hint("name a folder with more space in TMPDIR")
}

impl Backing for Spool {
    fn len(&self) -> u64 {
        self.len
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        match &self.held {
            Held::Memory(bytes) => {
                let from = usize::try_from(offset).unwrap_or(usize::MAX);
                let end = from.saturating_add(out.len());
                let held = bytes.get(from..end).ok_or_else(|| Error::io("there are fewer bytes"))?;
                out.copy_from_slice(held);
                Ok(())
            }
            Held::File(file) => {
                file.read_exact_at(out, offset).map_err(|e| Error::io(format!("cannot read: {e}")))
            }
        }
    }

    fn version(&self) -> Option<Version> {
        Some(Version { len: self.len, modified: 0, status: 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_bytes_and_many_are_kept_alike() {
        for total in [0usize, 1, IN_MEMORY, IN_MEMORY + 1, 3 * PIECE + IN_MEMORY] {
            let mut at = 0;
            let spool = Spool::new(&std::env::temp_dir(), &mut |out| {
                let n = out.len().min(total - at).min(700_001);
                out[..n].iter_mut().zip(at..).for_each(|(byte, at)| *byte = (at % 251).to_le_bytes()[0]);
                at += n;
                Ok(n)
            })
            .unwrap();
            assert_eq!(spool.len(), total as u64);
            let mut last = [0; 1];
            if total > 0 {
                spool.read_at(total as u64 - 1, &mut last).unwrap();
                assert_eq!(usize::from(last[0]), (total - 1) % 251);
            }
            assert!(spool.read_at(total as u64, &mut last).is_err());
        }
    }
}
