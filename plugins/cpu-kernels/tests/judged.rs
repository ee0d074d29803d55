//! The checks of every backend find what is wrong: this backend, with one thing changed.

use crate::setup::{kernel, open};
use apr_sdk::{
    Batch, Device, ImageMemory, ImageSink, ImageSpec, MatrixSpec, Memory, Result, Rows, RowsSink, Session,
    SessionLimits, StateCommand, StepSink, TimingSink, Weight, Workers,
};
use apr_testkit::Verdict;
use apr_testkit::kernels::{Subject, check_kernel};
use std::sync::atomic::{AtomicU32, Ordering};

/// What a changed session does differently.
#[derive(Clone, Copy, PartialEq)]
enum Change {
    Nothing,
    /// Values are a thousandth too large.
    Off,
    /// The lowest bits of values differ.
    Bits,
    /// The lowest bits of values differ from run to run.
    Random,
    /// No command is refused.
    Obeys,
    /// Values are read whatever their number and length.
    Reads,
    /// Programs that are none are compiled, as one that does nothing.
    Compiles,
}

struct Changed(Box<dyn Device>, Change);
struct ChangedSession(Box<dyn Session>, Change, u32);

/// How many sessions there were.
static SESSIONS: AtomicU32 = AtomicU32::new(0);

impl Device for Changed {
    fn memory(&self) -> Result<Memory> {
        self.0.memory()
    }

    fn image(&self, matrix: &MatrixSpec) -> Result<ImageSpec> {
        self.0.image(matrix)
    }

    fn prepare(&self, matrix: &MatrixSpec, rows: &dyn Rows, image: &mut dyn ImageSink) -> Result<Weight> {
        self.0.prepare(matrix, rows, image)
    }

    fn adopt(&self, matrix: &MatrixSpec, image: Box<dyn ImageMemory>) -> Result<Weight> {
        self.0.adopt(matrix, image)
    }

    fn export(&self, weight: Weight, out: &mut dyn RowsSink) -> Result<()> {
        self.0.export(weight, out)
    }

    fn compile(
        &self,
        program: &[u8],
        weights: &[Weight],
        limits: &SessionLimits,
    ) -> Result<Box<dyn Session>> {
        let session = match self.0.compile(program, weights, limits) {
            Err(_) if self.1 == Change::Compiles => {
                self.0.compile(&[], &[], &SessionLimits::new(8, 2, 50))?
            }
            compiled => compiled?,
        };
        Ok(Box::new(ChangedSession(session, self.1, SESSIONS.fetch_add(1, Ordering::Relaxed))))
    }
}

impl Session for ChangedSession {
    fn step(&mut self, batch: &Batch<'_>, workers: &dyn Workers, out: &mut dyn StepSink) -> Result<()> {
        self.0.step(batch, workers, out)
    }

    fn state(&mut self, command: &StateCommand) -> Result<()> {
        let result = self.0.state(command);
        if self.1 == Change::Obeys { Ok(()) } else { result }
    }

    fn read(&mut self, value: u32, out: &mut [f32]) -> Result<()> {
        let result = self.0.read(value, out);
        let flip = |x: &mut f32, bits| *x = f32::from_bits(x.to_bits() ^ bits);
        match self.1 {
            Change::Off => out.iter_mut().for_each(|x| *x *= 1.001),
            Change::Bits => out.iter_mut().for_each(|x| flip(x, 1)),
            Change::Random => out.iter_mut().for_each(|x| flip(x, self.2 % 2)),
            Change::Reads => return Ok(()),
            Change::Nothing | Change::Obeys | Change::Compiles => {}
        }
        result
    }

    fn timings(&self, sink: &mut dyn TimingSink) -> Result<()> {
        self.0.timings(sink)
    }
}

/// Plain code and a changed device, with one worker.
fn subject(change: Change) -> Subject {
    let changed = Box::new(Changed(open("auto").unwrap(), change));
    let mut subject = Subject::new(kernel(), vec![("scalar", open("scalar").unwrap()), ("changed", changed)]);
    subject.workers = vec![1];
    subject
}

fn finding(check: &str, subject: Subject) -> String {
    check_kernel(check, Some(subject)).unwrap_err().message().to_owned()
}

#[test]
fn other_numbers_are_found() {
    let found = finding("activate", subject(Change::Off));
    assert!(found.starts_with("changed, workers: 1: step 0: value 0 differs by "), "{found}");
    assert!(found.contains("Activate"), "{found}");
    let mut lenient = subject(Change::Off);
    (lenient.slack, lenient.same_bits) = (1e4, false);
    assert_eq!(check_kernel("activate", Some(lenient)).unwrap(), Verdict::Passed("2 devices".into()));
}

#[test]
fn other_bits_are_found_where_they_should_be_the_same() {
    check_kernel("pool", Some(subject(Change::Nothing))).unwrap();
    let found = finding("pool", subject(Change::Bits));
    assert!(found.starts_with("changed, workers: 1: other bits than before"), "{found}");
    let mut own = subject(Change::Bits);
    own.same_bits = false;
    check_kernel("pool", Some(own)).unwrap();
    let mut random = subject(Change::Random);
    random.same_bits = false;
    // Only this device, so that every other session is the changed one's.
    random.devices.remove(0);
    let found = finding("pool", random);
    assert!(found.starts_with("changed, workers: 1: other bits than before"), "{found}");
}

#[test]
fn every_program_that_is_wrongly_accepted_is_found() {
    for (check, n_findings, words) in [
        (
            "programs_that_do_not_hold_together_are_refused",
            21,
            &["linear: no matrix", "a value without elements", "a rotation beyond a head"][..],
        ),
        (
            "keys_of_another_shape_are_refused",
            4,
            &["keys of one head", "keys of a value that does not exist"],
        ),
        ("declarations_come_once_and_first", 3, &["declared twice", "declared after an operation"]),
    ] {
        let mut subject = subject(Change::Compiles);
        subject.devices.remove(0);
        let found = finding(check, subject);
        assert!(found.starts_with(&format!("{n_findings} findings: ")), "{found}");
        for word in words {
            assert!(found.contains(word), "{word}: {found}");
        }
        assert_eq!(found.matches(": not refused").count(), n_findings, "{found}");
    }
}

#[test]
fn what_is_not_refused_is_found() {
    for (check, change) in [
        ("commands_to_sequences_change_no_other", Change::Obeys),
        ("states_are_copied_trimmed_kept_and_brought_back", Change::Obeys),
        ("values_are_read_whole_or_not_at_all", Change::Reads),
        ("tokens_values_and_times_are_given", Change::Reads),
    ] {
        let mut subject = subject(change);
        subject.devices.remove(0);
        let found = finding(check, subject);
        assert!(found.contains("refused") || found.contains("do not exist"), "{check}: {found}");
    }
}
