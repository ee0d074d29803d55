//! Payloads of every kind come out decoded, row-major, little-endian.

use crate::broken::Kinds;
use apr_sdk::{
    DType, Endian, Error, Extent, Limits, MemorySource, ModelBuilder, ModelSink, OpenModel, Payload, Result,
    TensorDecl, View,
};
use apr_testkit::payload;

fn read(bytes: &[u8], dtype: DType, shape: &[u64], kind: Payload) -> Result<Vec<u8>> {
    let (limits, len) = (Limits::default(), bytes.len() as u64);
    let file_len = |_| Ok(len);
    let mut builder = ModelBuilder::new("toy", &limits, &file_len);
    builder.tensor(TensorDecl { name: "t", dtype, shape, payload: kind })?;
    payload(&Kinds, &builder.finish(), 0, &MemorySource::new("a", bytes))
}

fn viewed(
    bytes: &[u8],
    dtype: DType,
    shape: &[u64],
    strides: &[u64],
    start: u64,
    endian: Endian,
) -> Result<Vec<u8>> {
    let view = Some(View { strides: strides.to_vec(), start, endian });
    read(bytes, dtype, shape, Payload::Extent { extent: Extent::new(0, 0, bytes.len() as u64), view })
}

#[test]
fn gathers_transposed_offset_and_repeated_elements() {
    let u8s = |strides: &[u64], start| {
        viewed(&[0, 1, 2, 3, 4, 5], DType::U8, &[3, 2], strides, start, Endian::Little)
    };
    assert_eq!(u8s(&[1, 3], 0).unwrap(), [0, 3, 1, 4, 2, 5]);
    assert_eq!(u8s(&[0, 1], 4).unwrap(), [4, 5, 4, 5, 4, 5]);
    let pairs = viewed(&[0, 1, 2, 3, 4, 5, 6, 7], DType::U16, &[2], &[2], 1, Endian::Big).unwrap();
    assert_eq!(pairs, [3, 2, 7, 6]);
    assert_eq!(viewed(&[1, 2], DType::U16, &[], &[], 0, Endian::Big).unwrap(), [2, 1]);
}

#[test]
fn swaps_every_field_of_a_block_and_nothing_else() {
    let block: Vec<u8> = (0..20).collect();
    let swapped = viewed(&block, DType::Q4_1, &[32], &[], 0, Endian::Big).unwrap();
    assert_eq!(swapped[..6], [1, 0, 3, 2, 4, 5]);
    assert_eq!(swapped[6..], block[6..]);
    let complex = viewed(&[0, 1, 2, 3, 4, 5, 6, 7], DType::C64, &[1], &[], 0, Endian::Big).unwrap();
    assert_eq!(complex, [3, 2, 1, 0, 7, 6, 5, 4]);
}

#[test]
fn decodes_blocks_and_refuses_a_wrong_sum() {
    let blocks =
        |n| read(&[10, 20, 30, 40, 50, 60], DType::U8, &[n], Payload::Blocks { codec: Kinds::codec() });
    assert_eq!(blocks(5).unwrap(), [11, 21, 31, 51, 61]);
    assert!(blocks(4).is_err());
    assert!(blocks(6).is_err());
}

#[test]
fn drains_streams_and_refuses_a_wrong_length() {
    let stream = |n| read(&[1, 2, 3, 4, 5], DType::U8, &[n], Payload::Sequential);
    assert_eq!(stream(5).unwrap(), [1, 2, 3, 4, 5]);
    assert!(stream(4).is_err());
    assert!(stream(6).is_err());
}

#[test]
fn refuses_what_would_fill_the_machine() {
    let huge = viewed(&[0], DType::U8, &[1 << 40], &[0], 0, Endian::Little).unwrap_err();
    assert!(huge.message().contains("more than the limit"), "{huge}");
    let unknown = payload(&Kinds, &Default::default(), 0, &MemorySource::default());
    assert_eq!(unknown.map_err(|e| e.kind()), Err(Error::invalid_argument("").kind()));
    assert!(Kinds.blocks(&MemorySource::default(), 0, &mut Refusing).is_err());
}

struct Refusing;

impl apr_sdk::BlockSink for Refusing {
    fn block(&mut self, _: Extent, _: u64) -> Result<()> {
        Err(Error::malformed("no"))
    }
}
