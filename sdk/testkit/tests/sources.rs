//! Sources that count and fail.

use apr_sdk::{ErrorKind, Extent, MemorySource, Source};
use apr_testkit::{FailingSource, Fault, MeteringSource};

#[test]
fn metering_counts_bytes_calls_and_reach() {
    let source = MemorySource::new("a", vec![7; 100]).with("b", vec![8; 50]);
    let metering = MeteringSource::new(&source);
    metering.read_at(0, 10, &mut [0; 20]).unwrap();
    metering.view(Extent::new(0, 20, 20)).unwrap();
    metering.view(Extent::new(1, 0, 5)).unwrap();
    assert!(metering.read_at(0, 95, &mut [0; 20]).is_err());
    assert_eq!((metering.calls(), metering.bytes_read(), metering.bytes_positioned()), (3, 45, 20));
    assert_eq!((metering.distinct_bytes(), metering.highest_offset()), (35, 40));
}

#[test]
fn failing_fails_at_its_call() {
    let source = MemorySource::new("a", vec![7; 100]);
    let reads = |fault| {
        let failing = FailingSource::new(&source, 1, fault);
        let results = [0, 1, 2].map(|_| failing.read_at(0, 40, &mut [0; 20]).map_err(|e| e.kind()).err());
        assert!(failing.failed());
        results
    };
    assert_eq!(reads(Fault::Once), [None, Some(ErrorKind::Io), None]);
    assert_eq!(reads(Fault::Always), [None, Some(ErrorKind::Io), Some(ErrorKind::Io)]);
    assert_eq!(reads(Fault::Short), [None, Some(ErrorKind::Malformed), Some(ErrorKind::Malformed)]);
    let cut = FailingSource::new(&source, 1, Fault::Short);
    assert_eq!([cut.len(0).unwrap(), cut.len(0).unwrap()], [100, 50]);
}
