//! NVIDIA's driver, found at run time. Its functions are called by their own names; every error carries its own words.

use super::system::{Capability, capability, check, device, devices, version};
use super::{Driver, Graph, Launch, Queue};
use crate::embedded_ptx;
use crate::kernel::no_device;
use apr_sdk::{Error, Memory, Result, escape};
use cudarc::driver::sys;
use std::collections::HashMap;
use std::ffi::{CString, c_void};
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, PoisonError};

/// The version of the driver from which on kernels that overlap can be recorded: CUDA 12.3 gave the edges of graphs data.
const RECORDS_OVERLAPS: i32 = 12_030;

/// Bytes that go through staged memory at a time, which cannot be swapped out. 4 MiB: the logits of a few rows.
const MOST_STAGED: usize = 4 << 20;

/// An open device.
pub(crate) struct Nvidia(Arc<Context>);

/// The driver's context of a device, with the modules that were loaded into it.
struct Context {
    device: sys::CUdevice,
    context: sys::CUcontext,
    capability: Capability,
    /// Whether a kernel may be launched before the one before it has ended.
    overlaps: bool,
    modules: Mutex<HashMap<&'static str, Module>>,
}

struct Module {
    module: sys::CUmodule,
    functions: HashMap<&'static str, sys::CUfunction>,
}

// SAFETY: the driver's handles may be used from any thread, each of which makes the context its own first; the table of
// modules is behind a lock.
unsafe impl Send for Context {}
// SAFETY: as above.
unsafe impl Sync for Context {}

impl Nvidia {
    /// Opens a device.
    ///
    /// # Errors
    /// InvalidArgument if there is none of this number; Unsupported if it cannot be used, with the reason.
    pub(crate) fn open(number: u32, overlaps: bool) -> Result<Nvidia> {
        let listed = devices();
        let Some(info) = usize::try_from(number).ok().and_then(|at| listed.get(at)) else {
            return Err(no_device(number, &listed));
        };
        if let Some(reason) = &info.unusable {
            return Err(Error::unsupported(reason.clone()));
        }
        // `devices` counted in an i32.
        let device = device(i32::try_from(number).unwrap_or(i32::MAX))?;
        let capability = capability(device)?;
        let mut context = null_mut();
        // SAFETY: the driver has started, and gave the device.
        let result = unsafe { sys::cuDevicePrimaryCtxRetain(&raw mut context, device) };
        check(result, "the device cannot be opened")?;
        let overlaps =
            overlaps && capability >= (9, 0) && version().is_some_and(|version| version >= RECORDS_OVERLAPS);
        Ok(Nvidia(Arc::new(Context { device, context, capability, overlaps, modules: Mutex::default() })))
    }
}

impl Context {
    /// Makes the context this thread's.
    fn enter(&self) -> Result<()> {
        // SAFETY: the context was retained in `open`, and is released when this is dropped.
        check(unsafe { sys::cuCtxSetCurrent(self.context) }, "the device cannot be used by this thread")
    }

    /// A kernel, whose module is compiled for the device when it is first asked for.
    fn function(&self, launch: &Launch) -> Result<sys::CUfunction> {
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        if !modules.contains_key(launch.module) {
            let module = self.load(launch.module)?;
            modules.insert(launch.module, Module { module, functions: HashMap::new() });
        }
        let Some(module) = modules.get_mut(launch.module) else {
            return Err(Error::plugin(format!("module {} is missing", launch.module)));
        };
        if let Some(function) = module.functions.get(launch.kernel) {
            return Ok(*function);
        }
        let name = CString::new(format!("apr_{}", launch.kernel))
            .map_err(|_| Error::plugin("a kernel's name contains NUL"))?;
        let mut function = null_mut();
        // SAFETY: the module is loaded, and the name ends with a zero.
        let result = unsafe { sys::cuModuleGetFunction(&raw mut function, module.module, name.as_ptr()) };
        check(result, &format!("kernel {}", launch.kernel))?;
        module.functions.insert(launch.kernel, function);
        Ok(function)
    }

