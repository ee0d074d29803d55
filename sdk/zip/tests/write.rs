//! What is laid out is what Python's `zipfile` writes, and what every reader reads.

use apr_sdk::{
    Bytes, Carries, CheckedModel, DType, Encoding, Error, ErrorKind, LayoutRequest, LayoutSink, Limits,
    PartRequest, PatchSink, Result, Sum, Writer, Written,
};
use apr_testkit::{ModelFixture, Random};
use apr_zip::{Archive, Method, ZipLayout};

/// What an archive of the test is made of.
#[derive(Clone)]
pub enum Item {
    Inline(String, Vec<u8>, u64),
    /// Name, prefix, alignment: of the next tensor.
    Payload(String, Vec<u8>, u64),
}

/// Writes each list of items as an archive of its own.
pub struct Toy {
    pub archives: Vec<(&'static str, Vec<Item>)>,
    pub zip64: bool,
}

impl Writer for Toy {
    fn layout(&self, model: &CheckedModel, _: &LayoutRequest, sink: &mut dyn LayoutSink) -> Result<()> {
        let mut zip = if self.zip64 { ZipLayout::new().with_zip64_headers() } else { ZipLayout::new() };
        let mut tensor = 0;
        for (file, items) in &self.archives {
            sink.file(file)?;
            for item in items {
                match item {
                    Item::Inline(name, bytes, align) => zip.inline(sink, name, bytes, *align)?,
                    Item::Payload(name, prefix, align) => {
                        let len = model.tensors[tensor].payload_len()?;
                        zip.payload(sink, name, prefix, tensor as u64, len, *align)?;
                        tensor += 1;
                    }
                }
            }
            zip.finish(sink)?;
        }
        Ok(())
    }

