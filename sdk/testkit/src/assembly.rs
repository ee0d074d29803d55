//! The layout sink in memory: segments become bytes as they are pushed.

use crate::payload::read_extent;
use crate::write::breach;
use apr_sdk::{
    BlockAt, Bytes, CheckedModel, Codec, Digests, Encoding, Error, LayoutSink, Limits, PartRequest, Result,
    Source, Sum, Writer, Written, WrittenFile, WrittenHole, WrittenInput, WrittenTensor, escape,
};

/// The most bytes that padding and holes may add to a file. 64 MiB: a fixture's writer asks for a few KiB.
const LONGEST_GAP: u64 = 64 << 20;

/// A file that grows segment by segment.
struct Growing {
    name: String,
    bytes: Vec<u8>,
    /// True if the host would know the position already: not behind an encoded payload.
    known: bool,
}

/// Renders a layout.
pub(crate) struct Assembly<'a> {
    writer: &'a dyn Writer,
    model: &'a CheckedModel,
    source: &'a dyn Source,
    payloads: &'a dyn Fn(usize) -> Result<Vec<u8>>,
    limits: Limits,
    files: Vec<Growing>,
    entry: Option<usize>,
    /// The stored form of each, and the CRC-32 of its raw bytes.
    tensors: Vec<Option<(WrittenTensor, u32)>>,
    holes: Vec<WrittenHole>,
    sums: Vec<Sum>,
    notes: Vec<String>,
}

/// The files written, their bytes, the entry's number, the notes.
type Assembled = (Written, Vec<Vec<u8>>, usize, Vec<String>);

impl<'a> Assembly<'a> {
    pub(crate) fn new(
        writer: &'a dyn Writer,
        model: &'a CheckedModel,
        source: &'a dyn Source,
        payloads: &'a dyn Fn(usize) -> Result<Vec<u8>>,
    ) -> Assembly<'a> {
        Assembly {
            writer,
            model,
            source,
            payloads,
            limits: Limits::default(),
            files: Vec::new(),
            entry: None,
            tensors: vec![None; model.tensors.len()],
            holes: Vec::new(),
            sums: Vec::new(),
            notes: Vec::new(),
        }
    }

    pub(crate) fn wants_digests(&self) -> bool {
        !self.sums.is_empty()
    }

    /// The digests asked for, of bytes of this CRC-32.
    fn digests(&self, crc32: u32) -> Result<Digests> {
        let mut digests = Digests::default();
        for &sum in &self.sums {
            digests.push(sum, sum.of_crc32(crc32)?);
        }
        Ok(digests)
    }

    /// Refuses a layout without a file, or one that forgot a tensor.
    pub(crate) fn finish(mut self, inputs: &[u32]) -> Result<Assembled> {
        if self.files.is_empty() {
            return Err(breach("the layout has no file"));
        }
        let mut tensors = Vec::with_capacity(self.tensors.len());
        for (tensor, placed) in self.model.tensors.iter().zip(std::mem::take(&mut self.tensors)) {
            let (written, crc32) =
                placed.ok_or_else(|| breach("the layout never places it").tensor(&tensor.name))?;
            tensors.push(WrittenTensor { digests: self.digests(crc32)?, ..written });
        }
        let inputs = inputs.iter().map(|&crc32| Ok(WrittenInput { digests: self.digests(crc32)? }));
        let inputs = inputs.collect::<Result<Vec<_>>>()?;
        let mut files = Vec::new();
        let mut bytes = Vec::new();
        for file in self.files {
            files.push(WrittenFile { name: file.name, len: file.bytes.len() as u64 });
            bytes.push(file.bytes);
        }
        let written = Written { files, tensors, inputs, holes: self.holes };
        Ok((written, bytes, self.entry.unwrap_or(0), self.notes))
    }

    fn current(&mut self) -> Result<&mut Growing> {
        self.files.last_mut().ok_or_else(|| breach("a segment before the first `file`"))
    }

    fn number(&self) -> Result<u32> {
        let last = self.files.len().checked_sub(1).and_then(|n| u32::try_from(n).ok());
        last.ok_or_else(|| breach("a segment before the first `file`"))
    }

    fn bytes_of(&self, bytes: &Bytes) -> Result<Vec<u8>> {
        match bytes {
            Bytes::Inline(held) => Ok(held.to_vec()),
            Bytes::Extent(extent) => read_extent(*extent, self.source),
        }
    }

    /// The stored bytes, and how many of them each block has.
    fn encode(&self, tensor: u64, codec: &Codec, block_size: u64, raw: &[u8]) -> Result<(Vec<u8>, Vec<u64>)> {
        let size = usize::try_from(block_size).ok().filter(|&n| n > 0);
        let size =
            size.ok_or_else(|| breach(format!("an encoded payload in blocks of {block_size} bytes")))?;
        let mut stored = Vec::new();
        let mut lengths = Vec::new();
        for (block, piece) in (0..).zip(raw.chunks(size)) {
            let bound = self.writer.encoded_bound(codec, piece.len() as u64)?;
            let bound = usize::try_from(bound).ok().filter(|_| bound <= LONGEST_GAP);
            let bound = bound.ok_or_else(|| breach("`encoded_bound` is out of proportion"))?;
            let mut out = vec![0; bound];
            let len = self.writer.encode(codec, BlockAt { tensor, block }, piece, &mut out)?;
            let encoded = out.get(..len);
            stored.extend_from_slice(encoded.ok_or_else(|| {
                breach(format!("`encode` returned {len} bytes, more than its bound of {bound}"))
            })?);
            lengths.push(len as u64);
        }
        Ok((stored, lengths))
    }
}

