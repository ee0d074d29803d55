//! A file without its payloads: what a writer needs to reproduce a file that it would lay out differently
//! itself.
//!
//! Serialized as little-endian `u64`s: the file's length, the number of payloads, offset and length of each;
//! then all bytes of the file outside the payloads.

use crate::archive::Archive;
use crate::end::{u16_at, u64_at};
use crate::layout::{CENTRAL_CRC, DATA_END, DATA_START, DESCRIPTOR_CRC, HoleNumbers, LOCAL_CRC};
use apr_sdk::{
    Bytes, Encoding, Error, Extent, FileId, LayoutSink, Limits, LogLevel, PartRequest, Result, Source, Sum,
};

/// Bytes outside the payloads. 16 MiB: a hundred thousand headers; a file with more contains something else.
const LONGEST: u64 = 16 << 20;

/// A file without its payloads. As a [`Source`] it reads zeros in their place, so that a reader can open it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skeleton {
    len: u64,
    /// Offset and length of each payload, in file order, disjoint.
    payloads: Vec<(u64, u64)>,
    /// For each payload, and for the end of the file: how many of the preceding bytes are payload.
    before: Vec<u64>,
    gaps: Vec<u8>,
}

impl Skeleton {
    /// A skeleton without its bytes; `None` if payloads overlap or leave the file.
    fn new(len: u64, payloads: Vec<(u64, u64)>) -> Option<Skeleton> {
        let mut at = 0u64;
        let mut sum = 0u64;
        let mut before = Vec::with_capacity(payloads.len() + 1);
        for &(offset, len) in payloads.iter().chain([&(len, 0)]) {
            offset.checked_sub(at)?;
            before.push(sum);
            at = offset.checked_add(len)?;
            // The payloads are disjoint, so the sum is at most the end.
            sum += len;
        }
        Some(Skeleton { len, payloads, before, gaps: Vec::new() })
    }

    /// Number of bytes outside the payloads.
    fn gaps_len(&self) -> u64 {
        self.len - self.before.last().copied().unwrap_or_default()
    }

    /// Reads everything but the `payloads` of a file, charged to the budget. `None` if payloads overlap or
    /// leave the file, or if more than 16 MiB are outside them.
    ///
    /// # Errors
    /// LimitExceeded; any error from the source.
    pub fn take(
        source: &dyn Source,
        file: FileId,
        payloads: &[Extent],
        limits: &Limits,
    ) -> Result<Option<Skeleton>> {
        let mut payloads: Vec<_> = payloads.iter().map(|extent| (extent.offset, extent.len)).collect();
        payloads.sort_unstable();
        let Some(mut skeleton) = Skeleton::new(source.len(file)?, payloads) else { return Ok(None) };
        let size = skeleton.gaps_len();
        if size > LONGEST {
            return Ok(None);
        }
        limits.budget.charge(size)?;
        let mut gaps = vec![0; usize::try_from(size).unwrap_or_default()];
        let mut left = gaps.as_mut_slice();
        for (start, end) in skeleton.gaps() {
            let (gap, rest) = left.split_at_mut(usize::try_from(end - start).unwrap_or_default());
            source.read_at(file, start, gap)?;
            limits.budget.earn(end - start);
            left = rest;
        }
        skeleton.gaps = gaps;
        Ok(Some(skeleton))
    }

