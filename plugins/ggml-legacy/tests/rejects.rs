//! Each refusal, with its message and its place.

use crate::build::{File, Tensor};
use crate::fixture;
use apr_sdk::ErrorKind::{self, InvalidArgument, LimitExceeded, Malformed, Unsupported};
use apr_sdk::{Budget, Error, Limits, MemorySource, Options, Reader};
use apr_testkit::read_limited;

fn error_with(bytes: Vec<u8>, options: &Options) -> Error {
    let Err(error) = fixture::open(&MemorySource::new("m.bin", bytes), options) else { panic!("it opened") };
    error
}

#[track_caller]
fn rejects(bytes: Vec<u8>, kind: ErrorKind, text: &str, offset: u64, tensor: Option<&str>) {
    let error = error_with(bytes, &Options::new());
    assert!(error.message().contains(text), "{error}\nlacks {text:?}");
    assert_eq!((error.kind(), error.offset(), error.tensor_name()), (kind, Some(offset), tensor), "{error}");
    assert_eq!(error.file(), Some("m.bin"), "{error}");
}

#[test]
fn rejects_other_magic_and_versions() {
    rejects(b"GGUF\x03\0\0\0".to_vec(), Malformed, "does not start with the magic", 0, None);
    rejects(b"tj".to_vec(), Malformed, "expected 4 bytes, only 2 are left", 0, None);
    rejects(b"tjgg\x01".to_vec(), Malformed, "expected 4 bytes, only 1 are left", 4, None);
    for (magic, version) in [(b"tjgg", 0), (b"tjgg", 4), (b"fmgg", 2), (b"algg", 0), (b"fmgg", 0)] {
        let bytes = [&magic[..], &[version, 0, 0, 0, 1, 2, 3, 4]].concat();
        rejects(bytes.clone(), Unsupported, &format!("version {version} of gg"), 4, None);
        assert_eq!(error_with(bytes, &Options::new()).stable_code(), Some("E003"));
    }
    let error = error_with(b"fmgg\x65\0\0\0".to_vec(), &Options::new());
    assert!(error.to_string().contains("its files are not supported"), "{error}");
}

#[test]
fn rejects_hyperparameters_that_count_nothing() {
    for (n, name) in [(0, "n_vocab"), (4, "n_layer")] {
        for value in [0, 0x8000_0000, u32::MAX] {
            let mut file = File::ggjt(3);
            file.hparams[n] = value;
            let text = format!("`{name}` is {}", value.cast_signed());
            rejects(file.bytes(), Malformed, &text, 8 + 4 * n as u64, None);
        }
    }
    let mut file = File::ggml();
    file.hparams[6] = 3002;
    let error = error_with(file.bytes(), &Options::new().with("program", "llama"));
    assert!(error.message().contains("version 3 of the block layouts (`ftype` 3002)"), "{error}");
    assert_eq!((error.kind(), error.offset()), (Unsupported, Some(28)));
}

#[test]
fn rejects_vocabularies_that_the_file_cannot_hold() {
    let mut file = File::ggjt(3);
    file.hparams[0] = 0x7fff_ffff;
    rejects(file.bytes(), LimitExceeded, "token count 2147483647 exceeds the limit of 4194304", 36, None);
    file.hparams[0] = 4_194_304;
    rejects(file.bytes(), Malformed, "token count 4194304 requires at least 33554432 bytes", 36, None);
    let mut bytes = File::ggjt(3).bytes();
    bytes[36..40].copy_from_slice(&(1u32 << 20).to_le_bytes());
    rejects(bytes.clone(), Malformed, "expected 1048576 bytes", 40, None);
    bytes[36..40].copy_from_slice(&u32::MAX.to_le_bytes());
    rejects(bytes, LimitExceeded, "the vocabulary exceeds 67108864 bytes", 36, None);
}

#[test]
fn rejects_a_second_count_of_another_size() {
    let mut bytes = fixture::bytes("gpt2.bin");
    bytes[28] = 6;
    let error = error_with(bytes, &Options::new().with("program", "gpt2"));
    assert!(error.message().contains("a vocabulary of 6 tokens, but `n_vocab` is 7"), "{error}");
    assert_eq!((error.kind(), error.offset()), (Malformed, Some(28)));
    let mut bytes = fixture::bytes("whisper-qnt0.bin");
    // Mel filters of 3 × 5 lie before the count of tokens.
    let at = 48 + 8 + 4 * 15;
    assert_eq!(bytes[at], 6);
    bytes[at] = 10;
    let error = error_with(bytes, &Options::new().with("program", "whisper"));
    assert!(error.message().contains("a vocabulary of 10 tokens, but `n_vocab` is 9"), "{error}");
}

