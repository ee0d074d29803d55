//! Writing across the wire is writing without it: every field of the model, the request and what was written arrives.

use crate::toy::{Toy, heard, module, told};
use apr_sdk::*;
use std::fmt::Write;

/// Writes down every push.
#[derive(Default)]
pub struct Recorder(Vec<String>);

impl Recorder {
    fn note_down(&mut self, what: String) -> Result<()> {
        self.0.push(what);
        Ok(())
    }
}

impl LayoutSink for Recorder {
    fn file(&mut self, name: &str) -> Result<()> {
        self.note_down(format!("file {name}"))
    }
    fn entry(&mut self) -> Result<()> {
        self.note_down("entry".into())
    }
    fn inline(&mut self, bytes: &[u8]) -> Result<()> {
        self.note_down(format!("inline {bytes:?}"))
    }
    fn copy(&mut self, bytes: &Bytes) -> Result<()> {
        self.note_down(format!("copy {bytes:?}"))
    }
    fn payload(&mut self, tensor: u64, align: u64, encoding: Encoding) -> Result<()> {
        self.note_down(format!("payload {tensor} {align} {encoding:?}"))
    }
    fn pad_to(&mut self, n: u64) -> Result<()> {
        self.note_down(format!("pad {n}"))
    }
    fn hole(&mut self, id: u32, len: u64) -> Result<()> {
        match self.0.iter().any(|line| line.starts_with("hole")) {
            true => Err(Error::plugin("twice").at(3)),
            false => self.note_down(format!("hole {id} {len}")),
        }
    }
    fn part(&mut self, part: PartRequest<'_>) -> Result<()> {
        self.note_down(format!("{part:?}"))
    }
    fn digest(&mut self, sum: Sum) -> Result<()> {
        sum.of_crc32(0)?;
        self.note_down(format!("{sum:?}"))
    }
    fn position(&self) -> Option<u64> {
        (self.0.len() % 2 == 0).then_some(self.0.len() as u64)
    }
    fn fetch(&mut self, bytes: &Bytes) -> Result<Bytes> {
        Ok(match bytes {
            Bytes::Inline(_) => Extent::new(1, 2, 3).into(),
            Bytes::Extent(extent) => format!("{extent:?}").as_str().into(),
        })
    }
    fn sample(&mut self, tensor: u64, start: u64, len: u64) -> Result<Option<Vec<u8>>> {
        self.note_down(format!("sample {tensor} {start} {len}"))?;
        Ok((tensor == 1).then(|| b"values".to_vec()))
    }
    fn source_codec(&mut self, tensor: u64) -> Result<Option<Codec>> {
        self.note_down(format!("source codec {tensor}"))?;
        Ok((tensor == 1).then(|| told(4)))
    }
    fn note(&mut self, note: &str) {
        self.0.push(note.into());
    }
    fn warn(&mut self, warning: &str) {
        self.0.push(format!("warning: {warning}"));
    }
}

impl PatchSink for Recorder {
    fn fill(&mut self, id: u32, bytes: &[u8]) -> Result<()> {
        self.note_down(format!("fill {id} {bytes:?}"))
    }
    fn fill_digest(&mut self, id: u32, file: u32, start: u64, end: u64, sum: Sum) -> Result<()> {
        self.note_down(format!("{sum:?} {id} {file} {start} {end}"))
    }
    fn append(&mut self, file: u32, bytes: &[u8]) -> Result<()> {
        self.note_down(format!("append {file} {bytes:?}"))
    }
}

/// A model with every field set, and what no reader could push: dtypes that a plan gave, a format without files.
fn model() -> CheckedModel {
    let source = MemorySource::new("a", vec![0; 32]).with("b", vec![1, 2]);
    let limits = Limits::default();
    let file_len = |file| source.len(file);
    let mut builder = ModelBuilder::new("toy", &limits, &file_len);
    Toy.describe(&source, &mut builder).unwrap();
    heard();
    let mut model = builder.finish();
    (model.tensors[0].dtype, model.tensors[0].shape) = (DType::Q4_K, vec![256]);
    model.tensors[1].shape = vec![1, 1, 1, 1, 1, 1, 0, 1 << 40];
    model.foreign_mut("empty");
    CheckedModel::new(model, &Carries::default()).unwrap()
}

fn write_with(writer: &dyn Writer) -> String {
    let (mut text, mut sink) = (String::new(), Recorder::default());
    let mut request = LayoutRequest::file("m.toy");
    request.max_shard_size = Some(5);
    request.foreign = ForeignPolicy::Drop;
    request.options = Options::new().with("a", "b");
    request.inputs = vec![1, 2];
    request.versions = vec![("apr".into(), "0".into())];
    writeln!(text, "{:?} {:#?}", writer.layout(&model(), &request, &mut sink), sink.0).unwrap();
    let mut sink = Recorder::default();
    let mut digests = Digests::default();
    for form in [DigestForm::Bytes, DigestForm::Hex, DigestForm::Masked] {
        digests.push(Sum::new(Digest::Crc32c, form), *b"stated");
    }
    let blocks = vec![1, 1 << 40];
    let tensor = WrittenTensor { file: 1, offset: 2, stored_len: 3, raw_len: 4, digests, blocks };
    let mut written = Written::default();
    written.files.push(WrittenFile { name: "f".into(), len: 9 });
    written.inputs = vec![WrittenInput { digests: tensor.digests.clone() }, WrittenInput::default()];
    written.tensors = vec![tensor.clone(), WrittenTensor { digests: Digests::default(), ..tensor }];
    written.holes.push(WrittenHole { id: 1, file: 2, offset: 3, len: 4 });
    writeln!(text, "{:?} {:#?}", writer.finish(&written, &mut sink), sink.0).unwrap();
    let mut fact = TensorFacts::default();
    fact.dtype = Some(DType::F16);
    writeln!(text, "{:?}", writer.dtypes(&[TensorFacts::default(), fact], Some(DType::F32))).unwrap();
    let mut out = [0; 2];
    let at = BlockAt { tensor: 1, block: 2 };
    let encoded = writer.encode(&told(3), at, b"raw", &mut out);
    for codec in [3, 9] {
        writeln!(text, "{:?} {encoded:?} {out:?}", writer.encoded_bound(&told(codec), 1 << 40)).unwrap();
    }
    writeln!(text, "{:#?}", heard()).unwrap();
    text
}

#[test]
fn a_writer_hears_and_says_the_same_across_the_wire() {
    let plain = write_with(&Toy);
    let loaded = write_with(&*module().writer("toy").unwrap());
    assert_eq!(plain, loaded);
    for field in [
        "lengths: true",
        "cannot compute SHA-256",
        "1099511627776",
        "recipe: Some",
        "checksums: [",
        "expected: Some",
        "empty",
        "Sequential",
    ] {
        assert!(plain.contains(field), "the model has no {field}: {plain}");
    }
}

#[test]
fn a_count_past_the_buffer_is_refused() {
    let writer = module().writer("toy").unwrap();
    let error = writer.encode(&told(9), BlockAt { tensor: 0, block: 0 }, b"", &mut [0; 4]).unwrap_err();
    assert_eq!((error.kind(), error.explicit_code()), (ErrorKind::Plugin, Some("E_PLUGIN")));
}
