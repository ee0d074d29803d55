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
            let placed = |e: Error| e.at(line_off).in_file(source.name(0));
            let odd = || placed(Error::malformed("expected a line `DTYPE [DIM,DIM] OFFSET NAME`"));
            let [dtype, dims, at, name] = *line.splitn(4, ' ').collect::<Vec<_>>() else { return Err(odd()) };
            let dtype = DType::from_name(dtype).ok_or_else(odd)?;
            let dims = dims.trim_matches(['[', ']']).split_terminator(',');
            let shape: Vec<u64> = dims.map(|dim| dim.parse().ok()).collect::<Option<_>>().ok_or_else(odd)?;
            let start = at.parse().ok().and_then(|n: u64| n.checked_add(self.start)).ok_or_else(odd)?;
            let len = checked_payload_len(dtype, &shape).map_err(placed)?;
            // The sink refuses duplicate names and payloads outside the file.
            sink.tensor(TensorDecl::plain(name, dtype, &shape, Extent::new(0, start, len)))?;
            line_off += line.len() as u64 + 1;
        }
        Ok(())
    }
}
