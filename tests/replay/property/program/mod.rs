//! Programs for a compute backend: what is read is compiled or refused, and what is compiled runs, to the same bits however
//! many workers there are.

mod examples;
mod weights;

pub use examples::examples;

use super::errors::check_shown;
use super::memory::peak;
use apr_host::threads::Team;
use apr_sdk::{
    Batch, Device, Error, ErrorKind, Options, Program, Result, RowsOf, Sampler, Session, SessionLimits,
    StateCommand, StateVerb, StepSink, Weight, Workers,
};
use std::sync::LazyLock;

/// Elements that a row of all values has at most in a program that is run: fuzzing wants many small steps.
const WIDEST: u64 = 1 << 12;

/// Bytes that reading and compiling may hold at once: some, and so many for each byte of the program.
const HELD: (u64, u64) = (1 << 20, 64);

/// The processor, with the weights that programs name.
struct Backend {
    device: Box<dyn Device>,
    weights: Vec<Weight>,
}

static BACKEND: LazyLock<Backend> = LazyLock::new(|| {
    let kernel = (apr_plugin_cpu_kernels::PLUGIN.kernel)().unwrap();
    let device = kernel.open(0, &Options::new()).unwrap();
    let weights = weights::prepared(&*device);
    Backend { device, weights }
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
    let compile = || BACKEND.device.compile(input, &BACKEND.weights, &SessionLimits::new(16, 3, 64));
    let (compiled, held) = peak(compile);
    assert!(held <= most, "compiling a program of {} bytes holds {held}", input.len());
    let session = match compiled {
        Ok(session) => session,
        Err(error) => return refused("compiling", &error, &[ErrorKind::LimitExceeded]),
    };
    let elements: u64 = program.values.iter().map(|value| u64::from(value.width)).sum();
    if elements > WIDEST {
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
