//! Memory for the images of all weights, in the order in which they are used; on request in a file that keeps them
//! for the next time.
//!
//! ```text
//! "APRIMG1\n" | length of the header u64 | header (JSON) | zeros up to 4096 x n | images, 64-byte aligned
//! ```
//!
//! The file's name is its key: a digest of everything that the images follow from. A file under another key is never
//! looked at, so weights that changed, or a backend with another layout, lead to a new file.

use crate::storage::mapping::{ALIGNMENT, Mapping, Region, Watch};
use apr_sdk::{Error, ImageMemory, ImageSink, ImageSpec, Result};
use rustix::fs::OFlags;
use rustix::io::Errno;
use serde_json::json;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read, Write};
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// What a file of images begins with.
const MAGIC: &[u8; 8] = b"APRIMG1\n";
/// Images begin at a multiple of this in a file. 4 KiB.
const PAGE: u64 = 4096;
/// What the name of a file ends with while it is written.
const STAGED: &str = ".apr-part";

/// Memory for the images of all weights.
pub struct Images {
    regions: Vec<Mutex<Option<Region>>>,
    /// Whether the images are there already.
    pub ready: bool,
    watch: Watch,
    staged: Option<Staged>,
}

/// Where images are in the memory or the file, and where they end.
fn places(first: u64, specs: &[ImageSpec]) -> Result<(Vec<Range<u64>>, u64)> {
    let too_large = || Error::limit("the prepared weights are too large to count");
    let mut at = first;
    let mut ranges = Vec::with_capacity(specs.len());
    for spec in specs {
        let end = at.checked_add(spec.bytes).ok_or_else(too_large)?;
        ranges.push(at..end);
        at = end.checked_next_multiple_of(ALIGNMENT).ok_or_else(too_large)?;
    }
    Ok((ranges, at))
}

/// The beginning of a file of images, up to the first of them.
fn beginning(key: &str, specs: &[ImageSpec]) -> Vec<u8> {
    let images: Vec<_> = specs.iter().map(|spec| json!([spec.layout, spec.bytes])).collect();
    let header = json!({ "schema": "apr.images/1", "key": key, "images": images }).to_string();
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&(header.len() as u64).to_le_bytes());
    bytes.extend_from_slice(header.as_bytes());
    let whole = (bytes.len() as u64).next_multiple_of(PAGE);
    bytes.resize(usize::try_from(whole).unwrap_or(bytes.len()), 0);
    bytes
}

/// A file that is being written. It goes if it is not finished.
struct Staged {
    /// Locked, by which others know that it is not one that was left.
    file: File,
    path: PathBuf,
    /// The name that it gets.
    target: PathBuf,
    is_finished: bool,
}

impl Staged {
    /// A new file beside `target`. Another process may have the same id, where it runs in a container of its own.
    fn new(folder: &Path, key: &str, target: &Path) -> io::Result<Staged> {
        for number in 0..1000 {
            let path = folder.join(format!(".{key}.{}-{number}{STAGED}", std::process::id()));
            let file = match File::options().create_new(true).read(true).write(true).open(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => continue,
                opened => opened?,
            };
            // Who sweeps may have come between.
            if !matches!(file.try_lock(), Err(TryLockError::WouldBlock)) && is_at(&file, &path) {
                return Ok(Staged { file, path, target: target.to_owned(), is_finished: false });
            }
        }
        Err(io::Error::other("it is full of files that were never finished (`.apr-part`): remove them"))
    }

    /// Gives it its name. Where locks are known to one machine alone, another one may have swept it: then nothing is kept.
    fn finish(&mut self) -> io::Result<()> {
        if is_at(&self.file, &self.path) {
            fs::rename(&self.path, &self.target)?;
        }
        self.is_finished = true;
        Ok(())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !self.is_finished {
            fs::remove_file(&self.path).ok();
        }
    }
}

/// Whether a file has this name still.
fn is_at(file: &File, path: &Path) -> bool {
    let place = |data: fs::Metadata| (data.dev(), data.ino());
    let here = file.metadata().ok().map(place);
    here.is_some() && here == fs::symlink_metadata(path).ok().map(place)
}

