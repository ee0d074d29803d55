//! Checksums that an input stores are compared with what was read of it: damage is E004, and nothing is published.

use apr_engine::open::{OpenOptions, open};
use apr_engine::planned::request::VerifyMode;
use apr_engine::verify::validate::{ValidateOptions, validate};
use apr_host::convert::{ConvertOptions, convert};
use apr_host::host::Host;
use apr_sdk::{DType, Error, ErrorKind, Payload};
use apr_testkit::Checkpoint;
use apr_tests::{Scratch, assert_same_file, fixtures, host, must, options, root};
use std::path::Path;

/// The first, a middle and the last byte of each tensor's payload, where it lies raw in its file.
fn payload_bytes(host: &Host, path: &Path) -> Vec<usize> {
    let opened = open(host, path, &OpenOptions::default()).unwrap();
    let mut places = Vec::new();
    for tensor in &opened.model.tensors {
        if let Payload::Extent { extent, .. } = &tensor.payload
            && extent.len > 0
        {
            places.extend([0, extent.len / 2, extent.len - 1].map(|at| extent.offset + at));
        }
    }
    places.sort_unstable();
    places.dedup();
    places.into_iter().map(|at| usize::try_from(at).unwrap()).collect()
}

fn flip(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= 0x10;
    std::fs::write(path, bytes).unwrap();
}

fn refused(host: &Host, options: &ConvertOptions) -> Error {
    let error = convert(host, options).err();
    assert!(!options.output.as_ref().unwrap().exists(), "it was published");
    error.unwrap_or_else(|| panic!("{} converts", options.input.display()))
}

/// Whether `validate --checksum` says that the file is as it was.
fn is_valid(host: &Host, path: &Path) -> bool {
    let opened = open(host, path, &OpenOptions::default()).unwrap();
    let asked = ValidateOptions { checksum: true, ..ValidateOptions::default() };
    let verdict = validate(host, &opened, asked).unwrap();
    assert_eq!(verdict.ok, !verdict.findings.iter().any(|finding| finding.code.as_deref() == Some("E004")));
    verdict.ok
}

/// Flips bytes of the payload of `path` and converts it to files of these names; none may be made.
fn every_flip_is_found(path: &Path, to: &[&str], change: &dyn Fn(&mut ConvertOptions)) {
    let (host, scratch) = (host(), Scratch::in_memory());
    let input = scratch.at(path.file_name().unwrap().to_str().unwrap());
    std::fs::copy(path, &input).unwrap();
    let places = payload_bytes(&host, &input);
    assert!(!places.is_empty() && is_valid(&host, &input));
    for (n, at) in places.into_iter().enumerate() {
        flip(&input, at);
        let mut o = options(&input, &scratch.at(to[n % to.len()]));
        if n % 3 == 0 {
            o.verify = VerifyMode::Full;
        }
        // Values that became NaN are none of this test's business.
        o.allow_nonfinite = true;
        change(&mut o);
        let error = refused(&host, &o);
        let said = format!("{}, byte {at}: {error}", path.display());
        assert_eq!((error.kind(), error.stable_code()), (ErrorKind::Failed, Some("E004")), "{said}");
        assert_eq!(error.file(), Some(input.to_str().unwrap()), "{said}");
        assert!(error.hint_text().is_some_and(|hint| hint.contains("get the file again")), "{said}");
        assert!(!is_valid(&host, &input), "{said}");
        flip(&input, at);
    }
    let mut o = options(&input, &scratch.at(to[0]));
    change(&mut o);
    let done = must(&host, &o);
    let stored = open(&host, &input, &OpenOptions::default()).unwrap().model.checksums.len();
    let all =
        format!("{stored} of {stored} stored checksum{} of the input", if stored == 1 { "" } else { "s" });
    assert!(done.verified.contains(&all), "{all}: {:?}", done.verified);
}

#[test]
fn flipped_payload_of_stored_arrays_is_found() {
    // Row-major, column-major and big-endian: copied, gathered, swapped.
    for name in ["every_dtype.npz", "shapes.npz", "fortran.npz", "big_endian.npz", "streamed.npz"] {
        every_flip_is_found(&fixtures("numpy").join(name), &["out.apr", "out.npz"], &|_| {});
    }
}

#[test]
fn flipped_payload_of_checkpoints_is_found() {
    for name in ["state_dict.pth", "every_dtype.pt", "views.pt", "big_endian.pt"] {
        every_flip_is_found(&fixtures("pytorch").join(name), &["out.apr", "out.pt"], &|_| {});
    }
}

/// Where the records of an archive's central directory begin.
fn entries(bytes: &[u8]) -> Vec<usize> {
    (0..bytes.len() - 46).filter(|&at| bytes[at..].starts_with(b"PK\x01\x02")).collect()
}

/// Changes the CRC-32 of an entry, in both of its headers.
fn set_crc(bytes: &mut [u8], entry: usize, change: impl Fn(&mut [u8])) {
    let local = u32::from_le_bytes(bytes[entry + 42..entry + 46].try_into().unwrap());
    let local = usize::try_from(local).unwrap();
    change(&mut bytes[entry + 16..entry + 20]);
    change(&mut bytes[local + 14..local + 18]);
}

