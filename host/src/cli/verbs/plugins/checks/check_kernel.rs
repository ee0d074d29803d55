//! The checks of a compute backend: what needs no model.

use super::check_line::Line;
use apr_sdk::{DType, DeviceInfo, DeviceSink, Error, Kernel, OpCode, OpSpec, Options, Result, Support};
use std::sync::Arc;

/// A check's name, and what makes its verdict: what was found, or what is wrong.
type Check = (&'static str, fn(&dyn Kernel, &[DeviceInfo]) -> Result<String>);

/// The checks that take the devices for granted.
const CHECKS: [Check; 2] = [("unknown operations", unknown_operations), ("open", open)];

/// An operation that nobody has.
const UNKNOWN: OpCode = OpCode(u32::MAX);

/// Devices listed so far. 1024: more than any machine has.
#[derive(Default)]
struct Devices(Vec<DeviceInfo>);

impl DeviceSink for Devices {
    fn device(&mut self, info: DeviceInfo) -> Result<()> {
        if self.0.len() == 1024 {
            return Err(Error::limit("the backend lists more than 1024 devices"));
        }
        self.0.push(info);
        Ok(())
    }
}

/// Checks the backend `id`; `say` hears of each check as it starts and as it ends.
///
/// # Errors
/// Any error from `say`.
pub fn check_kernel(
    id: &str,
    kernel: Result<Arc<dyn Kernel>>,
    say: &dyn Fn(&Line) -> Result<()>,
) -> Result<()> {
    say(&Line::new(id, "devices", "started", String::new()))?;
    let mut devices = Devices::default();
    let listed = kernel.and_then(|kernel| {
        kernel.devices(&mut devices)?;
        Ok(kernel)
    });
    let kernel = match listed {
        Ok(kernel) => kernel,
        Err(error) => return say(&judged(id, "devices", Err(error))),
    };
    say(&judged(id, "devices", named(&devices.0)))?;
    for (check, made) in CHECKS {
        say(&Line::new(id, check, "started", String::new()))?;
        say(&judged(id, check, made(&*kernel, &devices.0)))?;
    }
    Ok(())
}

fn judged(id: &str, check: &str, verdict: Result<String>) -> Line {
    match verdict {
        Ok(what) => Line::new(id, check, "passed", what),
        Err(error) => Line::new(id, check, "failed", error.to_string()),
    }
}

/// The devices in words. One without a name, or a reason without words, helps nobody.
fn named(devices: &[DeviceInfo]) -> Result<String> {
    let words = devices.iter().enumerate().map(|(number, device)| {
        if device.name.trim().is_empty()
            || device.unusable.as_deref().is_some_and(|why| why.trim().is_empty())
        {
            return Err(Error::failed(format!(
                "device {number} has no name, or is unusable without a reason"
            )));
        }
        let name = &device.name;
        Ok(match &device.unusable {
            Some(why) => format!("{number}: {name}, unusable: {why}"),
            None if device.features.is_empty() => format!("{number}: {name}"),
            None => format!("{number}: {name} ({})", device.features),
        })
    });
    let words = words.collect::<Result<Vec<_>>>()?;
    if words.is_empty() {
        return Err(Error::failed("no device is listed, not even an unusable one with a reason"));
    }
    Ok(words.join("; "))
}

/// Checks that an unknown operation is answered with no: a panic or an error would end a run that another backend could take.
fn unknown_operations(kernel: &dyn Kernel, devices: &[DeviceInfo]) -> Result<String> {
    let asked = [(UNKNOWN, 1), (OpCode::LINEAR, u16::MAX), (OpCode::SCAN, u16::MAX)];
    for (number, (code, version)) in (0..).zip(devices).flat_map(|(n, _)| asked.map(|asked| (n, asked))) {
        let op = OpSpec { code, version, fields: &[], weights: &[DType::F32] };
        if kernel.supports(number, &op)? == Support::Yes {
            return Err(Error::failed(format!(
                "device {number} claims to support version {version} of the operation `{}`",
                code.name()
            )));
        }
    }
    Ok("rejected".to_owned())
}

/// Every usable device opens, every unusable one says why not, and one that is not there is refused.
fn open(kernel: &dyn Kernel, devices: &[DeviceInfo]) -> Result<String> {
    let mut opened = 0;
    for (number, info) in (0..).zip(devices) {
        match (kernel.open(number, &Options::new()), &info.unusable) {
            (Ok(device), None) => {
                device.memory()?;
                opened += 1;
            }
            (Err(error), None) => return Err(error),
            (Ok(_), Some(_)) => {
                return Err(Error::failed(format!(
                    "device {number} can be opened, although it is listed as unusable"
                )));
            }
            (Err(_), Some(_)) => {}
        }
    }
    let beyond = u32::try_from(devices.len()).unwrap_or(u32::MAX);
    if kernel.open(beyond, &Options::new()).is_ok() {
        return Err(Error::failed(format!("device {beyond} can be opened, although it is not listed")));
    }
    Ok(format!("{opened} of {} devices", devices.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use apr_sdk::{Device, ErrorKind};
    use std::cell::RefCell;

    /// A backend with a fault of this number, or none.
    struct Faulty(u32);

    impl Kernel for Faulty {
        fn devices(&self, sink: &mut dyn DeviceSink) -> Result<()> {
            let mut info = DeviceInfo::default();
            info.name = if self.0 == 1 { String::new() } else { "broken".to_owned() };
            info.unusable = Some("no driver".to_owned());
            match self.0 {
                2 => Ok(()),
                3 => Err(Error::io("does not answer")),
                4 => (0..2000).try_for_each(|_| sink.device(info.clone())),
                _ => sink.device(info),
            }
        }

        fn supports(&self, _: u32, _: &OpSpec<'_>) -> Result<Support> {
            Ok(if self.0 == 5 { Support::Yes } else { Support::No("unknown".to_owned()) })
        }

        fn open(&self, _: u32, _: &Options) -> Result<Box<dyn Device>> {
            Err(Error::unsupported("no driver"))
        }
    }

    /// The results of the checks, without their beginnings.
    fn results(fault: u32) -> Vec<(String, String)> {
        let lines = RefCell::new(Vec::new());
        check_kernel("x", Ok(Arc::new(Faulty(fault))), &|line| {
            if line.result != "started" {
                lines.borrow_mut().push((line.check.clone(), line.result.clone()));
            }
            Ok(())
        })
        .unwrap();
        lines.into_inner()
    }

    #[test]
    fn every_fault_is_found() {
        let failed = |fault| {
            let line = results(fault).into_iter().find(|(_, result)| result == "failed");
            line.map(|(check, _)| check)
        };
        assert_eq!(failed(0), None);
        for fault in 1..=4 {
            assert_eq!(failed(fault).as_deref(), Some("devices"), "{fault}");
        }
        assert_eq!(failed(5).as_deref(), Some("unknown operations"));
        assert_eq!(results(0).len(), 3);
    }

    #[test]
    fn a_backend_that_cannot_be_made_is_a_finding() {
        let details = RefCell::new(Vec::new());
        let none = Err(Error::new(ErrorKind::Plugin, "has no compute backend"));
        check_kernel("x", none, &|line| {
            details.borrow_mut().push(line.detail.clone());
            Ok(())
        })
        .unwrap();
        assert!(details.into_inner().last().unwrap().contains("has no compute backend"));
    }
}
