//! Files of lines that only grow, and that any number of processes share: read without a lock, added to under one.

use crate::cache::error::io_error;
use crate::cache::small_file;
use apr_sdk::{Error, Result};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::PathBuf;

/// Bytes after which a file is made shorter. A line has some 250: these are 30,000 files.
const MOST: u64 = 8 << 20;

/// A file whose first line says what it is, and each other line one thing, as JSON.
#[derive(Clone, Debug)]
pub struct StateFile {
    path: PathBuf,
    head: &'static str,
}

impl StateFile {
    /// The file at `path`, whose first line is `head`.
    pub fn new(path: PathBuf, head: &'static str) -> StateFile {
        StateFile { path, head }
    }

    /// The lines of the file, in order. If any line of it is not understood there are none, and the file is removed: what it
    /// says can be found out again. A last line that is not finished is being written.
    pub fn read<T: DeserializeOwned>(&self) -> Vec<T> {
        let Ok(Some(bytes)) = small_file::read(&self.path) else { return Vec::new() };
        self.parse(&bytes).unwrap_or_else(|| {
            // Where it cannot be removed, it is passed over every time.
            let _ = std::fs::remove_file(&self.path);
            Vec::new()
        })
    }

    fn parse<T: DeserializeOwned>(&self, bytes: &[u8]) -> Option<Vec<T>> {
        let finished = &bytes[..=bytes.iter().rposition(|byte| *byte == b'\n')?];
        let mut lines = std::str::from_utf8(finished).ok()?.lines();
        if lines.next() != Some(self.head) {
            return None;
        }
        lines.map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Adds lines. A file of another kind is begun anew, and `shorten` chooses what stays of one that is too long.
    ///
    /// # Errors
    /// Io.
    pub fn append<T: Serialize + DeserializeOwned>(
        &self,
        new: &[T],
        shorten: impl FnOnce(Vec<T>) -> Vec<T>,
    ) -> Result<()> {
        let failed = |error: &std::io::Error| io_error(error, "write", &self.path);
        let _lock = self.lock()?;
        if self.is_open_ended().unwrap_or(false) {
            let mut file = OpenOptions::new().append(true).open(&self.path).map_err(|e| failed(&e))?;
            // One write: a reader sees all of it, or a part that is not finished.
            return file.write_all(self.lines(new)?.as_bytes()).map_err(|error| failed(&error));
        }
        let bytes = small_file::read(&self.path).unwrap_or_default().unwrap_or_default();
        let mut known: Vec<T> = self.parse(&bytes).unwrap_or_default();
        if bytes.len() as u64 >= MOST {
            known = shorten(known);
        }
        let text = format!("{}\n{}{}", self.head, self.lines(&known)?, self.lines(new)?);
        small_file::replace(&self.path, text.as_bytes())
    }

    /// Returns whether lines can be added at the end: it begins as it should, is not too long, and its last line is finished.
    fn is_open_ended(&self) -> std::io::Result<bool> {
        let mut file = File::open(&self.path)?;
        let len = file.metadata()?.len();
        let mut head = vec![0; self.head.len() + 1];
        file.read_exact(&mut head)?;
        let mut last = [0];
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
        Ok(head == format!("{}\n", self.head).as_bytes() && last == *b"\n" && len < MOST)
    }

    fn lines<T: Serialize>(&self, values: &[T]) -> Result<String> {
        let mut text = String::new();
        for value in values {
            let line = serde_json::to_string(value).map_err(|error| {
                Error::io(format!("cannot write: {error}")).in_file(self.path.display().to_string())
            })?;
            text.push_str(&line);
            text.push('\n');
        }
        Ok(text)
    }

    /// Waits for whoever else adds lines: it takes no time. Where there are no locks, lines may be lost, which costs a hash.
    fn lock(&self) -> Result<File> {
        let path = self.path.with_extension("lock");
        path.parent().map_or(Ok(()), small_file::create_folder)?;
        let opened = OpenOptions::new().write(true).create(true).truncate(false).open(&path);
        let file = opened.map_err(|error| io_error(&error, "write", &path))?;
        while file.lock().is_err_and(|error| error.kind() == std::io::ErrorKind::Interrupted) {}
        Ok(file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fresh(name: &str) -> StateFile {
        let folder = std::env::temp_dir().join(format!("apr-state-file-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&folder);
        StateFile::new(folder.join("state"), "numbers 1")
    }

    #[test]
    fn what_is_not_understood_is_begun_anew() {
        let file = fresh("anew");
        assert!(file.read::<u64>().is_empty());
        file.append(&[1_u64, 2], |all| all).unwrap();
        file.append(&[3_u64], |all| all).unwrap();
        assert_eq!(file.read::<u64>(), [1, 2, 3]);
        let good = std::fs::read(&file.path).unwrap();
        for bad in [&b"numbers 2\n1\n"[..], b"\xff\n", b"", b"numbers 1\n1\nx\n2\n"] {
            std::fs::write(&file.path, bad).unwrap();
            assert!(file.read::<u64>().is_empty(), "{bad:?}");
            file.append(&[7_u64], |all| all).unwrap();
            assert_eq!(file.read::<u64>(), [7], "{bad:?}");
        }
        // A process that was killed while it wrote: what was finished stays.
        std::fs::write(&file.path, [&good[..], b"12"].concat()).unwrap();
        assert_eq!(file.read::<u64>(), [1, 2, 3]);
        file.append(&[4_u64], |all| all).unwrap();
        assert_eq!(file.read::<u64>(), [1, 2, 3, 4]);
        std::fs::remove_dir_all(file.path.parent().unwrap()).unwrap();
    }

    #[test]
    fn many_writers_lose_no_line_and_the_file_stays_bounded() {
        let file = fresh("many");
        std::thread::scope(|scope| {
            for writer in 0..4_u64 {
                let file = &file;
                scope.spawn(move || {
                    (0..50).for_each(|n| file.append(&[writer * 50 + n], |all| all).unwrap());
                });
            }
        });
        let mut all = file.read::<u64>();
        all.sort_unstable();
        assert_eq!(all, (0..200).collect::<Vec<_>>());
        let long =
            format!("{}\n", file.head) + &"123456789\n".repeat(usize::try_from(MOST).unwrap() / 10 + 1);
        std::fs::write(&file.path, long).unwrap();
        file.append(&[5_u64], |all| all[all.len() - 2..].to_vec()).unwrap();
        assert_eq!(file.read::<u64>(), [123_456_789, 123_456_789, 5]);
        std::fs::remove_dir_all(file.path.parent().unwrap()).unwrap();
    }
}