#[test]
fn deflated_entries_are_compared_too() {
    for path in [fixtures("numpy").join("deflated.npz"), fixtures("pytorch").join("deflated.pt")] {
        let (host, scratch) = (host(), Scratch::in_memory());
        let input = scratch.at(path.file_name().unwrap().to_str().unwrap());
        let good = std::fs::read(&path).unwrap();
        let all = entries(&good);
        std::fs::write(&input, &good).unwrap();
        assert!(is_valid(&host, &input));
        let done = must(&host, &options(&input, &scratch.at("good.apr")));
        let wanted = format!("{0} of {0} stored checksums of the input", all.len());
        assert!(done.verified.contains(&wanted), "{}: {:?}", path.display(), done.verified);
        let (mut found, mut unreadable) = (0, 0);
        for entry in all {
            let mut bytes = good.clone();
            set_crc(&mut bytes, entry, |crc| crc[0] ^= 1);
            std::fs::write(&input, &bytes).unwrap();
            let error = refused(&host, &options(&input, &scratch.at("out.apr")));
            let said = format!("{}, entry at {entry}: {error}", path.display());
            assert_eq!((error.kind(), error.stable_code()), (ErrorKind::Failed, Some("E004")), "{said}");
            assert_eq!(error.file(), Some(input.to_str().unwrap()), "{said}");
            // What is needed to open the file is compared when it is opened.
            match open(&host, &input, &OpenOptions::default()) {
                Ok(_) => assert!(!is_valid(&host, &input), "{said}"),
                Err(error) => assert_eq!(error.stable_code(), Some("E004"), "{said}"),
            }
            // The last byte of the data, of which most are still Huffman codes of something.
            let data = u32::from_le_bytes(good[entry + 20..entry + 24].try_into().unwrap());
            let local = u32::from_le_bytes(good[entry + 42..entry + 46].try_into().unwrap());
            let behind = local + 30 + u32::from(good[entry + 28]) + data - 2;
            std::fs::write(&input, &good).unwrap();
            flip(&input, usize::try_from(behind).unwrap());
            match convert(&host, &options(&input, &scratch.at("out.apr"))) {
                Err(error) if error.stable_code() == Some("E004") => found += 1,
                Err(_) => unreadable += 1,
                // A bit behind the end of the last code means nothing.
                Ok(_) => {
                    assert_same_file(&scratch.at("out.apr"), &scratch.at("good.apr"));
                    std::fs::remove_file(scratch.at("out.apr")).unwrap();
                }
            }
        }
        assert!(found > 0, "{}: {unreadable} of {unreadable} are unreadable", path.display());
    }
}

#[test]
fn flipped_payload_of_apr_files_is_found() {
    let (host, scratch) = (host(), Scratch::new());
    must(&host, &options(&fixtures("gguf").join("small.gguf"), &scratch.at("small.apr")));
    every_flip_is_found(&scratch.at("small.apr"), &["out.gguf", "again.apr"], &|_| {});
}

#[test]
fn payload_that_is_permuted_and_cast_is_compared_as_it_lies() {
    let (host, scratch) = (host(), Scratch::in_memory());
    Checkpoint::golden(&root().join("tests/golden/llama")).unwrap().write_to(&scratch.at("llama")).unwrap();
    let translated = |o: &mut ConvertOptions| o.arch = None;
    let mut o = options(&scratch.at("llama"), &scratch.at("llama.apr"));
    translated(&mut o);
    must(&host, &o);
    let places = payload_bytes(&host, &scratch.at("llama.apr"));
    for at in places.iter().step_by(places.len() / 24 + 1) {
        flip(&scratch.at("llama.apr"), *at);
        let mut o = options(&scratch.at("llama.apr"), &scratch.at("out.gguf"));
        o.relaxed = true;
        o.allow_nonfinite = true;
        translated(&mut o);
        let error = refused(&host, &o);
        assert_eq!(error.stable_code(), Some("E004"), "byte {at}: {error}");
        flip(&scratch.at("llama.apr"), *at);
    }
    let mut o = options(&scratch.at("llama.apr"), &scratch.at("out.gguf"));
    translated(&mut o);
    let done = must(&host, &o);
    assert!(done.verified.contains(&"1 of 1 stored checksum of the input".to_owned()), "{:?}", done.verified);
}

