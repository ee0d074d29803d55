//! A driver that runs the kernels on the processor: compiled by an ordinary C++ compiler, with a fiber for each thread.

use apr_plugin_cuda_kernels::{Cuda, Devices, Driver, Graph, Launch, Queue};
use apr_sdk::{DeviceInfo, Error, Kernel, Memory, Result};
use libloading::Library;
use std::collections::BTreeMap;
use std::ffi::{CStr, c_char};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock};

/// Whether races between a kernel's threads are looked for, which takes time: in this plugin's own tests, where compilers know how.
const FINDS_RACES: bool = cfg!(all(target_os = "linux", target_pointer_width = "64"))
    && matches!(env!("CARGO_PKG_NAME").as_bytes(), b"apr-plugin-cuda-kernels");

/// The kernels as a library of the processor; `None` where there is no C++ compiler.
pub fn library() -> Option<&'static Library> {
    static LIBRARY: OnceLock<Option<Library>> = OnceLock::new();
    LIBRARY
        .get_or_init(|| {
            if FINDS_RACES {
                let more = concat!(include_str!("races.hpp"), include_str!("planted.hpp"));
                let library =
                    load(&compiled("races", more, &["-DRACES", "-fsanitize=thread,alignment"], &[])?);
                // SAFETY: the library's function has this type.
                if unsafe { library.get::<Reserved>(b"races_reserved").unwrap()() } != 0 {
                    return Some(library);
                }
                // A test of `races.rs` says so aloud.
            }
            Some(load(&compiled("kernels", "", &[], &[])?))
        })
        .as_ref()
}

fn load(path: &Path) -> Library {
    // SAFETY: the library holds functions alone, and nothing runs when it is loaded.
    unsafe { Library::new(path) }.unwrap()
}

/// Compiles the kernels, memory for them, and `more` to a library; or finds the one that was compiled of the same.
pub fn compiled(name: &str, more: &str, options: &[&str], to_link: &[&str]) -> Option<PathBuf> {
    let (compiler, version) = ["g++", "c++", "clang++"].into_iter().find_map(|name| {
        let said = Command::new(name).arg("--version").output().ok().filter(|said| said.status.success())?;
        Some((name, said.stdout))
    })?;
    // The workspace's tests use this file as well, and so do the targets of fuzzing.
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let cuda =
        [here.to_owned(), here.join("../plugins/cuda-kernels"), here.join("../../plugins/cuda-kernels")]
            .into_iter()
            .map(|plugin| plugin.join("cuda"))
            .find(|path| path.is_dir())?
            .canonicalize()
            .unwrap();
    let mut sources: Vec<PathBuf> =
        std::fs::read_dir(&cuda).unwrap().map(|entry| entry.unwrap().path()).collect();
    // Editors leave other files there.
    let is_source = |path: &PathBuf| {
        path.extension().is_some_and(|extension| ["cu", "cuh", "hpp"].iter().any(|own| extension == *own))
    };
    sources.retain(is_source);
    sources.sort();
    let is_unit = |path: &&PathBuf| path.extension().is_some_and(|extension| extension == "cu");
    let includes = sources.iter().filter(is_unit).map(|path| format!("#include \"{}\"\n", path.display()));
    let text = includes.collect::<String>() + include_str!("guarded.hpp") + more;
    // Linked apart: with the options for compiling, the compiler would add libraries of its own.
    let to_compile = [&["-std=c++17", "-O2", "-c", "-fPIC", "-ffp-contract=off", "-w"], options].concat();
    let mut digest = DefaultHasher::new();
    (&text, &version, &to_compile, to_link, include_str!("emulated.rs")).hash(&mut digest);
    sources.iter().for_each(|path| std::fs::read(path).unwrap().hash(&mut digest));
    // In a folder that is for all, what lies there may be anyone's.
    let own = option_env!("CARGO_TARGET_TMPDIR").map(PathBuf::from);
    let may_be_there = own.is_some();
    let folder = own.unwrap_or_else(std::env::temp_dir);
    let library = folder.join(format!("{name}-{:016x}.so", digest.finish()));
    if may_be_there && library.exists() {
        return Some(library);
    }
    // Others may be compiling it at the same time.
    let being_made = folder.join(format!("{name}-{}", std::process::id()));
    let [all, object, linked] = ["cpp", "o", "so"].map(|extension| being_made.with_extension(extension));
    std::fs::write(&all, text).unwrap();
    let run = |arguments: &[&str], from: &Path, to: &Path| {
        let made =
            Command::new(compiler).args(arguments).arg("-o").args([to, from]).args(to_link).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    };
    run(&to_compile, &all, &object);
    run(&["-shared"], &object, &linked);
    [all, object].iter().for_each(|path| std::fs::remove_file(path).unwrap());
    if !may_be_there {
        return Some(linked);
    }
    std::fs::rename(&linked, &library).unwrap();
    Some(library)
}