    fn load(&self, name: &str) -> Result<sys::CUmodule> {
        let text = embedded_ptx::ptx(name, self.capability)
            .ok_or_else(|| Error::plugin(format!("no module {name} for this device")))?;
        let text = CString::new(text).map_err(|_| Error::plugin("a module contains NUL"))?;
        let mut log = vec![0u8; 4096];
        let mut options = [
            sys::CUjit_option_enum::CU_JIT_ERROR_LOG_BUFFER,
            sys::CUjit_option_enum::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
        ];
        let mut values = [log.as_mut_ptr().cast::<c_void>(), log.len() as *mut c_void];
        let mut module = null_mut();
        self.enter()?;
        // SAFETY: the text ends with a zero, and each option's value is of its kind: a buffer, and its length.
        let result = unsafe {
            sys::cuModuleLoadDataEx(
                &raw mut module,
                text.as_ptr().cast(),
                2,
                options.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        check(result, &format!("the kernels of module {name} cannot be compiled for this device")).map_err(
            |error| {
                let end = log.iter().position(|byte| *byte == 0).unwrap_or(log.len());
                let said = String::from_utf8_lossy(&log[..end]).trim().to_owned();
                let message = error.message().to_owned();
                if said.is_empty() { error } else { Error::io(format!("{message}: {}", escape(&said, 400))) }
            },
        )?;
        Ok(module)
    }

    fn memory(&self) -> Result<Memory> {
        let (mut free, mut total) = (0usize, 0usize);
        self.enter()?;
        // SAFETY: the context is this thread's.
        let result = unsafe { sys::cuMemGetInfo_v2(&raw mut free, &raw mut total) };
        check(result, "the device does not report its memory")?;
        Ok(Memory { total: total as u64, free: free as u64 })
    }
}

impl Drop for Context {
    fn drop(&mut self) {
        if self.enter().is_ok() {
            for module in self.modules.get_mut().unwrap_or_else(PoisonError::into_inner).values() {
                // SAFETY: it was loaded into this context, and whatever used its functions held the context.
                unsafe { sys::cuModuleUnload(module.module) };
            }
        }
        // SAFETY: it was retained once in `open`.
        unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.device) };
    }
}

impl Driver for Nvidia {
    fn memory(&self) -> Result<Memory> {
        self.0.memory()
    }

    fn has_tensor_cores(&self) -> bool {
        self.0.capability >= (8, 0)
    }

    fn allocate(&self, bytes: usize) -> Result<u64> {
        self.0.enter()?;
        let mut at: sys::CUdeviceptr = 0;
        // SAFETY: the context is this thread's.
        let result = unsafe { sys::cuMemAlloc_v2(&raw mut at, bytes) };
        if result == sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY {
            let free = self.0.memory().map_or(0, |memory| memory.free);
            return Err(Error::io(format!(
                "the device is out of memory: {bytes} bytes are needed, but only {free} are free"
            ))
            .hint("use a smaller type, a shorter context, or the CPU (--backend cpu)"));
        }
        check(result, &format!("{bytes} bytes of the device's memory"))?;
        Ok(at)
    }

    unsafe fn free(&self, at: u64) {
        if self.0.enter().is_ok() {
            // SAFETY: as the caller vouches. What the driver answers changes nothing any more.
            unsafe { sys::cuMemFree_v2(at) };
        }
    }

    unsafe fn upload(&self, to: u64, bytes: &[u8]) -> Result<()> {
        self.0.enter()?;
        let what = "copying to the device";
        // SAFETY: as the caller vouches.
        check(unsafe { sys::cuMemcpyHtoD_v2(to, bytes.as_ptr().cast(), bytes.len()) }, what)?;
        // What is not pinned may still be on its way from the driver's own memory, and the queues do not wait for this stream.
        // SAFETY: the context is this thread's, and no stream means the one that the copy is in.
        check(unsafe { sys::cuStreamSynchronize(null_mut()) }, what)
    }

    unsafe fn download(&self, from: u64, out: &mut [u8]) -> Result<()> {
        self.0.enter()?;
        // SAFETY: as the caller vouches.
        check(
            unsafe { sys::cuMemcpyDtoH_v2(out.as_mut_ptr().cast(), from, out.len()) },
            "copying from the device",
        )
    }

    fn queue(&self) -> Result<Box<dyn Queue>> {
        self.0.enter()?;
        let mut stream = null_mut();
        let flags = sys::CUstream_flags::CU_STREAM_NON_BLOCKING as u32;
        // SAFETY: the context is this thread's.
        check(unsafe { sys::cuStreamCreate(&raw mut stream, flags) }, "the device has no free stream")?;
        let mut queue = Stream { context: Arc::clone(&self.0), stream, staging: null_mut(), room: 0 };
        queue.stage(1 << 16)?;
        Ok(Box::new(queue))
    }
}

/// A stream.
struct Stream {
    context: Arc<Context>,
    stream: sys::CUstream,
    /// Memory of the host that the device copies from by itself.
    staging: *mut c_void,
    room: usize,
}

// SAFETY: the driver's handles may be used from any thread; the staging memory is this queue's alone.
unsafe impl Send for Stream {}

