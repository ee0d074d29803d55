//! Models made again from their sources: `reproduce`, to the byte, and `derives`, block by block.

use crate::quantize::{COLUMNS, quantizing, values, write, write_matrix};
use apr_engine::convert::Output;
use apr_engine::convert::output::Shards;
use apr_engine::diff::derivation::{Derivation, Derived, Verdict};
use apr_engine::diff::reproduction::{Made, MadeFile, reproduce};
use apr_engine::open::{OpenOptions, open};
use apr_engine::place::Found;
use apr_engine::planned::record::OptionRecord;
use apr_engine::planned::request::Request;
use apr_host::host::Host;
use apr_host::storage::staged_file::temporary_scratch;
use apr_sdk::{ErrorKind, Result};
use apr_tests::{Scratch, host, must, options};
use serde_json::{Value as Json, json};
use std::path::{Path, PathBuf};

const NAMES: [&str; 3] = ["blk.0.attn_v.weight", "blk.0.ffn_down.weight", "blk.0.ffn_up.weight"];

/// A model of three matrices and a norm, from this seed.
fn model(path: &Path, seed: u64) {
    let matrices = [0, 1, 2].map(|n: usize| (NAMES[n], values(64 * COLUMNS, 10 * seed + n as u64)));
    let norm = values(COLUMNS, seed);
    let mut tensors: Vec<(&str, &[usize], &[f32])> = vec![("blk.0.attn_norm.weight", &[COLUMNS], &norm)];
    tensors.extend(matrices.iter().map(|(name, matrix)| (*name, &[64, COLUMNS][..], &matrix[..])));
    write(path, &tensors);
}

fn record(host: &Host, path: &Path) -> Json {
    let opened = open(host, path, &OpenOptions::default()).unwrap();
    let bytes = opened.fetch(opened.model.provenance.as_ref().unwrap()).unwrap();
    serde_json::from_slice(bytes.inline().unwrap()).unwrap()
}

/// Makes `file` again from `source` as its record says.
fn again(host: &Host, file: &Path, source: &Path) -> Result<Vec<MadeFile>> {
    let record = record(host, file);
    let options: OptionRecord =
        serde_json::from_value(record.get("options").cloned().unwrap_or(json!({}))).unwrap();
    let opened = open(host, file, &OpenOptions::default())?;
    let first = opened.files.all().iter().find(|file| !file.is_folder()).unwrap().name.clone();
    let request = Request { input: source.to_owned(), ..options.request()? };
    let format = host.registry.format(&opened.format)?;
    let shards = Shards { size: options.max_shard_size, tensors: options.max_shard_tensors };
    let output = Output::unplaced(format, Path::new(&first), source, shards, request.foreign)?;
    let place = host.places.locate(file)?.place;
    let open = |name: &str| match place.open(name) {
        Ok(Found::File(there)) => Ok(Some(there)),
        Ok(Found::Folder) => Ok(None),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    };
    let inputs = record["inputs"].as_array().unwrap();
    let inputs = Some(inputs.iter().map(|input| input["bytes"].as_u64().unwrap()).collect());
    reproduce(host, &request, output, &Made { file: &open, inputs }, &temporary_scratch)
}

fn assert_equal(files: &[MadeFile]) {
    assert!(files.iter().all(|file| file.differs_at.is_none()), "{files:?}");
}

#[test]
fn what_a_record_says_is_made_again_to_the_byte() {
    let scratch = Scratch::new();
    let (source, parts) = (scratch.at("in.safetensors"), scratch.at("parts"));
    model(&source, 1);
    for threads in [1, 3] {
        let mut host = host();
        host.set_threads(threads);
        let compressed = |level: &str| vec![(None, "compress".to_owned(), level.to_owned())];
        let mut wanted = vec![
            options(&source, &scratch.at(&format!("plain-{threads}.apr"))),
            quantizing(&source, &scratch.at(&format!("quantized-{threads}.apr")), "Q4_K_M"),
            options(&source, &scratch.at(&format!("compressed-{threads}.apr"))),
            options(&source, &scratch.at(&format!("renamed-{threads}.apr"))),
        ];
        wanted[2].options = compressed("zstd:7");
        wanted[3].options = compressed("lz4");
        wanted[3].renames = vec![("blk.0.*".to_owned(), "first.*".to_owned())];
        wanted[3].choice.exclude = vec!["*norm*".to_owned()];
        for one in &wanted {
            must(&host, one);
            let files = again(&host, one.output.as_ref().unwrap(), &source).unwrap();
            assert_equal(&files);
        }
        // A model of several files, opened by its folder and by its manifest.
        std::fs::create_dir_all(&parts).unwrap();
        let folder = parts.join(threads.to_string());
        std::fs::create_dir(&folder).unwrap();
        let mut sharded = options(&source, &folder);
        sharded.to = Some("apr".to_owned());
        sharded.max_shard_size = Some(300_000);
        must(&host, &sharded);
        let files = again(&host, &folder, &source).unwrap();
        assert!(files.len() > 2, "{files:?}");
        assert_equal(&files);
    }
}

