"""Writes models with the packages `gguf` and `safetensors`, and says what was written.

Everything is drawn from the seed of `seed.py`.
"""

import json
import logging
import math
from pathlib import Path

import gguf
import numpy as np
from gguf import GGUFEndian, GGUFValueType, GGUFWriter
from safetensors import TensorSpec, serialize

from models import GGML, KIND_NUMBERS, Key, Model, Tensor

# The writer says in a log that it writes; a warning of it is no step.
logging.getLogger("gguf.gguf_writer").setLevel(logging.ERROR)

# Types that numpy has too: only those the package swaps in a big-endian file.
NUMPY = {"F32": "<f4", "F16": "<f2", "F64": "<f8", "I8": "i1", "I16": "<i2", "I32": "<i4", "I64": "<i8"}
# The dtypes of `safetensors`: the package's name, the file's name, bytes of an element.
SAFETENSORS = {
    "bool": ("BOOL", 1), "float4_e2m1fn_x2": ("F4", 1), "uint8": ("U8", 1), "int8": ("I8", 1),
    "float8_e5m2": ("F8_E5M2", 1), "float8_e4m3fn": ("F8_E4M3", 1), "float8_e8m0fnu": ("F8_E8M0", 1),
    "float8_e4m3fnuz": ("F8_E4M3FNUZ", 1), "float8_e5m2fnuz": ("F8_E5M2FNUZ", 1), "int16": ("I16", 2),
    "uint16": ("U16", 2), "float16": ("F16", 2), "bfloat16": ("BF16", 2), "int32": ("I32", 4), "uint32": ("U32", 4),
    "float32": ("F32", 4), "complex64": ("C64", 8), "float64": ("F64", 8), "int64": ("I64", 8), "uint64": ("U64", 8),
}


