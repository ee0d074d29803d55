//! The source that a plugin is lent to read from: one [`Source`] per call, over the files of a model or a
//! range of one file.

use crate::open::files::Files;
use crate::open::lfs_pointer;
use crate::progress::Progress;
use apr_sdk::{Budget, Error, Extent, FileId, LogLevel, Result, Source};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The place of a call's file 0 in the model's table: all of file 0, or a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Root {
    /// The file's number in the table.
    pub file: FileId,
    /// Its offset in that file.
    pub offset: u64,
    /// Its length; `None` for the whole file.
    pub len: Option<u64>,
}

impl Root {
    /// File 0 itself.
    pub const WHOLE: Root = Root { file: 0, offset: 0, len: None };

    /// Translates an extent of the call to one of the table.
    pub fn translate(&self, extent: Extent) -> Extent {
        if extent.file == 0 {
            Extent { file: self.file, offset: extent.offset.saturating_add(self.offset), len: extent.len }
        } else {
            extent
        }
    }
}

/// The host's [`Source`]. Its views live as long as it does, which is one call.
pub struct CallSource<'a> {
    files: &'a Files,
    root: Root,
    budget: &'a Budget,
    progress: &'a dyn Progress,
    views: Views,
}

impl<'a> CallSource<'a> {
    /// A source for one call.
    pub fn new(
        files: &'a Files,
        root: Root,
        budget: &'a Budget,
        progress: &'a dyn Progress,
    ) -> CallSource<'a> {
        CallSource { files, root, budget, progress, views: Views::default() }
    }

    /// Translates an offset of the call to one of the table, checked against the end of the part.
    fn place(&self, file: FileId, offset: u64, len: u64) -> Result<(FileId, u64)> {
        if file != 0 {
            return Ok((file, offset));
        }
        let end = offset.checked_add(len);
        if self.root.len.is_some_and(|whole| end.is_none_or(|end| end > whole)) {
            let message = format!(
                "expected at least {len} bytes, but the part has only {}",
                self.root.len.unwrap_or(0)
            );
            return Err(Error::malformed(message).at(offset).in_file(self.name(0)));
        }
        let at =
            self.root.offset.checked_add(offset).ok_or_else(|| Error::malformed("an offset exceeds 2^64"))?;
        Ok((self.root.file, at))
    }
}

impl CallSource<'_> {
    /// Fails for a file that was never fetched: whatever a plugin would say of its content misleads.
    fn refuse_pointer(&self, file: FileId, first: &[u8]) -> Result<()> {
        let len = self.files.get(file)?.len;
        if !lfs_pointer::may_begin(len, first) {
            return Ok(());
        }
        let mut head = [0; lfs_pointer::MARK.len()];
        if len < head.len() as u64 {
            return Ok(());
        }
        self.files.read_at(file, 0, &mut head)?;
        let name = self.files.get(file)?.name.clone();
        if head == lfs_pointer::MARK { Err(lfs_pointer::refusal(len).in_file(name)) } else { Ok(()) }
    }
}

impl Source for CallSource<'_> {
    fn name(&self, file: FileId) -> String {
        let file = if file == 0 { self.root.file } else { file };
        self.files.get(file).map(|f| f.name.clone()).unwrap_or_default()
    }

    fn len(&self, file: FileId) -> Result<u64> {
        match self.root.len {
            Some(len) if file == 0 => Ok(len),
            _ => {
                let file = self.files.get(if file == 0 { self.root.file } else { file })?;
                if file.is_folder() { Err(Error::io("this is a folder, not a file")) } else { Ok(file.len) }
            }
        }
    }

    fn read_at(&self, file: FileId, offset: u64, out: &mut [u8]) -> Result<()> {
        let (file, at) = self.place(file, offset, out.len() as u64)?;
        self.files.read_at(file, at, out)?;
        if at == 0 { self.refuse_pointer(file, out) } else { Ok(()) }
    }

    fn view(&self, extent: Extent) -> Result<&[u8]> {
        // Checked against the file before allocating memory.
        if extent.end().is_none_or(|end| self.len(extent.file).is_ok_and(|len| end > len)) {
            let message = format!("unexpected end of file: expected {} bytes", extent.len);
            return Err(Error::malformed(message).at(extent.offset).in_file(self.name(extent.file)));
        }
        self.budget.charge(extent.len)?;
        let len = usize::try_from(extent.len)
            .map_err(|_| Error::limit("a view does not fit in this machine's memory"))?;
        let mut bytes = vec![0; len];
        self.read_at(extent.file, extent.offset, &mut bytes)?;
        self.budget.earn(extent.len);
        self.views.keep(bytes.into())
    }

    fn sibling(&self, path: &str) -> Result<FileId> {
        match self.files.sibling(path)? {
            // In this call, the part is file 0.
            0 if self.root.file != 0 => {
                Err(Error::unsupported("a part refers to the file from which the model was opened"))
            }
            file => Ok(file),
        }
    }

    fn entries(&self) -> Result<Vec<String>> {
        self.files.entries()
    }

    fn entries_of(&self, folder: &str) -> Result<Vec<String>> {
        self.files.entries_of(folder)
    }

    fn is_folder(&self) -> bool {
        self.files.get(self.root.file).is_ok_and(|f| f.is_folder())
    }

    fn cancelled(&self) -> bool {
        self.files.cancelled()
    }

    fn log(&self, level: LogLevel, message: &str) {
        self.progress.log(level, message);
    }
}

/// Slots for byte strings, each filled at most once.
type Shelf = Box<[OnceLock<Box<[u8]>>]>;

/// An append-only list of byte strings, so that a borrow of one lives as long as the list. Shelf k has 2^k
/// slots.
#[derive(Default)]
pub(crate) struct Views {
    shelves: [OnceLock<Shelf>; 24],
    count: AtomicUsize,
}

impl Views {
    pub(crate) fn keep(&self, bytes: Box<[u8]>) -> Result<&[u8]> {
        let number = self.count.fetch_add(1, Ordering::Relaxed) + 1;
        let shelf_number = number.ilog2() as usize;
        let too_many = || Error::limit("one call requested more than 2^24 views");
        let shelf = self.shelves.get(shelf_number).ok_or_else(too_many)?;
        let shelf = shelf.get_or_init(|| (0..1usize << shelf_number).map(|_| OnceLock::new()).collect());
        let place = shelf.get(number - (1 << shelf_number)).ok_or_else(too_many)?;
        Ok(place.get_or_init(|| bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn views_keep_their_bytes_while_more_come() {
        let views = Views::default();
        let kept: Vec<&[u8]> = (0..1000u32).map(|n| views.keep(n.to_le_bytes().into()).unwrap()).collect();
        for (n, bytes) in (0..1000u32).zip(kept) {
            assert_eq!(bytes, n.to_le_bytes());
        }
    }

    #[test]
    fn parts_are_moved_to_their_place() {
        let root = Root { file: 3, offset: 100, len: Some(10) };
        assert_eq!(root.translate(Extent::new(0, 5, 2)), Extent::new(3, 105, 2));
        assert_eq!(root.translate(Extent::new(7, 5, 2)), Extent::new(7, 5, 2));
    }
}
