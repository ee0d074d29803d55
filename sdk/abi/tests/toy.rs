//! A plugin that says everything that can be said, and writes down everything it hears.

use apr_abi::export::Export;
use apr_abi::link::Module;
use apr_abi::manifest::Section;
use apr_sdk::*;
use std::cell::RefCell;

thread_local! {
    static HEARD: RefCell<Vec<String>> = const { RefCell::new(Vec::new()) };
}

pub fn hear(what: impl Into<String>) {
    HEARD.with_borrow_mut(|heard| heard.push(what.into()));
}

pub fn heard() -> Vec<String> {
    HEARD.take()
}

const TEXT: &str = "id=toy\nversion=1.0.0\nformats=toy\n";
static MANIFEST: Section<{ TEXT.len() }> = Section::new(TEXT, true);
static PLUGIN: PluginDecl = PluginDecl {
    manifest: TEXT,
    reader: |format| (format == "toy").then(|| Box::new(Toy) as Box<dyn Reader>),
    writer: |format| (format == "toy").then(|| Box::new(Toy) as Box<dyn Writer>),
    quantizer: || Some(Box::new(Toy)),
    kernel: || Some(Box::new(crate::kernel_toy::ToyKernel)),
    ..PluginDecl::EMPTY
};

pub struct Exported;

impl Export for Exported {
    fn decl() -> &'static PluginDecl {
        &PLUGIN
    }
    fn manifest() -> &'static [u8] {
        MANIFEST.bytes()
    }
}

pub static HEADER: apr_abi::__LibHeader = apr_abi::export::header::<Exported>();

/// The toy as the host has it after loading.
pub fn module() -> Module {
    // SAFETY: a static header that the library itself made.
    unsafe { Module::from_header((&raw const HEADER).cast()) }.unwrap()
}

/// An error with every field.
pub fn full_error() -> Error {
    let error = Error::failed("said").code("E1").in_file("f\u{1}").at(u64::MAX).tensor("t\0");
    error.hint("do").cause("first").cause("second")
}

/// A method that is told something.
pub fn told(number: u32) -> Codec {
    Codec { number, options: Options::new().with("level", "3").with("é", "") }
}

#[derive(Clone, Copy)]
pub struct Toy;

impl Reader for Toy {
    fn probe(&self, look: &Look<'_>) -> Score {
        hear(format!("{look:?}"));
        match look.name {
            "panics" => panic!("in probe"),
            _ => Score(77),
        }
    }

    fn open(&self, source: &dyn Source, limits: &Limits, options: &Options) -> Result<Box<dyn OpenModel>> {
        hear(format!("{limits:?} {options:?}"));
        if let Some(bytes) = options.integer("charge") {
            limits.budget.charge(bytes)?;
        }
        limits.budget.earn(options.integer("earn").unwrap_or_default());
        if options.flag("fail") {
            return Err(full_error());
        }
        hear(format!("{:?} {:?} {:?}", source.name(0), source.len(0), source.len(9)));
        let mut bytes = [0; 3];
        hear(format!("{:?} {bytes:?}", source.read_at(0, 1, &mut bytes)));
        hear(format!("{:?} {:?}", source.read_at(0, 1 << 40, &mut bytes), source.view(Extent::new(0, 2, 4))));
        hear(format!("{:?}", source.view(Extent::new(0, 2, 0)).map(<[u8]>::len)));
        hear(format!("{:?} {:?} {:?}", source.sibling("b"), source.sibling("c"), source.entries()));
        hear(format!("{} {}", source.is_folder(), source.cancelled()));
        for level in [LogLevel::Debug, LogLevel::Note, LogLevel::Warning] {
            source.log(level, "logged");
        }
        Ok(Box::new(Toy))
    }

    fn report(&self, id: &str, source: &dyn Source, limits: &Limits, options: &Options) -> Result<Report> {
        hear(format!("{id} {limits:?} {options:?} {:?}", source.name(0)));
        match id {
            "fails" => Err(full_error()),
            "panics" => panic!("in report"),
            _ => Ok(Report { text: format!("é {id}"), json: "{}".to_owned(), passed: id == "good" }),
        }
    }
}

