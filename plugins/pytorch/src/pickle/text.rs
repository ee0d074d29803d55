//! Texts of protocol 0: lines with escapes.

use apr_sdk::{Error, Result, escape};

/// A line that must be ASCII.
///
/// # Errors
/// Malformed for any other byte.
pub fn ascii(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).ok().filter(|text| text.is_ascii()).ok_or_else(|| {
        let shown = String::from_utf8_lossy(bytes);
        Error::malformed(format!("`{}`, expected a number", escape(&shown, 40)))
    })
}

/// The text of UNICODE: Latin-1, with `\uXXXX` and `\UXXXXXXXX`.
///
/// # Errors
/// Malformed for an escape that names no character.
pub fn raw_unicode_escape(bytes: &[u8]) -> Result<String> {
    let odd = || Error::malformed("an invalid escape in the pickle's text");
    let mut out = String::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((&byte, after)) = rest.split_first() {
        let width = match (byte, after.first()) {
            (b'\\', Some(b'u')) => 4,
            (b'\\', Some(b'U')) => 8,
            _ => {
                out.push(char::from(byte));
                rest = after;
                continue;
            }
        };
        let digits = after.get(1..1 + width).and_then(|d| std::str::from_utf8(d).ok()).ok_or_else(odd)?;
        let code = u32::from_str_radix(digits, 16).map_err(|_| odd())?;
        out.push(char::from_u32(code).ok_or_else(odd)?);
        rest = &after[1 + width..];
    }
    Ok(out)
}

/// The bytes of STRING: quoted, with Python's escapes.
///
/// # Errors
/// Malformed without quotes around it, or for an escape that is none.
pub fn quoted(bytes: &[u8]) -> Result<Vec<u8>> {
    let odd = || Error::malformed("a STRING that is not quoted as in Python");
    let line = bytes.trim_ascii();
    let quote = *line.first().filter(|b| **b == b'\'' || **b == b'"').ok_or_else(odd)?;
    let inner = line.get(1..).and_then(|l| l.strip_suffix(&[quote])).ok_or_else(odd)?;
    let mut out = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        if byte != b'\\' {
            out.push(byte);
            continue;
        }
        let (&code, after) = rest.split_first().ok_or_else(odd)?;
        rest = after;
        match code {
            b'n' => out.push(b'\n'),
            b't' => out.push(b'\t'),
            b'r' => out.push(b'\r'),
            b'\\' | b'\'' | b'"' => out.push(code),
            b'x' => {
                let digits = rest.get(..2).and_then(|d| std::str::from_utf8(d).ok()).ok_or_else(odd)?;
                out.push(u8::from_str_radix(digits, 16).map_err(|_| odd())?);
                rest = &rest[2..];
            }
            _ => return Err(odd()),
        }
    }
    Ok(out)
}

/// The digits that a number may have: as many as Python's own `int` takes.
const MOST_DIGITS: usize = 4300;

/// A decimal number of more than 64 bits, as two's complement, least significant byte first.
///
/// # Errors
/// Malformed for what is no number; LimitExceeded for more digits than Python reads.
pub fn long_number(digits: &str) -> Result<Vec<u8>> {
    let (negative, digits) = digits.strip_prefix('-').map_or((false, digits), |rest| (true, rest));
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(Error::malformed(format!("`{}` is not a number", escape(digits, 40))));
    }
    if digits.len() > MOST_DIGITS {
        return Err(Error::limit(format!(
            "a number of {} digits, more than the limit of {MOST_DIGITS}",
            digits.len()
        )));
    }
    let mut bytes: Vec<u8> = Vec::new();
    for digit in digits.bytes() {
        let mut carry = u16::from(digit - b'0');
        for byte in &mut bytes {
            let [low, high] = (u16::from(*byte) * 10 + carry).to_le_bytes();
            (*byte, carry) = (low, u16::from(high));
        }
        bytes.extend((carry > 0).then(|| carry.to_le_bytes()[0]));
    }
    // Room for the sign.
    bytes.push(0);
    if negative {
        let mut carry = true;
        for byte in &mut bytes {
            (*byte, carry) = (!*byte).overflowing_add(u8::from(carry));
        }
    }
    // The shortest form, as Python writes it.
    while let [.., before, last] = *bytes
        && (last == 0 && before < 0x80 || last == 0xff && before >= 0x80)
    {
        bytes.pop();
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_numbers_are_read() {
        let two_to_64 = [0, 0, 0, 0, 0, 0, 0, 0, 1];
        assert_eq!(long_number("18446744073709551616").unwrap(), two_to_64);
        assert_eq!(long_number("-18446744073709551616").unwrap(), [0, 0, 0, 0, 0, 0, 0, 0, 0xff]);
        assert_eq!(long_number("9223372036854775808").unwrap(), [0, 0, 0, 0, 0, 0, 0, 0x80, 0]);
        assert_eq!(
            long_number("-9223372036854775809").unwrap(),
            [255, 255, 255, 255, 255, 255, 255, 0x7f, 255]
        );
        assert_eq!(long_number("-0").unwrap(), [0]);
        assert!(long_number("").is_err() && long_number("--1").is_err());
        assert!(long_number(&"9".repeat(4301)).is_err());
    }

    #[test]
    fn escapes_are_read_as_python_writes_them() {
        assert_eq!(raw_unicode_escape(b"a\\u00e9\\U0001f600\xe9\\n").unwrap(), "aé😀é\\n");
        assert!(raw_unicode_escape(b"\\ud800").is_err());
        assert!(raw_unicode_escape(b"\\u12").is_err());
        assert_eq!(quoted(b"'a\\n\\x00\\'\"'").unwrap(), b"a\n\0'\"");
        for odd in [&b"a"[..], b"'a", b"'", b"", b"'\\q'", b"'\\x0'", b"'a\\'"] {
            assert!(quoted(odd).is_err(), "{odd:?}");
        }
    }
}
