//! What is refused, with which words; and what must not hang.

use crate::setup::{devices, kernel, open};
use apr_sdk::{
    Append, Batch, DType, ErrorKind, Linear, MatrixSpec, NormKind, OpCode, OpSpec, Operation, Options,
    Program, RowsOf, SessionLimits, State, StepSink, Support, ValueSpec,
};
use apr_testkit::Random;
use apr_testkit::kernels::programs::{HIDDEN, VOCABULARY, decoder, part, slice};
use apr_testkit::kernels::{Given, Threads, compile, step};

fn limits() -> SessionLimits {
    SessionLimits::new(8, 2, 50)
}

/// The error of compiling the small decoder after a change.
fn refused(change: impl FnOnce(&mut Program)) -> (ErrorKind, String) {
    let (mut program, weights) = decoder(&mut Random::new(1), DType::F32);
    change(&mut program);
    let device = open("auto").unwrap();
    let error = compile(&*device, &program, &weights, &limits()).err().expect("it must be refused");
    (error.kind(), error.message().to_owned())
}

#[test]
fn programs_that_do_not_hold_together_name_the_operation() {
    use ErrorKind::{InvalidArgument, Unsupported};
    let linear = |program: &mut Program| match &mut program.operations[2] {
        Operation::Linear(linear) => linear as *mut Linear,
        _ => panic!("it is a linear operation"),
    };
    let change = |f: fn(&mut Linear)| {
        refused(|program| {
            // SAFETY: the pointer is that of an operation in the program, which is still there.
            f(unsafe { &mut *linear(program) })
        })
    };
    let cases: Vec<((ErrorKind, String), ErrorKind, &str)> = vec![
        (change(|op| op.parts.clear()), InvalidArgument, "no matrix"),
        (change(|op| op.parts[1].out.first += 1000), InvalidArgument, "not within value 2"),
        (change(|op| op.parts[1].out.first = u32::MAX), InvalidArgument, "not within value 2"),
        (change(|op| op.parts[1].out.first -= 1), InvalidArgument, "overlaps another result"),
        (change(|op| op.parts[0].weight = 99), InvalidArgument, "no weight 99"),
        (change(|op| op.parts[0].first_row = 9), InvalidArgument, "rows from 9 on"),
        (change(|op| op.parts[0].bias = Some(0)), InvalidArgument, "instead of a vector"),
        (change(|op| op.x.width -= 1), InvalidArgument, "an input of 47 elements"),
        (change(|op| op.residual = Some(op.x)), InvalidArgument, "single matrix"),
        (change(|op| op.x = slice(5, 0, HIDDEN)), InvalidArgument, "different rows"),
        (change(|op| op.x = slice(9, 0, HIDDEN)), InvalidArgument, "no value 9"),
    ];
    for ((kind, message), wanted, words) in cases {
        assert!(kind == wanted && message.contains(words), "{message}");
        assert!(message.starts_with("operation 2 (linear): "), "{message}");
    }
    let cases: Vec<((ErrorKind, String), ErrorKind, &str)> = vec![
        (refused(|program| program.values[3].width = 0), InvalidArgument, "value 3 has no elements"),
        (refused(|program| program.values[3].rows = RowsOf(7)), Unsupported, "rows of `number 7`"),
        (refused(|program| drop(program.operations.remove(5))), InvalidArgument, "stores the keys"),
        (refused(|program| drop(program.states.pop())), InvalidArgument, "no state 1"),
        (
            refused(|program| {
                let State::Paged(state) = &mut program.states[1] else { panic!() };
                state.dtype = DType::Q4_K;
            }),
            Unsupported,
            "state 1: a cache cannot keep Q4_K",
        ),
        (
            refused(|program| {
                let append = Append { state: 0, key: slice(2, 0, 16), value: None };
                program.operations.insert(6, append.into());
            }),
            InvalidArgument,
            "operation 6 (append): another operation",
        ),
        (
            refused(|program| {
                let again = program.operations[3].clone();
                program.operations.push(again);
            }),
            InvalidArgument,
            "nothing may follow",
        ),
        (
            refused(|program| {
                let Operation::Norm(norm) = &mut program.operations[1] else { panic!() };
                norm.kind = NormKind(12);
            }),
            Unsupported,
            "operation 1 (norm): `number 12` is not known",
        ),
        (
            refused(|program| {
                let Operation::Norm(norm) = &mut program.operations[1] else { panic!() };
                norm.out = slice(1, 0, HIDDEN - 1);
            }),
            InvalidArgument,
            "47 elements instead of 48",
        ),
        (
            refused(|program| {
                let Operation::Rope(rope) = &mut program.operations[3] else { panic!() };
                rope.first = 1;
            }),
            InvalidArgument,
            "not within a head of 8",
        ),
    ];
    for ((kind, message), wanted, words) in cases {
        assert!(kind == wanted && message.contains(words), "{kind:?} {message}");
    }
}

