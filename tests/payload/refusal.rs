//! What is wrong with a payload is said with its place, and leaves nothing.

use crate::{alone, bytes, host, write};
use apr_engine::open::{OpenOptions, open};
use apr_engine::verify::stats::{RowOptions, tensor_rows};
use apr_host::convert::convert;
use apr_sdk::{Error, ErrorKind};
use apr_tests::kinds::{Kind, Tensor};
use apr_tests::{Scratch, options};

/// What a conversion of a good tensor and this one says, with several numbers of threads; digests say the same.
fn refused(tensor: &Tensor) -> Error {
    let scratch = Scratch::new();
    let input = write(&scratch, vec![bytes("good", Kind::Stream, 3 << 20, 70_000), tensor.clone()]);
    let mut errors = Vec::new();
    for threads in [1, 2, 7] {
        errors.push(convert(&host(threads), &options(&input, &scratch.at("out.kinds"))).unwrap_err());
        assert_eq!(scratch.names(), ["in.kinds"]);
    }
    let opened = open(&host(2), &input, &OpenOptions::default()).unwrap();
    let sums = RowOptions { sha256: true, stats: false };
    errors.push(tensor_rows(&host(2), &opened, sums).unwrap_err());
    for error in &errors {
        assert_eq!((error.message(), error.offset()), (errors[0].message(), errors[0].offset()));
        assert_eq!((error.kind(), error.tensor_name()), (ErrorKind::Malformed, Some("bad")), "{error}");
        assert_eq!(error.file(), Some(input.display().to_string().as_str()), "{error}");
    }
    errors.remove(0)
}

#[test]
fn an_error_in_the_middle_of_a_stream_or_block_says_where() {
    let _alone = alone();
    for (kind, size, broken) in [
        (Kind::Stream, 50_000, 0),
        (Kind::Stream, 50_000, 2_500_001),
        (Kind::Stream, 50_000, (3 << 20) - 1),
        (Kind::Blocks, 100_000, 2_500_000),
        (Kind::Blocks, 100_000, 0),
        (Kind::Blocks, 5 << 20, 0),
    ] {
        let mut bad = bytes("bad", kind, 3 << 20, size);
        bad.broken = broken;
        let error = refused(&bad);
        let begin = error.offset().unwrap();
        assert!(begin >= (3 << 20) + broken && begin < (3 << 20) + broken + 400, "{broken}: {error}");
    }
}

#[test]
fn what_is_longer_or_shorter_than_its_shape_is_refused() {
    let _alone = alone();
    for (kind, size) in [(Kind::Stream, 40_000), (Kind::Blocks, 40_000), (Kind::Blocks, 1 << 20)] {
        for len in [0, 1, (2 << 20) - 1, 2 << 20, (2 << 20) + 1] {
            for shape in [0, len as u64 + 1, (len as u64).saturating_sub(1)] {
                if shape != len as u64 {
                    let mut bad = bytes("bad", kind, len, size);
                    bad.shape = vec![shape];
                    let error = refused(&bad);
                    let said = ["ends after", "continues after", "too short", "longer than"];
                    assert!(said.iter().any(|part| error.message().contains(part)), "{error}");
                }
            }
        }
    }
}
