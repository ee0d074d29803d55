//! Models above 2 GiB, of which no byte of payload is held.

use crate::fixture::{FORMAT, carries, reader, writer};
use apr_sdk::{
    Bytes, CheckedModel, DType, Encoding, ErrorKind, Extent, FileId, LayoutRequest, LayoutSink, Limits,
    LogLevel, Model, ModelBuilder, ModelSink, Options, PartRequest, Payload, Result, Source, Sum, TensorDecl,
};

/// What a writer lays out: the bytes that it gives, and how long each file becomes.
#[derive(Default)]
struct Sketch {
    files: Vec<(String, Vec<u8>, u64)>,
    notes: Vec<String>,
    lengths: Vec<u64>,
}

impl LayoutSink for Sketch {
    fn file(&mut self, name: &str) -> Result<()> {
        self.files.push((name.to_owned(), Vec::new(), 0));
        Ok(())
    }

    fn entry(&mut self) -> Result<()> {
        Ok(())
    }

    fn inline(&mut self, bytes: &[u8]) -> Result<()> {
        let file = self.files.last_mut().unwrap();
        file.1.extend_from_slice(bytes);
        file.2 += bytes.len() as u64;
        Ok(())
    }

    fn copy(&mut self, bytes: &Bytes) -> Result<()> {
        self.inline(bytes.inline().unwrap())
    }

    fn payload(&mut self, tensor: u64, align: u64, _encoding: Encoding) -> Result<()> {
        let len = self.lengths[tensor as usize];
        if self.files.len() == 1 && len < 1 << 20 {
            return self.inline(&vec![0; len as usize]);
        }
        self.pad_to(align)?;
        self.files.last_mut().unwrap().2 += len;
        Ok(())
    }

    fn pad_to(&mut self, n: u64) -> Result<()> {
        let file = self.files.last_mut().unwrap();
        file.2 = file.2.next_multiple_of(n);
        Ok(())
    }

    fn hole(&mut self, _id: u32, _len: u64) -> Result<()> {
        unreachable!("the format has no holes")
    }

    fn part(&mut self, _part: PartRequest<'_>) -> Result<()> {
        unreachable!("the format has no parts")
    }

    fn digest(&mut self, _sum: Sum) -> Result<()> {
        unreachable!("the format has no digests")
    }

    fn position(&self) -> Option<u64> {
        self.files.last().map(|file| file.2)
    }

    fn fetch(&mut self, bytes: &Bytes) -> Result<Bytes> {
        Ok(bytes.clone())
    }

    fn note(&mut self, note: &str) {
        self.notes.push(note.to_owned());
    }
}

/// The first file as it was laid out, small payloads as zeros; of the others the length alone.
impl Source for Sketch {
    fn name(&self, file: FileId) -> String {
        self.files[file as usize].0.clone()
    }

    fn len(&self, file: FileId) -> Result<u64> {
        Ok(self.files[file as usize].2)
    }

    fn read_at(&self, file: FileId, offset: u64, out: &mut [u8]) -> Result<()> {
        assert_eq!(file, 0, "opening reads no payload");
        out.copy_from_slice(&self.files[0].1[offset as usize..][..out.len()]);
        Ok(())
    }

    fn view(&self, _extent: Extent) -> Result<&[u8]> {
        unreachable!("the reader views nothing")
    }

    fn sibling(&self, path: &str) -> Result<FileId> {
        Ok(self.files.iter().position(|file| file.0 == path).unwrap() as FileId)
    }

    fn entries(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn log(&self, _level: LogLevel, _message: &str) {}
}

/// Three tensors of 800 MiB and a small one.
fn model() -> Model {
    let (limits, long) = (Limits::default(), |_: FileId| Ok(u64::MAX));
    let mut builder = ModelBuilder::new("toy", &limits, &long);
    for (name, size) in [("a", 800 << 20), ("b", 800 << 20), ("small", 5), ("c", 800 << 20)] {
        builder.tensor(TensorDecl::plain(name, DType::U8, &[size], Extent::new(0, 0, size))).unwrap();
    }
    builder.finish()
}

fn sketch(model: &Model, options: Options) -> Result<Sketch> {
    let lengths = model.tensors.iter().map(|tensor| tensor.payload_len().unwrap()).collect();
    let mut sketch = Sketch { lengths, ..Sketch::default() };
    let mut request = LayoutRequest::file("m.onnx");
    request.options = options;
    let model = CheckedModel::new(model.clone(), &carries()).unwrap();
    writer().layout(&model, &request, &mut sketch)?;
    Ok(sketch)
}

#[test]
fn above_2_gib_data_lies_beside_the_model_with_a_notice_or_is_refused() {
    let model = model();
    let written = sketch(&model, Options::new()).unwrap();
    let names: Vec<_> = written.files.iter().map(|file| (file.0.as_str(), file.2)).collect();
    assert_eq!(names[1], ("m.onnx.data", 2400 << 20));
    assert!(names[0].1 < 1000 && names.len() == 2, "{names:?}");
    assert!(written.notes[1].contains("the format's limit of 2147483647"), "{:?}", written.notes);
    let error = sketch(&model, Options::new().with("single-file", "true")).err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
}

#[test]
fn a_long_file_of_weights_says_nothing_of_its_own_either() {
    let written = sketch(&model(), Options::new()).unwrap();
    let back = apr_testkit::read(&*reader(), FORMAT, &written, &Options::new()).unwrap();
    assert_eq!((back.foreign[0].files[0].typed.len(), &back.foreign[0].files[0].verbatim), (0, &None));
    let Payload::Extent { extent, .. } = back.tensors[3].payload else { panic!("{:?}", back.tensors[3]) };
    assert_eq!(extent, Extent::new(1, 1600 << 20, 800 << 20));
}