    /// Serializes the skeleton for [`Skeleton::parse`].
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(16 + self.payloads.len() * 16 + self.gaps.len());
        let numbers = self.payloads.iter().flat_map(|(offset, len)| [*offset, *len]);
        for number in [self.len, self.payloads.len() as u64].into_iter().chain(numbers) {
            out.extend_from_slice(&number.to_le_bytes());
        }
        out.extend_from_slice(&self.gaps);
        out
    }

    /// Parses a serialized skeleton; `None` for anything else.
    pub fn parse(bytes: &[u8]) -> Option<Skeleton> {
        let count = usize::try_from(u64_at(bytes.get(..16)?, 8)).ok()?;
        let (numbers, gaps) = bytes.split_at_checked(count.checked_mul(16)?.checked_add(16)?)?;
        let payloads =
            numbers[16..].chunks_exact(16).map(|pair| (u64_at(pair, 0), u64_at(pair, 8))).collect();
        let skeleton = Skeleton::new(u64_at(bytes, 0), payloads)?;
        (skeleton.gaps_len() == gaps.len() as u64).then(|| Skeleton { gaps: gaps.to_vec(), ..skeleton })
    }

    /// The extents of the payloads, in file order.
    pub fn payloads(&self) -> impl ExactSizeIterator<Item = Extent> {
        self.payloads.iter().map(|&(offset, len)| Extent::new(0, offset, len))
    }

    /// Lays the file out again with the payloads of `tensors`, in file order. CRC-32s of entries with
    /// payload, found by way of `archive`, the skeleton's own index, become holes for [`crate::patch`],
    /// numbered by `holes`. Returns `false` and lays out nothing if an entry's descriptor is not where it
    /// should be.
    ///
    /// # Errors
    /// Plugin unless there is one tensor per payload; Unsupported if the numbers run out; any error from the
    /// sink.
    pub fn lay_out(
        &self,
        sink: &mut dyn LayoutSink,
        archive: Option<&Archive>,
        tensors: &[u64],
        holes: &mut HoleNumbers,
    ) -> Result<bool> {
        if tensors.len() != self.payloads.len() {
            let message = format!("{} tensors for {} payloads", tensors.len(), self.payloads.len());
            return Err(Error::plugin(message));
        }
        let mut steps: Vec<_> = self
            .payloads
            .iter()
            .zip(tensors)
            .map(|(&(at, len), &tensor)| Step { at, len, what: What::Payload(tensor) })
            .collect();
        for entry in archive.map(Archive::entries).unwrap_or_default() {
            let end = entry.data.offset + entry.data.len;
            let first = self.payloads.partition_point(|&(offset, _)| offset < entry.data.offset);
            if self.payloads.get(first).is_none_or(|&(offset, _)| offset >= end) {
                continue;
            }
            let Some(sums) = self.sums(entry)? else { return Ok(false) };
            let first_hole = holes.take()?;
            let sums = sums.into_iter().map(|(at, kind)| (at, 4, kind));
            for (at, len, kind) in sums.chain([(entry.data.offset, 0, DATA_START), (end, 0, DATA_END)]) {
                steps.push(Step { at, len, what: What::Hole(first_hole + kind) });
            }
        }
        // Steps without length precede others at the same offset.
        steps.sort_by_key(|step| (step.at, step.len));
        let mut at = 0;
        for step in steps {
            self.push(sink, at, step.at)?;
            match step.what {
                What::Payload(tensor) => sink.payload(tensor, 1, Encoding::Raw)?,
                What::Hole(id) => sink.hole(id, step.len)?,
            }
            at = step.at + step.len;
        }
        self.push(sink, at, self.len)?;
        Ok(true)
    }

    /// The places of an entry's CRC-32: in its headers, or in the descriptor after its data.
    fn sums(&self, entry: &crate::Entry) -> Result<Option<Vec<(u64, u32)>>> {
        let mut header = [0; 18];
        self.read_at(0, entry.header, &mut header)?;
        let mut sums = vec![(entry.central + 16, CENTRAL_CRC)];
        let descriptor = u16_at(&header, 6) & (1 << 3) != 0;
        if !descriptor || header[14..] != [0; 4] {
            sums.push((entry.header + 14, LOCAL_CRC));
        }
        if descriptor {
            let end = entry.data.offset + entry.data.len;
            let mut behind = [0; 8];
            self.read_at(0, end, &mut behind)?;
            let crc = entry.crc32.to_le_bytes();
            match behind {
                [b'P', b'K', 7, 8, rest @ ..] if rest == crc => sums.push((end + 4, DESCRIPTOR_CRC)),
                [a, b, c, d, ..] if [a, b, c, d] == crc => sums.push((end, DESCRIPTOR_CRC)),
                _ => return Ok(None),
            }
        }
        Ok(Some(sums))
    }

    /// The byte ranges between the payloads, as start and end.
    fn gaps(&self) -> impl Iterator<Item = (u64, u64)> {
        let ends = self.payloads.iter().map(|(offset, len)| offset + len);
        let starts = self.payloads.iter().map(|(offset, _)| *offset);
        [0].into_iter().chain(ends).zip(starts.chain([self.len]))
    }

    /// Calls `take` with each run of kept bytes in `start..end`, and its offset.
    fn held(&self, start: u64, end: u64, mut take: impl FnMut(u64, &[u8]) -> Result<()>) -> Result<()> {
        let first = self.payloads.partition_point(|(offset, len)| offset + len <= start);
        let mut gap = self.payloads[..first].last().map_or(0, |(offset, len)| offset + len);
        let last = (self.len, 0);
        let later = self.payloads[first..].iter().chain([&last]);
        for (&(offset, len), before) in later.zip(&self.before[first..]) {
            let from = gap.max(start);
            let to = offset.min(end);
            if from < to {
                let at = usize::try_from(from - before).unwrap_or(usize::MAX);
                let bytes = self.gaps.get(at..).and_then(|b| b.get(..usize::try_from(to - from).ok()?));
                take(from, bytes.unwrap_or_default())?;
            }
            if offset >= end {
                break;
            }
            gap = offset + len;
        }
        Ok(())
    }

    /// The kept bytes in `start..end`, neither of which may be inside a payload.
    fn between(&self, start: u64, end: u64) -> Option<&[u8]> {
        self.gaps.get(self.kept_at(start)?..self.kept_at(end)?)
    }

    /// The place among the kept bytes of one in the file.
    fn kept_at(&self, place: u64) -> Option<usize> {
        let n = self.payloads.partition_point(|(offset, len)| offset + len <= place);
        usize::try_from(place.checked_sub(*self.before.get(n)?)?).ok()
    }

    fn push(&self, sink: &mut dyn LayoutSink, start: u64, end: u64) -> Result<()> {
        self.held(start, end, |_, bytes| sink.inline(bytes))
    }
}

