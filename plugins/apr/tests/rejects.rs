//! What is refused, and with which words.

use crate::setup::{
    Folder, METADATA, Raw, cut, fixture, made, open, open_source, raw, reader, refused, request, says,
    simple, with, writer,
};
use apr_sdk::{DType, Error, ErrorKind, Limits, MemorySource, Options, Source, Value};

fn file(metadata: &[u8], entries: &[Raw], data: usize) -> Vec<u8> {
    made(metadata, entries, &vec![0; data])
}

fn entries(entries: &[Raw], data: usize) -> Error {
    refused(file(METADATA.as_bytes(), entries, data))
}

fn metadata(text: &str) -> Error {
    refused(file(text.as_bytes(), &[], 0))
}

use ErrorKind::{InvalidArgument, LimitExceeded, Malformed, NotFound, Unsupported};

#[test]
fn the_file_that_the_others_are_changed_from_opens() {
    open(file(METADATA.as_bytes(), &[raw("a", 0, 3), raw("b", 64, 1)], 65)).unwrap();
}

#[test]
fn rejects_other_versions() {
    for (magic, kind, words, code) in [
        (b"APR1", Unsupported, "`APR1`", Some("E003")),
        (b"APRX", Unsupported, "`APRX`", Some("E003")),
        (b"GGUF", Malformed, "does not start with", Some("E001")),
    ] {
        let mut bytes = simple().file();
        bytes[..4].copy_from_slice(magic);
        let error = refused(bytes);
        says(&error, kind, words);
        assert_eq!(error.explicit_code(), code);
    }
    let mut bytes = simple().file();
    bytes[4] = 3;
    let error = refused(bytes);
    says(&error, Unsupported, "version 3.0 is not supported");
    assert_eq!((error.explicit_code(), error.offset()), (Some("E003"), Some(4)));
}

#[test]
fn rejects_what_is_planned() {
    for (flag, words) in [(16, "encryption"), (128, "streaming")] {
        let mut bytes = simple().file();
        bytes[8] |= flag;
        says(&refused(bytes), Unsupported, words);
    }
}

#[test]
fn rejects_compression_that_contradicts_itself() {
    let compressed = |flags, size, raw_size| Raw { flags, raw_size, size, ..raw("a", 0, 100) };
    let bf16 = |flags| Raw { dtype: 2, dims: vec![50], ..compressed(flags, 100, 100) };
    open(file(METADATA.as_bytes(), &[bf16(6)], 100)).unwrap();
    for (entry, kind, words) in [
        (compressed(3, 50, 100), Malformed, "both LZ4 and zstd"),
        (compressed(4, 100, 0), Malformed, "planes, but no compression"),
        (compressed(6, 50, 100), Malformed, "planes, which U8 does not have"),
        (Raw { dtype: 16, dims: vec![64], ..compressed(6, 50, 68) }, Malformed, "planes, which Q8_0"),
        (compressed(9, 50, 100), Unsupported, "flags 0x8 that this version does not know"),
        (compressed(1, 50, 0), Malformed, "raw_size is 0"),
        (compressed(2, 50, 101), Malformed, "raw_size is 101"),
        (
            compressed(2, 4, 100),
            Malformed,
            "the index gives it 4 compressed bytes, but its 100 bytes take 5 to 168 once compressed",
        ),
        (compressed(1, 10_000, 100), Malformed, "gives it 10000 compressed bytes"),
    ] {
        let error = entries(&[entry], 10_000);
        says(&error, kind, words);
        assert_eq!(error.tensor_name(), Some("a"));
    }
    let table = |size| Raw { dims: vec![size], ..raw("__apr__/blocks", 0, size) };
    let of = |size: u64| [table(size), Raw { offset: 64, ..compressed(1, 50, 100) }];
    let stating = |entries: &[Raw], lengths: &[u32], data: usize| {
        let mut bytes = file(METADATA.as_bytes(), entries, data);
        let at = u32::from_le_bytes(bytes[28..32].try_into().unwrap()) as usize;
        let lengths: Vec<u8> = lengths.iter().flat_map(|len| len.to_le_bytes()).collect();
        bytes[at..at + lengths.len()].copy_from_slice(&lengths);
        (bytes, at as u64)
    };
    open(stating(&of(4), &[50], 114).0).unwrap();
    let (bytes, at) = stating(&of(4), &[49], 114);
    let error = refused(bytes);
    says(&error, Malformed, "its blocks add up to 49 bytes, but the index gives the tensor 50");
    assert_eq!((error.offset(), error.tensor_name()), (Some(at), Some("a")));
    let two = [table(8), Raw { offset: 64, dims: vec![65_537], ..compressed(1, 50, 65_537) }];
    open(stating(&two, &[45, 5], 114).0).unwrap();
    for (lengths, wrong, words) in [
        ([0, 50], 0, "gives block 0 a length of 0 bytes, expected 5 to 66116"),
        ([4, 46], 0, "gives block 0 a length of 4 bytes"),
        ([50, 0], 4, "gives block 1 a length of 0 bytes, expected 5 to 69"),
        ([5, u32::MAX], 4, "gives block 1 a length of 4294967295 bytes"),
    ] {
        let (bytes, at) = stating(&two, &lengths, 114);
        let error = refused(bytes);
        says(&error, Malformed, words);
        assert_eq!((error.offset(), error.tensor_name()), (Some(at + wrong), Some("a")));
    }
    says(&entries(&of(3), 114), Malformed, "shorter than the compressed tensors require");
    says(&entries(&of(8), 114), Malformed, "4 bytes too many");
    let of = [
        Raw { flags: 1, raw_size: 100, size: 50, ..table(100) },
        Raw { offset: 64, ..compressed(1, 50, 100) },
    ];
    says(&entries(&of, 114), Malformed, "uncompressed row of U8");
}

