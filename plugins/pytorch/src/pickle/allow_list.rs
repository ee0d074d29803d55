//! The names that a pickle may use. Anything else does not exist for the interpreter: there is nothing it
//! could call.

use super::plain_data::{self, Class};
use crate::layout::{DTYPES, OTHER_DTYPES, OTHER_STORAGES, QSCHEMES, StorageType, storage_type};
use apr_sdk::DType;

/// A name that the machine knows, and what it stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Global {
    /// `collections.OrderedDict`.
    OrderedDict,
    /// `collections.Counter`: a map.
    Counter,
    /// `collections.defaultdict`: a map.
    DefaultDict,
    /// A class of plain values; as a factory, and called with nothing.
    Plain(&'static str),
    /// `set` and `frozenset`, by name.
    Set(&'static str),
    /// A class whose values are taken as data.
    Data(&'static Class),
    /// `bytearray`.
    Bytearray,
    /// `complex`.
    Complex,
    /// `_codecs.encode`, which protocol 2 writes bytes with.
    Encode,
    /// `torch.Size`: a tuple.
    Size,
    /// `torch.device`.
    Device,
    /// `torch.serialization._get_layout`.
    Layout,
    /// A class of storages.
    Storage(&'static StorageType),
    /// An element type; `None` where its payload is not carried.
    DType(&'static str, Option<DType>),
    /// A quantization scheme.
    QScheme(&'static str),
    /// A function that rebuilds tensors.
    Rebuild(Rebuild),
    /// A class of tensors: `Tensor` or `Parameter`. A `Buffer` is a `Tensor` whose state says so.
    TensorClass {
        /// Whether it is `Parameter`.
        parameter: bool,
    },
    /// A type of tensors by its old name, `torch.FloatTensor`, as the tar layout writes it beside each tensor.
    TensorType(&'static str),
    /// `torch.jit._pickle.build_*list`.
    ScriptList,
    /// `torch.jit._pickle.restore_type_tag`.
    TypeTag,
}

/// The functions that rebuild tensors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rebuild {
    /// `_rebuild_tensor`.
    V1,
    /// `_rebuild_tensor_v2`.
    V2,
    /// `_rebuild_tensor_v3`.
    V3,
    /// `_rebuild_parameter`.
    Parameter,
    /// `_rebuild_parameter_with_state`.
    ParameterWithState,
    /// `_rebuild_qtensor`.
    Quantized,
    /// `torch._tensor._rebuild_from_type_v2`.
    FromType,
    /// One whose tensors this version does not carry: its name, and why.
    NotCarried(&'static (&'static str, &'static str)),
}

/// Functions of `torch._utils` whose tensors are not carried, and why.
static NOT_CARRIED: [(&str, &str); 6] = [
    ("_rebuild_sparse_tensor", "a sparse tensor; save it dense (`tensor.to_dense()`)"),
    ("_rebuild_nested_tensor", "a nested tensor; save its pieces as separate tensors"),
    ("_rebuild_meta_tensor_no_storage", "a meta tensor, which has no data; save the model on a real device"),
    ("_rebuild_device_tensor_from_numpy", "a tensor stored as a NumPy array; save it on the CPU"),
    ("_rebuild_xla_tensor", "a tensor stored as a NumPy array; save it on the CPU"),
    ("_rebuild_wrapper_subclass", "a tensor subclass without its own data; save plain tensors"),
];

/// What `module.name` stands for; `None` for everything else there is.
pub fn find(module: &str, name: &str) -> Option<Global> {
    listed(module, name).or_else(|| plain_data::find(module, name).map(Global::Data))
}

fn listed(module: &str, name: &str) -> Option<Global> {
    match (module, name) {
        ("collections", "OrderedDict") => Some(Global::OrderedDict),
        ("collections", "Counter") => Some(Global::Counter),
        ("collections", "defaultdict") => Some(Global::DefaultDict),
        ("builtins" | "__builtin__", _) => builtin(name),
        ("_codecs", "encode") => Some(Global::Encode),
        ("torch.serialization", "_get_layout") => Some(Global::Layout),
        ("torch.nn.parameter", "Parameter") => Some(Global::TensorClass { parameter: true }),
        ("torch.storage", "UntypedStorage") => storage_type(name).map(Global::Storage),
        ("torch.cuda", _) => storage_type(name).map(Global::Storage).or_else(|| tensor_type(name)),
        ("torch.sparse", _) => storage_type(name).map(Global::Storage),
        ("torch", _) => torch(name),
        ("torch._utils", _) => rebuild(name).map(Global::Rebuild),
        ("torch._tensor", "_rebuild_from_type_v2") => Some(Global::Rebuild(Rebuild::FromType)),
        ("torch.jit._pickle", "restore_type_tag") => Some(Global::TypeTag),
        (
            "torch.jit._pickle",
            "build_intlist" | "build_tensorlist" | "build_doublelist" | "build_boollist",
        ) => Some(Global::ScriptList),
        _ => None,
    }
}

fn builtin(name: &str) -> Option<Global> {
    let plain = ["dict", "list", "tuple", "int", "float", "str", "bool", "bytes", "long", "unicode"];
    match name {
        "set" => Some(Global::Set("set")),
        "frozenset" => Some(Global::Set("frozenset")),
        "bytearray" => Some(Global::Bytearray),
        "complex" => Some(Global::Complex),
        _ => plain.into_iter().find(|known| *known == name).map(Global::Plain),
    }
}

fn torch(name: &str) -> Option<Global> {
    if let Some(storage) = storage_type(name) {
        return Some(Global::Storage(storage));
    }
    if let Some((known, dtype)) = DTYPES.iter().find(|(known, _)| *known == name) {
        return Some(Global::DType(known, Some(*dtype)));
    }
    if let Some((_, dtype)) = OTHER_STORAGES.into_iter().find(|(class, _)| *class == name) {
        return Some(Global::DType(dtype, None));
    }
    if let Some(known) = OTHER_DTYPES.into_iter().find(|known| *known == name) {
        return Some(Global::DType(known, None));
    }
    if let Some(scheme) = QSCHEMES.into_iter().find(|scheme| *scheme == name) {
        return Some(Global::QScheme(scheme));
    }
    match name {
        "Size" => Some(Global::Size),
        "device" => Some(Global::Device),
        "Tensor" => Some(Global::TensorClass { parameter: false }),
        _ => tensor_type(name),
    }
}

fn tensor_type(name: &str) -> Option<Global> {
    TENSOR_TYPES.into_iter().find(|known| *known == name).map(Global::TensorType)
}

/// The types of dense tensors that torch has names for (`torch/csrc/tensor/python_tensor.cpp`).
const TENSOR_TYPES: [&str; 10] = [
    "DoubleTensor",
    "FloatTensor",
    "HalfTensor",
    "BFloat16Tensor",
    "LongTensor",
    "IntTensor",
    "ShortTensor",
    "CharTensor",
    "ByteTensor",
    "BoolTensor",
];

fn rebuild(name: &str) -> Option<Rebuild> {
    match name {
        "_rebuild_tensor" => Some(Rebuild::V1),
        "_rebuild_tensor_v2" => Some(Rebuild::V2),
        "_rebuild_tensor_v3" => Some(Rebuild::V3),
        "_rebuild_parameter" => Some(Rebuild::Parameter),
        "_rebuild_parameter_with_state" => Some(Rebuild::ParameterWithState),
        "_rebuild_qtensor" => Some(Rebuild::Quantized),
        _ => NOT_CARRIED.iter().find(|(known, _)| *known == name).map(Rebuild::NotCarried),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_listed_does_not_exist() {
        for (module, name) in [
            ("os", "system"),
            ("posix", "system"),
            ("builtins", "eval"),
            ("__builtin__", "getattr"),
            ("torch", "load"),
            ("torch", "Tensor.__init__"),
            ("torch._utils", "_import_dotted_name"),
            ("collections", "OrderedDict.__init__"),
            ("_codecs", "decode"),
            ("torch.serialization", "load"),
            ("types", "CodeType"),
            ("pathlib", "Path.write_text"),
            ("numpy", "load"),
            ("numpy._core.multiarray", "fromfile"),
            ("", ""),
        ] {
            assert_eq!(find(module, name), None, "{module}.{name}");
        }
        assert_eq!(
            find("torch", "float8_e4m3fn"),
            Some(Global::DType("float8_e4m3fn", Some(DType::F8_E4M3)))
        );
        assert!(matches!(find("torch.cuda", "HalfStorage"), Some(Global::Storage(_))));
        assert_eq!(find("torch", "FloatTensor"), Some(Global::TensorType("FloatTensor")));
        assert_eq!(find("torch.sparse", "FloatTensor"), None);
    }
}
