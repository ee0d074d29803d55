//! What is refused, with which words. That it is refused, and of what kind the errors are, is tested for every backend.

use crate::setup::{kernel, open};
use apr_sdk::{DType, ErrorKind, Linear, MatrixSpec, OpCode, OpSpec, Operation, Options, Support};
use apr_testkit::Random;
use apr_testkit::kernels::programs::{decoder, part, slice};
use apr_testkit::kernels::rejects::{broken_batches, limits};
use apr_testkit::kernels::{compile, step};

#[test]
fn batches_beyond_the_limits_say_what_there_is_room_for() {
    let words = [
        ("more rows than the limit", "room for only 8"),
        ("a position beyond the limit", "room for 50 positions"),
        ("a sequence beyond the limit", "room for 2 sequences"),
        ("positions with a gap", "continues at 0"),
        ("a position twice", "continues at 1"),
        ("a token beyond the table", "refers to row 71"),
        ("rows of another width", "95 elements, expected 2 rows of 48"),
    ];
    let (program, weights) = decoder(&mut Random::new(1), DType::F32);
    let mut session = compile(&*open("auto").unwrap(), &program, &weights, &limits()).unwrap();
    let broken = broken_batches();
    assert!(broken.iter().map(|broken| broken.what).eq(words.map(|(what, _)| what)));
    for (broken, (what, words)) in broken.iter().zip(words) {
        let error = step(&mut *session, &broken.batch().unwrap(), 3).unwrap_err();
        assert!(error.message().contains(words), "{what}: {error}");
    }
}

#[test]
fn what_is_not_supported_is_named() {
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
fn matrices_of_unknown_types_have_no_image() {
    let device = open("auto").unwrap();
    assert!(device.image(&MatrixSpec::new(DType::IQ1_S, 1, 256).unwrap()).is_err());
}
