//! Perplexity, divergence and importance of the trained model are what llama.cpp's own tools say (`tests/model/measured`).

use crate::loading::{convert_to, exact, loaded, trained};
use apr_engine::crew::Alone;
use apr_engine::types::quantize::{read_sums, sums_file};
use apr_host::running::{LoadOptions, Loaded};
use apr_inference::importance::{Collector, merge, statistics};
use apr_inference::perplexity::base::{Base, Header};
use apr_inference::perplexity::{Divergence, Estimate, Figures, Judge, Likelihood, Recorder, Windows, score};
use apr_sdk::{ImportanceSums, MemorySource, TensorSums};
use apr_tests::Scratch;
use serde_json::Value as Json;
use std::path::{Path, PathBuf};

fn measured() -> PathBuf {
    apr_tests::root().join("tests/model/measured")
}

fn figures() -> Json {
    serde_json::from_str(&std::fs::read_to_string(measured().join("figures.json")).unwrap()).unwrap()
}

fn number(json: &Json, path: &str) -> f64 {
    json.pointer(path).and_then(Json::as_f64).unwrap_or_else(|| panic!("no {path}"))
}

/// The ids of the held-out text, which begin with the beginning of text.
fn ids() -> Vec<u32> {
    let path = apr_tests::root().join("tests/model/golden.json");
    let golden: Json = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let ids = golden["held_out"]["ids"].as_array().unwrap();
    ids.iter().map(|id| id.as_u64().unwrap() as u32).collect()
}

fn windows(size: f64, most: Option<usize>) -> Windows {
    let ids = ids();
    let first = ids[0];
    Windows::new(ids, size as usize, Some(first), most).unwrap()
}

/// The trained model as a GGUF file of a type.
fn file(scratch: &Scratch, kind: &str) -> PathBuf {
    let path = scratch.at(&format!("{kind}.gguf"));
    convert_to(&trained(), &path, Some(kind));
    path
}

fn run(loaded: &mut Loaded, windows: &Windows, judge: &mut dyn Judge) {
    for window in windows.iter() {
        score(&mut loaded.runner, &Alone, &window, judge).unwrap();
    }
}

fn perplexity(path: &Path, windows: &Windows) -> Estimate {
    let mut likelihood = Likelihood::default();
    run(&mut loaded(path, &exact()), windows, &mut likelihood);
    assert_eq!(likelihood.count() as usize, windows.len() * (windows.size() / 2 - 1));
    likelihood.perplexity()
}

/// Fails if two numbers are further apart than a share of the second.
fn near(what: &str, have: f64, want: f64, share: f64) {
    let apart = (have - want).abs() / want.abs();
    println!("{what}: {have:.6}, llama.cpp {want:.6}");
    assert!(apart <= share, "{what}: {have}, llama.cpp has {want}: {apart:.1e} apart");
}

#[test]
fn perplexities_are_those_of_llama_perplexity() {
    let figures = figures();
    let windows = windows(number(&figures, "/window"), None);
    let scratch = Scratch::new();
    let [mut ours, mut theirs] = [None; 2];
    for (kind, share) in [("F32", 1e-3), ("F16", 1e-3), ("Q8_0", 5e-3), ("Q4_K_M", 5e-3)] {
        let have = perplexity(&file(&scratch, kind), &windows);
        let want = number(&figures, &format!("/perplexity/{kind}/mean"));
        near(kind, have.mean, want, share);
        near("its error", have.error, number(&figures, &format!("/perplexity/{kind}/error")), 1e-2);
        let [of_f32, of_f32_theirs] = [*ours.get_or_insert(have.mean), *theirs.get_or_insert(want)];
        println!(
            "  over F32: {:+.4} %, llama.cpp {:+.4} %",
            (have.mean / of_f32 - 1.0) * 100.0,
            (want / of_f32_theirs - 1.0) * 100.0
        );
    }
}

/// The figures of a model against llama-perplexity's base file.
fn compare(path: &Path, bytes: &[u8]) -> Figures {
    let source = MemorySource::new("base.kld", bytes);
    let base = Base::open(&source).unwrap();
    let ids = ids();
    assert_eq!(base.ids, ids[..base.ids.len()], "the tokens of the text");
    let windows = Windows::of_whole(base.ids.clone(), base.header.window as usize, Some(ids[0]), None);
    let mut divergence = Divergence::new(base);
    run(&mut loaded(path, &exact()), &windows, &mut divergence);
    divergence.figures()
}

