//! Requests that every backend refuses, and the way it does: by the kinds of errors, since the words are a backend's
//! own. After each refusal the session still works.

use super::judge::ensure;
use super::programs::{HIDDEN, VOCABULARY, command, decoder, part, slice};
use super::setup::{Floats, Given, Threads, compile, step};
use super::subject::Subject;
use crate::Random;
use apr_sdk::{
    Append, Batch, Binary, BinaryKind, DType, DeviceInfo, DeviceSink, Embed, Error, ErrorKind, Linear,
    NormKind, OpCode, OpSpec, Operation, Options, PagedState, Pool, Pooling, Program, Result, RowIndex,
    RowsOf, RowsSink, Sample, Sampler, Session, SessionLimits, State, StateVerb, StepSink, Support,
    ValueSpec, Weight,
};

/// The limits of the sessions that [`broken_batches`] go beyond: 8 rows, 2 sequences, 50 positions.
pub fn limits() -> SessionLimits {
    SessionLimits::new(8, 2, 50)
}

/// Room for the tests of what is not refused.
fn room() -> SessionLimits {
    SessionLimits::new(16, 4, 200)
}

/// A program over values of the batch's rows.
fn program(widths: &[u32], operations: Vec<Operation>) -> Program {
    let values = widths.iter().map(|width| ValueSpec { width: *width, rows: RowsOf::BATCH }).collect();
    Program { values, states: Vec::new(), operations }
}

/// A finding unless a call was refused in one of these ways.
fn refused<T>(what: &str, result: Result<T>, kinds: &[ErrorKind]) -> Result<()> {
    match result {
        Ok(_) => Err(Error::failed(format!("{what}: not refused"))),
        Err(error) if kinds.contains(&error.kind()) => {
            ensure(!error.message().is_empty(), || format!("{what}: refused without a message"))
        }
        Err(error) => Err(Error::failed(format!(
            "{what}: refused as {:?}, expected {kinds:?}: {}",
            error.kind(),
            error.message()
        ))),
    }
}

/// The findings of several requests, each of which must be refused: one that is accepted does not hide the next.
#[derive(Default)]
struct Findings(Vec<String>);

impl Findings {
    /// Adds a finding unless a call was refused in one of these ways.
    fn judge<T>(&mut self, what: &str, result: Result<T>, kinds: &[ErrorKind]) {
        if let Err(error) = refused(what, result, kinds) {
            self.0.push(error.message().to_owned());
        }
    }

    /// All findings as one.
    fn verdict(self) -> Result<()> {
        match self.0.len() {
            0 => Ok(()),
            1 => Err(Error::failed(self.0.concat())),
            count => Err(Error::failed(format!("{count} findings: {}", self.0.join("; ")))),
        }
    }
}

/// A program that a backend refuses to compile over the weights of [`decoder`].
pub struct BrokenProgram {
    /// The fault in it.
    pub what: &'static str,
    /// The program.
    pub program: Program,
    /// The kind of the refusal.
    pub kind: ErrorKind,
}

/// A change of a program, or of an operation in it.
type Change<T> = fn(&mut T);