def payload(random, shape, dtype):
    """Any bits at all, NaNs too; floats near one, so that no value is worth a warning, would hide a wrong swap less."""
    _, elements, size = GGML[dtype]
    return random.bytes(math.prod(shape) // elements * size)


def random_shape(random, dtype, most):
    """One to four dimensions, rows of whole blocks, about `most` elements at the utmost."""
    block = GGML[dtype][1]
    shape = [block * int(random.integers(1, max(2, min(most, 2048) // block)))]
    for _ in range(int(random.integers(0, 4))):
        shape.insert(0, int(random.integers(1, max(2, min(40, most // math.prod(shape))))))
    return tuple(shape)


def tensors_of(random, dtypes, most=60_000, prefix="blk"):
    tensors = []
    for number, dtype in enumerate(dtypes):
        shape = random_shape(random, dtype, most)
        tensors.append(Tensor(f"{prefix}.{number}.{dtype.lower()}.weight", dtype, shape, payload(random, shape, dtype)))
    return tensors


def every_key(random):
    """Every value type: its extremes, drawn values, arrays of them, texts of all kinds, values above 64 KiB."""
    extremes = {
        "u8": [0, 255], "i8": [-128, 127], "u16": [0, 65535], "i16": [-32768, 32767], "u32": [0, 2**32 - 1],
        "i32": [-2**31, 2**31 - 1], "u64": [0, 2**64 - 1], "i64": [-2**63, 2**63 - 1], "bool": [False, True],
        "f32": [0.1, -0.0, 1e-45, 3.4e38, math.inf, -math.inf, math.nan], "f64": [0.1, -0.0, 5e-324, 1.7e308, math.inf, math.nan],
        "str": ["", "héllo\n\ttab", "日本 😀", "\x01\x1f\x7f", "\"quoted\\\"", "a" * 300, "{% for m in messages %}" * 4000],
    }
    keys = []
    for kind, values in extremes.items():
        keys += [(f"interop.{kind}.{n}", kind, value) for n, value in enumerate(values)]
        if kind[0] in "ui":
            values = values + [int(n) for n in random.integers(0, 100, int(random.integers(1, 60)))]
        keys.append((f"interop.array.{kind}", f"[{kind}]", values))
    keys.append(("interop.bytes", "str", b"\xff\xfe not UTF-8"))
    keys.append(("interop.array.bytes", "[str]", ["é", b"\xc3", b"\xa9", "plain"]))
    keys += [(name, "u8", n) for n, name in enumerate(["clé 日本", " ", "new\nline", "a=b:u32", "k" * 300, "\"\\"])]
    tokens = [f"▁token{n}" if n % 3 else f"<0x{n:06X}>" for n in range(6000)]
    keys.append(("tokenizer.ggml.tokens", "[str]", tokens))
    keys.append(("tokenizer.ggml.scores", "[f32]", [float(n) for n in random.standard_normal(6000, np.float32)]))
    keys.append(("tokenizer.ggml.token_type", "[i32]", [int(n) for n in random.integers(1, 7, 6000)]))
    keys.append(("tokenizer.ggml.bos_token_id", "u32", 1))
    order = random.permutation(len(keys))
    return [keys[n] for n in order]


def nested_keys():
    return [
        ("nested.numbers", "[[i32]]", [[1, 2], [3], [-4, 5, 6]]),
        ("nested.texts", "[[str]]", [["a", "bc"], ["", "dé"]]),
        ("nested.deep", "[[[f32]]]", [[[1.5], [2.5, -0.0]], [[3.5]]]),
        ("nested.long", "[[i32]]", [[n, n * n] for n in range(4000)]),
    ]


def write_gguf(path, keys, tensors, alignment=None, big=False, **options):
    """Writes with the package. Gives the paths and the Model that a reader must find, split keys left out."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = GGUFWriter(path, "llama", endianess=GGUFEndian.BIG if big else GGUFEndian.LITTLE, **options)
    said = [("general.architecture", "str", "llama")]
    if alignment:
        writer.add_custom_alignment(alignment)
        said.append(("general.alignment", "u32", alignment))
    for name, kind, value in keys:
        number = GGUFValueType(KIND_NUMBERS["arr" if kind.startswith("[") else kind])
        item = kind[1:-1] if kind.startswith("[") else ""
        sub_type = GGUFValueType(KIND_NUMBERS[item]) if item and not item.startswith("[") else None
        writer.add_key_value(name, value, number, sub_type=sub_type)
        said.append((name, kind, value))
    for tensor in tensors:
        add_tensor(writer, tensor)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    paths = writer.format_shard_names(path)
    writer.close()
    return paths, Model(tensors, [Key.of(*key) for key in said])


def add_tensor(writer, tensor):
    number, elements, size = GGML[tensor.dtype]
    if tensor.dtype in NUMPY:
        writer.add_tensor(tensor.name, np.frombuffer(tensor.data, NUMPY[tensor.dtype]).reshape(tensor.shape))
        return
    rows = (*tensor.shape[:-1], tensor.shape[-1] // elements * size)
    if tensor.dtype in ("Q8_1", "Q2_0"):
        # The package has the size of one wrong and lacks the other: it takes the shape as given for any type but u8.
        data = np.frombuffer(tensor.data, "i1").reshape(rows)
        writer.add_tensor(tensor.name, data, raw_shape=tensor.shape, raw_dtype=number)
        return
    data = np.frombuffer(tensor.data, "u1").reshape(rows)
    writer.add_tensor(tensor.name, data, raw_dtype=gguf.GGMLQuantizationType(number))


def safetensors_tensors(random, dtypes, n_each=1, most=40_000, prefix="layers", dims=(0, 8)):
    """Tensors of the package's dtypes; shapes count storage elements, as the package wants them."""
    tensors = []
    for number in range(n_each):
        for dtype in dtypes:
            name, width = SAFETENSORS[dtype]
            least = max(dims[0], dtype == "float4_e2m1fn_x2")
            n_dims = int(random.integers(least, dims[1] + 1))
            shape = [int(n) for n in random.integers(1, 20 if n_dims < 5 else 5, n_dims)]
            if n_dims < dims[1] and random.integers(0, 3) == 0:
                shape = [*shape, most // max(1, math.prod(shape)) // width or 1]
            size = math.prod(shape) * width
            data = random.bytes(size) if name != "BOOL" else bytes(random.integers(0, 2, size).astype("u1"))
            # Four bits each: the package counts pairs, the file has twice as many in a row.
            tensors.append((dtype, shape, Tensor(f"{prefix}.{number}.{dtype}", name, tuple(shape), data)))
    return tensors


def write_safetensors(path, written, metadata=None):
    """Writes with the package and gives the Model that a reader must find."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    held = {t.name: np.frombuffer(t.data, "u1") for _, _, t in written}
    specs = {
        t.name: TensorSpec(dtype=dtype, shape=shape, data_ptr=held[t.name].ctypes.data, data_len=len(t.data))
        for dtype, shape, t in written
    }
    path.write_bytes(serialize(specs, metadata))
    keys = [Key.of(name, "str", value) for name, value in sorted((metadata or {}).items())]
    return Model([stored(dtype, t) for dtype, _, t in written], keys).sorted()


def stored(dtype, tensor):
    if tensor.dtype != "F4":
        return tensor
    shape = (*tensor.shape[:-1], tensor.shape[-1] * 2) if tensor.shape else (2,)
    return Tensor(tensor.name, tensor.dtype, shape, tensor.data)


def write_safetensors_folder(folder, written, n_shards, metadata=None, stem="model"):
    """Shards and an index, as huggingface's tools write them."""
    weight_map, model, total = {}, Model(), 0
    per_shard = -(-len(written) // n_shards)
    for shard in range(n_shards):
        name = f"{stem}-{shard + 1:05}-of-{n_shards:05}.safetensors"
        part = written[shard * per_shard:(shard + 1) * per_shard]
        found = write_safetensors(Path(folder) / name, part, metadata)
        weight_map |= {t.name: name for _, _, t in part}
        total += sum(len(t.data) for _, _, t in part)
        model = Model(model.tensors + found.tensors, found.keys)
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (Path(folder) / f"{stem}.safetensors.index.json").write_text(json.dumps(index, indent=2, sort_keys=True) + "\n")
    return model.sorted()
