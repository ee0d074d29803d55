//! Choice of the compute backend that runs a model, and of its device.

use apr_engine::registry::Registry;
use apr_sdk::{DType, DeviceInfo, DeviceSink, Error, Kernel, OpSpec, Program, Result, Support, escape};
use std::sync::Arc;

/// The backend that the user wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Backend {
    /// The first whose device runs the whole model.
    #[default]
    Auto,
    /// The first of those that compute in the host's memory: the processor.
    Host,
    /// This one, or none.
    Named(String),
}

/// A device that runs a program.
pub struct Chosen {
    /// The backend's id.
    pub id: String,
    /// The backend.
    pub kernel: Arc<dyn Kernel>,
    /// The device's number.
    pub device: u32,
    /// Its description of itself.
    pub info: DeviceInfo,
    /// The reason for this device.
    pub because: String,
    /// The reasons why others, which come before it, were passed over: there is no such device here.
    pub passed: Vec<String>,
    /// The same of devices that are there, but cannot be used, or do not run this program.
    pub declined: Vec<String>,
}

/// A backend's devices.
///
/// # Errors
/// Any error from the backend.
pub fn devices(kernel: &dyn Kernel) -> Result<Vec<DeviceInfo>> {
    struct Sink(Vec<DeviceInfo>);
    impl DeviceSink for Sink {
        fn device(&mut self, info: DeviceInfo) -> Result<()> {
            // A machine has a handful; more than this is a backend that does not end.
            if self.0.len() >= 4096 {
                return Err(Error::limit("a backend lists more than 4096 devices"));
            }
            self.0.push(info);
            Ok(())
        }
    }
    let mut sink = Sink(Vec::new());
    kernel.devices(&mut sink)?;
    Ok(sink.0)
}

/// The error for a device that a backend does not have, with those that it has.
pub fn no_device(id: &str, device: u32, listed: &[DeviceInfo]) -> Error {
    let mut there = Vec::new();
    for (number, info) in listed.iter().enumerate() {
        there.push(format!("{number} ({})", escape(&info.name, 80)));
    }
    let there = if there.is_empty() { "none".to_owned() } else { there.join(", ") };
    Error::invalid_argument(format!("the backend `{}` has no device {device}", escape(id, 40)))
        .hint(format!("available devices: {there}; see `apr kernels list`"))
}

/// The backends that may be chosen without being named, in the order in which they are tried: the processor, which is always there
/// and whose memory is the host's, comes after devices with memory of their own.
fn in_order(registry: &Registry) -> Vec<(String, Result<Arc<dyn Kernel>>)> {
    let mut all = registry.kernels();
    all.retain(|(id, _)| registry.is_automatic(id));
    all.sort_by_cached_key(|(_, kernel)| is_host(kernel));
    all
}

/// Returns whether a backend computes in the host's memory.
fn is_host(kernel: &Result<Arc<dyn Kernel>>) -> bool {
    let listed = kernel.as_ref().ok().and_then(|kernel| devices(kernel.as_ref()).ok());
    listed.is_some_and(|all| all.iter().any(|info| info.unusable.is_none() && info.memory == 0))
}

/// The first backend whose device of this number can be used, with its id.
///
/// # Errors
/// Unsupported if there is none for device 0, InvalidArgument if there is none for another.
pub fn first_usable(registry: &Registry, device: u32) -> Result<(String, Arc<dyn Kernel>)> {
    for (id, kernel) in in_order(registry) {
        let Ok(kernel) = kernel else { continue };
        let listed = devices(kernel.as_ref()).unwrap_or_default();
        if device_of(&listed, device).is_some_and(|info| info.unusable.is_none()) {
            return Ok((id, kernel));
        }
    }
    // Every machine has a device 0, its processor, unless the plugin is missing.
    let make = if device == 0 { Error::unsupported } else { Error::invalid_argument };
    Err(make(format!("no backend has a usable device {device}"))
        .hint("run `apr kernels list` to see which devices are usable, and why the others are not"))
}

fn device_of(listed: &[DeviceInfo], device: u32) -> Option<&DeviceInfo> {
    listed.get(usize::try_from(device).ok()?)
}

