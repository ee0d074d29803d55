//! The template's format with one fault at a time.

use crate::{layout, reader, writer};
use apr_sdk::{
    BlockAt, Bytes, Carries, CheckedModel, Codec, DType, Error, Extent, Fact, LayoutRequest, LayoutSink,
    Limits, Look, ModelSink, OpenModel, Options, PartDecl, Reader, Refusal, Result, Score, Source,
    TensorDecl, Value, Writer,
};
use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    ProbesEverything,
    ProbesNothing,
    ProbePanicsOnShortFile,
    ProbeKnowsItsFixtures,
    ProbeWantsTensors,
    ProbeWantsTheWholeHeader,
    ProbeWantsOneExtension,
    ProbeWantsAnOption,
    OwnLimits,
    IgnoresSink,
    PanicsOnCutFile,
    PanicsOnOddLine,
    BreaksContract,
    CountsOpenings,
    CountsWritings,
    DropsTensor,
    ShortensNames,
    SwapsPayload,
    PanicsOnDType,
    PanicsOnMetadata,
    SwallowsErrors,
    RenamesErrors,
    ReadsAll,
    RefusesMetadata,
    TakesOneKey,
    OtherPadding,
}

/// Before the only metadata of [`Fault::TakesOneKey`], at the end of the file.
const NOTE: &[u8] = b"\0note:";

/// Reader and writer with the fault.
pub struct Broken {
    pub fault: Fault,
    count: AtomicU64,
}

impl Broken {
    pub fn new(fault: Fault) -> Broken {
        Broken { fault, count: AtomicU64::new(0) }
    }

    /// Whether the probe takes a file of the format for none, which the reader would open.
    fn leaves_out(&self, look: &Look<'_>) -> bool {
        let header_len = look.u32_le(4).unwrap_or(0);
        match self.fault {
            Fault::ProbeKnowsItsFixtures => !look.head.windows(11).any(|text| text == b"layer.words"),
            Fault::ProbeWantsTensors => header_len == 0,
            Fault::ProbeWantsTheWholeHeader => u64::from(header_len) + 8 > look.head.len() as u64,
            Fault::ProbeWantsOneExtension => !look.name.ends_with(".toy"),
            Fault::ProbeWantsAnOption => look.tail.ends_with(b"\0other"),
            _ => false,
        }
    }

    fn next(&self) -> u64 {
        self.count.fetch_add(1, Ordering::Relaxed)
    }
}

struct Opened {
    inner: Box<dyn OpenModel>,
    fault: Fault,
    count: u64,
}

struct Nothing;

impl OpenModel for Nothing {
    fn describe(&self, _: &dyn Source, _: &mut dyn ModelSink) -> Result<()> {
        Ok(())
    }
}

impl Reader for Broken {
    fn probe(&self, look: &Look<'_>) -> Score {
        match self.fault {
            Fault::ProbesEverything => Score::MAGIC,
            Fault::ProbesNothing => Score::EXTENSION,
            Fault::ProbePanicsOnShortFile if look.head[..4] != layout::MAGIC => Score::NO,
            _ if self.leaves_out(look) => Score::EXTENSION,
            _ => reader::Toy.probe(look),
        }
    }

    fn open(&self, source: &dyn Source, limits: &Limits, options: &Options) -> Result<Box<dyn OpenModel>> {
        let own = Limits::default();
        let limits = if self.fault == Fault::OwnLimits { &own } else { limits };
        if self.fault == Fault::ReadsAll {
            let mut all = vec![0; source.len(0)? as usize];
            source.read_at(0, 0, &mut all)?;
        }
        let inner = match (reader::Toy.open(source, limits, options), self.fault) {
            (Err(_), Fault::SwallowsErrors) => Box::new(Nothing),
            (Err(error), Fault::RenamesErrors) => return Err(Error::malformed(error.message())),
            (Err(error), Fault::PanicsOnCutFile) => panic!("cannot happen: {error}"),
            (inner, _) => inner?,
        };
        Ok(Box::new(Opened { inner, fault: self.fault, count: self.next() }))
    }
}

impl OpenModel for Opened {
    fn describe(&self, source: &dyn Source, sink: &mut dyn ModelSink) -> Result<()> {
        match self.fault {
            Fault::CountsOpenings => sink.fact(Fact::Note(&format!("opening {}", self.count)))?,
            Fault::BreaksContract => sink.verbatim(Bytes::from("before its file"))?,
            _ => {}
        }
        if self.fault == Fault::TakesOneKey {
            let mut all = vec![0; source.len(0)? as usize];
            source.read_at(0, 0, &mut all)?;
            if let Some(at) = all.windows(NOTE.len()).position(|text| text == NOTE) {
                sink.foreign_file("toy", "", 1)?;
                sink.foreign("note", Value::from_string(&all[at + NOTE.len()..]))?;
            }
        }
        let result = self.inner.describe(source, &mut Through { inner: sink, fault: self.fault });
        assert!(self.fault != Fault::PanicsOnOddLine || result.is_ok(), "an odd line");
        result
    }
}

