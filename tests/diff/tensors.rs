//! Tensors that differ, and those that only seem to.

use crate::{bytes, compare, compared, weights, write};
use apr_engine::diff::{Diff, DiffOptions, Status, Values};
use apr_sdk::ErrorKind;
use apr_tests::{Scratch, host};

fn statuses(diff: &Diff) -> Vec<Status> {
    diff.tensors.iter().map(|tensor| tensor.status).collect()
}

fn values(diff: &Diff) -> &Values {
    diff.tensors[0].values.as_ref().unwrap()
}

#[test]
fn one_changed_value_is_found_with_its_place() {
    let scratch = Scratch::new();
    let (a, b) = (scratch.at("a.safetensors"), scratch.at("b.safetensors"));
    let one = weights(300_000, 1);
    let mut two = one.clone();
    two[299_998] += 0.25;
    write(&a, &[("w", "F32", "[1000,300]", &bytes(&one))]);
    write(&b, &[("w", "F32", "[1000,300]", &bytes(&two))]);
    let diff = compared(&a, &b, &DiffOptions::default());
    assert!(!diff.same);
    let found = values(&diff);
    let away = f64::from(two[299_998]) - f64::from(one[299_998]);
    assert_eq!((found.count, found.differing, &found.max_at[..]), (300_000, 1, &[999, 298][..]));
    assert_eq!((found.max_abs, found.l2), (away, away));
    // The norms are those of the whole tensor, of the tiles too that are the same.
    let squares: f64 = one.iter().map(|v| f64::from(*v) * f64::from(*v)).sum();
    assert!((found.relative / (away / squares.sqrt()) - 1.0).abs() < 1e-3, "{found:?}");
    assert!(found.cosine.is_some_and(|cosine| cosine > 0.999 && cosine < 1.0));
}

#[test]
fn any_thread_count_gives_the_same_distances() {
    let scratch = Scratch::new();
    let (a, b) = (scratch.at("a.safetensors"), scratch.at("b.safetensors"));
    let one = weights(1_500_000, 1);
    // Every third run of 40 000 values differs, so that tiles do and do not.
    let two: Vec<f32> =
        one.iter().enumerate().map(|(n, v)| if n / 40_000 % 3 == 0 { v * 1.001 } else { *v }).collect();
    write(&a, &[("w", "F32", "[1500000]", &bytes(&one)), ("x", "F32", "[3]", &bytes(&one[..3]))]);
    write(&b, &[("w", "F32", "[1500000]", &bytes(&two)), ("x", "F32", "[3]", &bytes(&one[..3]))]);
    let with = |threads| {
        let mut host = host();
        host.set_threads(threads);
        let diff = compare(&host, &a, &b, &DiffOptions::default()).unwrap();
        serde_json::to_string(&diff.tensors).unwrap()
    };
    let alone = with(1);
    for threads in [2, 7, 64] {
        assert_eq!(with(threads), alone, "{threads} threads");
    }
}

#[test]
fn both_orders_tell_the_same() {
    let scratch = Scratch::new();
    let (a, b) = (scratch.at("a.safetensors"), scratch.at("b.safetensors"));
    let (one, two) = (weights(5000, 1), weights(5000, 2));
    write(&a, &[("w", "F32", "[5000]", &bytes(&one)), ("only", "U8", "[1]", &[1])]);
    write(&b, &[("w", "F32", "[5000]", &bytes(&two)), ("shape", "U8", "[2]", &[1, 2])]);
    let (there, back) =
        (compared(&a, &b, &DiffOptions::default()), compared(&b, &a, &DiffOptions::default()));
    assert_eq!(statuses(&there), [Status::OnlyInA, Status::OnlyInB, Status::Different]);
    assert_eq!(statuses(&back), statuses(&there));
    let find = |diff: &Diff| serde_json::to_string(&diff.tensors[2].values).unwrap();
    assert_eq!(find(&there), find(&back));
}

#[test]
fn types_are_told_apart_unless_values_decide() {
    let scratch = Scratch::new();
    let (a, b) = (scratch.at("a.safetensors"), scratch.at("b.safetensors"));
    write(&a, &[("w", "F16", "[2]", &[0x00, 0x3c, 0x00, 0xc0])]);
    write(&b, &[("w", "F32", "[2]", &bytes(&[1.0, -2.0]))]);
    let strict = compared(&a, &b, &DiffOptions::default());
    assert_eq!((statuses(&strict), strict.same), (vec![Status::Equal], false));
    let by_value = DiffOptions { tolerance: Some(0.0), ..DiffOptions::default() };
    assert!(compared(&a, &b, &by_value).same);
    // Minus zero has the value of zero, and other bits.
    write(&a, &[("w", "F32", "[2]", &bytes(&[1.0, 0.0]))]);
    write(&b, &[("w", "F32", "[2]", &bytes(&[1.0, -0.0]))]);
    assert!(!compared(&a, &b, &DiffOptions::default()).same && compared(&a, &b, &by_value).same);
}

