#!/usr/bin/env python3
"""Writes importance matrices, with the PyPI package gguf 0.19.0 (numpy 2.x): `python3 generate.py`, in this folder.

The keys and tensors are those that llama-imatrix of llama.cpp 0.5.0-dev writes (tools/imatrix/imatrix.cpp, `save_imatrix`
and `save_imatrix_legacy`). Beside each file, NAME.expected.json says what llama-quantize makes of it, computed in float32
with numpy. Seeded: a second run gives the same bytes.
"""

import json
import struct
from pathlib import Path

import gguf
import numpy as np

HERE = Path(__file__).parent
CHUNK = 512


class Matrix(gguf.GGUFWriter):
    """A GGUF file without an architecture."""

    def add_architecture(self):
        pass


def write_gguf(name, entries, datasets, chunks, alignment=None):
    writer = Matrix(HERE / name, "")
    writer.add_type("imatrix")
    if alignment:
        writer.add_custom_alignment(alignment)
    writer.add_array("imatrix.datasets", datasets)
    writer.add_uint32("imatrix.chunk_count", chunks)
    writer.add_uint32("imatrix.chunk_size", CHUNK)
    for key in sorted(entries):
        sums, counts = entries[key]
        writer.add_tensor(f"{key}.in_sum2", sums)
        writer.add_tensor(f"{key}.counts", counts.reshape(-1, 1))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    values = {}
    for key, (sums, counts) in entries.items():
        each = sums.reshape(len(counts), -1)
        with np.errstate(divide="ignore", invalid="ignore"):
            values[key] = np.where(counts[:, None] > 0, each / counts[:, None], np.float32(1)).astype(np.float32)
    expect(name, values, datasets[0], chunks)


def write_dat(name, entries, dataset, chunks):
    data = struct.pack("<i", len(entries))
    for key, (values, calls) in entries.items():
        encoded = key.encode()
        data += struct.pack("<i", len(encoded)) + encoded + struct.pack("<ii", calls, values.size) + values.tobytes()
    if chunks is not None:
        data += struct.pack("<i", chunks)
    if dataset is not None:
        data += struct.pack("<i", len(dataset)) + dataset.encode()
    (HERE / name).write_bytes(data)
    made = {key: values / np.float32(calls) if calls > 0 else values for key, (values, calls) in entries.items()}
    expect(name, made, dataset, chunks or 0)


def expect(name, values, dataset, chunks):
    records = [["quantize.imatrix.file", "str", name]]
    if dataset:
        # It records 127 bytes at most; apr keeps letters whole.
        records.append(["quantize.imatrix.dataset", "str", dataset.encode()[:127].decode(errors="ignore")])
    records.append(["quantize.imatrix.entries_count", "u32", len(values)])
    if chunks > 0:
        records.append(["quantize.imatrix.chunks_count", "u32", chunks])
    bits = {key: [f"{n:08x}" for n in value.astype(np.float32).ravel().view(np.uint32)] for key, value in values.items()}
    text = json.dumps({"values": bits, "records": records})
    (HERE / f"{name}.expected.json").write_text(text + "\n")


def main():
    random = np.random.default_rng(6)
    squares = lambda *shape: (random.standard_normal(shape) ** 2).astype(np.float32) * np.float32(1000)
    counts = lambda *numbers: np.array(numbers, dtype=np.float32)
    write_gguf("experts.gguf", {
        "blk.0.attn_q.weight": (squares(1, 12), counts(6144)),
        "blk.0.ffn_down_exps.weight": (squares(4, 8), counts(6144, 0, 17, 300)),
        # A dense matrix of three dimensions has one count for all.
        "blk.10.attn_k_b.weight": (squares(3, 4), counts(1536)),
        "blk.2.ffn_up.weight": (squares(1, 12), counts(6144)),
    }, ["texts/calibration.txt", "texts/more.txt"], 12)
    write_gguf("aligned.gguf", {"output.weight": (squares(1, 5), counts(3))}, ["ü" * 100], 0, alignment=64)
    write_dat("calls.dat", {
        "blk.0.attn_q.weight": (squares(12), 12),
        "blk.0.ffn_down_exps.weight": (squares(32), 7),
        "blk.1.attn_v.weight": (squares(6), 0),
    }, "calibration.txt", 12)
    write_dat("bare.dat", {"blk.0.attn_q.weight": (squares(3), 2)}, None, None)
    write_dat("chunks.dat", {"blk.0.attn_q.weight": (squares(3), 2)}, None, 4)


if __name__ == "__main__":
    main()
