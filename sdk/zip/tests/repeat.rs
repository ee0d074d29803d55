//! A file without its payloads is laid out again to the byte, and with other payloads is a right archive.

use crate::read::data;
use apr_sdk::{
    Carries, CheckedModel, DType, Extent, LayoutRequest, LayoutSink, Limits, MemorySource, PatchSink, Result,
    Source, Writer, Written,
};
use apr_testkit::{ModelFixture, Random};
use apr_zip::{Archive, HoleNumbers, Laid, Method, Skeleton, ZipLayout};

struct Repeat(Skeleton);

impl Writer for Repeat {
    fn layout(&self, model: &CheckedModel, _: &LayoutRequest, sink: &mut dyn LayoutSink) -> Result<()> {
        let archive = Archive::open(&self.0, 0, &Limits::default()).ok();
        sink.file("a")?;
        let tensors: Vec<_> = (0..model.tensors.len() as u64).collect();
        assert!(self.0.lay_out(sink, archive.as_ref(), &tensors, &mut HoleNumbers::default())?);
        Ok(())
    }

    fn finish(&self, written: &Written, sink: &mut dyn PatchSink) -> Result<()> {
        apr_zip::patch(written, sink)
    }
}

fn repeated(skeleton: &Skeleton, payload: impl Fn(Extent) -> Vec<u8>) -> Vec<u8> {
    let fixture = skeleton.payloads().enumerate().fold(ModelFixture::new(), |fixture, (n, extent)| {
        fixture.tensor_with(&format!("{n}"), DType::U8, &[extent.len], payload(extent))
    });
    fixture
        .write(&Repeat(skeleton.clone()), &Carries::default(), &LayoutRequest::file("a"))
        .unwrap()
        .remove(0)
        .1
}

/// The whole data of every stored entry; of those of ten bytes or more, all but the first six.
fn payloads(archive: &Archive) -> Vec<Extent> {
    let stored = archive.entries().iter().filter(|entry| entry.method == Method::Stored);
    stored
        .map(|entry| {
            let header = if entry.data.len < 10 { 0 } else { 6 };
            Extent::new(0, entry.data.offset + header, entry.data.len - header)
        })
        .collect()
}

#[test]
fn archives_of_other_programs_are_repeated_to_the_byte() {
    for name in ["empty.zip", "numpy.zip", "python.zip", "stored.zip", "streamed.zip", "torch.zip"] {
        let bytes = data(name);
        let source = MemorySource::new(name, bytes.clone());
        let limits = Limits::default();
        let archive = Archive::open(&source, 0, &limits).unwrap();
        let skeleton = Skeleton::take(&source, 0, &payloads(&archive), &limits).unwrap().unwrap();
        let parsed = Skeleton::parse(&skeleton.to_bytes()).unwrap();
        assert_eq!(parsed, skeleton);
        assert_eq!(Archive::open(&parsed, 0, &limits).unwrap().entries(), archive.entries(), "{name}");
        let same = repeated(&parsed, |extent| source.view(extent).unwrap().to_vec());
        assert!(same == bytes, "{name}");
        // Other payloads: every CRC-32 is another one, and right.
        let other = repeated(&parsed, |extent| vec![0x5a; extent.len as usize]);
        assert_eq!(other.len(), bytes.len());
        let source = MemorySource::new(name, other);
        let archive = Archive::open(&source, 0, &limits).unwrap();
        for entry in archive.entries() {
            archive.read(&source, entry, &limits).unwrap();
        }
    }
}

#[test]
fn a_skeleton_reads_as_the_file_with_zeros_for_payload() {
    let mut random = Random::new(3);
    for _ in 0..200 {
        let len = random.bits() % 120;
        let bytes = random.bytes(len as usize);
        let mut cuts: Vec<_> = (0..random.bits() % 5 * 2).map(|_| random.bits() % (len + 1)).collect();
        cuts.sort_unstable();
        let payloads: Vec<_> =
            cuts.chunks_exact(2).map(|pair| Extent::new(0, pair[0], pair[1] - pair[0])).collect();
        let source = MemorySource::new("a", bytes.clone());
        let skeleton = Skeleton::take(&source, 0, &payloads, &Limits::default()).unwrap().unwrap();
        let mut expected = bytes.clone();
        payloads.iter().for_each(|p| expected[p.offset as usize..(p.offset + p.len) as usize].fill(0));
        for _ in 0..20 {
            let start = random.bits() % (len + 1);
            let end = start + random.bits() % (len - start + 1);
            let mut out = vec![0xff; (end - start) as usize];
            skeleton.read_at(0, start, &mut out).unwrap();
            assert_eq!(out, expected[start as usize..end as usize]);
        }
        assert!(skeleton.read_at(0, len, &mut [0]).is_err());
        let same = repeated(&skeleton, |extent| source.view(extent).unwrap().to_vec());
        assert_eq!(same, bytes);
    }
}

#[test]
fn what_is_no_skeleton_is_none() {
    let source = MemorySource::new("a", vec![1; 100]);
    let limits = Limits::default();
    let take = |payloads: &[Extent]| Skeleton::take(&source, 0, payloads, &limits).unwrap();
    assert_eq!(take(&[Extent::new(0, 0, 10), Extent::new(0, 9, 10)]), None);
    assert_eq!(take(&[Extent::new(0, 95, 10)]), None);
    assert_eq!(take(&[Extent::new(0, 5, u64::MAX)]), None);
    let bytes = take(&[Extent::new(0, 5, 90)]).unwrap().to_bytes();
    for len in 0..bytes.len() {
        assert_eq!(Skeleton::parse(&bytes[..len]), None, "{len}");
    }
    for at in 0..32 {
        let mut wrong = bytes.clone();
        wrong[at] ^= 0x81;
        assert_ne!(Skeleton::parse(&wrong), Skeleton::parse(&bytes), "{at}");
    }
    let large = MemorySource::new("a", vec![1; 17 << 20]);
    assert_eq!(Skeleton::take(&large, 0, &[], &limits).unwrap(), None, "that is not a header any more");
}

#[test]
fn a_layout_is_known_again_but_for_its_holes() {
    let lay = |name: &str| {
        let mut laid = Laid::new(vec![8, 12]);
        laid.file("a").unwrap();
        let mut zip = ZipLayout::new();
        zip.inline(&mut laid, name, &[0, 1, 2, 3, 4, 5, 6, 7], 1).unwrap();
        zip.payload(&mut laid, "größe/名前", b"prefix", 1, 12, 1).unwrap();
        zip.inline(&mut laid, "empty", b"", 1).unwrap();
        zip.finish(&mut laid).unwrap();
        laid
    };
    let source = MemorySource::new("stored.zip", data("stored.zip"));
    let limits = Limits::default();
    let archive = Archive::open(&source, 0, &limits).unwrap();
    let second = archive.entries()[1].data;
    let file =
        Skeleton::take(&source, 0, &[Extent::new(0, second.offset + 6, 12)], &limits).unwrap().unwrap();
    assert!(lay("a").is(&file));
    assert!(!lay("b").is(&file));
    let other =
        Skeleton::take(&source, 0, &[Extent::new(0, second.offset + 5, 12)], &limits).unwrap().unwrap();
    assert!(!lay("a").is(&other));
}