impl OpenModel for Toy {
    fn describe(&self, source: &dyn Source, sink: &mut dyn ModelSink) -> Result<()> {
        hear(source.name(0));
        let view = |strides: &[u64], endian| Some(View { strides: strides.to_vec(), start: 0, endian });
        let extent = Extent::new(0, 0, 8);
        let payloads = [
            Payload::Extent { extent, view: None },
            Payload::Extent { extent, view: view(&[1], Endian::Little) },
            Payload::Extent { extent, view: view(&[], Endian::Big) },
            Payload::Blocks { codec: told(7) },
            Payload::Sequential,
        ];
        for (n, payload) in payloads.into_iter().enumerate() {
            let name = format!("t{n}\u{7f}é");
            sink.tensor(TensorDecl { name: &name, dtype: DType::F32, shape: &[2], payload })?;
        }
        sink.tensor(TensorDecl { name: "s", dtype: DType::I64, shape: &[], payload: Payload::Sequential })?;
        for (format, name) in [("toy", ""), ("other", "x"), ("other", "y")] {
            sink.foreign_file(format, name, 3)?;
            sink.foreign("k", Value::from_strings(&["a", ""]))?;
            sink.foreign("big", Value { kind: ValueType::STRING, bytes: Extent::new(0, 1, 4).into() })?;
        }
        sink.verbatim("as it was".into())?;
        sink.asset("a/b.txt", Bytes::default())?;
        sink.asset("far", Extent::new(1, 0, 2).into())?;
        let options = Options::new().with("o", "v");
        sink.part(PartDecl { file: 1, range: None, format: "p", options: options.clone() })?;
        sink.part(PartDecl { file: 0, range: Some((3, 4)), format: "q", options })?;
        sink.mapped(1, "inside")?;
        sink.fact(Fact::Dialect("hf"))?;
        sink.fact(Fact::Architecture("llama", "{}".into()))?;
        sink.fact(Fact::Tokenizer(Extent::new(0, 0, 1).into()))?;
        sink.fact(Fact::Recipe("r"))?;
        sink.fact(Fact::Older("version 1"))?;
        sink.fact(Fact::Provenance("[]".into()))?;
        sink.fact(Fact::Note("one"))?;
        sink.fact(Fact::Note("two"))?;
        let covers = Extent::new(0, 0, 5);
        let stored = Bytes::from(Extent::new(0, 4, 4));
        sink.fact(Fact::Checksum(Checksum::raw(covers, stored, Sum::CRC32)))?;
        let hex = Checksum::raw(covers, "0badcafe".into(), Sum::CRC32_HEX);
        for coding in [Coding::Raw, Coding::Encoded, Coding::Streamed(5)] {
            sink.fact(Fact::Checksum(Checksum { coding, ..hex.clone() }))?;
        }
        for (digest, form, len) in
            [(Digest::Crc32c, DigestForm::Masked, 4), (Digest::Sha256, DigestForm::Hex, 64)]
        {
            let stored = vec![b'0'; len].into();
            sink.fact(Fact::Checksum(Checksum::raw(covers, stored, Sum::new(digest, form))))?;
        }
        hear(format!("{:?}", sink.mapped(99, "nowhere")));
        hear(format!("{:?}", sink.tensor(TensorDecl::plain("s", DType::U8, &[1], Extent::new(0, 0, 1)))));
        Ok(())
    }

    fn blocks(&self, source: &dyn Source, tensor: u64, sink: &mut dyn BlockSink) -> Result<()> {
        hear(format!("{} {tensor}", source.name(0)));
        sink.block(Extent::new(3, 1 << 40, 5), u64::MAX)
    }

    fn decode(&self, codec: &Codec, at: BlockAt, stored: &[u8], out: &mut [u8]) -> Result<()> {
        hear(format!("{codec:?} {at:?} {stored:?}"));
        out.fill(9);
        if codec.number == 1 { Err(full_error()) } else { Ok(()) }
    }

    fn covered(&self, checksum: u64) -> Result<Box<dyn Stream>> {
        if checksum == 0 { Err(full_error()) } else { Ok(Box::new(Toy)) }
    }

    fn stream(&self, tensor: u64) -> Result<Box<dyn Stream>> {
        if tensor == 0 { Err(full_error()) } else { Ok(Box::new(Toy)) }
    }
}

impl Stream for Toy {
    fn read(&mut self, source: &dyn Source, out: &mut [u8]) -> Result<usize> {
        hear(source.name(0));
        out[..2].fill(5);
        Ok(2)
    }
}

impl Writer for Toy {
    fn layout(&self, model: &CheckedModel, request: &LayoutRequest, sink: &mut dyn LayoutSink) -> Result<()> {
        hear(format!("{model:#?} {request:#?}"));
        sink.file("f")?;
        sink.entry()?;
        sink.inline(b"in")?;
        sink.copy(&"held".into())?;
        sink.copy(&Extent::new(1, 2, 3).into())?;
        sink.payload(1, 64, Encoding::Raw)?;
        hear(format!("{:?}", sink.position()));
        sink.payload(2, 1, Encoding::Encoded { codec: told(3), block_size: 1 << 20, lengths: true })?;
        hear(format!("{:?}", sink.position()));
        sink.pad_to(32)?;
        sink.hole(7, 8)?;
        let options = Options::new().with("o", "v");
        let (all, some): (Option<&[u64]>, Option<&[u64]>) = (None, Some(&[3, 1]));
        for tensors in [all, some, Some(&[])] {
            sink.part(PartRequest { stem: "s", format: "f", tensors, options: options.clone() })?;
        }
        for tensor in [1, 2] {
            hear(format!("{:?}", sink.sample(tensor, 3, 1 << 40)?));
            hear(format!("{:?}", sink.source_codec(tensor)?));
        }
        sink.digest(Sum::CRC32)?;
        hear(format!("{:?}", sink.digest(Sum::new(Digest::Sha256, DigestForm::Bytes))));
        hear(format!("{:?}", sink.fetch(&Extent::new(0, 1, 2).into())));
        hear(format!("{:?}", sink.fetch(&"held".into())));
        sink.note("noted");
        sink.warn("warned");
        sink.hole(7, 8)
    }

