//! Verify must fail when a plugin lies: a check exists because a known-bad input makes it fail. And payload that cannot
//! be read at any place arrives whole. Both with a toy format that is told what to do by its own header.

use apr_engine::planned::request::VerifyMode;
use apr_host::convert::{ConvertOptions, convert};
use apr_host::host::Host;
use apr_sdk::{
    BlockAt, BlockSink, CheckedModel, Codec, DType, Encoding, Endian, Error, ErrorKind, Extent,
    LayoutRequest, LayoutSink, Limits, Look, ModelSink, OpenModel, Options, Payload, PluginDecl, Reader,
    Result, Score, Source, Stream, TensorDecl, View, Writer,
};
use apr_tests::{Scratch, must, options};

static TOY: PluginDecl = PluginDecl {
    manifest: "id=toy\nversion=1\nformats=toy\ntoy.roles=read write\ntoy.extensions=toy\ntoy.option.lie=write text - x\n",
    reader: |_| Some(Box::new(Toy)),
    writer: |_| Some(Box::new(Toy)),
    ..PluginDecl::EMPTY
};

/// `toy` + one byte (what kind of payload) + 24 bytes: u16 0..12, as that kind has them. One tensor `t`, U16 [3, 4].
struct Toy;

const HEAD: u64 = 4;

impl Reader for Toy {
    fn probe(&self, look: &Look<'_>) -> Score {
        if look.head_is(b"toy") { Score::MAGIC } else { Score::NO }
    }

    fn open(&self, source: &dyn Source, _: &Limits, _: &Options) -> Result<Box<dyn OpenModel>> {
        let mut head = [0; 4];
        source.read_at(0, 0, &mut head)?;
        Ok(Box::new(Open(head[3])))
    }
}

struct Open(u8);

impl OpenModel for Open {
    fn describe(&self, source: &dyn Source, sink: &mut dyn ModelSink) -> Result<()> {
        let extent = Extent::new(0, HEAD, source.len(0)? - HEAD);
        let view = |strides: &[u64], endian| Some(View { strides: strides.to_vec(), start: 0, endian });
        let payload = match self.0 {
            b'p' | b'n' | b'd' => Payload::Extent { extent, view: None },
            b's' => Payload::Extent { extent, view: view(&[], Endian::Big) },
            b't' => Payload::Extent { extent, view: view(&[1, 3], Endian::Little) },
            b'b' | b'x' => Payload::Blocks { codec: 0.into() },
            b'q' | b'c' => Payload::Sequential,
            other => return Err(Error::malformed(format!("kind {other}"))),
        };
        let name = if self.0 == b'n' { "other" } else { "t" };
        let shape: &[u64] = if self.0 == b'd' { &[4, 3] } else { &[3, 4] };
        sink.tensor(TensorDecl { name, dtype: DType::U16, shape, payload })
    }

    fn blocks(&self, _: &dyn Source, _: u64, sink: &mut dyn BlockSink) -> Result<()> {
        // 'x' claims a block less than there is.
        let n = if self.0 == b'x' { 2 } else { 3 };
        (0..n).try_for_each(|block| sink.block(Extent::new(0, HEAD + block * 8, 8), 8))
    }

    fn decode(&self, _: &Codec, _: BlockAt, stored: &[u8], out: &mut [u8]) -> Result<()> {
        out.iter_mut().zip(stored).for_each(|(o, s)| *o = !s);
        Ok(())
    }

    fn stream(&self, _: u64) -> Result<Box<dyn Stream>> {
        // 'c' ends too early.
        Ok(Box::new(Bytewise(HEAD, if self.0 == b'c' { 20 } else { 28 })))
    }
}

struct Bytewise(u64, u64);

impl Stream for Bytewise {
    fn read(&mut self, source: &dyn Source, out: &mut [u8]) -> Result<usize> {
        if self.0 == self.1 {
            return Ok(0);
        }
        source.read_at(0, self.0, &mut out[..1])?;
        self.0 += 1;
        Ok(1)
    }
}

impl Writer for Toy {
    fn layout(&self, _: &CheckedModel, request: &LayoutRequest, sink: &mut dyn LayoutSink) -> Result<()> {
        let lie = request.options.get("lie").unwrap_or("p").to_owned();
        sink.file(&request.file_name)?;
        sink.inline(if lie.len() == 1 { format!("toy{lie}") } else { "toyp".to_owned() }.as_bytes())?;
        match lie.as_str() {
            "twice" => sink.payload(0, 1, Encoding::Raw)?,
            "never" => return Ok(()),
            "hole" => sink.hole(1, 4)?,
            "late" => sink.inline(&[0; 24])?,
            "unknown" => sink.payload(7, 1, Encoding::Raw)?,
            "align" => sink.payload(0, 3, Encoding::Raw)?,
            "again" => sink.file(&request.file_name)?,
            "leave" => sink.file("../x")?,
            "many" => (0..1 << 17).try_for_each(|n| sink.file(&n.to_string()))?,
            _ => {}
        }
        sink.payload(0, 1, Encoding::Raw)
    }
}

