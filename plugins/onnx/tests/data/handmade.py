"""Adds right files that the package onnx does not write but reads: records in another order, spelled otherwise, unknown.

Run after generate.py, whose versions and manifests it shares.
"""

import struct

from generate import HERE, golden


def varint(n, width=0):
    out = bytearray()
    while True:
        out.append(n & 0x7F | 0x80)
        n >>= 7
        if not n and len(out) >= width:
            out[-1] &= 0x7F
            return bytes(out)


def number(field, n):
    return varint(field << 3) + varint(n & 2**64 - 1)


def text(field, body, width=0):
    body = body.encode() if isinstance(body, str) else body
    return varint(field << 3 | 2) + varint(len(body), width) + body


def entry(field, key, value):
    return text(field, text(1, key) + text(2, value))


def floats(*values):
    return struct.pack(f"<{len(values)}f", *values)


def tensor(name, kind, dims, data):
    return b"".join(number(1, d) for d in dims) + number(2, kind) + text(8, name) + data


OPSET = text(8, text(1, "") + number(2, 15))


def order():
    """The graph before the version, a node's name behind its attribute, a tensor's name and type behind its data."""
    inner = text(9, floats(1, 2)) + text(8, "late") + number(2, 1) + number(1, 2)
    constant = text(5, text(5, tensor("", 1, [1], text(9, floats(3)))) + number(20, 4) + text(1, "value"))
    node = constant + text(4, "Constant") + text(2, "c") + text(3, "named late")
    graph = text(5, inner) + text(2, "g") + text(1, node)
    return entry(14, "a", "1") + text(7, graph) + text(2, "handmade") + OPSET + entry(14, "b", "2") + number(1, 8)


def lengths():
    """Lengths and tags in more bytes than they need."""
    inner = text(5, tensor("w", 1, [2], text(9, floats(1, 2), 5)), 3)
    return b"\x88\x00" + varint(8, 3) + OPSET + text(7, text(2, "g", 2) + inner, 4)


def unknown():
    """Records that this version of the format does not know, at every level."""
    odd = text(900, b"\xff\x00\xfe") + number(901, 7) + varint(902 << 3 | 1) + b"8 bytes." + varint(903 << 3 | 5) + b"four"
    inner = tensor("w", 1, [2], text(9, floats(1, 2))) + text(12, "doc") + entry(16, "k", "v") + odd
    attribute = text(1, "value") + text(5, tensor("", 7, [1], text(9, b"\1" * 8)) + odd) + number(20, 4) + odd
    node = text(2, "c") + text(4, "Constant") + text(5, attribute) + odd
    graph = text(1, node) + text(2, "g") + text(5, inner) + entry(16, "gk", "gv") + odd
    return number(1, 10) + text(7, graph) + OPSET + odd


def runs():
    """Typed fields that are not one packed run, and dimensions that are."""
    packed_dims = text(1, varint(2) + varint(3)) + number(2, 1) + text(8, "two runs")
    packed_dims += text(4, floats(1, 2)) + text(4, floats(3, 4, 5, 6))
    single = b"".join(varint(4 << 3 | 5) + floats(n) for n in (7, 8))
    numbers = number(5, -1) + number(5, 127) + text(5, varint(5) + varint(2**64 - 128))
    doubles = varint(10 << 3 | 1) + struct.pack("<d", 1.5) + text(10, struct.pack("<d", 2.5))
    parts = number(7, 1) + text(12, "between") + number(7, 2)
    graph = text(2, "g") + text(5, packed_dims) + text(5, tensor("single", 1, [2], single))
    graph += text(5, tensor("int8", 3, [4], numbers)) + text(5, tensor("double", 11, [2], doubles))
    graph += text(5, tensor("apart", 7, [2], parts))
    return number(1, 8) + text(7, graph) + OPSET


def doubled():
    """Scalar records twice, of which the last counts, a key of metadata twice, and the graph in two pieces."""
    one = text(2, "first") + text(5, tensor("a", 1, [1], text(9, floats(1))))
    two = text(2, "second") + text(5, tensor("b", 1, [1], text(9, floats(2))))
    props = entry(14, "k", "1") + entry(14, "k", "2")
    return number(1, 3) + text(2, "one") + text(7, one) + number(1, 8) + text(2, "two") + text(7, two) + OPSET + props


def main():
    for make in (order, lengths, unknown, runs, doubled):
        name = f"handmade-{make.__name__}.onnx"
        (HERE / name).write_bytes(make())
        golden(name)


main()
