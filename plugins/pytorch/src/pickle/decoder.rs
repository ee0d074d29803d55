//! Reads opcodes and their arguments from a file, checking every length against the bytes left before
//! allocating memory.

use super::opcodes::{Argument, OPCODES, Opcode};
use apr_sdk::{Cursor, Error, Limits, Result};

/// The longest text line, in bytes. 1 MiB: protocol 0 writes strings as lines, and names are short.
const LONGEST_LINE: u64 = 1 << 20;

/// What is read at once. 1 MiB: so that the budget earns with each piece what the next one takes.
const PIECE: u64 = 1 << 20;

/// Opcodes by their byte: finding one is an index.
const BY_BYTE: [u8; 256] = by_byte();

const fn by_byte() -> [u8; 256] {
    let mut table = [u8::MAX; 256];
    let mut n = 0;
    while n < OPCODES.len() {
        #[allow(clippy::cast_possible_truncation, reason = "there are 68 opcodes")]
        let place = n as u8;
        table[OPCODES[n].code as usize] = place;
        n += 1;
    }
    table
}

/// Walks over a pickle.
pub struct Decoder<'c, 's> {
    cursor: &'c mut Cursor<'s>,
    /// The argument's bytes, if it has some: of two lines, the first.
    pub bytes: Vec<u8>,
    /// The second of two lines.
    pub second: Vec<u8>,
}

/// One opcode with its number, if that is its argument.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// Where its byte is.
    pub at: u64,
    /// The opcode, with its argument's form.
    pub opcode: &'static Opcode,
    /// An unsigned argument, or a signed one of 4 bytes.
    pub number: i64,
    /// A floating-point argument.
    pub float: f64,
}

impl<'c, 's> Decoder<'c, 's> {
    /// A decoder from where the cursor is.
    pub fn new(cursor: &'c mut Cursor<'s>) -> Decoder<'c, 's> {
        Decoder { cursor, bytes: Vec::new(), second: Vec::new() }
    }

    /// The cursor, to read behind the pickle.
    pub fn cursor(&mut self) -> &mut Cursor<'s> {
        self.cursor
    }

    /// The limits it works under.
    pub fn limits(&self) -> &'s Limits {
        self.cursor.limits()
    }

    /// The next opcode.
    ///
    /// # Errors
    /// Malformed for a byte that is no opcode, a length beyond the bytes left, or a line without end.
    pub fn step(&mut self) -> Result<Step> {
        let at = self.cursor.position();
        let code = self.cursor.u8()?;
        let place = BY_BYTE[usize::from(code)];
        let opcode = OPCODES.get(usize::from(place)).ok_or_else(|| {
            self.cursor.error_at(at, format!("byte {code:#04x} is not a pickle opcode: nothing was executed"))
        })?;
        let mut step = Step { at, opcode, number: 0, float: 0.0 };
        match opcode.argument {
            Argument::None => {}
            Argument::Unsigned(width) => step.number = self.number(at, width)?,
            Argument::Signed4 => step.number = i64::from(self.signed()?),
            Argument::Float8 => {
                let mut raw = [0; 8];
                self.cursor.fill(&mut raw)?;
                step.float = f64::from_be_bytes(raw);
            }
            Argument::Line => self.line(at)?,
            Argument::TwoLines => {
                self.line(at)?;
                std::mem::swap(&mut self.bytes, &mut self.second);
                self.line(at)?;
                std::mem::swap(&mut self.bytes, &mut self.second);
            }
            Argument::Counted(width) => {
                let len = self.number(at, width)?;
                self.counted(opcode, at, u64::try_from(len).unwrap_or(u64::MAX))?;
            }
            Argument::CountedSigned4 => {
                let len = self.signed()?;
                let len = u64::try_from(len).map_err(|_| {
                    self.cursor.error_at(at, format!("{} of {len} bytes: nothing was executed", opcode.name))
                })?;
                self.counted(opcode, at, len)?;
            }
        }
        Ok(step)
    }

    fn signed(&mut self) -> Result<i32> {
        let mut raw = [0; 4];
        self.cursor.fill(&mut raw)?;
        Ok(i32::from_le_bytes(raw))
    }

    /// An unsigned number; above 2^63 it is out of any file's reach.
    fn number(&mut self, at: u64, width: u8) -> Result<i64> {
        let number = match width {
            1 => u64::from(self.cursor.u8()?),
            2 => u64::from(self.cursor.u16()?),
            4 => u64::from(self.cursor.u32()?),
            _ => self.cursor.u64()?,
        };
        i64::try_from(number).map_err(|_| {
            let message = format!("a length of {number} bytes, but only {} are left", self.cursor.left());
            self.cursor.error_at(at, message)
        })
    }

    fn counted(&mut self, opcode: &Opcode, at: u64, len: u64) -> Result<()> {
        if len > self.cursor.left() {
            let message = format!("{} of {len} bytes, but only {} are left", opcode.name, self.cursor.left());
            let error = self.cursor.error_at(at, message);
            return Err(error.hint("get the file again: it is truncated or corrupt"));
        }
        self.bytes.clear();
        let mut left = len;
        while left > 0 {
            let piece = left.min(PIECE);
            self.cursor.limits().budget.charge(piece).map_err(|e| self.cursor.place(e, at))?;
            let start = self.bytes.len();
            self.bytes.resize(start + usize::try_from(piece).unwrap_or(0), 0);
            self.cursor.fill(&mut self.bytes[start..])?;
            left -= piece;
        }
        Ok(())
    }

    fn line(&mut self, at: u64) -> Result<()> {
        self.bytes.clear();
        loop {
            if self.cursor.left() == 0 || self.bytes.len() as u64 > LONGEST_LINE {
                let message = format!("an unterminated text line of {} bytes or more", self.bytes.len());
                return Err(self.cursor.error_at(at, message));
            }
            match self.cursor.u8()? {
                b'\n' => return Ok(()),
                byte => self.bytes.push(byte),
            }
        }
    }

    /// Adds the file and `at` to an error.
    #[cold]
    pub fn place(&self, error: Error, at: u64) -> Error {
        self.cursor.place(error, at)
    }
}
