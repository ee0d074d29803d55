//! Callers that break their word, and programs that ask for more than they say: an error, in memory and time that are in
//! proportion, and a session that still works.

use crate::memory::live;
use crate::setup::open;
use apr_sdk::{
    Barrier, Batch, Binary, BinaryKind, DType, Embed, ErrorKind, ExpertScore, Linear, Norm, NormKind, Pool,
    Pooling, Program, Result, Rope, RopeStyle, Route, RowIndex, RowsOf, Sample, Session, SessionLimits,
    ValueSpec, Workers,
};
use apr_testkit::Random;
use apr_testkit::kernels::programs::{HIDDEN, VOCABULARY, decoder, part, slice};
use apr_testkit::kernels::{Floats, Given, compile, prepare, step};
use std::time::{Duration, Instant};

type Body<'a> = &'a (dyn Fn(usize, &dyn Barrier) -> Result<()> + Sync);

/// Threads that do something else than a step asks for. None of it takes `unsafe`.
struct Liar {
    width: usize,
    run: fn(Body<'_>) -> Result<()>,
}

impl Workers for Liar {
    fn width(&self) -> usize {
        self.width
    }

    fn run(&self, body: Body<'_>) -> Result<()> {
        (self.run)(body)
    }
}

/// A barrier that holds nobody up.
struct Open;

impl Barrier for Open {
    fn wait(&self) -> Result<()> {
        Ok(())
    }
}

fn limits() -> SessionLimits {
    SessionLimits::new(16, 4, 200)
}

fn value(width: u32, rows: RowsOf) -> ValueSpec {
    ValueSpec { width, rows }
}

/// A program over values of the batch's rows.
fn program(widths: &[u32], operations: Vec<apr_sdk::Operation>) -> Program {
    let values = widths.iter().map(|width| value(*width, RowsOf::BATCH)).collect();
    Program { values, states: Vec::new(), operations }
}

fn session(program: &Program, weights: &[Floats], limits: &SessionLimits) -> Result<Box<dyn Session>> {
    compile(&*open("auto").unwrap(), program, weights, limits)
}

/// The logits of the sequence's next three tokens.
fn three(session: &mut dyn Session, from: u32, sequence: u32) -> Vec<Vec<f32>> {
    let positions = [from, from + 1, from + 2];
    let sequences = [sequence; 3];
    let batch = Batch::new(&[5, 6, 7], &positions, &sequences, &[0, 1, 2]).unwrap();
    step(session, &batch, 2).unwrap().logits
}

#[test]
fn workers_that_break_their_word_end_the_step() {
    let liars: [(&str, Liar); 9] = [
        ("never", Liar { width: 2, run: |_| Ok(()) }),
        ("no width", Liar { width: 0, run: |_| Ok(()) }),
        ("only the first", Liar { width: 2, run: |body| body(0, &Open) }),
        ("only the last", Liar { width: 2, run: |body| body(1, &Open) }),
        (
            "one after the other",
            Liar {
                width: 2,
                run: |body| {
                    let _ = (body(0, &Open), body(1, &Open));
                    Ok(())
                },
            },
        ),
        (
            "one after the other, the last first",
            Liar {
                width: 2,
                run: |body| {
                    let _ = (body(1, &Open), body(0, &Open));
                    Ok(())
                },
            },
        ),
        (
            "twice",
            Liar {
                width: 1,
                run: |body| {
                    body(0, &Open)?;
                    body(0, &Open)
                },
            },
        ),
        (
            "the same on two threads",
            Liar {
                width: 2,
                run: |body| {
                    std::thread::scope(|scope| {
                        let other = scope.spawn(|| body(0, &Open));
                        let _ = body(0, &Open);
                        let _ = other.join().unwrap();
                    });
                    Ok(())
                },
            },
        ),
        ("beyond the width", Liar { width: 1, run: |body| body(7, &Open) }),
    ];
    let (program, weights) = decoder(&mut Random::new(1), DType::F32);
    let mut honest = session(&program, &weights, &limits()).unwrap();
    let expected = three(&mut *honest, 0, 0);
    for (name, liar) in &liars {
        let mut session = session(&program, &weights, &limits()).unwrap();
        let batch = Batch::new(&[5, 6, 7], &[0, 1, 2], &[0; 3], &[0, 1, 2]).unwrap();
        let mut given = Given::default();
        let error = session.step(&batch, liar, &mut given).expect_err(name);
        assert!(error.kind() == ErrorKind::Failed && error.message().contains("worker"), "{name}: {error}");
        assert_eq!(given, Given::default(), "{name}");
        // The sequence has not moved.
        assert_eq!(three(&mut *session, 0, 0), expected, "{name}");
    }
    let far = Liar { width: usize::MAX, run: |body| body(0, &Open) };
    let batch = Batch::new(&[5], &[3], &[0], &[0]).unwrap();
    let error = honest.step(&batch, &far, &mut Given::default()).unwrap_err();
    assert!(error.kind() == ErrorKind::LimitExceeded && error.message().contains("workers"), "{error}");
}

#[test]
fn a_width_of_none_is_the_caller_alone() {
    let (program, weights) = decoder(&mut Random::new(1), DType::F16);
    let batch = Batch::new(&[5, 6], &[0, 1], &[0; 2], &[1]).unwrap();
    let mut given = Given::default();
    let alone = Liar { width: 0, run: |body| body(0, &Open) };
    session(&program, &weights, &limits()).unwrap().step(&batch, &alone, &mut given).unwrap();
    let mut honest = session(&program, &weights, &limits()).unwrap();
    assert_eq!(given, step(&mut *honest, &batch, 3).unwrap());
}

#[test]
fn a_worker_that_fails_ends_the_step_for_all() {
    // Both the first worker's row and the last one's are beyond the table, and the barrier does not say so.
    let (program, weights) = decoder(&mut Random::new(1), DType::F32);
    let mut session = session(&program, &weights, &limits()).unwrap();
    let liar = Liar {
        width: 2,
        run: |body| {
            std::thread::scope(|scope| {
                let other = scope.spawn(|| body(1, &Open));
                let _ = body(0, &Open);
                let _ = other.join().unwrap();
            });
            Ok(())
        },
    };
    let batch = Batch::new(&[1, VOCABULARY], &[0, 1], &[0, 0], &[1]).unwrap();
    assert!(session.step(&batch, &liar, &mut Given::default()).is_err());
    assert_eq!(three(&mut *session, 0, 0).len(), 3);
}

#[test]
fn a_session_takes_no_memory_for_sequences_that_are_not_there() {
    let device = open("auto").unwrap();
    let empty = program(&[3], Vec::new());
    let error = compile(&*device, &empty, &[], &SessionLimits::new(1, u32::MAX, 1)).err().unwrap();
    assert!(error.kind() == ErrorKind::LimitExceeded && error.message().contains("sequences"), "{error}");
    // Rows and positions cost nothing before they come.
    let most = SessionLimits::new(u32::MAX, 1 << 16, u32::MAX);
    let (program, _) = decoder(&mut Random::new(1), DType::F32);
    let state = program.states[0].clone();
    let many = Program { states: vec![state; 200], ..empty };
    let before = live();
    let session = compile(&*device, &many, &[], &most).unwrap();
    let taken = live() - before;
    assert!(taken < 4 << 20, "{taken} bytes for 65536 sequences and 200 states");
    drop(session);
}

#[test]
fn values_are_not_read_after_a_step_that_failed() {
    let (program, weights) = decoder(&mut Random::new(1), DType::F32);
    let mut session = session(&program, &weights, &limits()).unwrap();
    three(&mut *session, 0, 0);
    let mut hidden = vec![0.0; 3 * HIDDEN as usize];
    session.read(0, &mut hidden).unwrap();
    let batch = Batch::new(&[VOCABULARY], &[3], &[0], &[0]).unwrap();
    assert!(step(&mut *session, &batch, 1).is_err());
    assert_eq!(session.read(0, &mut hidden).unwrap_err().kind(), ErrorKind::InvalidArgument);
}

#[test]
fn values_that_no_machine_holds_are_refused() {
    for widths in [&[u32::MAX][..], &[1 << 28, 1]] {
        let error = session(&program(widths, Vec::new()), &[], &limits()).err().unwrap();
        assert!(error.kind() == ErrorKind::LimitExceeded && error.message().contains("row"), "{error}");
    }
    session(&program(&[1 << 28], Vec::new()), &[], &limits()).unwrap();
}

#[test]
fn vectors_are_kept_once_however_many_operations_name_them() {
    const WIDTH: u32 = 1 << 20;
    let x = slice(0, 0, WIDTH);
    let norm = |gain, heads| -> apr_sdk::Operation {
        Norm { x, out: x, kind: NormKind::RMS, gain: Some(gain), bias: Some(gain), epsilon: 1e-6, heads }
            .into()
    };
    let operations = (0..60).map(|n| if n % 2 == 0 { norm(0, WIDTH) } else { norm(1, 1) }).collect();
    let weights = [1, WIDTH as usize].map(|columns| Floats { rows: 1, columns, data: vec![2.0; columns] });
    let device = open("auto").unwrap();
    let program = program(&[WIDTH], operations);
    let prepared: Vec<_> = weights.iter().map(|matrix| prepare(&*device, matrix).unwrap()).collect();
    let before = live();
    let session = device.compile(&program.to_bytes().unwrap(), &prepared, &limits()).unwrap();
    let taken = live() - before;
    assert!(taken < 16 << 20, "{taken} bytes for vectors of 4 MiB");
    drop(session);
}

#[test]
fn a_gain_of_one_head_is_that_of_all() {
    let x = slice(0, 0, 8);
    let norm = |gain, bias, heads| -> apr_sdk::Operation {
        Norm { x, out: x, kind: NormKind::LAYER, gain: Some(gain), bias: Some(bias), epsilon: 1e-6, heads }
            .into()
    };
    let embed: apr_sdk::Operation =
        Embed { table: 0, index: RowIndex::TOKEN, offset: 0, scale: 1.0, out: x }.into();
    let mut random = Random::new(4);
    let (table, gain, bias) =
        (Floats::random(&mut random, 3, 8), Floats::gain(&mut random, 4), Floats::gain(&mut random, 4));
    let twice = |vector: &Floats| Floats { columns: 8, data: vector.data.repeat(2), ..vector.clone() };
    let weights = [table, twice(&gain), twice(&bias), gain, bias];
    let run = |gain, bias| {
        let program = program(&[8], vec![embed.clone(), norm(gain, bias, 2), Sample { logits: x }.into()]);
        let batch = Batch::new(&[1, 2], &[0, 1], &[0, 0], &[0, 1]).unwrap();
        step(&mut *session(&program, &weights, &limits()).unwrap(), &batch, 1).unwrap()
    };
    assert_eq!(run(3, 4), run(1, 2));
    assert_eq!(run(3, 2), run(1, 4));
}

/// Runs something that is many times faster than this where its time is in proportion to what is asked.
fn soon<T>(what: &str, run: impl FnOnce() -> T) -> T {
    let since = Instant::now();
    let done = run();
    assert!(since.elapsed() < Duration::from_secs(5), "{what} took {:?}", since.elapsed());
    done
}

#[test]
fn long_programs_are_compiled_in_time_that_follows_their_length() {
    let one = [Floats { rows: 1, columns: 1, data: vec![1.0] }];
    const MANY: u32 = 200_000;
    let parts: Vec<_> = (0..MANY).map(|n| part(0, slice(1, n, 1))).collect();
    let linear = Linear { x: slice(0, 0, 1), parts: parts.clone(), residual: None, scale: 1.0 };
    let parts_of_one = program(&[1, MANY], vec![linear.clone().into()]);
    soon("a matrix for each element", || session(&parts_of_one, &one, &limits()).unwrap());
    let mut overlapping = linear;
    overlapping.parts.push(part(0, slice(1, 7, 1)));
    let error = session(&program(&[1, MANY], vec![overlapping.into()]), &one, &limits()).err().unwrap();
    assert!(error.message().contains("overlaps another result"), "{error}");

    let x = slice(0, 0, 2);
    let rope = |frequency| -> apr_sdk::Operation {
        let frequencies = vec![frequency];
        Rope { x, out: x, heads: 1, first: 0, style: RopeStyle::HALF, frequencies, magnitude: 1.0 }.into()
    };
    let ropes = program(&[2], (0..MANY).map(|n| rope(n as f32)).collect());
    soon("a rope for each frequency", || session(&ropes, &[], &limits()).unwrap());
    // Equal bits are equal angles, even those of no number.
    let nan = program(&[2], (0..MANY).map(|_| rope(f32::NAN)).collect());
    let mut session = soon("ropes without numbers", || session(&nan, &[], &limits()).unwrap());
    let before = live();
    step(&mut *session, &Batch::new(&[1], &[1], &[0], &[]).unwrap(), 1).unwrap();
    let taken = live() - before;
    assert!(taken < 1 << 20, "{taken} bytes for one table of angles");

    let add: apr_sdk::Operation = Binary { kind: BinaryKind::ADD, a: x, b: x, out: x }.into();
    let sums = program(&[2], vec![add; MANY as usize]);
    soon("sums", || self::session(&sums, &[], &limits()).unwrap());
}

#[test]
fn groups_of_experts_are_chosen_in_time_that_follows_their_number() {
    const EXPERTS: u32 = 1 << 16;
    let (scores, out) = (slice(0, 0, EXPERTS), slice(1, 0, 4));
    let route = Route {
        scores,
        out,
        score: ExpertScore::SOFTMAX,
        normalize: true,
        scale: 1.0,
        bias: None,
        groups: EXPERTS,
        groups_used: EXPERTS - 1,
    };
    let mut session =
        session(&program(&[EXPERTS, 4], vec![route.into()]), &[], &SessionLimits::new(64, 1, 64)).unwrap();
    let positions: Vec<u32> = (0..64).collect();
    let batch = Batch::new(&[0; 64], &positions, &[0; 64], &[]).unwrap();
    soon("choosing experts", || step(&mut *session, &batch, 1).unwrap());
}

#[test]
fn many_sequences_are_sorted_in_time_that_follows_their_number() {
    const SEQUENCES: u32 = 1 << 16;
    const EACH: u32 = 4;
    let (x, out) = (slice(0, 0, 1), slice(1, 0, 1));
    for kind in [Pooling::MEAN, Pooling::FIRST, Pooling::LAST] {
        let pool = Program {
            values: vec![value(1, RowsOf::BATCH), value(1, RowsOf::OUTPUTS)],
            states: Vec::new(),
            operations: vec![
                Embed { table: 0, index: RowIndex::TOKEN, offset: 0, scale: 1.0, out: x }.into(),
                Pool { kind, x, out, normalize: false }.into(),
                Sample { logits: out }.into(),
            ],
        };
        let table = Floats { rows: 4, columns: 1, data: vec![1.0, 2.0, 3.0, 4.0] };
        let room = SessionLimits::new(EACH * SEQUENCES, SEQUENCES, EACH);
        let mut session = session(&pool, &[table], &room).unwrap();
        let rows = 0..EACH * SEQUENCES;
        let ids: Vec<u32> = rows.clone().map(|row| row / SEQUENCES).collect();
        let sequences: Vec<u32> = rows.map(|row| row % SEQUENCES).collect();
        let batch = Batch::new(&ids, &ids, &sequences, &[]).unwrap();
        let given = soon("pooling", || step(&mut *session, &batch, 1).unwrap());
        let wanted = [(Pooling::MEAN, 2.5), (Pooling::FIRST, 1.0), (Pooling::LAST, 4.0)];
        let wanted = wanted.iter().find(|(of, _)| *of == kind).unwrap().1;
        assert!(given.logits.len() == SEQUENCES as usize);
        assert!(given.logits.iter().all(|logits| *logits == [wanted]));
    }
}
