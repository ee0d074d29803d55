//! Digests, and how files write them.

use crate::{Error, Result};
use std::fmt;

/// A digest algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Digest {
    /// CRC-32 (IEEE).
    Crc32,
    /// CRC-32C (Castagnoli).
    Crc32c,
    /// SHA-256 (FIPS 180-4).
    Sha256,
}

/// Notation of a digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DigestForm {
    /// Raw bytes: a CRC least significant byte first, a SHA-256 in its own order.
    Bytes,
    /// Lower-case hexadecimal digits, most significant first.
    Hex,
    /// The bytes of a CRC rotated right by 15 bits plus `a282ead8`, so that the stored value can itself be
    /// covered by another CRC.
    Masked,
}

/// A digest algorithm and the form in which its value is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Sum {
    /// The algorithm.
    pub digest: Digest,
    /// Notation of the value.
    pub form: DigestForm,
}

impl Sum {
    /// A CRC-32 as 4 bytes, least significant first.
    pub const CRC32: Sum = Sum::new(Digest::Crc32, DigestForm::Bytes);
    /// A CRC-32 as 8 hexadecimal digits.
    pub const CRC32_HEX: Sum = Sum::new(Digest::Crc32, DigestForm::Hex);

    /// `digest`, written in `form`.
    pub const fn new(digest: Digest, form: DigestForm) -> Sum {
        Sum { digest, form }
    }

    /// The stored value's length in bytes; `None` if the digest has no such form.
    pub fn width(self) -> Option<u64> {
        let bytes = match self.digest {
            Digest::Crc32 | Digest::Crc32c => 4,
            Digest::Sha256 => 32,
        };
        match self.form {
            DigestForm::Bytes => Some(bytes),
            DigestForm::Hex => Some(2 * bytes),
            DigestForm::Masked => (bytes == 4).then_some(bytes),
        }
    }

    /// Writes this CRC-32 in its form.
    ///
    /// # Errors
    /// Unsupported, naming the digest, for anything but CRC-32, the only one the host computes.
    pub fn of_crc32(self, crc32: u32) -> Result<Vec<u8>> {
        match (self.digest, self.form) {
            (Digest::Crc32, DigestForm::Bytes) => Ok(crc32.to_le_bytes().to_vec()),
            (Digest::Crc32, DigestForm::Hex) => Ok(format!("{crc32:08x}").into_bytes()),
            _ => Err(self.not_computed()),
        }
    }

    /// Parses a stored CRC-32; `None` if `stated` does not have the right form.
    ///
    /// # Errors
    /// As [`Sum::of_crc32`].
    pub fn crc32(self, stated: &[u8]) -> Result<Option<u32>> {
        match (self.digest, self.form) {
            (Digest::Crc32, DigestForm::Bytes) => Ok(stated.try_into().ok().map(u32::from_le_bytes)),
            (Digest::Crc32, DigestForm::Hex) => {
                let text = std::str::from_utf8(stated).ok().filter(|t| t.len() == 8 && !t.contains('+'));
                Ok(text.and_then(|text| u32::from_str_radix(text, 16).ok()))
            }
            _ => Err(self.not_computed()),
        }
    }

    #[cold]
    fn not_computed(self) -> Error {
        Error::unsupported(format!("this version cannot compute {self}"))
    }
}

impl fmt::Display for Sum {
    /// `CRC-32`, `CRC-32C (masked)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.digest {
            Digest::Crc32 => "CRC-32",
            Digest::Crc32c => "CRC-32C",
            Digest::Sha256 => "SHA-256",
        })?;
        f.write_str(if self.form == DigestForm::Masked { " (masked)" } else { "" })
    }
}

/// The digests that a layout asked for, each with its value in the requested form.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Digests(Vec<(Sum, Box<[u8]>)>);

impl Digests {
    /// Adds a digest and its value.
    pub fn push(&mut self, sum: Sum, stated: impl Into<Box<[u8]>>) {
        self.0.push((sum, stated.into()));
    }

    /// The value of this digest in this form, if the layout asked for it.
    pub fn get(&self, sum: Sum) -> Option<&[u8]> {
        self.iter().find(|(of, _)| *of == sum).map(|(_, stated)| stated)
    }

    /// Every digest with its value, in the order they were added.
    pub fn iter(&self) -> impl Iterator<Item = (Sum, &[u8])> {
        self.0.iter().map(|(sum, stated)| (*sum, &**stated))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorKind;

    #[test]
    fn a_crc_is_stated_and_read_in_its_forms_and_nothing_else_is_computed() {
        assert_eq!(Sum::CRC32.of_crc32(0x201).unwrap(), [1, 2, 0, 0]);
        assert_eq!(Sum::CRC32_HEX.of_crc32(0x0bad_cafe).unwrap(), b"0badcafe");
        for sum in [Sum::CRC32, Sum::CRC32_HEX] {
            let stated = sum.of_crc32(0x0bad_cafe).unwrap();
            assert_eq!(Some(stated.len() as u64), sum.width());
            assert_eq!(sum.crc32(&stated).unwrap(), Some(0x0bad_cafe));
            assert_eq!(sum.crc32(&stated[1..]).unwrap(), None);
        }
        assert_eq!(Sum::CRC32_HEX.crc32(b"+badcafe").unwrap(), None);
        let masked = Sum::new(Digest::Crc32c, DigestForm::Masked);
        let error = masked.of_crc32(1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.message().ends_with("CRC-32C (masked)"), "{error}");
        assert_eq!(masked.crc32(&[0; 4]).unwrap_err(), error);
    }

    #[test]
    fn no_form_is_of_another_width_than_its_digest() {
        assert_eq!(Sum::new(Digest::Crc32c, DigestForm::Masked).width(), Some(4));
        assert_eq!(Sum::new(Digest::Sha256, DigestForm::Bytes).width(), Some(32));
        assert_eq!(Sum::new(Digest::Sha256, DigestForm::Hex).width(), Some(64));
        assert_eq!(Sum::new(Digest::Sha256, DigestForm::Masked).width(), None);
    }
}
