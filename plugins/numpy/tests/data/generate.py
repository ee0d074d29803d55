#!/usr/bin/env python3
"""Writes the fixtures beside it and golden.json, which says of each array what numpy.load says.

Made with NumPy 2.4.6 and ml_dtypes 0.6.0 on Python 3.11.7; seed 7. What begins with old_ is by generate_old.py, run
before. python2_vector.npy follows NumPy 1.6 on Python 2 on Windows: padding to 16, no room to grow, long integers.
"""
import hashlib, io, json, pathlib, struct, zipfile
import numpy as np

HERE = pathlib.Path(__file__).parent
RANDOM = np.random.default_rng(7)
DTYPES = "? i1 u1 <i2 <u2 <f2 <i4 <u4 <f4 <c8 <i8 <u8 <f8 <c16".split()


def array(dtype, *shape):
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return RANDOM.integers(0, 2, shape).astype(dtype)
    if dtype.kind in "iu":
        return np.frombuffer(RANDOM.bytes(dtype.itemsize * int(np.prod(shape))), dtype).reshape(shape)
    if dtype.kind == "c":
        return (RANDOM.normal(size=shape) + 1j * RANDOM.normal(size=shape)).astype(dtype)
    return RANDOM.normal(size=shape).astype(dtype)


def name(dtype):
    return dtype.replace("<", "").replace(">", "").replace("?", "bool")


class Pipe(io.RawIOBase):
    """A file that cannot seek."""

    def __init__(self, file):
        self.file = file

    def writable(self):
        return True

    def write(self, data):
        return self.file.write(data)


def archives():
    np.savez(HERE / "every_dtype.npz", **{name(d): array(d, 2, 3) for d in DTYPES})
    shapes = [(), (0,), (1,), (5,), (2, 0, 3), (3, 1, 2), (1, 2, 1, 2, 1, 2, 1, 2)]
    np.savez(HERE / "shapes.npz", *[array("<f4", *s) for s in shapes])
    names = ["", "a.npy", "x/y", "../up", "größe 名前", "with space", "model.layers.0.weight"]
    np.savez(HERE / "names.npz", **{n: array("<i2", 3) for n in names})
    np.savez(HERE / "fortran.npz", a=np.asfortranarray(array("<f4", 3, 4)), b=array("<c8", 2, 3, 4).T, c=array("<f4", 2, 3))
    np.savez(HERE / "big_endian.npz", **{name(d): array(d, 2, 3).astype(np.dtype(d).newbyteorder(">")) for d in DTYPES})
    mixed = {
        "plain": array("<f4", 40, 3),
        "fortran": np.asfortranarray(array("<i2", 30, 4, 5)),
        "big": array("<f8", 4, 5).astype(">f8"),
        "both": np.asfortranarray(array("<c16", 3, 4, 2).astype(">c16")),
        "empty": array("<f4", 0, 2),
        "scalar": array("<u8"),
        "zeros": np.zeros((100, 100), "<f4"),
    }
    np.savez_compressed(HERE / "deflated.npz", **mixed)
    with open(HERE / "streamed.npz", "wb") as file:
        np.savez(Pipe(file), a=array("<f4", 2, 3), b=array("<i8", 4))
    np.savez(HERE / "more.npz", a=array("<f4", 3))
    with zipfile.ZipFile(HERE / "more.npz", "a") as archive:
        archive.writestr(zipfile.ZipInfo("README.txt"), "not an array")
        archive.comment = b"made by hand"


def singles():
    np.save(HERE / "matrix.npy", array("<f4", 3, 4))
    np.save(HERE / "fortran.npy", np.asfortranarray(array("<f8", 3, 4, 2)))
    np.save(HERE / "big_endian.npy", array("<c16", 5).astype(">c16"))
    np.save(HERE / "scalar.npy", array("<i8"))
    np.save(HERE / "empty.npy", array("<f4", 0, 7))
    for version in [(2, 0), (3, 0)]:
        with open(HERE / f"version_{version[0]}.npy", "wb") as file:
            np.lib.format.write_array(file, array("<f2", 2, 2), version=version)


def nameless():
    import ml_dtypes

    values = array("<f4", 2, 4)
    np.save(HERE / "nameless_2.npy", values.astype(ml_dtypes.bfloat16))
    np.save(HERE / "nameless_1.npy", values.astype(ml_dtypes.float8_e4m3fn))
    np.savez(HERE / "nameless.npz", b=values.astype(ml_dtypes.bfloat16), f=values.astype(ml_dtypes.float8_e4m3fn))
    # ml_dtypes calls only this one a float, by a spelling that NumPy itself cannot load: no golden entry.
    np.save(HERE / "float_1.npy", values.astype(ml_dtypes.float8_e5m2))


def old_header(text):
    pad = 16 - (10 + len(text) + 1) % 16
    text = text + " " * pad + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode("latin1")


def python2():
    b = array("<i4", 6)
    header = old_header("{'descr': '<i4', 'fortran_order': False, 'shape': (6L,), }")
    (HERE / "python2_vector.npy").write_bytes(header + b.tobytes())


def said(value):
    if value.dtype.kind == "V":
        value = value.view("u1").reshape(*value.shape, -1) if value.dtype.itemsize > 1 else value.view("u1")
    plain = np.ascontiguousarray(value).reshape(value.shape).astype(value.dtype.newbyteorder("<"))
    kind = {"b": "BOOL", "i": "I", "u": "U", "f": "F", "c": "C"}[plain.dtype.kind]
    dtype = kind if kind == "BOOL" else f"{kind}{plain.dtype.itemsize * 8}"
    return {"dtype": dtype, "shape": list(value.shape), "sha256": hashlib.sha256(plain.tobytes()).hexdigest()}


def golden():
    out = {}
    for path in sorted(HERE.glob("*.np[yz]")):
        if path.name == "float_1.npy":
            continue
        loaded = np.load(path)
        arrays = {path.stem: loaded} if path.suffix == ".npy" else {
            k: loaded[k] for k in loaded.files if not k.endswith(".txt")
        }
        out[path.name] = [{"name": k, **said(v)} for k, v in arrays.items()]
    out["versions"] = {"numpy": np.__version__}
    (HERE / "golden.json").write_text(json.dumps(out, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    archives()
    singles()
    nameless()
    python2()
    golden()