fn toy_host() -> Host {
    let mut host = apr_tests::host();
    apr_host::plugins::add_bundled(&mut host.registry, &TOY);
    host
}

fn payload() -> Vec<u8> {
    (0u16..12).flat_map(u16::to_le_bytes).collect()
}

fn source(scratch: &Scratch, kind: char, bytes: &[u8]) -> std::path::PathBuf {
    let path = scratch.at(&format!("{kind}.toy"));
    std::fs::write(&path, [format!("toy{kind}").as_bytes(), bytes].concat()).unwrap();
    path
}

fn lying(scratch: &Scratch, lie: &str) -> ConvertOptions {
    let mut o = options(&source(scratch, 'p', &payload()), &scratch.at("out.toy"));
    o.options.push((Some("toy".to_owned()), "lie".to_owned(), lie.to_owned()));
    o
}

#[test]
fn every_kind_of_payload_arrives_whole() {
    let scratch = Scratch::new();
    let swapped: Vec<u8> = (0u16..12).flat_map(u16::to_be_bytes).collect();
    let transposed: Vec<u8> =
        [0u16, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11].iter().flat_map(|n| n.to_le_bytes()).collect();
    let inverted: Vec<u8> = payload().iter().map(|b| !b).collect();
    for (kind, bytes) in
        [('p', payload()), ('s', swapped), ('t', transposed), ('b', inverted), ('q', payload())]
    {
        let output = scratch.at(&format!("{kind}-out.toy"));
        let mut o = options(&source(&scratch, kind, &bytes), &output);
        o.verify = VerifyMode::Full;
        must(&toy_host(), &o);
        assert_eq!(std::fs::read(&output).unwrap()[4..], payload(), "{kind}");
    }
    assert!(scratch.names().iter().all(|n| !n.starts_with('.')), "{:?}", scratch.names());
}

#[test]
fn payload_that_is_shorter_than_its_shape_is_refused() {
    let scratch = Scratch::new();
    for kind in ['x', 'c'] {
        let error = convert(&toy_host(), &options(&source(&scratch, kind, &payload()), &scratch.at("o.toy")))
            .unwrap_err();
        assert_eq!((error.kind(), error.tensor_name()), (ErrorKind::Malformed, Some("t")), "{error}");
    }
    assert_eq!(scratch.names(), ["c.toy", "x.toy"]);
}

#[test]
fn verify_refuses_an_output_that_does_not_read_back_as_planned() {
    // Another name, another shape, another byte order, payload elsewhere, and a header that cannot be read.
    for lie in ["n", "d", "s", "late", "z"] {
        let scratch = Scratch::new();
        let error = convert(&toy_host(), &lying(&scratch, lie)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Failed, "{lie}: {error}");
        assert_eq!(scratch.names(), ["p.toy"], "{lie}");
    }
    let scratch = Scratch::new();
    let mut unverified = lying(&scratch, "n");
    unverified.verify = VerifyMode::Off;
    must(&toy_host(), &unverified);
}

#[test]
fn a_layout_that_breaks_the_contract_is_refused_before_work() {
    let lies = ["twice", "never", "unknown", "align", "leave"].map(|lie| (lie, ErrorKind::Plugin));
    // A file's name may be the source's: two of one name are not the plugin's fault alone.
    for (lie, kind) in lies.into_iter().chain([("again", ErrorKind::Unsupported)]) {
        let scratch = Scratch::new();
        let error = convert(&toy_host(), &lying(&scratch, lie)).unwrap_err();
        assert_eq!(error.kind(), kind, "{lie}: {error}");
        assert_eq!(scratch.names(), ["p.toy"], "{lie}");
    }
}

#[test]
fn a_hole_that_is_never_filled_is_refused() {
    let scratch = Scratch::new();
    let error = convert(&toy_host(), &lying(&scratch, "hole")).unwrap_err();
    assert!(error.message().contains("hole 1"), "{error}");
    assert_eq!(scratch.names(), ["p.toy"]);
}

#[test]
fn more_files_than_a_model_may_have_are_not_made() {
    let scratch = Scratch::new();
    let error = convert(&toy_host(), &lying(&scratch, "many")).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    assert!(error.hint_text().unwrap().contains("--max-shard-size"));
}
