#!/usr/bin/env python3
"""Builds, with struct alone, the fixtures that the package gguf cannot write: old versions, other byte orders,
unusual padding, offsets and values. `python3 build.py`, in this folder. The golden files say what was built; where the
package's reader can read a file, it is asked too (`generate.py` has the files that the package wrote itself).
"""

import base64
import hashlib
import json
import struct
from pathlib import Path

HERE = Path(__file__).parent
NUMBERS = {0: ("u8", "B"), 1: ("i8", "b"), 2: ("u16", "H"), 3: ("i16", "h"), 4: ("u32", "I"), 5: ("i32", "i"),
           6: ("f32", "f"), 7: ("bool", "B"), 10: ("u64", "Q"), 11: ("i64", "q"), 12: ("f64", "d")}
NAMES = {n: name for n, (name, _) in NUMBERS.items()} | {8: "str", 9: "arr"}
# id: name, elements and bytes of a block, 16-bit fields of a block as (offset, count)
TYPES = {0: ("F32", 1, 4, None), 1: ("F16", 1, 2, [(0, 1)]), 8: ("Q8_0", 32, 34, [(0, 1)]), 9: ("Q8_1", 32, 36, [(0, 2)]),
         12: ("Q4_K", 256, 144, [(0, 2)]), 14: ("Q6_K", 256, 210, [(208, 1)]), 24: ("I8", 1, 1, []),
         30: ("BF16", 1, 2, [(0, 1)]), 39: ("MXFP4", 32, 17, []), 42: ("Q2_0", 64, 18, [(0, 1)])}


