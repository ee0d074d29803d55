"""The independent readers: each gives the Model that it finds in a file, or raises."""

import base64
import hashlib
import importlib.util
import json
import os
import struct
import subprocess
import zlib
from pathlib import Path

import safetensors
from gguf import GGUFReader

from models import GGML_NAMES, KINDS, Key, Model, Tensor, key_differences, text
from report import Failure, Skipped

ROOT = Path(__file__).resolve().parents[2]
LOADER = os.environ.get("APR_INTEROP_LOADER", "")


def read_gguf(path):
    """The package `gguf`. It flattens nested arrays, so an array is taken as the bytes of all its parts."""
    reader = GGUFReader(path)
    model = Model()
    for name, found in reader.fields.items():
        if name.startswith("GGUF."):
            continue
        types = [KINDS[int(kind)] for kind in found.types]
        depth = types.count("arr")
        kind = "[" * depth + types[-1] + "]" * depth
        # Parts: the key's length and text, its type, then the value as it lies.
        model.keys.append(Key(name, kind, b"".join(part.tobytes() for part in found.parts[3:])))
    for tensor in reader.tensors:
        data = reader.data[tensor.data_offset:tensor.data_offset + tensor.n_bytes].tobytes()
        if len(data) != tensor.n_bytes:
            raise Failure(f"{tensor.name} ends behind the file")
        shape = tuple(int(dim) for dim in reversed(tensor.shape.tolist()))
        model.tensors.append(Tensor(tensor.name, tensor.tensor_type.name, shape, data))
    return model


def read_safetensors(path):
    """The package `safetensors`; its metadata has no order, so it is sorted."""
    path = Path(path)
    with safetensors.safe_open(path, framework="np") as file:
        metadata = file.metadata() or {}
    model = Model(keys=[Key.of(name, "str", value) for name, value in sorted(metadata.items())])
    for name, found in safetensors.deserialize(path.read_bytes()):
        model.tensors.append(Tensor(name, found["dtype"], tuple(found["shape"]), bytes(found["data"])))
    return model.sorted()


def read_safetensors_folder(folder):
    """The shards that an index names, as huggingface's loaders read them; each tensor must be where the index says."""
    indexes = list(Path(folder).glob("*.safetensors.index.json"))
    if len(indexes) != 1:
        raise Failure(f"{folder} has {len(indexes)} indexes")
    index = json.loads(indexes[0].read_text())
    model, total = Model(), 0
    files = sorted(set(index["weight_map"].values()))
    if sorted(p.name for p in Path(folder).glob("*.safetensors")) != files:
        raise Failure(f"the index names {files}")
    for name in files:
        part = read_safetensors(Path(folder) / name)
        mapped = {tensor for tensor, file in index["weight_map"].items() if file == name}
        if mapped != {tensor.name for tensor in part.tensors}:
            raise Failure(f"{name}: the index and the shard have other tensors")
        total += sum(len(tensor.data) for tensor in part.tensors)
        model.tensors += part.tensors
        model.keys = model.keys or part.keys
    if index["metadata"]["total_size"] != total:
        raise Failure(f"total_size is {index['metadata']['total_size']}, the shards have {total}")
    return model.sorted()


