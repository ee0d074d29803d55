//! Sequences that go on side by side, a token of each in every step.

use crate::compared::EMULATED;
use crate::cuda::emulated;
use crate::loading::{distance, exact, host_with, trained, try_load};
use apr_host::running::{Backend, LoadOptions};
use apr_sdk::ErrorKind;

#[test]
fn sequences_side_by_side_compute_what_each_does_alone() {
    let host = host_with(&EMULATED);
    for backend in ["cpu", "emulated"] {
        if backend == "emulated" && emulated::library().is_none() {
            apr_tests::skipped("sequences on NVIDIA's devices: there is no C++ compiler");
            continue;
        }
        let named = Backend::Named(backend.to_owned());
        let options = LoadOptions { backend: named, sequences: 3, context: Some(8), ..exact() };
        let mut runner = try_load(&host, &trained(), &options).unwrap().runner;
        let width = runner.width();
        let texts: [[u32; 8]; 3] =
            [0, 100, 200].map(|first| std::array::from_fn(|n| 5 + first + n as u32 * 11));
        let alone = texts.map(|text| {
            runner.clear().unwrap();
            text.map(|id| runner.feed(&[id]).unwrap().to_vec())
        });
        runner.clear().unwrap();
        for (step, number) in (0..8).zip(1u32..) {
            let ids = texts.map(|text| text[step]);
            let rows = runner.feed_together(&ids).unwrap().to_vec();
            assert_eq!(rows.len(), 3 * width);
            for (sequence, row) in rows.chunks_exact(width).enumerate() {
                let apart = distance(row, &alone[sequence][step]);
                assert!(apart < 1e-4, "{backend}, token {step} of sequence {sequence}: {apart}");
            }
            assert_eq!(runner.position(), number);
        }
        // All are full, there is room for three, and none is not enough.
        for ids in [&[5, 6, 7][..], &[5, 6, 7, 8], &[]] {
            assert_eq!(runner.feed_together(ids).unwrap_err().kind(), ErrorKind::InvalidArgument, "{ids:?}");
        }
        // All begin anew, and a step that fails leaves nothing in any of them.
        runner.clear().unwrap();
        runner.feed_together(&[5, 105]).unwrap();
        assert!(runner.feed_together(&[16, u32::MAX]).is_err());
        let rows = runner.feed_together(&[16, 116]).unwrap();
        assert!(distance(&rows[..width], &alone[0][1]) < 1e-4, "{backend}");
        assert!(distance(&rows[width..], &alone[1][1]) < 1e-4, "{backend}");
    }
}
