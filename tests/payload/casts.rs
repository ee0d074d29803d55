//! Values that are changed on their way: they are what the cast itself gives, what could not be kept is counted, and what
//! is not finite stops the work.

use crate::arrival::expected;
use crate::making::{Making, Piece, Wanted, convert_as, making, plan_as, remade, slowly, turned};
use crate::{StopAfter, alone, host, noise, view, write};
use apr_engine::expression::{Expression, Measure, PlannedTensor, measure};
use apr_engine::open::{OpenOptions, OpenedModel, open};
use apr_engine::values::cast::{CastKernel, Changes};
use apr_host::convert::ChangedTensor;
use apr_sdk::{DType, Error, ErrorKind};
use apr_tests::kinds::{Kind, Tensor};
use apr_tests::{Scratch, options};
use std::sync::Arc;

/// The same elements one by one, cast all at once.
pub fn slowly_cast(payloads: &[Vec<u8>], making: &Making, to: DType) -> (Vec<u8>, Changes) {
    let bytes = slowly(payloads, making);
    let Some(cast) = CastKernel::new(making.dtype, to, making.add).unwrap() else {
        return (bytes, Changes::default());
    };
    let mut out = vec![0; cast.after(bytes.len() as u64) as usize];
    let changes = cast.apply(&bytes, &mut out);
    (out, changes)
}

/// Values near 1 that need all of an F32.
fn values(seed: u32, n: usize) -> Vec<u8> {
    noise(seed, 4 * n)
        .as_chunks::<4>()
        .0
        .iter()
        .flat_map(|b| [b[0], b[1], b[2] & 0x7f | 0x80, 0x3f])
        .collect()
}

fn tensors() -> Vec<Tensor> {
    let shape = [1040, 3001];
    let kinds = [Kind::Plain, Kind::View, Kind::BigView, Kind::Blocks, Kind::Stream];
    let each = kinds.into_iter().enumerate().map(|(number, kind)| {
        let mut tensor = view(&format!("t{number}"), kind, DType::F32, &shape, &[1, 0]);
        tensor.bytes = values(number as u32, 1040 * 3001);
        if !matches!(kind, Kind::View | Kind::BigView) {
            tensor.strides = Vec::new();
        }
        if kind == Kind::BigView {
            tensor.bytes.as_chunks_mut::<4>().0.iter_mut().for_each(|bytes| bytes.reverse());
        }
        tensor.size = 300_007;
        tensor
    });
    each.collect()
}

/// Every tensor rounded and turned, rounded only, and with 1 taken off.
fn wanted() -> Vec<Wanted> {
    let names = [["a", "b", "c"], ["d", "e", "f"], ["g", "h", "i"], ["j", "k", "l"], ["m", "n", "o"]];
    let mut out: Vec<Wanted> = Vec::new();
    for (number, [turn, round, less]) in names.into_iter().enumerate() {
        let whole = || making(DType::F32, vec![turned(number, &[1040, 3001], &[0, 1])]);
        let rows = making(DType::F32, vec![turned(number, &[26, 2, 20, 3001], &[0, 2, 1, 3])]);
        out.push((turn, DType::BF16, vec![1040, 3001], rows));
        out.push((round, DType::F16, vec![1040, 3001], whole()));
        out.push((less, DType::F64, vec![1040, 3001], Making { add: Some(-1.0), ..whole() }));
    }
    out
}

#[test]
fn every_kind_of_payload_is_cast_the_same_with_any_number_of_threads_and_after_a_stop() {
    let _alone = alone();
    let scratch = Scratch::in_memory();
    let payloads: Vec<_> = tensors().iter().map(expected).collect();
    let (mut want, mut counted) = (Vec::new(), Vec::new());
    for (name, dtype, _, making) in &wanted() {
        let (bytes, changes) = slowly_cast(&payloads, making, *dtype);
        want.extend(bytes);
        if changes != Changes::default() {
            let (name, dtype) = ((*name).to_owned(), dtype.name().to_owned());
            counted.push(ChangedTensor { name, dtype, values: 1040 * 3001, changes });
        }
    }
    assert!(counted.iter().any(|t| t.changes.rounded > 0));
    let input = write(&scratch, tensors());
    let output = scratch.at("out.kinds");
    for threads in [1, 7] {
        let done = convert_as(&host(threads), &options(&input, &output), &remade(&wanted())).unwrap();
        assert_eq!(done.changed, counted);
        assert!(done.notes.iter().any(|n| n.starts_with("rounded to BF16: ")), "{:?}", done.notes);
        assert!(std::fs::read(&output).unwrap().ends_with(&want));
        std::fs::remove_file(&output).unwrap();
    }
    for after in [1 << 20, 60 << 20, 150 << 20] {
        let mut o = options(&input, &output);
        let mut stopped = host(2);
        stopped.journal_bytes = 0;
        stopped.progress = Arc::new(StopAfter(after, stopped.cancel.clone()));
        let error = convert_as(&stopped, &o, &remade(&wanted())).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled, "{after}");
        o.resume = true;
        // Another recipe is other work, even if every size and word is the same.
        let mut other = wanted();
        other[0].3 = making(DType::F32, vec![turned(0, &[26, 20, 2, 3001], &[0, 2, 1, 3])]);
        let error = convert_as(&host(2), &o, &remade(&other)).unwrap_err();
        assert!(error.to_string().contains("in: plan"), "{error}");
        let done = convert_as(&host(2), &o, &remade(&wanted())).unwrap();
        assert_eq!(done.changed, counted);
        assert!(std::fs::read(&output).unwrap().ends_with(&want), "stopped after {after}");
        std::fs::remove_file(&output).unwrap();
    }
    assert_eq!(scratch.names(), ["in.kinds"]);
}

