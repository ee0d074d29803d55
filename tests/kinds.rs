//! A toy format whose header states for each tensor how its payload is stored (plain, as a strided view, in
//! blocks, as a stream) and where it is broken. Writing stores every payload plain, so that tests can see
//! what arrived.
//!
//! `kinds` + u32 header length + header + payload. The header has one line per tensor: `NAME KIND DTYPE SHAPE
//! STRIDES OFFSET LEN SIZE BREAK`; lists are joined by `,`, an empty list is `-`, offsets are absolute, SIZE
//! is that of blocks and of what a stream returns at once. Blocks and streams are stored with all bits
//! inverted.

use apr_sdk::{
    BlockAt, BlockSink, CheckedModel, Codec, DType, Encoding, Endian, Error, Extent, LayoutRequest,
    LayoutSink, Limits, Look, ModelSink, OpenModel, Options, Payload, PluginDecl, Reader, Result, Score,
    Source, Stream, TensorDecl, View, Writer,
};

/// The toy format.
pub static PLUGIN: PluginDecl = PluginDecl {
    manifest: "id=kinds\nversion=1\nformats=kinds\nkinds.roles=read write\nkinds.extensions=kinds\n",
    reader: |_| Some(Box::new(Kinds)),
    writer: |_| Some(Box::new(Kinds)),
    ..PluginDecl::EMPTY
};

/// How a tensor's payload lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A plain extent.
    Plain,
    /// A little-endian view.
    View,
    /// A big-endian view.
    BigView,
    /// Compressed blocks.
    Blocks,
    /// A sequential stream.
    Stream,
}

/// One tensor of a file to be made.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// Its name, without spaces.
    pub name: String,
    /// How its payload lies.
    pub kind: Kind,
    /// Its element type.
    pub dtype: DType,
    /// Dimensions, outermost first.
    pub shape: Vec<u64>,
    /// The strides of a view.
    pub strides: Vec<u64>,
    /// What lies in the file: for blocks and streams before every bit is turned over.
    pub bytes: Vec<u8>,
    /// Raw bytes of a block, or of what a stream gives at once.
    pub size: u64,
    /// The raw offset at which reading fails; `u64::MAX` for never.
    pub broken: u64,
}

impl Tensor {
    /// A tensor whose payload lies as `kind` says.
    pub fn new(name: &str, kind: Kind, dtype: DType, shape: &[u64], bytes: Vec<u8>) -> Tensor {
        let (shape, strides) = (shape.to_vec(), Vec::new());
        Tensor { name: name.to_owned(), kind, dtype, shape, strides, bytes, size: 1 << 16, broken: u64::MAX }
    }

    fn line(&self, offset: u64, len: u64) -> String {
        let list = |n: &[u64]| match n {
            [] => "-".to_owned(),
            _ => n.iter().map(u64::to_string).collect::<Vec<_>>().join(","),
        };
        let kind = match self.kind {
            Kind::Plain => 'p',
            Kind::View => 'v',
            Kind::BigView => 'w',
            Kind::Blocks => 'b',
            Kind::Stream => 's',
        };
        format!(
            "{} {kind} {} {} {} {offset:016} {len} {} {}\n",
            self.name,
            self.dtype.name(),
            list(&self.shape),
            list(&self.strides),
            self.size,
            self.broken
        )
    }
}

/// Magic, length and lines for tensors whose payloads, of these lengths, follow one another.
fn header(tensors: &[(Tensor, u64)]) -> Vec<u8> {
    let lines = |base: u64| {
        let mut end = base;
        let line = |(tensor, len): &(Tensor, u64)| {
            end += len;
            tensor.line(end - len, *len)
        };
        tensors.iter().map(line).collect::<String>()
    };
    let len = lines(0).len();
    let mut out = b"kinds".to_vec();
    out.extend_from_slice(&u32::try_from(len).unwrap().to_le_bytes());
    out.extend_from_slice(lines(9 + len as u64).as_bytes());
    out
}

/// A file of these tensors.
pub fn file(tensors: Vec<Tensor>) -> Vec<u8> {
    let tensors: Vec<_> =
        tensors.into_iter().map(|t| (t.bytes.len() as u64, t)).map(|(n, t)| (t, n)).collect();
    let mut out = header(&tensors);
    for (tensor, _) in &tensors {
        let turned = matches!(tensor.kind, Kind::Blocks | Kind::Stream);
        out.extend(tensor.bytes.iter().map(|&b| if turned { !b } else { b }));
    }
    out
}

struct Kinds;

impl Reader for Kinds {
    fn probe(&self, look: &Look<'_>) -> Score {
        if look.head_is(b"kinds") { Score::MAGIC } else { Score::NO }
    }

