//! Programs as bytes: records `(number u32, version u16, length u32, fields)`, one after the other, little-endian.
//! The declarations of values and states come first, then the operations in the order in which they run.

use super::fields::Field;
use super::numbers::{OpCode, RowsOf, StateCode};
use super::operations::Operation;
use crate::{DType, Error, Result};

/// A value: rows of F32 elements that operations read and write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueSpec {
    /// Elements per row.
    pub width: u32,
    /// Number of rows.
    pub rows: RowsOf,
}

/// A cache of keys and values, for each sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PagedState {
    /// Number of key heads.
    pub heads: u32,
    /// Elements of a key.
    pub key: u32,
    /// Elements of a value.
    pub value: u32,
    /// The type in which both are kept: F32, F16 or Q8_0.
    pub dtype: DType,
    /// Positions further back than this are never read; 0 if all are.
    pub window: u32,
}

/// A fixed number of F32 elements for each sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FixedState {
    /// The dimensions, outermost first.
    pub shape: Vec<u32>,
}

/// The state that a sequence leaves behind between steps.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum State {
    /// Keys and values of past positions.
    Paged(PagedState),
    /// A fixed number of elements.
    Fixed(FixedState),
}

impl Field for ValueSpec {
    fn put(&self, out: &mut Vec<u8>) {
        self.width.put(out);
        self.rows.put(out);
    }

    fn take(rest: &mut &[u8]) -> Result<Self> {
        Ok(ValueSpec { width: Field::take(rest)?, rows: Field::take(rest)? })
    }
}

impl Field for State {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            State::Paged(state) => {
                StateCode::PAGED.put(out);
                [state.heads, state.key, state.value, state.dtype.0, state.window]
                    .iter()
                    .for_each(|field| field.put(out));
            }
            State::Fixed(state) => {
                StateCode::FIXED.put(out);
                state.shape.put(out);
            }
        }
    }

    fn take(rest: &mut &[u8]) -> Result<Self> {
        match StateCode::take(rest)? {
            StateCode::PAGED => Ok(State::Paged(PagedState {
                heads: Field::take(rest)?,
                key: Field::take(rest)?,
                value: Field::take(rest)?,
                dtype: DType(Field::take(rest)?),
                window: Field::take(rest)?,
            })),
            StateCode::FIXED => Ok(State::Fixed(FixedState { shape: Field::take(rest)? })),
            other => Err(Error::unsupported(format!("unknown state {}", other.name()))),
        }
    }
}

/// The computation of a model in a step.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    /// Its values, by number.
    pub values: Vec<ValueSpec>,
    /// Its states, by number.
    pub states: Vec<State>,
    /// Its operations, in order.
    pub operations: Vec<Operation>,
}

/// One operation as it is asked about: whatever its number, and with the types of the weights that it takes.
#[derive(Clone, Copy, Debug)]
pub struct OpSpec<'a> {
    /// Its number.
    pub code: OpCode,
    /// Its version.
    pub version: u16,
    /// Its fields.
    pub fields: &'a [u8],
    /// The types of the matrices that it names, in the order of its fields.
    pub weights: &'a [DType],
}

/// A record as it lies in a program.
type Record<'a> = (OpCode, u16, &'a [u8]);

fn record(out: &mut Vec<u8>, code: OpCode, version: u16, fields: &[u8]) -> Result<()> {
    let length = u32::try_from(fields.len())
        .map_err(|_| Error::limit("an operation has more than 4 GiB of fields"))?;
    code.put(out);
    version.put(out);
    length.put(out);
    out.extend_from_slice(fields);
    Ok(())
}

/// Takes the next record off the front of `rest`.
fn next<'a>(rest: &mut &'a [u8]) -> Result<Record<'a>> {
    let code = OpCode::take(rest)?;
    let version = u16::take(rest)?;
    let length = usize::try_from(u32::take(rest)?).unwrap_or(usize::MAX);
    let (fields, after) = rest
        .split_at_checked(length)
        .ok_or_else(|| Error::invalid_argument(format!("the record `{}` is truncated", code.name())))?;
    *rest = after;
    Ok((code, version, fields))
}

