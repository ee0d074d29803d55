//! A library with a compute backend that knows one operation: it computes on the host's threads, and whatever else it is
//! asked for, of today or of the future, it names.

use crate::build::LINEAR;
use crate::library::discover;
use apr_host::threads::Team;
use apr_sdk::*;
use std::sync::{Arc, LazyLock};

/// The library's backend.
static KERNEL: LazyLock<Arc<dyn Kernel>> = LazyLock::new(|| discover(&LINEAR).kernel("linear").unwrap());

struct Heap(Vec<u8>);

impl ImageMemory for Heap {
    fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn bytes_mut(&mut self) -> Result<&mut [u8]> {
        Ok(&mut self.0)
    }
}

#[derive(Default)]
struct Host(Vec<u8>, Vec<f32>);

impl ImageSink for Host {
    fn memory(&mut self, bytes: u64) -> Result<Box<dyn ImageMemory>> {
        Ok(Box::new(Heap(vec![0; bytes as usize])))
    }
}

impl RowsSink for Host {
    fn rows(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.extend_from_slice(bytes);
        Ok(())
    }
}

impl StepSink for Host {
    fn logits(&mut self, _: u32, logits: &[f32]) -> Result<()> {
        self.1.extend_from_slice(logits);
        Ok(())
    }

    fn token(&mut self, _: u32, _: u32) -> Result<()> {
        Err(Error::unsupported("no tokens"))
    }
}

/// Row r is r, r + 1, ...
struct Counting(u64);

impl Counting {
    fn value(row: u64, column: u64) -> f32 {
        (row + column) as f32
    }
}

impl Rows for Counting {
    fn read(&self, first: u64, out: &mut [u8]) -> Result<()> {
        for (at, value) in (0u64..).zip(out.chunks_mut(4)) {
            let (row, column) = (first + at / self.0, at % self.0);
            value.copy_from_slice(&Counting::value(row, column).to_le_bytes());
        }
        Ok(())
    }
}

fn slice(value: u32, width: u32) -> Slice {
    Slice { value, first: 0, width }
}

fn linear() -> Operation {
    let part = WeightPart { weight: 0, first_row: 0, bias: None, out: slice(1, 5) };
    Linear { x: slice(0, 3), parts: vec![part], residual: None, scale: 1.0 }.into()
}

/// A record as it lies in a program.
fn record(code: OpCode, version: u16, fields: &[u8]) -> Vec<u8> {
    let length = (fields.len() as u32).to_le_bytes();
    [&code.0.to_le_bytes()[..], &version.to_le_bytes(), &length, fields].concat()
}

#[test]
fn whatever_it_does_not_know_is_answered_no_and_named() {
    let known = linear();
    let weights = [DType::F32];
    let asks = |code: OpCode, version: u16| {
        let op = OpSpec { code, version, fields: &known.fields(), weights: &weights };
        KERNEL.supports(0, &op).unwrap()
    };
    assert_eq!(asks(OpCode::LINEAR, 1), Support::Yes);
    let device = KERNEL.open(0, &Options::new()).unwrap();
    // Every other operation, the reserved ones, a number that nobody has given out, and a newer version.
    let numbers = OpCode::ALL.iter().map(|(_, number)| OpCode(*number)).chain([OpCode(36), OpCode(u32::MAX)]);
    for (code, version) in numbers.map(|code| (code, 1)).chain([(OpCode::LINEAR, 2), (OpCode::NORM, 65535)]) {
        if (code, version) == (OpCode::LINEAR, 1) {
            continue;
        }
        let Support::No(reason) = asks(code, version) else { panic!("{code:?} {version}: yes") };
        assert!(reason.contains(&format!("`{}`", code.name())), "{reason}");
        assert!(reason.contains(&format!("version {version}")), "{reason}");
        // The declarations at a program's beginning are no operations.
        if [OpCode::VALUES, OpCode::STATES].contains(&code) {
            continue;
        }
        let program = record(code, version, &known.fields());
        let error = device.compile(&program, &[], &SessionLimits::new(1, 1, 1)).err().unwrap();
        let named = error.message().contains(&format!("`{}`", code.name()));
        // An operation of another kind has other fields: either is an error of its own.
        let other = error.kind() == ErrorKind::InvalidArgument;
        assert!(other || (error.kind() == ErrorKind::Unsupported && named), "{code:?} {version}: {error:?}");
    }
    for (code, version) in [(OpCode::SCAN, 1), (OpCode(36), 1), (OpCode::LINEAR, 2)] {
        let program = record(code, version, &known.fields());
        let error = device.compile(&program, &[], &SessionLimits::new(1, 1, 1)).err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error:?}");
        assert!(error.message().contains(&code.name()), "{error:?}");
    }
    // One that the interface knows and this backend does not.
    let sample = Program { operations: vec![Sample { logits: slice(0, 3) }.into()], ..Program::default() };
    let program = sample.to_bytes().unwrap();
    let error = device.compile(&program, &[], &SessionLimits::new(1, 1, 1)).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.message().contains("`sample`"), "{error:?}");
    let quantized = OpSpec { code: OpCode::LINEAR, version: 1, fields: &[], weights: &[DType::Q4_K] };
    assert!(matches!(KERNEL.supports(0, &quantized).unwrap(), Support::No(why) if why.contains("Q4_K")));
}

