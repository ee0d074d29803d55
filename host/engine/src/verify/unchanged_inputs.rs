//! Checks whether the inputs are still what they were when they were opened.
//!
//! Length and modification time tell nearly always. If only the status time differs, the bytes may be the
//! same (a `chmod`, a hard link) or not (written, with the modification time reset): then everything that was
//! read is read again. Nothing can reveal a store through a writable mapping that existed before: the kernel
//! updates its time late, or never.

use crate::engine::Engine;
use crate::expression::{Access, Spools};
use crate::open::OpenedModel;
use crate::open::files::{Change, ModelFile};
use crate::open::read_record::{ByteSpace, SeenRange};
use crate::tiles::tile::Tiles;
use crate::tiles::tile_sums::TileSums;
use apr_sdk::{Error, FileId, Result};

/// The first read of a conversion, and the means to repeat it.
pub struct FirstRead<'a> {
    /// The context, for cancellation and workers.
    pub engine: &'a Engine,
    /// The model that was converted.
    pub source: &'a OpenedModel,
    /// The tiles computed from it.
    pub tiles: &'a Tiles,
    /// The CRC-32 of the source bytes of each tile.
    pub sums: &'a TileSums,
    /// The spooled expressions.
    pub spools: &'a Spools,
}

impl FirstRead<'_> {
    /// Fails if an input is not what it was: a source that changes while it is read gives something, but not
    /// itself.
    ///
    /// # Errors
    /// Io for a file that changed; any error from reading; as [`Backing::settle`](crate::place::Backing::settle).
    pub fn refuse_changed(&self) -> Result<()> {
        self.source.files.settle()?;
        for (number, input) in (0u32..).zip(self.source.files.all()) {
            let same = match input.changed() {
                Change::None => true,
                Change::Contents => false,
                Change::Status(_) => self.is_the_same(number, &input)?,
            };
            if !same {
                let error = Error::io("the input changed while it was being read");
                let shown = input.shown.clone();
                let hint = format!("do not modify `{shown}` while apr is running; nothing was published");
                return Err(error.in_file(shown).hint(hint));
            }
        }
        Ok(())
    }

    /// Returns whether a second read gives the same as the first, and nothing changed meanwhile.
    fn is_the_same(&self, number: FileId, input: &ModelFile) -> Result<bool> {
        let before = input.changed();
        let same =
            self.runs_are_the_same(number).and_then(|same| Ok(same && self.gathered_is_the_same(number)?));
        // Nothing was recorded about payload gathered into the spool.
        let same = same.map_err(|e| self.source.files.show(e))? && !self.spools.gathers(number);
        Ok(same && input.changed() == before)
    }

    /// Compares what was read in runs: headers, and payload that is used in its stored order.
    fn runs_are_the_same(&self, number: FileId) -> Result<bool> {
        let Some(seen) = self.source.files.seen() else { return Ok(false) };
        let mut buffer = Vec::new();
        for (offset, SeenRange { len, crc32 }) in seen.within(ByteSpace::File(number), 0..u64::MAX) {
            let mut again = crc32fast::Hasher::new();
            let mut at = 0;
            while at < len {
                self.engine.check_cancelled()?;
                buffer.resize(usize::try_from((len - at).min(1 << 20)).unwrap_or(0), 0);
                self.source.files.read_payload(number, offset + at, &mut buffer)?;
                again.update(&buffer);
                at += buffer.len() as u64;
            }
            if again.finalize() != crc32 {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Compares what was gathered from many places, in output order.
    fn gathered_is_the_same(&self, number: FileId) -> Result<bool> {
        let files = &self.source.files;
        let mut buffer = Vec::new();
        for run in &self.tiles.runs {
            let Ok(access) = run.expression.access() else { continue };
            if !matches!(&access, Access::Gather(gather) if gather.extent().file == number) {
                continue;
            }
            for tile in run.first..run.first + run.n_tiles() {
                self.engine.check_cancelled()?;
                let at = self.tiles.tile(tile);
                buffer.resize(usize::try_from(run.before(at.len)).unwrap_or(0), 0);
                let from = run.before(at.at);
                access.fill(&|e, out| files.read_payload(e.file, e.offset, out), from, &mut buffer)?;
                if self.sums.get(tile).map(|(_, source)| source) != Some(crc32fast::hash(&buffer)) {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }
}