#[test]
fn a_byte_that_is_another_is_found_wherever_it_is() {
    let (host, scratch) = (host(), Scratch::new());
    let source = scratch.at("in.safetensors");
    write(&source, &[("a", &[3], &[1.0, 2.0, 3.0]), ("b", &[70, 40], &values(2800, 3))]);
    let file = scratch.at("out.apr");
    let mut wanted = options(&source, &file);
    for method in [None, Some("zstd")] {
        wanted.force = true;
        wanted.options =
            method.map(|method| (None, "compress".to_owned(), method.to_owned())).into_iter().collect();
        must(&host, &wanted);
        let whole = std::fs::read(&file).unwrap();
        let record = record(&host, &file);
        let options: OptionRecord =
            serde_json::from_value(record.get("options").cloned().unwrap_or(json!({}))).unwrap();
        let place = host.places.locate(&file).unwrap().place;
        for at in (0..whole.len()).step_by(7).chain([whole.len() - 1]) {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            std::fs::write(&file, &bytes).unwrap();
            let request = Request { input: source.clone(), ..options.request().unwrap() };
            let format = host.registry.format("apr").unwrap();
            let output =
                Output::unplaced(format, &file, &source, Shards::default(), request.foreign).unwrap();
            let open = |name: &str| match place.open(name)? {
                Found::File(there) => Ok(Some(there)),
                Found::Folder => Ok(None),
            };
            let made = Made { file: &open, inputs: None };
            let files = reproduce(&host, &request, output, &made, &temporary_scratch).unwrap();
            assert_eq!(files[0].differs_at, Some(at as u64), "{method:?}");
        }
        for len in [whole.len() - 1, whole.len() / 2, 0] {
            std::fs::write(&file, &whole[..len]).unwrap();
            let request = Request { input: source.clone(), ..options.request().unwrap() };
            let format = host.registry.format("apr").unwrap();
            let output =
                Output::unplaced(format, &file, &source, Shards::default(), request.foreign).unwrap();
            let open = |name: &str| match place.open(name)? {
                Found::File(there) => Ok(Some(there)),
                Found::Folder => Ok(None),
            };
            let made = Made { file: &open, inputs: None };
            let files = reproduce(&host, &request, output, &made, &temporary_scratch).unwrap();
            assert_eq!(files[0].differs_at, Some(len as u64), "{method:?}");
        }
    }
}

#[test]
fn a_changed_model_keeps_the_records_before_its_own() {
    let (host, scratch) = (host(), Scratch::new());
    let [source, one, two, three] =
        ["in.safetensors", "1.apr", "2.apr", "3.apr"].map(|name| scratch.at(name));
    model(&source, 1);
    must(&host, &quantizing(&source, &one, "Q8_0"));
    // A copy is the same model.
    must(&host, &options(&one, &two));
    assert!(std::fs::read(&one).unwrap() == std::fs::read(&two).unwrap());
    let mut last = one.clone();
    for n in 0..200 {
        let next = scratch.at(&format!("next-{n}.apr"));
        let mut edit = options(&last, &next);
        edit.renames = vec![("*".to_owned(), "x*".to_owned())];
        must(&host, &edit);
        last = next;
    }
    let record = record(&host, &last);
    let before = record["before"].as_array().unwrap();
    assert_eq!(before.len(), 200, "every record, and none inside of another");
    assert_eq!(before[0]["options"]["quantize"], "Q8_0");
    assert_eq!(record["options"]["rename"], json!([["*", "x*"]]));
    assert!(before.iter().all(|one| one.get("before").is_none()));
    // Shards are the same model too.
    let mut sharded = options(&last, &three);
    sharded.max_shard_size = Some(50_000);
    must(&host, &sharded);
    assert_eq!(self::record(&host, &three), record);
}

