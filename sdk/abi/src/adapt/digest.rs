//! Converts digests and their forms to the wire and back.

use crate::wire::{DigestNumber, FormNumber, WireDigest};
use abi_stable::std_types::RSlice;
use apr_sdk::{Digest, DigestForm, Digests, Error, Result, Sum};

/// Converts a digest and its form to the wire.
///
/// # Errors
/// Unsupported for a digest or form that this version of the wire lacks.
pub(crate) fn sum_to_wire(sum: Sum) -> Result<(DigestNumber, FormNumber)> {
    let digest = match sum.digest {
        Digest::Crc32 => DigestNumber::CRC32,
        Digest::Crc32c => DigestNumber::CRC32C,
        Digest::Sha256 => DigestNumber::SHA256,
        _ => return Err(lacks(sum)),
    };
    let form = match sum.form {
        DigestForm::Bytes => FormNumber::BYTES,
        DigestForm::Hex => FormNumber::HEX,
        DigestForm::Masked => FormNumber::MASKED,
        _ => return Err(lacks(sum)),
    };
    Ok((digest, form))
}

fn lacks(sum: Sum) -> Error {
    Error::unsupported(format!("{sum} cannot be passed through the plugin interface"))
}

/// Converts a digest and its form from the wire.
///
/// # Errors
/// Plugin for unknown numbers.
pub(crate) fn sum_from_wire(digest: DigestNumber, form: FormNumber) -> Result<Sum> {
    let digest = match digest {
        DigestNumber::CRC32 => Digest::Crc32,
        DigestNumber::CRC32C => Digest::Crc32c,
        DigestNumber::SHA256 => Digest::Sha256,
        other => return Err(Error::plugin(format!("uses an unknown digest, number {}", other.0))),
    };
    let form = match form {
        FormNumber::BYTES => DigestForm::Bytes,
        FormNumber::HEX => DigestForm::Hex,
        FormNumber::MASKED => DigestForm::Masked,
        other => {
            return Err(Error::plugin(format!("uses an unknown form of digest, number {}", other.0)));
        }
    };
    Ok(Sum::new(digest, form))
}

/// Converts computed digests to the wire, borrowing their values.
///
/// # Errors
/// As [`sum_to_wire`].
pub(crate) fn to_wire(digests: &Digests) -> Result<Vec<WireDigest<'_>>> {
    let digests = digests.iter().map(|(sum, stated)| {
        sum_to_wire(sum).map(|(digest, form)| WireDigest { stated: RSlice::from_slice(stated), digest, form })
    });
    digests.collect()
}

/// Converts computed digests from the wire. Unknown ones are dropped: a plugin cannot have asked for them.
pub(crate) fn from_wire(wire: RSlice<'_, WireDigest<'_>>) -> Digests {
    let mut digests = Digests::default();
    for one in wire.iter() {
        if let Ok(sum) = sum_from_wire(one.digest, one.form) {
            digests.push(sum, one.stated.as_slice());
        }
    }
    digests
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_its_digest_and_its_form() {
        for (_, digest) in DigestNumber::ALL {
            for (_, form) in FormNumber::ALL {
                let numbers = (DigestNumber(*digest), FormNumber(*form));
                let sum = sum_from_wire(numbers.0, numbers.1).unwrap();
                assert_eq!(sum_to_wire(sum).unwrap(), numbers);
            }
        }
        assert!(sum_from_wire(DigestNumber(99), FormNumber::HEX).is_err());
        assert!(sum_from_wire(DigestNumber::CRC32, FormNumber(99)).is_err());
    }
}
