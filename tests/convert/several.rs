//! Several outputs of one source in one run: each is what a run of its own gives, and one that fails leaves the others alone.

use crate::quantize::{COLUMNS, quantizing, values, write, write_matrix};
use crate::resume::stopping_at;
use apr_engine::planned::quantization::Quantization;
use apr_host::convert::{ConvertOptions, Converted, convert, convert_all, plan_all};
use apr_host::host::Host;
use apr_sdk::{DType, ErrorKind, Result};
use apr_tests::{Scratch, assert_same_file, host, must, names_in, options, root};
use std::path::{Path, PathBuf};

/// Rows of a matrix whose F32 take two tiles.
const ROWS: usize = 300;

/// A host with so many threads.
fn host_of(threads: usize) -> Host {
    let mut host = host();
    host.set_threads(threads);
    host
}

/// The tiny folder of the command line's cases, whose rows are permuted on their way to GGUF.
fn folder(scratch: &Scratch) -> PathBuf {
    let (folder, root) = (scratch.at("tiny"), root().join("tests"));
    std::fs::create_dir(&folder).unwrap();
    let whole = root.join("cli/book/whole_model");
    let names = ["tokenizer.json", "tokenizer.model", "tokenizer_config.json"];
    let tokens = names.map(|name| root.join("golden/tokenizers/llama-sp").join(name));
    for file in [whole.join("config.json"), whole.join("model.safetensors")].iter().chain(&tokens) {
        std::fs::copy(file, folder.join(file.file_name().unwrap())).unwrap();
    }
    folder
}

/// Weights of several tiles each, beside a norm, of which one is larger than the others.
fn weights(scratch: &Scratch) -> PathBuf {
    let input = scratch.at("in.safetensors");
    let (large, small, norm) = (values(ROWS * COLUMNS, 1), values(32 * COLUMNS, 2), values(COLUMNS, 3));
    write(
        &input,
        &[
            ("blk.0.ffn_up.weight", &[ROWS, COLUMNS], &large),
            ("blk.0.attn_v.weight", &[32, COLUMNS], &small),
            ("output.weight", &[32, COLUMNS], &small),
            ("blk.0.ffn_norm.weight", &[COLUMNS], &norm),
        ],
    );
    input
}

/// Every output of a run together is that of its own run, file by file and figure by figure.
fn assert_as_alone(scratch: &Scratch, threads: usize, all: &[ConvertOptions]) {
    let host = host_of(threads);
    let together: Vec<Converted> = convert_all(&host, all)
        .unwrap()
        .into_iter()
        .map(|one| one.unwrap_or_else(|e| panic!("{e}")))
        .collect();
    let alone = scratch.at(&format!("alone-{threads}"));
    for (number, (options, done)) in all.iter().zip(&together).enumerate() {
        let output = options.output.as_ref().unwrap();
        let place = alone.join(number.to_string());
        std::fs::create_dir_all(&place).unwrap();
        let output_alone = place.join(output.file_name().unwrap());
        let own = must(&host, &ConvertOptions { output: Some(output_alone.clone()), ..options.clone() });
        assert_eq!(own.files.len(), done.files.len());
        for (one, other) in own.files.iter().zip(&done.files) {
            assert_same_file(Path::new(&one.path), Path::new(&other.path));
        }
        assert_eq!(
            (&own.quantized, &own.notes, &own.warnings),
            (&done.quantized, &done.notes, &done.warnings)
        );
        assert_eq!((&own.verified, own.looked.findings.len()), (&done.verified, done.looked.findings.len()));
        assert_eq!(own.coverage, done.coverage);
        std::fs::remove_dir_all(&place).unwrap();
        for file in &done.files {
            std::fs::remove_file(&file.path).unwrap();
        }
    }
}

#[test]
fn each_output_is_what_its_own_run_gives() {
    for threads in [1, 2] {
        let scratch = Scratch::new();
        let (input, tiny) = (weights(&scratch), folder(&scratch));
        let recipes = ["Q4_K_M", "Q5_K_M", "Q8_0", "F16"];
        let name = |recipe: &str| scratch.at(&format!("out-{recipe}.gguf"));
        let all = recipes.map(|recipe| quantizing(&input, &name(recipe), recipe));
        assert_as_alone(&scratch, threads, &all);
        // Names and rows of another dialect.
        let translated =
            recipes.map(|recipe| ConvertOptions { arch: None, ..quantizing(&tiny, &name(recipe), recipe) });
        assert_as_alone(&scratch, threads, &translated);
        if threads == 1 {
            continue;
        }
        // Codes with their scales in tensors of their own, beside blocks and floats.
        let own = |recipe: &str| quantizing(&input, &scratch.at(&format!("out-{recipe}.apr")), recipe);
        assert_as_alone(
            &scratch,
            threads,
            &["int8", "int4", "Q6_K", "int8-again"].map(|name| ConvertOptions {
                quantization: own(name.trim_end_matches("-again")).quantization,
                ..own(name)
            }),
        );
        // In parts, and with importance.
        let parts = ["Q4_K_M", "Q8_0"].map(|recipe| ConvertOptions {
            max_shard_size: Some(200 << 10),
            ..quantizing(&input, &name(recipe), recipe)
        });
        assert_as_alone(&scratch, threads, &parts);
        let matrix = scratch.at("imatrix.dat");
        let importance = values(COLUMNS, 9).iter().map(|value| value * value + 0.01).collect::<Vec<f32>>();
        write_matrix(&matrix, &[("blk.0.ffn_up.weight", &importance)]);
        let weighed = ["Q4_K_S", "Q5_K_S"].map(|recipe| {
            let mut options = quantizing(&input, &name(recipe), recipe);
            options.quantization.importance = Some(matrix.clone());
            options
        });
        assert_as_alone(&scratch, threads, &weighed);
    }
}