#[test]
fn rejects_mel_filters_above_the_limit_or_the_file() {
    for (n_mel, n_fft, kind, text) in [
        (u32::MAX, u32::MAX, LimitExceeded, "exceeds the limit of 1048576"),
        (1 << 10, 1 << 10, Malformed, "mel filter value count 1048576 requires at least 4194304 bytes"),
    ] {
        let mut bytes = fixture::bytes("whisper-qnt0.bin");
        bytes[48..52].copy_from_slice(&n_mel.to_le_bytes());
        bytes[52..56].copy_from_slice(&n_fft.to_le_bytes());
        let error = error_with(bytes, &Options::new().with("program", "whisper"));
        assert!(error.message().contains(text), "{error}");
        assert_eq!((error.kind(), error.offset()), (kind, Some(48)), "{error}");
    }
}

#[test]
fn rejects_records_that_lie() {
    let file = |change: fn(&mut Tensor)| File::ggjt(3).with(1, change);
    let at = File::ggjt(3).record_at(1);
    let name = Some("norm.weight");
    rejects(file(|t| t.n_dims = 0).bytes(), Malformed, "0 dimensions, expected 1 to 4", at, None);
    rejects(file(|t| t.n_dims = 5).bytes(), Malformed, "5 dimensions, expected 1 to 4", at, None);
    rejects(file(|t| t.n_dims = u32::MAX).bytes(), Malformed, "4294967295 dimensions", at, None);
    rejects(file(|t| t.name_len = 0).bytes(), Malformed, "a tensor has no name", at + 4, None);
    rejects(file(|t| t.name_len = u32::MAX).bytes(), LimitExceeded, "4294967295 bytes", at + 4, None);
    rejects(file(|t| t.name_len = 65_535).bytes(), Malformed, "a tensor's record ends at byte", at, None);
    rejects(file(|t| t.name[0] = 0xff).bytes(), Malformed, "name is not valid UTF-8", at + 20, None);
    rejects(file(|t| t.dims[0] = 0).bytes(), Malformed, "a dimension of size 0", at + 12, name);
    rejects(
        file(|t| t.dims[0] = u32::MAX).bytes(),
        Malformed,
        "a dimension of size 4294967295",
        at + 12,
        name,
    );
    const HUGE: u32 = 0x7fff_ffff;
    rejects(
        File::ggjt(3).with(1, |t| *t = Tensor::new("norm.weight", 0, &[HUGE; 4], 0)).bytes(),
        Malformed,
        "more than 2^63 elements",
        at + 12,
        name,
    );
    rejects(
        file(|t| t.dims[0] = HUGE).bytes(),
        Malformed,
        "its payload of 8589934588 bytes starts after byte",
        at + 12 + 8 + 11,
        name,
    );
    let twice = |t: &mut Tensor| {
        t.name = b"tok_embeddings.weight".to_vec();
        t.name_len = 21;
    };
    let file = File::ggjt(3);
    let again = file.tensors.len();
    let mut file = File { tensors: [&file.tensors[..], &file.tensors[..1]].concat(), ..file };
    twice(&mut file.tensors[again]);
    let at = file.record_at(again);
    rejects(file.bytes(), Malformed, "duplicate tensor name", at, Some("tok_embeddings.weight"));
}

#[test]
fn rejects_types_by_name() {
    let at = File::ggjt(3).record_at(1) + 8;
    for (version, kind, text) in [
        (3, 4, "type Q4_2 was removed before this version of the format"),
        (2, 5, "type Q4_3 was removed before this version of the format"),
        (3, 9, "type 9 (Q8_1) does not occur"),
        (2, 12, "type 12 (Q4_K) does not occur"),
        (3, 18, "type 18 (I32) does not occur"),
        (3, 99, "type 99 does not occur"),
        (1, 4, "type Q4_2 was removed, and no current type can hold its blocks"),
        (1, 5, "type Q4_3 was removed, and no current type can hold its blocks"),
    ] {
        // 32 elements: 20 bytes in Q4_2, 24 in Q4_3.
        let file = File::ggjt(version);
        let file =
            file.with(1, |t| *t = Tensor::new("norm.weight", kind, &[32, 1], 20 + 4 * (kind as usize % 2)));
        rejects(file.bytes(), Unsupported, text, at, Some("norm.weight"));
    }
    let error = error_with(fixture::bytes("rejects/q4_2.bin"), &Options::new());
    assert!(error.to_string().ends_with(
        "decode such tensors to F32 with `-O ggml_legacy.old-blocks=f32`, or quantize the original again"
    ));
}

