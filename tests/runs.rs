//! A toy format with encoded payload. Write options control how it is encoded, and where the writer or its
//! codec breaks the contract.
//!
//! `runs` + u32 header length + header + a table of 28 bytes per tensor (offset, stored and raw length, u64
//! each, and the CRC-32 of its raw bytes) + u64 offset of the lengths + payload + `tail` + padding + CRC-32
//! of everything before + the lengths of all blocks, u32. The header has one line per tensor: `NAME DTYPE
//! SHAPE CODEC BLOCK`, where codec 0 is raw payload. A block is a byte 0 and its bytes, or a byte 1 and pairs
//! of a count and a byte.

use apr_sdk::{
    BlockAt, BlockSink, CheckedModel, Codec, DType, Encoding, Error, Extent, LayoutRequest, LayoutSink,
    Limits, Look, ModelSink, OpenModel, Options, PartDecl, PartRequest, PatchSink, Payload, PluginDecl,
    Reader, Result, Score, Source, Sum, TensorDecl, Writer, Written,
};
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// The toy format, the same with names of GGUF, and a folder format that has such files as parts: one of each two tensors.
pub static PLUGIN: PluginDecl = PluginDecl {
    manifest: "id=runs\nversion=1\nformats=runs shelf runs_gguf\n\
               runs.roles=read write\nruns.extensions=runs\n\
               runs.option.block=write text 65536 x\nruns.option.align=write text 1 x\n\
               runs.option.raw=write text - x\nruns.option.codec=write text 1 x\n\
               runs.option.at=write text 0 x\nruns.option.tag=write text - x\n\
               shelf.roles=read write\nshelf.folder=yes\nshelf.parts=runs\n\
               runs_gguf.roles=read write\nruns_gguf.dialect=requires gguf\n\
               runs_gguf.option.block=write text 65536 x\nruns_gguf.option.align=write text 1 x\n\
               runs_gguf.option.raw=write text - x\nruns_gguf.option.codec=write text 1 x\n\
               runs_gguf.option.at=write text 0 x\n",
    reader: |format| Some(if format == "shelf" { Box::new(Shelf) } else { Box::new(Runs(format == "runs")) }),
    writer: |format| Some(if format == "shelf" { Box::new(Shelf) } else { Box::new(Runs(true)) }),
    ..PluginDecl::EMPTY
};

/// What codecs do at the block that the option `at` says, or at all of them.
pub mod codec {
    /// What it should.
    pub const HONEST: u32 = 1;
    /// It says that it made more than fits.
    pub const TOO_LONG: u32 = 2;
    /// It says that it made nothing.
    pub const NOTHING: u32 = 3;
    /// It returns an error.
    pub const FAILS: u32 = 4;
    /// It panics, which must not end the process.
    pub const PANICS: u32 = 5;
    /// It encodes other bytes.
    pub const OTHER: u32 = 6;
    /// It does not know how long a block may become.
    pub const NO_BOUND: u32 = 7;
    /// It says that a block may become longer than all disks.
    pub const HUGE_BOUND: u32 = 8;
    /// Every third block takes its time.
    pub const SLOW: u32 = 9;
    /// The table says that blocks are one byte longer than they are.
    pub const WRONG_LENGTHS: u32 = 10;
}

/// How many blocks were encoded under the tag.
pub fn n_encoded(tag: &str) -> usize {
    ENCODED
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .as_ref()
        .and_then(|all| all.get(tag))
        .copied()
        .unwrap_or(0)
}

static ENCODED: Mutex<Option<HashMap<String, usize>>> = Mutex::new(None);

/// Whether it probes: the same with another dialect leaves that to this one.
struct Runs(bool);

const PER_TENSOR: usize = 28;

#[derive(Clone)]
struct Line {
    name: String,
    dtype: DType,
    shape: Vec<u64>,
    codec: u32,
    block: u64,
    offset: u64,
    stored: u64,
    raw: u64,
    lengths: Vec<u64>,
}

fn option<T: std::str::FromStr>(options: &Options, name: &str) -> T {
    let text = options.get(name).unwrap_or_default();
    text.parse().unwrap_or_else(|_| panic!("option {name} is {text}"))
}