impl Growing {
    fn zeros(&mut self, len: u64) -> Result<()> {
        let len = usize::try_from(len).ok().filter(|_| len <= LONGEST_GAP);
        let len = len.ok_or_else(|| breach(format!("a gap above {LONGEST_GAP} bytes in `{}`", self.name)))?;
        self.bytes.resize(self.bytes.len() + len, 0);
        Ok(())
    }

    fn align(&mut self, n: u64) -> Result<()> {
        let at = self.bytes.len() as u64;
        self.zeros(at.next_multiple_of(n) - at)
    }
}

impl LayoutSink for Assembly<'_> {
    fn file(&mut self, name: &str) -> Result<()> {
        let shown = escape(name, 120);
        let leaves = name.starts_with('/') || name.contains(['\\', '\0']);
        if leaves || name.split('/').any(|piece| matches!(piece, "" | "." | "..")) {
            return Err(breach(format!("file name `{shown}` points outside the output folder")));
        }
        if self.files.iter().any(|file| file.name == name) {
            return Err(breach(format!("two files named `{shown}`")));
        }
        self.files.push(Growing { name: name.to_owned(), bytes: Vec::new(), known: true });
        Ok(())
    }

    fn entry(&mut self) -> Result<()> {
        let number = self.files.len().checked_sub(1);
        self.entry = Some(number.ok_or_else(|| breach("`entry` before the first `file`"))?);
        Ok(())
    }

    fn inline(&mut self, bytes: &[u8]) -> Result<()> {
        self.current()?.bytes.extend_from_slice(bytes);
        Ok(())
    }

    fn copy(&mut self, bytes: &Bytes) -> Result<()> {
        self.number()?;
        let bytes = self.bytes_of(bytes)?;
        self.inline(&bytes)
    }

    fn payload(&mut self, tensor: u64, align: u64, encoding: Encoding) -> Result<()> {
        let file = self.number()?;
        let index = usize::try_from(tensor).ok().filter(|&n| n < self.tensors.len());
        let index =
            index.ok_or_else(|| breach(format!("a payload of tensor {tensor}, which does not exist")))?;
        let facts = &self.model.tensors[index];
        if !align.is_power_of_two() {
            return Err(breach(format!("the alignment {align} is not a power of two")).tensor(&facts.name));
        }
        if self.tensors[index].is_some() {
            return Err(breach("the layout places it twice").tensor(&facts.name));
        }
        let raw = (self.payloads)(index).map_err(|e| e.tensor(&facts.name))?;
        let raw_len = raw.len() as u64;
        let need = facts.payload_len()?;
        if raw_len != need {
            let message = format!("its payload has {raw_len} bytes, expected {need}");
            return Err(Error::invalid_argument(message).tensor(&facts.name));
        }
        let crc32 = crc32fast::hash(&raw);
        let known = encoding == Encoding::Raw;
        let (stored, blocks) = match encoding {
            Encoding::Raw => (raw, Vec::new()),
            Encoding::Encoded { codec, block_size, lengths } => {
                let (stored, all) = self.encode(tensor, &codec, block_size, &raw)?;
                (stored, if lengths { all } else { Vec::new() })
            }
            other => return Err(Error::unsupported(format!("encoding {other:?}"))),
        };
        let current = self.current()?;
        current.align(align)?;
        let offset = current.bytes.len() as u64;
        current.bytes.extend_from_slice(&stored);
        current.known &= known;
        let stored_len = stored.len() as u64;
        let written = WrittenTensor { file, offset, stored_len, raw_len, blocks, ..WrittenTensor::default() };
        self.tensors[index] = Some((written, crc32));
        Ok(())
    }

    fn pad_to(&mut self, n: u64) -> Result<()> {
        if n == 0 {
            return Err(breach("padding to multiples of 0"));
        }
        self.current()?.align(n)
    }

    fn hole(&mut self, id: u32, len: u64) -> Result<()> {
        let file = self.number()?;
        if self.holes.iter().any(|hole| hole.id == id) {
            return Err(breach(format!("two holes with the number {id}")));
        }
        let current = self.current()?;
        let offset = current.bytes.len() as u64;
        current.zeros(len)?;
        self.holes.push(WrittenHole { id, file, offset, len });
        Ok(())
    }

    fn part(&mut self, part: PartRequest<'_>) -> Result<()> {
        let format = escape(part.format, 64);
        Err(Error::unsupported(format!("a part in format `{format}`: there is no other writer in memory")))
    }

    fn digest(&mut self, sum: Sum) -> Result<()> {
        sum.of_crc32(0)?;
        if !self.sums.contains(&sum) {
            self.sums.push(sum);
        }
        Ok(())
    }

    fn position(&self) -> Option<u64> {
        self.files.last().filter(|file| file.known).map(|file| file.bytes.len() as u64)
    }

    fn fetch(&mut self, bytes: &Bytes) -> Result<Bytes> {
        if let Bytes::Extent(extent) = bytes {
            self.limits.budget.charge(extent.len)?;
        }
        self.bytes_of(bytes).map(Bytes::from)
    }

    fn sample(&mut self, tensor: u64, start: u64, len: u64) -> Result<Option<Vec<u8>>> {
        let index = usize::try_from(tensor).ok().filter(|&n| n < self.tensors.len());
        let index =
            index.ok_or_else(|| breach(format!("a sample of tensor {tensor}, which does not exist")))?;
        let mut payload = (self.payloads)(index).map_err(|e| e.tensor(&self.model.tensors[index].name))?;
        let start = usize::try_from(start).unwrap_or(usize::MAX).min(payload.len());
        payload.drain(..start);
        payload.truncate(usize::try_from(len).unwrap_or(usize::MAX));
        Ok(Some(payload))
    }

    fn note(&mut self, note: &str) {
        self.notes.push(note.to_owned());
    }
}
