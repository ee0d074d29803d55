"""What a GGUF file holds, as golden.json states it: read with nothing but `struct`, so that it leans on no library."""

import base64
import hashlib
import math
import struct
from pathlib import Path

KINDS = {0: ("u8", "B"), 1: ("i8", "b"), 2: ("u16", "H"), 3: ("i16", "h"), 4: ("u32", "I"), 5: ("i32", "i"), 6: ("f32", "f"), 7: ("bool", "?"),
         10: ("u64", "Q"), 11: ("i64", "q"), 12: ("f64", "d")}
# Names, the bytes of a block, its elements.
TYPES = {0: ("F32", 4, 1), 1: ("F16", 2, 1), 30: ("BF16", 2, 1), 39: ("MXFP4", 17, 32), 40: ("NVFP4", 36, 64)}
# Tensors of the converter that are exponentials of a folder's.
EXPONENTIALS = (".ssm_a",)
# Arrays up to this many items stand in full; of longer ones the first items, the count and a hash.
FULL = 16


class Cursor:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, format):
        values = struct.unpack_from("<" + format, self.data, self.at)
        self.at += struct.calcsize("<" + format)
        return values[0]

    def text(self):
        length = self.take("Q")
        self.at += length
        return self.data[self.at - length : self.at].decode()

    def scalar(self, kind):
        return self.text() if kind == 8 else self.take(KINDS[kind][1])


def value(cursor, kind):
    if kind != 9:
        found = cursor.scalar(kind)
        row = {"type": "str" if kind == 8 else KINDS[kind][0], "value": found}
        return row | ({"bits": f"{struct.unpack('<I', struct.pack('<f', found))[0]:08x}"} if kind == 6 else {})
    item, count = cursor.take("I"), cursor.take("Q")
    begin = cursor.at
    items = [cursor.scalar(item) for _ in range(count)]
    row = {"type": "arr", "of": "str" if item == 8 else KINDS[item][0], "count": count}
    if count <= FULL:
        return row | {"value": items}
    return row | {"first": items[:4], "sha256": hashlib.sha256(cursor.data[begin : cursor.at]).hexdigest()}


def manifest(path):
    data = Path(path).read_bytes()
    cursor = Cursor(data)
    assert cursor.take("I") == 0x46554747 and cursor.take("I") == 3
    tensor_count, kv_count = cursor.take("Q"), cursor.take("Q")
    kvs = []
    for _ in range(kv_count):
        key = cursor.text()
        kvs.append({"key": key} | value(cursor, cursor.take("I")))
    infos = []
    for _ in range(tensor_count):
        name = cursor.text()
        dims = [cursor.take("Q") for _ in range(cursor.take("I"))]
        infos.append((name, dims, cursor.take("I"), cursor.take("Q")))
    start = (cursor.at + 31) // 32 * 32
    tensors = []
    for name, dims, kind, offset in infos:
        dtype, width, elements = TYPES[kind]
        assert dims[0] % elements == 0
        length = math.prod(dims) // elements * width
        payload = data[start + offset : start + offset + length]
        assert len(payload) == length
        row = {"name": name, "type": dtype, "dims": dims, "offset": offset, "sha256": hashlib.sha256(payload).hexdigest()}
        # torch's exponential in F32 is not the nearest everywhere: these are compared by value.
        exponentials = {"values": base64.b64encode(payload).decode()} if name.endswith(EXPONENTIALS) and dtype == "F32" else {}
        tensors.append(row | exponentials)
    return {"file_sha256": hashlib.sha256(data).hexdigest(), "file_len": len(data), "kvs": kvs, "tensors": tensors}