impl Writer for Runs {
    fn layout(&self, model: &CheckedModel, request: &LayoutRequest, sink: &mut dyn LayoutSink) -> Result<()> {
        let options = &request.options;
        let (block, align): (u64, u64) = (option(options, "block"), option(options, "align"));
        let raw: Vec<&str> = options.get("raw").unwrap_or_default().split(',').collect();
        let number: u32 = option(options, "codec");
        let mut codec = Codec::from(number);
        codec.options.set("at", options.get("at").unwrap_or_default());
        codec.options.set("tag", options.get("tag").unwrap_or_default());
        let is_raw = |name: &str| raw.contains(&name);
        let mut header = String::new();
        for tensor in &model.tensors {
            let shape: Vec<_> = tensor.shape.iter().map(u64::to_string).collect();
            let codec = if is_raw(&tensor.name) { 0 } else { number };
            let (name, dtype, shape) = (&tensor.name, tensor.dtype.name(), shape.join(","));
            header.push_str(&format!(
                "{name} {dtype} {} {codec} {block}\n",
                if shape.is_empty() { "-" } else { &shape }
            ));
        }
        match request.folder {
            true => sink.file(&format!("{}.runs", request.stem))?,
            false => sink.file(&request.file_name)?,
        }
        sink.digest(Sum::CRC32)?;
        sink.inline(b"runs")?;
        sink.inline(&u32::try_from(header.len()).unwrap().to_le_bytes())?;
        sink.inline(header.as_bytes())?;
        sink.hole(1, (PER_TENSOR * model.tensors.len()) as u64)?;
        sink.hole(2, 8)?;
        let mut is_known = true;
        for (n, tensor) in model.tensors.iter().enumerate() {
            let is_raw = is_raw(&tensor.name);
            let encoding = match is_raw {
                true => Encoding::Raw,
                false => Encoding::Encoded { codec: codec.clone(), block_size: block, lengths: true },
            };
            sink.payload(n as u64, align, encoding)?;
            is_known &= is_raw;
            assert_eq!(sink.position().is_some(), is_known, "the position behind `{}`", tensor.name);
        }
        sink.inline(b"tail")?;
        sink.pad_to(8)?;
        sink.hole(3, 4)
    }

    fn finish(&self, written: &Written, sink: &mut dyn PatchSink) -> Result<()> {
        let mut table = Vec::new();
        for tensor in &written.tensors {
            for number in [tensor.offset, tensor.stored_len, tensor.raw_len] {
                table.extend_from_slice(&number.to_le_bytes());
            }
            table.extend_from_slice(tensor.digests.get(Sum::CRC32).unwrap());
        }
        sink.fill(1, &table)?;
        sink.fill(2, &written.files[0].len.to_le_bytes())?;
        let hole = written.holes.iter().find(|hole| hole.id == 3).unwrap();
        sink.fill_digest(3, 0, 0, hole.offset, Sum::CRC32)?;
        let lengths = written.tensors.iter().flat_map(|tensor| &tensor.blocks);
        let lengths: Vec<u8> = lengths.flat_map(|len| u32::try_from(*len).unwrap().to_le_bytes()).collect();
        sink.append(0, &lengths)
    }

    fn encoded_bound(&self, codec: &Codec, raw_len: u64) -> Result<u64> {
        match codec.number {
            codec::NO_BOUND => Err(Error::unsupported("who knows")),
            codec::HUGE_BOUND => Ok(u64::MAX / 2),
            _ => Ok(raw_len + 1),
        }
    }

    fn encode(&self, codec: &Codec, at: BlockAt, raw: &[u8], out: &mut [u8]) -> Result<usize> {
        let tag = codec.options.get("tag").unwrap_or_default().to_owned();
        *ENCODED
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get_or_insert_default()
            .entry(tag)
            .or_default() += 1;
        assert_eq!(out.len(), raw.len() + 1, "the room is the bound");
        let (mut raw, is_it) = (raw.to_vec(), at.block == option::<u64>(&codec.options, "at"));
        match codec.number {
            codec::TOO_LONG if is_it => return Ok(out.len() + 1),
            codec::NOTHING if is_it => return Ok(0),
            codec::FAILS if is_it => return Err(Error::failed("no such run")),
            codec::PANICS if is_it => panic!("on purpose"),
            codec::OTHER if is_it => raw[0] ^= 1,
            codec::SLOW if (at.block + at.tensor).is_multiple_of(3) => {
                std::thread::sleep(Duration::from_millis(1))
            }
            _ => {}
        }
        let mut runs: Vec<u8> = vec![1];
        let mut rest = &raw[..];
        while let Some(byte) = rest.first().filter(|_| runs.len() <= raw.len()) {
            let run = rest.iter().take(255).take_while(|next| *next == byte).count();
            runs.extend([u8::try_from(run).unwrap(), *byte]);
            rest = &rest[run..];
        }
        if runs.len() > raw.len() {
            runs = [&[0], &raw[..]].concat();
        }
        out[..runs.len()].copy_from_slice(&runs);
        Ok(runs.len())
    }
}

impl Reader for Runs {
    fn probe(&self, look: &Look<'_>) -> Score {
        if self.0 && look.head_is(b"runs") { Score::MAGIC } else { Score::NO }
    }

