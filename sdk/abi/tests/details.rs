//! What a newer host says beyond what this version knows: details, kinds of payload, checksums and facts. The plugin hears
//! what it would have heard without them.

use crate::toy::{Exported, Toy, full_error, heard};
use abi_stable::erased_types::TD_Opaque;
use abi_stable::sabi_types::{RMut, RRef};
use abi_stable::std_types::{RSlice, RStr};
use apr_abi::adapt::error::from_wire;
use apr_abi::adapt::layout::{ToWireLayoutSink, ToWirePatchSink};
use apr_abi::adapt::reader::ToWireReader;
use apr_abi::adapt::request::from_request;
use apr_abi::adapt::source::ToWireSource;
use apr_abi::adapt::writer::ToWireWriter;
use apr_abi::export::Export;
use apr_abi::wire::*;
use apr_sdk::{ErrorKind, FormatManifest, LayoutRequest, Manifest, MemorySource};

/// Details that no version of this wire has.
fn newer() -> Vec<u8> {
    let mut detail = Vec::new();
    pairs::push(&mut detail, "of the future", b"\x01");
    pairs::push(&mut detail, "", &[0xff; 40]);
    detail
}

/// What the toy hears of a reading host that says `detail` wherever it can.
fn read_with(detail: &[u8]) -> Vec<String> {
    let reader = ReaderObject::from_value(ToWireReader::new(Box::new(Toy)), TD_Opaque);
    let entries: [RStr<'_>; 1] = ["x".into()];
    let look = WireLook {
        name: "n".into(),
        head: b"head".as_slice().into(),
        tail: RSlice::EMPTY,
        entries: entries.as_slice().into(),
        len: 4,
        is_folder: false,
        detail: detail.into(),
    };
    assert_eq!(reader.probe(&look).into_result().unwrap().0, 77);
    let limits = WireLimits {
        tensors: 1,
        dims: 2,
        name_bytes: 3,
        metadata_keys: 4,
        nesting: 5,
        files: 6,
        budget_left: 1 << 20,
        detail: detail.into(),
    };
    let source = MemorySource::new("a", vec![0; 32]);
    let source = ToWireSource(&source);
    let opened = reader.open(&source.object(), &limits, RSlice::EMPTY).into_result().unwrap();
    let at = WireBlockAt { tensor: 7, block: 8, detail: detail.into() };
    let mut out = [0; 4];
    let stored = b"st".as_slice().into();
    opened.model.decode(0, at, RSlice::EMPTY, stored, out.as_mut_slice().into()).into_result().unwrap();
    assert_eq!(out, [9; 4]);
    heard()
}

#[test]
fn a_reader_passes_over_details() {
    let plain = read_with(&[]);
    assert!(plain.iter().any(|line| line.contains("name_bytes: 3")), "{plain:?}");
    assert_eq!(read_with(&newer()), plain);
    // It does not even look whether they are pairs.
    assert_eq!(read_with(b"damaged"), plain);
}

/// A host that hands over a model of one tensor and one part.
struct Host<'a> {
    detail: &'a [u8],
    payload: PayloadNumber,
}

impl WireModel for Host<'_> {
    fn push(&self, sink: &mut ModelSinkMut<'_>) -> R<()> {
        let none =
            WireBytes { held: RSlice::EMPTY, offset: 0, len: 0, file: 0, is_held: 1, reserved: [0; 2] };
        let pushed = sink.tensor(WireTensor {
            name: "t".into(),
            shape: [2].as_slice().into(),
            strides: RSlice::EMPTY,
            options: RSlice::EMPTY,
            start: 0,
            offset: 3,
            len: 2,
            file: 0,
            dtype: DTypeNumber(20),
            payload: self.payload,
            order: ByteOrder::PLAIN,
            codec: 0,
            padding: 0,
            detail: self.detail.into(),
        });
        pushed.unwrap();
        let part = WirePart {
            format: "p".into(),
            options: RSlice::EMPTY,
            offset: 0,
            len: 0,
            file: 1,
            has_range: 0,
            detail: self.detail.into(),
        };
        sink.part(part).unwrap();
        if !self.detail.is_empty() {
            let covers = WireExtent { offset: 0, len: 1, file: 0, padding: 0 };
            let unknown = CodingNumber(99);
            let known = DigestNumber::CRC32;
            sink.checksum(covers, none, known, FormNumber::HEX, unknown, 0).unwrap();
            sink.checksum(covers, none, DigestNumber(99), FormNumber(99), CodingNumber::RAW, 0).unwrap();
            sink.fact(FactNumber(99), "x".into(), none).unwrap();
        }
        R::ROk(())
    }
}

