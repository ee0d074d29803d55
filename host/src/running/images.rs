//! Memory for the images of all weights, in the order in which they are used; on request in a file that keeps them
//! for the next time.

use super::image_file::{self, Held, Staged, beginning, damaged, private_folder, shared};
use crate::storage::mapping::{ALIGNMENT, Mapping, Region, Watch};
use apr_engine::crew::Crew;
use apr_sdk::{Error, ImageMemory, ImageSink, ImageSpec, Result};
use std::ops::Range;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// Memory for the images of all weights.
pub struct Images {
    regions: Vec<Mutex<Option<Region>>>,
    /// True if the images are there already.
    pub ready: bool,
    watch: Watch,
    staged: Option<Staged>,
}

/// Ranges of the images in the memory or the file, and their end.
fn places(first: u64, specs: &[ImageSpec]) -> Result<(Vec<Range<u64>>, u64)> {
    let mut at = first;
    let mut ranges = Vec::with_capacity(specs.len());
    for spec in specs {
        let end = at.checked_add(spec.bytes).ok_or_else(too_large)?;
        ranges.push(at..end);
        at = end.checked_next_multiple_of(ALIGNMENT).ok_or_else(too_large)?;
    }
    Ok((ranges, at))
}

fn too_large() -> Error {
    Error::limit("the size of the prepared weights overflows")
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

    /// The images that a file in `folder` keeps under `key`; or a file for them, to be filled. Adds to `warnings` why a file
    /// that is there is not used, and why none is kept.
    ///
    /// # Errors
    /// Io if the folder cannot be written; Cancelled.
    pub fn kept(
        folder: &Path,
        key: &str,
        specs: &[ImageSpec],
        crew: &dyn Crew,
        warnings: &mut Vec<String>,
    ) -> Result<Images> {
        let path = folder.join(format!("{key}.images"));
        let is_private = private_folder(folder)
            .map_err(|error| Error::io(error.to_string()).in_file(path.display().to_string()))?;
        if is_private.is_none() || path.symlink_metadata().is_ok_and(|meta| meta.is_dir()) {
            warnings.push(shared(folder));
            return Images::new(specs);
        }
        let begin = beginning(key, specs);
        let (ranges, end) = places(begin.len() as u64, specs)?;
        match image_file::open(&path, &begin, end, crew)? {
            Held::Images(mapping) => return Images::of(mapping, &ranges, true, None),
            Held::Other(why) => warnings.push(damaged(&path, why)),
            Held::Nothing => {}
        }
        let staged = Staged::new(folder, key, &path, &begin, end)
            .map_err(|error| error.in_file(path.display().to_string()))?;
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
            None => Err(Error::plugin("requested the memory of an image twice")),
        }
    }

    /// Says that all images are there: a file that was filled gets its checksums and its name.
    ///
    /// # Errors
    /// Io if it cannot be written.
    pub fn finish(&mut self, crew: &dyn Crew) -> Result<()> {
        let Some(mut staged) = self.staged.take() else { return Ok(()) };
        let written = self.watch.sync().and_then(|()| staged.finish(crew));
        written.map_err(|error| error.in_file(staged.target.display().to_string()))
    }

    /// The watch that tells whether the images are still whole.
    pub fn watch(&self) -> Watch {
        self.watch.clone()
    }
}

/// The memory of one image, for a backend that prepares it.
pub struct Place<'a> {
    /// All images.
    pub images: &'a Images,
    /// The image's number.
    pub number: usize,
}

