//! A writer's answer: files made of segments, and patches for bytes known only after the payload.

use crate::{Bytes, Codec, Digests, Options, Result, Sum};

/// Storage of a payload in the output.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Encoding {
    /// Raw: row-major, little-endian.
    Raw,
    /// Encoded block by block by [`crate::Writer::encode`].
    Encoded {
        /// The method and its options.
        codec: Codec,
        /// Raw bytes per block; the last block may be shorter.
        block_size: u64,
        /// True if [`WrittenTensor::blocks`] should report each block's encoded length.
        lengths: bool,
    },
}

/// A model of another format, to be written as part of this one.
#[derive(Clone, Debug)]
pub struct PartRequest<'a> {
    /// The base name of the part's files.
    pub stem: &'a str,
    /// The id of the format that writes the part.
    pub format: &'a str,
    /// The numbers of the tensors it holds; `None` for all.
    pub tensors: Option<&'a [u64]>,
    /// Options for that format's writer.
    pub options: Options,
}

/// The receiver of a writer's layout: file by file, segment by segment, in byte order.
pub trait LayoutSink {
    /// Begins a file, named relative to the output folder. If a single file was asked for, that name is
    /// [`crate::LayoutRequest::file_name`]; further files with that name plus a suffix (`model.x.data`) are
    /// placed beside it.
    ///
    /// # Errors
    /// Plugin for a name that leaves the folder or was already used.
    fn file(&mut self, name: &str) -> Result<()>;

    /// Marks the current file as the entry: the one users open, published last. Defaults to the first file.
    ///
    /// # Errors
    /// Plugin if no file was begun.
    fn entry(&mut self) -> Result<()>;

    /// Adds `bytes` as they are.
    ///
    /// # Errors
    /// Plugin if no file was begun.
    fn inline(&mut self, bytes: &[u8]) -> Result<()>;

    /// Adds bytes of the model. The host copies those that lie in a file, so the writer need not read them.
    ///
    /// # Errors
    /// As [`LayoutSink::inline`].
    fn copy(&mut self, bytes: &Bytes) -> Result<()>;

    /// Adds the payload of tensor number `tensor`, at the next multiple of `align` (zeros fill the gap).
    ///
    /// # Errors
    /// Plugin for an unknown tensor or an alignment that is not a power of two.
    fn payload(&mut self, tensor: u64, align: u64, encoding: Encoding) -> Result<()>;

    /// Adds zeros up to the next multiple of `n`.
    ///
    /// # Errors
    /// Plugin if `n` is 0.
    fn pad_to(&mut self, n: u64) -> Result<()>;

    /// Reserves `len` bytes for [`crate::Writer::finish`] to fill. `id` must be unique in the layout.
    ///
    /// # Errors
    /// Plugin for an `id` that was already used.
    fn hole(&mut self, id: u32, len: u64) -> Result<()>;

