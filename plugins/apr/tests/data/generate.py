"""Writes the fixtures of this folder and their golden manifests, from the specification alone (struct, json, zlib).

    generate.py            rewrites them all; the same bytes each time

Needs Python 3.9 and, for the compressed files, lz4 4.4.5 and zstandard 0.25.0. `read_apr.py`, which makes the goldens,
shares only the dtype table with it.
"""

import hashlib
import json
import os
import struct
import zlib

import read_apr

HERE = os.path.dirname(os.path.abspath(__file__))
IDS = {name: number for number, (name, _, _) in read_apr.DTYPES.items()}


def compact(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def payload(size, seed):
    return bytes((seed * 31 + n * 7) & 255 for n in range(size))


def split_planes(raw, width):
    """The bytes of elements by place, once each is rotated left by one bit."""
    mask = (1 << 8 * width) - 1
    words = [int.from_bytes(raw[n:n + width], "little") for n in range(0, len(raw), width)]
    turned = [((word << 1 | word >> 8 * width - 1) & mask).to_bytes(width, "little") for word in words]
    return [bytes(word[place] for word in turned) for place in range(width)]


def compress(raw, flags, width):
    """The blocks of a payload. A frame that does not shrink is stored as it is."""
    import lz4.block
    import zstandard
    blocks = []
    for at in range(0, len(raw), read_apr.BLOCK):
        piece = raw[at:at + read_apr.BLOCK]
        block = b""
        for plane in split_planes(piece, width) if flags & 4 else [piece]:
            data = lz4.block.compress(plane, store_size=False) if flags & 1 else zstandard.compress(plane, 9)
            if len(data) < len(plane):
                block += struct.pack("<I", len(data)) + data
            else:
                block += struct.pack("<I", len(plane) | 1 << 31) + plane
        blocks.append(block)
    return blocks


def build(metadata, tensors, flags=0b10, align=64, pad_last=False, methods=(), table=False):
    """An APR2 file; `tensors` are (name, dtype, shape[, bytes]) in the order of their data; `methods` give the flags of
    compressed ones by name, and `table` adds the lengths of their blocks."""
    methods = dict(methods)
    if methods:
        flags |= 1
    stored = {}
    for seed, (name, dtype, shape, *given) in enumerate(tensors):
        if name in methods:
            raw = given[0] if given else payload(read_apr.payload_len(IDS[dtype], shape), seed)
            stored[name] = compress(raw, methods[name], read_apr.FLOATS.get(dtype, 0))
    if table:
        lengths = [len(block) for blocks in stored.values() for block in blocks]
        content = struct.pack(f"<{len(lengths)}I", *lengths)
        tensors = [(read_apr.LENGTHS, "U8", [len(content)], content)] + list(tensors)
    data, entries = b"", []
    for seed, (name, dtype, shape, *given) in enumerate(tensors):
        data += bytes(-len(data) % align)
        size = read_apr.payload_len(IDS[dtype], shape)
        content = given[0] if given else payload(size, seed)
        assert len(content) == size
        raw_size, method = 0, methods.get(name, 0)
        if method:
            raw_size, content = size, b"".join(stored[name])
        encoded = name.encode()
        entry = struct.pack("<H", len(encoded)) + encoded + bytes([IDS[dtype], len(shape)])
        entry += b"".join(struct.pack("<Q", dim) for dim in shape)
        entries.append((encoded, entry + struct.pack("<QQQI", len(data), len(content), raw_size, method)))
        data += content
    if pad_last:
        data += bytes(-len(data) % align)
    index = struct.pack("<II", len(entries), 0) + b"".join(entry for _, entry in sorted(entries))
    text = metadata.encode()
    i_off = 32 + len(text)
    end = i_off + len(index)
    d_off = end + -end % align
    head = struct.pack("<4sHH6I", b"APR2", 2, 0, flags, 32, len(text), i_off, len(index), d_off)
    body = head + text + index + bytes(d_off - end) + data
    return body + struct.pack("<I4sQ", zlib.crc32(body), b"2RPA", len(body) + 16)


def save(name, content):
    path = os.path.join(HERE, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as f:
        f.write(content)


def provenance(*inputs):
    return {"versions": {"apr": "0.1.0", "gguf": "0.1.0"},
            "inputs": [{"bytes": n, "crc32": f"{crc:08x}"} for n, crc in inputs]}


def other_program():
    """As a program would write it that knows nothing but the specification: its own keys, spacing and order."""
    metadata = {
        "model_card": {"license": "MIT", "size": 1.5e-7},
        "apr_version": "2.0.0",
        "model_type": "whisper",
        "architecture": {"n_vocab": 51865, "n_mels": 80, "n_audio_layer": 4},
        "vocab": ["<|endoftext|>", "h\u00e9", "\u0000"],
        "mel_filterbank": [0.0, 0.5, 1e-30],
        "mel_filterbank_shape": [80, 201],
    }
    tensors = [
        ("encoder.conv1.weight", "F32", [4, 2, 3]),
        ("decoder.token_embedding.weight", "F16", [5, 3]),
        ("encoder.conv1.bias", "F32", [4]),
    ]
    return build(json.dumps(metadata, indent=2, ensure_ascii=True), tensors)


def carried():
    """Exactly what the plugin's writer makes of a model that came from another format."""
    long_array = struct.pack("<IQ", 4, 17000) + struct.pack("<17000I", *range(17000))
    header = b"GGUF\x03" + bytes(range(256))
    metadata = {
        "apr_version": "2.0.0",
        "model_type": "tensors",
        "architecture": {},
        "dialect": "gguf",
        "recipe": "Q4_K_M",
        "assets": {"README.md": "# A model\n", "licence/x.bin": {"b64": "/wAB"}},
        "foreign.gguf": {"files": [{
            "n_tensors": 5,
            "typed": {
                "general.architecture": {"t": "str", "v": "llama"},
                "max": {"t": "u64", "v": "18446744073709551615"},
                "eps": {"t": "f32", "v": "3727c5ac"},
                "flag": {"t": "bool", "v": True},
                "tokens": {"t": "arr", "of": "str", "v": ["a", {"b64": "/w=="}, ""]},
                "long": {"t": "arr", "at": "__apr__/0"},
            },
            "verbatim": {"b64": __import__("base64").b64encode(header).decode()},
        }]},
        "order": ["nothing", "empty", "after"],
        "provenance": provenance((4096, 0x1234ABCD)),
    }
    tensors = [
        ("__apr__/0", "U8", [len(long_array)], long_array),
        ("z.first", "F32", [3]),
        ("nothing", "F32", [2, 0]),
        ("empty", "I8", [0]),
        ("after", "BF16", [3]),
        ("scalar", "F64", []),
    ]
    return build(compact(metadata), tensors)


def every_dtype():
    tensors = []
    for number in sorted(read_apr.DTYPES):
        name, per_block, _ = read_apr.DTYPES[number]
        shape = [2, per_block] if name not in read_apr.FLAT else [3, 3]
        tensors.append((f"t.{name}", name, shape))
    tensors.append(("eight", "U8", [1, 2, 1, 2, 1, 2, 1, 2]))
    tensors.append(("\u00e9\u0000\n\u202e", "U8", [1]))
    tensors.append(("", "U8", [1]))
    metadata = {"apr_version": "2.0.0", "model_type": "tensors", "architecture": {}, "dialect": "none",
                "provenance": provenance()}
    return build(compact(metadata), tensors, flags=0b0100_0010)


def aligned_32():
    """Aligned as GGUF is, and the last tensor padded too, which the specification neither asks nor forbids."""
    metadata = {"apr_version": "2.0.0", "model_type": "tensors", "architecture": {}}
    return build(compact(metadata), [("b", "U8", [33]), ("a", "Q8_0", [32])], 0b0100_0100, 32, pad_last=True)


def compressed(methods, table):
    """Two blocks of what repeats, one of noise, weights whose exponents are alike, and what is not compressed."""
    noise = b"".join(hashlib.sha256(bytes([n])).digest() for n in range(40))
    weights = b"".join(bytes([noise[n % 1280], 0x3C | noise[n * 7 % 1280] & 0x81]) for n in range(1500))
    metadata = {"apr_version": "2.0.0", "model_type": "tensors", "architecture": {}, "dialect": "none"}
    tensors = [
        ("repeats", "U8", [70000], bytes(n // 300 & 255 for n in range(70000))),
        ("noise", "I64", [160], noise),
        ("weights", "BF16", [15, 100], weights),
        ("blocks", "Q8_0", [4, 64]),
        ("plain", "F32", [3]),
        ("empty", "F32", [0]),
    ]
    return build(compact(metadata), tensors, flags=0b0100_0010, methods=methods, table=table)


def compressed_lz4():
    return compressed({"repeats": 1, "noise": 1, "weights": 5, "blocks": 1, "empty": 1}, True)


def compressed_zstd():
    return compressed({"repeats": 2, "noise": 2, "weights": 6, "blocks": 2}, True)


def compressed_walked():
    """Without the table of lengths, as the specification has it."""
    return compressed({"repeats": 1, "noise": 2, "weights": 6}, False)


def empty():
    metadata = {"apr_version": "2.0.0", "model_type": "tensors", "architecture": {}, "dialect": "none",
                "provenance": provenance((0, 0))}
    return build(compact(metadata), [])


def sharded():
    """Exactly what the plugin's writer makes with a largest shard of 40 bytes."""
    base = {"apr_version": "2.0.0", "model_type": "tensors", "architecture": {}, "dialect": "hf"}
    shards = [
        (dict(base, model_type="llama", architecture={"hidden_size": 2}, provenance=provenance((99, 7))),
         [("b", "F32", [2, 4]), ("a", "F16", [4])]),
        (base, [("c", "F32", [16])]),
        (base, [("d", "I64", [5])]),
    ]
    names, listed, placed = [], [], {}
    for number, (metadata, tensors) in enumerate(shards):
        content = build(compact(metadata), tensors, flags=0b1010)
        name = f"m-{number + 1:05}-of-{len(shards):05}.apr"
        save(f"sharded/{name}", content)
        names.append(name)
        listed.append({"file": name, "size": len(content), "crc32": f"{zlib.crc32(content[:-16]):08x}"})
        placed.update({tensor[0]: number for tensor in tensors})
    manifest = {"apr_version": "2.0.0", "sharded": True, "shard_count": len(shards), "shards": listed,
                "tensor_shard_map": placed}
    save("sharded/m.apr", compact(manifest).encode())


def main():
    files = {"other_program": other_program, "carried": carried, "every_dtype": every_dtype,
             "aligned_32": aligned_32, "empty": empty, "compressed_lz4": compressed_lz4,
             "compressed_zstd": compressed_zstd, "compressed_walked": compressed_walked}
    for name, make in files.items():
        save(f"{name}.apr", make())
    sharded()
    for name in [*files, "sharded/m"]:
        text = json.dumps(read_apr.golden(os.path.join(HERE, f"{name}.apr")), indent=1, ensure_ascii=True)
        save(f"{name}.golden.json", (text + "\n").encode())


if __name__ == "__main__":
    main()