/// Passes on what is pushed, or does not say that it was refused.
struct Through<'a> {
    inner: &'a mut dyn ModelSink,
    fault: Fault,
}

impl ModelSink for Through<'_> {
    fn tensor(&mut self, tensor: TensorDecl<'_>) -> Result<()> {
        let pushed = self.inner.tensor(tensor);
        if self.fault == Fault::IgnoresSink { Ok(()) } else { pushed }
    }
    fn foreign_file(&mut self, format: &str, name: &str, n_tensors: u64) -> Result<()> {
        self.inner.foreign_file(format, name, n_tensors)
    }
    fn foreign(&mut self, key: &str, value: Value) -> Result<()> {
        self.inner.foreign(key, value)
    }
    fn verbatim(&mut self, bytes: Bytes) -> Result<()> {
        self.inner.verbatim(bytes)
    }
    fn asset(&mut self, name: &str, bytes: Bytes) -> Result<()> {
        self.inner.asset(name, bytes)
    }
    fn part(&mut self, part: PartDecl<'_>) -> Result<()> {
        self.inner.part(part)
    }
    fn mapped(&mut self, part: u32, name: &str) -> Result<()> {
        self.inner.mapped(part, name)
    }
    fn fact(&mut self, fact: Fact<'_>) -> Result<()> {
        self.inner.fact(fact)
    }
}

impl Writer for Broken {
    fn layout(&self, model: &CheckedModel, request: &LayoutRequest, sink: &mut dyn LayoutSink) -> Result<()> {
        let mut model = model.clone().into_inner();
        let note = model.foreign_of("toy").and_then(|own| own.get("note")).cloned();
        match self.fault {
            Fault::PanicsOnDType => assert!(model.tensors.iter().all(|t| t.dtype == DType::F32), "only F32"),
            Fault::PanicsOnMetadata => assert!(model.foreign.is_empty(), "only tensors"),
            Fault::RefusesMetadata if !model.foreign.is_empty() => {
                return Err(Error::unsupported("no metadata"));
            }
            Fault::TakesOneKey if model.foreign.iter().any(|own| own.get("note").is_none()) => {
                return Err(Error::unsupported("no other key"));
            }
            Fault::DropsTensor => {
                model.tensors.pop();
            }
            Fault::ShortensNames => {
                model.tensors.iter_mut().for_each(|t| t.name = t.name.chars().take(20).collect())
            }
            Fault::SwapsPayload if model.tensors.len() == 2 => model.tensors.swap(0, 1),
            _ => {}
        }
        let refused = |refusal: Refusal| refusal.error("the toy");
        let model = CheckedModel::new(model, &Carries::default()).map_err(refused)?;
        writer::Toy.layout(&model, request, sink)?;
        match self.fault {
            Fault::CountsWritings => sink.inline(format!("{}", self.next()).as_bytes()),
            Fault::OtherPadding => sink.inline(&[0]),
            Fault::TakesOneKey => match note {
                Some(note) => sink.inline(&[NOTE, note.as_bytes().unwrap_or_default()].concat()),
                None => Ok(()),
            },
            Fault::ProbeWantsAnOption if request.options.get("form") == Some("other") => {
                sink.inline(b"\0other")
            }
            _ => Ok(()),
        }
    }
}

/// A model whose payloads are of the kinds that the toy format lacks.
pub struct Kinds;

impl Kinds {
    /// Blocks of two halves, each byte one more than it is.
    pub fn codec() -> Codec {
        Codec { number: 9, options: Options::new().with("add", "1") }
    }
}

impl OpenModel for Kinds {
    fn describe(&self, _: &dyn Source, _: &mut dyn ModelSink) -> Result<()> {
        Ok(())
    }

    fn blocks(&self, _: &dyn Source, _: u64, sink: &mut dyn apr_sdk::BlockSink) -> Result<()> {
        sink.block(Extent::new(0, 0, 3), 3)?;
        sink.block(Extent::new(0, 4, 2), 2)
    }

    fn decode(&self, codec: &Codec, at: BlockAt, stored: &[u8], out: &mut [u8]) -> Result<()> {
        assert_eq!((codec, at.block), (&Kinds::codec(), u64::from(stored.len() == 2)));
        out.iter_mut().zip(stored).for_each(|(out, stored)| *out = stored + 1);
        Ok(())
    }

    fn stream(&self, tensor: u64) -> Result<Box<dyn apr_sdk::Stream>> {
        Ok(Box::new(Drip { at: 0, len: if tensor == 0 { 5 } else { u64::MAX } }))
    }
}

/// A stream that gives a byte a call.
struct Drip {
    at: u64,
    len: u64,
}

impl apr_sdk::Stream for Drip {
    fn read(&mut self, source: &dyn Source, out: &mut [u8]) -> Result<usize> {
        if self.at == self.len {
            return Ok(0);
        }
        source.read_at(0, self.at % source.len(0)?, &mut out[..1])?;
        self.at += 1;
        Ok(1)
    }
}
