#!/usr/bin/env python3
"""Writes the fixtures of this folder with the `safetensors` package, and what its own reader says of them.

Needs `pip install safetensors==0.8.0 numpy`. Deterministic but for the order of `__metadata__`, which the package
takes from a hash map: fixtures with several keys are kept as they came out once. `handmade.py` makes the files that
no package writes.
"""

import hashlib
import json
import sys
from pathlib import Path

import numpy as np
import safetensors
from safetensors import TensorSpec, deserialize, safe_open, serialize
from safetensors.numpy import save

HERE = Path(__file__).parent
RANDOM = np.random.default_rng(20260101)


def random(shape, dtype):
    """Reproducible values of any numpy dtype; bools are 0 and 1."""
    dtype = np.dtype(dtype)
    if dtype == np.bool_:
        return RANDOM.integers(0, 2, shape).astype(np.bool_)
    count = int(np.prod(shape, dtype=np.int64))
    raw = RANDOM.integers(0, 256, count * dtype.itemsize, dtype=np.uint8)
    return np.frombuffer(raw.tobytes(), dtype).reshape(shape)


def put(name, data):
    path = HERE / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(data)
    golden(path)


def golden(path):
    """Writes `NAME.golden.json`: every tensor as the package's own reader gives it."""
    with safe_open(path, framework="np") as file:
        metadata = file.metadata()
    tensors = [
        {
            "name": name,
            "dtype": tensor["dtype"],
            "shape": list(tensor["shape"]),
            "sha256": hashlib.sha256(bytes(tensor["data"])).hexdigest(),
        }
        for name, tensor in deserialize(path.read_bytes())
    ]
    tensors.sort(key=lambda tensor: tensor["name"].encode())
    judged = {
        "by": {"safetensors": safetensors.__version__, "numpy": np.__version__, "python": sys.version.split()[0]},
        "metadata": metadata,
        "tensors": tensors,
    }
    path.with_name(path.name + ".golden.json").write_text(json.dumps(judged, indent=1) + "\n")


def numpy_dtypes():
    names = "bool uint8 int8 int16 uint16 float16 int32 uint32 float32 complex64 float64 int64 uint64".split()
    put("numpy_dtypes.safetensors", save({f"t.{name}": random((2, 3), name) for name in names}))


def raw_dtypes():
    """Every type the package can write, from raw bytes: shapes are counted in storage elements."""
    widths = {
        "bool": 1, "float4_e2m1fn_x2": 1, "uint8": 1, "int8": 1, "float8_e5m2": 1, "float8_e4m3fn": 1,
        "float8_e8m0fnu": 1, "float8_e4m3fnuz": 1, "float8_e5m2fnuz": 1, "int16": 2, "uint16": 2, "float16": 2,
        "bfloat16": 2, "int32": 4, "uint32": 4, "float32": 4, "complex64": 8, "float64": 8, "int64": 8, "uint64": 8,
    }
    held, specs = [], {}
    for name, width in widths.items():
        data = random((12 * width,), "uint8") if name != "bool" else random((12,), "bool")
        held.append(data)
        specs[name] = TensorSpec(dtype=name, shape=[3, 4], data_ptr=data.ctypes.data, data_len=data.nbytes)
    put("raw_dtypes.safetensors", serialize(specs, {"format": "pt"}))


def shapes():
    put(
        "shapes.safetensors",
        save(
            {
                "scalar": random((), "float32"),
                "one": random((1,), "float32"),
                "empty.a": random((0,), "float32"),
                "empty.b": random((3, 0, 2), "float32"),
                "empty.wide": random((0,), "int64"),
                "eight": random((1, 2, 1, 2, 1, 2, 1, 2), "int16"),
                "odd": random((3,), "uint8"),
            }
        ),
    )


def names():
    names = ["", " ", "a", "A", "a.b/c", "é", "日本", "😀", "\0", "\x01\x1f\x7f", '"\\/', "\b\f\n\r\t", "\u2028", "0" * 300]
    put("names.safetensors", save({name: random((2,), "float32") for name in names}))


def metadata():
    tensors = {"weight": random((2, 2), "float16")}
    put("metadata_one.safetensors", save(tensors, {"format": "pt"}))
    put("metadata_empty.safetensors", save(tensors, {}))
    many = {"format": "pt", "": "empty key", "empty value": "", "unicode é": "日本 😀", "control\n\0": "\t\x01\x7f\"\\"}
    put("metadata_many.safetensors", save(tensors, many))
    put("metadata_long.safetensors", save(tensors, {"training": json.dumps({"text": "é\n" * 600})}))


def sharded():
    """Three shards and an index, as huggingface tools write them: `json.dumps(..., indent=2, sort_keys=True)`."""
    layers = {f"layers.{n}.weight": random((4, 8), "float32") for n in range(5)}
    layers |= {f"layers.{n}.bias": random((8,), "float16") for n in range(5)} | {"é.embed": random((3, 5), "float32")}
    keys = list(layers)
    weight_map, total = {}, 0
    for shard, begin in enumerate(range(0, len(keys), 4), 1):
        name = f"model-{shard:05}-of-00003.safetensors"
        part = {key: layers[key] for key in keys[begin : begin + 4]}
        put(f"sharded/{name}", save(part, {"format": "pt"}))
        weight_map |= {key: name for key in part}
        total += sum(tensor.nbytes for tensor in part.values())
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    text = json.dumps(index, indent=2, sort_keys=True) + "\n"
    (HERE / "sharded/model.safetensors.index.json").write_text(text)


if __name__ == "__main__":
    numpy_dtypes()
    raw_dtypes()
    shapes()
    names()
    metadata()
    put("no_tensors.safetensors", save({}))
    sharded()
