//! Payload in numeric fields: decoded one by one, in bounded memory.

use crate::layout::tensor;
use crate::scan::Scan;
use crate::tensor::{Range, Typed, n_entries};
use apr_sdk::{DType, Error, FileId, Limits, Result, Source, Stream};

/// Numbers that are decoded before they are handed on.
const AT_ONCE: usize = 4096;

/// A tensor whose data is in records of numbers.
#[derive(Clone, Debug)]
pub struct Numbers {
    /// The number of the file in the model.
    pub file: FileId,
    /// The tensor's name, for errors.
    pub name: String,
    /// Its element type.
    pub dtype: DType,
    /// Its dimensions.
    pub dims: Vec<u64>,
    /// Its records.
    pub typed: Typed,
}

/// Decodes a tensor from its beginning.
pub struct NumberStream {
    of: Numbers,
    /// The next range of records.
    next: usize,
    /// What is left of the range at hand.
    records: Range,
    /// What is left of the packed run at hand.
    run: Range,
    /// Numbers still to come.
    left: u64,
    /// Decoded bytes, and how many of them were handed on.
    ready: Vec<u8>,
    given: usize,
    /// Bits that do not fill a byte yet, for types that are packed here and not there.
    bits: u32,
    n_bits: u32,
}

impl NumberStream {
    /// A stream over `of`.
    ///
    /// # Errors
    /// As [`n_entries`].
    pub fn new(of: &Numbers) -> Result<NumberStream> {
        let mut left = n_entries(of.dtype, &of.dims)?;
        if [DType::C64, DType::C128].contains(&of.dtype) {
            left = left.saturating_mul(2);
        }
        Ok(NumberStream {
            of: of.clone(),
            next: 0,
            records: (0, 0),
            run: (0, 0),
            left,
            ready: Vec::new(),
            given: 0,
            bits: 0,
            n_bits: 0,
        })
    }

    /// Decodes up to [`AT_ONCE`] numbers.
    fn decode(&mut self, source: &dyn Source) -> Result<()> {
        let limits = Limits::default();
        let mut scan = Scan::new(source, self.of.file, &limits)?;
        self.ready.clear();
        self.given = 0;
        for _ in 0..AT_ONCE {
            if !self.find_run(&mut scan)? {
                return self.end(&scan);
            }
            if self.left == 0 {
                return Err(self.error(&scan, "it has more numbers than its dimensions require"));
            }
            self.left -= 1;
            let at = self.run.0;
            self.number(&mut scan).map_err(|e| scan.place(e, at).tensor(&self.of.name))?;
        }
        Ok(())
    }

    /// Sees to it that a run of numbers is at hand; false at the end.
    fn find_run(&mut self, scan: &mut Scan<'_>) -> Result<bool> {
        while self.run.0 >= self.run.1 {
            if self.records.0 >= self.records.1 {
                let Some(&records) = self.of.typed.records.get(self.next) else { return Ok(false) };
                (self.records, self.next) = (records, self.next + 1);
                continue;
            }
            let field = scan.field(self.records.0, self.records.1)?;
            self.records.0 = field.end;
            self.run = (field.start, field.end);
        }
        Ok(true)
    }

    fn end(&mut self, scan: &Scan<'_>) -> Result<()> {
        if self.left > 0 {
            let left = self.left;
            return Err(self.error(scan, &format!("it has {left} numbers fewer than its dimensions require")));
        }
        if self.n_bits > 0 {
            self.ready.push(self.bits.to_le_bytes()[0]);
            self.n_bits = 0;
        }
        Ok(())
    }

    fn error(&self, scan: &Scan<'_>, message: &str) -> Error {
        scan.error(self.run.0, message).tensor(&self.of.name)
    }

    /// Decodes the number at hand.
    fn number(&mut self, scan: &mut Scan<'_>) -> Result<()> {
        let (at, end) = self.run;
        let fixed = match self.of.typed.field {
            tensor::FLOAT_DATA => Some(4),
            tensor::DOUBLE_DATA => Some(8),
            _ => None,
        };
        if let Some(fixed) = fixed {
            // As many as are left of the run, of the tensor, and of a piece; one of them is counted already.
            let n = ((end - at) / fixed).min(self.left + 1).min(AT_ONCE as u64);
            scan.append(at, at + n * fixed, &mut self.ready)?;
            self.run.0 = at + n * fixed;
            self.left -= n - 1;
            return Ok(());
        }
        let (value, end) = scan.varint(at, end)?;
        self.run.0 = end;
        let signed = match self.of.typed.field {
            // Of a longer number only 32 bits count, as in every parser.
            tensor::INT32_DATA => {
                let low = value.to_le_bytes();
                i64::from(i32::from_le_bytes([low[0], low[1], low[2], low[3]]))
            }
            _ => i64::from_le_bytes(value.to_le_bytes()),
        };
        let (low, high, n_bits) = range(self.of.dtype);
        if self.of.typed.field != tensor::UINT64_DATA && !(low..=high).contains(&signed)
            || self.of.dtype == DType::U32 && value > u64::from(u32::MAX)
        {
            let shown = if self.of.typed.field == tensor::UINT64_DATA {
                value.to_string()
            } else {
                signed.to_string()
            };
            return Err(Error::malformed(format!("{shown} is out of range for {}", self.of.dtype)));
        }
        let bytes = signed.to_le_bytes();
        if n_bits % 8 == 0 {
            self.ready.extend_from_slice(&bytes[..n_bits / 8]);
            return Ok(());
        }
        self.bits |= u32::from(bytes[0]) << self.n_bits;
        self.n_bits += 6;
        while self.n_bits >= 8 {
            self.ready.push(self.bits.to_le_bytes()[0]);
            self.bits >>= 8;
            self.n_bits -= 8;
        }
        Ok(())
    }
}

/// The numbers that a typed field may hold for a dtype, and the bits that each becomes: floats stand there as the
/// unsigned number of their bits, types of 4 and 2 bits as whole bytes.
fn range(dtype: DType) -> (i64, i64, usize) {
    match dtype {
        DType::I8 => (i64::from(i8::MIN), i64::from(i8::MAX), 8),
        DType::I16 => (i64::from(i16::MIN), i64::from(i16::MAX), 16),
        DType::I32 => (i64::from(i32::MIN), i64::from(i32::MAX), 32),
        DType::U16 | DType::F16 | DType::BF16 => (0, i64::from(u16::MAX), 16),
        DType::U32 => (0, i64::from(u32::MAX), 32),
        DType::I64 | DType::U64 => (i64::MIN, i64::MAX, 64),
        DType::F6_E2M3 | DType::F6_E3M2 => (0, 63, 6),
        DType::BOOL => (0, 1, 8),
        _ => (0, 255, 8),
    }
}

impl Stream for NumberStream {
    fn read(&mut self, source: &dyn Source, out: &mut [u8]) -> Result<usize> {
        let mut done = 0;
        while done < out.len() {
            if self.given == self.ready.len() {
                self.decode(source)?;
                if self.ready.is_empty() {
                    break;
                }
            }
            let n = (out.len() - done).min(self.ready.len() - self.given);
            out[done..done + n].copy_from_slice(&self.ready[self.given..self.given + n]);
            (self.given, done) = (self.given + n, done + n);
        }
        Ok(done)
    }
}