    /// Adds a model of another format; the host asks that format's writer for its layout.
    ///
    /// # Errors
    /// Unsupported if there is no such writer.
    fn part(&mut self, part: PartRequest<'_>) -> Result<()>;

    /// Requests a digest of each tensor's raw payload and of each input's payload, reported in [`Written`].
    ///
    /// # Errors
    /// Unsupported, naming the digest, if this host does not compute it.
    fn digest(&mut self, sum: Sum) -> Result<()>;

    /// The position in the current file, where the next segment begins. `None` after an encoded payload.
    fn position(&self) -> Option<u64>;

    /// Reads bytes of the model that the writer needs in order to lay it out. Bytes in memory are free,
    /// others are charged.
    ///
    /// # Errors
    /// Any error from reading; LimitExceeded.
    fn fetch(&mut self, bytes: &Bytes) -> Result<Bytes>;

    /// Computes `len` bytes of the raw payload of tensor number `tensor` as it will be written, from byte `start` on; fewer
    /// at its end, or where that would take more work than it is worth. `None` if the host cannot tell them before it
    /// writes: it must not read now, or the payload comes in order.
    ///
    /// # Errors
    /// Plugin for an unknown tensor; any error from reading and computing.
    fn sample(&mut self, _tensor: u64, _start: u64, _len: u64) -> Result<Option<Vec<u8>>> {
        Ok(None)
    }

    /// The compression of tensor number `tensor` in the source, if the source has this writer's format and the tensor's bytes
    /// are taken over unchanged. A writer that is told nothing else keeps it.
    ///
    /// # Errors
    /// Plugin for an unknown tensor.
    fn source_codec(&mut self, _tensor: u64) -> Result<Option<Codec>> {
        Ok(None)
    }

    /// Adds a line to the summary: what was assumed, changed or left out.
    fn note(&mut self, note: &str);

    /// Warns that the output differs from the model. A sink without warnings records a note.
    fn warn(&mut self, warning: &str) {
        self.note(warning);
    }
}

/// The receiver of the bytes for a writer's holes.
pub trait PatchSink {
    /// Fills hole `id`; `bytes` must be exactly as long as the hole.
    ///
    /// # Errors
    /// Plugin for an unknown hole, one filled before, or a wrong length.
    fn fill(&mut self, id: u32, bytes: &[u8]) -> Result<()>;

    /// Fills hole `id` with the digest of bytes `start..end` of file number `file`, computed once every hole
    /// filled with [`PatchSink::fill`], and by earlier calls of this method, is in place.
    ///
    /// # Errors
    /// Plugin for an unknown hole, one filled before, a wrong length or a range outside the file;
    /// Unsupported, naming the digest, if this host does not compute it.
    fn fill_digest(&mut self, id: u32, file: u32, start: u64, end: u64, sum: Sum) -> Result<()>;

    /// Appends bytes to file number `file`.
    ///
    /// # Errors
    /// Plugin for an unknown file.
    fn append(&mut self, file: u32, bytes: &[u8]) -> Result<()>;
}

/// The files and tensors written, as input to [`crate::Writer::finish`].
#[derive(Clone, Debug, Default)]
pub struct Written {
    /// The files, in layout order.
    pub files: Vec<WrittenFile>,
    /// The tensors, in the model's order.
    pub tensors: Vec<WrittenTensor>,
    /// The inputs, in order. Trailing inputs without payload may be missing.
    pub inputs: Vec<WrittenInput>,
    /// The holes, in layout order.
    pub holes: Vec<WrittenHole>,
}

/// One file of the output.
#[derive(Clone, Debug, Default)]
pub struct WrittenFile {
    /// Path relative to the output folder.
    pub name: String,
    /// Length in bytes, excluding whatever `finish` appends.
    pub len: u64,
}

/// Place and encoding of one tensor as it was stored.
#[derive(Clone, Debug, Default)]
pub struct WrittenTensor {
    /// The number of the file it was written to.
    pub file: u32,
    /// Offset in that file, in bytes.
    pub offset: u64,
    /// Length as stored, in bytes.
    pub stored_len: u64,
    /// Length of the raw payload, in bytes.
    pub raw_len: u64,
    /// The requested digests of the raw payload.
    pub digests: Digests,
    /// The encoded length of each block, in order; empty unless the layout asked for it.
    pub blocks: Vec<u64>,
}

/// One input of the conversion.
#[derive(Clone, Debug, Default)]
pub struct WrittenInput {
    /// The requested digests of its payload, in file order.
    pub digests: Digests,
}

/// Place of one hole of the layout.
#[derive(Clone, Debug, Default)]
pub struct WrittenHole {
    /// The hole's id, as the writer chose it.
    pub id: u32,
    /// The number of its file.
    pub file: u32,
    /// Offset in that file, in bytes.
    pub offset: u64,
    /// Its length in bytes.
    pub len: u64,
}
