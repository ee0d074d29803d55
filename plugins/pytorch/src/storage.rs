//! Locates storages, and the part of each that a tensor sees; every bound is checked before the host is told.

use crate::pickle::value::{Arena, Storage, Tensor};
use apr_sdk::{Endian, Error, Extent, Payload, Result, View, checked_elements, checked_payload_len};
use apr_zip::{Entry, Method};

/// How much all tensors together may claim: this, and [`CLAIM_PER_BYTE`] for each byte of the file. 64 MiB: small
/// files with expanded masks are real.
const CLAIM_BASE: u64 = 64 << 20;

/// 64: a model that ties all its layers to one has fewer.
const CLAIM_PER_BYTE: u64 = 64;

/// Where one storage's bytes are.
#[derive(Clone, Debug)]
pub enum Located {
    /// Raw, in the file.
    Raw(Extent),
    /// Deflated, in an entry of a ZIP archive.
    Deflated(Box<Entry>),
}

impl Located {
    /// The storage of an entry.
    pub fn of(entry: &Entry) -> Located {
        match entry.method {
            Method::Stored => Located::Raw(entry.data),
            Method::Deflated => Located::Deflated(Box::new(entry.clone())),
        }
    }

    /// Its raw bytes.
    fn len(&self) -> u64 {
        match self {
            Located::Raw(extent) => extent.len,
            Located::Deflated(entry) => entry.raw_len,
        }
    }
}

/// A tensor's bytes.
#[derive(Clone, Debug)]
pub struct Placed {
    /// For the host.
    pub payload: Payload,
    /// For a stream: the entry, and what is before the tensor in it.
    pub inside: Option<(Box<Entry>, u64)>,
    /// The run of the storage that it sees, to find tensors that are the same.
    pub seen: Option<(Extent, bool)>,
}

/// Checks the claims of a file's tensors, one after another.
pub struct Claims {
    left: u64,
}

impl Claims {
    /// For a file of this length.
    pub fn new(file_len: u64) -> Claims {
        Claims { left: file_len.saturating_mul(CLAIM_PER_BYTE).saturating_add(CLAIM_BASE) }
    }

    /// Where `tensor` lies.
    ///
    /// # Errors
    /// Malformed for a tensor that reaches past its storage, or a storage past its record; LimitExceeded if all tensors
    /// together claim out of proportion; Unsupported for what only a stored record can hold.
    pub fn place(&mut self, arena: &Arena, tensor: &Tensor, at: &Located, endian: Endian) -> Result<Placed> {
        let storage = arena.storages.get(tensor.storage as usize);
        let storage = storage.ok_or_else(|| Error::malformed("its storage is missing"))?;
        let width = u64::from(tensor.dtype.require()?.block_bytes);
        let numel = check_storage(storage, at, width)?;
        let len = checked_payload_len(tensor.dtype, &tensor.size)?;
        self.left = self.left.checked_sub(len).ok_or_else(|| self.too_much(len, at))?;
        let extent = |first: u64, count: u64| match at {
            Located::Raw(whole) => Extent::new(whole.file, whole.offset + first * width, count * width),
            Located::Deflated(entry) => Extent::new(entry.data.file, first * width, count * width),
        };
        if tensor.size.contains(&0) {
            let payload = Payload::Extent { extent: extent_of_nothing(at), view: None };
            return Ok(Placed { payload, inside: None, seen: None });
        }
        if tensor.dtype.require()?.block_elements > 1 {
            return place_packed(tensor, storage, at, len, numel);
        }
        let last = last_element(tensor).filter(|&last| last < numel);
        let last = last.ok_or_else(|| {
            Error::malformed(format!(
                "sizes {:?} and strides {:?} from element {} extend past its storage of {numel} elements",
                tensor.size, tensor.stride, tensor.offset
            ))
        })?;
        let first = storage.start.checked_add(tensor.offset);
        let first = first.ok_or_else(|| Error::malformed("its first element is past 2^64"))?;
        let plain = is_contiguous(tensor);
        let seen = extent(first, last - tensor.offset + 1);
        let swapped = endian == Endian::Big && !tensor.dtype.require()?.swap.is_empty();
        match at {
            Located::Raw(_) => {
                let view = match (plain, swapped) {
                    (true, false) => None,
                    (true, true) => Some(View { strides: Vec::new(), start: 0, endian }),
                    (false, _) => {
                        let endian = if swapped { Endian::Big } else { Endian::Little };
                        Some(View { strides: tensor.stride.to_vec(), start: 0, endian })
                    }
                };
                let payload = Payload::Extent { extent: seen, view };
                Ok(Placed { payload, inside: None, seen: Some((seen, plain)) })
            }
            Located::Deflated(entry) if plain && !swapped => Ok(Placed {
                payload: Payload::Sequential,
                inside: Some((entry.clone(), seen.offset)),
                seen: None,
            }),
            Located::Deflated(_) => {
                Err(Error::unsupported("it is a strided or big-endian view of a deflated storage")
                    .hint("store the archive's records without compression (`zip -0`)"))
            }
        }
    }
}