def apr_reader():
    """`read_apr.py` of the apr plugin's fixtures, which was written from the specification alone."""
    path = ROOT / "plugins/apr/tests/data/read_apr.py"
    if not path.exists():
        raise Skipped(f"{path} is not there")
    spec = importlib.util.spec_from_file_location("read_apr", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def read_apr(path, format_id="gguf"):
    """An APR2 file or shard manifest, judged from header to footer; the keys are those of `format_id`."""
    golden = apr_reader().golden(str(path))
    model = Model()
    for tensor in golden["tensors"]:
        model.tensors.append(Tensor(tensor["name"], tensor["dtype"], tuple(tensor["shape"]), sha256=tensor["sha256"]))
    for file in golden["foreign"].get(format_id, [])[:1]:
        for name, kind, value in file["typed"]:
            model.keys.append(carried_key(name, kind, value))
    return model


def carried_key(name, kind, value):
    """A value of APR's metadata; of one that lies in a hidden tensor, the reader gives the digest only."""
    if "sha256" in value:
        return Key(name, kind, bytes.fromhex(value["sha256"]))
    kind, plain = plain_value(value)
    return Key.of(name, kind, plain)


def plain_value(value, kind=None):
    kind = kind or value["t"]
    if kind == "arr":
        item = value["of"]
        if item == "arr":
            parts = [plain_value(part, "arr") for part in value["v"]]
            return f"[{parts[0][0]}]", [part for _, part in parts]
        return f"[{item}]", [scalar(item, part) for part in value["v"]]
    return kind, scalar(kind, value["v"])


def scalar(kind, value):
    if kind == "str":
        return base64.b64decode(value["b64"]) if isinstance(value, dict) else value
    if kind in ("f32", "f64"):
        return bytes.fromhex(value)[::-1]
    return value if kind == "bool" else int(value)


def as_carried(key):
    """What `read_apr` gives for `key` if apr put it into a hidden tensor."""
    kind = "arr" if key.kind.startswith("[") else key.kind
    return Key(key.name, kind, hashlib.sha256(key.wire).digest())


def load_with_llama(path):
    """llama.cpp's loader: what it holds after it read the file with all weights; None if it refused the file."""
    if not LOADER:
        raise Skipped("llama.cpp's loader was not built")
    done = subprocess.run([LOADER, str(path)], capture_output=True, timeout=120)
    if done.returncode != 0:
        return None, done.stderr.decode(errors="replace").strip()
    return json.loads(done.stdout), ""


def llama_refuses(path, reason):
    """It must refuse the file, and for this reason: a loader that takes such files one day shall be noticed."""
    found, said = load_with_llama(path)
    if found is not None:
        raise Failure(f"llama.cpp loads {path} now, though: {reason}")
    if reason not in said:
        raise Failure(f"llama.cpp refuses {path}, but not for `{reason}`: {said}")


# What it says of an array of arrays, and of a long name.
NESTED, TOO_LONG = "invalid GGUF type 9", "is too long"


def rewrite_with_llama(source, output):
    """The same model, written by ggml's own writer."""
    if not LOADER:
        raise Skipped("llama.cpp's loader was not built")
    done = subprocess.run([LOADER, "--rewrite", str(source), str(output)], capture_output=True, timeout=120)
    if done.returncode != 0:
        raise Failure(f"ggml cannot rewrite {source}: {done.stderr.decode(errors='replace').strip()}")
    return Path(output)


def llama_differences(want, path):
    """What llama.cpp holds otherwise than `want`: names, types, dimensions, weights; keys, types, values, order."""
    found, said = load_with_llama(path)
    if found is None:
        return [f"llama.cpp refuses {path}: {said}"]
    lines = []
    tensors = [(bytes.fromhex(t["name"]).decode(), GGML_NAMES.get(t["type"]), t["ne"], t["crc32"], t["bytes"])
               for t in found["tensors"]]
    wanted = []
    for tensor in want.tensors:
        ne = list(reversed(tensor.shape)) + [1] * (4 - len(tensor.shape))
        wanted.append((tensor.name, tensor.dtype, ne, zlib.crc32(tensor.data), len(tensor.data)))
    lines += [f"llama.cpp holds tensor {a}, expected {b}" for a, b in zip(tensors, wanted) if a != b]
    if len(tensors) != len(wanted):
        lines.append(f"llama.cpp holds {len(tensors)} tensors, expected {len(wanted)}")
    keys = [llama_key(key) for key in found["keys"]]
    return lines + [f"llama.cpp: {line}" for line in key_differences(want.keys, keys)]


def llama_key(key):
    name, kind = bytes.fromhex(key["key"]).decode(), KINDS[key["type"]]
    if kind == "str":
        return Key(name, kind, text(bytes.fromhex(key["value"])))
    if kind != "arr":
        return Key(name, kind, bytes.fromhex(key["value"]))
    head = struct.pack("<IQ", key["of"], key["count"])
    if "texts" in key:
        return Key(name, "[str]", head + b"".join(text(bytes.fromhex(t)) for t in key["texts"]))
    return Key(name, f"[{KINDS[key['of']]}]", head + bytes.fromhex(key["value"]))
