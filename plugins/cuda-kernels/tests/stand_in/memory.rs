//! A device's memory, which others take meanwhile.

use crate::driver::{Driver, What, kernel};
use apr_sdk::{
    Batch, DType, Embed, ErrorKind, MatrixSpec, Options, Program, Result, RowIndex, Rows, RowsOf, RowsSink,
    SessionLimits, Slice, StateCommand, StateVerb, ValueSpec,
};
use apr_testkit::Random;
use apr_testkit::kernels::programs::decoder;
use apr_testkit::kernels::{HeapSink, compile, step};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Rows of zeros, and the most bytes that were asked for at a time.
#[derive(Debug, Default)]
struct Zeros(AtomicUsize);

impl Rows for Zeros {
    fn read(&self, _: u64, out: &mut [u8]) -> Result<()> {
        self.0.fetch_max(out.len(), Ordering::Relaxed);
        out.fill(0);
        Ok(())
    }
}

/// Counts the zeros among the bytes of rows.
struct Counted(usize);

impl RowsSink for Counted {
    fn rows(&mut self, rows: &[u8]) -> Result<()> {
        self.0 += rows.iter().filter(|byte| **byte == 0).count();
        Ok(())
    }
}

#[test]
fn what_others_take_between_the_check_and_the_allocation_is_missed_with_both_figures() {
    let Some(driver) = Driver::with("9.0,9.0") else { return };
    let device = kernel().open(0, &Options::new()).unwrap();
    driver.obey("left=10000000");
    assert_eq!(device.memory().unwrap().free, 1 << 30);
    let small = MatrixSpec::new(DType::F32, 1000, 1000).unwrap();
    let weight = device.prepare(&small, &Zeros::default(), &mut HeapSink).unwrap();
    let large = MatrixSpec::new(DType::F32, 2000, 1000).unwrap();
    let error = device.prepare(&large, &Zeros::default(), &mut HeapSink).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    let text = error.message();
    assert!(text.contains("8000000 bytes are needed") && text.contains("are free"), "{error}");
    assert!(error.hint_text().is_some_and(|hint| hint.contains("smaller type")), "{error}");
    assert_eq!(driver.made()[0], 1);
    // What is there is still good.
    let mut sink = Counted(0);
    device.export(weight, &mut sink).unwrap();
    assert_eq!(sink.0, 4_000_000);
    drop(device);
    assert!(driver.made().iter().all(|count| *count == 0), "{:?}", driver.made());
    assert_eq!(driver.count(What::Leaked), 0);
}

#[test]
fn weights_come_tile_by_tile_and_pinned_memory_is_bounded() {
    let Some(driver) = Driver::with("9.0") else { return };
    let device = kernel().open(0, &Options::new()).unwrap();
    let rows = Zeros::default();
    let matrix = MatrixSpec::new(DType::F32, 10_000, 1000).unwrap();
    let table = device.prepare(&matrix, &rows, &mut HeapSink).unwrap();
    assert!(rows.0.load(Ordering::Relaxed) <= 4 << 20, "{rows:?}");
    // A batch that brings more than pinned memory holds.
    let mut program = Program::default();
    program.values.push(ValueSpec { width: 1000, rows: RowsOf::BATCH });
    let out = Slice { value: 0, first: 0, width: 1000 };
    program.operations.push(Embed { table: 0, index: RowIndex::TOKEN, offset: 0, scale: 1.0, out }.into());
    let count = 2500;
    let limits = SessionLimits::new(count, 1, count);
    let mut session = device.compile(&program.to_bytes().unwrap(), &[table], &limits).unwrap();
    let (ids, positions, sequences) = (vec![1; 2500], (0..count).collect::<Vec<_>>(), vec![0; 2500]);
    let given: Vec<f32> = (0..2_500_000u32).map(|n| (n % 89) as f32 - 40.0).collect();
    let batch = Batch::new(&ids, &positions, &sequences, &[]).unwrap().with_rows(&given);
    step(&mut *session, &batch, 1).unwrap();
    let mut back = vec![0.0; given.len()];
    session.read(0, &mut back).unwrap();
    assert_eq!(back, given);
    assert!(driver.count(What::MostPinned) <= 4 << 20, "{}", driver.count(What::MostPinned));
}

#[test]
fn graphs_of_forms_that_do_not_come_back_are_given_up() {
    let Some(driver) = Driver::with("7.5") else { return };
    let device = kernel().open(0, &Options::new()).unwrap();
    let (program, weights) = decoder(&mut Random::new(5), DType::F16);
    let mut session = compile(&*device, &program, &weights, &SessionLimits::new(8, 1, 64)).unwrap();
    let (ids, sequences) = ([3; 8], [0; 8]);
    let positions: Vec<u32> = (0..8).collect();
    let mut first = None;
    let mut form = |rows: usize, outputs: usize| {
        let clear = StateCommand { verb: StateVerb::CLEAR, sequence: 0, target: 0, position: 0 };
        session.state(&clear).unwrap();
        let all = &positions[..rows];
        let batch = Batch::new(&ids[..rows], all, &sequences[..rows], &all[..outputs]).unwrap();
        step(&mut *session, &batch, 1).unwrap()
    };
    // The largest first, for what moves makes all graphs be recorded anew.
    for _ in 0..2 {
        for (rows, outputs) in
            (1..=8).rev().flat_map(|rows| (0..=rows).rev().map(move |outputs| (rows, outputs)))
        {
            let given = form(rows, outputs);
            assert_eq!(given.logits.len(), outputs);
            if (rows, outputs) == (8, 8) {
                assert_eq!(first.get_or_insert_with(|| given.clone()), &given);
            }
            let graphs = driver.made()[3];
            assert!(graphs <= 32, "{graphs}");
        }
        assert_eq!(driver.made()[3], 32);
    }
}
