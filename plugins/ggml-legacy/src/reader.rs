//! The reader: finds out which program wrote the file, then reads header and tensors; older blocks are
//! converted on reading.

use crate::blocks::Layout;
use crate::header::{Container, Header};
use crate::index::{self, Info};
use crate::layout::{GGJT, GGLA, GGMF, GGML, LLAMA, MAGIC_AND_VERSION, PROGRAMS, Program};
use crate::types::Stored;
use crate::{GgmlLegacy, ID, complete};
use apr_sdk::{
    BlockAt, BlockSink, Codec, Cursor, DType, Error, ErrorKind, Extent, Fact, Limits, Look, ModelSink,
    OpenModel, Options, Payload, Reader, Result, Score, Source, TensorDecl, Value,
};

/// Quantization blocks that are converted in one call: 20 to 36 KiB of the file.
const BLOCKS_PER_CALL: u64 = 1024;

impl Reader for GgmlLegacy {
    fn probe(&self, look: &Look<'_>) -> Score {
        let Some(magic) = look.head.first_chunk::<4>() else { return Score::NO };
        match (*magic, look.u32_le(4)) {
            (GGML, _) => Score::MAGIC,
            (GGMF | GGLA, Some(1)) | (GGJT, Some(1..=3)) => Score::MAGIC_AND_VERSION,
            (GGMF | GGJT | GGLA, _) => Score::MAGIC,
            _ => Score::NO,
        }
    }

    fn open(&self, source: &dyn Source, limits: &Limits, options: &Options) -> Result<Box<dyn OpenModel>> {
        // Its buffer must not reach further: the layouts' own cursors fetch what follows.
        let mut cursor = Cursor::with_end(source, 0, 0, source.len(0)?.min(MAGIC_AND_VERSION), limits)?;
        let container = Container::read(&mut cursor)?;
        let start = cursor.position();
        let wanted = options.get("program").filter(|name| *name != "auto");
        let tried = match (container.word, wanted) {
            ("ggml", None) => find(source, limits, &container, start),
            ("ggml", Some(name)) => attempt(source, limits, &container, start, Some(program(name)?)),
            ("ggmf" | "ggjt", None | Some("llama")) => {
                attempt(source, limits, &container, start, Some(&LLAMA))
            }
            (_, None) => attempt(source, limits, &container, start, None),
            (word, Some(name)) => {
                let message =
                    format!("option `model` is `{name}`, but the magic `{word}` determines the kind of file");
                return Err(Error::invalid_argument(message).hint("remove the option"));
            }
        };
        let mut file = tried.map_err(|(_, error)| error)?;
        file.decodes = options.get("old-blocks") == Some("f32");
        file.refuse_removed_types()?;
        Ok(Box::new(file))
    }
}

fn program(name: &str) -> Result<&'static Program> {
    let known = PROGRAMS.iter().find(|program| program.name == name);
    known.ok_or_else(|| Error::invalid_argument(format!("option `model`: unknown program `{name}`")))
}

/// How far a layout came: its tensors, and the offset where it went wrong.
type Reached = (usize, Option<u64>);

/// Tries every program's layout: the right one ends exactly where the file does, and has all its tensors.
fn find(
    source: &dyn Source,
    limits: &Limits,
    container: &Container,
    start: u64,
) -> std::result::Result<File, (usize, Error)> {
    let (mut fits, mut best): (Vec<File>, Option<(Reached, Error, &str)>) = (Vec::new(), None);
    for program in PROGRAMS {
        match attempt(source, limits, container, start, Some(program)) {
            Ok(file) => fits.push(file),
            Err((tensors, error)) => match error.kind() {
                ErrorKind::Malformed | ErrorKind::Unsupported | ErrorKind::LimitExceeded => {
                    let reached = (tensors, error.offset());
                    if best.as_ref().is_none_or(|(before, ..)| reached > *before) {
                        best = Some((reached, error, program.name));
                    }
                }
                // The machine failed: no layout is to blame.
                _ => return Err((tensors, error)),
            },
        }
    }
    let names: Vec<_> = fits.iter().filter_map(|file| file.program).collect();
    if names.len() > 1 {
        let names = names.join("`, `");
        let message = format!("the file matches the layouts of several programs: `{names}`");
        let hint = "specify one with `-O ggml_legacy.program=NAME`";
        return Err((0, Error::unsupported(message).at(start).in_file(source.name(0)).hint(hint)));
    }
    match (fits.pop(), best) {
        (Some(file), _) => Ok(file),
        (None, Some(((tensors, _), error, name))) => Err((tensors, nearest(&error, name))),
        (None, None) => Err((0, Error::plugin("no program's layout was tried"))),
    }
}

/// What is wrong with the layout that came farthest.
fn nearest(error: &Error, name: &str) -> Error {
    let message = format!("no program's layout fits the file; as `{name}`: {}", error.message());
    let mut wrapped = Error::new(error.kind(), message);
    wrapped = error.offset().into_iter().fold(wrapped, Error::at);
    wrapped = error.file().into_iter().fold(wrapped, Error::in_file);
    wrapped = error.tensor_name().into_iter().fold(wrapped, Error::tensor);
    let known: Vec<_> = PROGRAMS.iter().map(|program| program.name).collect();
    let hint = error.hint_text().map_or_else(String::new, |hint| format!("{hint}; "));
    wrapped.hint(format!("{hint}specify a layout with `-O ggml_legacy.program=NAME`: {}", known.join(", ")))
}

