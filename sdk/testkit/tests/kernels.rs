//! Backends: which checks run, the interpreter by hand, and what the testkit lends. That the checks find what is wrong is
//! tested where there is a backend.

use apr_sdk::{
    Append, Batch, DType, Device, DeviceSink, Embed, Error, ErrorKind, ImageSink, Kernel, Linear, OpSpec,
    Operation, Options, PagedState, Program, Result, RowIndex, Rows, RowsOf, Slice, State, Support,
    ValueSpec, Workers,
};
use apr_testkit::Verdict;
use apr_testkit::kernels::programs::{part, slice};
use apr_testkit::kernels::{
    CHECKS, Floats, HeapSink, Interpreter, Plain, Subject, Threads, check_kernel, difference,
};

/// A backend of which nothing works.
struct Nothing;

impl Kernel for Nothing {
    fn devices(&self, _: &mut dyn DeviceSink) -> Result<()> {
        Err(Error::failed("nothing works"))
    }

    fn supports(&self, _: u32, _: &OpSpec<'_>) -> Result<Support> {
        Err(Error::failed("nothing works"))
    }

    fn open(&self, _: u32, _: &Options) -> Result<Box<dyn Device>> {
        Err(Error::failed("nothing works"))
    }
}

fn subject() -> Subject {
    Subject::new(Box::new(Nothing), Vec::new())
}

#[test]
fn a_check_runs_is_skipped_or_is_not_there() {
    let kind = |result: Result<Verdict>| result.unwrap_err().kind();
    assert_eq!(kind(check_kernel("nonesuch", None)), ErrorKind::NotFound);
    assert_eq!(kind(check_kernel("embed", Some(subject()))), ErrorKind::InvalidArgument);
    assert!(matches!(check_kernel("embed", None), Ok(Verdict::Skipped(_))));
    let skipping = |name| {
        let mut subject = subject();
        subject.skips.push((name, "it has no tables".to_owned()));
        subject
    };
    let skipped = check_kernel("embed", Some(skipping("embed"))).unwrap();
    assert_eq!(skipped, Verdict::Skipped("it has no tables".to_owned()));
    assert_eq!(kind(check_kernel("norm", Some(skipping("embed")))), ErrorKind::InvalidArgument);
    assert_eq!(kind(check_kernel("norm", Some(skipping("embedding")))), ErrorKind::NotFound);
}

#[test]
fn every_check_has_a_name_of_its_own() {
    let mut names: Vec<&str> = CHECKS.iter().map(|(name, _)| *name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), CHECKS.len());
}

fn program(widths: &[u32], operations: Vec<Operation>) -> Program {
    let values = widths.iter().map(|width| ValueSpec { width: *width, rows: RowsOf::BATCH }).collect();
    Program { values, states: Vec::new(), operations }
}

fn embed(out: Slice) -> Operation {
    Embed { table: 0, index: RowIndex::TOKEN, offset: 0, scale: 2.0, out }.into()
}

#[test]
fn the_interpreter_computes_by_definition() {
    let x = slice(0, 0, 2);
    let linear = Linear { x, parts: vec![part(1, slice(1, 1, 2))], residual: Some(x), scale: 0.5 };
    let program = program(&[2, 3], vec![embed(x), linear.into()]);
    let weights = [
        Floats { rows: 2, columns: 2, data: vec![1.0, 2.0, 3.0, 4.0] },
        Floats { rows: 2, columns: 2, data: vec![1.0, -1.0, 0.0, 10.0] },
    ];
    let mut interpreter = Interpreter::new(&program, &weights, 1);
    interpreter.step(&Batch::new(&[1], &[0], &[0], &[]).unwrap()).unwrap();
    assert_eq!(interpreter.values, [vec![vec![6.0, 8.0]], vec![vec![0.0, -1.0 + 6.0, 40.0 + 8.0]]]);
    // Rows that the batch brings are not scaled.
    interpreter.step(&Batch::new(&[1], &[0], &[0], &[]).unwrap().with_rows(&[2.0, 1.0])).unwrap();
    assert_eq!(interpreter.values, [vec![vec![2.0, 1.0]], vec![vec![0.0, 0.5 + 2.0, 5.0 + 1.0]]]);
}

#[test]
fn the_interpreter_refuses_gaps() {
    let x = slice(0, 0, 2);
    let append = Append { state: 0, key: x, value: None };
    let mut program = program(&[2], vec![embed(x), append.into()]);
    let weights = [Floats { rows: 2, columns: 2, data: vec![1.0, 2.0, 3.0, 4.0] }];
    let step = |program: &Program, position: u32| {
        let positions = [position];
        let batch = Batch::new(&[1], &positions, &[0], &[]).unwrap();
        Interpreter::new(program, &weights, 1).step(&batch).map_err(|error| error.kind())
    };
    assert_eq!(step(&program, 0), Err(ErrorKind::Unsupported));
    let cache = PagedState { heads: 1, key: 2, value: 2, dtype: DType::F32, window: 0 };
    program.states.push(State::Paged(cache));
    assert_eq!(step(&program, 0), Ok(()));
    assert_eq!(step(&program, 1), Err(ErrorKind::Failed));
}

#[test]
fn differences_are_shares_and_none_where_there_are_no_numbers() {
    assert_eq!(difference(&[3.0, 4.5], &[3.0, 4.0]), 0.5 / 12.5f64.sqrt());
    assert!(difference(&[f32::NAN, 4.0], &[3.0, 4.0]).is_nan());
    assert!(difference(&[4.0, f32::NAN, 4.0], &[3.0, 4.0, 4.0]).is_nan());
    assert!(difference(&[3.0], &[3.0, 4.0]).is_nan());
}

#[test]
fn memory_is_aligned_and_zero() {
    for bytes in [0, 1, 64, 1000] {
        let mut memory = HeapSink.memory(bytes).unwrap();
        assert!(memory.bytes().len() == bytes as usize && memory.bytes().iter().all(|byte| *byte == 0));
        assert_eq!(memory.bytes().as_ptr().align_offset(64), 0);
        memory.bytes_mut().unwrap().fill(7);
        assert!(memory.bytes().iter().all(|byte| *byte == 7));
    }
}

#[test]
fn rows_beyond_the_last_are_refused() {
    let rows = Plain(&[1, 2, 3, 4], 2);
    let mut out = [0; 2];
    rows.read(1, &mut out).unwrap();
    assert_eq!(out, [3, 4]);
    for first in [2, u64::MAX] {
        assert_eq!(rows.read(first, &mut out).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
}

#[test]
fn a_worker_that_fails_frees_those_that_wait() {
    let error = Threads(3).run(&|worker, barrier| {
        if worker == 1 { Err(Error::io("broken")) } else { barrier.wait() }
    });
    assert_eq!(error.unwrap_err().message(), "broken");
    let met = std::sync::atomic::AtomicUsize::new(0);
    Threads(3)
        .run(&|_, barrier| {
            met.fetch_add(1, std::sync::atomic::Ordering::AcqRel);
            barrier.wait()?;
            assert_eq!(met.load(std::sync::atomic::Ordering::Acquire), 3);
            Ok(())
        })
        .unwrap();
}
