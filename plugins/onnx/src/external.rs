//! Data in other files of the model's folder, as referenced by a tensor.

use crate::messages::{self, StringStringEntry};
use crate::scan::{Field, Scan};
use apr_sdk::{Error, Result, escape};

/// Where a tensor's data lies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reference {
    /// The file, relative to the model's folder.
    pub location: String,
    /// Where the data begins in it.
    pub offset: u64,
    /// How many bytes it has; if that is not said, as many as the tensor needs.
    pub len: Option<u64>,
    /// Whether the SHA-1 of the whole file is said.
    pub has_checksum: bool,
}

/// Takes one entry of `external_data` into `reference`. Unknown keys are passed over.
///
/// # Errors
/// Malformed for an offset or length that is no number.
pub fn entry(scan: &mut Scan<'_>, field: &Field, reference: &mut Reference) -> Result<()> {
    let entry: StringStringEntry = messages::decode(scan, field)?;
    let value = String::from_utf8_lossy(entry.value.as_deref().unwrap_or_default()).into_owned();
    let number = |what: &str| {
        let plain = value.bytes().all(|b| b.is_ascii_digit());
        let parsed = value.parse::<u64>().ok().filter(|_| plain);
        parsed.ok_or_else(|| Error::malformed(format!("its {what} `{}` is not a number", escape(&value, 60))))
    };
    match entry.key.as_deref().unwrap_or_default() {
        b"location" => reference.location = value,
        b"offset" => reference.offset = number("offset")?,
        b"checksum" => reference.has_checksum = true,
        b"length" => reference.len = Some(number("length")?),
        _ => {}
    }
    Ok(())
}

/// Checks that a location stays in the model's folder, whatever the system. That no link leads out of it, the host
/// checks when it opens the file.
///
/// # Errors
/// Malformed, with the location.
pub fn check_location(location: &str) -> Result<()> {
    let pieces = || location.split(['/', '\\']);
    let leaves = location.is_empty()
        || location.contains(['\0', '\\', ':'])
        || pieces().any(|piece| piece.is_empty() || piece == "..");
    if !leaves {
        return Ok(());
    }
    let shown = escape(location, 120);
    let error =
        Error::malformed(format!("its data is in `{shown}`, which is not a path inside the model's folder"));
    Err(error
        .hint("put the file next to the model and save it again: nothing outside the model's folder is read"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locations_stay_in_the_folder() {
        for good in ["a", "a.data", "sub/a", "..a", "./a", "ünï"] {
            assert!(check_location(good).is_ok(), "{good}");
        }
        for bad in ["", "/a", "../a", "a/../b", "a//b", "a\\b", "C:a", "a/", "\0", ".."] {
            assert!(check_location(bad).is_err(), "{bad}");
        }
    }
}