#[test]
fn a_tolerance_forgives_and_not_a_number_is_never_forgiven() {
    let scratch = Scratch::new();
    let (a, b) = (scratch.at("a.safetensors"), scratch.at("b.safetensors"));
    write(&a, &[("w", "F32", "[2]", &bytes(&[1.0, 2.0]))]);
    write(&b, &[("w", "F32", "[2]", &bytes(&[1.0, 2.5]))]);
    let tolerance = |t| compared(&a, &b, &DiffOptions { tolerance: Some(t), ..DiffOptions::default() });
    assert_eq!((tolerance(0.5).same, statuses(&tolerance(0.5))), (true, vec![Status::WithinTolerance]));
    assert_eq!((tolerance(0.4).same, statuses(&tolerance(0.4))), (false, vec![Status::Different]));
    write(&b, &[("w", "F32", "[2]", &bytes(&[1.0, f32::NAN]))]);
    assert!(!compared(&a, &b, &DiffOptions { tolerance: Some(1e30), ..DiffOptions::default() }).same);
}

#[test]
fn other_names_are_found_by_content_and_mapped_by_the_user() {
    let scratch = Scratch::new();
    let (a, b) = (scratch.at("a.safetensors"), scratch.at("b.safetensors"));
    let (one, two) = (bytes(&[1.0, 2.0]), bytes(&[1.0, 3.0]));
    write(&a, &[("x", "F32", "[2]", &one), ("y", "F32", "[2]", &two)]);
    write(&b, &[("p", "F32", "[2]", &two), ("q", "F32", "[2]", &two)]);
    let found = compared(&a, &b, &DiffOptions::default());
    assert_eq!(statuses(&found), [Status::OnlyInA, Status::OnlyInB, Status::Renamed]);
    let renamed = &found.tensors[2];
    let names = [&renamed.a, &renamed.b].map(|side| side.as_ref().map(|side| side.name.clone()).unwrap());
    assert_eq!((names, found.same), (["y".to_owned(), "p".to_owned()], false));

    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    let mapped = |mapping: &[(String, String)]| {
        compare(&host(), &a, &b, &DiffOptions { mapping: mapping.to_vec(), ..DiffOptions::default() })
    };
    let diff = mapped(&[pair("x", "p"), pair("y", "q")]).unwrap();
    assert_eq!((statuses(&diff), diff.counts.identical), (vec![Status::Different], 1));
    for wrong in [vec![pair("z", "p")], vec![pair("x", "z")], vec![pair("x", "p"), pair("y", "p")]] {
        assert_eq!(mapped(&wrong).unwrap_err().kind(), ErrorKind::InvalidArgument, "{wrong:?}");
    }
}

#[test]
fn quantized_types_are_compared_by_what_their_blocks_say() {
    let types = apr_tests::fixtures("gguf").join("types.gguf");
    let scratch = Scratch::new();
    let other = scratch.at("other.gguf");
    let mut changed = std::fs::read(&types).unwrap();
    let at = changed.len() - 40;
    changed[at] ^= 1;
    std::fs::write(&other, changed).unwrap();
    let diff = compared(&types, &other, &DiffOptions::default());
    assert_eq!((statuses(&diff), diff.same), (vec![Status::Different], false));
    let values = diff.tensors[0].values.as_ref().unwrap();
    assert!(values.differing > 0 && values.differing < values.count && values.max_abs > 0.0, "{values:?}");
    assert!(diff.tensors[0].values_missing.is_none());
}

#[test]
fn the_farthest_come_first_and_shapes_are_told() {
    let scratch = Scratch::new();
    let (a, b) = (scratch.at("a.safetensors"), scratch.at("b.safetensors"));
    let one = bytes(&[1.0, 1.0]);
    let (near, far) = (bytes(&[1.0, 1.1]), bytes(&[1.0, 9.0]));
    write(&a, &[("n", "F32", "[2]", &one), ("f", "F32", "[2]", &one), ("s", "F32", "[2]", &one)]);
    write(&b, &[("n", "F32", "[2]", &near), ("f", "F32", "[2]", &far), ("s", "F32", "[2,1]", &one)]);
    let diff = compared(&a, &b, &DiffOptions::default());
    let names: Vec<_> = diff.tensors.iter().map(|t| t.a.as_ref().unwrap().name.clone()).collect();
    assert_eq!((names, diff.counts.shape), (vec!["s".to_owned(), "f".to_owned(), "n".to_owned()], 1));
}
