//! What the backend needs of a device's driver: memory, and kernels that run in order. NVIDIA's own is one
//! implementation (`nvidia.rs`); the tests have another that runs the same kernels on the processor.

#[cfg(not(target_family = "wasm"))]
pub(crate) mod nvidia;
#[cfg(not(target_family = "wasm"))]
pub(crate) mod system;

use apr_sdk::{Memory, Result};
use std::sync::Arc;

/// One kernel to be run.
#[derive(Clone, Debug)]
pub struct Launch {
    /// The kernel's name, without the prefix `apr_`.
    pub kernel: &'static str,
    /// The module that holds it.
    pub module: &'static str,
    /// Blocks in each direction.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub threads: u32,
    /// The bytes of its parameters, as `params.rs` lays them out.
    pub parameters: Box<[u8]>,
    /// The operation that it belongs to.
    pub operation: usize,
}

/// A device through its driver. Addresses are the device's own.
pub trait Driver: Send + Sync {
    /// Its memory.
    ///
    /// # Errors
    /// Io with the driver's own words.
    fn memory(&self) -> Result<Memory>;

    /// Whether its kernels have `matmul_*`, which multiplies on tensor cores.
    fn has_tensor_cores(&self) -> bool;

    /// Memory of at least one byte, aligned to 256 bytes, whose content is undefined.
    ///
    /// # Errors
    /// Io if there is not enough, with what is free.
    fn allocate(&self, bytes: usize) -> Result<u64>;

    /// Gives memory back.
    ///
    /// # Safety
    /// `at` came from `allocate`, and nothing uses it any more.
    unsafe fn free(&self, at: u64);

    /// Copies to the device, and waits.
    ///
    /// # Errors
    /// Io with the driver's own words.
    ///
    /// # Safety
    /// There are as many bytes allocated at `to`, and nothing on the device uses them meanwhile.
    unsafe fn upload(&self, to: u64, bytes: &[u8]) -> Result<()>;

    /// Copies from the device, and waits.
    ///
    /// # Errors
    /// Io with the driver's own words.
    ///
    /// # Safety
    /// There are as many bytes allocated at `from`, and nothing on the device writes them meanwhile.
    unsafe fn download(&self, from: u64, out: &mut [u8]) -> Result<()>;

    /// A queue of its own.
    ///
    /// # Errors
    /// Io with the driver's own words.
    fn queue(&self) -> Result<Box<dyn Queue>>;
}

/// Kernels and copies that run one after the other.
pub trait Queue: Send {
    /// Copies to the device before whatever comes later. `bytes` may be changed as soon as this returns.
    ///
    /// # Errors
    /// Io with the driver's own words.
    ///
    /// # Safety
    /// There are as many bytes allocated at `to`, until the queue has come by.
    unsafe fn upload(&mut self, to: u64, bytes: &[u8]) -> Result<()>;

    /// Copies within the device.
    ///
    /// # Errors
    /// Io with the driver's own words.
    ///
    /// # Safety
    /// There are as many bytes allocated at both places, which do not overlap, until the queue has come by.
    unsafe fn copy(&mut self, from: u64, to: u64, bytes: usize) -> Result<()>;

    /// Fills memory with zeros.
    ///
    /// # Errors
    /// Io with the driver's own words.
    ///
    /// # Safety
    /// There are as many bytes allocated at `at`, until the queue has come by.
    unsafe fn zero(&mut self, at: u64, bytes: usize) -> Result<()>;

    /// Runs kernels in order.
    ///
    /// # Errors
    /// Io with the driver's own words.
    ///
    /// # Safety
    /// The parameters are those of the kernels, and the memory that they name is there until the queue has come by.
    unsafe fn run(&mut self, launches: &[Launch]) -> Result<()>;

    /// Records kernels as one graph.
    ///
    /// # Errors
    /// Io with the driver's own words.
    ///
    /// # Safety
    /// As [`Queue::run`], for whenever the graph is run.
    unsafe fn record(&mut self, launches: &[Launch]) -> Result<Box<dyn Graph>>;

    /// Runs a graph of this queue.
    ///
    /// # Errors
    /// Io with the driver's own words.
    ///
    /// # Safety
    /// As [`Queue::run`].
    unsafe fn replay(&mut self, graph: &dyn Graph) -> Result<()>;

    /// Runs kernels in order, and says how many nanoseconds each took on the device.
    ///
    /// # Errors
    /// Io with the driver's own words.
    ///
    /// # Safety
    /// As [`Queue::run`].
    unsafe fn time(&mut self, launches: &[Launch]) -> Result<Vec<u64>>;

    /// Copies from the device after whatever came before, and waits for it.
    ///
    /// # Errors
    /// Io with the driver's own words.
    ///
    /// # Safety
    /// There are as many bytes allocated at `from`.
    unsafe fn download(&mut self, from: u64, out: &mut [u8]) -> Result<()>;

    /// Waits for everything.
    ///
    /// # Errors
    /// Io with the driver's own words.
    fn wait(&mut self) -> Result<()>;
}

/// Recorded kernels.
pub trait Graph: Send {
    /// What the driver knows it by.
    fn handle(&self) -> u64;
}

/// Memory of a device, given back when it is dropped.
pub(crate) struct Buffer {
    driver: Arc<dyn Driver>,
    at: u64,
    bytes: usize,
}

impl Buffer {
    /// Memory of some bytes; of none, it has no address.
    ///
    /// # Errors
    /// Io if there is not enough.
    pub(crate) fn new(driver: &Arc<dyn Driver>, bytes: usize) -> Result<Buffer> {
        let at = if bytes == 0 { 0 } else { driver.allocate(bytes)? };
        Ok(Buffer { driver: Arc::clone(driver), at, bytes })
    }

    /// Its address.
    pub(crate) fn at(&self) -> u64 {
        self.at
    }

    /// Its length in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Makes it larger if it has fewer bytes than these, whatever was in it; says whether it moved.
    ///
    /// # Errors
    /// Io if there is not enough; it has no bytes then.
    pub(crate) fn grow(&mut self, bytes: usize) -> Result<bool> {
        if self.bytes >= bytes {
            return Ok(false);
        }
        let driver = Arc::clone(&self.driver);
        // The old bytes go first, so that both never need room at once.
        *self = Buffer::new(&driver, 0)?;
        *self = Buffer::new(&driver, bytes)?;
        Ok(true)
    }

    /// As [`Buffer::grow`]; what is larger is full of zeros for whatever comes later in the queue.
    ///
    /// # Errors
    /// As [`Buffer::grow`], and any error from the queue; it has no bytes then.
    pub(crate) fn grow_with_zeros(&mut self, bytes: usize, queue: &mut dyn Queue) -> Result<bool> {
        if self.bytes >= bytes {
            return Ok(false);
        }
        let none = Buffer::new(&self.driver, 0)?;
        let mut larger = std::mem::replace(self, none);
        larger.grow(bytes)?;
        // SAFETY: the buffer has as many bytes, and no kernel knows it yet.
        unsafe { queue.zero(larger.at, bytes)? };
        *self = larger;
        Ok(true)
    }

    /// The driver that it came from.
    pub(crate) fn driver(&self) -> &Arc<dyn Driver> {
        &self.driver
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if self.at != 0 {
            // SAFETY: it was allocated in `new`, and whoever holds the address holds this, or waits before it is dropped.
            unsafe { self.driver.free(self.at) };
        }
    }
}