impl Stream {
    /// Makes room for staged bytes.
    fn stage(&mut self, bytes: usize) -> Result<()> {
        if self.room >= bytes {
            return Ok(());
        }
        self.context.enter()?;
        self.wait()?;
        let mut memory = null_mut();
        // SAFETY: the context is this thread's.
        check(unsafe { sys::cuMemAllocHost_v2(&raw mut memory, bytes) }, "host memory for copies")?;
        if !self.staging.is_null() {
            // SAFETY: it came from the same function, and the queue has come by all copies from it.
            unsafe { sys::cuMemFreeHost(self.staging) };
        }
        (self.staging, self.room) = (memory, bytes);
        Ok(())
    }

    /// Launches a kernel.
    ///
    /// # Safety
    /// As [`Queue::run`].
    unsafe fn launch(&self, launch: &Launch, is_first: bool) -> Result<()> {
        let function = self.context.function(launch)?;
        let mut attribute = sys::CUlaunchAttribute {
            id: sys::CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
            pad: Default::default(),
            value: sys::CUlaunchAttributeValue { programmaticStreamSerializationAllowed: 1 },
        };
        let config = sys::CUlaunchConfig {
            gridDimX: launch.grid[0],
            gridDimY: launch.grid[1],
            gridDimZ: launch.grid[2],
            blockDimX: launch.threads,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: 0,
            hStream: self.stream,
            attrs: &raw mut attribute,
            // Before the first there are copies, which do not say that they let anything begin.
            numAttrs: u32::from(self.context.overlaps && !is_first),
        };
        let mut parameters = [launch.parameters.as_ptr().cast_mut().cast::<c_void>()];
        // SAFETY: the kernel takes one struct by value, whose bytes the caller vouches for; the driver copies them.
        let result = unsafe {
            sys::cuLaunchKernelEx(&raw const config, function, parameters.as_mut_ptr(), null_mut())
        };
        check(result, &format!("kernel {} with {:?} blocks", launch.kernel, launch.grid))
    }
}

impl Queue for Stream {
    unsafe fn upload(&mut self, to: u64, bytes: &[u8]) -> Result<()> {
        for (piece, to) in bytes.chunks(MOST_STAGED).zip((to..).step_by(MOST_STAGED)) {
            self.stage(piece.len())?;
            self.context.enter()?;
            // A copy before this one may still be reading the staged bytes.
            self.wait()?;
            // SAFETY: there is room for so many bytes, and nothing reads them now.
            unsafe { std::ptr::copy_nonoverlapping(piece.as_ptr(), self.staging.cast::<u8>(), piece.len()) };
            // SAFETY: as the caller vouches; the staged bytes stay until the queue has come by.
            let result = unsafe { sys::cuMemcpyHtoDAsync_v2(to, self.staging, piece.len(), self.stream) };
            check(result, "copying to the device")?;
        }
        Ok(())
    }

    unsafe fn copy(&mut self, from: u64, to: u64, bytes: usize) -> Result<()> {
        self.context.enter()?;
        // SAFETY: as the caller vouches.
        check(unsafe { sys::cuMemcpyDtoDAsync_v2(to, from, bytes, self.stream) }, "copying on the device")
    }

    unsafe fn zero(&mut self, at: u64, bytes: usize) -> Result<()> {
        self.context.enter()?;
        // SAFETY: as the caller vouches.
        check(unsafe { sys::cuMemsetD8Async(at, 0, bytes, self.stream) }, "filling the device's memory")
    }

    unsafe fn run(&mut self, launches: &[Launch]) -> Result<()> {
        self.context.enter()?;
        for (number, launch) in launches.iter().enumerate() {
            // SAFETY: as the caller vouches.
            unsafe { self.launch(launch, number == 0)? };
        }
        Ok(())
    }

    unsafe fn record(&mut self, launches: &[Launch]) -> Result<Box<dyn Graph>> {
        self.context.enter()?;
        // Loading a module would end a recording.
        for launch in launches {
            self.context.function(launch)?;
        }
        let mode = sys::CUstreamCaptureMode::CU_STREAM_CAPTURE_MODE_THREAD_LOCAL;
        // SAFETY: the stream is this queue's alone.
        check(unsafe { sys::cuStreamBeginCapture_v2(self.stream, mode) }, "recording kernels")?;
        // SAFETY: as the caller vouches.
        let launched = unsafe { self.run(launches) };
        let mut graph = null_mut();
        // SAFETY: the recording began above, and ends here in any case.
        let ended = unsafe { sys::cuStreamEndCapture(self.stream, &raw mut graph) };
        let graph = Captured(graph);
        launched?;
        check(ended, "recording kernels")?;
        let mut executable = null_mut();
        // SAFETY: the graph was recorded above.
        let made = unsafe { sys::cuGraphInstantiateWithFlags(&raw mut executable, graph.0, 0) };
        check(made, "making a graph of kernels")?;
        Ok(Box::new(Recorded { context: Arc::clone(&self.context), graph: executable }))
    }