/// The small decoder with one thing changed in each, and its weights.
pub fn broken_programs() -> (Vec<Floats>, Vec<BrokenProgram>) {
    use ErrorKind::{InvalidArgument, Unsupported};
    let (sound, weights) = decoder(&mut Random::new(1), DType::F32);
    let mut all = Vec::new();
    let linear: [(&str, Change<Linear>); 11] = [
        ("linear: no matrix", |op| op.parts.clear()),
        ("linear: a result beyond its value", |op| op.parts[1].out.first += 1000),
        ("linear: a result beyond all numbers", |op| op.parts[1].out.first = u32::MAX),
        ("linear: results that overlap", |op| op.parts[1].out.first -= 1),
        ("linear: a weight that does not exist", |op| op.parts[0].weight = 99),
        ("linear: rows that the matrix lacks", |op| op.parts[0].first_row = 9),
        ("linear: a matrix as a bias", |op| op.parts[0].bias = Some(0)),
        ("linear: a narrower input", |op| op.x.width -= 1),
        ("linear: a residual of several matrices", |op| op.residual = Some(op.x)),
        ("linear: an input of other rows", |op| op.x = slice(5, 0, HIDDEN)),
        ("linear: a value that does not exist", |op| op.x = slice(9, 0, HIDDEN)),
    ];
    for (what, change) in linear {
        let mut program = sound.clone();
        if let Some(Operation::Linear(linear)) = program.operations.get_mut(2) {
            change(linear);
        }
        all.push(BrokenProgram { what, program, kind: InvalidArgument });
    }
    let others: [(&str, ErrorKind, Change<Program>); 10] = [
        ("a value without elements", InvalidArgument, |program| program.values[3].width = 0),
        ("rows of an unknown number", Unsupported, |program| program.values[3].rows = RowsOf(7)),
        ("attention without an append", InvalidArgument, |program| drop(program.operations.remove(5))),
        ("a state that does not exist", InvalidArgument, |program| drop(program.states.pop())),
        ("a cache of blocks of weights", Unsupported, |program| {
            if let Some(State::Paged(state)) = program.states.get_mut(1) {
                state.dtype = DType::Q4_K;
            }
        }),
        ("two appends to a state", InvalidArgument, |program| {
            let append = Append { state: 0, key: slice(2, 0, 16), value: None };
            program.operations.insert(6, append.into());
        }),
        ("an operation after the last", InvalidArgument, |program| {
            program.operations.push(program.operations[3].clone());
        }),
        ("a norm of an unknown kind", Unsupported, |program| {
            if let Some(Operation::Norm(norm)) = program.operations.get_mut(1) {
                norm.kind = NormKind(12);
            }
        }),
        ("a norm into fewer elements", InvalidArgument, |program| {
            if let Some(Operation::Norm(norm)) = program.operations.get_mut(1) {
                norm.out = slice(1, 0, HIDDEN - 1);
            }
        }),
        ("a rotation beyond a head", InvalidArgument, |program| {
            if let Some(Operation::Rope(rope)) = program.operations.get_mut(3) {
                rope.first = 1;
            }
        }),
    ];
    for (what, kind, change) in others {
        let mut program = sound.clone();
        change(&mut program);
        all.push(BrokenProgram { what, program, kind });
    }
    (weights, all)
}

/// Every one of [`broken_programs`].
///
/// # Errors
/// Failed for a program that is compiled, or refused in another way.
pub fn programs_that_do_not_hold_together_are_refused(subject: &Subject) -> Result<()> {
    let (weights, all) = broken_programs();
    let mut findings = Findings::default();
    for broken in all {
        let compiled = compile(subject.device()?, &broken.program, &weights, &limits());
        findings.judge(broken.what, compiled, &[broken.kind]);
    }
    findings.verdict()
}

/// Keys and values of other shapes than their cache.
///
/// # Errors
/// Failed for a program that is compiled, or refused in another way.
pub fn keys_of_another_shape_are_refused(subject: &Subject) -> Result<()> {
    let dtype = subject.cache(DType::F32);
    let state = State::Paged(PagedState { heads: 2, key: 4, value: 4, dtype, window: 0 });
    let mut findings = Findings::default();
    for (what, key, value) in [
        ("keys of one head", slice(0, 0, 4), None),
        ("values of one head", slice(0, 0, 8), Some(slice(0, 8, 4))),
        ("keys beyond their value", slice(0, 9, 8), None),
        ("keys of a value that does not exist", slice(1, 0, 8), None),
    ] {
        let append = Append { state: 0, key, value };
        let program = Program { states: vec![state.clone()], ..program(&[16], vec![append.into()]) };
        let compiled = compile(subject.device()?, &program, &[], &room());
        findings.judge(what, compiled, &[ErrorKind::InvalidArgument]);
    }
    findings.verdict()
}