#[test]
fn no_path_and_no_key_is_recorded() {
    let (host, scratch) = (host(), Scratch::new());
    let [source, output, matrix, text] =
        ["in.safetensors", "secret-name.apr", "imatrix.dat", "text.txt"].map(|name| scratch.at(name));
    model(&source, 1);
    write_matrix(&matrix, &[(NAMES[0], &[1.0; COLUMNS])]);
    std::fs::write(&text, "from a file").unwrap();
    let mut wanted = quantizing(&source, &output, "Q4_K_M");
    wanted.quantization.importance = Some(matrix);
    wanted.set = vec![("note:str".to_owned(), format!("@{}", text.display()))];
    must(&host, &wanted);
    let record = record(&host, &output);
    let folder = scratch.at("").display().to_string();
    for word in [folder.as_str(), "imatrix.dat", "in.safetensors", "secret-name", "text.txt"] {
        assert!(!record.to_string().contains(word), "{word}: {record}");
    }
    assert_eq!(record["options"]["set"], json!([["note:str", "from a file"]]));
    assert_eq!(record["options"]["imatrix"].as_str().unwrap().len(), 64);
}

fn derive(quantized: &Path, original: &Path, importance: Option<&Path>) -> Derived {
    let derivation = Derivation {
        quantized: quantized.to_owned(),
        original: original.to_owned(),
        importance: importance.map(Path::to_owned),
        arch: Some("none".to_owned()),
    };
    derivation.judge(&host(), &temporary_scratch).unwrap()
}

fn verdicts(derived: &Derived) -> Vec<Verdict> {
    derived.tensors.iter().map(|tensor| tensor.verdict).collect()
}

#[test]
fn a_quantized_model_is_told_from_one_of_another_origin() {
    let (host, scratch) = (host(), Scratch::new());
    let [source, other] = ["in.safetensors", "other.safetensors"].map(|name| scratch.at(name));
    model(&source, 1);
    model(&other, 2);
    for recipe in ["Q4_K_M", "Q8_0", "Q2_K", "IQ4_XS", "F16"] {
        let quantized = scratch.at(&format!("{recipe}.gguf"));
        must(&host, &quantizing(&source, &quantized, recipe));
        let derived = derive(&quantized, &source, None);
        assert_eq!(verdicts(&derived), vec![Verdict::Identical; 4], "{recipe}: {derived:?}");
        let nearest = derived.recipe.unwrap();
        assert_eq!((nearest.recipe.as_str(), nearest.differing, nearest.compared), (recipe, 0, 4));
        let derived = derive(&quantized, &other, None);
        assert_eq!(verdicts(&derived), vec![Verdict::Different; 4], "{recipe}: {derived:?}");
    }
}

#[test]
fn importance_is_found_where_it_was_used() {
    let (host, scratch) = (host(), Scratch::new());
    let [source, quantized, matrix] =
        ["in.safetensors", "q.gguf", "imatrix.dat"].map(|name| scratch.at(name));
    model(&source, 1);
    let importance: Vec<f32> = values(COLUMNS, 9).iter().map(|value| value.abs() + 0.01).collect();
    write_matrix(&matrix, &[(NAMES[0], &importance), (NAMES[2], &importance)]);
    let mut wanted = quantizing(&source, &quantized, "Q4_K_S");
    wanted.quantization.importance = Some(matrix.clone());
    must(&host, &wanted);
    let of = |derived: &Derived, name: &str| {
        let tensor = derived.tensors.iter().find(|tensor| tensor.name == name).unwrap();
        (tensor.verdict, tensor.with_importance)
    };
    let with = derive(&quantized, &source, Some(&matrix));
    assert_eq!(of(&with, NAMES[0]), (Verdict::Identical, true));
    assert_eq!(of(&with, NAMES[1]), (Verdict::Identical, false), "the matrix has nothing for it");
    let without = derive(&quantized, &source, None);
    assert_eq!(of(&without, NAMES[0]), (Verdict::Different, false));
    // A type that is written only with importance.
    wanted.quantization.recipe = Some("IQ2_XXS".to_owned());
    wanted.force = true;
    write_matrix(&matrix, &NAMES.map(|name| (name, &importance[..])));
    must(&host, &wanted);
    let without = derive(&quantized, &source, None);
    assert_eq!(of(&without, NAMES[2]), (Verdict::NotJudged, false), "{without:?}");
    let with = derive(&quantized, &source, Some(&matrix));
    assert_eq!(of(&with, NAMES[2]), (Verdict::Identical, true), "{with:?}");
}

