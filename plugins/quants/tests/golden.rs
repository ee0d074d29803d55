//! What ggml makes of the seeded sets, as digests in `golden.toml`, and whether we make the same. To write it anew, and to
//! count blocks that differ:
//!
//! ```text
//! APR_GGML=libggml-base.so APR_TYPES="Q4_K Q6_K" cargo test -p apr-plugin-quants --test main -- --ignored golden::bless
//! APR_GGML=libggml-base.so APR_TYPES="Q4_K Q6_K" cargo test -p apr-plugin-quants --test main -- --ignored --nocapture differing
//! ```

use crate::data::{ROW, SETS, importance, weights};
use crate::ggml::Ggml;
use apr_plugin_quants::PLUGIN;
use apr_plugin_quants::types::{BlockType, TYPES};
use apr_sdk::{DType, Quantizer, Result};
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Type, then set, with `+imatrix` behind it: the digest of ggml's blocks and of what it decodes from them, or `refused`
/// where ggml ends the process.
type Golden = BTreeMap<String, BTreeMap<String, String>>;

fn quantizer() -> Box<dyn Quantizer> {
    (PLUGIN.quantizer)().unwrap()
}

fn encode(dtype: DType, rows: &[f32], importance: Option<&[f32]>) -> Result<Vec<u8>> {
    let info = dtype.info().unwrap();
    let mut out = vec![0; rows.len() / info.block_elements as usize * info.block_bytes as usize];
    quantizer().encode(dtype, rows, ROW as u64, importance, &mut out).map(|()| out)
}

fn decode(dtype: DType, blocks: &[u8]) -> Vec<f32> {
    let info = dtype.info().unwrap();
    let mut out = vec![0.0; blocks.len() / info.block_bytes as usize * info.block_elements as usize];
    quantizer().decode(dtype, blocks, ROW as u64, &mut out).unwrap();
    out
}

fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

fn digest_of_floats(values: &[f32]) -> String {
    let mut bytes = vec![[0; 4]; values.len()];
    bytes.iter_mut().zip(values).for_each(|(bytes, value)| *bytes = value.to_le_bytes());
    digest(bytes.as_flattened())
}

fn cases(dtype: DType, needs_importance: bool) -> Vec<(&'static str, bool)> {
    let ignores = matches!(dtype, DType::Q8_1 | DType::Q8_K);
    let both = |set| [(set, false), (set, true)].map(|case| case);
    SETS.into_iter()
        .flat_map(both)
        .filter(|(_, with)| (*with || !needs_importance) && !(*with && ignores))
        .collect()
}

fn key((set, with): (&str, bool)) -> String {
    format!("{set}{}", if with { "+imatrix" } else { "" })
}

fn read() -> Golden {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden.toml");
    toml::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The cases of a type that are not as golden says.
fn wrong(golden: &Golden, of: &BlockType) -> Vec<String> {
    let known = golden.get(of.dtype.name()).unwrap_or_else(|| panic!("golden.toml lacks {}", of.dtype));
    let is_wrong = |case: &(&str, bool)| {
        let values = importance(case.0);
        let said = match encode(of.dtype, weights(case.0), case.1.then_some(&values[..])) {
            Ok(blocks) => format!("{} {}", digest(&blocks), digest_of_floats(&decode(of.dtype, &blocks))),
            Err(_) => "refused".to_owned(),
        };
        known.get(&key(*case)) != Some(&said)
    };
    let wrong = cases(of.dtype, of.needs_importance).into_iter().filter(is_wrong);
    wrong.map(|case| format!("{} {}", of.dtype, key(case))).collect()
}

/// What `judge` finds of each type, two types at a time.
fn on_two_threads<T: Send>(
    types: &[&'static BlockType],
    judge: impl Fn(&BlockType) -> Vec<T> + Sync,
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let work = || {
        let mine = std::iter::from_fn(|| types.get(next.fetch_add(1, Ordering::Relaxed)));
        mine.flat_map(|of| judge(of)).collect::<Vec<_>>()
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(work);
        let mut found = work();
        found.extend(other.join().unwrap());
        found
    })
}

#[test]
fn every_type_gives_the_bytes_of_ggml() {
    let golden = read();
    let wrong = on_two_threads(TYPES, |of| wrong(&golden, of));
    assert!(wrong.is_empty(), "not as ggml: {wrong:?}");
}

#[test]
fn golden_knows_every_type_and_case() {
    let golden = read();
    assert_eq!(golden.len(), TYPES.len(), "a type is missing in golden.toml, or in TYPES");
    for of in TYPES {
        assert_eq!(golden[of.dtype.name()].len(), cases(of.dtype, of.needs_importance).len(), "{}", of.dtype);
    }
}

/// The types that `APR_TYPES` names, or all.
fn asked() -> impl Iterator<Item = &'static BlockType> {
    let names = std::env::var("APR_TYPES").unwrap_or_default();
    let names: Vec<String> = names.split_whitespace().map(str::to_owned).collect();
    TYPES
        .iter()
        .copied()
        .filter(move |of| names.is_empty() || names.iter().any(|name| name == of.dtype.name()))
}