#[test]
fn what_is_not_finite_stops_the_work_unless_it_is_allowed() {
    let _alone = alone();
    let scratch = Scratch::in_memory();
    for (value, message) in [
        (f32::NAN, "element 700002 is NaN, not finite, and would be cast to F16"),
        (f32::INFINITY, "element 700002 is inf, not finite"),
        (1e9, "element 700002 is 1e9, out of range for F16"),
    ] {
        let mut plain = Tensor::new("t", Kind::Plain, DType::F32, &[2, 500_001], values(3, 1_000_002));
        plain.bytes[4 * 200_001..][..4].copy_from_slice(&value.to_le_bytes());
        let input = write(&scratch, vec![plain]);
        // Second row first.
        let rows = [500_001, 0].map(|start| Piece::Box { tensor: 0, start, dims: vec![(500_001, 1)] });
        let wanted: Wanted = ("x", DType::F16, vec![2, 500_001], making(DType::F32, rows.to_vec()));
        let wanted = [wanted];
        let mut o = options(&input, &scratch.at("out.kinds"));
        for threads in [1, 3] {
            let error = convert_as(&host(threads), &o, &remade(&wanted)).unwrap_err();
            assert!(error.to_string().contains(message), "{error}");
            assert_eq!((error.kind(), error.tensor_name()), (ErrorKind::Failed, Some("x")));
            assert_eq!(scratch.names(), ["in.kinds"]);
        }
        o.allow_nonfinite = true;
        let done = convert_as(&host(2), &o, &remade(&wanted)).unwrap();
        let Changes { overflowed, nonfinite, .. } = done.changed[0].changes;
        assert_eq!([overflowed, nonfinite], if value.is_finite() { [1, 0] } else { [0, 1] });
        assert!(done.notes.iter().any(|n| n.starts_with("`x`: 1 of 1000002 values")), "{:?}", done.notes);
        std::fs::remove_file(scratch.at("out.kinds")).unwrap();
    }
}

#[test]
fn the_plan_says_what_is_added_cast_and_spooled() {
    let _alone = alone();
    let scratch = Scratch::in_memory();
    let input = write(&scratch, tensors());
    let plan = plan_as(&host(2), &options(&input, &scratch.at("o.kinds")), &remade(&wanted())).unwrap();
    let ops: Vec<_> = plan.tensors.iter().map(|tensor| tensor.ops.join(", ")).collect();
    assert_eq!(ops[0], "gather, cast F32 -> BF16");
    assert_eq!(ops[2], "add -1, cast F32 -> F64");
    assert_eq!(ops[7], "gather, cast F32 -> F16");
    assert_eq!(ops[9], "spool, cast F32 -> BF16");
    assert_eq!(ops[10], "decode, cast F32 -> F16");
    assert_eq!(ops[13], "stream, cast F32 -> F16");
    let spooled = 2 * 4 * 1040 * 3001;
    assert!(
        plan.notes.iter().any(|n| n.starts_with(&format!("{spooled} bytes are spooled"))),
        "{:?}",
        plan.notes
    );
}