#[test]
fn batches_beyond_the_limits_are_refused_and_change_nothing() {
    let (program, weights) = decoder(&mut Random::new(1), DType::F32);
    let device = open("auto").unwrap();
    let mut session = compile(&*device, &program, &weights, &limits()).unwrap();
    let mut refuse =
        |ids: &[u32], positions: &[u32], sequences: &[u32], rows: Option<&[f32]>, words: &str| {
            let mut batch = Batch::new(ids, positions, sequences, &[0]).unwrap();
            if let Some(rows) = rows {
                batch = batch.with_rows(rows);
            }
            for workers in [1, 3] {
                let error = step(&mut *session, &batch, workers).unwrap_err();
                assert_eq!(error.kind(), ErrorKind::InvalidArgument);
                assert!(error.message().contains(words), "{error}");
            }
        };
    refuse(&[1; 9], &[0; 9], &[0; 9], None, "room for 8");
    refuse(&[1], &[50], &[0], None, "room for 50 positions");
    refuse(&[1], &[0], &[2], None, "room for 2 sequences");
    refuse(&[1], &[3], &[0], None, "goes on at 0");
    refuse(&[1, 1], &[0, 0], &[0, 0], None, "goes on at 1");
    refuse(&[1, VOCABULARY], &[0, 1], &[0, 0], None, "needs row 71");
    refuse(&[1, 1], &[0, 1], &[0, 0], Some(&[0.0; 95]), "95 elements instead of 2 rows of 48");
    let batch = Batch::new(&[1, 2], &[0, 1], &[0, 0], &[1]).unwrap();
    assert_eq!(step(&mut *session, &batch, 2).unwrap().logits.len(), 1);
}

#[test]
fn rows_that_are_no_numbers_give_logits_that_are_none() {
    let all = devices();
    let caches = [DType::F32, DType::F16, DType::Q8_0];
    for (cache, (_, device)) in
        caches.into_iter().flat_map(|cache| all.iter().map(move |level| (cache, level)))
    {
        let (program, weights) = decoder(&mut Random::new(1), cache);
        let mut session = compile(&**device, &program, &weights, &limits()).unwrap();
        let mut rows = vec![0.5; 3 * HIDDEN as usize];
        rows[HIDDEN as usize + 5] = f32::NAN;
        let batch = Batch::new(&[1, 2, 3], &[0, 1, 2], &[0, 0, 0], &[0, 1, 2]).unwrap().with_rows(&rows);
        let given = step(&mut *session, &batch, 2).unwrap();
        // Rows before it do not see it.
        assert!(given.logits[0].iter().all(|x| x.is_finite()));
        assert!(given.logits[1..].iter().flatten().all(|x| x.is_nan()));
        let batch = Batch::new(&[1], &[3], &[0], &[0]).unwrap().with_sampler(apr_sdk::Sampler::Greedy);
        assert_eq!(step(&mut *session, &batch, 2).unwrap_err().kind(), ErrorKind::Failed);
    }
}

