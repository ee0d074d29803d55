"""NumPy as a writer and as a judge: arrays and archives of them, without pickles."""

import zipfile
from pathlib import Path

import numpy as np

from models import Model, Tensor
from report import Failure

# numpy's type codes and apr's names; the types that NumPy has by itself.
DTYPES = {
    "f8": "F64", "f4": "F32", "f2": "F16", "i8": "I64", "i4": "I32", "i2": "I16", "i1": "I8", "u8": "U64", "u4": "U32",
    "u2": "U16", "u1": "U8", "b1": "BOOL", "c8": "C64", "c16": "C128",
}


def array(random, code, shape, order="C", endian="<"):
    """Any bits at all, NaNs too."""
    dtype = np.dtype(code if code[1:] == "1" else endian + code)
    count = int(np.prod(shape, dtype=np.int64))
    raw = random.integers(0, 2, count).astype("u1").tobytes() if code == "b1" else random.bytes(count * dtype.itemsize)
    flat = np.frombuffer(raw, dtype)
    return flat.reshape(shape, order=order).copy(order="K")


def tensor_of(name, found):
    """What an array says, row-major and little-endian."""
    code = found.dtype.kind + str(found.dtype.itemsize)
    plain = np.ascontiguousarray(found).reshape(found.shape)
    return Tensor(name, DTYPES[code], found.shape, plain.astype(found.dtype.newbyteorder("<")).tobytes())


def model_of(arrays):
    return Model([tensor_of(name, found) for name, found in arrays.items()], [])


def read_npz(path):
    """`numpy.load` of an archive; every array must be row-major and in this machine's order."""
    with np.load(path, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    return plain(arrays, path)


def plain(arrays, path):
    for name, found in arrays.items():
        if not found.flags.c_contiguous or not found.dtype.isnative:
            raise Failure(f"{name} of {path} is not row-major and little-endian")
    return model_of(arrays)


def versioned(path, value, version):
    """An array file of an older or newer version of its header."""
    with open(path, "wb") as file:
        np.lib.format.write_array(file, value, version=version, allow_pickle=False)
    return Path(path)


def stored_names(path):
    with zipfile.ZipFile(path) as archive:
        return archive.namelist()