#[test]
fn a_subset_compares_what_it_takes_and_says_how_many() {
    let (host, scratch) = (host(), Scratch::in_memory());
    Checkpoint::golden(&root().join("tests/golden/llama")).unwrap().write_to(&scratch.at("llama")).unwrap();
    // An entry for each tensor; one checksum for all of a file; a reader that leaves out tensors itself.
    for name in ["in.npz", "in.apr"] {
        let mut o = options(&scratch.at("llama"), &scratch.at(name));
        o.quantization.precision = Some(DType::F32);
        must(&host, &o);
    }
    let cases = [
        (scratch.at("in.npz"), "model.layers.0", "9 of 21 stored checksums"),
        (scratch.at("in.apr"), "model.layers.0", "0 of 1 stored checksum"),
        (fixtures("pytorch").join("nested.pt"), "ema", "7 of 10 stored checksums"),
    ];
    for (n, (path, prefix, wanted)) in cases.iter().enumerate() {
        let mut o = options(path, &scratch.at(&format!("out{n}.safetensors")));
        o.renaming.prefix = Some((*prefix).to_owned());
        let done = must(&host, &o);
        let wanted = format!("{wanted} of the input");
        assert!(done.verified.contains(&wanted), "{}: {:?}", path.display(), done.verified);
    }
    // What is left out may be damaged, and what is taken may not.
    let opened = open(&host, &scratch.at("in.npz"), &OpenOptions::default()).unwrap();
    for (n, tensor) in opened.model.tensors.iter().enumerate() {
        let Payload::Extent { extent, .. } = &tensor.payload else { panic!("{}", tensor.name) };
        let at = usize::try_from(extent.offset).unwrap();
        flip(&scratch.at("in.npz"), at);
        let mut o = options(&scratch.at("in.npz"), &scratch.at(&format!("part{n}.safetensors")));
        o.renaming.prefix = Some("model.layers.0".to_owned());
        o.allow_nonfinite = true;
        let taken = tensor.name.starts_with("model.layers.0.");
        assert_eq!(convert(&host, &o).is_ok(), !taken, "{}", tensor.name);
        flip(&scratch.at("in.npz"), at);
    }
}

#[test]
fn scales_of_rows_are_compared_as_what_they_multiply() {
    let (host, scratch) = (host(), Scratch::in_memory());
    let header = r#"{"m.w":{"dtype":"I8","shape":[2,4],"data_offsets":[0,8]},"m.w.scale":{"dtype":"F32","shape":[2],"data_offsets":[8,16]},"other":{"dtype":"F32","shape":[1],"data_offsets":[16,20]}}"#;
    let floats = [0.5f32, 0.25, 1.0].map(f32::to_le_bytes).concat();
    let all =
        [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &[1, 2, 3, 4, 5, 6, 7, 8], &floats];
    std::fs::write(scratch.at("in.safetensors"), all.concat()).unwrap();
    let mut o = options(&scratch.at("in.safetensors"), &scratch.at("in.npz"));
    o.arch = Some("none".to_owned());
    must(&host, &o);
    let mut o = options(&scratch.at("in.npz"), &scratch.at("out.safetensors"));
    o.renaming.prefix = Some("m".to_owned());
    o.quantization.dequantize = Some(DType::F32);
    let done = must(&host, &o);
    assert!(
        done.verified.contains(&"2 of 3 stored checksums of the input".to_owned()),
        "{:?}",
        done.verified
    );
    std::fs::remove_file(scratch.at("out.safetensors")).unwrap();
    let opened = open(&host, &scratch.at("in.npz"), &OpenOptions::default()).unwrap();
    let scale = opened.model.tensors.iter().find(|tensor| tensor.name == "m.w.scale").unwrap();
    let Payload::Extent { extent, .. } = scale.payload else { panic!("the scales lie in no extent") };
    flip(&scratch.at("in.npz"), usize::try_from(extent.offset).unwrap());
    assert_eq!(refused(&host, &o).stable_code(), Some("E004"));
}

#[test]
fn damage_is_converted_only_unverified() {
    let (host, scratch) = (host(), Scratch::in_memory());
    must(&host, &options(&fixtures("gguf").join("small.gguf"), &scratch.at("in.apr")));
    let at = payload_bytes(&host, &scratch.at("in.apr"))[0];
    flip(&scratch.at("in.apr"), at);
    let mut o = options(&scratch.at("in.apr"), &scratch.at("out.apr"));
    assert!(refused(&host, &o).hint_text().unwrap().contains("--verify off"));
    o.verify = VerifyMode::Off;
    o.allow_nonfinite = true;
    let done = must(&host, &o);
    assert_eq!(done.verified, ["nothing (--verify off)"]);
}

/// What `torch.save` writes after `torch.serialization.set_crc32_options(False)`: all CRC-32s are 0.
#[test]
fn checksums_that_were_never_computed_are_none() {
    let (host, scratch) = (host(), Scratch::in_memory());
    let mut bytes = std::fs::read(fixtures("pytorch").join("state_dict.pth")).unwrap();
    let all = entries(&bytes);
    assert!(all.len() > 2);
    all.into_iter().for_each(|entry| set_crc(&mut bytes, entry, |crc| crc.fill(0)));
    std::fs::write(scratch.at("in.pt"), bytes).unwrap();
    let done = must(&host, &options(&scratch.at("in.pt"), &scratch.at("out.apr")));
    assert!(!done.verified.iter().any(|words| words.contains("of the input")), "{:?}", done.verified);
    assert!(is_valid(&host, &scratch.at("in.pt")));
}
