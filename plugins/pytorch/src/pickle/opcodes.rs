//! Every opcode of protocols 0 to 5 (CPython `Lib/pickletools.py`): its byte, its name, and the shape of its argument.

/// What follows an opcode's byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Argument {
    /// Nothing.
    None,
    /// An unsigned number of 1, 2, 4 or 8 bytes.
    Unsigned(u8),
    /// A signed number of 4 bytes.
    Signed4,
    /// A big-endian binary64.
    Float8,
    /// Text up to a line feed.
    Line,
    /// Two such texts.
    TwoLines,
    /// Bytes, with their length before them: unsigned, in 1, 4 or 8 bytes.
    Counted(u8),
    /// Bytes, with their length as a signed number of 4 bytes.
    CountedSigned4,
}

/// A row of the table of opcodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opcode {
    /// Its byte.
    pub code: u8,
    /// The name in Python's `pickletools`.
    pub name: &'static str,
    /// What follows.
    pub argument: Argument,
}

const fn op(code: u8, name: &'static str, argument: Argument) -> Opcode {
    Opcode { code, name, argument }
}

use Argument::{Counted, CountedSigned4, Float8, Line, None as Nothing, Signed4, TwoLines, Unsigned};

/// All of them.
#[rustfmt::skip] // a table
pub const OPCODES: [Opcode; 68] = [
    op(b'(', "MARK", Nothing), op(b'.', "STOP", Nothing), op(b'0', "POP", Nothing), op(b'1', "POP_MARK", Nothing),
    op(b'2', "DUP", Nothing), op(b'F', "FLOAT", Line), op(b'I', "INT", Line), op(b'J', "BININT", Signed4),
    op(b'K', "BININT1", Unsigned(1)), op(b'L', "LONG", Line), op(b'M', "BININT2", Unsigned(2)),
    op(b'N', "NONE", Nothing), op(b'P', "PERSID", Line), op(b'Q', "BINPERSID", Nothing),
    op(b'R', "REDUCE", Nothing), op(b'S', "STRING", Line), op(b'T', "BINSTRING", CountedSigned4),
    op(b'U', "SHORT_BINSTRING", Counted(1)), op(b'V', "UNICODE", Line), op(b'X', "BINUNICODE", Counted(4)),
    op(b'a', "APPEND", Nothing), op(b'b', "BUILD", Nothing), op(b'c', "GLOBAL", TwoLines),
    op(b'd', "DICT", Nothing), op(b'}', "EMPTY_DICT", Nothing), op(b'e', "APPENDS", Nothing),
    op(b'g', "GET", Line), op(b'h', "BINGET", Unsigned(1)), op(b'i', "INST", TwoLines),
    op(b'j', "LONG_BINGET", Unsigned(4)), op(b'l', "LIST", Nothing), op(b']', "EMPTY_LIST", Nothing),
    op(b'o', "OBJ", Nothing), op(b'p', "PUT", Line), op(b'q', "BINPUT", Unsigned(1)),
    op(b'r', "LONG_BINPUT", Unsigned(4)), op(b's', "SETITEM", Nothing), op(b't', "TUPLE", Nothing),
    op(b')', "EMPTY_TUPLE", Nothing), op(b'u', "SETITEMS", Nothing), op(b'G', "BINFLOAT", Float8),
    op(0x80, "PROTO", Unsigned(1)), op(0x81, "NEWOBJ", Nothing), op(0x82, "EXT1", Unsigned(1)),
    op(0x83, "EXT2", Unsigned(2)), op(0x84, "EXT4", Unsigned(4)), op(0x85, "TUPLE1", Nothing),
    op(0x86, "TUPLE2", Nothing), op(0x87, "TUPLE3", Nothing), op(0x88, "NEWTRUE", Nothing),
    op(0x89, "NEWFALSE", Nothing), op(0x8a, "LONG1", Counted(1)), op(0x8b, "LONG4", CountedSigned4),
    op(b'B', "BINBYTES", Counted(4)), op(b'C', "SHORT_BINBYTES", Counted(1)),
    op(0x8c, "SHORT_BINUNICODE", Counted(1)), op(0x8d, "BINUNICODE8", Counted(8)),
    op(0x8e, "BINBYTES8", Counted(8)), op(0x8f, "EMPTY_SET", Nothing), op(0x90, "ADDITEMS", Nothing),
    op(0x91, "FROZENSET", Nothing), op(0x92, "NEWOBJ_EX", Nothing), op(0x93, "STACK_GLOBAL", Nothing),
    op(0x94, "MEMOIZE", Nothing), op(0x95, "FRAME", Unsigned(8)), op(0x96, "BYTEARRAY8", Counted(8)),
    op(0x97, "NEXT_BUFFER", Nothing), op(0x98, "READONLY_BUFFER", Nothing),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_names_one_opcode() {
        for (n, opcode) in OPCODES.iter().enumerate() {
            let same = |other: &Opcode| other.code == opcode.code || other.name == opcode.name;
            assert!(!OPCODES[..n].iter().any(same), "{}", opcode.name);
        }
    }
}
