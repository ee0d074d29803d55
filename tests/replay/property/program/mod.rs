//! Programs for a compute backend: what is read is compiled or refused, and what is compiled runs, to the same bits however
//! many workers there are.

#[allow(dead_code, reason = "not everything is used that others use")]
#[path = "../../../../plugins/cuda-kernels/tests/emulated.rs"]
mod emulated;
mod examples;
mod weights;

pub use examples::examples;

use super::errors::check_shown;
use super::memory::peak;
use apr_host::threads::Team;
use apr_sdk::{
    Batch, Device, Error, ErrorKind, Kernel, Options, Program, Result, RowsOf, Sampler, Session,
    SessionLimits, StateCommand, StateVerb, StepSink, Weight, Workers,
};
use std::sync::LazyLock;

/// Elements that a row of all values has at most in a program that is run: fuzzing wants many small steps.
const WIDEST: u64 = 1 << 12;

/// Bytes that reading and compiling may hold at once: some, and so many for each byte of the program.
const HELD: (u64, u64) = (1 << 20, 64);

/// A device, with the weights that programs name.
struct Backend {
    device: Box<dyn Device>,
    weights: Vec<Weight>,
}

impl Backend {
    fn new(kernel: Box<dyn Kernel>) -> Backend {
        let device = kernel.open(0, &Options::new()).unwrap();
        let weights = weights::prepared(&*device);
        Backend { device, weights }
    }

    fn compile(&self, program: &[u8]) -> Result<Box<dyn Session>> {
        self.device.compile(program, &self.weights, &SessionLimits::new(16, 3, 64))
    }
}

static BACKEND: LazyLock<Backend> =
    LazyLock::new(|| Backend::new((apr_plugin_cpu_kernels::PLUGIN.kernel)().unwrap()));

/// NVIDIA's devices as the processor emulates them, with tensor cores and without; none without a C++ compiler.
static EMULATED: LazyLock<Vec<Backend>> = LazyLock::new(|| {
    let there = [true, false].into_iter().filter(|_| emulated::library().is_some());
    there.map(|has_tensor_cores| Backend::new(emulated::kernel(has_tensor_cores))).collect()
});

/// One worker, and more than divide the rows evenly.
static WORKERS: LazyLock<[Team; 2]> =
    LazyLock::new(|| [1, 3].map(|width| Team::new(width, Default::default())));

/// What a session's steps gave, as bits, and all values of the batch's rows.
#[derive(Default, Debug, PartialEq)]
struct Given(Vec<u32>);

impl Given {
    fn floats(&mut self, floats: &[f32]) {
        // One NaN is as good as another.
        self.0.extend(floats.iter().map(|x| if x.is_nan() { f32::NAN } else { *x }.to_bits()));
    }
}

impl StepSink for Given {
    fn logits(&mut self, output: u32, logits: &[f32]) -> Result<()> {
        self.0.push(output);
        self.floats(logits);
        Ok(())
    }

    fn token(&mut self, output: u32, id: u32) -> Result<()> {
        self.0.extend([output, id]);
        Ok(())
    }
}