/// Something to lay out at an offset.
struct Step {
    at: u64,
    len: u64,
    what: What,
}

enum What {
    Payload(u64),
    Hole(u32),
}

impl Source for Skeleton {
    fn name(&self, _: FileId) -> String {
        "the kept form".to_owned()
    }

    fn len(&self, _: FileId) -> Result<u64> {
        Ok(self.len)
    }

    fn read_at(&self, _: FileId, offset: u64, out: &mut [u8]) -> Result<()> {
        let end = offset.checked_add(out.len() as u64).filter(|&end| end <= self.len);
        let end = end.ok_or_else(|| {
            Error::malformed(format!(
                "expected at least {} bytes, but the file has only {}",
                out.len(),
                self.len
            ))
            .at(offset)
        })?;
        out.fill(0);
        self.held(offset, end, |at, bytes| {
            let at = usize::try_from(at - offset).unwrap_or(usize::MAX);
            if let Some(place) = out.get_mut(at..).and_then(|out| out.get_mut(..bytes.len())) {
                place.copy_from_slice(bytes);
            }
            Ok(())
        })
    }

    fn view(&self, _: Extent) -> Result<&[u8]> {
        Err(Error::unsupported("a kept form cannot have views"))
    }

    fn sibling(&self, path: &str) -> Result<FileId> {
        Err(Error::not_found(format!("file `{path}` does not exist")))
    }

    fn entries(&self) -> Result<Vec<String>> {
        Ok(Vec::new())
    }

    fn log(&self, _: LogLevel, _: &str) {}
}