#[test]
fn divergences_from_its_base_file_are_those_of_llama_perplexity() {
    let figures = figures();
    let bytes = std::fs::read(measured().join("base.kld")).unwrap();
    let scratch = Scratch::new();
    // Of F16 the divergence is that of the codes of 16 bits; what multiplies blocks rounds activations in its own way.
    for (kind, share) in [("F16", 0.1), ("Q8_0", 0.5), ("Q4_K_M", 0.05)] {
        let have = compare(&file(&scratch, kind), &bytes);
        let want = |name: &str| number(&figures, &format!("/divergence/{kind}/{name}"));
        near("the base's perplexity", have.base.mean, want("base_perplexity/mean"), 1e-5);
        near("its error", have.base.error, want("base_perplexity/error"), 1e-4);
        near(
            "perplexity",
            have.perplexity.mean,
            want("perplexity/mean"),
            if kind == "F16" { 1e-3 } else { 5e-3 },
        );
        // What both round in their own way is about as large as what Q8_0 itself changes.
        let spread = (2.0 * want("ratio/error")).max(2e-4);
        assert!((have.ratio.mean - want("ratio/mean")).abs() < spread, "{kind}: {:?}", have.ratio);
        let divergence = want("divergence/mean");
        assert!(
            (have.divergence.mean - divergence).abs() < 2e-5 + share * divergence,
            "{kind}: {:?}",
            have.divergence
        );
        let median = have.divergences.at(0.5).unwrap();
        assert!(
            (median - want("divergences/median")).abs() < 2e-5 + 1.5 * share * want("divergences/median"),
            "{kind}: {median}"
        );
        let rms = want("rms_probability/mean");
        assert!(
            (have.root_mean_square.mean - rms).abs() < 2e-4 + share * rms,
            "{kind}: {:?}",
            have.root_mean_square
        );
        assert!((have.same_top.mean - want("same_top/mean")).abs() < 0.03, "{kind}: {:?}", have.same_top);
    }
}

#[test]
fn a_base_file_is_that_of_llama_perplexity() {
    let theirs = std::fs::read(measured().join("base.kld")).unwrap();
    let scratch = Scratch::new();
    let mut loaded = loaded(&file(&scratch, "F32"), &exact());
    let figures = figures();
    let windows = windows(number(&figures, "/base_window"), Some(number(&figures, "/base_chunks") as usize));
    let header = Header {
        window: windows.size() as u32,
        vocabulary: loaded.runner.width() as u32,
        windows: windows.len() as u32,
    };
    let mut ours = header.to_bytes(windows.ids()).unwrap();
    let tokens = ours.len();
    let mut give = |bytes: &[u8]| {
        ours.extend(bytes);
        Ok(())
    };
    let mut recorder = Recorder::new(&mut give);
    run(&mut loaded, &windows, &mut recorder);
    near(
        "perplexity",
        recorder.likelihood.perplexity().mean,
        number(&figures, "/base_perplexity/mean"),
        1e-3,
    );
    assert_eq!((ours.len(), &ours[..tokens]), (theirs.len(), &theirs[..tokens]));
    // Codes of 16 bits over a range of at most 16: logits are some 1e-5 apart.
    let row = 2 * header.vocabulary as usize + 8;
    let mut apart = 0;
    for (a, b) in ours[tokens..].chunks_exact(row).zip(theirs[tokens..].chunks_exact(row)) {
        for (a, b) in a[8..].as_chunks::<2>().0.iter().zip(b[8..].as_chunks::<2>().0) {
            apart = apart.max(u16::from_le_bytes(*a).abs_diff(u16::from_le_bytes(*b)));
        }
    }
    println!("codes are at most {apart} apart");
    assert!(apart <= 8, "codes are {apart} apart");
}

/// The sums over the held-out text.
fn collected(path: &Path, windows: &Windows) -> Vec<TensorSums> {
    let options = LoadOptions { taps: true, ..exact() };
    let mut loaded = loaded(path, &options);
    let mut collector = Collector::new(&loaded.built, true).unwrap();
    for window in windows.iter() {
        collector.window(&mut loaded.runner, &window).unwrap();
    }
    collector.sums().unwrap()
}

/// Fails unless both have the same tensors and counts, and sums within a share of each other.
fn alike(have: &[TensorSums], want: &[TensorSums], share: f32) {
    let mut worst = 0.0f32;
    assert_eq!(have.len(), want.len());
    for want in want {
        let have =
            have.iter().find(|have| have.name == want.name).unwrap_or_else(|| panic!("no {}", want.name));
        assert_eq!((&have.counts, have.sums.len()), (&want.counts, want.sums.len()), "{}", want.name);
        for (have, want) in have.sums.iter().zip(&want.sums) {
            worst = worst.max((have - want).abs() / want.abs().max(f32::MIN_POSITIVE));
        }
    }
    println!("sums are at most {worst:.1e} apart");
    assert!(worst <= share, "sums are {worst:.1e} apart");
}