/// Programs as bytes whose declarations come twice or late.
///
/// # Errors
/// Failed for bytes that are compiled, or refused in another way.
pub fn declarations_come_once_and_first(subject: &Subject) -> Result<()> {
    let x = slice(0, 0, 3);
    let add = Binary { kind: BinaryKind::ADD, a: x, b: x, out: x };
    let whole = program(&[3], vec![add.into()]).to_bytes()?;
    let declared = program(&[3], Vec::new()).to_bytes()?;
    let mut findings = Findings::default();
    for (what, bytes) in [
        ("declared twice, then an operation", [declared.clone(), whole.clone()].concat()),
        ("declared again after an operation", [whole.clone(), declared.clone()].concat()),
        ("declared after an operation", [&whole[declared.len()..], &declared].concat()),
    ] {
        let compiled = subject.device()?.compile(&bytes, &[], &room());
        findings.judge(what, compiled, &[ErrorKind::InvalidArgument]);
    }
    findings.verdict()
}

/// Weights that nobody prepared, bytes that are no program, limits of nothing. An empty program is one that does nothing.
///
/// # Errors
/// Failed for anything that is taken, or refused in another way; any error of the empty program.
pub fn weights_and_bytes_that_are_none_are_refused(subject: &Subject) -> Result<()> {
    struct Nowhere;
    impl RowsSink for Nowhere {
        fn rows(&mut self, _: &[u8]) -> Result<()> {
            Ok(())
        }
    }
    let device = subject.device()?;
    let invalid = &[ErrorKind::InvalidArgument][..];
    let mut findings = Findings::default();
    for none in [Weight(3), Weight(u64::MAX)] {
        findings.judge("exporting no weight", device.export(none, &mut Nowhere), invalid);
        findings.judge("a program over no weight", device.compile(&[], &[none], &limits()), invalid);
    }
    let any = &[ErrorKind::InvalidArgument, ErrorKind::Unsupported][..];
    findings.judge("bytes that are no program", device.compile(&[1, 2, 3], &[], &limits()), any);
    findings.judge("limits of no rows", device.compile(&[], &[], &SessionLimits::new(0, 1, 1)), invalid);
    findings.verdict()?;
    let mut session = compile(device, &program(&[3], Vec::new()), &[], &limits())?;
    let batch = Batch::new(&[1, 2], &[0, 9], &[0, 1], &[])?;
    let given = step(&mut *session, &batch, subject.workers(1))?;
    ensure(given == Given::default(), || "an empty program gives something".to_owned())
}

/// A batch that a session of the small decoder refuses within [`limits`].
pub struct BrokenBatch {
    /// The fault in it.
    pub what: &'static str,
    /// The token of each row.
    pub ids: Vec<u32>,
    /// The position of each row.
    pub positions: Vec<u32>,
    /// The sequence of each row.
    pub sequences: Vec<u32>,
    /// Rows that the batch brings.
    pub rows: Option<Vec<f32>>,
}

impl BrokenBatch {
    fn new(what: &'static str, ids: &[u32], positions: &[u32], sequences: &[u32]) -> BrokenBatch {
        BrokenBatch {
            what,
            ids: ids.to_vec(),
            positions: positions.to_vec(),
            sequences: sequences.to_vec(),
            rows: None,
        }
    }

    /// The batch, of which the first row wants output.
    ///
    /// # Errors
    /// None that is expected.
    pub fn batch(&self) -> Result<Batch<'_>> {
        let batch = Batch::new(&self.ids, &self.positions, &self.sequences, &[0])?;
        Ok(self.rows.iter().fold(batch, |batch, rows| batch.with_rows(rows)))
    }
}

/// Batches for a session that no rows have gone through.
pub fn broken_batches() -> Vec<BrokenBatch> {
    vec![
        BrokenBatch::new("more rows than the limit", &[1; 9], &[0; 9], &[0; 9]),
        BrokenBatch::new("a position beyond the limit", &[1], &[50], &[0]),
        BrokenBatch::new("a sequence beyond the limit", &[1], &[0], &[2]),
        BrokenBatch::new("positions with a gap", &[1], &[3], &[0]),
        BrokenBatch::new("a position twice", &[1, 1], &[0, 0], &[0, 0]),
        BrokenBatch::new("a token beyond the table", &[1, VOCABULARY], &[0, 1], &[0, 0]),
        BrokenBatch {
            rows: Some(vec![0.0; 2 * HIDDEN as usize - 1]),
            ..BrokenBatch::new("rows of another width", &[1, 1], &[0, 1], &[0, 0])
        },
    ]
}

