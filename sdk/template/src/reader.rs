//! Turns a header into an index. The payload is never touched: the host reads it.

use crate::layout;
use apr_sdk::{
    Cursor, DType, Error, Extent, Limits, Look, ModelSink, OpenModel, Options, Reader, Result, Score, Source,
    TensorDecl, checked_payload_len,
};

/// The reader for `toy`. It has no state: one object serves all threads.
pub struct Toy;

/// The result of `open`: the header's text, and the offset of the payloads.
struct Opened {
    header: String,
    start: u64,
}

impl Reader for Toy {
    fn probe(&self, look: &Look<'_>) -> Score {
        if look.head_is(&layout::MAGIC) { Score::MAGIC_AND_VERSION } else { Score::NO }
    }

    fn open(&self, source: &dyn Source, limits: &Limits, _: &Options) -> Result<Box<dyn OpenModel>> {
        let mut cursor = Cursor::new(source, 0, 0, limits)?;
        if cursor.bytes(4)? != layout::MAGIC {
            return Err(cursor.error_at(0, "the file does not start with `TOY1`"));
        }
        let len = cursor.u32()?;
        let header = cursor.text("header", u64::from(len))?;
        Ok(Box::new(Opened { header, start: cursor.position().next_multiple_of(layout::ALIGN) }))
    }
}

impl OpenModel for Opened {
    fn describe(&self, source: &dyn Source, sink: &mut dyn ModelSink) -> Result<()> {
        let mut line_off = 8;
        for line in self.header.split_terminator('\n') {
            let fields = fields(line, self.start)
                .ok_or_else(|| Error::malformed("expected a line `DTYPE [DIM,DIM] OFFSET NAME`"));
            let (name, dtype, shape, start) = fields.map_err(|e| e.at(line_off).in_file(source.name(0)))?;
            let len =
                checked_payload_len(dtype, &shape).map_err(|e| e.at(line_off).in_file(source.name(0)))?;
            // The sink refuses duplicate names and payloads outside the file.
            sink.tensor(TensorDecl::plain(name, dtype, &shape, Extent::new(0, start, len)))?;
            line_off += line.len() as u64 + 1;
        }
        Ok(())
    }
}

/// The name, type, shape and place of a tensor, from its line; offsets count from `start`.
fn fields(line: &str, start: u64) -> Option<(&str, DType, Vec<u64>, u64)> {
    let [dtype, dims, offset, name] = *line.splitn(4, ' ').collect::<Vec<_>>() else { return None };
    let dims = dims.trim_matches(['[', ']']).split_terminator(',');
    let shape = dims.map(|dim| dim.parse().ok()).collect::<Option<_>>()?;
    Some((name, DType::from_name(dtype)?, shape, start.checked_add(offset.parse().ok()?)?))
}