/// A sink that records one file's layout except its payloads, so that a reader can tell whether the writer
/// would lay out a file the way it is.
#[derive(Debug, Default)]
pub struct Laid {
    lens: Vec<u64>,
    skeleton: Option<Skeleton>,
    holes: Vec<(u64, u64)>,
}

impl Laid {
    /// For a model whose payloads have these lengths in bytes.
    pub fn new(lens: Vec<u64>) -> Laid {
        Laid { lens, ..Laid::default() }
    }

    /// Returns whether `file` is what was laid out, holes excepted.
    pub fn is(&self, file: &Skeleton) -> bool {
        let laid = self.skeleton.as_ref().and_then(|laid| Skeleton::new(laid.len, laid.payloads.clone()));
        let (Some(laid), Some(Skeleton { gaps, .. })) = (laid, &self.skeleton) else { return false };
        let laid = Skeleton { gaps: gaps.clone(), ..laid };
        if (laid.len, &laid.payloads) != (file.len, &file.payloads) {
            return false;
        }
        let mut at = 0;
        for &(hole, len) in &self.holes {
            if laid.between(at, hole) != file.between(at, hole) {
                return false;
            }
            at = hole + len;
        }
        laid.between(at, laid.len) == file.between(at, laid.len)
    }

    fn current(&mut self) -> Result<&mut Skeleton> {
        self.skeleton.as_mut().ok_or_else(|| Error::plugin("a segment before the first file"))
    }
}

impl LayoutSink for Laid {
    fn file(&mut self, _: &str) -> Result<()> {
        match self.skeleton {
            Some(_) => Err(Error::unsupported("a layout of several files")),
            None => {
                self.skeleton = Skeleton::new(0, Vec::new());
                Ok(())
            }
        }
    }

    fn entry(&mut self) -> Result<()> {
        Ok(())
    }

    fn inline(&mut self, bytes: &[u8]) -> Result<()> {
        let laid = self.current()?;
        laid.gaps.extend_from_slice(bytes);
        laid.len += bytes.len() as u64;
        Ok(())
    }

    fn copy(&mut self, bytes: &Bytes) -> Result<()> {
        match bytes.inline() {
            Some(held) => self.inline(held),
            None => Err(Error::unsupported("bytes that are not held")),
        }
    }

    fn payload(&mut self, tensor: u64, align: u64, _: Encoding) -> Result<()> {
        self.pad_to(align)?;
        let len = usize::try_from(tensor).ok().and_then(|n| self.lens.get(n).copied());
        let len = len.ok_or_else(|| Error::plugin(format!("tensor {tensor} does not exist")))?;
        let laid = self.current()?;
        laid.payloads.push((laid.len, len));
        laid.len = laid.len.saturating_add(len);
        Ok(())
    }

    fn pad_to(&mut self, n: u64) -> Result<()> {
        let past = self.current()?.len.checked_rem(n).unwrap_or_default();
        let zeros = if past == 0 { 0 } else { n - past };
        self.inline(&vec![0; usize::try_from(zeros).unwrap_or_default()])
    }

    fn hole(&mut self, _: u32, len: u64) -> Result<()> {
        let at = self.current()?.len;
        if len > 0 {
            self.holes.push((at, len));
        }
        self.inline(&vec![0; usize::try_from(len).unwrap_or_default()])
    }

    fn part(&mut self, _: PartRequest<'_>) -> Result<()> {
        Err(Error::unsupported("parts"))
    }

    fn digest(&mut self, _: Sum) -> Result<()> {
        Ok(())
    }

    fn position(&self) -> Option<u64> {
        self.skeleton.as_ref().map(|laid| laid.len)
    }

    fn fetch(&mut self, bytes: &Bytes) -> Result<Bytes> {
        match bytes.inline() {
            Some(_) => Ok(bytes.clone()),
            None => Err(Error::unsupported("bytes that are not held")),
        }
    }

    fn note(&mut self, _: &str) {}
}