impl Program {
    /// The program as bytes.
    ///
    /// # Errors
    /// LimitExceeded if a record is larger than 4 GiB.
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let mut out = Vec::new();
        let mut fields = Vec::new();
        self.values.put(&mut fields);
        record(&mut out, OpCode::VALUES, 1, &fields)?;
        fields.clear();
        self.states.put(&mut fields);
        record(&mut out, OpCode::STATES, 1, &fields)?;
        for operation in &self.operations {
            let (code, version) = operation.code();
            record(&mut out, code, version, &operation.fields())?;
        }
        Ok(out)
    }

    /// Reads a program.
    ///
    /// # Errors
    /// Unsupported for an unknown operation or version, naming it; InvalidArgument for bytes that are no program.
    pub fn from_bytes(bytes: &[u8]) -> Result<Program> {
        let mut program = Program::default();
        let mut declared = Vec::new();
        let rest = &mut { bytes };
        while !rest.is_empty() {
            let (code, version, mut fields) = next(rest)?;
            match (code, version) {
                (OpCode::VALUES, 1) => program.values = Field::take(&mut fields)?,
                (OpCode::STATES, 1) => program.states = Field::take(&mut fields)?,
                _ => {
                    program.operations.push(Operation::read(code, version, fields)?);
                    continue;
                }
            }
            // Those of a second one would silently take the place of the first's.
            if declared.contains(&code) || !program.operations.is_empty() {
                let why = if declared.contains(&code) {
                    "is declared more than once"
                } else {
                    "is declared after an operation"
                };
                return Err(Error::invalid_argument(format!("`{}` {why}", code.name())));
            }
            declared.push(code);
            if !fields.is_empty() {
                return Err(Error::invalid_argument(format!("`{}` has extra bytes", code.name())));
            }
        }
        Ok(program)
    }
}

#[cfg(test)]
mod tests {
    use super::super::*;
    use super::*;
    use crate::ErrorKind;

    fn slice(value: u32, width: u32) -> Slice {
        Slice { value, first: 0, width }
    }

    fn program() -> Program {
        let part = WeightPart { weight: 1, first_row: 8, bias: Some(2), out: slice(1, 8) };
        Program {
            values: vec![
                ValueSpec { width: 4, rows: RowsOf::BATCH },
                ValueSpec { width: 8, rows: RowsOf::OUTPUTS },
            ],
            states: vec![
                State::Paged(PagedState { heads: 1, key: 4, value: 4, dtype: DType::F16, window: 7 }),
                State::Fixed(FixedState { shape: vec![2, 3] }),
            ],
            operations: vec![
                Embed { table: 0, index: RowIndex::TOKEN, offset: 0, scale: 2.0, out: slice(0, 4) }.into(),
                Linear { x: slice(0, 4), parts: vec![part, part], residual: None, scale: 1.0 }.into(),
                Rope {
                    x: slice(0, 4),
                    out: slice(0, 4),
                    heads: 1,
                    first: 0,
                    style: RopeStyle::HALF,
                    frequencies: vec![1.0, 0.5],
                    magnitude: 1.0,
                }
                .into(),
                Sample { logits: slice(1, 8) }.into(),
            ],
        }
    }

    #[test]
    fn a_program_survives_its_bytes() {
        let program = program();
        assert_eq!(Program::from_bytes(&program.to_bytes().unwrap()).unwrap(), program);
    }

    #[test]
    fn every_cut_and_every_flipped_byte_is_a_program_or_an_error() {
        let bytes = program().to_bytes().unwrap();
        for cut in 0..bytes.len() {
            let _ = Program::from_bytes(&bytes[..cut]);
        }
        for at in 0..bytes.len() {
            for flip in [1, 0x80, 0xff] {
                let mut broken = bytes.clone();
                broken[at] ^= flip;
                let _ = Program::from_bytes(&broken);
            }
        }
    }

    #[test]
    fn what_is_unknown_is_named() {
        let mut bytes = Vec::new();
        record(&mut bytes, OpCode::SCAN, 1, &[1, 2, 3]).unwrap();
        let error = Program::from_bytes(&bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.message().contains("scan"), "{error}");
        let embed = Operation::from(Embed {
            table: 0,
            index: RowIndex(9),
            offset: 0,
            scale: 1.0,
            out: Slice { value: 0, first: 0, width: 1 },
        });
        assert_eq!(
            Operation::read(OpCode::EMBED, 2, &embed.fields()).unwrap_err().kind(),
            ErrorKind::Unsupported
        );
        let mut longer = embed.fields();
        longer.push(0);
        assert_eq!(
            Operation::read(OpCode::EMBED, 1, &longer).unwrap_err().kind(),
            ErrorKind::InvalidArgument
        );
    }

    #[test]
    fn declarations_come_once_and_before_all_operations() {
        let whole = program().to_bytes().unwrap();
        let declared = Program { operations: Vec::new(), ..program() }.to_bytes().unwrap();
        let twice = [&declared[..], &whole].concat();
        assert_eq!(Program::from_bytes(&twice).unwrap_err().message(), "`values` is declared more than once");
        let late = [&whole[declared.len()..], &declared].concat();
        assert_eq!(
            Program::from_bytes(&late).unwrap_err().message(),
            "`values` is declared after an operation"
        );
    }
}
