#!/usr/bin/env python3
"""Writes the fixtures `handmade_*`, which are right but which no package writes so: other spellings of a header, and
the 6-bit types, which the Python package cannot make. Where the package can read a file, `generate.py`'s judge is
asked; the 6-bit types it reads too."""

import json
import struct

from generate import HERE, golden


def put(name, header, data):
    if not isinstance(header, bytes):
        header = header.encode()
    path = HERE / f"handmade_{name}.safetensors"
    path.write_bytes(struct.pack("<Q", len(header)) + header + data)
    golden(path)


def entry(dtype, shape, begin, end):
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


data = bytes(range(1, 65))
two = {"b": entry("F32", [2], 0, 8), "a": entry("F64", [1], 8, 16)}
put("unsorted", json.dumps(two, separators=(",", ":")), data[:16])
put("spaces", json.dumps(two), data[:16])
put("indented", json.dumps({"__metadata__": {"b": "1", "a": "2"}} | two, indent=2) + "\r\n\t ", data[:16])
put("header_order", json.dumps(dict(reversed(two.items())), separators=(",", ":")), data[:16])
put("metadata_last", json.dumps(two | {"__metadata__": {"format": "pt"}}, separators=(",", ":")), data[:16])
put("escapes", r'{"\u0061\/\u00e9\ud83d\ude00":{"\u0064type":"\u0055\u0038","shape":[2],"data_offsets":[0,2]}}', data[:2])
put("field_order", '{"a":{"data_offsets":[0,2],"shape":[2],"dtype":"U8"}}', data[:2])
put("unknown_fields", '{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2],"crc":[1,-2.5e3,null,{"a":"\\u00e9"}]}}', data[:2])
put("unpadded", '{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}', data[:2])
put("overpadded", '{"a":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}}' + " " * 4091, data[:2])
put("long_header", json.dumps({"a": entry("U8", [2], 0, 2) | {"note": "é" * 34000}}, ensure_ascii=False), data[:2])
put("zero_size_between", json.dumps({"c": entry("U8", [2], 0, 2), "z": entry("U8", [0], 2, 2), "a": entry("U8", [0, 9], 2, 2), "b": entry("U8", [1], 2, 3)}), data[:3])
six = {"f4": entry("F4", [2, 3], 0, 3), "e2m3": entry("F6_E2M3", [4], 3, 6), "e3m2": entry("F6_E3M2", [2, 4], 6, 12)}
put("narrow_types", json.dumps(six, separators=(",", ":")), data[:12])
# The order of the crate, so that only the package's lack of a Python name keeps it from being written there.
crate = {"e3m2": entry("F6_E3M2", [2, 4], 0, 6), "e2m3": entry("F6_E2M3", [4], 6, 9), "f4": entry("F4", [2, 3], 9, 12)}
text = json.dumps(crate, separators=(",", ":"))
put("narrow_types_canonical", text + " " * (-len(text) % 8), data[:12])