/// Removes what processes that were killed have left: files that nobody writes.
fn sweep(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_staged = name.to_str().is_some_and(|name| name.starts_with('.') && name.ends_with(STAGED));
        if !is_staged || !entry.file_type().is_ok_and(|kind| kind.is_file()) {
            continue;
        }
        let path = entry.path();
        // Network file systems lock only what can be written. A link or a pipe may have come into its place.
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits().cast_signed();
        if let Ok(file) = File::options().read(true).write(true).custom_flags(flags).open(&path)
            && file.try_lock().is_ok()
            && is_at(&file, &path)
        {
            fs::remove_file(&path).ok();
        }
    }
}

/// Takes the room for a file of `end` bytes, of which `begin` are written. A full disk found while pages are written through would
/// end the process.
fn take_room(file: &mut File, begin: u64, end: u64) -> io::Result<()> {
    match rustix::fs::fallocate(&*file, rustix::fs::FallocateFlags::empty(), 0, end) {
        // File systems that cannot reserve room.
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => write_zeros(file, end - begin),
        taken => Ok(taken?),
    }
}

fn write_zeros(file: &mut File, bytes: u64) -> io::Result<()> {
    io::copy(&mut io::repeat(0).take(bytes), file)?;
    Ok(())
}

impl Images {
    /// Memory for images of these sizes.
    ///
    /// # Errors
    /// Io if there is not enough.
    pub fn new(specs: &[ImageSpec]) -> Result<Images> {
        let (ranges, end) = places(0, specs)?;
        Images::of(Mapping::memory(end)?, &ranges, false, None)
    }

    /// Memory for no image: of a device that keeps them in its own.
    ///
    /// # Errors
    /// None that a system has for so little memory.
    pub fn none() -> Result<Images> {
        Images::new(&[])
    }

    /// The images that a file in `folder` keeps under `key`; or a file for them, to be filled.
    ///
    /// # Errors
    /// Io if the folder cannot be written.
    pub fn kept(folder: &Path, key: &str, specs: &[ImageSpec]) -> Result<Images> {
        let begin = beginning(key, specs);
        let (ranges, end) = places(begin.len() as u64, specs)?;
        let path = folder.join(format!("{key}.images"));
        let placed = |error: Error| error.in_file(path.display().to_string());
        if let Ok(mut file) = File::open(&path) {
            let mut held = vec![0; begin.len()];
            if file.read_exact(&mut held).is_ok()
                && held == begin
                && let Ok(mapping) = Mapping::file(&file, end, false)
            {
                return Images::of(mapping, &ranges, true, None);
            }
            // Cut, or changed: it is replaced.
        }
        let failed = |error: std::io::Error| placed(Error::io(error.to_string()));
        fs::create_dir_all(folder).map_err(failed)?;
        sweep(folder);
        let mut staged = Staged::new(folder, key, &path).map_err(failed)?;
        staged.file.write_all(&begin).map_err(failed)?;
        take_room(&mut staged.file, begin.len() as u64, end).map_err(|error| {
            let message = format!("room for {end} bytes cannot be taken: {error}");
            placed(Error::io(message).hint("leave out --cache-image, or set XDG_CACHE_HOME to another disk"))
        })?;
        Images::of(Mapping::file(&staged.file, end, true)?, &ranges, false, Some(staged))
    }

    fn of(mapping: Mapping, ranges: &[Range<u64>], ready: bool, staged: Option<Staged>) -> Result<Images> {
        let (regions, watch) = mapping.regions(ranges)?;
        let regions = regions.into_iter().map(|region| Mutex::new(Some(region))).collect();
        Ok(Images { regions, ready, watch, staged })
    }

    /// The memory of an image, once.
    ///
    /// # Errors
    /// Plugin if it was given out already.
    pub fn take(&self, number: usize) -> Result<Box<dyn ImageMemory>> {
        let region = self
            .regions
            .get(number)
            .and_then(|region| region.lock().unwrap_or_else(PoisonError::into_inner).take());
        match region {
            Some(region) => Ok(Box::new(region)),
            None => Err(Error::plugin("asks twice for the memory of an image")),
        }
    }

    /// Says that all images are there: a file that was filled gets its name.
    ///
    /// # Errors
    /// Io if it cannot be written.
    pub fn finish(&mut self) -> Result<()> {
        let Some(mut staged) = self.staged.take() else { return Ok(()) };
        let synced = self.watch.sync();
        let written = synced.and_then(|()| staged.finish().map_err(|error| Error::io(error.to_string())));
        written.map_err(|error| error.in_file(staged.target.display().to_string()))
    }

    /// What tells whether the images are still whole.
    pub fn watch(&self) -> Watch {
        self.watch.clone()
    }
}