pub type Entry = unsafe extern "C" fn(u32, u32, u32, u32, *const u8);
type Number = unsafe extern "C" fn() -> u64;
pub type Take = unsafe extern "C" fn(u64) -> u64;
pub type Give = unsafe extern "C" fn(u64, u64);
type Reserved = unsafe extern "C" fn() -> u32;
pub type Ended = unsafe extern "C" fn() -> *const c_char;

/// The processor as a device.
pub struct Emulated {
    /// The bytes at each address.
    memory: Mutex<BTreeMap<u64, usize>>,
    total: usize,
    free: Mutex<usize>,
    /// How many calls go well before the device is lost.
    calls: AtomicUsize,
}

/// Bytes that an emulated device has.
const MEMORY: usize = 2 << 30;

impl Emulated {
    pub fn new() -> Emulated {
        Emulated::with_memory(MEMORY)
    }

    /// A device with so many bytes.
    pub fn with_memory(total: usize) -> Emulated {
        let calls = AtomicUsize::new(usize::MAX);
        Emulated { memory: Mutex::default(), total, free: Mutex::new(total), calls }
    }

    /// Has the device be lost after so many calls; gives how many were left.
    #[allow(dead_code, reason = "not everyone who uses this file asks")]
    pub fn lose_after(&self, calls: usize) -> usize {
        self.calls.swap(calls, Ordering::Relaxed)
    }

    fn called(&self) -> Result<()> {
        let less = |calls: usize| calls.checked_sub(1);
        let left = self.calls.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        left.map(|_| ()).map_err(|_| Error::io("the device is lost"))
    }

    /// What is allocated now.
    #[allow(dead_code, reason = "not everyone who uses this file asks")]
    pub fn used(&self) -> usize {
        self.total - *self.free.lock().unwrap()
    }

    fn check(&self, at: u64, bytes: usize) {
        let memory = self.memory.lock().unwrap();
        let (start, size) = memory.range(..=at).next_back().expect("no such memory");
        assert!(at as usize + bytes <= *start as usize + size, "beyond the end of memory");
    }
}

impl Driver for Arced {
    fn memory(&self) -> Result<Memory> {
        self.0.called()?;
        Ok(Memory { total: self.0.total as u64, free: *self.0.free.lock().unwrap() as u64 })
    }

    fn has_tensor_cores(&self) -> bool {
        self.1
    }

    fn allocate(&self, bytes: usize) -> Result<u64> {
        self.0.called()?;
        let mut free = self.0.free.lock().unwrap();
        if bytes > *free {
            return Err(Error::io(format!("no memory left: {bytes} bytes are needed, and {free} are free")));
        }
        let library = library().unwrap();
        // SAFETY: the library's function has this type. Kernels that go beyond the end of the memory end the process.
        let at = unsafe { library.get::<Take>(b"guarded_take").unwrap()(bytes as u64) };
        assert!(at > 0, "{bytes} bytes");
        *free -= bytes;
        self.0.memory.lock().unwrap().insert(at, bytes);
        Ok(at)
    }

    unsafe fn free(&self, at: u64) {
        let bytes = self.0.memory.lock().unwrap().remove(&at).expect("no such memory");
        *self.0.free.lock().unwrap() += bytes;
        // SAFETY: the library's function has this type, and the memory came from `allocate`.
        unsafe { library().unwrap().get::<Give>(b"guarded_give").unwrap()(at, bytes as u64) };
    }

    unsafe fn upload(&self, to: u64, bytes: &[u8]) -> Result<()> {
        self.0.called()?;
        self.0.check(to, bytes.len());
        // SAFETY: as checked.
        unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), to as *mut u8, bytes.len()) };
        Ok(())
    }

    unsafe fn download(&self, from: u64, out: &mut [u8]) -> Result<()> {
        self.0.called()?;
        self.0.check(from, out.len());
        // SAFETY: as checked.
        unsafe { std::ptr::copy_nonoverlapping(from as *const u8, out.as_mut_ptr(), out.len()) };
        Ok(())
    }

    fn queue(&self) -> Result<Box<dyn Queue>> {
        Ok(Box::new(Now(Arced(Arc::clone(&self.0), self.1), Vec::new())))
    }
}

