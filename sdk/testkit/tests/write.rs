//! The sinks in memory: every segment, and every breach of the contract.

use apr_sdk::{
    BlockAt, Bytes, Carries, CheckedModel, Codec, DType, Digest, DigestForm, Encoding, Error, ErrorKind,
    Extent, LayoutRequest, LayoutSink, Options, PartRequest, PatchSink, Result, Sum, Writer, Written,
};
use apr_testkit::{ModelFixture, Rendered, render, write};

type Layout = fn(&mut dyn LayoutSink) -> Result<()>;
type Finish = fn(&Written, &mut dyn PatchSink) -> Result<()>;

/// A writer made of two functions.
struct Script(Layout, Finish);

impl Writer for Script {
    fn layout(&self, _: &CheckedModel, _: &LayoutRequest, sink: &mut dyn LayoutSink) -> Result<()> {
        self.0(sink)
    }

    fn finish(&self, written: &Written, sink: &mut dyn PatchSink) -> Result<()> {
        self.1(written, sink)
    }

    fn encoded_bound(&self, codec: &Codec, raw_len: u64) -> Result<u64> {
        Ok(if codec.number == 66 { 0 } else { raw_len + 1 })
    }

    /// The block's length, then its bytes.
    fn encode(&self, _: &Codec, _: BlockAt, raw: &[u8], out: &mut [u8]) -> Result<usize> {
        if let Some(first) = out.first_mut() {
            *first = raw.len() as u8;
            out[1..=raw.len()].copy_from_slice(raw);
        }
        Ok(raw.len() + 1)
    }
}

fn two() -> ModelFixture {
    ModelFixture::new().tensor_with("a", DType::U8, &[5], b"aaaaa".to_vec()).tensor_with(
        "b",
        DType::U8,
        &[3],
        b"bbb".to_vec(),
    )
}

fn rendered(layout: Layout, finish: Finish) -> Result<Rendered> {
    let model = two();
    let (built, source) = model.build()?;
    render(
        &Script(layout, finish),
        &Carries::default(),
        &built,
        &source,
        &|n| model.payload(n),
        &LayoutRequest::file("out.toy"),
    )
}

fn nothing(_: &Written, _: &mut dyn PatchSink) -> Result<()> {
    Ok(())
}

fn place(sink: &mut dyn LayoutSink) -> Result<()> {
    sink.payload(0, 1, Encoding::Raw)?;
    sink.payload(1, 1, Encoding::Raw)
}

#[test]
fn renders_every_segment() {
    let layout: Layout = |sink| {
        sink.file("m/one.bin")?;
        sink.inline(b"head")?;
        sink.hole(7, 4)?;
        sink.payload(0, 16, Encoding::Raw)?;
        assert_eq!(sink.position(), Some(21));
        sink.pad_to(3)?;
        sink.pad_to(8)?;
        // The payload of the first tensor, as bytes of the model.
        sink.copy(&Bytes::from(Extent::new(0, 0, 5)))?;
        assert_eq!(sink.fetch(&Bytes::from(Extent::new(0, 5, 3)))?, Bytes::from("bbb"));
        sink.file("two.bin")?;
        sink.entry()?;
        sink.digest(Sum::CRC32)?;
        sink.payload(1, 4, Encoding::Encoded { codec: 1.into(), block_size: 2, lengths: true })?;
        assert_eq!(sink.position(), None);
        sink.hole(8, 8)?;
        sink.note("two files");
        Ok(())
    };
    let finish: Finish = |written, sink| {
        assert_eq!(written.files.iter().map(|f| f.len).collect::<Vec<_>>(), [29, 13]);
        assert_eq!(
            (written.tensors[1].file, written.tensors[1].stored_len, written.tensors[1].raw_len),
            (1, 5, 3)
        );
        let crc = |bytes| crc32fast::hash(bytes).to_le_bytes();
        assert_eq!(written.tensors[0].digests.get(Sum::CRC32), Some(&crc(b"aaaaa")[..]));
        assert_eq!(written.inputs[0].digests.get(Sum::CRC32), Some(&crc(b"aaaaabbb")[..]));
        assert_eq!((written.inputs.len(), written.inputs[0].digests.get(Sum::CRC32_HEX)), (1, None));
        assert_eq!((&written.tensors[0].blocks[..], &written.tensors[1].blocks[..]), (&[][..], &[3, 2][..]));
        assert_eq!((written.holes[1].id, written.holes[1].offset), (8, 5));
        sink.fill_digest(8, 1, 0, 5, Sum::CRC32_HEX)?;
        sink.fill(7, b"fill")?;
        sink.append(1, b"end")
    };
    let made = rendered(layout, finish).unwrap();
    assert_eq!((made.entry, made.notes.as_slice()), (1, &["two files".to_owned()][..]));
    assert_eq!(made.files[0].1, b"headfill\0\0\0\0\0\0\0\0aaaaa\0\0\0aaaaa");
    let sum = format!("\x02bb\x01b{:08x}end", crc32fast::hash(b"\x02bb\x01b"));
    assert_eq!(made.files[1].1, sum.as_bytes());
    let model = two();
    let (built, source) = model.build().unwrap();
    let files = write(
        &Script(layout, finish),
        &Carries::default(),
        &built,
        &source,
        &|n| model.payload(n),
        &LayoutRequest::file("x"),
    )
    .unwrap();
    assert_eq!(files.iter().map(|f| f.0.as_str()).collect::<Vec<_>>(), ["two.bin", "m/one.bin"]);
}

