//! Figures against a plain loop: one model and two, payload of every kind, any number of threads, payload read once.

use crate::{bytes, measured, opened, weights, write};
use apr_engine::survey::{Status, SurveyedSide, survey};
use apr_host::threads::Threads;
use apr_sdk::DType;
use apr_tests::kinds::{self, Kind, Tensor};
use apr_tests::{Scratch, host, host_with};
use std::sync::Arc;

/// The figures of a side against those of a loop over its values.
fn check(side: &SurveyedSide, values: &[f32], name: &str) {
    let statistics = side.statistics.as_ref().unwrap();
    let finite: Vec<f64> = values.iter().filter(|v| v.is_finite()).map(|v| f64::from(*v)).collect();
    let count = |is: fn(&f32) -> bool| values.iter().filter(|value| is(value)).count() as u64;
    assert_eq!(statistics.values, values.len() as u64, "{name}");
    assert_eq!(statistics.zeros, count(|v| *v == 0.0), "{name}");
    assert_eq!(statistics.nans, count(|v| v.is_nan()), "{name}");
    assert_eq!(statistics.infs, count(|v| v.is_infinite()), "{name}");
    let least = finite.iter().copied().reduce(f64::min);
    let greatest = finite.iter().copied().reduce(f64::max);
    assert_eq!((statistics.min, statistics.max), (least, greatest), "{name}");
    let near = |have: Option<f64>, want: f64| (have.unwrap() - want).abs() <= 1e-6 * want.abs().max(1e-3);
    let n = finite.len() as f64;
    assert!(near(statistics.mean, finite.iter().sum::<f64>() / n), "{name}: {statistics:?}");
    let rms = (finite.iter().map(|v| v * v).sum::<f64>() / n).sqrt();
    assert!(near(side.rms, rms), "{name}: {:?} and {rms}", side.rms);
    let bins = side.histogram.as_ref().unwrap();
    assert_eq!(bins.counts.iter().sum::<u64>(), finite.len() as u64, "{name}");
    assert_eq!(bins.edges.len(), bins.counts.len() + 1);
    for (at, count) in bins.counts.iter().enumerate() {
        let [from, to] = [bins.edges[at], bins.edges[at + 1]];
        let over = |value: f64, edge: f64| if edge >= 0.0 { value >= edge } else { value > edge };
        let last = at + 1 == bins.counts.len();
        let inside = |v: &&f64| (at == 0 || over(**v, from)) && (last || !over(**v, to));
        assert_eq!(finite.iter().filter(inside).count() as u64, *count, "{name}, bin {at}");
    }
}

#[test]
fn every_kind_of_payload_gives_what_a_plain_loop_finds() {
    let mut registry = apr_engine::registry::Registry::new();
    apr_host::plugins::add_bundled(&mut registry, &kinds::PLUGIN);
    let host = host_with(registry);
    let scratch = Scratch::new();
    // More than a tile, and a rest.
    let mut values = weights(150_007, 1);
    (values[3], values[70_000], values[150_006]) = (f32::NAN, f32::INFINITY, -7.5);
    values[10..30].fill(0.0);
    let shape = [values.len() as u64];
    let tensor = |name: &str, kind| Tensor::new(name, kind, DType::F32, &shape, bytes(&values));
    let tensors = vec![
        tensor("plain", Kind::Plain),
        Tensor { size: 10_007, ..tensor("blocks", Kind::Blocks) },
        Tensor { size: 10_007, ..tensor("stream", Kind::Stream) },
    ];
    let path = scratch.at("a.kinds");
    std::fs::write(&path, kinds::file(tensors)).unwrap();
    let plain = scratch.at("b.safetensors");
    let other: Vec<f32> = values.iter().map(|v| v + 0.001).collect();
    let written = ["plain", "blocks", "stream"].map(|name| (name, "F32", &shape[..], bytes(&other)));
    write(&plain, &written);
    let alone = measured(&host, &path, None);
    let beside = measured(&host, &path, Some(&plain));
    assert_eq!((alone.tensors.len(), beside.tensors.len()), (3, 3));
    for tensor in alone.tensors.iter().chain(&beside.tensors) {
        check(tensor.a.as_ref().unwrap(), &values, &tensor.name);
        if let Some(b) = &tensor.b {
            check(b, &other, &tensor.name);
            let error = tensor.error.as_ref().unwrap();
            assert_eq!((error.differing, error.mismatched), (values.len() as u64 - 2, 0), "{}", tensor.name);
            assert!((error.rmse.unwrap() - 0.001).abs() < 1e-6, "{error:?}");
        }
    }
}

