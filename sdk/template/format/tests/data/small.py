"""Writes small.toy from the format's description alone; it shares no code with the plugin."""
import pathlib
import struct

FLOATS = struct.pack("<6f", 0.5, 2.0, 8.0, 32.0, 0.125, 0.0)
PAYLOADS = [FLOATS, b"hello", struct.pack("<f", 0.5)]
LINES = b"F32 [2,3] 0 layer.weight\nU8 [5] 64 layer.words\nF32 [] 128 scale\n"


def padded(data):
    return data + bytes(-len(data) % 64)


file = padded(b"TOY1" + struct.pack("<I", len(LINES)) + LINES)
for payload in PAYLOADS:
    file = padded(file) + payload
pathlib.Path(__file__).with_name("small.toy").write_bytes(file)