#[test]
fn an_error_of_the_sink_ends_the_step() {
    struct Full;
    impl StepSink for Full {
        fn logits(&mut self, _: u32, _: &[f32]) -> apr_sdk::Result<()> {
            Err(apr_sdk::Error::io("full"))
        }
        fn token(&mut self, _: u32, _: u32) -> apr_sdk::Result<()> {
            Ok(())
        }
    }
    let (program, weights) = decoder(&mut Random::new(1), DType::F16);
    let device = open("auto").unwrap();
    let mut session = compile(&*device, &program, &weights, &limits()).unwrap();
    let batch = Batch::new(&[1], &[0], &[0], &[0]).unwrap();
    assert_eq!(session.step(&batch, &Threads(2), &mut Full).unwrap_err().message(), "full");
}

#[test]
fn what_is_supported_is_said_with_reasons() {
    let kernel = kernel();
    let ask = |code, version, fields: &[u8], weights: &[DType]| {
        kernel.supports(0, &OpSpec { code, version, fields, weights }).unwrap()
    };
    let linear: Operation =
        Linear { x: slice(0, 0, 4), parts: vec![part(0, slice(1, 0, 4))], residual: None, scale: 1.0 }.into();
    let fields = linear.fields();
    let types = [
        DType::F32,
        DType::F16,
        DType::BF16,
        DType::Q4_0,
        DType::Q8_0,
        DType::Q4_K,
        DType::Q5_K,
        DType::Q6_K,
    ];
    assert_eq!(ask(OpCode::LINEAR, 1, &fields, &types), Support::Yes);
    for (answer, words) in [
        (ask(OpCode::LINEAR, 1, &fields, &[DType::Q2_K]), "Q2_K"),
        (ask(OpCode::LINEAR, 2, &fields, &[]), "version 2"),
        (ask(OpCode::SCAN, 1, &[], &[]), "scan"),
        (ask(OpCode(4321), 1, &[], &[]), "number 4321"),
        (ask(OpCode::LINEAR, 1, &[], &[]), "record"),
    ] {
        let Support::No(reason) = answer else { panic!("{words}") };
        assert!(reason.contains(words), "{reason}");
    }
    assert!(
        kernel
            .supports(1, &OpSpec { code: OpCode::LINEAR, version: 1, fields: &fields, weights: &[] })
            .is_err()
    );
    assert!(kernel.open(1, &Options::new()).is_err());
    let error = kernel.open(0, &Options::new().with("level", "mmx")).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    struct Names(Vec<apr_sdk::DeviceInfo>);
    impl apr_sdk::DeviceSink for Names {
        fn device(&mut self, info: apr_sdk::DeviceInfo) -> apr_sdk::Result<()> {
            self.0.push(info);
            Ok(())
        }
    }
    let mut names = Names(Vec::new());
    kernel.devices(&mut names).unwrap();
    assert!(names.0.len() == 1 && !names.0[0].name.is_empty() && !names.0[0].features.is_empty());
}

#[test]
fn weights_and_bytes_that_are_none_are_refused() {
    let device = open("auto").unwrap();
    let none = apr_sdk::Weight(3);
    struct Nowhere;
    impl apr_sdk::RowsSink for Nowhere {
        fn rows(&mut self, _: &[u8]) -> apr_sdk::Result<()> {
            Ok(())
        }
    }
    assert_eq!(device.export(none, &mut Nowhere).unwrap_err().kind(), ErrorKind::InvalidArgument);
    assert!(device.compile(&[], &[none], &limits()).is_err());
    assert!(device.compile(&[1, 2, 3], &[], &limits()).is_err());
    assert!(device.compile(&[], &[], &SessionLimits::new(0, 1, 1)).is_err());
    assert!(device.image(&MatrixSpec::new(DType::IQ1_S, 1, 256).unwrap()).is_err());
    // An empty program is one that does nothing.
    let program = Program {
        values: vec![ValueSpec { width: 3, rows: RowsOf::BATCH }],
        states: Vec::new(),
        operations: Vec::new(),
    };
    let mut session = compile(&*device, &program, &[], &limits()).unwrap();
    let batch = Batch::new(&[1, 2], &[0, 9], &[0, 1], &[]).unwrap();
    assert_eq!(step(&mut *session, &batch, 2).unwrap(), Given::default());
}
