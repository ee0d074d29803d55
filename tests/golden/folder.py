"""Model folders of seeded weights, as sdk/testkit/src/checkpoint.rs makes them, and what is said of them in tensors.json."""

import hashlib
import json
import struct
from pathlib import Path

import numpy as np

from weights import payload

SEED = 1
# The order of the safetensors library: wide types first, then by name.
RANK = {"I64": 3, "F32": 2, "BF16": 1, "F16": 0, "F8_E4M3": -1, "U8": -2}


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def compact(value):
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def read_header(path):
    data = Path(path).read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + length])
    header.pop("__metadata__", None)
    return header, data[8 + length :]


def center_of(dtype, data):
    """1 for what the library starts at ones: the weights of norms that multiply by them."""
    if dtype not in ("F32", "F16", "BF16") or not data:
        return 0
    values = np.frombuffer(data, {"F32": np.uint32, "F16": np.uint16, "BF16": np.uint16}[dtype])
    one = {"F32": 0x3F800000, "F16": 0x3C00, "BF16": 0x3F80}[dtype]
    return 1 if (values == one).all() else 0


def tensors_of_saved(folder):
    """Names, types and shapes in the files that the library saved."""
    found = []
    for path in sorted(Path(folder).glob("*.safetensors")):
        header, data = read_header(path)
        for name, row in header.items():
            begin, end = row["data_offsets"]
            found.append((name, row["dtype"], row["shape"], center_of(row["dtype"], data[begin:end])))
    return sorted(found)


def describe(name, tensors, companions, cuts):
    """What tensors.json says. `cuts` are the names that begin the second and later files of weights."""
    bounds = [0] + [next(i for i, t in enumerate(tensors) if t[0] == cut) for cut in cuts] + [len(tensors)]
    count = len(bounds) - 1
    files = []
    for number in range(count):
        part = sorted(tensors[bounds[number] : bounds[number + 1]], key=lambda t: (-RANK[t[1]], t[0]))
        rows = []
        for tensor, dtype, shape, center in part:
            row = {"name": tensor, "dtype": dtype, "shape": shape} | ({"center": 1} if center else {})
            rows.append(row | {"sha256": sha256(payload(SEED, tensor, dtype, shape, center))})
        file = "model.safetensors" if count == 1 else f"model-{number + 1:05}-of-{count:05}.safetensors"
        files.append({"name": file, "tensors": rows})
    return {"folder": name, "seed": SEED, "companions": companions, "files": files}


def write_folder(described, goldens, folder):
    """Makes the folder, and notes the hash of each file of weights."""
    for name, source in described["companions"].items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((goldens / source).read_bytes())
    places, total = {}, 0
    for file in described["files"]:
        header, data = {"__metadata__": {"format": "pt"}}, b""
        for row in file["tensors"]:
            begin = len(data)
            data += payload(described["seed"], row["name"], row["dtype"], row["shape"], row.get("center", 0))
            header[row["name"]] = {"dtype": row["dtype"], "shape": row["shape"], "data_offsets": [begin, len(data)]}
            places[row["name"]] = file["name"]
        text = compact(header).encode()
        text += b" " * (-len(text) % 8)
        whole = struct.pack("<Q", len(text)) + text + data
        (folder / file["name"]).write_bytes(whole)
        file["sha256"] = sha256(whole)
        total += len(data)
    if len(described["files"]) > 1:
        index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(places.items()))}
        (folder / "model.safetensors.index.json").write_text(compact(index))


def rows(values, indent):
    space = " " * indent
    return "[\n" + ",\n".join(space + " " + json.dumps(v, ensure_ascii=False) for v in values) + "\n" + space + "]"


def dump(described):
    """tensors.json, a tensor a line."""
    files = [f' {{"name": "{f["name"]}", "sha256": "{f["sha256"]}", "tensors": {rows(f["tensors"], 1)}}}' for f in described["files"]]
    head = "".join(f' "{key}": {json.dumps(described[key], ensure_ascii=False)},\n' for key in ("folder", "seed", "companions"))
    return "{\n" + head + ' "files": [\n' + ",\n".join(files) + "\n ]\n}\n"