    unsafe fn replay(&mut self, graph: &dyn Graph) -> Result<()> {
        self.context.enter()?;
        let handle = usize::try_from(graph.handle()).unwrap_or(0) as sys::CUgraphExec;
        // SAFETY: the graph is one of this queue, as the caller vouches.
        check(unsafe { sys::cuGraphLaunch(handle, self.stream) }, "running a graph of kernels")
    }

    unsafe fn time(&mut self, launches: &[Launch]) -> Result<Vec<u64>> {
        self.context.enter()?;
        let events = Events::new(launches.len() + 1)?;
        for (number, event) in events.0.iter().enumerate() {
            if number > 0 {
                // SAFETY: as the caller vouches.
                unsafe { self.launch(&launches[number - 1], true)? };
            }
            // SAFETY: both are of this context.
            check(unsafe { sys::cuEventRecord(*event, self.stream) }, "timing kernels")?;
        }
        self.wait()?;
        let between = |pair: &[sys::CUevent]| {
            let mut milliseconds = 0f32;
            // SAFETY: the queue has come by both.
            let result = unsafe { sys::cuEventElapsedTime(&raw mut milliseconds, pair[0], pair[1]) };
            check(result, "timing kernels")?;
            Ok(std::time::Duration::from_secs_f32(milliseconds.max(0.0) / 1e3).as_nanos())
        };
        events
            .0
            .windows(2)
            .map(|pair| between(pair).map(|ns| u64::try_from(ns).unwrap_or(u64::MAX)))
            .collect()
    }

    unsafe fn download(&mut self, from: u64, out: &mut [u8]) -> Result<()> {
        // Through memory that the device writes by itself; much at a time goes its own way.
        if out.len() <= MOST_STAGED {
            self.stage(out.len())?;
            self.context.enter()?;
            // SAFETY: as the caller vouches; there is room for so many bytes, and whatever was staged before is copied first.
            let result = unsafe { sys::cuMemcpyDtoHAsync_v2(self.staging, from, out.len(), self.stream) };
            let waited = self.wait();
            check(result, "copying from the device")?;
            waited?;
            // SAFETY: the copy has ended.
            unsafe { std::ptr::copy_nonoverlapping(self.staging.cast::<u8>(), out.as_mut_ptr(), out.len()) };
            return Ok(());
        }
        self.context.enter()?;
        // SAFETY: as the caller vouches; the bytes are there until the copy has ended, below.
        let result =
            unsafe { sys::cuMemcpyDtoHAsync_v2(out.as_mut_ptr().cast(), from, out.len(), self.stream) };
        let waited = self.wait();
        check(result, "copying from the device")?;
        waited
    }

    fn wait(&mut self) -> Result<()> {
        self.context.enter()?;
        // SAFETY: the stream is this queue's.
        check(unsafe { sys::cuStreamSynchronize(self.stream) }, "the device failed during the computation")
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let _ = self.wait();
        // SAFETY: nothing runs in the stream any more, and nothing copies from the staged bytes.
        unsafe {
            sys::cuStreamDestroy_v2(self.stream);
            if !self.staging.is_null() {
                sys::cuMemFreeHost(self.staging);
            }
        }
    }
}

/// Points in time on a device.
struct Events(Vec<sys::CUevent>);

impl Events {
    fn new(count: usize) -> Result<Events> {
        let mut events = Events(Vec::with_capacity(count));
        for _ in 0..count {
            let mut event = null_mut();
            // SAFETY: the caller made the context this thread's.
            check(unsafe { sys::cuEventCreate(&raw mut event, 0) }, "timing kernels")?;
            events.0.push(event);
        }
        Ok(events)
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        for event in &self.0 {
            // SAFETY: it was made in `new`.
            unsafe { sys::cuEventDestroy_v2(*event) };
        }
    }
}

/// A graph as it was recorded; where nothing was, it is null.
struct Captured(sys::CUgraph);

impl Drop for Captured {
    fn drop(&mut self) {
        if !self.0.is_null() {
            // SAFETY: the driver gave it when the recording ended, and whoever drops it made the context this thread's.
            unsafe { sys::cuGraphDestroy(self.0) };
        }
    }
}

/// An executable graph.
struct Recorded {
    context: Arc<Context>,
    graph: sys::CUgraphExec,
}

// SAFETY: the driver's handles may be used from any thread.
unsafe impl Send for Recorded {}

impl Graph for Recorded {
    fn handle(&self) -> u64 {
        self.graph as usize as u64
    }
}

impl Drop for Recorded {
    fn drop(&mut self) {
        if self.context.enter().is_ok() {
            // SAFETY: it was made by `record`; the driver ends a run in progress first.
            unsafe { sys::cuGraphExecDestroy(self.graph) };
        }
    }
}