class File:
    """The bytes of a file, and its golden form."""

    def __init__(self, version=3, order="<", alignment=32):
        self.version, self.order, self.alignment = version, order, alignment
        self.keys, self.infos, self.data, self.golden = [], [], [], {"keys": [], "tensors": []}

    def pack(self, form, *values):
        return struct.pack(self.order + form, *values)

    def length(self, n):
        return self.pack("I" if self.version == 1 else "Q", n)

    def string(self, text):
        raw = text if isinstance(text, bytes) else text.encode()
        return self.length(len(raw)) + raw

    def value(self, kind, value):
        """The bytes, and the golden form without the type."""
        if kind == 8:
            raw = value if isinstance(value, bytes) else value.encode()
            try:
                return self.string(raw), {"v": raw.decode()}
            except UnicodeDecodeError:
                return self.string(raw), {"v": {"b64": base64.b64encode(raw).decode()}}
        if kind == 9:
            item, items = value
            parts = [self.value(item, v) for v in items]
            raw = self.pack("I", item) + self.length(len(items)) + b"".join(p[0] for p in parts)
            return raw, {"of": NAMES[item], "v": [p[1] if item == 9 else p[1]["v"] for p in parts]}
        form = NUMBERS[kind][1]
        if kind in (6, 12) and isinstance(value, str):
            bits = bytes.fromhex(value)
            return (bits if self.order == ">" else bits[::-1]), {"v": value}
        raw = self.pack(form, value)
        if kind in (6, 12):
            return raw, {"v": struct.pack(">" + form, value).hex()}
        return raw, {"v": (bool(value) if value in (0, 1) else value) if kind == 7 else str(value)}

    def key(self, name, kind, value):
        raw, golden = self.value(kind, value)
        self.keys.append(self.string(name) + self.pack("I", kind) + raw)
        self.golden["keys"].append([name, {"t": NAMES[kind], **golden}])

    def tensor(self, name, kind, shape, offset=None):
        """A tensor with made-up bytes, at the padded running sum or at `offset`."""
        type_name, elements, size, fields = TYPES[kind]
        count = 1
        for dim in shape:
            count *= dim
        n = count // elements * size
        raw = bytearray((i * 7 + len(name)) % 251 for i in range(n))
        golden = bytes(raw)
        if self.order == ">":
            if kind == 0:
                raw = bytearray(b"".join(raw[i:i + 4][::-1] for i in range(0, n, 4)))
            for block in range(0, n, size):
                for at, many in fields or []:
                    for i in range(block + at, block + at + 2 * many, 2):
                        raw[i:i + 2] = raw[i:i + 2][::-1]
        end = max((o + len(d) for o, d in self.data), default=0)
        offset = -(-end // self.alignment) * self.alignment if offset is None else offset
        dims = b"".join(self.length(d) for d in reversed(shape))
        self.infos.append(self.string(name) + self.pack("I", len(shape)) + dims + self.pack("IQ", kind, offset))
        self.data.append((offset, bytes(raw)))
        self.golden["tensors"].append({"name": name, "dtype": type_name, "shape": shape,
                                       "sha256": hashlib.sha256(golden).hexdigest()})

    def write(self, name, padding=None, tail=None, between=b"\0"):
        head = b"GGUF" + self.pack("I", self.version) + self.length(len(self.infos)) + self.length(len(self.keys))
        head += b"".join(self.keys) + b"".join(self.infos)
        zeros = b"\0" * (-len(head) % self.alignment)
        head += zeros if padding is None else (padding * len(zeros))[:len(zeros) if padding else 0]
        data = bytearray(between * max((o + len(d) for o, d in self.data), default=0))
        for offset, raw in self.data:
            data[offset:offset + len(raw)] = raw
        data += b"\0" * (-len(data) % self.alignment) if tail is None else tail
        (HERE / f"{name}.gguf").write_bytes(head + data)
        text = {"by": "build.py", "tensors": self.golden["tensors"],
                "files": [{"file": f"{name}.gguf", "n_tensors": len(self.infos), "keys": self.golden["keys"]}]}
        (HERE / f"{name}.golden.json").write_text(json.dumps(text, indent=1, ensure_ascii=False) + "\n")
        self.ask_package(name)

    def ask_package(self, name):
        """The package's reader knows versions 2 and 3, and not the types that it lacks."""
        try:
            from gguf import GGUFReader
        except ImportError:
            return
        if self.version == 1 or any(t["dtype"] in ("Q8_1", "Q2_0") for t in self.golden["tensors"]):
            return
        if any(0 in t["shape"] or not t["shape"] for t in self.golden["tensors"]) or "odd" in name:
            return
        reader = GGUFReader(HERE / f"{name}.gguf")
        read = [(t.name, t.tensor_type.name, [int(d) for d in reversed(t.shape.tolist())]) for t in reader.tensors]
        assert read == [(t["name"], t["dtype"], t["shape"]) for t in self.golden["tensors"]], name
        keys = [f.name for f in reader.fields.values() if not f.name.startswith("GGUF.")]
        assert keys == [key for key, _ in self.golden["keys"]], name


def all_keys(file):
    file.key("general.architecture", 8, "llama")
    for kind, value in [(0, 255), (1, -128), (2, 65535), (3, -32768), (4, 2**32 - 1), (5, -2**31), (6, 0.1), (7, 1),
                        (10, 2**64 - 1), (11, -2**63), (12, 1e-300)]:
        file.key(f"test.{NAMES[kind]}", kind, value)
        file.key(f"test.array.{NAMES[kind]}", 9, (kind, [value, 1 if kind < 6 else value]))
    file.key("test.array.str", 9, (8, ["a", "", "bcd"]))
    file.key("test.nested", 9, (9, [(5, [1, 2]), (8, ["x"])]))


def small(file):
    all_keys(file)
    file.tensor("token_embd.weight", 0, [3, 5])
    file.tensor("half", 1, [2, 3])
    file.tensor("bytes", 24, [7])
    file.tensor("blocks", 8, [2, 64])
    return file


def blocks(file):
    small(file)
    file.tensor("brain", 30, [5])
    file.tensor("four", 12, [2, 256])
    file.tensor("six", 14, [512])
    file.tensor("mx", 39, [64])
    return file


def main():
    small(File(version=1)).write("version-1")
    small(File(version=2)).write("version-2")
    small(File(version=1, order=">")).write("version-1-big-endian")
    blocks(File(version=2, order=">")).write("version-2-big-endian")
    blocks(File(version=3, order=">")).write("version-3-big-endian")
    small(File()).write("unpadded", tail=b"")
    small(File()).write("odd-padding", padding=b"\1\2\3", tail=b"trailing bytes")
    # The last payload, of 5 bytes, is followed by 27.
    file = small(File())
    file.tensor("last", 24, [5])
    file.write("filled-padding", tail=bytes(range(1, 28)), between=b"\x5a")
    file = File()
    all_keys(file)
    file.key("test.length", 8, "makes the header end between two multiples of 32")
    file.write("no-tensors-unpadded", padding=b"", tail=b"")
    file = File()
    file.tensor("scalar", 0, [])
    file.tensor("one", 0, [1])
    file.tensor("column", 0, [3, 1])
    file.tensor("four", 24, [2, 1, 3, 1])
    file.tensor("nothing", 0, [0, 4])
    file.tensor("q8_1", 9, [2, 32])
    file.tensor("q2_0", 42, [2, 128])
    file.tensor("", 24, [3])
    file.write("shapes")
    file = File()
    file.key("test.empty", 8, "")
    file.key("test.bytes", 8, b"\xff\xfe\x00token")
    file.key("test.bool", 7, 2)
    file.key("test.nan", 6, "7fc00001")
    file.key("test.nan.signalling", 12, "7ff0000000000001")
    file.key("test.array.empty", 9, (4, []))
    file.key("test.array.of.none", 9, (9, []))
    file.key("test.array.bytes", 9, (8, [b"\xc3", b"\xa9"]))
    file.key("test.array.bool", 9, (7, [0, 1, 3]))
    file.key("split.count", 2, 0)
    file.tensor("a", 0, [2])
    file.write("odd-values")
    file = File()
    file.tensor("third", 0, [9], 256)
    file.tensor("first", 0, [4], 0)
    file.tensor("second", 24, [5], 128)
    file.write("unsorted")


main()
