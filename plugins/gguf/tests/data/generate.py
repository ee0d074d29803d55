#!/usr/bin/env python3
"""Writes the fixtures with the PyPI package gguf 0.19.0 (numpy 2.x): `python3 generate.py`, in this folder.

Beside each fixture (each set, for split ones) it writes NAME.golden.json: what the package's own reader says of the
file (names, shapes outermost first, types, sha256 of each payload, keys with types and values). The reader flattens
nested arrays, so those come from what was written; long arrays are given by the sha256 of their bytes. Seeded: a second run gives the same bytes.
"""

import hashlib
import json
import struct
import sys
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as T
from gguf import GGUFEndian, GGUFReader, GGUFValueType as V, GGUFWriter

HERE = Path(__file__).parent
TYPE_NAMES = {
    V.UINT8: "u8", V.INT8: "i8", V.UINT16: "u16", V.INT16: "i16", V.UINT32: "u32", V.INT32: "i32",
    V.FLOAT32: "f32", V.BOOL: "bool", V.STRING: "str", V.ARRAY: "arr", V.UINT64: "u64", V.INT64: "i64",
    V.FLOAT64: "f64",
}
FLOATS = {V.FLOAT32: ">f", V.FLOAT64: ">d"}


def scalar(kind, value):
    """A scalar as text: floats as the hexadecimal digits of their bits, as the SDK's JSON has them."""
    if kind in FLOATS:
        return struct.pack(FLOATS[kind], value).hex()
    if kind == V.BOOL:
        return bool(value)
    if kind == V.STRING:
        return value if isinstance(value, str) else bytes(value).decode()
    return str(int(value))


def nested(kind, value):
    if isinstance(value, (list, tuple)) and kind == V.ARRAY:
        item = V.get_type(value[0])
        return {"of": TYPE_NAMES[item], "v": [nested(item, v) for v in value]}
    return scalar(kind, value)


def field_json(field, written):
    kind = field.types[0]
    if kind != V.ARRAY:
        return {"t": TYPE_NAMES[kind], "v": scalar(kind, field.contents())}
    if len(field.types) > 1 and field.types[1] == V.ARRAY:
        return {"t": "arr", **nested(V.ARRAY, written[field.name])}
    item = field.types[1]
    if len(field.data) > 1000:
        wire = struct.pack("<IQ", item, len(field.data))
        wire += b"".join(struct.pack("<Q", len(text.encode())) + text.encode() for text in field.contents())
        return {"t": "arr", "sha256": hashlib.sha256(wire).hexdigest()}
    return {"t": "arr", "of": TYPE_NAMES[item], "v": [scalar(item, v) for v in field.contents()]}


def golden(paths, name, written):
    files, tensors = [], []
    for path in paths:
        reader = GGUFReader(path)
        keys = [[f.name, field_json(f, written)] for f in reader.fields.values() if not f.name.startswith("GGUF.")]
        files.append({"file": path.name, "n_tensors": len(reader.tensors), "keys": keys})
        for tensor in reader.tensors:
            start, end = tensor.data_offset, tensor.data_offset + tensor.n_bytes
            payload = path.read_bytes()[start:end]
            if reader.byte_order == "S":
                # What the package writes: numpy-typed payloads swapped, all others as they were.
                width = {T.F16: 2, T.F32: 4, T.F64: 8, T.I16: 2, T.I32: 4, T.I64: 8}.get(tensor.tensor_type, 1)
                payload = np.frombuffer(payload, f"V{width}").tobytes() if width == 1 else (
                    np.frombuffer(payload, f">u{width}").astype(f"<u{width}").tobytes())
            tensors.append({
                "name": tensor.name,
                "dtype": tensor.tensor_type.name,
                "shape": [int(d) for d in reversed(tensor.shape.tolist())],
                "sha256": hashlib.sha256(payload).hexdigest(),
            })
    text = {"gguf": "0.19.0", "numpy": np.__version__, "files": files, "tensors": tensors}
    (HERE / f"{name}.golden.json").write_text(json.dumps(text, indent=1, ensure_ascii=False) + "\n")


def make(name, fill, alignment=None, **options):
    """One file, or a split set in a folder of its own: `fill(writer, random)` adds keys and tensors."""
    path = HERE / f"{name}.gguf"
    if "split_max_tensors" in options:
        path = HERE / name / f"{name}.gguf"
        path.parent.mkdir(exist_ok=True)
    writer = GGUFWriter(path, "llama", **options)
    if alignment:
        writer.add_custom_alignment(alignment)
    fill(writer, np.random.default_rng(7))
    written = {key: value.value for keys in writer.kv_data for key, value in keys.items()}
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    paths = writer.format_shard_names(path)
    writer.close()
    golden(paths, name, written)


