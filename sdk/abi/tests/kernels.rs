//! Computing across the wire is computing without it: rows, images, programs, steps on three workers, and every way in
//! which these can fail.

use crate::kernel_toy::{FAILS_ON_A_WORKER, PANICS, PANICS_ON_A_WORKER, ToyKernel};
use crate::toy::{full_error, heard, module};
use apr_sdk::*;
use std::fmt::Write;
use std::sync::{Arc, Condvar, Mutex};

/// Memory as a host gives it.
#[repr(C, align(64))]
#[derive(Clone, Copy)]
struct Line([u8; 64]);

struct HostMemory {
    lines: Vec<Line>,
    len: usize,
    writable: bool,
    alive: Arc<()>,
}

impl HostMemory {
    fn new(len: usize, writable: bool, alive: &Arc<()>) -> HostMemory {
        HostMemory { lines: vec![Line([0; 64]); len.div_ceil(64)], len, writable, alive: Arc::clone(alive) }
    }
}

impl ImageMemory for HostMemory {
    fn bytes(&self) -> &[u8] {
        &self.lines.as_flattened_bytes()[..self.len]
    }

    fn bytes_mut(&mut self) -> Result<&mut [u8]> {
        if !self.writable {
            return Err(full_error());
        }
        let len = self.len;
        Ok(&mut self.lines.as_flattened_bytes_mut()[..len])
    }
}

impl Drop for HostMemory {
    fn drop(&mut self) {
        assert!(Arc::strong_count(&self.alive) < 1000, "in the host's drop");
    }
}

trait Flat {
    fn as_flattened_bytes(&self) -> &[u8];
    fn as_flattened_bytes_mut(&mut self) -> &mut [u8];
}

impl Flat for Vec<Line> {
    fn as_flattened_bytes(&self) -> &[u8] {
        // SAFETY: lines are bytes without padding, one after the other.
        unsafe { std::slice::from_raw_parts(self.as_ptr().cast(), self.len() * 64) }
    }

    fn as_flattened_bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above.
        unsafe { std::slice::from_raw_parts_mut(self.as_mut_ptr().cast(), self.len() * 64) }
    }
}

/// The host's side of everything.
#[derive(Default)]
struct Host {
    said: Vec<String>,
    alive: Arc<()>,
}

impl DeviceSink for Host {
    fn device(&mut self, info: DeviceInfo) -> Result<()> {
        self.said.push(format!("{info:?}"));
        Ok(())
    }
}

impl ImageSink for Host {
    fn memory(&mut self, bytes: u64) -> Result<Box<dyn ImageMemory>> {
        match bytes {
            0..100 => Ok(Box::new(HostMemory::new(bytes as usize, true, &self.alive))),
            _ => Err(full_error()),
        }
    }
}

impl RowsSink for Host {
    fn rows(&mut self, bytes: &[u8]) -> Result<()> {
        self.said.push(format!("{bytes:?}"));
        if self.said.len() > 100 { Err(full_error()) } else { Ok(()) }
    }
}

impl StepSink for Host {
    fn logits(&mut self, output: u32, logits: &[f32]) -> Result<()> {
        self.said.push(format!("{output} {logits:?}"));
        if output == 2 { Err(full_error()) } else { Ok(()) }
    }

    fn token(&mut self, output: u32, id: u32) -> Result<()> {
        self.said.push(format!("{output} {id}"));
        Ok(())
    }
}

impl TimingSink for Host {
    fn timing(&mut self, operation: u32, nanoseconds: u64) -> Result<()> {
        self.said.push(format!("{operation} {nanoseconds}"));
        Ok(())
    }
}

/// Rows whose bytes are their numbers; row 9 fails.
struct Numbered;

impl Rows for Numbered {
    fn read(&self, first: u64, out: &mut [u8]) -> Result<()> {
        out.fill(first as u8);
        if first == 9 { Err(full_error()) } else { Ok(()) }
    }
}

/// Three threads and a barrier that a failure breaks.
struct Three;

#[derive(Default)]
struct Meeting {
    state: Mutex<(usize, usize, bool)>,
    bell: Condvar,
}

impl Barrier for Meeting {
    fn wait(&self) -> Result<()> {
        let mut state = self.state.lock().unwrap();
        let turn = state.1;
        state.0 += 1;
        if state.0 == 3 {
            (state.0, state.1) = (0, turn + 1);
            self.bell.notify_all();
        }
        while state.1 == turn && !state.2 {
            state = self.bell.wait(state).unwrap();
        }
        if state.2 { Err(Error::cancelled("another failed")) } else { Ok(()) }
    }
}

impl Workers for Three {
    fn width(&self) -> usize {
        3
    }