    fn finish(&self, written: &Written, sink: &mut dyn PatchSink) -> Result<()> {
        apr_zip::patch(written, sink)
    }
}

/// The archive of these items, whose payloads are these bytes.
pub fn written(items: Vec<Item>, payloads: &[&[u8]], zip64: bool) -> Result<Vec<u8>> {
    let toy = Toy { archives: vec![("a.zip", items)], zip64 };
    let fixture = payloads.iter().enumerate().fold(ModelFixture::new(), |fixture, (n, bytes)| {
        fixture.tensor_with(&format!("t{n}"), DType::U8, &[bytes.len() as u64], bytes.to_vec())
    });
    Ok(fixture.write(&toy, &Carries::default(), &LayoutRequest::file("a.zip"))?.remove(0).1)
}

fn inline(name: &str, bytes: &[u8], align: u64) -> Item {
    Item::Inline(name.to_owned(), bytes.to_vec(), align)
}

fn payload(name: &str, prefix: &[u8], align: u64) -> Item {
    Item::Payload(name.to_owned(), prefix.to_vec(), align)
}

#[test]
fn is_what_zipfile_writes_to_the_byte() {
    let tail: Vec<u8> = (40..52).collect();
    let items = vec![
        inline("a", &[0, 1, 2, 3, 4, 5, 6, 7], 1),
        payload("größe/名前", b"prefix", 1),
        payload("empty", b"", 1),
    ];
    let found = written(items, &[&tail, b""], false).unwrap();
    assert!(found == crate::read::data("stored.zip"));
    assert!(written(vec![], &[], false).unwrap() == crate::read::data("empty.zip"));
}

#[test]
fn with_zip64_headers_is_what_numpy_writes_to_the_byte() {
    let expected = crate::read::data("numpy.zip");
    // The array file in it: behind a local header of 30 bytes, 5 of the name, 20 of the extra field.
    let (prefix, data) = expected[55..55 + 140].split_at(128);
    assert!(written(vec![payload("a.npy", prefix, 1)], &[data], true).unwrap() == expected);
    assert!(written(vec![inline("a.npy", &expected[55..195], 1)], &[], true).unwrap() == expected);
}

#[test]
fn what_is_written_is_read_and_aligned() {
    let mut random = Random::new(7);
    for case in 0..60u64 {
        let zip64 = case % 2 == 1;
        let count = random.bits() % 12;
        let (mut items, mut raws, mut tensors) = (Vec::new(), Vec::new(), Vec::new());
        for n in 0..count {
            let align = 1 << (random.bits() % 14);
            let name = format!("{}{n}", "é/".repeat((random.bits() % 40) as usize));
            let len = (random.bits() % 300) as usize;
            let bytes = random.bytes(len);
            if random.bits().is_multiple_of(3) {
                raws.push((align, 0, bytes.clone()));
                items.push(inline(&name, &bytes, align));
            } else {
                let len = (random.bits() % 200) as usize;
                let prefix = random.bytes(len);
                raws.push((align, prefix.len() as u64, [prefix.clone(), bytes.clone()].concat()));
                items.push(payload(&name, &prefix, align));
                tensors.push(bytes);
            }
        }
        let slices: Vec<&[u8]> = tensors.iter().map(Vec::as_slice).collect();
        let bytes = written(items.clone(), &slices, zip64).unwrap();
        assert!(bytes == written(items, &slices, zip64).unwrap(), "the same bytes each time");
        let source = apr_sdk::MemorySource::new("a.zip", bytes);
        let limits = Limits::default();
        let archive = Archive::open(&source, 0, &limits).unwrap();
        assert_eq!(archive.entries().len(), raws.len());
        for (entry, (align, prefix, raw)) in archive.entries().iter().zip(&raws) {
            assert_eq!((entry.data.offset + prefix) % align, 0, "case {case}");
            assert_eq!(entry.method, Method::Stored);
            assert!(archive.read(&source, entry, &limits).unwrap() == *raw, "case {case}");
        }
    }
}

#[test]
fn several_archives_follow_one_another() {
    let toy = Toy {
        archives: vec![
            ("a", vec![payload("x", b"", 64)]),
            ("b", vec![payload("x", b"p", 8), payload("y", b"", 1)]),
        ],
        zip64: false,
    };
    let fixture =
        (0..3).fold(ModelFixture::new(), |f, n| f.tensor(&format!("{n}"), DType::F32, &[5]).unwrap());
    for (name, bytes) in fixture.write(&toy, &Carries::default(), &LayoutRequest::folder("a")).unwrap() {
        let source = apr_sdk::MemorySource::new(&name, bytes);
        let limits = Limits::default();
        let archive = Archive::open(&source, 0, &limits).unwrap();
        for entry in archive.entries() {
            archive.read(&source, entry, &limits).unwrap();
        }
    }
}

#[test]
fn rejects_what_zip_cannot_say() {
    let unsupported = |items: Vec<Item>, words: &str| {
        let payloads = vec![b"".as_slice(); items.iter().filter(|i| matches!(i, Item::Payload(..))).count()];
        let error = written(items, &payloads, false).unwrap_err();
        assert!(error.message().contains(words), "{error}");
        assert_eq!(error.kind(), ErrorKind::Unsupported);
    };
    unsupported(vec![inline("a", b"", 1), payload("a", b"", 1)], "two entries would have this name");
    unsupported(vec![inline(&"n".repeat(65_536), b"", 1)], "longer than the ZIP limit of 65535 bytes");
    unsupported(vec![inline("a", b"", 0)], "a multiple of 0");
    unsupported(vec![inline("a", b"", 1 << 20)], "its alignment is too large");
}

#[test]
fn rejects_a_patch_of_holes_that_are_not_all_there() {
    struct Nothing;
    impl PatchSink for Nothing {
        fn fill(&mut self, _: u32, _: &[u8]) -> Result<()> {
            Ok(())
        }
        fn fill_digest(&mut self, _: u32, _: u32, _: u64, _: u64, _: Sum) -> Result<()> {
            Ok(())
        }
        fn append(&mut self, _: u32, _: &[u8]) -> Result<()> {
            Ok(())
        }
    }
    let mut written = Written::default();
    written.holes.push(apr_sdk::WrittenHole { id: 7, ..Default::default() });
    apr_zip::patch(&written, &mut Nothing).unwrap();
    written.holes.push(apr_sdk::WrittenHole { id: apr_zip::FIRST_HOLE + 2, len: 4, ..Default::default() });
    assert_eq!(apr_zip::patch(&written, &mut Nothing).unwrap_err().kind(), ErrorKind::Plugin);
}

/// A sink that keeps the segments, not the payload.
#[derive(Default)]
pub struct Sparse {
    /// Offset and bytes; between them is payload.
    pub pieces: Vec<(u64, Vec<u8>)>,
    pub len: u64,
    pub payload_len: u64,
    /// Hole and offset.
    pub holes: Vec<(u32, u64)>,
}

impl LayoutSink for Sparse {
    fn file(&mut self, _: &str) -> Result<()> {
        Ok(())
    }
    fn entry(&mut self) -> Result<()> {
        Ok(())
    }
    fn inline(&mut self, bytes: &[u8]) -> Result<()> {
        self.pieces.push((self.len, bytes.to_vec()));
        self.len += bytes.len() as u64;
        Ok(())
    }
    fn copy(&mut self, _: &Bytes) -> Result<()> {
        Err(Error::unsupported("copy"))
    }
    fn payload(&mut self, _: u64, _: u64, _: Encoding) -> Result<()> {
        self.len += self.payload_len;
        Ok(())
    }
    fn pad_to(&mut self, _: u64) -> Result<()> {
        Err(Error::unsupported("pad_to"))
    }
    fn hole(&mut self, id: u32, len: u64) -> Result<()> {
        self.holes.push((id, self.len));
        self.inline(&vec![0; len as usize])
    }
    fn part(&mut self, _: PartRequest<'_>) -> Result<()> {
        Err(Error::unsupported("part"))
    }
    fn digest(&mut self, _: Sum) -> Result<()> {
        Ok(())
    }
    fn position(&self) -> Option<u64> {
        Some(self.len)
    }
    fn fetch(&mut self, bytes: &Bytes) -> Result<Bytes> {
        Ok(bytes.clone())
    }
    fn note(&mut self, _: &str) {}
}