/// Takes a layout and patches.
#[derive(Default)]
struct Taken(Vec<String>);

impl apr_sdk::PatchSink for Taken {
    fn fill(&mut self, id: u32, bytes: &[u8]) -> apr_sdk::Result<()> {
        self.0.push(format!("{id} {bytes:?}"));
        Ok(())
    }
    fn fill_digest(&mut self, _: u32, _: u32, _: u64, _: u64, _: apr_sdk::Sum) -> apr_sdk::Result<()> {
        Ok(())
    }
    fn append(&mut self, _: u32, _: &[u8]) -> apr_sdk::Result<()> {
        Err(full_error())
    }
}

/// What the toy's manifest says of its format.
fn manifest() -> FormatManifest {
    Manifest::parse(Exported::decl().manifest).unwrap().formats.remove(0)
}

/// What the toy hears of a host that says `detail` wherever it can while it writes.
fn write_with(detail: &[u8], payload: PayloadNumber) -> Vec<String> {
    let writer = WriterObject::from_value(ToWireWriter::new(Box::new(Toy), manifest()), TD_Opaque);
    let host = Host { detail, payload };
    let model: ModelRef<'_> = WireModel_TO::from_ptr(RRef::new(&host), TD_Opaque);
    let mut layout = crate::layout::Recorder::default();
    let mut sink = ToWireLayoutSink(&mut layout);
    let mut sink = WireLayoutSink_TO::from_ptr(RMut::new(&mut sink), TD_Opaque);
    let request = from_request(&LayoutRequest::file("m"));
    // The toy ends by making a hole twice.
    assert!(writer.layout(&model, request.as_slice().into(), &mut sink).is_err());
    let (known, other) = ((DigestNumber::SHA256, FormNumber::HEX), (DigestNumber(99), FormNumber(99)));
    let digest = |(digest, form)| WireDigest { stated: b"x".as_slice().into(), digest, form };
    let digests = [digest(known), digest(other)];
    let digests = if detail.is_empty() { &digests[..1] } else { &digests[..] };
    let inputs = [WireWrittenInput { digests: digests.into(), detail: detail.into() }];
    let tensors = [WireWrittenTensor {
        offset: 1,
        stored_len: 2,
        raw_len: 3,
        file: 0,
        digests: digests.into(),
        blocks: RSlice::EMPTY,
        padding: 0,
        detail: detail.into(),
    }];
    let written = WireWritten {
        files: RSlice::EMPTY,
        tensors: tensors.as_slice().into(),
        inputs: inputs.as_slice().into(),
        holes: RSlice::EMPTY,
        detail: detail.into(),
    };
    let mut taken = Taken::default();
    {
        let mut sink = ToWirePatchSink(&mut taken);
        let mut sink = WirePatchSink_TO::from_ptr(RMut::new(&mut sink), TD_Opaque);
        assert!(writer.finish(&written, &mut sink).is_err());
    }
    assert_eq!(taken.0.len(), 1);
    heard()
}

#[test]
fn a_writer_passes_over_details_and_what_it_cannot_know() {
    let plain = write_with(&[], PayloadNumber::SEQUENTIAL);
    assert!(plain[0].contains("name: \"t\"") && plain[0].contains("Sequential"), "{plain:?}");
    assert_eq!(write_with(&newer(), PayloadNumber::SEQUENTIAL), plain);
    // It needs a tensor's name, type and shape, never where the payload lies.
    assert_eq!(write_with(&newer(), PayloadNumber(99)), plain);
}

#[test]
fn a_writer_sees_no_model_that_its_manifest_does_not_carry() {
    let mut format = manifest();
    format.carries.max_dims = 0;
    let writer = WriterObject::from_value(ToWireWriter::new(Box::new(Toy), format), TD_Opaque);
    let host = Host { detail: &[], payload: PayloadNumber::SEQUENTIAL };
    let model: ModelRef<'_> = WireModel_TO::from_ptr(RRef::new(&host), TD_Opaque);
    let mut layout = crate::layout::Recorder::default();
    let mut sink = ToWireLayoutSink(&mut layout);
    let mut sink = WireLayoutSink_TO::from_ptr(RMut::new(&mut sink), TD_Opaque);
    let request = from_request(&LayoutRequest::file("m"));
    let laid_out = writer.layout(&model, request.as_slice().into(), &mut sink).into_result();
    let error = from_wire(laid_out.unwrap_err());
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert_eq!(error.message(), "toy holds at most 0 dimensions, this has 1");
    assert_eq!((error.tensor_name(), heard()), (Some("t"), Vec::new()));
}