#[test]
fn outputs_of_other_formats_may_be_made_together() {
    let scratch = Scratch::new();
    let input = weights(&scratch);
    let cast = |name: &str, to: Option<DType>| ConvertOptions {
        quantization: Quantization { precision: to, ..Quantization::default() },
        ..options(&input, &scratch.at(name))
    };
    let all = [
        cast("out.npz", None),
        cast("out.apr", Some(DType::F16)),
        cast("out.pt", Some(DType::BF16)),
        cast("copy.safetensors", None),
    ];
    assert_as_alone(&scratch, 2, &all);
}

#[test]
fn one_that_fails_leaves_the_others_alone() {
    let scratch = Scratch::new();
    let input = weights(&scratch);
    std::fs::write(scratch.at("there.gguf"), "mine").unwrap();
    let all = [
        quantizing(&input, &scratch.at("a.gguf"), "Q4_K_M"),
        quantizing(&input, &scratch.at("there.gguf"), "Q8_0"),
        quantizing(&input, &scratch.at("b.gguf"), "Q9_X"),
        quantizing(&input, &scratch.at("c.safetensors"), "Q8_0"),
        quantizing(&input, &scratch.at("missing/d.gguf"), "Q8_0"),
        quantizing(&input, &scratch.at("e.gguf"), "Q8_0"),
    ];
    let kinds = |results: Vec<Result<Converted>>| -> Vec<Option<ErrorKind>> {
        results.into_iter().map(|one| one.err().map(|error| error.kind())).collect()
    };
    let (io, wrong, not_there) = (ErrorKind::Io, ErrorKind::InvalidArgument, ErrorKind::NotFound);
    let expected = [None, Some(io), Some(wrong), Some(ErrorKind::Unsupported), Some(not_there), None];
    assert_eq!(kinds(convert_all(&host(), &all).unwrap()), expected);
    assert_eq!(scratch.names(), ["a.gguf", "e.gguf", "in.safetensors", "there.gguf"]);
    assert_eq!(std::fs::read(scratch.at("there.gguf")).unwrap(), b"mine");
    let plans = plan_all(&host(), &all[1..]).unwrap();
    assert!(plans.iter().any(Result::is_ok) && plans.iter().any(Result::is_err));
}

/// What cannot be had in one type may be had in another: the values are judged for each output by itself.
#[test]
fn a_value_that_one_type_cannot_hold_fails_that_output_alone() {
    let scratch = Scratch::new();
    let input = scratch.at("in.safetensors");
    let mut matrix = values(ROWS * COLUMNS, 1);
    matrix[ROWS * COLUMNS - 5] = 1e30;
    write(&input, &[("blk.0.ffn_up.weight", &[ROWS, COLUMNS], &matrix)]);
    let all = ["Q8_0", "BF16", "Q4_0"]
        .map(|recipe| quantizing(&input, &scratch.at(&format!("{recipe}.gguf")), recipe));
    for threads in [1, 2] {
        let together = convert_all(&host_of(threads), &all).unwrap();
        for (options, done) in all.iter().zip(together) {
            let other = scratch.at("alone.gguf");
            let alone = convert(
                &host_of(threads),
                &ConvertOptions { output: Some(other.clone()), ..options.clone() },
            );
            match (done, alone) {
                (Ok(_), Ok(_)) => assert_same_file(&other, options.output.as_ref().unwrap()),
                (Err(one), Err(alone)) => assert_eq!(
                    (one.kind(), one.message(), one.tensor_name()),
                    (alone.kind(), alone.message(), alone.tensor_name())
                ),
                (one, other) => panic!("{one:?}\n{other:?}"),
            }
            drop(std::fs::remove_file(&other));
        }
        assert_eq!(scratch.names(), ["BF16.gguf", "in.safetensors"]);
        std::fs::remove_file(scratch.at("BF16.gguf")).unwrap();
    }
}

#[test]
fn a_stopped_run_is_taken_up_by_all_of_them_or_by_one() {
    for threads in [1, 2] {
        let scratch = Scratch::new();
        let input = scratch.at("in.safetensors");
        write(&input, &[("blk.0.ffn_up.weight", &[1 << 13, 256], &values(1 << 21, 1))]);
        let mut all = ["Q8_0", "Q4_0", "F16"]
            .map(|recipe| quantizing(&input, &scratch.at(&format!("{recipe}.gguf")), recipe));
        let (mut host, _) = stopping_at(host(), 1 << 20);
        host.set_threads(threads);
        let stopped = convert_all(&host, &all).unwrap();
        for one in stopped {
            let error = one.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Cancelled, "{error}");
            assert!(error.hint_text().unwrap().contains("--resume"));
        }
        assert_eq!(scratch.names().iter().filter(|name| name.ends_with(".apr-journal")).count(), 3);
        all.iter_mut().for_each(|one| one.resume = true);
        // The journal of each is that of its own run.
        must(&apr_tests::host(), &all[1]);
        let rest = [all[0].clone(), all[2].clone()];
        for one in convert_all(&apr_tests::host(), &rest).unwrap() {
            one.unwrap();
        }
        for options in all {
            let alone = scratch.at("alone.gguf");
            let own =
                ConvertOptions { output: Some(alone.clone()), resume: false, force: true, ..options.clone() };
            must(&apr_tests::host(), &own);
            assert_same_file(&alone, options.output.as_ref().unwrap());
        }
        assert_eq!(
            names_in(scratch.path()),
            ["F16.gguf", "Q4_0.gguf", "Q8_0.gguf", "alone.gguf", "in.safetensors"]
        );
    }
}