#[test]
fn rejects_rows_that_are_not_whole_blocks() {
    let at = File::ggjt(3).record_at(1) + 12;
    for (version, text) in [
        (1, "rows of 16 elements are not a multiple of the Q4_0 block size 32"),
        (3, "rows of 16 elements are not a multiple of the Q4_0 block size 32"),
    ] {
        let file = File::ggjt(version).with(1, |t| *t = Tensor::new("norm.weight", 2, &[16, 2], 20));
        rejects(file.bytes(), Malformed, text, at, Some("norm.weight"));
    }
}

#[test]
fn rejects_scales_that_are_no_f16_number_when_they_are_read() {
    for name in ["rejects/inexact-v1.bin", "rejects/inexact-v2.bin"] {
        let source = fixture::source(name);
        let opened = fixture::open(&source, &Options::new()).unwrap();
        let error = opened.payload(0, &source).unwrap_err();
        assert!(
            error.message().contains("block 0: the scale 1e-1 of a Q4_0 block is not an f16 number"),
            "{error}"
        );
        assert_eq!((error.kind(), error.tensor_name()), (Unsupported, Some("tok_embeddings.weight")));
        assert_eq!(error.offset().map(|at| at % 32), Some(0));
        assert!(error.hint_text().unwrap().contains("-O ggml_legacy.old-blocks=f32"), "{error}");
        let error = opened.payload(2, &source).unwrap_err();
        assert!(error.message().contains("the scale 1e-9 of a Q8_0 block is not an f16 number"), "{error}");
        assert!(opened.payload(1, &source).is_ok());
    }
}

#[test]
fn names_the_block_whose_scale_is_inexact() {
    let block: Vec<u8> = [&1f32.to_le_bytes()[..], &[5; 32]].concat();
    let mut payload = block.repeat(2000);
    payload[36 * 1500..36 * 1500 + 4].copy_from_slice(&1.0001f32.to_le_bytes());
    let mut tensor = Tensor::new("tok_embeddings.weight", 8, &[32, 2000], 0);
    tensor.payload = payload;
    let file = File { hparams: vec![2, 32, 1, 1, 1, 1, 7], ..File::ggjt(1).with(0, |t| *t = tensor) };
    let source = MemorySource::new("m.bin", file.bytes());
    let error = fixture::open(&source, &Options::new()).unwrap().payload(0, &source).unwrap_err();
    assert!(error.message().contains("block 1500: the scale 1.0001e0"), "{error}");
    let start = file.record_at(1) - 36 * 2000;
    assert_eq!(error.offset(), Some(start + 36 * 1500));
}

#[test]
fn rejects_files_cut_off_between_two_tensors() {
    for version in [1, 2, 3] {
        let whole = File::ggjt(version);
        for n in 1..whole.tensors.len() {
            let cut = File { tensors: whole.tensors[..n].to_vec(), ..File::ggjt(version) }.bytes();
            let text = if n < 4 { "`layers.0` has no tensors, but `n_layer` is 1" } else { "of 9 tensors" };
            let end = cut.len() as u64;
            rejects(cut, Malformed, text, end, None);
        }
    }
    let mut file = File::ggjt(3);
    file.hparams[4] = 2;
    let end = file.bytes().len() as u64;
    rejects(file.bytes(), Malformed, "`layers.1` has no tensors, but `n_layer` is 2", end, None);
    file.hparams[4] = 0x7fff_ffff;
    rejects(file.bytes(), Malformed, "`layers.1` has no tensors, but `n_layer` is 2147483647", end, None);
}

#[test]
fn every_fixture_cut_between_two_tensors_is_refused() {
    let mut cuts = 0;
    for name in fixture::names() {
        let source = fixture::source(&name);
        let opened = fixture::open(&source, &Options::new()).unwrap();
        let bytes = fixture::bytes(&name);
        // An adapter may have any number of tensors: nothing can tell.
        if name == "ggla.bin" {
            continue;
        }
        for (_, _, end) in opened.stored(&source).unwrap() {
            let end = end as usize;
            if end < bytes.len() {
                let error = error_with(bytes[..end].to_vec(), &Options::new());
                assert_eq!(error.kind(), Malformed, "{name} cut to {end}: {error}");
                cuts += 1;
            }
        }
    }
    assert!(cuts > 300, "{cuts}");
}

