//! Encoding of a record's fields: in a fixed order, little-endian, each by its type. A record's version says which
//! fields there are, so that an unknown one is never skipped: it might change every result.

use crate::{Error, Result};

/// A type that a record's field may have.
pub(super) trait Field: Sized {
    /// Appends the value.
    fn put(&self, out: &mut Vec<u8>);

    /// Takes the value off the front of `rest`.
    fn take(rest: &mut &[u8]) -> Result<Self>;
}

/// The error for a record that ends too early.
fn cut() -> Error {
    Error::invalid_argument("a program's record is truncated")
}

/// The next `N` bytes.
fn bytes<const N: usize>(rest: &mut &[u8]) -> Result<[u8; N]> {
    let (first, after) = rest.split_first_chunk::<N>().ok_or_else(cut)?;
    *rest = after;
    Ok(*first)
}

macro_rules! little_endian {
    ($($kind:ty)*) => {$(
        impl Field for $kind {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }

            fn take(rest: &mut &[u8]) -> Result<Self> {
                Ok(<$kind>::from_le_bytes(bytes(rest)?))
            }
        }
    )*};
}

little_endian! { u8 u16 u32 u64 f32 }

impl Field for bool {
    fn put(&self, out: &mut Vec<u8>) {
        out.push(u8::from(*self));
    }

    fn take(rest: &mut &[u8]) -> Result<Self> {
        match u8::take(rest)? {
            0 => Ok(false),
            1 => Ok(true),
            other => Err(Error::invalid_argument(format!(
                "a program's record has {other} instead of true or false"
            ))),
        }
    }
}

impl<T: Field> Field for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        self.is_some().put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }

    fn take(rest: &mut &[u8]) -> Result<Self> {
        bool::take(rest)?.then(|| T::take(rest)).transpose()
    }
}

impl<T: Field> Field for Vec<T> {
    fn put(&self, out: &mut Vec<u8>) {
        // A list of 2^32 items would not fit a record, whose length is a u32.
        u32::try_from(self.len()).unwrap_or(u32::MAX).put(out);
        self.iter().for_each(|item| item.put(out));
    }

    fn take(rest: &mut &[u8]) -> Result<Self> {
        let count = u32::take(rest)?;
        // Every item takes a byte at least: a count beyond that is refused before anything is allocated.
        if usize::try_from(count).map_or(true, |count| count > rest.len()) {
            return Err(cut());
        }
        (0..count).map(|_| T::take(rest)).collect()
    }
}
