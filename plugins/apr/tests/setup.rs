//! What the tests share: the plugin's two sides, models made by hand, and reading and writing in memory.

use apr_plugin_apr::PLUGIN;
use apr_sdk::{
    Bytes, Carries, DType, Error, ErrorKind, Extent, Fact, FileId, LayoutRequest, Limits, LogLevel,
    MemorySource, Model, ModelBuilder, ModelSink, Options, Reader, Result, Source, TensorDecl, Writer,
    checked_payload_len,
};
use serde_json::Value as Json;
use sha2::{Digest, Sha256};
use std::path::Path;

pub fn reader() -> Box<dyn Reader> {
    (PLUGIN.reader)("apr").unwrap()
}

pub fn writer() -> Box<dyn Writer> {
    (PLUGIN.writer)("apr").unwrap()
}

pub fn carries() -> Carries {
    apr_testkit::carries(&PLUGIN, "apr").unwrap()
}

/// A model and the bytes that its extents lie in.
pub struct Fixture<S = MemorySource> {
    pub model: Model,
    pub source: S,
}

/// A model of these tensors, whose payloads count upwards, and of what `push` adds; byte strings may use the extents
/// of `extra`, which lies at the end of the file.
pub fn fixture(
    tensors: &[(&str, DType, &[u64])],
    extra: &[u8],
    push: &dyn Fn(&mut dyn ModelSink, u64),
) -> Fixture {
    let mut bytes = Vec::new();
    let mut places = Vec::new();
    for (n, (_, dtype, shape)) in tensors.iter().enumerate() {
        let len = checked_payload_len(*dtype, shape).unwrap();
        places.push(Extent::new(0, bytes.len() as u64, len));
        bytes.extend((0..len).map(|i| (i as u8).wrapping_mul(7).wrapping_add(n as u8)));
    }
    let at = bytes.len() as u64;
    bytes.extend_from_slice(extra);
    let source = MemorySource::new("made", bytes);
    let limits = Limits::default();
    let len = |file| source.len(file);
    let mut builder = ModelBuilder::new("toy", &limits, &len);
    for ((name, dtype, shape), extent) in tensors.iter().zip(places) {
        builder.tensor(TensorDecl::plain(name, *dtype, shape, extent)).unwrap();
    }
    push(&mut builder, at);
    let model = builder.finish();
    Fixture { model, source }
}

pub fn simple() -> Fixture {
    fixture(&[("b", DType::F32, &[2, 3]), ("a", DType::Q8_0, &[32])], &[], &|sink, _| {
        sink.fact(Fact::Dialect("gguf")).unwrap();
    })
}

impl<S: Source> Fixture<S> {
    /// The files that the writer makes of it, the entry first.
    pub fn write(&self, request: &LayoutRequest) -> Result<Vec<(String, Vec<u8>)>> {
        let payloads = |index: usize| Ok(payload(&self.model, index, &self.source));
        apr_testkit::write(writer().as_ref(), &carries(), &self.model, &self.source, &payloads, request)
    }

    /// The one file that the writer makes of it.
    pub fn file(&self) -> Vec<u8> {
        let mut files = self.write(&request()).unwrap();
        assert_eq!(files.len(), 1);
        files.remove(0).1
    }

    /// It after a way through the format.
    pub fn again(&self) -> Fixture {
        open(self.file()).unwrap()
    }

    pub fn payload(&self, name: &str) -> Vec<u8> {
        let index = self.model.tensors.iter().position(|tensor| tensor.name == name).unwrap();
        payload(&self.model, index, &self.source)
    }

    pub fn fetch(&self, bytes: &Bytes) -> Vec<u8> {
        match bytes {
            Bytes::Inline(held) => held.to_vec(),
            Bytes::Extent(extent) => self.source.view(*extent).unwrap().to_vec(),
        }
    }

    pub fn names(&self) -> Vec<&str> {
        self.model.tensors.iter().map(|tensor| tensor.name.as_str()).collect()
    }
}