#[test]
fn checksums_see_what_was_filled_before() {
    let made = rendered(
        |sink| {
            sink.file("f")?;
            sink.hole(1, 4)?;
            sink.hole(2, 4)?;
            place(sink)
        },
        |_, sink| {
            sink.fill_digest(2, 0, 0, 4, Sum::CRC32)?;
            sink.fill(1, b"late")
        },
    );
    assert_eq!(made.unwrap().files[0].1[4..8], crc32fast::hash(b"late").to_le_bytes());
}

#[test]
fn refuses_every_breach_of_the_layout() {
    let cases: &[(&str, Layout)] = &[
        ("no file", |_| Ok(())),
        ("before the first `file`", |sink| sink.inline(b"x")),
        ("before the first `file`", |sink| sink.copy(&Bytes::from("x"))),
        ("before the first `file`", |sink| sink.payload(0, 1, Encoding::Raw)),
        ("before the first `file`", |sink| sink.hole(0, 1)),
        ("before the first `file`", |sink| sink.entry()),
        ("points outside the output folder", |sink| sink.file("../x")),
        ("points outside the output folder", |sink| sink.file("/x")),
        ("points outside the output folder", |sink| sink.file("")),
        ("two files", |sink| sink.file("x").and_then(|()| sink.file("x"))),
        ("does not exist", |sink| sink.file("x").and_then(|()| sink.payload(2, 1, Encoding::Raw))),
        ("power of two", |sink| sink.file("x").and_then(|()| sink.payload(0, 3, Encoding::Raw))),
        ("power of two", |sink| sink.file("x").and_then(|()| sink.payload(0, 0, Encoding::Raw))),
        ("twice", |sink| sink.file("x").and_then(|()| place(sink)).and_then(|()| place(sink))),
        ("never places", |sink| sink.file("x").and_then(|()| sink.payload(1, 1, Encoding::Raw))),
        ("multiples of 0", |sink| sink.file("x").and_then(|()| sink.pad_to(0))),
        ("a gap above", |sink| sink.file("x").and_then(|()| sink.hole(0, u64::MAX))),
        ("two holes", |sink| sink.file("x").and_then(|()| sink.hole(0, 1)).and_then(|()| sink.hole(0, 1))),
        ("never filled", |sink| sink.file("x").and_then(|()| sink.hole(0, 1)).and_then(|()| place(sink))),
        ("blocks of 0", |sink| {
            sink.file("x").and_then(|()| {
                sink.payload(0, 1, Encoding::Encoded { codec: 0.into(), block_size: 0, lengths: false })
            })
        }),
        ("its bound of", |sink| {
            sink.file("x").and_then(|()| {
                sink.payload(0, 1, Encoding::Encoded { codec: 66.into(), block_size: 4, lengths: false })
            })
        }),
    ];
    for (message, layout) in cases {
        let error = rendered(*layout, nothing).unwrap_err();
        assert!(
            error.kind() == ErrorKind::Plugin && error.message().contains(message),
            "{message}: {error:?}"
        );
    }
    let sha = rendered(|sink| sink.digest(Sum::new(Digest::Sha256, DigestForm::Bytes)), nothing).unwrap_err();
    assert!(sha.kind() == ErrorKind::Unsupported && sha.message().contains("SHA-256"), "{sha}");
    let part = rendered(
        |sink| sink.part(PartRequest { stem: "x", format: "y", tensors: None, options: Options::new() }),
        nothing,
    );
    assert_eq!(part.unwrap_err().kind(), ErrorKind::Unsupported);
}

#[test]
fn refuses_every_breach_of_the_patches() {
    let layout: Layout = |sink| {
        sink.file("x")?;
        sink.hole(1, 4)?;
        place(sink)
    };
    let cases: &[(&str, Finish)] = &[
        ("no hole 9", |_, sink| sink.fill(9, b"1234")),
        ("3 bytes for hole 1", |_, sink| sink.fill(1, b"123")),
        ("filled twice", |_, sink| sink.fill(1, b"1234").and_then(|()| sink.fill(1, b"1234"))),
        ("8 bytes for hole 1", |_, sink| sink.fill_digest(1, 0, 0, 4, Sum::CRC32_HEX)),
        ("file 1 does not exist", |_, sink| sink.fill_digest(1, 1, 0, 0, Sum::CRC32)),
        ("bytes 0 to 99", |_, sink| sink.fill_digest(1, 0, 0, 99, Sum::CRC32)),
        ("bytes 2 to 1", |_, sink| sink.fill_digest(1, 0, 2, 1, Sum::CRC32)),
        ("file 5 does not exist", |_, sink| sink.append(5, b"x")),
    ];
    for (message, finish) in cases {
        let error = rendered(layout, *finish).unwrap_err();
        assert!(
            error.kind() == ErrorKind::Plugin && error.message().contains(message),
            "{message}: {error:?}"
        );
    }
}

#[test]
fn refuses_a_payload_of_the_wrong_length() {
    let (model, source) = two().build().unwrap();
    let layout: Layout = |sink| sink.file("x").and_then(|()| place(sink));
    let short = |_| Ok(vec![0; 4]);
    let error = write(
        &Script(layout, nothing),
        &Carries::default(),
        &model,
        &source,
        &short,
        &LayoutRequest::file("x"),
    )
    .unwrap_err();
    assert_eq!((error.kind(), error.tensor_name()), (Error::invalid_argument("").kind(), Some("a")));
}
