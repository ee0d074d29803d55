//! `apr run --logits-out`: the logits after every token, as a NumPy file.
//!
//! The file is NumPy's format 1.0: `\x93NUMPY`, the version, a header of 118 bytes in all with dtype `<f4`, row-major
//! order and the shape `(tokens, vocabulary)`, then the values. Row *i* has the logits after token *i* of prompt and
//! answer; a token that was chosen last is not computed, so it has no row.

use apr_host::destination::output_file::{OutputFile, Staged};
use apr_inference::generation::Model;
use apr_inference::runner::Runner;
use apr_sdk::Result;
use std::io::{self, Seek, SeekFrom, Write};

/// Bytes of the header: a multiple of 64, so that the values are aligned.
const HEADER: usize = 128;

/// Writes rows of logits.
pub struct Writer {
    out: Staged,
    rows: usize,
    width: usize,
}

impl Writer {
    /// Begins the file.
    ///
    /// # Errors
    /// Io.
    pub fn new(file: OutputFile) -> Result<Writer> {
        let mut writer = Writer { out: file.create()?, rows: 0, width: 0 };
        let begun = writer.out.write_all(&[0; HEADER]);
        writer.checked(begun)?;
        Ok(writer)
    }

    fn checked(&self, written: io::Result<()>) -> Result<()> {
        written.map_err(|error| self.out.file.failed(&error))
    }

    fn row(&mut self, logits: &[f32]) -> Result<()> {
        (self.rows, self.width) = (self.rows + 1, logits.len());
        let written = logits.iter().try_for_each(|logit| self.out.write_all(&logit.to_le_bytes()));
        self.checked(written)
    }

    /// Writes the header and gives the file its name.
    fn finish(mut self) -> Result<()> {
        let header = header(self.rows, self.width);
        let written = self.out.seek(SeekFrom::Start(0)).and_then(|_| self.out.write_all(&header));
        self.checked(written)?;
        self.out.finish()
    }
}

/// NumPy's header for an array of this shape.
pub fn header(rows: usize, columns: usize) -> Vec<u8> {
    let text = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': ({rows}, {columns}), }}");
    let mut header = b"\x93NUMPY\x01\x00".to_vec();
    // The rest after these two bytes, with a line feed at its end.
    header.extend((118u16).to_le_bytes());
    header.extend(text.bytes());
    header.resize(HEADER - 1, b' ');
    header.push(b'\n');
    header
}

/// A model whose logits are written as they are computed.
pub struct Recorded<'r> {
    runner: &'r mut Runner,
    writer: Writer,
    last: Vec<f32>,
}

impl<'r> Recorded<'r> {
    /// Writes what `runner` computes.
    pub fn new(runner: &'r mut Runner, writer: Writer) -> Recorded<'r> {
        Recorded { runner, writer, last: Vec::new() }
    }

    /// Completes the file.
    ///
    /// # Errors
    /// Io.
    pub fn finish(self) -> Result<()> {
        self.writer.finish()
    }
}

impl Model for Recorded<'_> {
    fn feed(&mut self, ids: &[u32]) -> Result<&[f32]> {
        self.runner.feed_all(ids, &mut |_, logits| {
            self.last.clear();
            self.last.extend_from_slice(logits);
            self.writer.row(logits)
        })?;
        Ok(&self.last)
    }

    fn trim(&mut self, position: u32) -> Result<()> {
        self.runner.trim(position)
    }

    fn position(&self) -> u32 {
        self.runner.position()
    }

    fn context(&self) -> u32 {
        self.runner.context()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_is_numpys() {
        let header = header(7, 32000);
        assert_eq!((header.len(), &header[..10]), (128, &b"\x93NUMPY\x01\x00\x76\x00"[..]));
        let text = String::from_utf8(header[10..].to_vec()).unwrap();
        assert!(text.starts_with("{'descr': '<f4', 'fortran_order': False, 'shape': (7, 32000), } "));
        assert!(text.ends_with(" \n"));
    }

    #[test]
    fn a_file_is_there_when_it_is_complete() {
        let folder = std::env::temp_dir().join(format!("apr-logits-{}", std::process::id()));
        // A killed test of this number may have left it.
        std::fs::remove_dir_all(&folder).ok();
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join("l.npy");
        let file = OutputFile::new(&path, "file", false);
        let mut writer = Writer::new(file.clone()).unwrap();
        writer.row(&[1.0, 2.0]).unwrap();
        drop(writer);
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
        let mut writer = Writer::new(file).unwrap();
        writer.row(&[1.0, 2.0]).unwrap();
        writer.finish().unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes.len(), 128 + 8);
        assert_eq!(bytes[128..], [1.0f32, 2.0].map(f32::to_le_bytes).concat()[..]);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