    fn run(&self, body: &(dyn Fn(usize, &dyn Barrier) -> Result<()> + Sync)) -> Result<()> {
        let (meeting, failed) = (Meeting::default(), Mutex::new(Ok(())));
        std::thread::scope(|scope| {
            for worker in 0..3 {
                let (meeting, failed) = (&meeting, &failed);
                scope.spawn(move || {
                    let Err(error) = body(worker, meeting) else { return };
                    if error.kind() != ErrorKind::Cancelled {
                        *failed.lock().unwrap() = Err(error);
                    }
                    meeting.state.lock().unwrap().2 = true;
                    meeting.bell.notify_all();
                });
            }
        });
        failed.into_inner().unwrap()
    }
}

fn program() -> Vec<u8> {
    let slice = |value| Slice { value, first: 0, width: 4 };
    let part = WeightPart { weight: 0, first_row: 0, bias: None, out: slice(1) };
    let values = [RowsOf::BATCH, RowsOf::OUTPUTS].map(|rows| ValueSpec { width: 4, rows });
    let linear = Linear { x: slice(0), parts: vec![part], residual: None, scale: 0.5 };
    Program { values: values.into(), states: Vec::new(), operations: vec![linear.into()] }.to_bytes().unwrap()
}

fn prepared(device: &dyn Device, host: &mut Host, text: &mut String) -> Weight {
    let matrix = MatrixSpec::new(DType::F16, 3, 4).unwrap();
    writeln!(text, "{:?} {:?}", device.memory(), device.image(&matrix)).unwrap();
    let weight = device.prepare(&matrix, &Numbered, host).unwrap();
    for rows in [10, 1000] {
        let failing = MatrixSpec::new(DType::U8, rows, 4).unwrap();
        writeln!(text, "{:?}", device.prepare(&failing, &Numbered, host)).unwrap();
    }
    let mapped = HostMemory::new(24, false, &host.alive);
    writeln!(text, "{:?}", device.adopt(&matrix, Box::new(mapped))).unwrap();
    for number in [weight.0, weight.0 + 1, weight.0 + 9] {
        writeln!(text, "{:?}", device.export(Weight(number), host)).unwrap();
    }
    weight
}

/// Everything a host does with a backend, as one text.
fn compute_with(kernel: &dyn Kernel) -> String {
    let (mut text, mut host) = (String::new(), Host::default());
    writeln!(text, "{:?}", kernel.devices(&mut host)).unwrap();
    let weights = [DType::Q4_K, DType(0x0001_0000)];
    for (device, code, version) in [
        (0, OpCode::LINEAR, 1),
        (0, OpCode::LINEAR, 2),
        (0, OpCode::WKV, 1),
        (0, OpCode(9999), 65535),
        (7, OpCode::EMBED, 1),
    ] {
        let op = OpSpec { code, version, fields: &[1, 2], weights: &weights };
        writeln!(text, "{:?}", kernel.supports(device, &op)).unwrap();
    }
    let options = Options::new().with("é", "\0").with("a", "");
    writeln!(text, "{:?}", kernel.open(7, &options).err()).unwrap();
    let device = kernel.open(0, &options).unwrap();
    let weight = prepared(&*device, &mut host, &mut text);
    let mut limits = SessionLimits::new(1, 2, 3);
    limits.options = options;
    for program in [&program()[..], &[1, 2, 3], &[33, 0, 0, 0, 1, 0, 0, 0, 0, 0]] {
        writeln!(text, "{:?}", device.compile(program, &[weight, Weight(7)], &limits).err()).unwrap();
    }
    let mut session = device.compile(&program(), &[weight], &limits).unwrap();
    let batch = Batch::new(&[5, 6, 7], &[0, 1, 0], &[0, 0, 1], &[0, 2]).unwrap();
    let all = Batch::new(&[5, 6, 7], &[0, 1, 0], &[0, 0, 1], &[0, 1, 2]).unwrap();
    let rows = [0.5, -0.0, f32::INFINITY];
    for batch in [batch, batch.with_sampler(Sampler::Greedy).with_rows(&rows), all] {
        writeln!(text, "{:?}", session.step(&batch, &Three, &mut host)).unwrap();
    }
    let fails = Batch::new(&[FAILS_ON_A_WORKER], &[0], &[0], &[]).unwrap();
    writeln!(text, "{:?}", session.step(&fails, &Three, &mut host)).unwrap();
    for verb in [0, 1, 2, 3, 4, 5, u32::MAX] {
        let command = StateCommand { verb: StateVerb(verb), sequence: 1, target: 2, position: 3 };
        writeln!(text, "{:?}", session.state(&command)).unwrap();
    }
    let mut out = [0.0; 3];
    writeln!(text, "{:?} {out:?} {:?}", session.read(0, &mut out), session.read(1, &mut [0.0; 3])).unwrap();
    writeln!(text, "{:?} {:#?} {:#?}", session.timings(&mut host), host.said, heard()).unwrap();
    drop((session, device));
    assert_eq!(Arc::strong_count(&host.alive), 1, "an image's memory was not given back");
    text
}

