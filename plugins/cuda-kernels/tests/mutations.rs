//! What crosses into the backend, changed at random: errors, never a panic; and no kernel goes beyond the end of its memory,
//! which would end the process.

use crate::emulated::{Arced, Emulated, library};
use apr_plugin_cuda_kernels::Cuda;
use apr_sdk::{
    Batch, DType, Device, ErrorKind, ImageMemory, Kernel, MatrixSpec, Options, Program, Result, RowsSink,
    Sampler, Session, SessionLimits, StateCommand, StateVerb,
};
use apr_testkit::Random;
use apr_testkit::kernels::programs::{HIDDEN, VOCABULARY, decoder};
use apr_testkit::kernels::{HeapSink, Plain, compile, prepare, step};
use std::sync::Arc;

/// One of these.
fn among<T: Copy>(random: &mut Random, all: &[T]) -> T {
    all[random.bits() as usize % all.len()]
}

/// A number near a bound, or a small one.
fn odd(random: &mut Random) -> u32 {
    let small = (random.bits() % 100) as u32;
    let all =
        [0, 1, 2, 3, 31, 32, 33, 64, 4096, 4097, 65_535, 65_536, 1 << 24, 1 << 31, u32::MAX, small, small];
    among(random, &all)
}

/// A device with little memory, so that what is too large is refused at once.
fn small_device(has_tensor_cores: bool) -> (Arc<Emulated>, Box<dyn Device>) {
    let emulated = Arc::new(Emulated::with_memory(64 << 20));
    let kernel = Cuda(Arced(Arc::clone(&emulated), has_tensor_cores));
    (emulated, kernel.open(0, &Options::new()).unwrap())
}

fn mutated(random: &mut Random, bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    for _ in 0..=random.bits() % 2 {
        let at = random.bits() as usize % bytes.len();
        match random.bits() % 8 {
            0 => bytes[at] ^= 1 << (random.bits() % 8),
            1 => bytes.truncate(at.max(1)),
            2 => {
                let piece = bytes[at..bytes.len().min(at + 40)].to_vec();
                bytes.splice(at..at, piece);
            }
            3 | 4 => bytes[at] = bytes[at].wrapping_add((random.bits() % 9) as u8).wrapping_sub(4),
            // Numbers are what most of a program is.
            _ => {
                let at = at / 4 * 4;
                let number = odd(random).to_le_bytes();
                bytes.iter_mut().skip(at).zip(number).for_each(|(byte, new)| *byte = new);
            }
        }
    }
    bytes
}

/// Whether an error is one that input is refused with, or memory that is not there.
fn is_clean(kind: ErrorKind) -> bool {
    [
        ErrorKind::InvalidArgument,
        ErrorKind::Unsupported,
        ErrorKind::LimitExceeded,
        ErrorKind::Malformed,
        ErrorKind::Io,
        // Logits that are no numbers.
        ErrorKind::Failed,
    ]
    .contains(&kind)
}

/// Few rows, many rows, a copy, and one row of each sequence.
fn steps(session: &mut dyn Session) -> Result<()> {
    let positions: Vec<u32> = (0..12).collect();
    let ids = [5; 12];
    step(session, &Batch::new(&ids[..3], &positions[..3], &[0; 3], &[0, 2])?, 1)?;
    step(session, &Batch::new(&ids[3..], &positions[3..], &[0; 9], &[8])?, 1)?;
    session.state(&StateCommand { verb: StateVerb::COPY, sequence: 0, target: 1, position: 0 })?;
    let batch = Batch::new(&[1, 2], &[12, 12], &[0, 1], &[0, 1])?.with_sampler(Sampler::Greedy);
    step(session, &batch, 1)?;
    Ok(())
}

#[test]
fn programs_changed_at_random_run_or_are_refused() {
    if library().is_none() {
        return;
    }
    let mut random = Random::new(11);
    let (mut ran, mut refused) = (0, 0);
    for has_tensor_cores in [true, false] {
        for cache in [DType::F16, DType::Q8_0, DType::F32] {
            let (emulated, device) = small_device(has_tensor_cores);
            let (program, weights) = decoder(&mut Random::new(5), cache);
            let weights: Vec<_> = weights.iter().map(|one| prepare(&*device, one).unwrap()).collect();
            let (bytes, used) = (program.to_bytes().unwrap(), emulated.used());
            for number in 0..150 {
                let bytes = mutated(&mut random, &bytes);
                let limits = SessionLimits::new(16, 2, 64);
                let done = device.compile(&bytes, &weights, &limits).and_then(|mut session| {
                    let program = Program::from_bytes(&bytes)?;
                    ran += 1;
                    // Wide values take long on a processor.
                    let widest = program.values.iter().map(|value| value.width).max().unwrap_or(0);
                    if widest > 5000 { Ok(()) } else { steps(&mut *session) }
                });
                if let Err(error) = done {
                    assert!(is_clean(error.kind()), "{number}: {:?}: {error}", error.kind());
                    refused += 1;
                }
                assert_eq!(emulated.used(), used, "{number}");
            }
        }
    }
    assert!(ran > 40 && refused > 200, "{ran} ran, {refused} refused");
}

