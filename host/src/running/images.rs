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
use serde_json::json;
use std::fs::{self, File};
use std::io::{Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

/// What a file of images begins with.
const MAGIC: &[u8; 8] = b"APRIMG1\n";
/// Images begin at a multiple of this in a file. 4 KiB.
const PAGE: u64 = 4096;

/// Memory for the images of all weights.
pub struct Images {
    regions: Vec<Mutex<Option<Region>>>,
    /// Whether the images are there already.
    pub ready: bool,
    watch: Watch,
    /// The file that is being written, and the name that it gets.
    staged: Option<(PathBuf, PathBuf)>,
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

/// A new file beside those that are kept. Another process may have the same id, where it runs in a container of its own.
fn staged(folder: &Path, key: &str) -> std::io::Result<(File, PathBuf)> {
    for number in 0..1000 {
        let path = folder.join(format!(".{key}.{}-{number}.apr-part", std::process::id()));
        match File::options().create_new(true).read(true).write(true).open(&path) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            opened => return opened.map(|file| (file, path)),
        }
    }
    Err(std::io::Error::other("it is full of files that were never finished (`.apr-part`): remove them"))
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
        let (mut file, staged) = staged(folder, key).map_err(failed)?;
        let made = (|| {
            file.write_all(&begin).map_err(failed)?;
            // Space is taken now: a full disk found while pages are written through would end the process.
            rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, end).map_err(|error| {
                let message = format!("room for {end} bytes cannot be taken: {error}");
                placed(
                    Error::io(message).hint("leave out --cache-image, or set XDG_CACHE_HOME to another disk"),
                )
            })?;
            Images::of(Mapping::file(&file, end, true)?, &ranges, false, Some((staged.clone(), path.clone())))
        })();
        if made.is_err() {
            fs::remove_file(&staged).ok();
        }
        made
    }

    fn of(
        mapping: Mapping,
        ranges: &[Range<u64>],
        ready: bool,
        staged: Option<(PathBuf, PathBuf)>,
    ) -> Result<Images> {
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
        let Some((staged, path)) = self.staged.take() else { return Ok(()) };
        let written = self
            .watch
            .sync()
            .and_then(|()| fs::rename(&staged, &path).map_err(|error| Error::io(error.to_string())));
        written.map_err(|error| {
            fs::remove_file(&staged).ok();
            error.in_file(path.display().to_string())
        })
    }

    /// What tells whether the images are still whole.
    pub fn watch(&self) -> Watch {
        self.watch.clone()
    }
}

impl Drop for Images {
    fn drop(&mut self) {
        if let Some((staged, _)) = &self.staged {
            fs::remove_file(staged).ok();
        }
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
}