pub fn payload(model: &Model, index: usize, source: &dyn Source) -> Vec<u8> {
    match &model.tensors[index].payload {
        apr_sdk::Payload::Extent { extent, view: None } => source.view(*extent).unwrap().to_vec(),
        apr_sdk::Payload::Blocks { .. } => {
            let opened = reader().open(source, &Limits::default(), &Options::new()).unwrap();
            apr_testkit::payload(opened.as_ref(), model, index, source).unwrap()
        }
        other => panic!("{other:?}"),
    }
}

pub fn request() -> LayoutRequest {
    let mut request = LayoutRequest::file("m.apr");
    request.inputs = vec![1234];
    request.versions = vec![("apr".to_owned(), "0.1.0".to_owned())];
    request
}

/// The usual request, changed.
pub fn with(change: impl Fn(&mut LayoutRequest)) -> LayoutRequest {
    let mut request = request();
    change(&mut request);
    request
}

/// A request for shards of at most `most` bytes.
pub fn cut(stem: &str, most: u64) -> LayoutRequest {
    let mut request = LayoutRequest::folder(stem);
    request.max_shard_size = Some(most);
    request
}

/// Opens one file's bytes.
pub fn open(bytes: Vec<u8>) -> Result<Fixture> {
    open_source(MemorySource::new("m.apr", bytes))
}

pub fn open_source<S: Source>(source: S) -> Result<Fixture<S>> {
    let model = apr_testkit::read(reader().as_ref(), "apr", &source, &Options::new())?;
    Ok(Fixture { model, source })
}

/// The files of a folder, with `entry` as the one that is opened.
fn files(folder: &Path, entry: &str) -> MemorySource {
    let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
    let mut names: Vec<String> =
        std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| name != entry);
    names.iter().fold(MemorySource::new(entry, read(entry)), |source, name| source.with(name, read(name)))
}

/// Opens a model of several files and merges its parts; gives how many there were.
pub fn open_parts(folder: &Path, entry: &str) -> (Fixture, usize) {
    let source = files(folder, entry);
    let parts = open_source(files(folder, entry)).unwrap().model.parts.len();
    let opened = apr_testkit::read_with_parts(reader().as_ref(), "apr", &source, &Options::new()).unwrap();
    (Fixture { model: opened.model, source }, parts)
}

/// Opens one file, which must fail.
#[track_caller]
pub fn refused(bytes: Vec<u8>) -> Error {
    match open(bytes) {
        Ok(_) => panic!("it was opened"),
        Err(error) => error,
    }
}

/// Panics unless the error is of this kind and of the one file, and says `words`.
#[track_caller]
pub fn says(error: &Error, kind: ErrorKind, words: &str) {
    assert_eq!((error.kind(), error.file()), (kind, Some("m.apr")), "{error}");
    assert!(error.message().contains(words), "`{words}` is not in: {error}");
}

/// A file of the tests.
pub fn of_tests(name: &str) -> Vec<u8> {
    std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)).unwrap()
}

/// A golden manifest of the tests.
pub fn golden(name: &str) -> Json {
    serde_json::from_slice(&of_tests(name)).unwrap()
}

pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|b| format!("{b:02x}")).collect()
}

/// A file's model, and the payload of each of its tensors.
pub fn read(bytes: Vec<u8>) -> (Model, Vec<Vec<u8>>) {
    let source = MemorySource::new("m.apr", bytes);
    let (open, model) = apr_testkit::read_open(reader().as_ref(), "apr", &source, &Options::new()).unwrap();
    let payloads = (0..model.tensors.len())
        .map(|n| apr_testkit::payload(open.as_ref(), &model, n, &source).unwrap())
        .collect();
    (model, payloads)
}

/// One entry of an index, unchecked.
#[derive(Clone)]
pub struct Raw {
    pub name: Vec<u8>,
    pub dtype: u8,
    pub dims: Vec<u64>,
    pub offset: u64,
    pub size: u64,
    pub raw_size: u64,
    pub flags: u32,
}

/// An uncompressed row of U8.
pub fn raw(name: &str, offset: u64, size: u64) -> Raw {
    Raw { name: name.into(), dtype: 7, dims: vec![size], offset, size, raw_size: 0, flags: 0 }
}

