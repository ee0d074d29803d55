//! NVIDIA's driver as it is found on this system, and its devices.

use apr_sdk::{DeviceInfo, Error, Result, escape};
use cudarc::driver::sys;
use std::ffi::{CStr, c_char, c_int};
use std::ptr::null;
use std::sync::OnceLock;

/// Compute capability, e.g. (9, 0).
pub(super) type Capability = (i32, i32);

/// The oldest devices that there is code for.
const OLDEST: Capability = (7, 0);

/// Fails with the driver's own words.
pub(super) fn check(result: sys::CUresult, what: &str) -> Result<()> {
    if result == sys::CUresult::CUDA_SUCCESS {
        return Ok(());
    }
    Err(Error::io(format!("{what}: {}", words(result))))
}

/// What the driver says of a result, and its name for it.
fn words(result: sys::CUresult) -> String {
    let text = |known: sys::CUresult, text: *const c_char| {
        let is_there = known == sys::CUresult::CUDA_SUCCESS && !text.is_null();
        // SAFETY: where the driver knows the result, it gives a text of its own that lives as long as it.
        is_there.then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy())
    };
    let (mut said, mut name) = (null(), null());
    // SAFETY: the driver writes a pointer to a text of its own, or nothing.
    let (knows, names) =
        unsafe { (sys::cuGetErrorString(result, &raw mut said), sys::cuGetErrorName(result, &raw mut name)) };
    match (text(knows, said), text(names, name)) {
        (Some(said), Some(name)) => format!("{said} ({name})"),
        _ => format!("CUDA error {}", result as u32),
    }
}

/// Loads and starts the driver, once. Returns why it cannot be used although it answers.
///
/// # Errors
/// The reason why there is none.
fn start() -> std::result::Result<Option<String>, String> {
    static STARTED: OnceLock<std::result::Result<Option<String>, String>> = OnceLock::new();
    STARTED
        .get_or_init(|| {
            // SAFETY: loading NVIDIA's library runs its own start, which asks nothing of us.
            if !unsafe { sys::is_culib_present() } {
                return Err("no NVIDIA driver is installed: its library libcuda was not found".to_owned());
            }
            // SAFETY: the library is there; the call needs nothing.
            let result = unsafe { sys::cuInit(0) };
            check(result, "the NVIDIA driver cannot be initialized")
                .map_err(|error| error.message().to_owned())?;
            if let Some(version) = version().filter(|version| *version < 12000) {
                let (major, minor) = (version / 1000, version % 1000 / 10);
                return Ok(Some(format!(
                    "the NVIDIA driver is too old: it supports CUDA {major}.{minor}, but 12.0 is required"
                )));
            }
            Ok(None)
        })
        .clone()
}

/// The driver's version, 1000 for each major and 10 for each minor number; `None` if it does not say. It has started.
pub(super) fn version() -> Option<i32> {
    let mut version: c_int = 0;
    // SAFETY: the driver has started.
    let asked = unsafe { sys::cuDriverGetVersion(&raw mut version) };
    (asked == sys::CUresult::CUDA_SUCCESS).then_some(version)
}

/// How many devices there are.
fn count() -> Result<i32> {
    let mut count: c_int = 0;
    // SAFETY: the driver has started.
    check(unsafe { sys::cuDeviceGetCount(&raw mut count) }, "the devices cannot be counted")?;
    Ok(count)
}

pub(super) fn device(number: i32) -> Result<sys::CUdevice> {
    let mut device: sys::CUdevice = 0;
    // SAFETY: the driver has started.
    check(unsafe { sys::cuDeviceGet(&raw mut device, number) }, &format!("device {number}"))?;
    Ok(device)
}

fn attribute(device: sys::CUdevice, attribute: sys::CUdevice_attribute) -> Result<i32> {
    let mut value: c_int = 0;
    // SAFETY: the driver has started, and gave the device.
    let result = unsafe { sys::cuDeviceGetAttribute(&raw mut value, attribute, device) };
    check(result, "the device does not respond")?;
    Ok(value)
}

pub(super) fn capability(device: sys::CUdevice) -> Result<Capability> {
    use sys::CUdevice_attribute_enum as Attribute;
    Ok((
        attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
        attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
    ))
}

fn name(device: sys::CUdevice) -> Result<String> {
    let mut name = [0i8; 256];
    // SAFETY: the driver has started, and gave the device; it writes at most as many bytes, the last of them zero.
    let result = unsafe { sys::cuDeviceGetName(name.as_mut_ptr().cast(), 256, device) };
    check(result, "the device does not report its name")?;
    // SAFETY: the driver ends its text with a zero, and the array was zero.
    let text = unsafe { CStr::from_ptr(name.as_ptr().cast()) };
    Ok(escape(&text.to_string_lossy(), 200).to_string())
}

/// All devices, or the reason why there are none as a device that cannot be used.
pub(crate) fn devices() -> Vec<DeviceInfo> {
    let none = |reason: String| {
        let mut info = DeviceInfo::default();
        info.name = "NVIDIA GPU".to_owned();
        info.unusable = Some(reason);
        vec![info]
    };
    let obstacle = match start() {
        Ok(obstacle) => obstacle,
        Err(reason) => return none(reason),
    };
    match count() {
        Ok(0) => none("the NVIDIA driver found no devices".to_owned()),
        Err(error) => none(error.message().to_owned()),
        Ok(count) => (0..count)
            .map(|number| {
                let mut info = info(number);
                info.unusable = obstacle.clone().or(info.unusable);
                info
            })
            .collect(),
    }
}

/// What a device says of itself.
fn info(number: i32) -> DeviceInfo {
    let mut info = DeviceInfo::default();
    info.name = format!("NVIDIA GPU {number}");
    let asked = device(number).and_then(|device| {
        info.name = name(device)?;
        let capability = capability(device)?;
        let mut bytes = 0usize;
        // SAFETY: the driver has started, and gave the device.
        let result = unsafe { sys::cuDeviceTotalMem_v2(&raw mut bytes, device) };
        check(result, "the device does not report its memory")?;
        info.memory = bytes as u64;
        info.features = format!("compute capability {}.{}", capability.0, capability.1);
        Ok(capability)
    });
    info.unusable = match asked {
        Err(error) => Some(error.message().to_owned()),
        Ok(capability) if capability < OLDEST => Some(format!(
            "its compute capability {}.{} is below {}.{}, the lowest one supported",
            capability.0, capability.1, OLDEST.0, OLDEST.1
        )),
        Ok(_) => None,
    };
    info
}