#[test]
fn rejects_sections_out_of_order_or_outside() {
    let change = |at: usize, value: u32| {
        let mut bytes = simple().file();
        bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
        refused(bytes)
    };
    says(&change(12, 31), Malformed, "the metadata starts at byte 31, but the header ends at 32");
    says(&change(20, 40), Malformed, "the index starts at byte 40, but the metadata ends");
    says(&change(28, 64), Malformed, "the data section starts at byte 64, but the index ends");
    says(&change(16, u32::MAX), Malformed, "past the end of the file");
    says(&change(24, 1 << 30), Malformed, "the index ends at byte");
    says(&change(28, u32::MAX), Malformed, "the data section ends at byte");
    let at = u32::from_le_bytes(simple().file()[28..32].try_into().unwrap());
    says(&change(28, at + 1), Malformed, "not a multiple of 64");
}

#[test]
fn rejects_indexes_that_are_not_sorted_or_not_whole() {
    says(&entries(&[raw("b", 0, 1), raw("a", 64, 1)], 65), Malformed, "not sorted by name");
    says(&entries(&[raw("a", 0, 1), raw("a", 64, 1)], 65), Malformed, "duplicate name");
    let index = |change: &dyn Fn(&mut Vec<u8>, usize)| {
        let mut bytes = file(METADATA.as_bytes(), &[raw("a", 0, 1)], 1);
        let at = u32::from_le_bytes(bytes[20..24].try_into().unwrap()) as usize;
        change(&mut bytes, at);
        refused(bytes)
    };
    says(&index(&|b, at| b[at] = 0), Malformed, "are left after its 0 tensors");
    says(&index(&|b, at| b[at] = 2), Malformed, "tensor count 2 requires at least 64 bytes");
    says(&index(&|b, at| b[at + 3] = 0x80), LimitExceeded, "exceeds the limit");
    says(&index(&|b, at| b[at + 8] = 200), Malformed, "expected 200 bytes");
    says(&index(&|b, _| b[24] = 7), Malformed, "its header requires 8");
    let not_utf8 = Raw { name: vec![b'x', 0xff], ..raw("", 0, 1) };
    says(&entries(&[not_utf8], 1), Malformed, "not valid UTF-8");
}