/// Every one of [`broken_batches`], with every number of workers, and a sound one after them all.
///
/// # Errors
/// Failed for a batch that is taken, or refused in another way, or that leaves something behind; any error of the backend.
pub fn batches_beyond_the_limits_are_refused_and_change_nothing(subject: &Subject) -> Result<()> {
    let (program, weights) = decoder(&mut Random::new(1), subject.cache(DType::F32));
    let mut tried = compile(subject.device()?, &program, &weights, &limits())?;
    let mut fresh = compile(subject.device()?, &program, &weights, &limits())?;
    for broken in broken_batches() {
        for workers in &subject.workers {
            let given = step(&mut *tried, &broken.batch()?, *workers);
            refused(broken.what, given, &[ErrorKind::InvalidArgument])?;
        }
    }
    let batch = Batch::new(&[1, 2], &[0, 1], &[0, 0], &[1])?;
    let have = step(&mut *tried, &batch, subject.workers(1))?;
    let want = step(&mut *fresh, &batch, subject.workers(1))?;
    ensure(have.logits.len() == 1 && have.bits() == want.bits(), || {
        "a session gives other bits after it refused batches".to_owned()
    })
}

/// Rows of NaN, over every type of cache on every device: a token is not chosen by them, and rows before do not see them.
///
/// # Errors
/// Failed for numbers where there should be none, or none where there should be some; any error of the backend.
pub fn rows_that_are_no_numbers_give_logits_that_are_none(subject: &Subject) -> Result<()> {
    for cache in &subject.caches {
        let (program, weights) = decoder(&mut Random::new(1), *cache);
        for (name, device) in &subject.devices {
            let mut session = compile(&**device, &program, &weights, &limits())?;
            let mut rows = vec![0.5; 3 * HIDDEN as usize];
            rows[HIDDEN as usize + 5] = f32::NAN;
            let batch = Batch::new(&[1, 2, 3], &[0, 1, 2], &[0, 0, 0], &[0, 1, 2])?.with_rows(&rows);
            let logits = step(&mut *session, &batch, subject.workers(1))?.logits;
            let about = format!("{name}, a cache of {cache}");
            ensure(logits.len() == 3, || {
                format!("{about}: expected 3 rows of logits, found {}", logits.len())
            })?;
            ensure(logits[0].iter().all(|x| x.is_finite()), || {
                format!("{about}: the row before it sees it")
            })?;
            let none = logits[1..].iter().flatten().all(|x| x.is_nan());
            ensure(none, || format!("{about}: it gives numbers"))?;
            let batch = Batch::new(&[1], &[3], &[0], &[0])?.with_sampler(Sampler::Greedy);
            let chosen = step(&mut *session, &batch, subject.workers(1));
            refused(&format!("{about}: a token chosen by none"), chosen, &[ErrorKind::Failed])?;
        }
    }
    Ok(())
}

