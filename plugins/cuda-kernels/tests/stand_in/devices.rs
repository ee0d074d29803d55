//! Which devices there are, and why one cannot be used.

use crate::driver::{Driver, kernel, path};
use apr_sdk::{DType, DeviceInfo, DeviceSink, ErrorKind, Kernel, Options, Result, SessionLimits};
use apr_testkit::Random;
use apr_testkit::kernels::{compile, programs::decoder};
use std::process::Command;

#[derive(Default)]
struct Listed(Vec<DeviceInfo>);

impl DeviceSink for Listed {
    fn device(&mut self, info: DeviceInfo) -> Result<()> {
        self.0.push(info);
        Ok(())
    }
}

fn listed(kernel: &dyn Kernel) -> Vec<DeviceInfo> {
    let mut sink = Listed::default();
    kernel.devices(&mut sink).unwrap();
    sink.0
}

#[test]
fn several_devices_are_listed_and_one_is_chosen() {
    let Some(_driver) = Driver::with("9.0,6.1,7.5") else { return };
    let kernel = kernel();
    let all = listed(&*kernel);
    let names: Vec<&str> = all.iter().map(|info| info.name.as_str()).collect();
    assert_eq!(names, ["stand-in 0", "stand-in 1", "stand-in 2"]);
    let reasons: Vec<bool> = all.iter().map(|info| info.unusable.is_some()).collect();
    assert_eq!(reasons, [false, true, false]);
    assert_eq!(all[2].features, "compute capability 7.5");
    assert_eq!(all[2].memory, 1 << 30);
    kernel.open(0, &Options::new()).unwrap();
    kernel.open(2, &Options::new()).unwrap();
    let error = kernel.open(1, &Options::new()).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.message().contains("6.1 is below 7.0"), "{error}");
    for number in [3, u32::MAX] {
        let error = kernel.open(number, &Options::new()).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.message().contains(&format!("device {number} does not exist")), "{error}");
        assert!(error.message().contains("2 (stand-in 2)"), "{error}");
    }
}

#[test]
fn a_module_that_the_driver_refuses_is_an_error_in_its_words() {
    let Some(driver) = Driver::with("9.0") else { return };
    let (program, weights) = decoder(&mut Random::new(5), DType::F16);
    let names = ["CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "CUDA_ERROR_NO_BINARY_FOR_GPU"];
    for (result, name) in [222, 209].into_iter().zip(names) {
        driver.obey(&format!("ptx={result}"));
        let device = kernel().open(0, &Options::new()).unwrap();
        let error = compile(&*device, &program, &weights, &SessionLimits::new(8, 1, 64)).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Io);
        // The result's name, and what the driver's compiler said.
        assert!(error.message().contains(name) && error.message().contains("line 1; fatal"), "{error}");
        driver.obey("ptx=0");
        compile(&*device, &program, &weights, &SessionLimits::new(8, 1, 64)).unwrap();
    }
    assert!(driver.made().iter().all(|count| *count == 0), "{:?}", driver.made());
}

/// The child of the test below: prints why the device cannot be used, which a process asks once.
#[test]
fn in_a_process_of_its_own() {
    if std::env::var_os("APR_STAND_IN_CUDA").is_some() && Driver::with("9.0").is_some() {
        let all = listed(&*kernel());
        println!(
            "{:?}",
            all.iter().map(|info| info.unusable.as_deref().unwrap_or("usable")).collect::<Vec<_>>()
        );
        println!(
            "{}",
            kernel().open(0, &Options::new()).err().map_or("open".to_owned(), |e| e.message().to_owned())
        );
    }
}

#[test]
fn a_driver_that_cannot_be_used_is_a_device_with_the_reason() {
    let Some(library) = path() else { return };
    for (line, wanted) in [
        ("version=11080", "the NVIDIA driver is too old: it supports CUDA 11.8, but 12.0 is required"),
        ("init=100", "cannot be initialized: no CUDA-capable device is detected (CUDA_ERROR_NO_DEVICE)"),
        ("init=804", "cannot be initialized: CUDA error 804"),
        ("devices=", "the NVIDIA driver found no devices"),
        ("version=12000", "usable"),
    ] {
        let output = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "devices::in_a_process_of_its_own", "--nocapture"])
            .env("APR_STAND_IN_CUDA", line)
            .env("APR_STAND_IN_LIBRARY", library)
            .output()
            .unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains(wanted), "{line}: {text}");
    }
}