#[test]
fn rejects_tensors_that_contradict_themselves() {
    let one = |raw: Raw| {
        let error = entries(&[raw], 64);
        assert_eq!(error.tensor_name(), Some("a"), "{error}");
        error
    };
    says(&one(Raw { dims: vec![1; 9], ..raw("a", 0, 1) }), Unsupported, "9 dimensions");
    says(&one(Raw { dims: vec![1 << 62, 4], ..raw("a", 0, 1) }), Malformed, "2^63");
    says(
        &one(Raw { dims: vec![2], ..raw("a", 0, 1) }),
        Malformed,
        "requires 2 bytes, but the index gives it 1",
    );
    says(&one(Raw { dtype: 16, dims: vec![33], ..raw("a", 0, 34) }), Malformed, "the Q8_0 block size");
    says(&one(Raw { raw_size: 9, ..raw("a", 0, 1) }), Malformed, "raw_size of 9");
    says(&one(raw("a", 1, 1)), Malformed, "not a multiple of 64");
    says(&one(raw("a", !63, 1)), Malformed, "past 2^63");
    says(&one(raw("a", 1 << 62, 1)), Malformed, "the file is truncated by");
    says(&one(Raw { dtype: 255, ..raw("a", 0, 1) }), Malformed, "255 is reserved");
    says(&one(Raw { dtype: 21, ..raw("a", 0, 1) }), Malformed, "21 is not defined");
    says(&one(Raw { dtype: 130, ..raw("a", 0, 1) }), Malformed, "`dtypes`");
    let text = METADATA.replace("{}}", r#"{},"dtypes":{"130":"ODD"}}"#);
    let error = refused(file(text.as_bytes(), &[Raw { dtype: 130, ..raw("a", 0, 1) }], 1));
    says(&error, Unsupported, "dtype `ODD` is unknown, and the file does not state its sizes");
    for (block_types, words) in [
        (r#"{"ODD":"33 18"}"#, "block type `ODD`: a block has 33 elements"),
        (r#"{"ODD":"32 99999"}"#, "32 elements take 1 to 512 bytes"),
        (r#"{"ODD":7}"#, "metadata key `block_types` is not a text"),
        (r#"{"F32":"1 4"}"#, "the name is that of a built-in type"),
        (r#"{"ODD":"32 18"}"#, "are not a multiple of the ODD block size 32"),
    ] {
        let keys = format!(r#"{{}},"dtypes":{{"130":"ODD"}},"block_types":{block_types}"#);
        let text = METADATA.replace("{}}", &format!("{keys}}}"));
        let error = refused(file(text.as_bytes(), &[Raw { dtype: 130, ..raw("a", 0, 1) }], 1));
        says(&error, Malformed, words);
    }
}

#[test]
fn rejects_overlapping_tensors() {
    let error = entries(&[raw("a", 0, 65), raw("b", 64, 1)], 65);
    says(&error, Malformed, "overlaps that of `a`");
    assert_eq!(error.tensor_name(), Some("b"));
    let same = entries(&[raw("a", 0, 1), raw("b", 0, 1)], 1);
    says(&same, Malformed, "overlaps");
}

#[test]
fn rejects_damaged_footers_and_truncation() {
    let whole = file(METADATA.as_bytes(), &[raw("a", 0, 100), raw("b", 128, 10)], 138);
    let at = whole.len() - 16;
    let change = |at: usize| {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        refused(bytes)
    };
    says(&change(at + 4), Malformed, "no footer at byte");
    says(&change(at + 8), Malformed, "the footer states");
    let cut = refused(whole[..whole.len() - 20].to_vec());
    says(&cut, Malformed, "the file is truncated by 20 bytes");
    assert_eq!((cut.tensor_name(), cut.hint_text().unwrap().contains("1 of 2 tensors")), (Some("b"), true));
    says(&refused(whole[..whole.len() - 1].to_vec()), Malformed, "is truncated by 1 bytes");
    says(&refused(whole[..20].to_vec()), Malformed, "its header requires at least 32");
    says(&refused(Vec::new()), Malformed, "does not start with");
    for cut in 0..whole.len() {
        assert!(open(whole[..cut].to_vec()).is_err(), "cut to {cut} bytes");
    }
}

#[test]
fn rejects_metadata_that_is_not_as_it_must_be() {
    says(&metadata(""), Malformed, "the metadata is invalid");
    says(&metadata("[]"), Malformed, "JSON object");
    says(&metadata("{\"a\":1} x"), Malformed, "the metadata is invalid");
    says(&metadata(r#"{"a":1,"a":2}"#), Malformed, "duplicate key `a`");
    says(&refused(file(b"{\"\xff\":1}", &[], 0)), Malformed, "not valid UTF-8");
    for key in ["apr_version", "model_type", "architecture"] {
        let text = METADATA.replace(key, "x");
        says(&metadata(&text), Malformed, &format!("no `{key}`"));
    }
    let plus = |more: &str| metadata(&METADATA.replace("{}}", &format!("{{}},{more}}}")));
    says(&plus(r#""dialect":5"#), Malformed, "`dialect` is not a text");
    says(&plus(r#""assets":[]"#), Malformed, "`assets`");
    // Refused by the host's checks, which add the file's name.
    assert!(plus(r#""assets":{"../x":""}"#).message().contains("points outside the model's folder"));
    says(&plus(r#""dtypes":{"127":"X"}"#), Malformed, "128 to 254");
    says(&plus(r#""order":5"#), Malformed, "not a list of names");
    says(&plus(r#""foreign.toy":{}"#), Malformed, "`files`");
    says(&plus(r#""foreign.toy":{"files":[{"typed":{}}]}"#), Malformed, "`n_tensors`");
    let typed = |value: &str| {
        plus(&format!(r#""foreign.toy":{{"files":[{{"n_tensors":0,"typed":{{"k":{value}}}}}]}}"#))
    };
    says(&typed("5"), Malformed, "metadata key `k`");
    says(&typed(r#"{"t":"u8","v":"256"}"#), Malformed, "metadata key `k`");
    says(&typed(r#"{"t":"u8","v":"1"},"k":{"t":"u8","v":"1"}"#), Malformed, "duplicate key");
    let deep = format!("{}1{}", r#"{"t":"arr","of":"arr","v":["#.repeat(200), "]}".repeat(200));
    says(&typed(&deep), Malformed, "a metadata value");
}

#[test]
fn rejects_hidden_tensors_that_are_not_there_or_not_bytes() {
    let text = METADATA.replace("{}}", r#"{},"tokenizer":{"at":"__apr__/0"}}"#);
    let error = refused(file(text.as_bytes(), &[], 0));
    says(&error, Malformed, "it is not in the index");
    assert_eq!(error.tensor_name(), Some("__apr__/0"));
    let wide = Raw { dims: vec![1, 4], ..raw("__apr__/0", 0, 4) };
    says(&refused(file(text.as_bytes(), &[wide], 4)), Malformed, "row of U8");
    let unused = open(file(METADATA.as_bytes(), &[raw("__apr__/0", 0, 4)], 4)).unwrap();
    assert!(unused.model.tensors.is_empty() && unused.model.notes[0].contains("1 hidden tensors"));
}

#[test]
fn rejects_more_than_the_limits_allow() {
    let many: Vec<_> = (0..3).map(|n| raw(&format!("{n}"), n * 64, 1)).collect();
    let source = MemorySource::new("m.apr", file(METADATA.as_bytes(), &many, 129));
    let limits = Limits { tensors: 2, ..Limits::default() };
    let error = reader().open(&source, &limits, &Options::new()).err().unwrap();
    says(&error, LimitExceeded, "tensor count 3 exceeds the limit of 2");
    let keys: String = (0..9).map(|n| format!(",\"k{n}\":0")).collect();
    let source = MemorySource::new(
        "m.apr",
        file(METADATA.replace("{}}", &format!("{{}}{keys}}}")).as_bytes(), &[], 0),
    );
    let limits = Limits { metadata_keys: 11, ..Limits::default() };
    let error = reader().open(&source, &limits, &Options::new()).err().unwrap();
    says(&error, LimitExceeded, "more than 11 keys");
}

#[test]
fn rejects_writing_what_the_format_cannot_hold() {
    let hidden = fixture(&[("__apr__/x", DType::U8, &[1])], &[], &|_, _| {});
    let error = hidden.write(&request()).unwrap_err();
    assert_eq!((error.kind(), error.tensor_name()), (Unsupported, Some("__apr__/x")));
    let keyed = fixture(&[], &[], &|sink, _| {
        sink.foreign_file("apr", "", 0).unwrap();
        sink.foreign("mine", Value::from_u8(1)).unwrap();
    });
    assert!(keyed.write(&request()).unwrap_err().message().contains("no typed metadata of its own"));
    let single = with(|r| r.max_shard_size = Some(1));
    assert_eq!(simple().write(&single).unwrap_err().kind(), InvalidArgument);
    assert_eq!(writer().encoded_bound(&0.into(), 7).unwrap_err().kind(), ErrorKind::Plugin);
    let wrong = with(|r| r.options.set("compress", "gzip"));
    assert_eq!(simple().write(&wrong).unwrap_err().kind(), InvalidArgument);
}

/// The files of a sharded model: manifest, first shard, second shard.
fn shards() -> Vec<(String, Vec<u8>)> {
    let request = cut("m", 1);
    simple().write(&request).unwrap()
}

#[track_caller]
fn manifest(change: impl Fn(&mut Vec<(String, Vec<u8>)>)) -> Error {
    let mut files = shards();
    change(&mut files);
    let source =
        files.into_iter().fold(MemorySource::default(), |source, (name, bytes)| source.with(name, bytes));
    match open_source(source) {
        Ok(_) => panic!("it was opened"),
        Err(error) => error,
    }
}

#[test]
fn rejects_manifests_that_contradict_themselves_or_their_shards() {
    let text = |from: &str, to: &str| {
        manifest(|files| {
            let text = String::from_utf8(files[0].1.clone()).unwrap();
            assert!(text.contains(from), "{text}");
            files[0].1 = text.replace(from, to).into_bytes();
        })
    };
    says(
        &text("\"shard_count\":2", "\"shard_count\":3"),
        Malformed,
        "shard_count is 3, but `shards` lists 2",
    );
    says(&text("\"sharded\":true", "\"sharded\":false"), Malformed, "`sharded` set to false");
    says(&text("\"2.0.0\"", "\"3.0.0\""), Unsupported, "apr_version `3.0.0`");
    says(&text("\"a\":1", "\"a\":2"), Malformed, "to shard 2, but there are only 2");
    says(&text("tensor_shard_map", "map"), Malformed, "no `tensor_shard_map`");
    says(&text("m-00002", "m-00001"), Malformed, "duplicate shard");
    says(&text("\"a\":1", "\"b\":1"), Malformed, "duplicate");
    says(&text("\"crc32\":\"", "\"crc32\":\"0"), Malformed, "a CRC-32 has 9 bytes");
    says(&text("}}", "}"), Malformed, "the manifest is invalid");
    let missing = manifest(|files| drop(files.remove(2)));
    assert_eq!((missing.kind(), missing.explicit_code()), (NotFound, Some("E007")));
    assert_eq!(missing.file(), Some("m-00002-of-00002.apr"));
    let short = manifest(|files| files[2].1.truncate(100));
    assert_eq!((short.kind(), short.file()), (Malformed, Some("m-00002-of-00002.apr")));
    assert!(short.message().contains("truncated by"), "{short}");
    let long = manifest(|files| files[1].1.push(0));
    assert!(long.message().contains("the manifest states"), "{long}");
    let damaged = manifest(|files| files[1].1[0] = b'B');
    assert_eq!(damaged.file(), Some("m-00001-of-00002.apr"));
}

#[test]
fn rejects_folders_without_exactly_one_model() {
    let folder = |files: Vec<(String, Vec<u8>)>| open_source(Folder::new(files));
    let one = simple().file();
    let named =
        |names: &[&str]| names.iter().map(|name| ((*name).to_owned(), one.clone())).collect::<Vec<_>>();
    assert_eq!(folder(named(&["only.apr", "README.md"])).unwrap().model.tensors.len(), 2);
    assert_eq!(folder(named(&["README.md"])).err().unwrap().kind(), NotFound);
    let two = folder(named(&["x.apr", "y.apr"])).err().unwrap();
    assert_eq!(two.kind(), InvalidArgument);
    assert!(two.message().contains("`x.apr`, `y.apr`"), "{two}");
    let lost = folder(shards().split_off(1)).err().unwrap();
    assert_eq!((lost.kind(), lost.file()), (NotFound, Some("m.apr")));
    assert!(Folder::new(Vec::new()).is_folder());
}