/// The device, and whether its kernels are said to have tensor cores.
#[derive(Clone)]
pub struct Arced(pub Arc<Emulated>, pub bool);

/// Everything runs at once.
struct Now(Arced, Vec<Vec<Launch>>);

struct Recorded(usize);

impl Graph for Recorded {
    fn handle(&self) -> u64 {
        self.0 as u64
    }
}

impl Queue for Now {
    unsafe fn upload(&mut self, to: u64, bytes: &[u8]) -> Result<()> {
        // SAFETY: as the caller vouches.
        unsafe { self.0.upload(to, bytes) }
    }

    unsafe fn copy(&mut self, from: u64, to: u64, bytes: usize) -> Result<()> {
        self.0.0.called()?;
        self.0.0.check(from, bytes);
        self.0.0.check(to, bytes);
        // SAFETY: as checked.
        unsafe { std::ptr::copy_nonoverlapping(from as *const u8, to as *mut u8, bytes) };
        Ok(())
    }

    unsafe fn zero(&mut self, at: u64, bytes: usize) -> Result<()> {
        self.0.0.called()?;
        self.0.0.check(at, bytes);
        // SAFETY: as checked.
        unsafe { (at as *mut u8).write_bytes(0, bytes) };
        Ok(())
    }

    unsafe fn run(&mut self, launches: &[Launch]) -> Result<()> {
        let library = library().unwrap();
        // SAFETY: the library's function has this type. What it gives stays until it is called again.
        let ended = || unsafe {
            let found = library.get::<Ended>(b"races_ended").map_or(std::ptr::null(), |ended| ended());
            (!found.is_null()).then(|| CStr::from_ptr(found).to_string_lossy())
        };
        // What ran before has ended, for the first does not overlap it.
        ended();
        for launch in launches {
            self.0.0.called()?;
            let name = format!("apr_{}", launch.kernel);
            // SAFETY: the library's macro gives these functions these types.
            unsafe {
                let size = library.get::<Number>(format!("{name}_params").as_bytes()).unwrap();
                assert_eq!(size(), launch.parameters.len() as u64, "{name}");
                let most = library.get::<Number>(format!("{name}_threads").as_bytes()).unwrap();
                assert!(u64::from(launch.threads) <= most() && launch.threads % 32 == 0, "{name}");
                let [x, y, z] = launch.grid;
                assert!(
                    x > 0 && (1..65536).contains(&y) && (1..65536).contains(&z),
                    "{name}: {:?}",
                    launch.grid
                );
                let entry = library.get::<Entry>(name.as_bytes()).unwrap();
                entry(x, y, z, launch.threads, launch.parameters.as_ptr());
            }
        }
        assert_eq!(ended(), None);
        Ok(())
    }

    unsafe fn record(&mut self, launches: &[Launch]) -> Result<Box<dyn Graph>> {
        self.1.push(launches.to_vec());
        Ok(Box::new(Recorded(self.1.len() - 1)))
    }

    unsafe fn replay(&mut self, graph: &dyn Graph) -> Result<()> {
        let launches = self.1[graph.handle() as usize].clone();
        // SAFETY: as the caller vouches.
        unsafe { self.run(&launches) }
    }

    unsafe fn time(&mut self, launches: &[Launch]) -> Result<Vec<u64>> {
        // SAFETY: as the caller vouches.
        unsafe { self.run(launches)? };
        Ok(vec![1; launches.len()])
    }

    unsafe fn download(&mut self, from: u64, out: &mut [u8]) -> Result<()> {
        // SAFETY: as the caller vouches.
        unsafe { self.0.download(from, out) }
    }

    fn wait(&mut self) -> Result<()> {
        self.0.0.called()
    }
}

impl Devices for Arced {
    fn list(&self) -> Vec<DeviceInfo> {
        let mut info = DeviceInfo::default();
        info.name = "emulated".to_owned();
        info.memory = self.0.total as u64;
        vec![info]
    }

    fn open(&self, device: u32, _: bool) -> Result<Arc<dyn Driver>> {
        if device > 0 {
            return Err(Error::invalid_argument(format!("there is no device {device}")));
        }
        Ok(Arc::new(self.clone()))
    }
}

/// The backend over an emulated device.
pub fn kernel(has_tensor_cores: bool) -> Box<dyn Kernel> {
    Box::new(Cuda(Arced(Arc::new(Emulated::new()), has_tensor_cores)))
}
