//! Whatever call of the driver fails, and at whichever time: an error in the driver's words, nothing is kept, and what is
//! left computes as before.

use crate::driver::{Driver, What, kernel};
use apr_sdk::{
    Batch, DType, Error, ErrorKind, Kernel, Options, Result, RowsSink, Sampler, SessionLimits, StateCommand,
    StateVerb,
};
use apr_testkit::Random;
use apr_testkit::kernels::programs::{HIDDEN, decoder};
use apr_testkit::kernels::{Floats, Given, compile, prepare, step};

/// What a run gave: all logits and tokens, and a value.
#[derive(Clone, Debug, PartialEq)]
struct Run(Vec<Given>, Vec<f32>);

struct Ignored;

impl RowsSink for Ignored {
    fn rows(&mut self, _: &[u8]) -> Result<()> {
        Ok(())
    }
}

/// How a step that failed is done with.
#[derive(Clone, Copy, PartialEq)]
enum Then {
    /// The run ends.
    End,
    /// It is tried again.
    Again,
}

/// A small model as a program runs it: a prompt of a few rows, one of many, tokens one by one, copies of a sequence.
fn run(kernel: &dyn Kernel, device: u32, options: &Options, then: Then) -> Result<Run> {
    let device = kernel.open(device, options)?;
    device.memory()?;
    let (program, weights) = decoder(&mut Random::new(5), DType::F16);
    device.export(prepare(&*device, &weights[0])?, &mut Ignored)?;
    let mut session = compile(&*device, &program, &weights, &SessionLimits::new(20, 2, 100))?;
    let mut given = Vec::new();
    let mut feed = |from: u32, count: u32, sequence: u32, sampler: Option<Sampler>| -> Result<()> {
        let ids: Vec<u32> = (from..from + count).collect();
        let sequences = vec![sequence; ids.len()];
        let outputs = [count - 1];
        let mut batch = Batch::new(&ids, &ids, &sequences, &outputs)?;
        if let Some(sampler) = sampler {
            batch = batch.with_sampler(sampler);
        }
        let mut done = step(&mut *session, &batch, 1);
        if done.is_err() && then == Then::Again {
            done = step(&mut *session, &batch, 1);
        }
        given.push(done?);
        if count == 9 {
            session.state(&StateCommand { verb: StateVerb::COPY, sequence: 0, target: 1, position: 0 })?;
        }
        Ok(())
    };
    feed(0, 3, 0, None)?;
    feed(3, 1, 0, Some(Sampler::Greedy))?;
    feed(4, 1, 0, Some(Sampler::Greedy))?;
    feed(5, 9, 0, None)?;
    feed(14, 1, 0, Some(Sampler::Greedy))?;
    feed(14, 1, 1, None)?;
    let mut value = vec![0.0; HIDDEN as usize];
    session.read(0, &mut value)?;
    Ok(Run(given, value))
}

/// Runs with each call failing in turn.
fn with_every_call_failing(driver: &Driver, (fault, words, name): (&str, &str, &str), options: &Options) {
    let kernel = kernel();
    driver.obey("fail=0 lost=0 idle=0");
    let computed = run(&*kernel, 0, options, Then::End).unwrap();
    // There are hundreds of calls, and kernels take long on a processor.
    driver.obey("fail=0 lost=0 idle=1");
    let idle = run(&*kernel, 0, options, Then::End).unwrap();
    let calls = driver.count(What::Calls);
    assert!(calls > 50, "{calls}");
    let mut unharmed = Vec::new();
    for number in 1..=calls {
        driver.obey(&format!("{fault} fail={number}"));
        match run(&*kernel, 0, options, Then::End) {
            Ok(have) => {
                // Nobody hears of a failure when everything is being given back.
                assert_eq!(have, idle, "call {number}");
                unharmed.push(number);
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::Io, "call {number}: {error}");
                let text = error.message();
                assert!(text.contains(words) && text.contains(name), "call {number}: {text}");
            }
        }
        assert_eq!(driver.made(), [0; 7], "call {number}");
        assert_eq!(driver.count(What::Leaked), 0, "call {number}");
        // The other device goes on, and so does the same one, which the next round opens anew.
        driver.obey("fail=0 lost=0");
        if number.is_multiple_of(8) {
            assert_eq!(run(&*kernel, 1, options, Then::End).unwrap(), idle, "call {number}");
        }
        if number % 100 < 2 {
            driver.obey("idle=0");
            let device = number as u32 % 2;
            assert_eq!(run(&*kernel, device, options, Then::End).unwrap(), computed, "call {number}");
            driver.obey("idle=1");
        }
    }
    // Each queue waits once before it is given back, and so does the session.
    assert!(unharmed.len() as u64 * 20 < calls, "{unharmed:?} of {calls}");
}

