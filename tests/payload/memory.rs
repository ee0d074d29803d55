//! Payload takes the memory that the plan says, and no more.

use crate::making::{Making, Wanted, convert_as, making, plan_as, remade, turned};
use crate::{alone, bytes, host, view, write};
use apr_engine::expression::{Expression, PlannedTensor};
use apr_engine::layout::Make;
use apr_sdk::DType;
use apr_tests::counting::{Counting, peak_of_all};
use apr_tests::kinds::{Kind, Tensor};
use apr_tests::{Scratch, options};

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// What everything that is not payload may take: the index, paths, the list of blocks of a tensor or two, what threads
/// need to begin.
const BESIDE: u64 = 2 << 20;

fn peak_of(tensors: Vec<Tensor>, threads: usize) -> (u64, u64) {
    peak_of_remade(tensors, threads, &|opened| {
        let each = opened.model.tensors.iter().enumerate();
        each.map(|(n, tensor)| Ok(PlannedTensor::new(tensor.clone(), Expression::of(n, tensor)?))).collect()
    })
}

fn peak_of_remade(tensors: Vec<Tensor>, threads: usize, make: &Make<'_>) -> (u64, u64) {
    let scratch = Scratch::in_memory();
    let mut o = options(&write(&scratch, tensors), &scratch.at("out.kinds"));
    o.allow_nonfinite = true;
    let host = host(threads);
    let said = plan_as(&host, &o, make).unwrap().payload_memory;
    (peak_of_all(|| drop(convert_as(&host, &o, make).unwrap())).1, said)
}

#[test]
fn payload_takes_the_memory_that_the_plan_says() {
    let _alone = alone();
    let len = 96 << 20;
    for tensor in [
        bytes("plain", Kind::Plain, len, 1),
        bytes("stream", Kind::Stream, len, 1 << 16),
        bytes("blocks", Kind::Blocks, len, 64 << 10),
        bytes("blocks", Kind::Blocks, len, 4 << 20),
        view("turned", Kind::View, DType::F32, &[4096, 6144], &[1, 0]),
        view("permuted", Kind::View, DType::BF16, &[3, 256, 256, 256], &[3, 1, 2, 0]),
    ] {
        for threads in [1, 2, 5] {
            let name = tensor.name.clone();
            let (peak, said) = peak_of(vec![tensor.clone()], threads);
            assert!(peak <= said + BESIDE, "{name}, {threads} threads: {peak} bytes, the plan says {said}");
            assert!(said <= threads as u64 * (16 << 20), "{name}: {said}");
        }
    }
}

#[test]
fn large_blocks_are_in_memory_one_at_a_time() {
    let _alone = alone();
    let block = 12 << 20;
    let tensors = (0..6).map(|n| bytes(&format!("t{n}"), Kind::Blocks, 2 * block, block as u64)).collect();
    let (peak, said) = peak_of(tensors, 5);
    // One block stored and one raw.
    assert!(peak <= said + 2 * block as u64 + BESIDE, "{peak} bytes, the plan says {said}");
}

#[test]
fn what_is_made_anew_takes_the_memory_that_the_plan_says() {
    let _alone = alone();
    let shape = [4096, 4096];
    for kind in [Kind::Plain, Kind::View, Kind::Blocks, Kind::Stream] {
        let mut tensor = view("t", kind, DType::F32, &shape, &[1, 0]);
        if kind != Kind::View {
            tensor.strides = Vec::new();
        }
        let rows = || making(DType::F32, vec![turned(0, &[32, 2, 64, 4096], &[0, 2, 1, 3])]);
        let columns = making(DType::F32, vec![turned(0, &shape, &[1, 0])]);
        let wanted: [Wanted; 3] = [
            ("rows", DType::F32, shape.to_vec(), Making { add: Some(1.0), ..rows() }),
            ("narrow", DType::F16, shape.to_vec(), rows()),
            ("columns", DType::F64, shape.to_vec(), columns),
        ];
        for threads in [1, 2, 5] {
            let (peak, said) = peak_of_remade(vec![tensor.clone()], threads, &remade(&wanted));
            let name = format!("{kind:?}, {threads} threads");
            assert!(peak <= said + BESIDE, "{name}: {peak} bytes, the plan says {said}");
            assert!(said <= threads as u64 * (16 << 20), "{name}: {said}");
        }
    }
}