/// Where `len` bytes of codes lie that share bytes: in row-major order from the first bit of a storage of `held` bytes, which
/// may be longer, for torch counts whole bytes for each row.
fn place_packed(tensor: &Tensor, storage: &Storage, at: &Located, len: u64, held: u64) -> Result<Placed> {
    if !is_contiguous(tensor) || tensor.offset != 0 || storage.start != 0 {
        let message = "its codes share bytes, but it is a view of some of them, or in a different order";
        return Err(Error::unsupported(message).hint("save it dequantized: `tensor.dequantize()`"));
    }
    if len > held {
        let message = format!("its codes require {len} bytes, but its storage has {held}");
        return Err(Error::malformed(message).hint("get the file again: it is truncated or corrupt"));
    }
    Ok(match at {
        Located::Raw(whole) => {
            let seen = Extent::new(whole.file, whole.offset, len);
            Placed {
                payload: Payload::Extent { extent: seen, view: None },
                inside: None,
                seen: Some((seen, true)),
            }
        }
        Located::Deflated(entry) => {
            Placed { payload: Payload::Sequential, inside: Some((entry.clone(), 0)), seen: None }
        }
    })
}

impl Claims {
    #[cold]
    fn too_much(&self, len: u64, at: &Located) -> Error {
        let of = format!(
            "the tensors before it leave {} of {CLAIM_PER_BYTE} bytes for each byte of the file",
            self.left
        );
        match at {
            Located::Raw(_) => Error::limit(format!("its {len} bytes are out of proportion: {of}"))
                .hint("save its tensors with `tensor.clone()`: they share or repeat storage"),
            Located::Deflated(entry) => {
                let (from, to) = (entry.data.len, entry.raw_len);
                Error::limit(format!(
                    "its record inflates from {from} to {to} bytes, out of proportion: {of}"
                ))
                .hint("if you trust the file, unpack it and pack it again without compression (`zip -0 -r`)")
            }
        }
    }
}

/// An extent of no bytes, inside the file.
fn extent_of_nothing(at: &Located) -> Extent {
    match at {
        Located::Raw(whole) => Extent::new(whole.file, whole.offset, 0),
        Located::Deflated(entry) => Extent::new(entry.data.file, entry.data.offset, 0),
    }
}

/// Checks that a storage's record holds what the pickle says; gives how many elements of `width` bytes a tensor may
/// reach, counted from the storage's start.
fn check_storage(storage: &Storage, at: &Located, width: u64) -> Result<u64> {
    let each = match storage.dtype {
        Some(dtype) => u64::from(dtype.require()?.block_bytes),
        None => 1,
    };
    let need = storage.numel.checked_mul(each);
    match need {
        Some(need) if need <= at.len() => {}
        _ => {
            return Err(Error::malformed(format!(
                "its storage has {} elements of {each} bytes, but the record has {} bytes",
                storage.numel,
                at.len()
            ))
            .hint("get the file again: it is truncated or corrupt"));
        }
    }
    Ok(need.unwrap_or(0) / width - storage.start.min(need.unwrap_or(0) / width))
}

/// The place of the last element that a tensor without an empty dimension sees, counted from its storage's start.
fn last_element(tensor: &Tensor) -> Option<u64> {
    tensor.size.iter().zip(&tensor.stride).try_fold(tensor.offset, |at, (&size, &stride)| {
        (size - 1).checked_mul(stride).and_then(|far| at.checked_add(far))
    })
}

/// Whether a tensor's elements lie in row-major order without gaps.
pub fn is_contiguous(tensor: &Tensor) -> bool {
    let mut wanted = 1u64;
    for (&size, &stride) in tensor.size.iter().zip(&tensor.stride).rev() {
        if size != 1 {
            if stride != wanted {
                return false;
            }
            wanted = wanted.saturating_mul(size);
        }
    }
    checked_elements(&tensor.size).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use apr_sdk::DType;

    fn tensor(size: &[u64], stride: &[u64], offset: u64) -> Tensor {
        Tensor {
            storage: 0,
            dtype: DType::F32,
            offset,
            size: size.into(),
            stride: stride.into(),
            requires_grad: false,
            parameter: false,
            quantizer: None,
            state: None,
            at: 0,
        }
    }

    #[test]
    fn the_last_element_is_found_in_checked_arithmetic() {
        assert_eq!(last_element(&tensor(&[2, 3], &[3, 1], 4)), Some(9));
        assert_eq!(last_element(&tensor(&[], &[], 7)), Some(7));
        assert_eq!(last_element(&tensor(&[1 << 40, 2], &[1 << 40, 1], 0)), None);
        assert_eq!(last_element(&tensor(&[1 << 40], &[0], 0)), Some(0));
    }

    #[test]
    fn strides_of_dimensions_of_one_do_not_matter() {
        assert!(is_contiguous(&tensor(&[2, 1, 3], &[3, 99, 1], 0)));
        assert!(!is_contiguous(&tensor(&[3, 2], &[1, 3], 0)));
        assert!(!is_contiguous(&tensor(&[3], &[0], 0)));
    }
}
