//! Memory for images on the heap, for checks and benches.

use apr_sdk::{Error, ImageMemory, ImageSink, Result};

/// Alignment of images.
const ALIGNED: usize = 64;

/// Provides memory from the heap.
pub struct Heap;

struct Memory {
    bytes: Vec<u8>,
    start: usize,
    length: usize,
}

impl Memory {
    fn allocate(bytes: u64) -> Option<Memory> {
        let length = usize::try_from(bytes).ok()?;
        let size = length.checked_add(ALIGNED)?;
        let mut memory = Vec::new();
        memory.try_reserve_exact(size).ok()?;
        memory.resize(size, 0);
        let start = memory.as_ptr().align_offset(ALIGNED);
        Some(Memory { bytes: memory, start, length })
    }
}

impl ImageSink for Heap {
    fn memory(&mut self, bytes: u64) -> Result<Box<dyn ImageMemory>> {
        match Memory::allocate(bytes) {
            Some(memory) => Ok(Box::new(memory)),
            None => Err(Error::io(format!("cannot allocate an image of {bytes} bytes"))),
        }
    }
}

impl ImageMemory for Memory {
    fn bytes(&self) -> &[u8] {
        self.bytes.get(self.start..self.start + self.length).unwrap_or_default()
    }

    fn bytes_mut(&mut self) -> Result<&mut [u8]> {
        Ok(self.bytes.get_mut(self.start..self.start + self.length).unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_aligned_and_zero() {
        for bytes in [0, 1, 63, 64, 1000] {
            let mut memory = Heap.memory(bytes).unwrap();
            assert_eq!(u64::try_from(memory.bytes().len()).unwrap(), bytes);
            assert!(memory.bytes().iter().all(|byte| *byte == 0));
            assert_eq!(memory.bytes_mut().unwrap().as_ptr().align_offset(ALIGNED), 0);
        }
        assert!(Heap.memory(u64::MAX).is_err());
    }
}
