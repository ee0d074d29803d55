//! ONNX with the real host: by way of APR to the byte, data beside the model, and nothing read outside its folder.

use apr_engine::open::{OpenOptions, open};
use apr_engine::verify::stats::{RowOptions, tensor_rows};
use apr_host::convert::convert;
use apr_sdk::{ErrorKind, ForeignPolicy};
use apr_tests::{Scratch, assert_same_file, fixtures, fixtures_with, host, must, options};
use std::fs;
use std::path::Path;

/// Name, type, shape and digest of every tensor, in the order of names.
fn rows(path: &Path) -> Vec<(String, String, Vec<u64>, Option<String>)> {
    let host = host();
    let opened = open(&host, path, &OpenOptions::default()).unwrap();
    let rows = tensor_rows(&host, &opened, RowOptions { sha256: true, stats: false }).unwrap();
    let mut rows: Vec<_> = rows.into_iter().map(|r| (r.name, r.dtype, r.shape, r.sha256)).collect();
    rows.sort();
    rows
}

/// Fixtures with lists of numbers, which become raw data.
fn has_lists(path: &Path) -> bool {
    ["types-typed.onnx", "shapes.onnx", "handmade-runs.onnx"].iter().any(|name| path.ends_with(name))
}

#[test]
fn onnx_through_apr_is_byte_identical() {
    let beside = fixtures("onnx").join("beside/model.onnx");
    for path in fixtures_with("onnx", "onnx").into_iter().chain([beside]) {
        for policy in [ForeignPolicy::Default, ForeignPolicy::Typed] {
            let (host, scratch) = (host(), Scratch::new());
            let middle = scratch.at("m.apr");
            let back = scratch.at(path.file_name().unwrap().to_str().unwrap());
            let mut there = options(&path, &middle);
            there.foreign = policy;
            must(&host, &there);
            must(&host, &options(&middle, &back));
            assert_eq!(rows(&path), rows(&back), "{}", path.display());
            if policy == ForeignPolicy::Default && !has_lists(&path) {
                assert_same_file(&path, &back);
                let data = |path: &Path| path.with_extension("onnx.data");
                assert_eq!(data(&path).exists(), data(&back).exists());
                if data(&path).exists() {
                    assert_same_file(&data(&path), &data(&back));
                }
            }
        }
    }
}

#[test]
fn data_in_several_files_comes_back_in_a_folder() {
    let folder = fixtures("onnx").join("external");
    let (host, scratch) = (host(), Scratch::new());
    must(&host, &options(&folder.join("split.onnx"), &scratch.at("m.apr")));
    let mut back = options(&scratch.at("m.apr"), &scratch.at("split"));
    back.to = Some("onnx".to_owned());
    must(&host, &back);
    for name in ["a.weight", "b.weight", "small"] {
        assert_same_file(&folder.join(name), &scratch.at("split").join(name));
    }
    let written = apr_tests::names_in(&scratch.at("split"));
    let model = written.iter().find(|name| name.ends_with(".onnx")).unwrap();
    assert_same_file(&folder.join("split.onnx"), &scratch.at("split").join(model));
    // Into one file: companions of that file, with the same tensors.
    must(&host, &options(&folder.join("split.onnx"), &scratch.at("one.onnx")));
    assert_eq!(rows(&folder.join("split.onnx")), rows(&scratch.at("one.onnx")));
}

#[test]
fn safetensors_through_onnx_is_byte_identical() {
    let mut count = 0;
    for path in fixtures_with("safetensors", "safetensors") {
        let (host, scratch) = (host(), Scratch::new());
        let (middle, back) = (scratch.at("m.onnx"), scratch.at("back.safetensors"));
        must(&host, &options(&path, &middle));
        assert_eq!(rows(&path), rows(&middle), "{}", path.display());
        must(&host, &options(&middle, &back));
        assert_same_file(&path, &back);
        count += 1;
    }
    assert!(count > 10);
}

#[test]
fn options_put_data_beside_the_model_and_split_it() {
    let (host, scratch) = (host(), Scratch::new());
    let input = scratch.at("in.onnx");
    fs::write(&input, large_model()).unwrap();
    let mut job = options(&input, &scratch.at("a.onnx"));
    job.options.push((None, "external-data".to_owned(), "true".to_owned()));
    must(&host, &job);
    assert_eq!(scratch.names(), ["a.onnx", "a.onnx.data", "in.onnx"]);
    assert_eq!(rows(&input), rows(&scratch.at("a.onnx")));
    assert_eq!(fs::metadata(scratch.at("a.onnx.data")).unwrap().len(), 2 * 4096 + 4000);
    let mut job = options(&input, &scratch.at("b.onnx"));
    job.max_shard_size = Some(5000);
    must(&host, &job);
    let shards: Vec<_> = scratch.names().into_iter().filter(|name| name.starts_with("b.onnx.data")).collect();
    assert_eq!(shards, [1, 2, 3].map(|n| format!("b.onnx.data-{n:05}-of-00003")));
    assert_eq!(rows(&input), rows(&scratch.at("b.onnx")));
    // Data beside the model goes into it again on request.
    let mut job = options(&scratch.at("b.onnx"), &scratch.at("c.onnx"));
    job.options.push((None, "single-file".to_owned(), "true".to_owned()));
    must(&host, &job);
    assert_same_file(&input, &scratch.at("c.onnx"));
}

