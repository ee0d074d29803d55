//! Pickles without a container, as their first bytes: any protocol, cut off or not. Python runs what a pickle calls as soon as
//! it gets there, whatever follows.

use super::opcodes::{Argument, OPCODES};

/// Opcodes after which bytes that go on beyond what was read are taken for a pickle: a text does not balance its stack so long.
const ENOUGH: usize = 64;

/// Returns whether bytes begin as a pickle does that imports and calls something, or that goes on behind them.
pub fn begins(head: &[u8]) -> bool {
    let mut stack = Stack::default();
    let mut rest = head;
    for done in 0.. {
        let Some((&code, behind)) = rest.split_first() else { return done >= ENOUGH };
        let Some(opcode) = OPCODES.iter().find(|opcode| opcode.code == code) else { return false };
        let argument = match argument(opcode.argument, behind) {
            Taken::Whole(argument) => argument,
            // A protocol comes first in no text: one long value behind it hides what is called.
            Taken::CutOff => return done >= ENOUGH || done > 0 && head[0] == 0x80,
            Taken::Impossible => return false,
        };
        if !is_sound(code, argument) || !stack.apply(code) {
            return false;
        }
        if stack.has_called {
            return true;
        }
        if code == b'.' {
            return done >= ENOUGH;
        }
        rest = &behind[argument.len()..];
    }
    false
}

enum Taken<'a> {
    Whole(&'a [u8]),
    CutOff,
    Impossible,
}

/// The bytes of an argument.
fn argument(kind: Argument, bytes: &[u8]) -> Taken<'_> {
    let len = match kind {
        Argument::None => Some(0),
        Argument::Unsigned(width) => Some(usize::from(width)),
        Argument::Signed4 => Some(4),
        Argument::Float8 => Some(8),
        Argument::Line => lines(bytes, 1),
        Argument::TwoLines => lines(bytes, 2),
        Argument::Counted(width) => counted(bytes, usize::from(width)),
        Argument::CountedSigned4 => match bytes.get(3) {
            Some(sign) if sign & 0x80 != 0 => return Taken::Impossible,
            _ => counted(bytes, 4),
        },
    };
    match len.and_then(|len| bytes.get(..len)) {
        Some(argument) => Taken::Whole(argument),
        None => Taken::CutOff,
    }
}

/// Length of so many lines with their ends.
fn lines(bytes: &[u8], count: usize) -> Option<usize> {
    let mut ends = bytes.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    ends.nth(count - 1)
}

/// Length of a count of `width` bytes and of what it counts.
fn counted(bytes: &[u8], width: usize) -> Option<usize> {
    let mut raw = [0; 8];
    raw[..width].copy_from_slice(bytes.get(..width)?);
    usize::try_from(u64::from_le_bytes(raw)).ok()?.checked_add(width)
}

/// Returns whether an argument is what its opcode takes.
fn is_sound(code: u8, argument: &[u8]) -> bool {
    let line = argument.strip_suffix(b"\n").unwrap_or(argument);
    let is_of = |allowed: &[u8]| {
        !line.is_empty() && line.iter().all(|byte| byte.is_ascii_digit() || allowed.contains(byte))
    };
    match code {
        b'I' | b'F' | b'L' => is_of(b"+-.eELinfa"),
        b'g' | b'p' => is_of(b""),
        b'S' => line.starts_with(b"'") || line.starts_with(b"\""),
        b'c' | b'i' => line.split(|byte| *byte == b'\n').all(|name| {
            !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"._<>".contains(byte))
        }),
        0x80 => argument.iter().all(|protocol| *protocol <= 5),
        _ => true,
    }
}

/// How many values lie on the stack above each mark, the lowest first, and what was done.
struct Stack {
    above: Vec<usize>,
    has_import: bool,
    has_called: bool,
}

impl Default for Stack {
    fn default() -> Stack {
        Stack { above: vec![0], has_import: false, has_called: false }
    }
}

impl Stack {
    /// Does what an opcode does; false if the stack does not have what it takes.
    fn apply(&mut self, code: u8) -> bool {
        self.has_import |= matches!(code, b'c' | b'i' | 0x82..=0x84 | 0x93);
        let is_call = matches!(code, b'R' | b'o' | b'i' | b'b' | 0x81 | 0x92);
        let is_done = match code {
            b'(' => {
                self.above.push(0);
                true
            }
            0x80 | 0x95 => true,
            b'.' | b'p' | b'q' | b'r' | 0x94 | 0x98 => self.replace(1, 1),
            b'0' => self.replace(1, 0) || self.unwind(0),
            b'1' => self.unwind(0),
            b'2' => self.replace(1, 2),
            b'Q' | 0x85 => self.replace(1, 1),
            b'R' | b'a' | b'b' | 0x81 | 0x86 | 0x93 => self.replace(2, 1),
            0x87 | 0x92 | b's' => self.replace(3, 1),
            b'd' | b'l' | b't' | b'i' | b'o' | 0x91 => self.unwind(1),
            b'e' | b'u' | 0x90 => self.unwind(0) && self.replace(1, 1),
            _ => self.replace(0, 1),
        };
        self.has_called |= is_done && is_call && self.has_import;
        is_done
    }

    fn replace(&mut self, taken: usize, put: usize) -> bool {
        let Some(above) = self.above.last_mut() else { return false };
        match above.checked_sub(taken) {
            Some(left) => {
                *above = left + put;
                true
            }
            None => false,
        }
    }

    fn unwind(&mut self, put: usize) -> bool {
        self.above.len() > 1 && self.above.pop().is_some() && self.replace(0, put)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pickles_of_every_protocol_are_known_and_texts_are_not() {
        for pickle in [
            &b"cposix\nsystem\n(S'echo hi'\ntR."[..],
            b"cposix\nsystem\n(S'echo hi'\ntR",
            b"N0cposix\nsystem\n(S'x'\ntR.",
            b"I01\n0(cposix\nsystem\nS'x'\no.",
            b"(S'x'\niposix\nsystem\n.",
            b"\x80\x02cposix\nsystem\nX\x01\x00\x00\x00x\x85R",
            b"\x80\x04\x95\x1e\x00\x00\x00\x00\x00\x00\x00\x8c\x05posix\x8c\x06system\x93\x8c\x01x\x85R.",
            b"\x80\x02X\xff\xff\0\0a long text",
        ] {
            assert!(begins(pickle), "{:?}", String::from_utf8_lossy(pickle));
        }
        for text in [
            &b""[..],
            b"{\"a\": 1}",
            b"# README\n",
            b"cat\ndog\nbird\nidea\nlist\n",
            b"[PAD]\n[UNK]\n",
            b"(c) 2026 nobody\n",
            b"Licence\nto use\n",
            b"I am\n",
            b"import torch\nprint(1)\n",
            b"class Model:\n    pass\n",
            b"\x80\x02}q\x00.",
        ] {
            assert!(!begins(text), "{:?}", String::from_utf8_lossy(text));
        }
    }
}
