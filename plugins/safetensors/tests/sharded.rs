//! Sharded models: read through their index or their folder, written in the source's structure or a new one.

use crate::fixture::{FORMAT, Folder, bytes, carries, file, reader, writer};
use apr_sdk::{Bytes, ForeignPolicy, LayoutRequest, Model, Options, Source, Value};
use apr_testkit::{Opened, read_with_parts};

const INDEX: &str = "model.safetensors.index.json";

/// The checked-in sharded model: the index, then its shards.
fn fixture() -> Vec<(String, Vec<u8>)> {
    let shards = (1..=3).map(|n| format!("model-{n:05}-of-00003.safetensors"));
    let names = std::iter::once(INDEX.to_owned()).chain(shards);
    names.map(|name| (name.clone(), bytes(&format!("sharded/{name}")))).collect()
}

/// The same with another text for the index.
fn with_index(change: impl FnOnce(String) -> String) -> Vec<(String, Vec<u8>)> {
    let mut files = fixture();
    let text = String::from_utf8(std::mem::take(&mut files[0].1)).unwrap();
    files[0].1 = change(text).into_bytes();
    files
}

fn open(source: &dyn Source) -> Opened {
    read_with_parts(&*reader(), FORMAT, source, &Options::new()).unwrap()
}

fn write(
    model: &Model,
    opened: &Opened,
    source: &dyn Source,
    request: &LayoutRequest,
) -> Vec<(String, Vec<u8>)> {
    apr_testkit::write(&*writer(), &carries(), model, source, &|n| opened.payload(n, source), request)
        .unwrap()
}

fn folder(policy: ForeignPolicy) -> LayoutRequest {
    let mut request = LayoutRequest::folder("out");
    request.foreign = policy;
    request
}

#[test]
fn index_shards_and_folder_are_one_model() {
    let files = fixture();
    let by_folder = open(&Folder::new(&files)).model;
    let by_index = {
        let first = apr_sdk::MemorySource::new(INDEX, files[0].1.clone());
        let source = files[1..].iter().fold(first, |source, (name, bytes)| source.with(name, bytes.clone()));
        open(&source).model
    };
    for model in [&by_folder, &by_index] {
        let names: Vec<_> =
            model.foreign[0].files.iter().map(|file| (file.name.as_str(), file.n_tensors)).collect();
        assert_eq!(names[0], (INDEX, 0));
        assert_eq!(names[1..].iter().map(|file| file.1).collect::<Vec<_>>(), [4, 4, 3]);
        assert_eq!(names[3].0, "model-00003-of-00003.safetensors");
        assert_eq!(model.foreign[0].files[0].get("total_size"), Some(&Value::from_u64(780)));
        assert!(model.foreign[0].files.iter().all(|file| file.verbatim.is_none()));
        assert!(model.foreign[0].describes(model.tensors.len()));
    }
}

#[test]
fn a_shard_alone_is_a_model_of_its_own() {
    let (_, model, _) = crate::fixture::open(&fixture()[2].1).unwrap();
    assert_eq!((model.tensors.len(), model.foreign[0].files[0].name.as_str()), (4, ""));
}

#[test]
fn a_folder_comes_back_to_the_byte() {
    let source = Folder::new(&fixture());
    let opened = open(&source);
    for policy in [ForeignPolicy::Default, ForeignPolicy::Typed] {
        assert_eq!(write(&opened.model, &opened, &source, &folder(policy)), fixture(), "{policy:?}");
    }
}

#[test]
fn indexes_in_other_spellings_come_back_to_the_byte() {
    let changes: [fn(String) -> String; 6] = [
        |text| text.replace("780", "\"780\""),
        |text| text.replace("780", "780.0"),
        |text| text.replace("780", "12345"),
        |text| text.replace("  ", "\t"),
        |text| text.replace("\"total_size\": 780", "\"note\": {\"a\": [1e400]}").replace("1e400", "null"),
        |text| text.replace("{\n  \"metadata\": {\n    \"total_size\": 780\n  },", "{\"more\": 1,"),
    ];
    for (n, change) in changes.into_iter().enumerate() {
        let files = with_index(change);
        assert_ne!(files, fixture(), "change {n}");
        let source = Folder::new(&files);
        let opened = open(&source);
        assert_eq!(
            write(&opened.model, &opened, &source, &folder(ForeignPolicy::Default)),
            files,
            "change {n}"
        );
    }
}