/// Three tensors of 4000 bytes and a scalar, written by apr itself.
fn large_model() -> Vec<u8> {
    let (host, scratch) = (host(), Scratch::new());
    let data = |n: u8| {
        format!(
            "\"t{n}\":{{\"dtype\":\"U8\",\"shape\":[4000],\"data_offsets\":[{},{}]}}",
            u32::from(n) * 4000,
            u32::from(n + 1) * 4000
        )
    };
    let header = format!(
        "{{{},{},{},\"s\":{{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[12000,12001]}}}}",
        data(0),
        data(1),
        data(2)
    );
    let bytes = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &vec![7; 12_001]].concat();
    fs::write(scratch.at("in.safetensors"), bytes).unwrap();
    must(&host, &options(&scratch.at("in.safetensors"), &scratch.at("in.onnx")));
    fs::read(scratch.at("in.onnx")).unwrap()
}

/// A model whose only tensor, one byte, lies in `location`.
fn model_with_data_in(location: &str) -> Vec<u8> {
    let bytes =
        |field: u8, body: &[u8]| [&[field << 3 | 2, u8::try_from(body.len()).unwrap()], body].concat();
    let entry = [bytes(1, b"location"), bytes(2, location.as_bytes())].concat();
    let tensor = [&[8, 1, 16, 2][..], &bytes(8, b"w"), &bytes(13, &entry), &[14 << 3, 1]].concat();
    [&[8, 8][..], &bytes(7, &bytes(5, &tensor)), &bytes(8, &[16, 15])].concat()
}

#[cfg(unix)]
#[test]
fn data_is_read_from_plain_files_of_the_models_folder_only() {
    use std::os::unix::fs::symlink;
    let scratch = Scratch::new();
    fs::create_dir(scratch.at("model")).unwrap();
    let folder = scratch.at("model");
    fs::write(scratch.at("secret"), "s").unwrap();
    fs::write(folder.join("inside"), "i").unwrap();
    symlink(scratch.at("secret"), folder.join("link-out")).unwrap();
    symlink("/dev/zero", folder.join("device")).unwrap();
    symlink(scratch.at("."), folder.join("up")).unwrap();
    fs::create_dir(folder.join("folder")).unwrap();
    // Opening a pipe would wait for someone to write to it, for ever.
    let made = std::process::Command::new("mkfifo").arg(folder.join("pipe")).status();
    assert!(made.unwrap().success());
    for (location, opens) in [
        ("inside", true),
        ("link-out", false),
        ("device", false),
        ("pipe", false),
        ("up/secret", false),
        ("../secret", false),
        ("folder", false),
        ("/dev/zero", false),
    ] {
        fs::write(folder.join("m.onnx"), model_with_data_in(location)).unwrap();
        let outcome =
            convert(&host(), &options(&folder.join("m.onnx"), &scratch.at(&format!("{opens}.apr"))));
        match outcome {
            Ok(_) => assert!(opens, "{location} was read"),
            Err(error) => {
                assert!(!opens, "{location}: {error}");
                let kinds =
                    [ErrorKind::InvalidArgument, ErrorKind::Malformed, ErrorKind::Io, ErrorKind::NotFound];
                assert!(kinds.contains(&error.kind()), "{location}: {error}");
                assert_eq!(error.tensor_name(), Some("w"), "{location}: {error}");
            }
        }
    }
}

#[test]
fn data_that_is_not_there_or_lies_elsewhere_says_what_to_do() {
    let scratch = Scratch::new();
    for (location, hint) in [
        ("gone", "put that file next to the model"),
        (
            "../up",
            "put the file next to the model and save it again: nothing outside the model's folder is read",
        ),
    ] {
        fs::write(scratch.at("m.onnx"), model_with_data_in(location)).unwrap();
        let error = convert(&host(), &options(&scratch.at("m.onnx"), &scratch.at("m.apr"))).unwrap_err();
        assert_eq!(error.hint_text(), Some(hint), "{location}: {error}");
    }
    fs::write(scratch.at("short"), "").unwrap();
    fs::write(scratch.at("m.onnx"), model_with_data_in("short")).unwrap();
    let error = convert(&host(), &options(&scratch.at("m.onnx"), &scratch.at("m.apr"))).unwrap_err();
    let hint = "get the file again: it is truncated, or belongs to another model";
    assert_eq!(error.hint_text(), Some(hint), "{error}");
}
