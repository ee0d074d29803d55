//! The names of a file's records, storages and types, shared by reader and writer.

use apr_sdk::{DType, Error};

/// The format's id, in the manifest and in foreign records.
pub const FORMAT: &str = "pytorch";

/// The dialect that names in this format are taken to be of anyway: it needs no record.
pub const UNMARKED: [&str; 1] = ["hf"];

/// What begins a ZIP, which is what `torch.save` writes since 1.6.
pub const ZIP_MAGIC: &[u8] = b"PK\x03\x04";

/// The first pickle of a legacy stream: `0x1950a86a20f9469cfc6c` as LONG1, little-endian.
pub const LEGACY_MAGIC: [u8; 10] = [0x6c, 0xfc, 0x9c, 0x46, 0xf9, 0x20, 0x6a, 0xa8, 0x50, 0x19];

/// The second pickle of a legacy stream.
pub const LEGACY_PROTOCOL: i64 = 1001;

/// Record names below the archive's own folder.
pub const DATA_PKL: &str = "data.pkl";
/// Present in TorchScript archives only.
pub const CONSTANTS_PKL: &str = "constants.pkl";
/// `little` or `big`.
pub const BYTEORDER: &str = "byteorder";
/// The folder of the storages.
pub const DATA: &str = "data/";
/// What `apr` adds: a JSON object with what the pickle cannot say.
pub const APR_RECORD: &str = ".apr/model.json";

/// The keys under which checkpoints keep their state dict.
pub const ROOTS: [&str; 8] =
    ["state_dict", "model", "module", "model_state_dict", "params", "params_ema", "generator", "net"];

/// A class of storages: what its elements are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StorageType {
    /// Its name in module `torch`.
    pub name: &'static str,
    /// Its elements; `None` for bytes without a type.
    pub dtype: Option<DType>,
    /// Whether its tensors are quantized.
    pub quantized: bool,
}

const fn plain(name: &'static str, dtype: DType) -> StorageType {
    StorageType { name, dtype: Some(dtype), quantized: false }
}

/// Every class of storages that is carried.
pub static STORAGES: [StorageType; 18] = [
    plain("DoubleStorage", DType::F64),
    plain("FloatStorage", DType::F32),
    plain("HalfStorage", DType::F16),
    plain("BFloat16Storage", DType::BF16),
    plain("LongStorage", DType::I64),
    plain("IntStorage", DType::I32),
    plain("ShortStorage", DType::I16),
    plain("CharStorage", DType::I8),
    plain("ByteStorage", DType::U8),
    plain("BoolStorage", DType::BOOL),
    plain("ComplexDoubleStorage", DType::C128),
    plain("ComplexFloatStorage", DType::C64),
    StorageType { name: "QInt8Storage", dtype: Some(DType::I8), quantized: true },
    StorageType { name: "QUInt8Storage", dtype: Some(DType::U8), quantized: true },
    StorageType { name: "QInt32Storage", dtype: Some(DType::I32), quantized: true },
    // Their elements are bytes, each of several codes.
    StorageType { name: "QUInt4x2Storage", dtype: Some(DType::U4), quantized: true },
    StorageType { name: "QUInt2x4Storage", dtype: Some(DType::U2), quantized: true },
    StorageType { name: "UntypedStorage", dtype: None, quantized: false },
];

/// Element types by the names they have in module `torch`; the first name of a type is the one that is written.
#[rustfmt::skip] // a table
pub const DTYPES: [(&str, DType); 30] = [
    ("float64", DType::F64), ("double", DType::F64),
    ("float32", DType::F32), ("float", DType::F32),
    ("float16", DType::F16), ("half", DType::F16),
    ("bfloat16", DType::BF16),
    ("int64", DType::I64), ("long", DType::I64),
    ("int32", DType::I32), ("int", DType::I32),
    ("int16", DType::I16), ("short", DType::I16),
    ("int8", DType::I8), ("uint8", DType::U8),
    ("uint16", DType::U16), ("uint32", DType::U32), ("uint64", DType::U64),
    ("bool", DType::BOOL),
    ("complex64", DType::C64), ("cfloat", DType::C64),
    ("complex128", DType::C128), ("cdouble", DType::C128),
    ("float8_e4m3fn", DType::F8_E4M3), ("float8_e5m2", DType::F8_E5M2),
    ("float8_e4m3fnuz", DType::F8_E4M3FNUZ), ("float8_e5m2fnuz", DType::F8_E5M2FNUZ),
    ("float8_e8m0fnu", DType::F8_E8M0),
    ("qint8", DType::I8), ("quint8", DType::U8),
];

/// Types that torch can name and whose payload this version does not carry.
pub const OTHER_DTYPES: [&str; 29] = [
    "complex32",
    "chalf",
    "qint32",
    "quint4x2",
    "quint2x4",
    "float4_e2m1fn_x2",
    "bits1x8",
    "bits2x4",
    "bits4x2",
    "bits8",
    "bits16",
    "int1",
    "int2",
    "int3",
    "int4",
    "int5",
    "int6",
    "int7",
    "uint1",
    "uint2",
    "uint3",
    "uint4",
    "uint5",
    "uint6",
    "uint7",
    "float6_e2m3fn",
    "float6_e3m2fn",
    "cint8",
    "bcomplex32",
];

/// Classes of storages of such types.
pub const OTHER_STORAGES: [(&str, &str); 1] = [("ComplexHalfStorage", "complex32")];

/// What is said of a tensor of such a type: why it is not carried, and what to do.
#[cold]
pub fn not_carried(name: &str) -> Error {
    let (why, hint) = if name.starts_with('q') {
        ("apr has no such quantized type", "save it dequantized: `tensor.dequantize()`")
    } else if name.starts_with('c') || name.starts_with("bcomplex") {
        ("apr has no complex type of that size", "save it as `tensor.to(torch.complex64)`")
    } else {
        ("apr has no type with that packing", "save its bytes: `tensor.view(torch.uint8)`")
    };
    Error::unsupported(format!("tensors of type `torch.{name}` are not supported: {why}")).hint(hint)
}

/// The quantization schemes.
pub const QSCHEMES: [&str; 5] = [
    "per_tensor_affine",
    "per_tensor_symmetric",
    "per_channel_affine",
    "per_channel_symmetric",
    "per_channel_affine_float_qparams",
];

/// The class of storages of this name.
pub fn storage_type(name: &str) -> Option<&'static StorageType> {
    STORAGES.iter().find(|storage| storage.name == name)
}

/// The class of storages in which tensors of `dtype` are written; `None` where only a storage of bytes will do. Codes that
/// share a byte are read only.
pub fn storage_of(dtype: DType, quantized: bool) -> Option<&'static StorageType> {
    dtype.info().filter(|info| info.block_elements == 1)?;
    STORAGES.iter().find(|storage| storage.dtype == Some(dtype) && storage.quantized == quantized)
}

/// The name in module `torch` that `dtype` is written under.
pub fn dtype_name(dtype: DType) -> Option<&'static str> {
    DTYPES.iter().find(|(_, known)| *known == dtype).map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_that_is_read_can_be_written() {
        for (_, dtype) in DTYPES {
            assert!(dtype_name(dtype).is_some());
            let info = dtype.info().unwrap();
            assert_eq!(info.block_elements, 1, "{}", info.name);
        }
        for storage in &STORAGES {
            assert_eq!(storage_type(storage.name), Some(storage));
        }
        assert_eq!(storage_of(DType::U16, false), None);
    }
}