    fn open(&self, source: &dyn Source, _: &Limits, _: &Options) -> Result<Box<dyn OpenModel>> {
        let mut len = [0; 4];
        source.read_at(0, 5, &mut len)?;
        let mut header = vec![0; u32::from_le_bytes(len) as usize];
        source.read_at(0, 9, &mut header)?;
        let header = String::from_utf8(header).map_err(|_| Error::malformed("no text"))?;
        let lines = header.lines().map(Line::parse);
        let lines = lines.collect::<Option<_>>().ok_or_else(|| Error::malformed("a line"))?;
        Ok(Box::new(Open(lines)))
    }
}

struct Open(Vec<Line>);

#[derive(Clone)]
struct Line {
    name: String,
    kind: char,
    dtype: DType,
    shape: Vec<u64>,
    strides: Vec<u64>,
    extent: Extent,
    size: u64,
    broken: u64,
}

impl Line {
    fn parse(line: &str) -> Option<Line> {
        let words: Vec<_> = line.split(' ').collect();
        let [name, kind, dtype, shape, strides, offset, len, size, broken] = words[..] else { return None };
        let list = |text: &str| match text {
            "-" => Some(Vec::new()),
            _ => text.split(',').map(|n| n.parse().ok()).collect(),
        };
        Some(Line {
            name: name.to_owned(),
            kind: kind.chars().next()?,
            dtype: DType::from_name(dtype)?,
            shape: list(shape)?,
            strides: list(strides)?,
            extent: Extent::new(0, offset.parse().ok()?, len.parse().ok()?),
            size: size.parse().ok()?,
            broken: broken.parse().ok()?,
        })
    }
}

impl Open {
    fn line(&self, tensor: u64) -> Result<&Line> {
        let line = usize::try_from(tensor).ok().and_then(|n| self.0.get(n));
        line.ok_or_else(|| Error::plugin("no such tensor"))
    }
}

impl OpenModel for Open {
    fn describe(&self, _: &dyn Source, sink: &mut dyn ModelSink) -> Result<()> {
        self.0.iter().try_for_each(|line| {
            let view = |endian| Some(View { strides: line.strides.clone(), start: 0, endian });
            let extent = line.extent;
            let payload = match line.kind {
                'p' => Payload::Extent { extent, view: None },
                'v' => Payload::Extent { extent, view: view(Endian::Little) },
                'w' => Payload::Extent { extent, view: view(Endian::Big) },
                'b' => Payload::Blocks { codec: 7.into() },
                _ => Payload::Sequential,
            };
            sink.tensor(TensorDecl { name: &line.name, dtype: line.dtype, shape: &line.shape, payload })
        })
    }

    fn blocks(&self, _: &dyn Source, tensor: u64, sink: &mut dyn BlockSink) -> Result<()> {
        let line = self.line(tensor)?;
        let mut at = 0;
        while at < line.extent.len {
            let n = line.size.min(line.extent.len - at);
            sink.block(Extent::new(0, line.extent.offset + at, n), n)?;
            at += n;
        }
        Ok(())
    }

    fn decode(&self, codec: &Codec, at: BlockAt, stored: &[u8], out: &mut [u8]) -> Result<()> {
        let line = self.line(at.tensor)?;
        if codec.number != 7 || at.block == line.broken / line.size {
            return Err(Error::malformed("a broken block"));
        }
        turn(stored, out);
        Ok(())
    }

    fn stream(&self, tensor: u64) -> Result<Box<dyn Stream>> {
        Ok(Box::new(InOrder(self.line(tensor)?.clone(), 0)))
    }
}

struct InOrder(Line, u64);

impl Stream for InOrder {
    fn read(&mut self, source: &dyn Source, out: &mut [u8]) -> Result<usize> {
        let InOrder(line, at) = self;
        if *at >= line.broken {
            return Err(Error::malformed("a broken stream").at(line.extent.offset + *at));
        }
        let left = line.size.min(line.extent.len - *at).min(line.broken - *at);
        let n = usize::try_from(left).map_or(out.len(), |left| left.min(out.len()));
        source.read_at(0, line.extent.offset + *at, &mut out[..n])?;
        out[..n].iter_mut().for_each(|b| *b = !*b);
        *at += n as u64;
        Ok(n)
    }
}

fn turn(stored: &[u8], out: &mut [u8]) {
    out.iter_mut().zip(stored).for_each(|(o, s)| *o = !s);
}

impl Writer for Kinds {
    fn layout(&self, model: &CheckedModel, request: &LayoutRequest, sink: &mut dyn LayoutSink) -> Result<()> {
        let mut plain = Vec::new();
        for tensor in &model.tensors {
            let len = tensor.payload_len()?;
            plain
                .push((Tensor::new(&tensor.name, Kind::Plain, tensor.dtype, &tensor.shape, Vec::new()), len));
        }
        sink.file(&request.file_name)?;
        sink.inline(&header(&plain))?;
        (0..model.tensors.len() as u64).try_for_each(|n| sink.payload(n, 1, Encoding::Raw))
    }
}
