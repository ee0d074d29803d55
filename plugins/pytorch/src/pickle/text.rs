//! The texts of protocol 0: lines with escapes.

use apr_sdk::{Error, Result, escape};

/// A line that must be ASCII.
///
/// # Errors
/// Malformed for any other byte.
pub fn ascii(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).ok().filter(|text| text.is_ascii()).ok_or_else(|| {
        let shown = String::from_utf8_lossy(bytes);
        Error::malformed(format!("`{}` where a number is wanted", escape(&shown, 40)))
    })
}

/// The text of UNICODE: Latin-1, with `\uXXXX` and `\UXXXXXXXX`.
///
/// # Errors
/// Malformed for an escape that names no character.
pub fn raw_unicode_escape(bytes: &[u8]) -> Result<String> {
    let odd = || Error::malformed("an escape in the pickle's text names no character");
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
    let odd = || Error::malformed("a STRING that is not quoted as Python quotes it");
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

#[cfg(test)]
mod tests {
    use super::*;

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