#[test]
fn values_are_exact_only_if_all_are() {
    let _alone = alone();
    let scratch = Scratch::in_memory();
    let n = 700_001;
    let halves: Vec<u8> = (0..n).flat_map(|n| (1.0 + (n % 100) as f32 / 128.0).to_le_bytes()).collect();
    let shape = [n as u64];
    let mut tensors = Vec::new();
    for (number, kind) in [Kind::Plain, Kind::Blocks, Kind::Stream].into_iter().enumerate() {
        let mut last = halves.clone();
        last.truncate(4 * n - 4);
        last.extend_from_slice(&(1.0f32 + 1.0 / 256.0).to_le_bytes());
        tensors.push(Tensor::new(&format!("exact{number}"), kind, DType::F32, &shape, halves.clone()));
        tensors.push(Tensor::new(&format!("last{number}"), kind, DType::F32, &shape, last));
    }
    let opened = open(&host(2), &write(&scratch, tensors), &OpenOptions::default()).unwrap();
    let planned = |making: &Making, n: usize| {
        let shape = [n as u64];
        making.planned(&opened, ("x", DType::F32, &shape)).unwrap().expression
    };
    let whole = |number: usize| making(DType::F32, vec![turned(number, &[n as u64], &[0])]);
    let copies: Vec<_> = (0..6).map(|number| planned(&whole(number), n)).collect();
    let mut wanted: Vec<_> = copies.iter().map(|one| Measure::ExactIn(one, DType::BF16)).collect();
    // 8 bits do for all but the last value, and for that 11 do.
    wanted.push(Measure::ExactIn(&copies[1], DType::F16));
    // What is taken of a tensor is looked at, and no more.
    let without_last =
        making(DType::F32, vec![Piece::Box { tensor: 1, start: 0, dims: vec![(n as u64 - 1, 1)] }]);
    let without_last = planned(&without_last, n - 1);
    wanted.push(Measure::ExactIn(&without_last, DType::BF16));
    let less = planned(&Making { add: Some(-1.0), ..whole(1) }, n);
    wanted.push(Measure::ExactIn(&less, DType::BF16));
    for threads in [1, 3] {
        let found = measure(&host(threads), &opened, &wanted).unwrap();
        assert_eq!(found, [true, false, true, false, true, false, true, true, true]);
    }
    assert!(measure(&host(1), &opened, &[Measure::ExactIn(&copies[0], DType::I8)]).is_err());
}

#[test]
fn values_are_zero_only_if_all_are() {
    let _alone = alone();
    let scratch = Scratch::in_memory();
    let n = 300_001;
    let zeros: Vec<u8> = (0..n).flat_map(|n| [0.0f32, -0.0][n % 2].to_le_bytes()).collect();
    let mut last = zeros.clone();
    last[4 * n - 4] = 1;
    let shape = [n as u64];
    let mut tensors = Vec::new();
    for (number, kind) in [Kind::Plain, Kind::Blocks, Kind::Stream].into_iter().enumerate() {
        tensors.push(Tensor::new(&format!("zero{number}"), kind, DType::F32, &shape, zeros.clone()));
        tensors.push(Tensor::new(&format!("last{number}"), kind, DType::F32, &shape, last.clone()));
    }
    let opened = open(&host(2), &write(&scratch, tensors), &OpenOptions::default()).unwrap();
    let each = opened.model.tensors.iter().enumerate();
    let copies: Vec<_> = each.map(|(n, tensor)| Expression::of(n, tensor).unwrap()).collect();
    let wanted: Vec<_> = copies.iter().map(Measure::IsZero).collect();
    for threads in [1, 3] {
        assert_eq!(
            measure(&host(threads), &opened, &wanted).unwrap(),
            [true, false, true, false, true, false]
        );
    }
}

#[test]
fn a_source_that_ends_early_is_an_error_and_leaves_nothing() {
    let _alone = alone();
    let scratch = Scratch::in_memory();
    let mut broken = tensors();
    broken[4].broken = 4 << 20;
    broken[3].broken = 4 << 20;
    for (number, name) in [(3, "j"), (4, "m")] {
        let mut all = tensors();
        all[number] = broken[number].clone();
        let input = write(&scratch, all);
        let error =
            convert_as(&host(2), &options(&input, &scratch.at("o.kinds")), &remade(&wanted())).unwrap_err();
        assert!(error.to_string().contains("a broken"), "{name}: {error}");
        assert_eq!(scratch.names(), ["in.kinds"]);
    }
    // Cut after it was opened.
    let input = write(&scratch, tensors());
    let cut = |opened: &OpenedModel| -> Result<Vec<PlannedTensor>, Error> {
        std::fs::OpenOptions::new().write(true).open(&input).unwrap().set_len(9 << 20).unwrap();
        remade(&wanted())(opened)
    };
    let error = convert_as(&host(2), &options(&input, &scratch.at("o.kinds")), &cut).unwrap_err();
    assert!(error.to_string().contains("truncated while it was being read"), "{error}");
    assert_eq!(scratch.names(), ["in.kinds"]);
}