/// The reason why a device cannot run a program over weights of these types: the first operation that it cannot.
///
/// # Errors
/// Any error from the backend.
fn obstacle(kernel: &dyn Kernel, device: u32, program: &Program, types: &[DType]) -> Result<Option<String>> {
    for operation in &program.operations {
        let (code, version) = operation.code();
        let fields = operation.fields();
        let mut weights = Vec::new();
        for weight in operation.weights() {
            weights.extend(usize::try_from(weight).ok().and_then(|n| types.get(n)).copied());
        }
        let asked = OpSpec { code, version, fields: &fields, weights: &weights };
        if let Support::No(reason) = kernel.supports(device, &asked)? {
            let mut names: Vec<&str> = weights.iter().map(|dtype| dtype.name()).collect();
            names.dedup();
            let over = if names.is_empty() { String::new() } else { format!(" over {}", names.join(", ")) };
            return Ok(Some(format!("`{}`{over}: {reason}", code.name())));
        }
    }
    Ok(None)
}

/// The reason why an installed backend is not chosen automatically, and the remedy.
pub fn not_automatic(registry: &Registry, id: &str) -> String {
    let listed = registry.auto_backends.iter().map(String::as_str).chain([id]);
    let list: Vec<String> = listed.map(|id| format!("\"{}\"", escape(id, 40))).collect();
    format!(
        "not in auto: add it with `backends.auto = [{}]` in the configuration file, or pass --backend {}",
        list.join(", "),
        escape(id, 40)
    )
}

/// The reason for a device that runs a program, where so many others do not.
fn reason(backend: &Backend, info: &DeviceInfo, others: usize) -> String {
    match backend {
        Backend::Named(_) => "named with --backend".to_owned(),
        Backend::Host => "the first that computes in the host's memory, as --no-gpu asks".to_owned(),
        Backend::Auto if others > 0 => "the first usable one that can compute the whole model".to_owned(),
        Backend::Auto if info.memory > 0 => {
            "it can compute the whole model, and devices with memory of their own come first".to_owned()
        }
        Backend::Auto => "it can compute the whole model, and no other device comes before it".to_owned(),
    }
}

/// The device that runs a program over weights of these types.
///
/// # Errors
/// InvalidArgument for a backend or a device that is not there; Unsupported if none runs it, with each one's reason.
pub fn choose(
    registry: &Registry,
    backend: &Backend,
    device: u32,
    program: &Program,
    types: &[DType],
) -> Result<Chosen> {
    let all = match backend {
        Backend::Auto => in_order(registry),
        Backend::Host => in_order(registry).into_iter().filter(|(_, kernel)| is_host(kernel)).collect(),
        Backend::Named(id) => vec![(id.clone(), registry.kernel(id))],
    };
    let mut passed = Vec::new();
    let mut declined = Vec::new();
    let mut has_device = false;
    if *backend == Backend::Auto {
        let installed = registry.kernel_ids().filter(|id| !registry.is_automatic(id));
        passed.extend(installed.map(|id| format!("{id}: {}", not_automatic(registry, id))));
    }
    for (id, kernel) in all {
        let kernel = match (kernel, backend) {
            (Ok(kernel), _) => kernel,
            (Err(error), Backend::Named(_)) => return Err(error),
            (Err(error), Backend::Auto | Backend::Host) => {
                passed.push(format!("{id}: {}", error.message()));
                continue;
            }
        };
        let listed = devices(kernel.as_ref())?;
        let Some(info) = device_of(&listed, device).cloned() else {
            if !matches!(backend, Backend::Named(_)) {
                passed.push(format!("{}: no device {device}", escape(&id, 40)));
                continue;
            }
            return Err(no_device(&id, device, &listed));
        };
        has_device = true;
        if let Some(reason) = &info.unusable {
            // What says how much memory it has is there.
            let others = if info.memory > 0 { &mut declined } else { &mut passed };
            others.push(format!("{id}: {reason}"));
            continue;
        }
        match obstacle(kernel.as_ref(), device, program, types)? {
            None => {
                let others = passed.len() + declined.len();
                let because = reason(backend, &info, others);
                return Ok(Chosen { id, kernel, device, info, because, passed, declined });
            }
            Some(why) => declined.push(format!("{id}: {why}")),
        }
    }
    passed.extend(declined);
    if passed.is_empty() {
        let error = Error::unsupported("no compute backend is available");
        return Err(error.hint("run `apr plugins list` to see what is available"));
    }
    if !has_device && device > 0 {
        let error = Error::invalid_argument(format!("no compute backend has a device {device}"));
        return Err(error.hint("choose one listed by `apr kernels list`"));
    }
    let message = format!("no device can run this model: {}", passed.join("; "));
    Err(Error::unsupported(message)
        .hint("load it with another type, e.g. --quantize Q8_0; run `apr kernels list` to see the devices"))
}
