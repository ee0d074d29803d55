//! Each rule can be seen to fail: a reader that breaks it on purpose is caught.

use crate::property::{Subject, check_model};
use apr_sdk::{
    Cursor, DType, Error, Extent, Limits, Look, ModelSink, OpenModel, Options, Reader, Result, Score, Source,
    TensorDecl, Value,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

/// What is wrong with a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Nothing,
    Panics,
    NoPlace,
    BlamesThePlugin,
    ControlCharacters,
    OutOfProportion,
    ChangesItsMind,
    ValueOfAnotherType,
}

/// A reader of files that begin with `BAD`, whose one tensor is that.
struct Faulty(Fault);

struct Opened {
    fault: Fault,
    opened: u64,
}

static OPENED: AtomicU64 = AtomicU64::new(0);

impl Reader for Faulty {
    fn probe(&self, _look: &Look<'_>) -> Score {
        Score::NO
    }

    fn open(&self, source: &dyn Source, limits: &Limits, _options: &Options) -> Result<Box<dyn OpenModel>> {
        let mut cursor = Cursor::new(source, 0, 0, limits)?;
        let magic = cursor.bytes(3)?;
        match self.0 {
            Fault::Panics => panic!("on purpose"),
            Fault::NoPlace => return Err(Error::malformed("somewhere something is wrong")),
            Fault::BlamesThePlugin => return Err(Error::plugin("a bug").at(0).in_file("x")),
            Fault::ControlCharacters => return Err(Error::malformed("\u{1b}[2J").at(0).in_file("x")),
            Fault::OutOfProportion => drop(std::hint::black_box(vec![0u8; 32 << 20])),
            _ => {}
        }
        if magic != b"BAD" {
            return Err(cursor.error_at(0, "it does not begin with `BAD`"));
        }
        Ok(Box::new(Opened { fault: self.0, opened: OPENED.fetch_add(1, Ordering::Relaxed) }))
    }
}

impl OpenModel for Opened {
    fn describe(&self, _source: &dyn Source, sink: &mut dyn ModelSink) -> Result<()> {
        let mind = if self.fault == Fault::ChangesItsMind { self.opened } else { 0 };
        let name = format!("t{mind}");
        sink.tensor(TensorDecl::plain(&name, DType::U8, &[3], Extent::new(0, 0, 3)))?;
        if self.fault == Fault::ValueOfAnotherType {
            sink.foreign_file("faulty", "", 1)?;
            let bytes = Extent::new(0, 0, 3).into();
            sink.foreign("key", Value { kind: apr_sdk::ValueType::U64, bytes })?;
        }
        Ok(())
    }
}

/// A subject that cannot be written: only opening is judged.
fn subject(fault: Fault) -> Subject {
    let mut subject = Subject::apr();
    subject.reader = Box::new(Faulty(fault));
    subject.manifest.carries.dtypes = Some(Vec::new());
    subject
}

fn is_caught(fault: Fault) -> bool {
    catch_unwind(AssertUnwindSafe(|| check_model(&subject(fault), b"BAD"))).is_err()
}

#[test]
fn a_reader_without_fault_passes() {
    assert!(!is_caught(Fault::Nothing));
    assert!(check_model(&subject(Fault::Nothing), b"BAD"));
    assert!(!check_model(&subject(Fault::Nothing), b"GOOD"));
}

#[test]
fn every_fault_is_caught() {
    for fault in [
        Fault::Panics,
        Fault::NoPlace,
        Fault::BlamesThePlugin,
        Fault::ControlCharacters,
        Fault::OutOfProportion,
        Fault::ChangesItsMind,
        Fault::ValueOfAnotherType,
    ] {
        assert!(is_caught(fault), "{fault:?}");
    }
}