/// Operations with parameters that are no numbers, or none to compute with: a token is in the table, or there is none.
///
/// # Errors
/// Failed for a token beyond the table; any error of the backend but for choosing among logits that are no numbers.
pub fn parameters_that_are_no_numbers_give_values_that_are_none(subject: &Subject) -> Result<()> {
    let (sound, weights) = decoder(&mut Random::new(1), subject.cache(DType::F16));
    for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, -0.0] {
        let mut program = sound.clone();
        for operation in &mut program.operations {
            match operation {
                Operation::Embed(operation) => operation.scale = bad,
                Operation::Norm(operation) => operation.epsilon = bad,
                Operation::Linear(operation) => operation.scale = bad,
                Operation::Rope(operation) => {
                    operation.magnitude = bad;
                    operation.frequencies.fill(bad);
                }
                Operation::Attention(operation) => {
                    (operation.scale, operation.soft_cap) = (bad, bad);
                    operation.slopes = vec![bad; 6];
                }
                _ => {}
            }
        }
        for (name, device) in &subject.devices {
            let mut session = compile(&**device, &program, &weights, &room())?;
            three(subject, &mut *session, 0, 0)?;
            let batch = Batch::new(&[5], &[3], &[0], &[0])?.with_sampler(Sampler::Greedy);
            match step(&mut *session, &batch, subject.workers(1)) {
                Ok(given) => ensure(given.tokens.iter().all(|token| *token < VOCABULARY), || {
                    format!("{name}, parameters of {bad}: the tokens {:?}", given.tokens)
                })?,
                Err(error) if error.kind() == ErrorKind::Failed => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}

/// An error of the sink ends the step, and is the one that the host sees.
///
/// # Errors
/// Failed for a step that gives no error, or another one.
pub fn an_error_of_the_sink_ends_the_step(subject: &Subject) -> Result<()> {
    struct Full;
    impl StepSink for Full {
        fn logits(&mut self, _: u32, _: &[f32]) -> Result<()> {
            Err(Error::io("full"))
        }
        fn token(&mut self, _: u32, _: u32) -> Result<()> {
            Ok(())
        }
    }
    let (program, weights) = decoder(&mut Random::new(1), subject.cache(DType::F16));
    let mut session = compile(subject.device()?, &program, &weights, &limits())?;
    let batch = Batch::new(&[1], &[0], &[0], &[0])?;
    let result = session.step(&batch, &Threads(subject.workers(1)), &mut Full);
    let passed_on =
        matches!(&result, Err(error) if error.kind() == ErrorKind::Io && error.message() == "full");
    ensure(passed_on, || format!("an error of the sink becomes {result:?}"))
}

/// The logits of the next three tokens of a sequence.
fn three(subject: &Subject, session: &mut dyn Session, from: u32, sequence: u32) -> Result<Vec<u32>> {
    let positions = [from, from + 1, from + 2];
    let sequences = [sequence; 3];
    let batch = Batch::new(&[5, 6, 7], &positions, &sequences, &[0, 1, 2])?;
    let given = step(session, &batch, subject.workers(1))?;
    ensure(given.logits.len() == 3, || format!("expected 3 rows of logits, found {}", given.logits.len()))?;
    Ok(given.bits())
}

/// Commands to sequences and numbers that are not there, and commands that concern other sequences.
///
/// # Errors
/// Failed for a command that should be refused, and for logits that show another state than there should be; any error
/// of the backend.
pub fn commands_to_sequences_change_no_other(subject: &Subject) -> Result<()> {
    let (program, weights) = decoder(&mut Random::new(1), subject.cache(DType::Q8_0));
    let mut session = compile(subject.device()?, &program, &weights, &room())?;
    let session = &mut *session;
    let first = three(subject, session, 0, 0)?;
    let next = three(subject, session, 3, 0)?;
    for (command, kind) in [
        (command(StateVerb::COPY, 4, 0, 0), ErrorKind::InvalidArgument),
        (command(StateVerb::COPY, 0, 4, 0), ErrorKind::InvalidArgument),
        (command(StateVerb::COPY, u32::MAX, u32::MAX, 0), ErrorKind::InvalidArgument),
        (command(StateVerb::TRIM, 4, 0, 0), ErrorKind::InvalidArgument),
        (command(StateVerb::CLEAR, u32::MAX, 0, 0), ErrorKind::InvalidArgument),
        (command(StateVerb::SNAPSHOT, 4, 0, 0), ErrorKind::InvalidArgument),
        (command(StateVerb::RESTORE, 0, 9, 0), ErrorKind::InvalidArgument),
        (command(StateVerb::RESTORE, 4, 0, 0), ErrorKind::InvalidArgument),
        (command(StateVerb(77), 0, 0, 0), ErrorKind::Unsupported),
    ] {
        refused(&format!("{command:?}"), session.state(&command), &[kind])?;
    }
    for harmless in [
        command(StateVerb::COPY, 0, 0, 0),
        command(StateVerb::TRIM, 0, 0, u32::MAX),
        command(StateVerb::TRIM, 0, 0, 6),
        command(StateVerb::TRIM, 3, 0, 0),
        command(StateVerb::CLEAR, 2, 0, 0),
        command(StateVerb::SNAPSHOT, 3, u32::MAX, 0),
        command(StateVerb::RESTORE, 3, u32::MAX, 0),
        command(StateVerb::COPY, 2, 3, 0),
        command(StateVerb::SNAPSHOT, 0, 7, 0),
        command(StateVerb::TRIM, 0, 0, 3),
    ] {
        session.state(&harmless)?;
    }
    ensure(three(subject, session, 3, 0)? == next, || "other bits after a trim".to_owned())?;
    session.state(&command(StateVerb::RESTORE, 1, 7, 0))?;
    session.state(&command(StateVerb::TRIM, 1, 0, 3))?;
    ensure(three(subject, session, 3, 1)? == next, || "other bits of what was kept".to_owned())?;
    session.state(&command(StateVerb::CLEAR, 1, 0, 0))?;
    ensure(three(subject, session, 0, 1)? == first, || "other bits of a cleared sequence".to_owned())?;
    session.state(&command(StateVerb::COPY, 2, 0, 0))?;
    ensure(three(subject, session, 0, 0)? == first, || "other bits of an empty sequence's copy".to_owned())
}

fn unread(session: &mut dyn Session, value: u32, len: usize) -> Result<()> {
    let what = format!("{len} elements of value {value}");
    refused(&what, session.read(value, &mut vec![0.0; len]), &[ErrorKind::InvalidArgument])
}

/// Values before the first step, of another length, and after a step that was refused: they are either not read then, or
/// are those of the step before.
///
/// # Errors
/// Failed for a value that is read though it is not there, or has changed; any error of the backend.
pub fn values_are_read_whole_or_not_at_all(subject: &Subject) -> Result<()> {
    let (program, weights) = decoder(&mut Random::new(1), subject.cache(DType::F32));
    let mut session = compile(subject.device()?, &program, &weights, &room())?;
    let hidden = HIDDEN as usize;
    // Before the first step there are no rows.
    session.read(0, &mut [])?;
    unread(&mut *session, 0, hidden)?;
    three(subject, &mut *session, 0, 0)?;
    for (value, len) in [(0, 0), (0, hidden), (0, 3 * hidden + 1), (7, 0), (u32::MAX, 3 * hidden)] {
        unread(&mut *session, value, len)?;
    }
    let mut before = vec![0.0; 3 * hidden];
    session.read(0, &mut before)?;
    let batch = Batch::new(&[VOCABULARY], &[3], &[0], &[0])?;
    refused("a token beyond the table", step(&mut *session, &batch, 1), &[ErrorKind::InvalidArgument])?;
    let mut after = vec![0.0; 3 * hidden];
    match session.read(0, &mut after) {
        Ok(()) => ensure(after == before, || "a refused step has changed a value".to_owned()),
        not_read => refused("a value after a refused step", not_read, &[ErrorKind::InvalidArgument]),
    }
}

/// Logits of all rows beside a pooled value: they are given for the rows that want output.
///
/// # Errors
/// Failed for logits of other rows; any error of the backend.
pub fn logits_are_given_for_outputs_even_if_rows_are_pooled(subject: &Subject) -> Result<()> {
    let x = slice(0, 0, HIDDEN);
    let mean = slice(1, 0, HIDDEN);
    let mut program = program(
        &[HIDDEN, HIDDEN],
        vec![
            Embed { table: 0, index: RowIndex::TOKEN, offset: 0, scale: 1.0, out: x }.into(),
            Pool { kind: Pooling::MEAN, x, out: mean, normalize: false }.into(),
            Sample { logits: x }.into(),
        ],
    );
    program.values[1].rows = RowsOf::OUTPUTS;
    let table = Floats::random(&mut Random::new(1), 8, HIDDEN as usize);
    let mut session = compile(subject.device()?, &program, std::slice::from_ref(&table), &room())?;
    // More sequences than outputs, and fewer.
    for outputs in [&[][..], &[1], &[0, 1, 2]] {
        let batch = Batch::new(&[3, 4, 5], &[0, 0, 1], &[0, 1, 1], outputs)?;
        let given = step(&mut *session, &batch, subject.workers(1))?;
        let wanted: Vec<&[f32]> = outputs.iter().map(|row| table.row(3 + *row as usize)).collect();
        ensure(given.logits == wanted, || format!("the outputs {outputs:?} give other rows"))?;
    }
    // Tokens likewise, also where a batch of the same form wanted fewer, and a larger one made room for all.
    for (rows, first, outputs) in
        [(4, 0, &[0, 1, 2][..]), (3, 1, &[2]), (3, 2, &[0, 1, 2]), (3, 3, &[]), (3, 4, &[1, 2])]
    {
        let ids: Vec<u32> = (first..).take(rows).collect();
        let positions = [0, 0, 1, 2];
        let sequences = [0, 1, 1, 1];
        let batch = Batch::new(&ids, &positions[..rows], &sequences[..rows], outputs)?;
        let batch = batch.with_sampler(Sampler::Greedy);
        let given = step(&mut *session, &batch, subject.workers(1))?;
        let largest = outputs.iter().map(|row| {
            let row = table.row((first + row) as usize);
            (0..HIDDEN).fold(0, |most, n| if row[n as usize] > row[most as usize] { n } else { most })
        });
        let wanted: Vec<u32> = largest.collect();
        ensure(given.tokens == wanted, || {
            format!("the outputs {outputs:?} give tokens {:?} instead of {wanted:?}", given.tokens)
        })?;
    }
    Ok(())
}

/// Operations, versions, fields, types and devices that nobody has.
///
/// # Errors
/// Failed for an answer that is not a `No` with a reason, or an error; any error of asking for what there is.
pub fn what_is_supported_is_said_with_reasons(subject: &Subject) -> Result<()> {
    struct Names(Vec<DeviceInfo>);
    impl DeviceSink for Names {
        fn device(&mut self, info: DeviceInfo) -> Result<()> {
            self.0.push(info);
            Ok(())
        }
    }
    let kernel = &subject.kernel;
    let parts = vec![part(0, slice(1, 0, 4))];
    let linear: Operation = Linear { x: slice(0, 0, 4), parts, residual: None, scale: 1.0 }.into();
    let fields = linear.fields();
    let matrix = OpSpec { code: OpCode::LINEAR, version: 1, fields: &fields, weights: &[DType::F32] };
    let plain = kernel.supports(0, &matrix)?;
    ensure(plain == Support::Yes, || format!("a matrix of F32: {plain:?}"))?;
    let bare = OpSpec { weights: &[], ..matrix };
    for (what, spec) in [
        ("an unknown type", OpSpec { weights: &[DType(54321)], ..matrix }),
        ("an unknown version", OpSpec { version: 999, ..bare }),
        ("an unknown operation", OpSpec { code: OpCode(4321), fields: &[], ..bare }),
        ("an operation without its fields", OpSpec { fields: &[], ..bare }),
    ] {
        let answer = kernel.supports(0, &spec)?;
        let refused = matches!(&answer, Support::No(reason) if !reason.is_empty());
        ensure(refused, || format!("{what}: {answer:?}"))?;
    }
    let far = u32::MAX;
    let invalid = &[ErrorKind::InvalidArgument];
    refused("querying a device that does not exist", kernel.supports(far, &bare), invalid)?;
    refused("opening a device that does not exist", kernel.open(far, &Options::new()), invalid)?;
    let mut names = Names(Vec::new());
    kernel.devices(&mut names)?;
    ensure(!names.0.is_empty() && names.0.iter().all(|info| !info.name.is_empty()), || {
        "the devices have no names".to_owned()
    })
}