/// Reads any bytes as a program, compiles it over a few small weights, and runs it. Gives whether all of that went well.
pub fn check(input: &[u8]) -> bool {
    let most = HELD.0 + HELD.1 * input.len() as u64;
    let (read, held) = peak(|| Program::from_bytes(input));
    assert!(held <= most, "reading a program of {} bytes holds {held}", input.len());
    let program = match read {
        Ok(program) => program,
        Err(error) => return refused("reading a program", &error, &[]),
    };
    // Floats that are no numbers differ from themselves, but not their bytes.
    let bytes = program.to_bytes().unwrap();
    assert_eq!(
        Program::from_bytes(&bytes).unwrap().to_bytes().unwrap(),
        bytes,
        "it is read as it was written"
    );
    let compile = || BACKEND.compile(input);
    let (compiled, held) = peak(compile);
    assert!(held <= most, "compiling a program of {} bytes holds {held}", input.len());
    let session = match compiled {
        Ok(session) => session,
        Err(error) => return refused("compiling", &error, &[ErrorKind::LimitExceeded]),
    };
    if is_wide(&program) {
        return true;
    }
    let mut sessions = [session, compile().unwrap()];
    let given = [0, 1].map(|n| run(&program, &mut *sessions[n], &WORKERS[n]));
    match given {
        [Ok(alone), Ok(shared)] => {
            assert!(alone == shared, "the number of workers changes the result");
            true
        }
        [Err(alone), Err(shared)] => {
            assert_eq!(alone.kind(), shared.kind(), "{alone} and {shared}");
            refused("a step", &alone, &[ErrorKind::Failed])
        }
        [alone, shared] => panic!("one worker: {:?}, three: {:?}", alone.err(), shared.err()),
    }
}

/// Whether running it takes too long for fuzzing.
fn is_wide(program: &Program) -> bool {
    program.values.iter().map(|value| u64::from(value.width)).sum::<u64>() > WIDEST
}

/// Reads any bytes as a program, and compiles and runs it with the kernels for NVIDIA's devices, whose memory ends before pages
/// that nobody may touch. Gives whether all of that went well.
pub fn check_emulated(input: &[u8]) -> bool {
    let Ok(program) = Program::from_bytes(input) else { return false };
    let mut all_ran = true;
    for backend in &*EMULATED {
        let ran = backend.compile(input).and_then(|mut session| {
            if is_wide(&program) { Ok(Given::default()) } else { run(&program, &mut *session, &WORKERS[0]) }
        });
        all_ran &= match ran {
            Ok(_) => true,
            // A device may have no memory left, which is Io.
            Err(error) => {
                refused("a program", &error, &[ErrorKind::LimitExceeded, ErrorKind::Failed, ErrorKind::Io])
            }
        };
    }
    all_ran
}

/// Two steps of two sequences with commands between them.
fn run(program: &Program, session: &mut dyn Session, workers: &dyn Workers) -> Result<Given> {
    let mut given = Given::default();
    let (positions, sequences) = ([0, 1, 2, 3, 0, 1, 4], [0, 0, 0, 0, 2, 2, 0]);
    let batch = Batch::new(&[1, 2, 3, 4, 5, 6, 7], &positions, &sequences, &[1, 5, 6])?;
    session.step(&batch, workers, &mut given)?;
    for (number, value) in (0..).zip(&program.values).filter(|(_, value)| value.rows == RowsOf::BATCH) {
        let mut rows = vec![0.0; 7 * value.width as usize];
        session.read(number, &mut rows)?;
        given.floats(&rows);
    }
    let command = |verb, sequence, target, position| StateCommand { verb, sequence, target, position };
    session.state(&command(StateVerb::SNAPSHOT, 0, 9, 0))?;
    session.state(&command(StateVerb::COPY, 0, 1, 0))?;
    session.state(&command(StateVerb::TRIM, 0, 0, 2))?;
    let sampled = Batch::new(&[7, 6, 5], &[2, 2, 5], &[0, 2, 1], &[0, 2])?;
    session.step(&sampled, workers, &mut given)?;
    session.state(&command(StateVerb::RESTORE, 0, 9, 0))?;
    let greedy = Batch::new(&[4], &[5], &[0], &[0])?.with_sampler(Sampler::Greedy);
    session.step(&greedy, workers, &mut given)?;
    Ok(given)
}

/// Panics unless an error is one of those that a program is refused with; `false`, for it is.
fn refused(what: &str, error: &Error, more: &[ErrorKind]) -> bool {
    check_shown(what, &error.to_string());
    let clean = [ErrorKind::InvalidArgument, ErrorKind::Unsupported];
    assert!(
        clean.iter().chain(more).any(|kind| *kind == error.kind()),
        "{what}: {:?}: {error}",
        error.kind()
    );
    false
}