/// The blocks of a tensor changed in its file: every `each`-th one gets this change.
fn change_blocks(file: &Path, name: &str, each: usize, change: impl Fn(&mut [u8])) {
    let (dtype, payload) = crate::quantize::payload(file, name);
    let mut bytes = std::fs::read(file).unwrap();
    let at = bytes.windows(payload.len()).position(|window| window == payload).unwrap();
    let len = dtype.info().unwrap().block_bytes as usize;
    for block in bytes[at..at + payload.len()].chunks_mut(len).step_by(each) {
        change(block);
    }
    std::fs::write(file, bytes).unwrap();
}

#[test]
fn rounding_is_a_step_in_one_block_of_a_thousand() {
    let (host, scratch) = (host(), Scratch::new());
    let [source, quantized]: [PathBuf; 2] = ["in.safetensors", "q.gguf"].map(|name| scratch.at(name));
    model(&source, 1);
    let step = |block: &mut [u8]| block[5] = block[5].wrapping_add(if block[5] < 127 { 1 } else { 255 });
    let of = |each: usize, change: &dyn Fn(&mut [u8])| {
        let mut wanted = quantizing(&source, &quantized, "Q8_0");
        wanted.force = true;
        must(&host, &wanted);
        change_blocks(&quantized, NAMES[2], each, change);
        let derived = derive(&quantized, &source, None);
        let tensor = derived.tensors.iter().find(|tensor| tensor.name == NAMES[2]).unwrap();
        (tensor.verdict, tensor.blocks - tensor.equal)
    };
    assert_eq!(of(1024, &step), (Verdict::Rounding, 2), "2 of 2,048 blocks, by a step");
    assert_eq!(of(100, &step), (Verdict::Different, 21), "a hundredth of the blocks");
    let far = |block: &mut [u8]| block[5] = block[5].wrapping_add(40);
    assert_eq!(of(1024, &far), (Verdict::Different, 2), "two blocks by forty steps");
}

#[test]
fn neither_huge_blocks_over_zeros_nor_a_part_of_a_model_is_derived() {
    let (host, scratch) = (host(), Scratch::new());
    let [source, quantized]: [PathBuf; 2] = ["in.safetensors", "q.gguf"].map(|name| scratch.at(name));
    let mut matrix = values(128 * COLUMNS, 5);
    matrix[..32].fill(0.0);
    let tensors: [(&str, &[usize], &[f32]); 2] =
        [(NAMES[0], &[128, COLUMNS], &matrix), (NAMES[1], &[128, COLUMNS], &values(128 * COLUMNS, 6))];
    write(&source, &tensors);
    let mut wanted = quantizing(&source, &quantized, "Q8_0");
    must(&host, &wanted);
    // One block of 4,096, whose two levels are as far apart as its type allows, where the original has zeros.
    change_blocks(&quantized, NAMES[0], 1 << 20, |block| {
        block[..2].copy_from_slice(&[0x53, 0x7b]);
        block[2..18].fill(127);
    });
    let derived = derive(&quantized, &source, None);
    let tensor = derived.tensors.iter().find(|tensor| tensor.name == NAMES[0]).unwrap();
    assert_eq!((tensor.verdict, tensor.blocks - tensor.equal), (Verdict::Different, 1), "{tensor:?}");
    wanted.force = true;
    wanted.choice.include = vec![NAMES[1].to_owned()];
    must(&host, &wanted);
    let derived = derive(&quantized, &source, None);
    assert_eq!((verdicts(&derived), derived.absent), (vec![Verdict::Identical], vec![NAMES[0].to_owned()]));
}
