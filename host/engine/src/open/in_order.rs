//! Payload that can only be read sequentially.

use crate::engine::Engine;
use crate::open::source::CallSource;
use crate::open::{OpenedModel, Origin};
use apr_sdk::{Error, Limits, Result, Stream};

/// A tensor's stream, read as far as its tiles have come.
pub struct InOrder<'a> {
    engine: &'a Engine,
    opened: &'a OpenedModel,
    origin: &'a Origin,
    limits: Limits,
    stream: Box<dyn Stream>,
    len: u64,
    done: u64,
}

impl<'a> InOrder<'a> {
    /// Opens a new stream over tensor number `tensor`.
    ///
    /// # Errors
    /// Malformed if there are bytes although the shape needs none; any error from the reader.
    pub fn begin(engine: &'a Engine, opened: &'a OpenedModel, tensor: usize) -> Result<InOrder<'a>> {
        let (origin, number) = opened.origin(tensor)?;
        let stream = origin.open.stream(number)?;
        let len = opened.model.tensors[tensor].payload_len()?;
        let mut begun = InOrder { engine, opened, origin, limits: Limits::default(), stream, len, done: 0 };
        begun.fill(&mut [])?;
        Ok(begun)
    }

    /// Fills `out` with the next bytes. After the last byte of the tensor, the stream must end.
    ///
    /// # Errors
    /// Malformed if the stream is too short or too long; any error from the reader; Cancelled.
    pub fn fill(&mut self, out: &mut [u8]) -> Result<()> {
        let mut rest = out;
        while !rest.is_empty() {
            let n = self.read(rest)?;
            if n == 0 {
                let message =
                    format!("its stream ends after {} bytes, but its shape requires {}", self.done, self.len);
                return Err(Error::malformed(message));
            }
            rest = &mut rest[n..];
            self.done += n as u64;
        }
        if self.done == self.len && self.read(&mut [0; 1024])? > 0 {
            let message = format!("its stream continues after the {} bytes required by its shape", self.len);
            return Err(Error::malformed(message));
        }
        Ok(())
    }

    fn read(&mut self, out: &mut [u8]) -> Result<usize> {
        self.engine.check_cancelled()?;
        let files = &self.opened.files;
        let root = self.origin.root;
        let source = CallSource::new(files, root, &self.limits.budget, self.engine.progress.as_ref());
        let n = self.stream.read(&source, out)?;
        if n > out.len() {
            return Err(Error::plugin(format!("a stream returned {n} bytes for a buffer of {}", out.len())));
        }
        Ok(n)
    }
}