    fn open(&self, source: &dyn Source, _: &Limits, _: &Options) -> Result<Box<dyn OpenModel>> {
        let read = |at: u64, len: usize| {
            let mut bytes = vec![0; len];
            source.read_at(0, at, &mut bytes).map(|()| bytes)
        };
        let u64_at = |at: u64| Ok::<_, Error>(u64::from_le_bytes(read(at, 8)?.try_into().unwrap()));
        let len = u32::from_le_bytes(read(4, 4)?.try_into().unwrap());
        let header = String::from_utf8(read(8, len as usize)?).map_err(|_| Error::malformed("no text"))?;
        let (mut at, mut lines) = (8 + u64::from(len), Vec::new());
        for line in header.lines() {
            let words: Vec<_> = line.split(' ').collect();
            let [name, dtype, shape, codec, block] = words[..] else {
                return Err(Error::malformed("a line"));
            };
            let shape = if shape == "-" {
                Vec::new()
            } else {
                shape.split(',').map(|n| n.parse().unwrap()).collect()
            };
            let (dtype, name) = (DType::from_name(dtype).unwrap(), name.to_owned());
            let (codec, block) = (codec.parse().unwrap(), block.parse().unwrap());
            let (offset, stored, raw) = (u64_at(at)?, u64_at(at + 8)?, u64_at(at + 16)?);
            lines.push(Line { name, dtype, shape, codec, block, offset, stored, raw, lengths: Vec::new() });
            at += PER_TENSOR as u64;
        }
        let mut at = u64_at(at)?;
        for line in lines.iter_mut().filter(|line| line.codec > 0) {
            for _ in 0..line.raw.div_ceil(line.block) {
                let len = u32::from_le_bytes(read(at, 4)?.try_into().unwrap());
                line.lengths.push(u64::from(len) + u64::from(line.codec == codec::WRONG_LENGTHS));
                at += 4;
            }
        }
        Ok(Box::new(Open(lines)))
    }
}

struct Open(Vec<Line>);

impl OpenModel for Open {
    fn describe(&self, _: &dyn Source, sink: &mut dyn ModelSink) -> Result<()> {
        self.0.iter().try_for_each(|line| {
            let payload = match line.codec {
                0 => Payload::Extent { extent: Extent::new(0, line.offset, line.stored), view: None },
                number => Payload::Blocks { codec: number.into() },
            };
            sink.tensor(TensorDecl { name: &line.name, dtype: line.dtype, shape: &line.shape, payload })
        })
    }

    fn blocks(&self, _: &dyn Source, tensor: u64, sink: &mut dyn BlockSink) -> Result<()> {
        let line = &self.0[usize::try_from(tensor).unwrap()];
        let (mut at, mut raw) = (line.offset, line.raw);
        for len in &line.lengths {
            let n = line.block.min(raw);
            sink.block(Extent::new(0, at, *len), n)?;
            (at, raw) = (at + len, raw - n);
        }
        Ok(())
    }

    fn decode(&self, _: &Codec, _: BlockAt, stored: &[u8], out: &mut [u8]) -> Result<()> {
        let raw = match stored {
            [0, raw @ ..] => raw.to_vec(),
            [1, pairs @ ..] => {
                let mut raw = Vec::with_capacity(out.len());
                for pair in pairs.chunks_exact(2) {
                    raw.resize(raw.len() + usize::from(pair[0]), pair[1]);
                }
                raw
            }
            _ => return Err(Error::malformed("no such block")),
        };
        let raw = raw.get(..out.len()).filter(|_| raw.len() == out.len());
        out.copy_from_slice(raw.ok_or_else(|| Error::malformed("a block of another length"))?);
        Ok(())
    }
}

/// A folder of two files and `shelf.txt`, which names them.
struct Shelf;

impl Reader for Shelf {
    fn probe(&self, look: &Look<'_>) -> Score {
        if look.is_folder && look.entries.iter().any(|name| name == "shelf.txt") {
            Score::MAGIC
        } else {
            Score::NO
        }
    }

    fn open(&self, _: &dyn Source, _: &Limits, _: &Options) -> Result<Box<dyn OpenModel>> {
        Ok(Box::new(OpenShelf))
    }
}

struct OpenShelf;

impl OpenModel for OpenShelf {
    fn describe(&self, source: &dyn Source, sink: &mut dyn ModelSink) -> Result<()> {
        for name in ["even.runs", "odd.runs"] {
            let file = source.sibling(name)?;
            sink.part(PartDecl { file, range: None, format: "runs", options: Options::new() })?;
        }
        Ok(())
    }
}

impl Writer for Shelf {
    fn layout(&self, model: &CheckedModel, _: &LayoutRequest, sink: &mut dyn LayoutSink) -> Result<()> {
        sink.file("shelf.txt")?;
        sink.inline(b"two books")?;
        for (stem, rest) in [("even", 0), ("odd", 1)] {
            let tensors: Vec<u64> = (0..model.tensors.len() as u64).filter(|n| n % 2 == rest).collect();
            sink.part(PartRequest {
                stem,
                format: "runs",
                tensors: Some(&tensors),
                options: Options::new(),
            })?;
        }
        Ok(())
    }
}