impl ImageSink for Place<'_> {
    fn memory(&mut self, bytes: u64) -> Result<Box<dyn ImageMemory>> {
        let memory = self.images.take(self.number)?;
        if memory.bytes().len() as u64 != bytes {
            let message = format!(
                "requested {bytes} bytes for an image after stating a size of {}",
                memory.bytes().len()
            );
            return Err(Error::plugin(message));
        }
        Ok(memory)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use apr_engine::crew::Alone;
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

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

    /// A folder that is not there, and is removed with what is in it.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Folder {
            let path = std::env::temp_dir().join(format!("apr-images-{name}-{}", std::process::id()));
            // A killed test of this number may have left it.
            fs::remove_dir_all(&path).ok();
            Folder(path)
        }

        /// The images under a key, and the warnings.
        fn open(&self, key: &str, specs: &[ImageSpec]) -> (Images, Vec<String>) {
            let mut warnings = Vec::new();
            let images = Images::kept(&self.0, key, specs, &Alone, &mut warnings).unwrap();
            (images, warnings)
        }

        fn fill(&self, key: &str) {
            let mut images = self.open(key, &specs()).0;
            fill(&images);
            images.finish(&Alone).unwrap();
        }

        fn count(&self) -> usize {
            fs::read_dir(&self.0).unwrap().count()
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            fs::remove_dir_all(&self.0).ok();
        }
    }

    #[test]
    fn a_file_keeps_images_and_one_of_another_layout_is_made_anew() {
        let folder = Folder::new("kept");
        assert!(!folder.open("key", &specs()).0.ready);
        folder.fill("key");
        let (again, warnings) = folder.open("key", &specs());
        assert!(again.ready && warnings.is_empty());
        assert!(again.take(2).unwrap().bytes().iter().all(|byte| *byte == 3));
        again.watch().check().unwrap();
        assert_eq!(fs::metadata(&folder.0).unwrap().permissions().mode() & 0o777, 0o700);
        let mut other = specs();
        other[0].layout = "test.2".to_owned();
        let (other, warnings) = folder.open("key", &other);
        assert!(!other.ready && warnings.len() == 1);
        drop(other);
        // What was not finished leaves nothing.
        assert_eq!(folder.count(), 1);
    }

    #[test]
    fn any_bit_that_flips_is_noticed_and_the_file_is_made_anew() {
        let folder = Folder::new("flipped");
        folder.fill("key");
        let path = folder.0.join("key.images");
        let good = fs::read(&path).unwrap();
        // The header, its padding, images, what is between them, the checksums.
        for at in [0, 9, 60, 4000, 4096, 4250, good.len() - 5000, good.len() - 8, good.len() - 1] {
            let mut bytes = good.clone();
            bytes[at] ^= 0x10;
            fs::write(&path, bytes).unwrap();
            let (images, warnings) = folder.open("key", &specs());
            assert!(!images.ready && warnings.len() == 1, "byte {at}: {warnings:?}");
        }
        for len in [0, 100, good.len() - 1, good.len() + 1] {
            let mut bytes = good.clone();
            bytes.resize(len, 0);
            fs::write(&path, bytes).unwrap();
            assert!(!folder.open("key", &specs()).0.ready, "{len} bytes");
        }
        folder.fill("key");
        assert!(folder.open("key", &specs()).0.ready);
        assert_eq!(fs::read(&path).unwrap(), good);
    }

    #[test]
    fn what_is_no_file_is_replaced_and_never_waited_for() {
        let folder = Folder::new("odd");
        folder.fill("key");
        let path = folder.0.join("key.images");
        let elsewhere = folder.0.join("elsewhere");
        fs::rename(&path, &elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, &path).unwrap();
        assert!(!folder.open("key", &specs()).0.ready);
        fs::remove_file(&path).unwrap();
        rustix::fs::mknodat(
            rustix::fs::CWD,
            &path,
            rustix::fs::FileType::Fifo,
            rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR,
            0,
        )
        .unwrap();
        assert_eq!(folder.open("key", &specs()).1.len(), 1);
        folder.fill("key");
        assert!(folder.open("key", &specs()).0.ready);
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        let (images, warnings) = folder.open("key", &specs());
        assert!(!images.ready && images.staged.is_none() && warnings.len() == 1);
    }

    #[test]
    fn a_folder_that_others_may_write_to_is_not_used() {
        let folder = Folder::new("shared");
        folder.fill("key");
        for mode in [0o770, 0o777, 0o702] {
            fs::set_permissions(&folder.0, Permissions::from_mode(mode)).unwrap();
            let (images, warnings) = folder.open("key", &specs());
            assert!(!images.ready && images.staged.is_none(), "{mode:o}");
            assert!(warnings[0].contains("has no effect"), "{warnings:?}");
        }
        // Others could only read it.
        fs::set_permissions(&folder.0, Permissions::from_mode(0o755)).unwrap();
        assert!(folder.open("key", &specs()).0.ready);
        assert_eq!(fs::metadata(&folder.0).unwrap().permissions().mode() & 0o777, 0o700);
    }

    #[test]
    fn what_a_killed_process_left_goes_and_what_another_one_writes_stays() {
        let folder = Folder::new("left");
        let mut others = folder.open("other", &specs()).0;
        let left = folder.0.join(".key.1-0.apr-part");
        fs::write(&left, "half an image").unwrap();
        let mut own = folder.open("key", &specs()).0;
        assert!(!left.exists());
        others.finish(&Alone).unwrap();
        own.finish(&Alone).unwrap();
        drop((others, own));
        assert!(folder.open("other", &specs()).0.ready);
        assert!(folder.open("key", &specs()).0.ready);
        // The name of the first is taken by one that is being written.
        let opened = [folder.open("more", &specs()), folder.open("more", &specs())];
        for number in [0, 1] {
            let name = format!(".more.{}-{number}.apr-part", std::process::id());
            assert!(folder.0.join(name).exists());
        }
        drop(opened);
        assert_eq!(folder.count(), 2);
        // One that somebody else took for left, and whose name another process has now.
        let mut swept = folder.open("swept", &specs()).0;
        let path = folder.0.join(format!(".swept.{}-0.apr-part", std::process::id()));
        fs::remove_file(&path).unwrap();
        fs::write(&path, "of another process").unwrap();
        swept.finish(&Alone).unwrap();
        assert!(fs::read(&path).unwrap() == b"of another process" && !folder.0.join("swept.images").exists());
    }
}
