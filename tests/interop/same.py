"""When two files, folders or lists are the same."""

import base64
import hashlib
import math
import struct
from pathlib import Path

import numpy as np

import program
from models import NUMBERS
from report import Failure


def agree(lines):
    """Fails with the first of what differs."""
    if lines:
        more = [f"... {len(lines) - 6} more"] if len(lines) > 6 else []
        raise Failure("\n".join([line[:600] for line in lines[:6]] + more))


def sha256(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def same_file(one, two):
    if sha256(one) != sha256(two):
        a, b = Path(one).read_bytes(), Path(two).read_bytes()
        at = next((n for n, (x, y) in enumerate(zip(a, b)) if x != y), min(len(a), len(b)))
        raise Failure(f"{two} is not {one}: {len(b)} bytes, expected {len(a)}; they differ from byte {at}\n"
                      f"{a[max(0, at - 24):at + 24]!r}\n{b[max(0, at - 24):at + 24]!r}")


def same_folder(one, two):
    names = [sorted(p.name for p in Path(folder).iterdir()) for folder in (one, two)]
    if names[0] != names[1]:
        raise Failure(f"{two} has {names[1]}, expected {names[0]}")
    for name in names[0]:
        same_file(Path(one) / name, Path(two) / name)


def judged_by_apr(path, want, *args):
    """`apr tensors` and `apr inspect` of a file that a package wrote."""
    rows = program.tensors(path, *args)
    found = [(row["name"], row["dtype"], tuple(row["shape"]), row["sha256"]) for row in rows]
    wanted = [tensor.facts() for tensor in want.tensors]
    agree([f"apr tensors: {a}, expected {b}" for a, b in zip(found, wanted) if a != b])
    agree([f"apr tensors: {len(found)} tensors, expected {len(wanted)}"] if len(found) != len(wanted) else [])
    if any(len(tensor.data) != row["bytes"] for row, tensor in zip(rows, want.tensors)):
        raise Failure("apr tensors: bytes")
    said = program.inspect(path, *args)["metadata"]
    keys = [(entry["key"], entry["type"]) for entry in said]
    # A nested array is `[arr]` to apr: the item's type is in the value.
    kinds = [(key.name, "[arr]" if key.kind.startswith("[[") else key.kind) for key in want.keys]
    agree([f"apr inspect: keys {keys}, expected {kinds}"] if keys != kinds else [])
    shown = [(key.name, json_of(key), narrowed(key.kind, entry["value"])) for key, entry in zip(want.keys, said)]
    agree([f"apr inspect: {name} is {str(b)[:200]}, expected {str(a)[:200]}" for name, a, b in shown if a != b])


def listed_by_apr(path, want, *args):
    """`apr tensors` of a file without an order of its own: names, dtypes, shapes, sizes and sha256 of every payload."""
    found = sorted((row["name"], row["dtype"], tuple(row["shape"]), row["sha256"]) for row in program.tensors(path, *args))
    wanted = sorted(tensor.facts() for tensor in want.tensors)
    agree([f"apr tensors: {[t[0] for t in found][:12]}, expected {[t[0] for t in wanted][:12]}"]
          if [t[0] for t in found] != [t[0] for t in wanted] else
          [f"apr tensors: {a}, expected {b}" for a, b in zip(found, wanted) if a != b])


def json_of(key):
    """A value as `apr inspect --json --full` shows it."""
    return json_value(key.kind, key.wire, 0)[0]


def json_value(kind, wire, at):
    if kind == "str":
        (length,) = struct.unpack_from("<Q", wire, at)
        raw = wire[at + 8:at + 8 + length]
        try:
            return raw.decode(), at + 8 + length
        except UnicodeDecodeError:
            return {"b64": base64.b64encode(raw).decode()}, at + 8 + length
    if kind.startswith("["):
        (count,) = struct.unpack_from("<Q", wire, at + 4)
        items, at = [], at + 12
        for _ in range(count):
            item, at = json_value(kind[1:-1], wire, at)
            items.append(item)
        return items, at
    code = NUMBERS[kind][1]
    (value,) = struct.unpack_from("<" + code, wire, at)
    if isinstance(value, float):
        value = float_of(value)
    return value, at + struct.calcsize("<" + code)


def narrowed(kind, shown):
    """An f32 is shown with the fewest digits that give it again."""
    if isinstance(shown, list):
        return [narrowed(kind, item) for item in shown]
    return float(np.float32(shown)) if "f32" in kind and isinstance(shown, float) else shown


def float_of(value):
    """Floats that JSON lacks are their names."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return value
