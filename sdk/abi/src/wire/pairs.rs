//! Names and values as bytes, for data that may grow: options, requests, facts. Names and values alternate,
//! each a little-endian u64 length and its bytes. Readers ignore unknown names.

use apr_sdk::{Error, Options, Result};

/// Appends a name and its value.
pub fn push(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    for bytes in [name.as_bytes(), value] {
        out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
        out.extend_from_slice(bytes);
    }
}

/// The names and values, in order.
///
/// # Errors
/// Plugin for bytes that are not pairs.
pub fn read(bytes: &[u8]) -> Result<Vec<(&str, &[u8])>> {
    let mut rest = bytes;
    let mut pairs = Vec::new();
    while !rest.is_empty() {
        let name = field(&mut rest)?;
        let name =
            std::str::from_utf8(name).map_err(|_| Error::plugin("a name on the wire is not valid UTF-8"))?;
        pairs.push((name, field(&mut rest)?));
    }
    Ok(pairs)
}

fn field<'a>(rest: &mut &'a [u8]) -> Result<&'a [u8]> {
    let (len, after) = rest.split_first_chunk::<8>().ok_or_else(cut_off)?;
    let len = usize::try_from(u64::from_le_bytes(*len)).map_err(|_| cut_off())?;
    let (field, after) = after.split_at_checked(len).ok_or_else(cut_off)?;
    *rest = after;
    Ok(field)
}

fn cut_off() -> Error {
    Error::plugin("names and values on the wire are truncated")
}

/// Decodes a value as text.
///
/// # Errors
/// Plugin if it is not UTF-8.
pub fn text(value: &[u8]) -> Result<&str> {
    std::str::from_utf8(value).map_err(|_| Error::plugin("a string on the wire is not valid UTF-8"))
}

/// Decodes a value as a little-endian u64.
///
/// # Errors
/// Plugin if it is not 8 bytes long.
pub fn number(value: &[u8]) -> Result<u64> {
    let bytes = value.try_into().map_err(|_| Error::plugin("a number on the wire does not have 8 bytes"))?;
    Ok(u64::from_le_bytes(bytes))
}

/// Encodes options as pairs.
pub fn from_options(options: &Options) -> Vec<u8> {
    let mut out = Vec::new();
    for (name, value) in options.iter() {
        push(&mut out, name, value.as_bytes());
    }
    out
}

/// Decodes options from pairs.
///
/// # Errors
/// Plugin for bytes that are not pairs of strings.
pub fn to_options(bytes: &[u8]) -> Result<Options> {
    let mut options = Options::new();
    for (name, value) in read(bytes)? {
        options.set(name, text(value)?);
    }
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_survive_and_damage_is_an_error() {
        let options = Options::new().with("a", "1").with("b", "").with("", "é\0");
        let bytes = from_options(&options);
        assert_eq!(to_options(&bytes).unwrap(), options);
        for cut in 1..bytes.len() {
            let _ = read(&bytes[..cut]);
        }
        assert!(read(&bytes[..bytes.len() - 1]).is_err());
        assert!(read(&[0xff; 8]).is_err());
    }
}