pub const METADATA: &str = r#"{"apr_version":"2.0.0","model_type":"tensors","architecture":{}}"#;

/// A file of these parts, with a right footer behind the `data`.
pub fn made(metadata: &[u8], entries: &[Raw], data: &[u8]) -> Vec<u8> {
    let mut index = (entries.len() as u32).to_le_bytes().to_vec();
    index.extend([0; 4]);
    for entry in entries {
        index.extend((entry.name.len() as u16).to_le_bytes());
        index.extend(&entry.name);
        index.extend([entry.dtype, entry.dims.len() as u8]);
        let numbers = entry.dims.iter().chain([&entry.offset, &entry.size, &entry.raw_size]);
        numbers.for_each(|n| index.extend(n.to_le_bytes()));
        index.extend(entry.flags.to_le_bytes());
    }
    let mut out = b"APR2\x02\0\0\0\x02\0\0\0".to_vec();
    let index_at = 32 + metadata.len();
    let data_at = (index_at + index.len()).next_multiple_of(64);
    for word in [32, metadata.len(), index_at, index.len(), data_at] {
        out.extend((word as u32).to_le_bytes());
    }
    out.extend(metadata);
    out.extend(index);
    out.resize(data_at, 0);
    out.extend(data);
    footer(out)
}

pub fn footer(mut out: Vec<u8>) -> Vec<u8> {
    let size = out.len() as u64 + 16;
    out.extend(crc32fast::hash(&out).to_le_bytes());
    out.extend(b"2RPA");
    out.extend(size.to_le_bytes());
    out
}

/// Compares typed keys with the metadata that a golden manifest states.
pub fn check_keys(name: &str, model: &Model, format: &str, metadata: &Json) {
    let keys = &model.foreign_of(format).unwrap().files[0].typed;
    for (key, wanted) in metadata.as_object().unwrap() {
        let (_, value) = keys.iter().find(|(known, _)| known == key).unwrap();
        let Bytes::Inline(held) = &value.bytes else { panic!("{key} is not in memory") };
        let found = match wanted {
            Json::String(_) => Json::from(value.as_str().unwrap()),
            Json::Number(_) if value.as_f64().is_some() => Json::from(value.as_f64()),
            Json::Number(_) => Json::from(value.as_unsigned()),
            Json::Bool(_) => Json::from(value.as_bool()),
            _ => serde_json::from_str(value.items()[0].as_str().unwrap()).unwrap(),
        };
        assert_eq!(&found, wanted, "{name}: {key}, {} bytes", held.len());
    }
    assert_eq!(keys.len(), metadata.as_object().unwrap().len(), "{name}");
}

/// A folder as file 0, and what lies in it.
pub struct Folder(MemorySource);

pub fn folder_source(folder: &Path) -> Folder {
    let mut names: Vec<String> =
        std::fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    let files = names.iter().map(|name| (name.clone(), std::fs::read(folder.join(name)).unwrap()));
    Folder::new(files.collect())
}

impl Folder {
    pub fn new(files: Vec<(String, Vec<u8>)>) -> Folder {
        Folder(
            files
                .into_iter()
                .fold(MemorySource::new("", []), |source, (name, bytes)| source.with(name, bytes)),
        )
    }
}

impl Source for Folder {
    fn name(&self, file: FileId) -> String {
        self.0.name(file)
    }

    fn len(&self, file: FileId) -> Result<u64> {
        if file == 0 { Err(Error::io("it is a folder")) } else { self.0.len(file) }
    }

    fn read_at(&self, file: FileId, offset: u64, out: &mut [u8]) -> Result<()> {
        self.0.read_at(file, offset, out)
    }

    fn view(&self, extent: Extent) -> Result<&[u8]> {
        self.0.view(extent)
    }

    fn sibling(&self, path: &str) -> Result<FileId> {
        self.0.sibling(path)
    }

    fn entries(&self) -> Result<Vec<String>> {
        let mut entries = self.0.entries()?;
        entries.retain(|name| !name.is_empty());
        Ok(entries)
    }

    fn is_folder(&self) -> bool {
        true
    }

    fn log(&self, level: LogLevel, message: &str) {
        self.0.log(level, message);
    }
}