#[test]
fn quantized_values_are_decoded_and_compared_with_their_source() {
    let scratch = Scratch::new();
    let values = weights(64 * 256, 5);
    let path = scratch.at("a.safetensors");
    let layer = |n: usize| format!("blk.{n}.ffn_up.weight");
    let names = [layer(0), layer(1), "output.weight".to_owned()];
    let tensors: Vec<_> = names.iter().map(|n| (n.as_str(), "F32", &[64, 256][..], bytes(&values))).collect();
    write(&path, &tensors);
    let output = scratch.at("b.gguf");
    let mut options = apr_tests::options(&path, &output);
    options.quantization.recipe = Some("Q4_0".to_owned());
    let host = host();
    apr_tests::must(&host, &options);
    let found = measured(&host, &path, Some(&output));
    let error = found.tensors[0].error.as_ref().unwrap();
    assert_eq!(found.tensors[0].b.as_ref().unwrap().dtype, "Q4_0");
    assert_eq!(found.tensors[0].status, Some(Status::Different));
    let relative = error.relative.unwrap();
    assert!(relative > 0.02 && relative < 0.15, "{error:?}");
    let b = found.tensors[0].b.as_ref().unwrap();
    assert_eq!(b.statistics.as_ref().unwrap().values, 64 * 256);
    let map = found.heat_map.unwrap();
    assert_eq!(map.kinds, ["ffn_up.weight"]);
    assert_eq!(map.rows.iter().map(|row| row.layer.as_str()).collect::<Vec<_>>(), ["blk.0", "blk.1"]);
    assert_eq!(map.rows[1].relative_errors, [Some(relative)]);
    assert_eq!(map.outside[0].0, "output.weight");
    // The same tensor twice in a layer of its own: the layer's error is the tensor's.
    assert_eq!(found.layers[1].relative_error, Some(relative));
}

#[test]
fn any_number_of_threads_measures_the_same() {
    let scratch = Scratch::new();
    let path = scratch.at("a.safetensors");
    let other = scratch.at("b.safetensors");
    let (one, two) = (weights(400_000, 3), weights(400_000, 4));
    let sets: Vec<(String, &[f32])> =
        (0..20).map(|n| (format!("l.{n}.w"), &one[n * 1000..(n * 1000 + 1 + n * 20_000)])).collect();
    let tensors = |of: &[f32]| {
        let each = |(name, values): &(String, &[f32])| {
            let mixed: Vec<f32> = values.iter().zip(of).map(|(a, b)| a + b * 0.01).collect();
            (name.clone(), vec![values.len() as u64], bytes(&mixed))
        };
        sets.iter().map(each).collect::<Vec<_>>()
    };
    for (path, of) in [(&path, &one), (&other, &two)] {
        let made = tensors(of);
        let made: Vec<_> = made.iter().map(|(n, s, b)| (n.as_str(), "F32", &s[..], b.clone())).collect();
        write(path, &made);
    }
    let with = |threads: usize| {
        let mut host = host();
        host.crew = Arc::new(Threads::new(threads));
        let found = measured(&host, &path, Some(&other));
        serde_json::to_string(&found).unwrap()
    };
    let alone = with(1);
    assert!(alone == with(3) && alone == with(8), "threads change what is measured");
}

#[test]
fn payload_is_read_once() {
    let scratch = Scratch::new();
    let path = scratch.at("a.safetensors");
    let other = scratch.at("b.safetensors");
    let (one, two) = (weights(300_000, 3), weights(300_000, 4));
    // Names that only one has, of the same type and shape: a comparison by content would read them for that.
    write(&path, &[("w", "F32", &[300_000], bytes(&one)), ("a", "F32", &[300_000], bytes(&one))]);
    write(&other, &[("w", "F32", &[300_000], bytes(&two)), ("b", "F32", &[300_000], bytes(&one))]);
    let host = host();
    let (a, b) = (opened(&host, &path), opened(&host, &other));
    let before = [a.files.bytes_read(), b.files.bytes_read()];
    let found = survey(&host, &a, Some(&b), 10).unwrap();
    let read = [a.files.bytes_read() - before[0], b.files.bytes_read() - before[1]];
    assert_eq!(read, [2_400_000; 2]);
    let status: Vec<_> = found.tensors.iter().map(|t| (t.name.as_str(), t.status.unwrap())).collect();
    assert_eq!(status, [("w", Status::Different), ("a", Status::OnlyInA), ("b", Status::OnlyInB)]);
}

#[test]
fn a_stop_is_heard() {
    let scratch = Scratch::new();
    let path = scratch.at("a.safetensors");
    write(&path, &[("w", "F32", &[300_000], bytes(&weights(300_000, 3)))]);
    let host = host();
    let a = opened(&host, &path);
    host.cancel.store(true, std::sync::atomic::Ordering::Relaxed);
    let error = survey(&host, &a, None, 10).unwrap_err();
    assert_eq!(error.kind(), apr_sdk::ErrorKind::Cancelled);
}