#[test]
fn a_backend_hears_and_says_the_same_across_the_wire() {
    let plain = compute_with(&ToyKernel);
    assert_eq!(plain, compute_with(&*module().kernel().unwrap()));
    for field in [
        "no driver",
        "toy-F16",
        "aligned: true",
        "\"0 [100001.0, 100002.0, 100000.0]\"",
        "\"1 77\"",
        "version 65535 of `number 9999`",
        "`delta_rule`",
        "4294967295 0",
        "rows: Some([0.5, -0.0, inf])",
    ] {
        assert!(plain.contains(field), "{field}: {plain}");
    }
    assert!(!plain.contains("aligned: false"), "{plain}");
}

#[test]
fn a_panic_anywhere_is_an_error_and_no_worker_hangs() {
    let module = module();
    let kernel = module.kernel().unwrap();
    let is_panic = |error: Error, words: &str| {
        assert_eq!((error.kind(), error.explicit_code()), (ErrorKind::Plugin, Some("E_PLUGIN")), "{error:?}");
        assert!(error.message().contains(words), "{error:?}");
    };
    let panics = kernel.open(0, &Options::new().with("panic", "true")).err().unwrap();
    is_panic(panics, "panicked while opening a device: \"in open at ");
    let device = kernel.open(0, &Options::new().with("drop_panics", "true")).unwrap();
    let mut session = device.compile(&program(), &[], &SessionLimits::new(1, 1, 1)).unwrap();
    let mut host = Host::default();
    for (id, words) in [
        (PANICS, "panicked while computing a step: \"in step at "),
        (PANICS_ON_A_WORKER, "panicked while computing a step: \"on a worker at "),
    ] {
        let batch = [id];
        let batch = Batch::new(&batch, &[0], &[0], &[]).unwrap();
        is_panic(session.step(&batch, &Three, &mut host).unwrap_err(), words);
        // The session works on.
        session.step(&Batch::new(&[1], &[0], &[0], &[0]).unwrap(), &Three, &mut host).unwrap();
    }
    drop((session, device));
    let faults = module.take_faults();
    assert!(faults.len() == 1 && faults[0].starts_with("panicked while dropping a device"), "{faults:?}");
    heard();
}

#[test]
fn a_panic_of_the_host_is_the_hosts_even_in_the_hands_of_a_plugin() {
    struct Panics(Arc<()>);
    impl Rows for Panics {
        fn read(&self, _: u64, _: &mut [u8]) -> Result<()> {
            panic!("in the host's rows")
        }
    }
    impl ImageSink for Panics {
        fn memory(&mut self, bytes: u64) -> Result<Box<dyn ImageMemory>> {
            Ok(Box::new(HostMemory::new(bytes as usize, true, &self.0)))
        }
    }
    let (module, alive) = (module(), Arc::new(()));
    let device = module.kernel().unwrap().open(0, &Options::new()).unwrap();
    let matrix = MatrixSpec::new(DType::U8, 1, 4).unwrap();
    let error = device.prepare(&matrix, &Panics(Arc::clone(&alive)), &mut Panics(Arc::clone(&alive)));
    assert_eq!(error.unwrap_err().explicit_code(), Some("E_HOST"));
    device.adopt(&matrix, Box::new(HostMemory::new(4, true, &alive))).unwrap();
    let many: Vec<_> = (0..1000).map(|_| Arc::clone(&alive)).collect();
    drop(device);
    drop(many);
    let faults = module.take_faults();
    assert!(faults.len() == 1 && faults[0].contains("in the host's drop"), "{faults:?}");
    heard();
}

#[test]
fn the_bytes_of_an_image_are_the_hosts_own() {
    struct Watched(Arc<Mutex<usize>>);
    impl ImageSink for Watched {
        fn memory(&mut self, bytes: u64) -> Result<Box<dyn ImageMemory>> {
            let memory = HostMemory::new(bytes as usize, true, &Arc::new(()));
            *self.0.lock().unwrap() = memory.bytes().as_ptr().addr();
            Ok(Box::new(memory))
        }
    }
    struct Looks(Arc<Mutex<usize>>);
    impl Rows for Looks {
        fn read(&self, _: u64, out: &mut [u8]) -> Result<()> {
            // The toy fills the image in place.
            assert_eq!(out.as_ptr().addr(), *self.0.lock().unwrap());
            Ok(())
        }
    }
    let at = Arc::new(Mutex::new(0));
    let device = module().kernel().unwrap().open(0, &Options::new()).unwrap();
    let matrix = MatrixSpec::new(DType::U8, 1, 64).unwrap();
    device.prepare(&matrix, &Looks(Arc::clone(&at)), &mut Watched(at)).unwrap();
    heard();
}
