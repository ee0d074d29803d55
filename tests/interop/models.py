"""What a model says, in one form for every writer and judge, so that any two can be compared."""

import hashlib
import struct
from dataclasses import dataclass, field

# The value types of GGUF: name, number, struct code.
NUMBERS = {
    "u8": (0, "B"), "i8": (1, "b"), "u16": (2, "H"), "i16": (3, "h"), "u32": (4, "I"), "i32": (5, "i"),
    "f32": (6, "f"), "bool": (7, "?"), "u64": (10, "Q"), "i64": (11, "q"), "f64": (12, "d"),
}
KINDS = {number: name for name, (number, _) in NUMBERS.items()} | {8: "str", 9: "arr"}
KIND_NUMBERS = {name: number for number, name in KINDS.items()}

# The tensor types of ggml: name, number, elements and bytes of a block.
GGML = {
    "F32": (0, 1, 4), "F16": (1, 1, 2), "Q4_0": (2, 32, 18), "Q4_1": (3, 32, 20), "Q5_0": (6, 32, 22),
    "Q5_1": (7, 32, 24), "Q8_0": (8, 32, 34), "Q8_1": (9, 32, 36), "Q2_K": (10, 256, 84), "Q3_K": (11, 256, 110),
    "Q4_K": (12, 256, 144), "Q5_K": (13, 256, 176), "Q6_K": (14, 256, 210), "Q8_K": (15, 256, 292),
    "IQ2_XXS": (16, 256, 66), "IQ2_XS": (17, 256, 74), "IQ3_XXS": (18, 256, 98), "IQ1_S": (19, 256, 50),
    "IQ4_NL": (20, 32, 18), "IQ3_S": (21, 256, 110), "IQ2_S": (22, 256, 82), "IQ4_XS": (23, 256, 136),
    "I8": (24, 1, 1), "I16": (25, 1, 2), "I32": (26, 1, 4), "I64": (27, 1, 8), "F64": (28, 1, 8),
    "IQ1_M": (29, 256, 56), "BF16": (30, 1, 2), "TQ1_0": (34, 256, 54), "TQ2_0": (35, 256, 66),
    "MXFP4": (39, 32, 17), "NVFP4": (40, 64, 36), "Q1_0": (41, 128, 18), "Q2_0": (42, 64, 18),
}
GGML_NAMES = {number: name for name, (number, _, _) in GGML.items()}


@dataclass
class Tensor:
    name: str
    dtype: str
    shape: tuple  # outermost dimension first
    data: bytes = b""
    sha256: str = ""

    def __post_init__(self):
        self.sha256 = self.sha256 or hashlib.sha256(self.data).hexdigest()

    def facts(self):
        return (self.name, self.dtype, tuple(self.shape), self.sha256)


@dataclass
class Key:
    name: str
    kind: str  # "u32", "str", "[i32]", "[[str]]"
    wire: bytes  # as it lies in a little-endian file of version 3

    @classmethod
    def of(cls, name, kind, value):
        return cls(name, kind, wire(kind, value))


@dataclass
class Model:
    tensors: list = field(default_factory=list)
    keys: list = field(default_factory=list)

    def sorted(self):
        """For formats that have an order of their own."""
        return Model(sorted(self.tensors, key=lambda t: t.name.encode()), self.keys)

    def without_keys(self, *names):
        return Model(self.tensors, [key for key in self.keys if key.name not in names])


def text(value):
    raw = value if isinstance(value, bytes) else value.encode()
    return struct.pack("<Q", len(raw)) + raw


def wire(kind, value):
    """The bytes of a value of `kind`, encoded here and by no package."""
    if kind == "str":
        return text(value)
    if kind.startswith("["):
        item = kind[1:-1]
        number = KIND_NUMBERS["arr" if item.startswith("[") else item]
        return struct.pack("<IQ", number, len(value)) + b"".join(wire(item, part) for part in value)
    code = NUMBERS[kind][1]
    if isinstance(value, bytes):  # the bits of a float that Python would not keep
        return value
    return struct.pack("<" + code, value)


def differences(want, got, what="", keys=True):
    """What `got` has otherwise than `want`, as lines; none if they are the same, order included."""
    lines = []
    wanted, found = [t.facts() for t in want.tensors], [t.facts() for t in got.tensors]
    if [t[0] for t in wanted] != [t[0] for t in found]:
        lines.append(f"tensors {[t[0] for t in found][:12]}, expected {[t[0] for t in wanted][:12]}")
    by_name = {t[0]: t for t in found}
    for tensor in wanted:
        if tensor[0] in by_name and by_name[tensor[0]] != tensor:
            lines.append(f"tensor {by_name[tensor[0]]}, expected {tensor}")
    if keys:
        lines += key_differences(want.keys, got.keys)
    return [f"{what}: {line}" if what else line for line in lines]


def key_differences(want, got):
    lines = []
    if [k.name for k in want] != [k.name for k in got]:
        lines.append(f"keys {[k.name for k in got]}, expected {[k.name for k in want]}")
    by_name = {k.name: k for k in got}
    for key in want:
        other = by_name.get(key.name, key)
        if (other.kind, other.wire) != (key.kind, key.wire):
            lines.append(f"key {key.name}: {other.kind} {other.wire[:80]!r}, expected {key.kind} {key.wire[:80]!r}")
    return lines