    fn finish(&self, written: &Written, sink: &mut dyn PatchSink) -> Result<()> {
        hear(format!("{written:#?}"));
        sink.fill(1, b"bytes")?;
        sink.fill_digest(2, 3, 4, 5, Sum::CRC32)?;
        sink.fill_digest(2, 3, 4, 5, Sum::CRC32_HEX)?;
        sink.append(6, b"end")
    }

    fn dtypes(&self, tensors: &[TensorFacts], wanted: Option<DType>) -> Result<Vec<DTypeChoice>> {
        hear(format!("{tensors:?} {wanted:?}"));
        let choice = |fact: &TensorFacts| match fact.dtype {
            Some(DType::F16) => DTypeChoice::Cast(DType::F16),
            Some(DType::F32) => DTypeChoice::NarrowIfExact(DType::BF16),
            _ => DTypeChoice::Keep,
        };
        Ok(tensors.iter().map(choice).collect())
    }

    fn encoded_bound(&self, codec: &Codec, raw_len: u64) -> Result<u64> {
        hear(format!("{codec:?}"));
        if codec.number == 9 { Err(full_error()) } else { Ok(u64::from(codec.number) + raw_len) }
    }

    fn encode(&self, codec: &Codec, at: BlockAt, raw: &[u8], out: &mut [u8]) -> Result<usize> {
        hear(format!("{codec:?} {at:?} {raw:?}"));
        out[0] = 4;
        if codec.number == 9 { Ok(out.len() + 1) } else { Ok(1) }
    }
}

impl Quantizer for Toy {
    fn dtypes(&self) -> Result<Vec<DType>> {
        Ok(vec![DType::Q8_0, DType::Q4_K])
    }

    fn decode(&self, dtype: DType, blocks: &[u8], row_len: u64, out: &mut [f32]) -> Result<()> {
        hear(format!("decode {dtype} {blocks:?} {row_len}"));
        out.fill(1.5);
        if blocks.is_empty() { Err(full_error()) } else { Ok(()) }
    }

    fn encode(
        &self,
        dtype: DType,
        rows: &[f32],
        row_len: u64,
        importance: Option<&[f32]>,
        out: &mut [u8],
    ) -> Result<()> {
        hear(format!("encode {dtype} {rows:?} {row_len} {importance:?}"));
        assert!(!rows.is_empty(), "no rows");
        out.fill(7);
        Ok(())
    }

    fn repacks(&self) -> Result<Vec<(DType, DType)>> {
        Ok(vec![(DType::Q8_0, DType::Q4_K), (DType::Q4_K, DType::Q8_0)])
    }

    fn repack(&self, from: DType, to: DType, blocks: &[u8], out: &mut [u8]) -> Result<()> {
        hear(format!("repack {from} {to} {blocks:?}"));
        out.fill(3);
        Ok(())
    }

    fn recipes(&self) -> Result<Vec<RecipeDecl>> {
        Ok(vec![RecipeDecl { name: "A".to_owned(), about: "é".to_owned() }])
    }

    fn assign(
        &self,
        recipe: &str,
        tensors: &[TensorFacts],
        model: &ModelFacts,
        options: &Options,
    ) -> Result<Vec<Assignment>> {
        hear(format!("assign {recipe} {tensors:?} {model:?} {options:?}"));
        let mut assigned = vec![Assignment::to(DType::Q4_K).needing_importance().with_note("so")];
        assigned.resize(if recipe == "short" { 0 } else { tensors.len() }, Assignment::KEEP);
        Ok(assigned)
    }

    fn records(&self, recipe: &str) -> Result<Vec<Record>> {
        match recipe {
            "fails" => Err(full_error()),
            "far" => Ok(vec![(
                String::new(),
                String::new(),
                Value { bytes: Extent::default().into(), ..Value::from_u32(7) },
            )]),
            _ => Ok(vec![("format".to_owned(), recipe.to_owned(), Value::from_u32(7))]),
        }
    }

    fn importance(&self, source: &dyn Source, sink: &mut dyn ImportanceSink) -> Result<()> {
        hear(source.name(0));
        sink.tensor("dialect", "name", &[1.0, 2.0])?;
        sink.record("format", "key", Value::from_string("value"))
    }

    fn importance_sums(&self, source: &dyn Source) -> Result<ImportanceSums> {
        hear(format!("sums {}", source.name(0)));
        let mut sums = ImportanceSums::default();
        (sums.dialect, sums.chunks, sums.chunk_size) = ("d".to_owned(), 3, 512);
        sums.datasets = vec!["text".to_owned()];
        sums.tensors = vec![TensorSums { name: "t".to_owned(), sums: vec![1.5, 2.5], counts: vec![1 << 33] }];
        Ok(sums)
    }

    fn importance_file(&self, sums: &ImportanceSums, file: &str, form: Option<&str>) -> Result<Vec<u8>> {
        hear(format!("write {sums:?} {file} {form:?}"));
        if form == Some("fails") { Err(full_error()) } else { Ok(vec![7, 8]) }
    }
}
