//! What a writer answers with: files made of segments, and patches for what is known only after the payload.

use crate::{Bytes, Codec, Digests, Options, Result, Sum};

/// How a payload is to lie in the output.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Encoding {
    /// Raw: row-major, little-endian.
    Raw,
    /// Encoded block by block by [`crate::Writer::encode`].
    Encoded {
        /// The method, and what it is told.
        codec: Codec,
        /// Raw bytes of a block; the last may be shorter.
        block_size: u64,
        /// Whether [`WrittenTensor::blocks`] is to say how long each block became.
        lengths: bool,
    },
}

/// A model of another format that is to be written as part of this one.
#[derive(Clone, Debug)]
pub struct PartRequest<'a> {
    /// The base name of its files.
    pub stem: &'a str,
    /// The id of the format that writes it.
    pub format: &'a str,
    /// The numbers of its tensors; `None` for all.
    pub tensors: Option<&'a [u64]>,
    /// Options for that format's writer.
    pub options: Options,
}

/// Where a writer pushes its layout, file by file, segment by segment, in the order of bytes.
pub trait LayoutSink {
    /// Begins a file, named relative to the output folder. Where one file was asked for, its name is
    /// [`crate::LayoutRequest::file_name`]; further files of that name and a suffix (`model.x.data`) are put beside it.
    ///
    /// # Errors
    /// Plugin for a name that leaves the folder or was used before.
    fn file(&mut self, name: &str) -> Result<()>;

    /// Marks the current file as the entry: the one published last, the one a user opens. The first file otherwise.
    ///
    /// # Errors
    /// Plugin before the first file.
    fn entry(&mut self) -> Result<()>;

    /// Bytes as they are.
    ///
    /// # Errors
    /// Plugin before the first file.
    fn inline(&mut self, bytes: &[u8]) -> Result<()>;

    /// Bytes of the model: copied by the host if they lie in a file, so that the writer need not read them.
    ///
    /// # Errors
    /// As [`LayoutSink::inline`].
    fn copy(&mut self, bytes: &Bytes) -> Result<()>;

    /// The payload of tensor number `tensor` of the model, at the next multiple of `align` (zeros fill the gap).
    ///
    /// # Errors
    /// Plugin for an unknown tensor or an alignment that is no power of two.
    fn payload(&mut self, tensor: u64, align: u64, encoding: Encoding) -> Result<()>;

    /// Zeros up to the next multiple of `n`.
    ///
    /// # Errors
    /// Plugin if `n` is 0.
    fn pad_to(&mut self, n: u64) -> Result<()>;

    /// `len` bytes that [`crate::Writer::finish`] fills. Its number must be unique in the layout.
    ///
    /// # Errors
    /// Plugin for a number used before.
    fn hole(&mut self, id: u32, len: u64) -> Result<()>;

    /// A model of another format, whose writer the host asks.
    ///
    /// # Errors
    /// Unsupported if no such writer is present.
    fn part(&mut self, part: PartRequest<'_>) -> Result<()>;

    /// Asks for a digest of each tensor's raw payload and of each input's payload in [`Written`], stated in its form.
    ///
    /// # Errors
    /// Unsupported, naming it, for a digest that this host does not compute.
    fn digest(&mut self, sum: Sum) -> Result<()>;

    /// The position in the current file: where the next segment begins. `None` after an encoded payload.
    fn position(&self) -> Option<u64>;

    /// Reads bytes of the model that the writer must see to lay them out. Held bytes cost nothing; others are charged.
    ///
    /// # Errors
    /// Whatever reading raised; LimitExceeded.
    fn fetch(&mut self, bytes: &Bytes) -> Result<Bytes>;

    /// Says something in the summary: what was assumed, changed or left out.
    fn note(&mut self, note: &str);

    /// Warns of what the output does otherwise than the model. A sink without warnings takes it as a note.
    fn warn(&mut self, warning: &str) {
        self.note(warning);
    }
}

/// Where a writer fills its holes.
pub trait PatchSink {
    /// Fills hole `id` with bytes; exactly as long as the hole.
    ///
    /// # Errors
    /// Plugin for an unknown or filled hole or a wrong length.
    fn fill(&mut self, id: u32, bytes: &[u8]) -> Result<()>;

    /// Fills hole `id` with the digest of `start..end` of file number `file`, once every hole filled by
    /// [`PatchSink::fill`], and by earlier calls of this, is in place.
    ///
    /// # Errors
    /// Plugin for an unknown or filled hole, a wrong length or a range outside the file; Unsupported, naming it, for a
    /// digest that this host does not compute.
    fn fill_digest(&mut self, id: u32, file: u32, start: u64, end: u64, sum: Sum) -> Result<()>;

    /// Appends bytes at the end of file number `file`.
    ///
    /// # Errors
    /// Plugin for an unknown file.
    fn append(&mut self, file: u32, bytes: &[u8]) -> Result<()>;
}

/// What was written, for [`crate::Writer::finish`].
#[derive(Clone, Debug, Default)]
pub struct Written {
    /// The files, in the order of the layout.
    pub files: Vec<WrittenFile>,
    /// The tensors, in the model's order.
    pub tensors: Vec<WrittenTensor>,
    /// The inputs, in their order. Those at the end may be missing if they have no payload.
    pub inputs: Vec<WrittenInput>,
    /// The holes, in the order of the layout.
    pub holes: Vec<WrittenHole>,
}

/// One written file.
#[derive(Clone, Debug, Default)]
pub struct WrittenFile {
    /// Its name relative to the output folder.
    pub name: String,
    /// Its length in bytes, without what `finish` appends.
    pub len: u64,
}

/// One written tensor.
#[derive(Clone, Debug, Default)]
pub struct WrittenTensor {
    /// The file it lies in.
    pub file: u32,
    /// Its offset there, in bytes.
    pub offset: u64,
    /// Its bytes there.
    pub stored_len: u64,
    /// Its raw bytes.
    pub raw_len: u64,
    /// Digests of its raw bytes, as they were asked for.
    pub digests: Digests,
    /// The bytes that each block became, in order; empty unless the layout asked for them.
    pub blocks: Vec<u64>,
}

/// One input of the conversion.
#[derive(Clone, Debug, Default)]
pub struct WrittenInput {
    /// Digests of its payload in file order, as they were asked for.
    pub digests: Digests,
}

/// One hole of the layout.
#[derive(Clone, Debug, Default)]
pub struct WrittenHole {
    /// Its number.
    pub id: u32,
    /// The file it lies in.
    pub file: u32,
    /// Its offset there, in bytes.
    pub offset: u64,
    /// Its length in bytes.
    pub len: u64,
}