/// Reads the file as one program's, or as an adapter. The number says how many tensors were there before the error.
fn attempt(
    source: &dyn Source,
    limits: &Limits,
    container: &Container,
    start: u64,
    program: Option<&Program>,
) -> std::result::Result<File, (usize, Error)> {
    let mut file = File {
        name: source.name(0),
        program: program.map(|program| program.name),
        keys: container.keys(),
        infos: Vec::new(),
        decodes: false,
    };
    match file.fill(source, limits, container, start, program) {
        Ok(()) => Ok(file),
        Err(error) => Err((file.infos.len(), error)),
    }
}

/// An opened file.
struct File {
    name: String,
    /// Whose layout it has; `None` for an adapter.
    program: Option<&'static str>,
    keys: Vec<(&'static str, Value)>,
    infos: Vec<Info>,
    /// Whether older blocks are decoded to F32.
    decodes: bool,
}

impl File {
    fn fill(
        &mut self,
        source: &dyn Source,
        limits: &Limits,
        container: &Container,
        start: u64,
        program: Option<&Program>,
    ) -> Result<()> {
        let mut cursor = Cursor::new(source, 0, start, limits)?;
        let header = match program {
            Some(program) => Header::read(&mut cursor, container, program)?,
            None => Header::read_adapter(&mut cursor)?,
        };
        let start = cursor.position();
        index::read(source, limits, start, header.generation, container.is_aligned, &mut self.infos)?;
        if let Some(program) = program {
            self.keys.push(("model", Value::from_string(program.name)));
            if !self.infos.is_empty() {
                let end = source.len(0)?;
                complete::check(program, &header, &self.infos)
                    .map_err(|e| e.at(end).in_file(source.name(0)))?;
            }
        }
        self.keys.extend(header.keys);
        Ok(())
    }

    /// Types that nothing holds today are refused before anything is read, unless they are decoded.
    fn refuse_removed_types(&self) -> Result<()> {
        for info in self.infos.iter().filter(|_| !self.decodes) {
            if let Stored::Old(layout) = info.stored
                && layout.today.is_none()
            {
                let message =
                    format!("type {} was removed, and no current type can hold its blocks", layout.name);
                return Err(self.place(Error::unsupported(message), info, info.at + 8));
            }
        }
        Ok(())
    }

    fn place(&self, error: Error, info: &Info, at: u64) -> Error {
        let hint =
            "decode such tensors to F32 with `-O ggml_legacy.old-blocks=f32`, or quantize the original again";
        error.at(at).in_file(&self.name).tensor(&info.name).hint(hint)
    }

    fn old(&self, tensor: u64) -> Result<(&Info, Layout)> {
        let info = usize::try_from(tensor).ok().and_then(|n| self.infos.get(n));
        match info.map(|info| (info, info.stored)) {
            Some((info, Stored::Old(layout))) => Ok((info, layout)),
            _ => Err(Error::plugin(format!("tensor {tensor} has no older blocks"))),
        }
    }

    /// Bytes that a block becomes.
    fn raw_bytes(&self, layout: &Layout) -> u64 {
        let today = layout.today.and_then(DType::info).filter(|_| !self.decodes);
        today.map_or(4 * layout.elements, |row| u64::from(row.block_bytes))
    }
}

impl OpenModel for File {
    fn describe(&self, _source: &dyn Source, sink: &mut dyn ModelSink) -> Result<()> {
        sink.foreign_file(ID, "", self.infos.len() as u64)?;
        for (key, value) in &self.keys {
            sink.foreign(key, value.clone()).map_err(|e| e.at(0).in_file(&self.name))?;
        }
        for info in &self.infos {
            let (dtype, payload) = match info.stored {
                Stored::Plain(dtype) => (dtype, Payload::Extent { extent: info.extent, view: None }),
                Stored::Old(layout) => {
                    let today = layout.today.filter(|_| !self.decodes);
                    (today.unwrap_or(DType::F32), Payload::Blocks { codec: Codec::default() })
                }
            };
            let tensor = TensorDecl { name: &info.name, dtype, shape: info.shape(), payload };
            sink.tensor(tensor).map_err(|e| e.at(info.at).in_file(&self.name))?;
        }
        if self.infos.is_empty() {
            sink.fact(Fact::Note(
                "the file has no tensors: it contains only a vocabulary, or is truncated after it",
            ))?;
        }
        Ok(())
    }

    fn blocks(&self, _source: &dyn Source, tensor: u64, sink: &mut dyn BlockSink) -> Result<()> {
        let (info, layout) = self.old(tensor)?;
        let mut left = info.extent.len / layout.bytes;
        let mut offset = info.extent.offset;
        while left > 0 {
            let count = left.min(BLOCKS_PER_CALL);
            let stored = Extent::new(0, offset, count * layout.bytes);
            sink.block(stored, count * self.raw_bytes(&layout))?;
            offset += stored.len;
            left -= count;
        }
        Ok(())
    }

    fn decode(&self, _codec: &Codec, at: BlockAt, stored: &[u8], out: &mut [u8]) -> Result<()> {
        let (info, layout) = self.old(at.tensor)?;
        let size = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        let (from, to) = (size(layout.bytes), size(self.raw_bytes(&layout)));
        if !stored.len().is_multiple_of(from)
            || !out.len().is_multiple_of(to)
            || stored.len() / from != out.len() / to
        {
            return Err(Error::plugin(format!("{} bytes of blocks into {}", stored.len(), out.len())));
        }
        let first = at.block.saturating_mul(BLOCKS_PER_CALL);
        for (n, (block, out)) in (first..).zip(stored.chunks_exact(from).zip(out.chunks_exact_mut(to))) {
            let done = if self.decodes { layout.decode(block, out) } else { layout.rewrite(block, out) };
            done.map_err(|e| {
                let message = format!("block {n}: {}", e.message());
                self.place(Error::new(e.kind(), message), info, info.extent.offset + n * layout.bytes)
            })?;
        }
        Ok(())
    }
}
