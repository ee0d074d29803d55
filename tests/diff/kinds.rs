//! Payload of every kind is compared alike: in place, swapped, gathered, in compressed blocks, in order. With a toy
//! format that is told the kind by its own header.

use crate::{bytes, compare, weights, write};
use apr_engine::diff::DiffOptions;
use apr_host::host::Host;
use apr_sdk::{
    BlockAt, BlockSink, Codec, DType, Endian, Error, ErrorKind, Extent, Limits, Look, ModelSink, OpenModel,
    Options, Payload, PluginDecl, Reader, Result, Score, Source, Stream, TensorDecl, View,
};
use apr_tests::Scratch;
use std::path::Path;

static ODD: PluginDecl = PluginDecl {
    manifest: "id=odd\nversion=1\nformats=odd\nodd.roles=read\nodd.extensions=odd\n",
    reader: |_| Some(Box::new(Odd)),
    ..PluginDecl::EMPTY
};

/// `odd` + one byte (the kind) + F32 values as that kind has them. One tensor `w` of rows of 4.
struct Odd;

const HEAD: u64 = 4;
/// Bytes of a block, and of what a stream gives at once: no multiple of a tile, nor of a value.
const PIECE: u64 = 10_007;

impl Reader for Odd {
    fn probe(&self, look: &Look<'_>) -> Score {
        if look.head_is(b"odd") { Score::MAGIC } else { Score::NO }
    }

    fn open(&self, source: &dyn Source, _: &Limits, _: &Options) -> Result<Box<dyn OpenModel>> {
        let mut head = [0; 4];
        source.read_at(0, 0, &mut head)?;
        Ok(Box::new(Open { kind: head[3], end: source.len(0)? }))
    }
}

struct Open {
    kind: u8,
    end: u64,
}

impl OpenModel for Open {
    fn describe(&self, _: &dyn Source, sink: &mut dyn ModelSink) -> Result<()> {
        let extent = Extent::new(0, HEAD, self.end - HEAD);
        let rows = extent.len / 16;
        let view = |strides: &[u64], endian| Some(View { strides: strides.to_vec(), start: 0, endian });
        let payload = match self.kind {
            b's' => Payload::Extent { extent, view: view(&[], Endian::Big) },
            b't' => Payload::Extent { extent, view: view(&[1, rows], Endian::Little) },
            b'b' => Payload::Blocks { codec: 0.into() },
            b'q' | b'c' => Payload::Sequential,
            _ => Payload::Extent { extent, view: None },
        };
        sink.tensor(TensorDecl { name: "w", dtype: DType::F32, shape: &[rows, 4], payload })
    }

    fn blocks(&self, _: &dyn Source, _: u64, sink: &mut dyn BlockSink) -> Result<()> {
        let mut at = HEAD;
        while at < self.end {
            let len = PIECE.min(self.end - at);
            sink.block(Extent::new(0, at, len), len)?;
            at += len;
        }
        Ok(())
    }

    fn decode(&self, _: &Codec, _: BlockAt, stored: &[u8], out: &mut [u8]) -> Result<()> {
        out.copy_from_slice(stored);
        Ok(())
    }

    fn stream(&self, _: u64) -> Result<Box<dyn Stream>> {
        // 'c' ends too early.
        let end = if self.kind == b'c' { self.end - 4 } else { self.end };
        Ok(Box::new(Pieces { at: HEAD, end }))
    }
}

struct Pieces {
    at: u64,
    end: u64,
}

impl Stream for Pieces {
    fn read(&mut self, source: &dyn Source, out: &mut [u8]) -> Result<usize> {
        let len = usize::try_from(PIECE.min(self.end - self.at)).map_err(|_| Error::io("no"))?.min(out.len());
        source.read_at(0, self.at, &mut out[..len])?;
        self.at += len as u64;
        Ok(len)
    }
}

fn odd_host(threads: usize) -> Host {
    let mut host = apr_tests::host();
    apr_host::plugins::add_bundled(&mut host.registry, &ODD);
    host.set_threads(threads);
    host
}

fn write_odd(path: &Path, kind: u8, values: &[f32]) {
    let rows = values.len() / 4;
    let stored: Vec<u8> = match kind {
        b's' => values.iter().flat_map(|value| value.to_be_bytes()).collect(),
        b't' => bytes(&(0..values.len()).map(|n| values[n % rows * 4 + n / rows]).collect::<Vec<_>>()),
        _ => bytes(values),
    };
    std::fs::write(path, [b"odd", &[kind][..], &stored].concat()).unwrap();
}

#[test]
fn every_kind_of_payload_compares_alike() {
    let scratch = Scratch::new();
    let (plain, odd, other) = (scratch.at("p.safetensors"), scratch.at("a.odd"), scratch.at("b.odd"));
    let one = weights(200_000, 3);
    let mut two = one.clone();
    (two[5], two[150_001]) = (7.0, f32::NAN);
    write(&plain, &[("w", "F32", "[50000,4]", &bytes(&one))]);
    let mut wanted = None;
    for kind in *b"pstbq" {
        for threads in [1, 7] {
            let host = odd_host(threads);
            write_odd(&odd, kind, &one);
            let same = compare(&host, &plain, &odd, &DiffOptions::default()).unwrap();
            assert!(same.same && same.counts.identical == 1, "{}: {same:?}", char::from(kind));
            write_odd(&odd, kind, &two);
            let there = compare(&host, &plain, &odd, &DiffOptions::default()).unwrap();
            let shown = serde_json::to_string(&there.tensors[0].values).unwrap();
            // Gathered tiles are shorter, and sums of other pieces may round otherwise.
            let exact =
                there.tensors[0].values.as_ref().map(|v| (v.differing, v.max_abs, v.nans, v.max_at.clone()));
            assert_eq!(exact, Some((2, 7.0 - f64::from(one[5]), [0, 1], vec![1, 1])), "{shown}");
            if kind != b't' {
                assert_eq!(*wanted.get_or_insert(shown.clone()), shown, "{}, {threads}", char::from(kind));
            }
            for second in *b"tbq" {
                write_odd(&other, second, &two);
                let same = compare(&host, &other, &odd, &DiffOptions::default()).unwrap();
                assert!(same.same, "{} and {}", char::from(kind), char::from(second));
            }
        }
    }
}

#[test]
fn a_side_that_breaks_off_is_an_error_that_names_it() {
    let scratch = Scratch::new();
    let (good, bad) = (scratch.at("good.odd"), scratch.at("bad.odd"));
    let values = weights(200_000, 3);
    write_odd(&bad, b'c', &values);
    for kind in *b"pbq" {
        write_odd(&good, kind, &values);
        for (a, b) in [(&good, &bad), (&bad, &good)] {
            let error = compare(&odd_host(2), a, b, &DiffOptions::default()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Malformed, "{error}");
            assert!(error.file().is_some_and(|file| file.ends_with("bad.odd")), "{error}");
            assert_eq!(error.tensor_name(), Some("w"));
        }
    }
}