/// What ggml makes of a case, asked in a process of its own, since ggml ends the process where it refuses.
fn ask(dtype: DType, case: (&str, bool)) -> Option<Vec<u8>> {
    let file = std::env::temp_dir().join(format!("apr-ggml-{}-{dtype}", std::process::id()));
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child
        .args(["--ignored", "--exact", "golden::answer"])
        .env("APR_ASKED", dtype.name())
        .env("APR_SET", case.0);
    child.env("APR_WITH", case.1.to_string()).env("APR_ANSWER", &file);
    let answered = child.output().unwrap().status.success();
    let blocks = answered.then(|| std::fs::read(&file).unwrap());
    let _ = std::fs::remove_file(&file);
    blocks
}

#[test]
#[ignore = "answers a question of `bless` or `differing`"]
fn answer() {
    let variable = |name: &str| std::env::var(name).unwrap();
    let (set, with) = (variable("APR_SET"), variable("APR_WITH") == "true");
    let dtype = DType::from_name(&variable("APR_ASKED")).unwrap();
    let values = importance(&set);
    let blocks = Ggml::load().encode(dtype, weights(&set), ROW, with.then_some(&values[..]));
    std::fs::write(variable("APR_ANSWER"), blocks).unwrap();
}

/// What golden.toml must say of ggml's answer.
fn stated(ggml: &Ggml, dtype: DType, answer: Option<&[u8]>) -> String {
    answer.map_or_else(
        || "refused".to_owned(),
        |blocks| {
            let values = ggml.decode(dtype, blocks).unwrap_or_else(|| decode(dtype, blocks));
            format!("{} {}", digest(blocks), digest_of_floats(&values))
        },
    )
}

#[test]
#[ignore = "needs ggml; writes golden.toml"]
fn bless() {
    let ggml = Ggml::load();
    // What is not asked for stays.
    let mut golden = read();
    for of in asked() {
        for case in cases(of.dtype, of.needs_importance) {
            let said = stated(&ggml, of.dtype, ask(of.dtype, case).as_deref());
            golden.entry(of.dtype.name().to_owned()).or_default().insert(key(case), said);
        }
    }
    let head = "# What ggml 0.26.0 makes of the sets of data.rs: SHA-256, cut to 16 bytes, of the blocks and of what it\n\
                # decodes from them. Written by `bless` in golden.rs; `refused` where ggml ends the process.\n\n";
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden.toml");
    std::fs::write(path, head.to_owned() + &toml::to_string(&golden).unwrap()).unwrap();
}

#[test]
#[ignore = "needs ggml; counts blocks that differ"]
fn differing() {
    let (ggml, golden, types) = (Ggml::load(), read(), asked().collect::<Vec<_>>());
    let all = on_two_threads(&types, |of| {
        let found: Vec<String> = cases(of.dtype, of.needs_importance)
            .into_iter()
            .filter_map(|case| {
                difference(&ggml, &golden, of, case).map(|said| format!("{} {said}", key(case)))
            })
            .collect();
        println!("{}: {}", of.dtype, if found.is_empty() { "as ggml".to_owned() } else { found.join(", ") });
        found
    });
    assert_eq!(all.len(), 0, "cases differ");
}

/// How ours differs from ggml's, or golden.toml from either; `None` if all three say the same.
fn difference(ggml: &Ggml, golden: &Golden, of: &BlockType, case: (&str, bool)) -> Option<String> {
    let (rows, values) = (weights(case.0), importance(case.0));
    let ours = encode(of.dtype, rows, case.1.then_some(&values[..])).ok();
    let theirs = ask(of.dtype, case);
    let known = golden.get(of.dtype.name()).and_then(|known| known.get(&key(case)));
    if known != Some(&stated(ggml, of.dtype, theirs.as_deref())) {
        return Some("GOLDEN.TOML SAYS OTHERWISE".to_owned());
    }
    let (ours, theirs) = match (ours, theirs) {
        (None, None) => return None,
        (Some(_), None) => return Some("ONLY GGML REFUSES".to_owned()),
        (None, Some(_)) => return Some("ONLY OURS REFUSES".to_owned()),
        (Some(ours), Some(theirs)) => (ours, theirs),
    };
    let size = of.dtype.info().unwrap().block_bytes as usize;
    let differ = |n: &usize| ours[n * size..(n + 1) * size] != theirs[n * size..(n + 1) * size];
    let blocks: Vec<usize> = (0..ours.len() / size).filter(differ).collect();
    let bits = |values: Vec<f32>| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
    let decoded = ggml.decode(of.dtype, &theirs).is_none_or(|d| bits(d) == bits(decode(of.dtype, &theirs)));
    if blocks.is_empty() && decoded {
        return None;
    }
    let more = if decoded { "" } else { " DECODED OTHERWISE" };
    Some(format!("{} of {} (first {:?}){more}", blocks.len(), ours.len() / size, blocks.first()))
}