#[test]
fn batches_and_commands_at_random_are_run_or_refused_and_the_session_goes_on() {
    if library().is_none() {
        return;
    }
    let mut random = Random::new(12);
    let (program, weights) = decoder(&mut Random::new(5), DType::F16);
    let (mut ran, mut refused) = (0, 0);
    for has_tensor_cores in [true, false] {
        let (emulated, device) = small_device(has_tensor_cores);
        let mut session = compile(&*device, &program, &weights, &SessionLimits::new(12, 3, 200)).unwrap();
        let first = Batch::new(&[1, 2, 3], &[0, 1, 2], &[0, 0, 0], &[2]).unwrap();
        let want = step(&mut *session, &first, 1).unwrap();
        let mut lengths = [3u32, 0, 0];
        for _ in 0..250 {
            // Mostly what could be, now and then what could not.
            let is_odd = random.bits().is_multiple_of(4);
            if random.bits().is_multiple_of(3) {
                let sequence = if is_odd { odd(&mut random) } else { (random.bits() % 3) as u32 };
                let target = if is_odd { odd(&mut random) } else { (random.bits() % 3) as u32 };
                let command = StateCommand {
                    verb: StateVerb(odd(&mut random) % 8),
                    sequence,
                    target,
                    position: odd(&mut random),
                };
                if let Err(error) = session.state(&command) {
                    assert!(is_clean(error.kind()), "{error}");
                }
                // What it did to lengths is not followed: all begin anew.
                for sequence in 0..3 {
                    let clear = StateCommand { verb: StateVerb::CLEAR, sequence, target: 0, position: 0 };
                    session.state(&clear).unwrap();
                }
                lengths = [0; 3];
                continue;
            }
            let rows = (random.bits() % 14) as usize;
            let (mut ids, mut positions, mut sequences) = (Vec::new(), Vec::new(), Vec::new());
            let mut after = lengths;
            for _ in 0..rows {
                let sequence = (random.bits() % 3) as usize;
                ids.push((random.bits() % u64::from(VOCABULARY)) as u32);
                positions.push(after[sequence]);
                sequences.push(sequence as u32);
                after[sequence] += 1;
            }
            let mut outputs: Vec<u32> =
                (0..rows as u32).filter(|_| random.bits().is_multiple_of(3)).collect();
            if is_odd {
                let mut lists = [&mut ids, &mut positions, &mut sequences, &mut outputs];
                let list = &mut lists[random.bits() as usize % 4];
                if let Some(number) = list.first_mut() {
                    *number = odd(&mut random);
                } else {
                    list.push(odd(&mut random));
                }
            }
            let given = random.normals(rows * HIDDEN as usize + usize::from(is_odd));
            let done = Batch::new(&ids, &positions, &sequences, &outputs).and_then(|mut batch| {
                if random.bits().is_multiple_of(4) {
                    batch = batch.with_rows(&given);
                }
                if random.bits().is_multiple_of(2) {
                    batch = batch.with_sampler(Sampler::Greedy);
                }
                step(&mut *session, &batch, 1)
            });
            match done {
                Ok(_) => {
                    ran += 1;
                    for (position, sequence) in positions.iter().zip(&sequences) {
                        lengths[*sequence as usize] = position + 1;
                    }
                }
                Err(error) => {
                    refused += 1;
                    assert!(is_clean(error.kind()), "{:?}: {error}", error.kind());
                }
            }
        }
        session.state(&StateCommand { verb: StateVerb::CLEAR, sequence: 0, target: 0, position: 0 }).unwrap();
        assert_eq!(step(&mut *session, &first, 1).unwrap(), want);
        drop((session, device));
        assert_eq!(emulated.used(), 0);
    }
    assert!(ran > 100 && refused > 40, "{ran} ran, {refused} refused");
}

struct Collected(Vec<u8>);

impl RowsSink for Collected {
    fn rows(&mut self, rows: &[u8]) -> Result<()> {
        self.0.extend_from_slice(rows);
        Ok(())
    }
}

/// An image of so many bytes.
struct Image(Vec<u8>);

impl ImageMemory for Image {
    fn bytes(&self) -> &[u8] {
        &self.0
    }

    fn bytes_mut(&mut self) -> Result<&mut [u8]> {
        Ok(&mut self.0)
    }
}

#[test]
fn matrices_of_odd_shapes_come_back_or_are_refused() {
    if library().is_none() {
        return;
    }
    let mut random = Random::new(13);
    let (emulated, device) = small_device(true);
    let sides = [0, 1, 2, 3, 31, 32, 33, 256, 257, 512, 1 << 16, 1 << 31, 1 << 32, 1 << 62, u64::MAX];
    let (mut kept, mut refused) = (0, 0);
    for dtype in (0..200).map(DType) {
        for _ in 0..60 {
            let (rows, columns) = (among(&mut random, &sides), among(&mut random, &sides));
            let Ok(spec) = MatrixSpec::new(dtype, rows, columns) else { continue };
            let Ok(image) = device.image(&spec) else {
                refused += 1;
                assert!(device.prepare(&spec, &Plain(&[], 1), &mut HeapSink).is_err());
                continue;
            };
            if spec.bytes() > 1 << 20 {
                // What is larger than the device is refused before a row is read.
                if image.bytes > 64 << 20 {
                    assert!(device.prepare(&spec, &Plain(&[], 1), &mut HeapSink).is_err(), "{spec:?}");
                }
                continue;
            }
            let plain = random.bytes(spec.bytes() as usize);
            let weight = device.prepare(&spec, &Plain(&plain, spec.row_bytes() as usize), &mut HeapSink);
            let Ok(weight) = weight else { break };
            let mut back = Collected(Vec::new());
            device.export(weight, &mut back).unwrap();
            assert!(back.0 == plain, "{spec:?}");
            for bytes in [0, image.bytes - 1, image.bytes + 1] {
                assert!(device.adopt(&spec, Box::new(Image(vec![0; bytes as usize]))).is_err(), "{spec:?}");
            }
            kept += 1;
        }
    }
    assert!(kept > 60 && refused > 40, "{kept} kept, {refused} refused");
    drop(device);
    assert_eq!(emulated.used(), 0);
}