#[test]
fn a_count_that_became_wrong_is_written_anew() {
    let source = Folder::new(&fixture());
    let opened = open(&source);
    let mut model = opened.model.clone();
    let tensor = model.tensors.iter_mut().find(|tensor| tensor.name == "layers.0.weight").unwrap();
    tensor.dtype = apr_sdk::DType::F64;
    let payload = |n| {
        let mut payload = opened.payload(n, &source)?;
        payload.resize(usize::try_from(model.tensors[n].payload_len()?).unwrap(), 0);
        Ok(payload)
    };
    let request = folder(ForeignPolicy::Default);
    let files = apr_testkit::write(&*writer(), &carries(), &model, &source, &payload, &request).unwrap();
    let index = String::from_utf8(files[0].1.clone()).unwrap();
    assert!(index.contains("\"total_size\": 908\n"), "{index}");
}

#[test]
fn max_shard_size_makes_new_shards_and_an_index() {
    let source = Folder::new(&fixture());
    let opened = open(&source);
    let mut request = folder(ForeignPolicy::Default);
    request.max_shard_size = Some(300);
    let files = write(&opened.model, &opened, &source, &request);
    let names: Vec<_> = files.iter().map(|(name, _)| name.as_str()).collect();
    let shards: Vec<_> = (1..=3).map(|n| format!("out-{n:05}-of-00003.safetensors")).collect();
    assert_eq!(names[0], "out.safetensors.index.json");
    assert_eq!(names[1..], shards);
    assert!(files.iter().all(|(_, bytes)| bytes.len() < 300 + 500));
    let again = Folder::new(&files);
    let second = open(&again);
    assert_eq!(second.model.tensors.len(), 11);
    for (n, tensor) in second.model.tensors.iter().enumerate() {
        let was = opened.model.tensors.iter().position(|t| t.name == tensor.name).unwrap();
        assert_eq!(
            second.payload(n, &again).unwrap(),
            opened.payload(was, &source).unwrap(),
            "{}",
            tensor.name
        );
    }
    assert!(second.model.foreign[0].files[1..].iter().all(|f| f.get("format").is_some()));
}

#[test]
fn one_file_takes_all_shards_and_says_what_it_leaves_out() {
    let files =
        with_index(|text| text.replace("\"total_size\": 780", "\"total_size\": 780,\n    \"made\": \"by\""));
    let source = Folder::new(&files);
    let opened = open(&source);
    for (request, name) in [
        (LayoutRequest::file("a.safetensors"), "a.safetensors"),
        (
            {
                let mut request = folder(ForeignPolicy::Default);
                request.max_shard_size = Some(1 << 20);
                request
            },
            "out.safetensors",
        ),
    ] {
        let payload = |n| opened.payload(n, &source);
        let written =
            apr_testkit::render(&*writer(), &carries(), &opened.model, &source, &payload, &request).unwrap();
        assert_eq!((written.files.len(), written.files[0].0.as_str()), (1, name));
        assert_eq!(written.notes, ["`made` of the index is left out: one file has no index"]);
        let (_, model, _) = crate::fixture::open(&written.files[0].1).unwrap();
        assert_eq!(model.tensors.len(), 11);
        assert_eq!(model.foreign[0].get("format"), Some(&Value::from_string("pt")));
    }
}

#[test]
fn a_folder_with_one_file_is_that_file() {
    let whole = bytes("metadata_one.safetensors");
    let source = Folder::new(&[("README.md".into(), vec![]), ("any name.safetensors".into(), whole.clone())]);
    let opened = open(&source);
    assert_eq!(opened.model.foreign[0].files[0].name, "");
    let files = write(&opened.model, &opened, &source, &folder(ForeignPolicy::Default));
    assert_eq!(files, [("out.safetensors".to_owned(), whole)]);
}

#[test]
fn a_long_index_is_kept_by_its_place() {
    let entry =
        |n: usize| format!("\"t{n:04}\":{{\"dtype\":\"U8\",\"shape\":[],\"data_offsets\":[{n},{}]}}", n + 1);
    let header = format!("{{{}}}", (0..2500).map(entry).collect::<Vec<_>>().join(","));
    let map =
        (0..2500).rev().map(|n| format!("\"t{n:04}\": \"a/b.safetensors\"")).collect::<Vec<_>>().join(", ");
    let files = vec![
        ("m.safetensors.index.json".to_owned(), format!("{{\"weight_map\": {{{map}}}}}").into_bytes()),
        ("a/b.safetensors".to_owned(), file(&header, &[7; 2500])),
    ];
    let source = Folder::new(&files);
    let opened = open(&source);
    assert!(matches!(opened.model.foreign[0].files[0].verbatim, Some(Bytes::Extent(_))));
    assert_eq!(write(&opened.model, &opened, &source, &folder(ForeignPolicy::Default)), files);
}
