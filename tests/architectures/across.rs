//! A folder and the GGUF made of it are the same model: `diff` and `rosetta verify` read one in the other's dialect, and
//! see what is really different.

use crate::models::{goldens, name, opened};
use apr_engine::diff::{Diff, DiffOptions, FactKind, Status, diff};
use apr_engine::rosetta::compare::compare;
use apr_host::convert::{ConvertOptions, convert};
use apr_host::host::Host;
use apr_sdk::{Bytes, Payload};
use apr_testkit::Checkpoint;
use apr_tests::{Scratch, host, root};
use std::path::{Path, PathBuf};

fn folder_of(golden: &Path, scratch: &Scratch) -> PathBuf {
    let model = Checkpoint::golden(golden).unwrap();
    let folder = scratch.at(&model.name);
    model.write_to(&folder).unwrap();
    folder
}

fn job(input: &Path, output: &Path) -> ConvertOptions {
    ConvertOptions { input: input.to_owned(), output: Some(output.to_owned()), ..ConvertOptions::default() }
}

fn differ(host: &Host, a: &Path, b: &Path) -> Diff {
    diff(host, &opened(host, a), &opened(host, b), &DiffOptions::default()).unwrap()
}

/// What matters of a comparison, in words.
fn matters(found: &Diff) -> Vec<String> {
    let name = |side: &Option<apr_engine::diff::TensorSide>| side.as_ref().map(|s| s.name.clone());
    let tensors = found.tensors.iter().filter(|tensor| tensor.matters);
    let tensors = tensors.map(|t| format!("{:?} {:?} {:?}", t.status, name(&t.a), name(&t.b)));
    let facts = found.facts.iter().filter(|fact| fact.matters);
    tensors
        .chain(facts.map(|fact| format!("{:?} {} {:?} {:?}", fact.kind, fact.key, fact.a, fact.b)))
        .collect()
}

/// The chat template that the GGUF file of a reranker has beside its folder's.
const RERANK: &str = "chat template `rerank`";

#[test]
fn a_folder_and_the_file_made_of_it_are_the_same_model() {
    let host = host();
    let mut failed = Vec::new();
    for path in goldens() {
        let scratch = Scratch::new();
        let (folder, gguf) = (folder_of(&path, &scratch), scratch.at("m.gguf"));
        convert(&host, &job(&folder, &gguf)).unwrap();
        let held = scratch.at("m.apr");
        convert(&host, &job(&gguf, &held)).unwrap();
        for (a, b) in [(&folder, &gguf), (&held, &gguf)] {
            let found = differ(&host, a, b);
            let mut told = matters(&found);
            told.retain(|line| !(line.contains(RERANK) && name(&path).ends_with("-reranker")));
            if !told.is_empty() {
                failed.push(format!("{} {}: {told:?}", name(&path), b.display()));
            }
            let verified = compare(&host, &opened(&host, a), &opened(&host, b), None).unwrap();
            let first = verified.findings.iter().find(|finding| !finding.message.contains(RERANK));
            if let Some(first) = first {
                failed.push(format!("{} verify {}: {first:?}", name(&path), b.display()));
            }
        }
    }
    assert!(failed.is_empty(), "{}", failed.join("\n"));
}

#[test]
fn what_is_really_different_is_found() {
    let (host, scratch) = (host(), Scratch::new());
    let folder = folder_of(&root().join("tests/golden/mixtral"), &scratch);
    let (whole, q8, f16) = (scratch.at("m.gguf"), scratch.at("q8.gguf"), scratch.at("f16.gguf"));
    convert(&host, &job(&folder, &whole)).unwrap();
    let mut quantized = job(&folder, &q8);
    quantized.quantization.recipe = Some("q8_0".to_owned());
    convert(&host, &quantized).unwrap();
    // Quantized: figures for each tensor, none of them large.
    let found = differ(&host, &folder, &q8);
    assert!(!found.same && found.counts.only_in_a == 0 && found.counts.only_in_b == 0);
    let values: Vec<_> = found.tensors.iter().filter(|t| t.status == Status::Different).collect();
    assert!(values.len() > 8, "{:?}", found.counts);
    assert!(values.iter().all(|t| t.values.as_ref().is_some_and(|v| v.relative > 0.0 && v.relative < 0.01)));
    // Rounded to a narrower float: said, and no difference.
    let mut rounded = job(&folder, &f16);
    rounded.quantization.precision = Some(apr_sdk::DType::F16);
    convert(&host, &rounded).unwrap();
    let found = differ(&host, &folder, &f16);
    assert!(found.same, "{:?}", matters(&found));
    assert!(found.counts.rounded + found.counts.equal > 8, "{:?}", found.counts);
    // One bit of one value of a row that is moved.
    let model = opened(&host, &whole);
    let tensor = model.model.tensors.iter().find(|t| t.name == "blk.0.attn_q.weight").unwrap();
    let Payload::Extent { extent, .. } = tensor.payload else { panic!() };
    let held = model.fetch(&Bytes::Extent(extent)).unwrap();
    let mut bytes = std::fs::read(&whole).unwrap();
    let at = usize::try_from(extent.offset).unwrap();
    assert_eq!(&bytes[at..at + 4], &held.inline().unwrap()[..4]);
    bytes[at] ^= 1;
    std::fs::write(&whole, bytes).unwrap();
    for (a, b) in [(&folder, &whole), (&whole, &folder)] {
        let found = differ(&host, a, b);
        assert!(!found.same && found.counts.different == 1, "{:?}", found.counts);
        assert_eq!(found.tensors[0].values.as_ref().unwrap().differing, 1);
        let verified = compare(&host, &opened(&host, a), &opened(&host, b), None).unwrap();
        assert_eq!(verified.findings.len(), 1, "{:?}", verified.findings);
    }
}

#[test]
fn configurations_that_contradict_each_other_differ() {
    let (host, scratch) = (host(), Scratch::new());
    let folder = folder_of(&root().join("tests/golden/llama"), &scratch);
    let gguf = scratch.at("m.gguf");
    let mut options = job(&folder, &gguf);
    options.set = vec![("llama.rope.freq_base".to_owned(), "7000".to_owned())];
    convert(&host, &options).unwrap();
    let found = differ(&host, &folder, &gguf);
    assert!(!found.same);
    let facts: Vec<_> = found.facts.iter().filter(|fact| fact.matters).collect();
    assert!(
        facts.len() == 1 && facts[0].kind == FactKind::Config && facts[0].key == "rope_theta",
        "{facts:?}"
    );
    let verified = compare(&host, &opened(&host, &folder), &opened(&host, &gguf), None).unwrap();
    assert!(verified.findings.iter().any(|f| f.message.contains("rope_theta")), "{:?}", verified.findings);
}