#[test]
fn a_device_that_is_lost_at_any_call_is_an_error_and_everything_else_goes_on() {
    let Some(driver) = Driver::with("9.0,9.0") else { return };
    let fault = ("lost=1 with=700", "an illegal memory access was encountered", "CUDA_ERROR_ILLEGAL_ADDRESS");
    with_every_call_failing(&driver, fault, &Options::new());
}

const ONCE: (&str, &str, &str) =
    ("lost=0 with=719", "unspecified launch failure", "CUDA_ERROR_LAUNCH_FAILED");

#[test]
fn a_call_that_fails_once_leaves_nothing_behind() {
    let Some(driver) = Driver::with("9.0,9.0") else { return };
    with_every_call_failing(&driver, ONCE, &Options::new());
}

#[test]
fn neither_does_one_of_a_step_that_is_timed() {
    let Some(driver) = Driver::with("7.0,7.0") else { return };
    with_every_call_failing(&driver, ONCE, &Options::new().with("timings", "on"));
}

/// Out of memory, or anything else that passes.
#[test]
fn a_session_whose_step_failed_goes_on() {
    let Some(driver) = Driver::with("9.0") else { return };
    let kernel = kernel();
    let options = Options::new();
    driver.obey("fail=0 idle=1");
    let want = run(&*kernel, 0, &options, Then::End).unwrap();
    let calls = driver.count(What::Calls);
    let mut again = 0;
    for number in 1..=calls {
        driver.obey(&format!("lost=0 with=2 fail={number}"));
        if let Ok(have) = run(&*kernel, 0, &options, Then::Again) {
            assert_eq!(have, want, "call {number}");
            again += 1;
        }
        assert_eq!(driver.made(), [0; 7], "call {number}");
    }
    assert!(again > 100, "{again} of {calls}");
}

/// What was recorded for one step names memory that a larger one moved before it failed.
#[test]
fn a_smaller_step_after_one_that_failed_computes_what_it_should() {
    let Some(driver) = Driver::with("9.0") else { return };
    let device = kernel().open(0, &Options::new()).unwrap();
    let (program, weights) = decoder(&mut Random::new(5), DType::F16);
    let specs =
        |weights: &[Floats]| -> Result<Vec<_>> { weights.iter().map(|one| prepare(&*device, one)).collect() };
    let prepared = specs(&weights).unwrap();
    let bytes = program.to_bytes().unwrap();
    let small = |session: &mut dyn apr_sdk::Session, position: u32| {
        let (ids, positions) = ([position], [position]);
        let batch = Batch::new(&ids, &positions, &[0], &[0]).unwrap().with_sampler(Sampler::Greedy);
        step(session, &batch, 1)
    };
    let large: Vec<u32> = (2..22).collect();
    let outputs: Vec<u32> = (0..20).collect();
    let (mut number, mut failed) = (0, 0);
    let mut want = None;
    loop {
        let mut session = device.compile(&bytes, &prepared, &SessionLimits::new(20, 1, 100)).unwrap();
        small(&mut *session, 0).unwrap();
        small(&mut *session, 1).unwrap();
        driver.obey(&format!("lost=0 with=2 fail={number}"));
        let batch = Batch::new(&large, &large, &[0; 20], &outputs).unwrap().with_sampler(Sampler::Greedy);
        let done: std::result::Result<Given, Error> = step(&mut *session, &batch, 1);
        let calls = driver.count(What::Calls);
        driver.obey("fail=0");
        if done.is_ok() {
            session
                .state(&StateCommand { verb: StateVerb::TRIM, sequence: 0, target: 0, position: 2 })
                .unwrap();
        }
        let have = small(&mut *session, 2).unwrap();
        let mut value = vec![0.0; HIDDEN as usize];
        session.read(0, &mut value).unwrap();
        // The first round fails nowhere.
        let want = want.get_or_insert_with(|| (have.clone(), value.clone()));
        assert_eq!(&(have, value), want, "call {number}");
        failed += u32::from(done.is_err());
        if number > calls {
            break;
        }
        number += 1;
    }
    assert!(failed > 20, "{failed}");
}