#[test]
fn it_computes_on_the_hosts_threads_and_a_failure_there_names_it() {
    let device = KERNEL.open(0, &Options::new()).unwrap();
    let matrix = MatrixSpec::new(DType::F32, 5, 3).unwrap();
    let mut host = Host::default();
    let weight = device.prepare(&matrix, &Counting(3), &mut host).unwrap();
    device.export(weight, &mut host).unwrap();
    let mut plain = vec![0; 60];
    Counting(3).read(0, &mut plain).unwrap();
    assert_eq!(host.0, plain);
    let adopted = device.adopt(&matrix, Box::new(Heap(plain))).unwrap();
    assert!(device.adopt(&matrix, Box::new(Heap(vec![0; 7]))).is_err());
    let values = [3, 5].map(|width| ValueSpec { width, rows: RowsOf::BATCH });
    let program = Program { values: values.into(), states: Vec::new(), operations: vec![linear()] };
    let program = program.to_bytes().unwrap();
    let x = [1.0, 10.0, 100.0];
    let wanted: Vec<f32> =
        (0..5).map(|row| (0..3).map(|c| Counting::value(row, c as u64) * x[c]).sum()).collect();
    for width in [1, 2, 3, 8] {
        let team = Team::new(width, Arc::default());
        let mut session = device.compile(&program, &[adopted], &SessionLimits::new(1, 1, 1)).unwrap();
        let batch = Batch::new(&[0], &[0], &[0], &[0]).unwrap();
        let mut step = |rows: &[f32], host: &mut Host| session.step(&batch.with_rows(rows), &team, host);
        for _ in 0..3 {
            let mut host = Host::default();
            step(&x, &mut host).unwrap();
            assert_eq!(host.1, wanted);
            let panicked = step(&[f32::NAN, 0.0, 0.0], &mut host).unwrap_err();
            assert_eq!(panicked.explicit_code(), Some("E_PLUGIN"), "{panicked:?}");
            let start = "plugin `linear` 0.1.0 panicked while computing a step: \"not a number on worker ";
            assert!(panicked.message().starts_with(start), "{panicked:?}");
            let failed = step(&[f32::INFINITY, 0.0, 0.0], &mut host).unwrap_err();
            assert_eq!((failed.kind(), failed.message()), (ErrorKind::Failed, "infinity"));
        }
        let mut out = [0.0; 5];
        session.read(0, &mut out).unwrap();
        assert_eq!(out, wanted[..]);
        assert_eq!(session.read(0, &mut [0.0; 2]).unwrap_err().explicit_code(), Some("E_PLUGIN"));
    }
}

/// What `apr plugins check` says of a library, and how it ends.
fn checked(library: &std::path::Path) -> (Option<i32>, String) {
    let mut command = std::process::Command::new(apr_tests::program());
    let home = std::env::temp_dir();
    let output =
        command.env_clear().env("HOME", home).args(["plugins", "check"]).arg(library).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn a_check_of_a_backend_runs_its_operations() {
    // What it does not have is told apart from what is wrong.
    let (code, said) = checked(&LINEAR);
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("skipped  linear device 0: norm "), "{said}");
    assert!(
        said.contains("0 correct, 0 wrong, 0 failed, 6 unsupported: version 1 of the operation `embed`"),
        "{said}"
    );
    // That of this program, built beside this test.
    let name = apr_host::plugins::file_name("cpu_kernels");
    let (code, said) = checked(&std::env::current_exe().unwrap().with_file_name(name));
    assert_eq!(code, Some(0), "{said}");
    for operation in ["linear", "attention", "norm", "rope", "expert_linear"] {
        assert!(said.contains(&format!("passed   cpu device 0: {operation} ")), "{operation}: {said}");
    }
}

#[test]
fn an_installed_backend_is_listed_with_the_way_to_have_it_chosen() {
    let home = &crate::library::folder();
    let plugins = home.join(".local/share/apr/plugins");
    std::fs::create_dir_all(&plugins).unwrap();
    std::fs::copy(&*LINEAR, plugins.join(apr_host::plugins::file_name("linear"))).unwrap();
    let list = || {
        let mut command = std::process::Command::new(apr_tests::program());
        let output = command.env_clear().env("HOME", home).args(["kernels", "list"]).output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        said.lines().find(|line| line.starts_with("linear ")).unwrap_or_else(|| panic!("{said}")).to_owned()
    };
    let line = list();
    let way = "usable, not in auto: add it with `backends.auto = [\"linear\"]` in the configuration file, or pass --backend linear";
    assert!(line.ends_with(way), "{line}");
    std::fs::create_dir_all(home.join(".config/apr")).unwrap();
    std::fs::write(home.join(".config/apr/config.toml"), "backends.auto = [\"linear\"]\n").unwrap();
    let line = list();
    assert!(line.ends_with("  usable"), "{line}");
}