def all_keys(writer):
    """Every value type, scalar and in arrays."""
    writer.add_uint8("test.u8", 255)
    writer.add_int8("test.i8", -128)
    writer.add_uint16("test.u16", 65535)
    writer.add_int16("test.i16", -32768)
    writer.add_uint32("test.u32", 4294967295)
    writer.add_int32("test.i32", -2147483648)
    writer.add_float32("test.f32", 0.1)
    writer.add_uint64("test.u64", 18446744073709551615)
    writer.add_int64("test.i64", -9223372036854775808)
    writer.add_float64("test.f64", 1e-300)
    writer.add_bool("test.bool", True)
    writer.add_bool("test.bool.no", False)
    writer.add_string("test.str", "héllo\n")
    values = {
        V.UINT8: [0, 255], V.INT8: [-1, 1], V.UINT16: [1, 2, 3], V.INT16: [-2], V.UINT32: [7, 8], V.INT32: [-7, 8],
        V.FLOAT32: [0.5, -1.5], V.BOOL: [True, False, True], V.STRING: ["a", "", "bcd"], V.UINT64: [1 << 63],
        V.INT64: [-(1 << 62)], V.FLOAT64: [3.25],
    }
    for kind, items in values.items():
        writer.add_key_value(f"test.array.{TYPE_NAMES[kind]}", items, V.ARRAY, sub_type=kind)


def small(writer, random):
    all_keys(writer)
    writer.add_tensor("token_embd.weight", random.standard_normal((8, 16), np.float32))
    writer.add_tensor("blk.0.attn_norm.weight", random.standard_normal(16, np.float32))
    writer.add_tensor("blk.0.ffn_up.weight", random.standard_normal((3, 5)).astype(np.float16))
    writer.add_tensor("blk.0.ids", random.integers(-100, 100, (2, 1, 3)).astype(np.int8))
    writer.add_tensor("output_norm.weight", random.standard_normal((3, 1), np.float32))


def types(writer, random):
    """Every type of the package's enum but Q8_1, whose size it has wrong."""
    writer.add_quantization_version(2)
    for kind in T:
        if kind == T.Q8_1:
            continue
        elements, size = gguf.GGML_QUANT_SIZES[kind]
        raw = random.integers(0, 256, (2, 3 * size)).astype(np.uint8)
        if kind in (T.F32, T.F16, T.F64, T.I8, T.I16, T.I32, T.I64):
            name = {T.F32: "f4", T.F16: "f2", T.F64: "f8", T.I8: "i1", T.I16: "i2", T.I32: "i4", T.I64: "i8"}[kind]
            writer.add_tensor(f"type.{kind.name}", raw.view(name))
        else:
            writer.add_tensor(f"type.{kind.name}", raw, raw_dtype=kind)


def nested_arrays(writer, random):
    writer.add_array("test.nested", [[1, 2], [3]])
    writer.add_array("test.nested.text", [["a", "bc"], ["", "d"]])
    writer.add_array("test.nested.deep", [[[1.5], [2.5]], [[3.5]]])
    writer.add_tensor("a", random.standard_normal(4, np.float32))


def three(writer, random):
    writer.add_uint32("llama.block_count", 5)
    for n in range(5):
        writer.add_tensor(f"blk.{n}.weight", random.standard_normal((4, 6), np.float32))


def long_values(writer, random):
    """A vocabulary above the size that is held in memory."""
    writer.add_array("tokenizer.ggml.tokens", [f"token {n:<50}" for n in range(1100)])
    writer.add_uint32("test.behind", 9)
    writer.add_tensor("a", random.standard_normal(4, np.float32))


def main():
    assert sys.byteorder == "little"
    make("small", small)
    make("types", types)
    make("nested", nested_arrays)
    make("long-values", long_values)
    make("no-tensors", lambda writer, _: all_keys(writer))
    for alignment in (8, 64, 4096):
        make(f"align-{alignment}", three, alignment)
    make("big-endian", lambda w, r: (small(w, r), types(w, r)), endianess=GGUFEndian.BIG)
    make("split", three, split_max_tensors=2)
    make("split-first-empty", three, split_max_tensors=3, small_first_shard=True)


main()