/// The memory of one image, for a backend that prepares it.
pub struct Place<'a> {
    /// All images.
    pub images: &'a Images,
    /// Which one.
    pub number: usize,
}

impl ImageSink for Place<'_> {
    fn memory(&mut self, bytes: u64) -> Result<Box<dyn ImageMemory>> {
        let memory = self.images.take(self.number)?;
        if memory.bytes().len() as u64 != bytes {
            let message =
                format!("asks for {bytes} bytes for an image that it said has {}", memory.bytes().len());
            return Err(Error::plugin(message));
        }
        Ok(memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn specs() -> Vec<ImageSpec> {
        [100, 0, 5000].map(|bytes| ImageSpec { bytes, layout: "test.1".to_owned() }).into()
    }

    fn fill(images: &Images) {
        for (number, spec) in specs().iter().enumerate() {
            let mut memory = Place { images, number }.memory(spec.bytes).unwrap();
            memory.bytes_mut().unwrap().fill(u8::try_from(number + 1).unwrap());
        }
    }

    #[test]
    fn each_image_has_memory_of_its_own_and_once() {
        let images = Images::new(&specs()).unwrap();
        fill(&images);
        assert!(images.take(0).is_err());
        assert!(Place { images: &Images::new(&specs()).unwrap(), number: 0 }.memory(101).is_err());
    }

    #[test]
    fn a_file_keeps_images_and_one_that_is_damaged_or_of_another_layout_is_made_anew() {
        let folder = std::env::temp_dir().join(format!("apr-images-{}", std::process::id()));
        // A killed test of this number may have left it.
        fs::remove_dir_all(&folder).ok();
        let open = |specs: &[ImageSpec]| Images::kept(&folder, "key", specs).unwrap();
        let mut first = open(&specs());
        assert!(!first.ready);
        fill(&first);
        first.finish().unwrap();
        let again = open(&specs());
        assert!(again.ready);
        assert!(again.take(2).unwrap().bytes().iter().all(|byte| *byte == 3));
        again.watch().check().unwrap();
        let path = folder.join("key.images");
        let file = File::options().write(true).open(&path).unwrap();
        file.set_len(fs::metadata(&path).unwrap().len() - 100).unwrap();
        assert!(!open(&specs()).ready);
        let mut other = specs();
        other[0].layout = "test.2".to_owned();
        assert!(!open(&other).ready);
        // What was not finished leaves nothing.
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 1);
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn what_a_killed_process_left_goes_and_what_another_one_writes_stays() {
        let folder = std::env::temp_dir().join(format!("apr-images-left-{}", std::process::id()));
        fs::remove_dir_all(&folder).ok();
        let open = |key: &str| Images::kept(&folder, key, &specs()).unwrap();
        let mut others = open("other");
        let left = folder.join(".key.1-0.apr-part");
        fs::write(&left, "half an image").unwrap();
        let mut own = open("key");
        assert!(!left.exists());
        others.finish().unwrap();
        own.finish().unwrap();
        drop((others, own));
        assert!(open("other").ready);
        assert!(open("key").ready);
        // The name of the first is taken by one that is being written.
        let number = |number: u32| folder.join(format!(".more.{}-{number}.apr-part", std::process::id()));
        let (taken, next) = (open("more"), open("more"));
        assert!(number(0).exists() && number(1).exists());
        drop((taken, next));
        assert_eq!(fs::read_dir(&folder).unwrap().count(), 2);
        // One that somebody else took for left, and whose name another process has now.
        let mut swept = open("swept");
        let path = swept.staged.as_ref().unwrap().path.clone();
        fs::remove_file(&path).unwrap();
        fs::write(&path, "of another process").unwrap();
        swept.finish().unwrap();
        assert!(fs::read(&path).unwrap() == b"of another process" && !folder.join("swept.images").exists());
        fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn room_is_taken_by_zeros_where_it_cannot_be_otherwise() {
        let path = std::env::temp_dir().join(format!("apr-images-room-{}", std::process::id()));
        let mut file = File::create(&path).unwrap();
        file.write_all(b"begin").unwrap();
        write_zeros(&mut file, 200_000).unwrap();
        let bytes = fs::read(&path).unwrap();
        assert!(bytes.len() == 200_005 && bytes[5..].iter().all(|byte| *byte == 0));
        fs::remove_file(&path).unwrap();
    }
}