#[test]
fn importance_is_that_of_llama_imatrix() {
    let figures = figures();
    let windows = windows(number(&figures, "/window"), None);
    let scratch = Scratch::new();
    let host = apr_tests::host();
    // What multiplies F16 rounds activations to F16 in llama.cpp.
    for (kind, share) in [("F32", 1e-3), ("F16", 2e-3)] {
        let theirs = read_sums(&host, &measured().join(format!("imatrix-{kind}.gguf"))).unwrap();
        assert_eq!((theirs.chunks as usize, theirs.chunk_size as usize), (windows.len(), windows.size()));
        let have = collected(&file(&scratch, kind), &windows);
        // The output is the embedding too, and left out.
        alike(&have, &theirs.tensors, share);
        // Seven matrices in each of four layers.
        assert_eq!(have.len(), 28);
    }
}

#[test]
fn files_of_sums_are_those_of_llama_imatrix() {
    let host = apr_tests::host();
    let bytes = std::fs::read(measured().join("imatrix-F32.gguf")).unwrap();
    let sums = read_sums(&host, &measured().join("imatrix-F32.gguf")).unwrap();
    assert_eq!(sums.datasets, ["held-out.txt"]);
    assert!(sums_file(&host, &sums, "x.gguf", None).unwrap() == bytes, "the newer form");
    assert!(sums_file(&host, &sums, "x", None).unwrap() == bytes, "the usual form");
    let older = std::fs::read(measured().join("imatrix-F32.dat")).unwrap();
    assert!(sums_file(&host, &sums, "x.dat", None).unwrap() == older, "the older form");
    assert!(sums_file(&host, &sums, "x.gguf", Some("dat")).unwrap() == older, "the older form by name");
    let error = sums_file(&host, &sums, "x", Some("yaml")).unwrap_err();
    assert!(error.message().contains("unknown form `yaml`"), "{error}");
    // The older form has no sums: llama.cpp takes what it has times the size of a chunk for them.
    let mut read: ImportanceSums = read_sums(&host, &measured().join("imatrix-F32.dat")).unwrap();
    assert_eq!((read.chunk_size, read.chunks, &read.datasets), (0, sums.chunks, &sums.datasets));
    apr_inference::importance::rescale(&mut read, sums.chunk_size);
    alike(&read.tensors, &sums.tensors, 1e-5);
    let mut twice = sums.tensors.clone();
    merge(&mut twice, sums.tensors.clone()).unwrap();
    assert_eq!(twice[0].counts[0], 2 * sums.tensors[0].counts[0]);
}

#[test]
fn statistics_are_those_of_llama_imatrix() {
    let host = apr_tests::host();
    let sums = read_sums(&host, &measured().join("imatrix-F32.gguf")).unwrap();
    let have = statistics(&sums.tensors);
    let figures = figures();
    let rows = figures["statistics"].as_array().unwrap();
    assert_eq!(rows.len(), have.len());
    for row in rows {
        let cell = |at: usize| row[at].as_f64().unwrap();
        let (layer, tensor) = (row[0].as_str().unwrap(), row[1].as_str().unwrap());
        let name = format!("blk.{layer}.{tensor}.weight");
        let found = have.iter().find(|found| found.name == name).unwrap_or_else(|| panic!("no {name}"));
        // As printed: with two or four digits.
        for (what, have, want, digit) in [
            ("sum", found.total, cell(2), 0.01),
            ("min", found.min, cell(3), 1e-4),
            ("max", found.max, cell(4), 1e-4),
            ("mean", found.mean, cell(5), 0.01),
            ("std", found.deviation, cell(6), 0.01),
            ("active", found.active * 100.0, cell(7), 0.01),
            ("entropy", found.entropy, cell(9), 1e-3),
            ("entropy share", found.entropy_share * 100.0, cell(10), 0.01),
            ("outliers", found.outliers * 100.0, cell(11), 0.01),
            ("cosine", found.similarity.unwrap_or(0.0), cell(12), 1e-3),
        ] {
            assert!(
                (have - want).abs() <= digit + 1e-5 * want.abs(),
                "{name}: {what} {have}, llama.cpp {want}"
            );
        }
        assert_eq!(found.columns as f64, cell(8), "{name}");
    }
}