#[test]
fn rejects_a_missing_tensor_outside_the_layers() {
    for (n, name) in [(0, "tok_embeddings.weight"), (1, "norm.weight"), (2, "output.weight")] {
        let mut file = File::ggjt(3);
        file.tensors.remove(n);
        let end = file.bytes().len() as u64;
        rejects(
            file.bytes(),
            Malformed,
            &format!("tensor `{name}` is missing, but `llama` requires it"),
            end,
            None,
        );
    }
}

#[test]
fn rejects_tensors_of_layers_above_the_count() {
    let file = File::ggjt(3).with(5, |t| t.name[7] = b'3');
    let end = file.bytes().len() as u64;
    rejects(file.bytes(), Malformed, "the file has a tensor of `layers.3`, but `n_layer` is 1", end, None);
}

#[test]
fn rejects_one_file_of_several() {
    let mut file = File::ggjt(1);
    file.hparams[1] = 8;
    let end = file.bytes().len() as u64;
    let text = "its rows have 4 elements, but `n_embd` is 8: the file is one of 2";
    rejects(file.bytes(), Unsupported, text, end, Some("tok_embeddings.weight"));
    file.hparams[1] = 7;
    rejects(
        file.bytes(),
        Malformed,
        "have 4 elements, but `n_embd` is 7",
        end,
        Some("tok_embeddings.weight"),
    );
}

#[test]
fn rejects_a_layout_that_is_not_known_by_naming_the_nearest() {
    // The last tensor of a bare file runs past the end.
    let mut bytes = File::ggml().bytes();
    bytes.truncate(bytes.len() - 1);
    let error = error_with(bytes, &Options::new());
    let text = error.to_string();
    assert!(
        text.contains("no program's layout fits the file; as `llama`: its payload of 16 bytes"),
        "{text}"
    );
    assert!(text.ends_with(
        "specify a layout with `-O ggml_legacy.program=NAME`: llama, whisper, gpt2, gptj, gptneox, \
         stablelm, mpt, replit, bert"
    ));
    assert_eq!((error.kind(), error.tensor_name()), (Malformed, Some("layers.0.feed_forward.w3.weight")));
    let error = error_with(b"lmgg".to_vec(), &Options::new());
    assert_eq!((error.kind(), error.offset()), (Malformed, Some(4)), "{error}");
}

#[test]
fn rejects_option_program_for_files_that_say_what_they_are() {
    let options = Options::new().with("program", "gpt2");
    for bytes in [File::ggjt(3).bytes(), fixture::bytes("ggmf.bin"), fixture::bytes("ggla.bin")] {
        let error = error_with(bytes, &options);
        assert_eq!(error.kind(), InvalidArgument);
        assert!(error.message().contains("option `model` is `gpt2`, but the magic `gg"), "{error}");
    }
    assert!(fixture::open(&fixture::source("ggmf.bin"), &Options::new().with("program", "llama")).is_ok());
}

#[test]
fn opening_stays_inside_the_limits() {
    let reader = apr_plugin_ggml_legacy::GgmlLegacy;
    let source = MemorySource::new("m.bin", File::ggjt(3).bytes());
    let open = |limits: &Limits| read_limited(&reader, "ggml_legacy", &source, &Options::new(), limits).err();
    let error = open(&Limits { tensors: 11, ..Limits::default() }).unwrap();
    assert!(error.to_string().contains("the file has more than 11 tensors"), "{error}");
    let error = open(&Limits { name_bytes: 20, ..Limits::default() }).unwrap();
    assert!(error.to_string().contains("a tensor name has 21 bytes, more than the limit of 20"), "{error}");
    assert!(open(&Limits { dims: 1, ..Limits::default() }).is_some());
    assert!(open(&Limits { metadata_keys: 10, ..Limits::default() }).is_some());
    // A vocabulary costs memory: it draws on the budget.
    let mut file = File::ggjt(3);
    file.tokens[0] = vec![b'x'; 4 << 20];
    let source = MemorySource::new("m.bin", file.bytes());
    let limits = Limits { budget: Budget::new(1 << 20), ..Limits::default() };
    let error = reader.open(&source, &limits, &Options::new()).err().unwrap();
    assert_eq!((error.kind(), error.offset()), (LimitExceeded, Some(40)), "{error}");
}
