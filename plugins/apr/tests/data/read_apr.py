"""Reads APR2 files from the specification alone and judges them: an implementation that shares nothing with the plugin.

    read_apr.py FILE       prints a golden manifest as JSON; FILE is an .apr file or the manifest of a sharded model
    read_apr.py --check FILE...   prints one line a file

Every rule of spec/apr-v2-format.md and section 7 of the design that a reader can check is checked: magic, version,
section order, padding of zeros, index sorted by name, sizes, alignment, overlap, footer, CRC-32, shards. Exit code 1 if
one is broken. Needs Python 3.9, and for compressed files the packages `lz4` and `zstandard`.
"""

import base64
import hashlib
import json
import os
import struct
import sys
import zlib

# id: name, elements per block, bytes per block; a flat type packs bits over the whole tensor
DTYPES = {
    0: ("F32", 1, 4), 1: ("F16", 1, 2), 2: ("BF16", 1, 2), 3: ("I8", 1, 1), 4: ("I16", 1, 2), 5: ("I32", 1, 4),
    6: ("I64", 1, 8), 7: ("U8", 1, 1), 8: ("BOOL", 1, 1), 9: ("F64", 1, 8), 10: ("U16", 1, 2), 11: ("U32", 1, 4),
    12: ("U64", 1, 8), 13: ("F8_E4M3", 1, 1), 14: ("F8_E5M2", 1, 1), 15: ("C64", 1, 8), 16: ("Q8_0", 32, 34),
    17: ("Q4_0", 32, 18), 18: ("Q4_1", 32, 20), 19: ("Q5_0", 32, 22), 20: ("Q5_1", 32, 24), 48: ("F4_E2M1", 2, 1),
    49: ("F6_E2M3", 4, 3), 50: ("F6_E3M2", 4, 3), 51: ("F8_E8M0", 1, 1), 52: ("F8_E4M3FNUZ", 1, 1),
    53: ("F8_E5M2FNUZ", 1, 1), 54: ("C128", 1, 16), 55: ("I4", 2, 1), 56: ("U4", 2, 1), 57: ("I2", 4, 1),
    58: ("U2", 4, 1), 73: ("Q8_1", 32, 36), 74: ("Q2_K", 256, 84), 75: ("Q3_K", 256, 110), 76: ("Q4_K", 256, 144),
    77: ("Q5_K", 256, 176), 78: ("Q6_K", 256, 210), 79: ("Q8_K", 256, 292), 80: ("IQ2_XXS", 256, 66),
    81: ("IQ2_XS", 256, 74), 82: ("IQ3_XXS", 256, 98), 83: ("IQ1_S", 256, 50), 84: ("IQ4_NL", 32, 18),
    85: ("IQ3_S", 256, 110), 86: ("IQ2_S", 256, 82), 87: ("IQ4_XS", 256, 136), 93: ("IQ1_M", 256, 56),
    98: ("TQ1_0", 256, 54), 99: ("TQ2_0", 256, 66), 103: ("MXFP4", 32, 17), 104: ("NVFP4", 64, 36),
    105: ("Q1_0", 128, 18), 106: ("Q2_0", 64, 18),
}
FLAT = {"F4_E2M1", "F6_E2M3", "F6_E3M2", "I4", "U4", "I2", "U2"}
HIDDEN = "__apr__/"
LENGTHS = HIDDEN + "blocks"
FLOATS = {"F32": 4, "F16": 2, "BF16": 2, "F64": 8, "F8_E4M3": 1, "F8_E5M2": 1, "F8_E8M0": 1, "F8_E4M3FNUZ": 1,
          "F8_E5M2FNUZ": 1}
BLOCK = 65536


class Broken(Exception):
    """A rule of the specification that the file breaks."""


def want(condition, message):
    if not condition:
        raise Broken(message)


def payload_len(dtype, dims):
    name, per_block, block_bytes = DTYPES[dtype]
    elements = 1
    for dim in dims:
        elements *= dim
    if name not in FLAT:
        want(per_block == 1 or (dims[-1] if dims else 1) % per_block == 0, f"rows of {name} {dims} are not whole blocks")
    return -(-elements * block_bytes // per_block) if name in FLAT else elements // per_block * block_bytes


def no_duplicates(pairs):
    keys = [key for key, _ in pairs]
    want(len(set(keys)) == len(keys), f"a JSON object has a key twice: {keys}")
    return dict(pairs)


def inflate(data, flags, raw_len):
    """The raw bytes of an LZ4 block or a zstd frame."""
    if flags & 1:
        import lz4.block
        return lz4.block.decompress(data, uncompressed_size=raw_len)
    import zstandard
    return zstandard.ZstdDecompressor().decompress(data, max_output_size=raw_len)


def join_planes(planes, width):
    """Elements from their bytes by place, each rotated right by one bit."""
    count = len(planes) // width
    out = bytearray()
    for n in range(count):
        word = int.from_bytes(bytes(planes[place * count + n] for place in range(width)), "little")
        out += (word >> 1 | (word & 1) << (8 * width - 1)).to_bytes(width, "little")
    return bytes(out)


def decompressed(stored, flags, raw_size, width):
    """The payload, and the length of each block."""
    want(flags & 3 in (1, 2) and flags < 8, f"tensor flags {flags:#x}")
    out, lengths, at = b"", [], 0
    while len(out) < raw_size:
        raw_len, begin, planes = min(BLOCK, raw_size - len(out)), at, b""
        frames = width if flags & 4 else 1
        for _ in range(frames):
            (head,) = struct.unpack_from("<I", stored, at)
            data = stored[at + 4:at + 4 + (head & 0x7FFFFFFF)]
            at += 4 + len(data)
            plane = data if head >> 31 else inflate(data, flags, raw_len // frames)
            want(len(plane) == raw_len // frames, "a frame of another length")
            planes += plane
        out += join_planes(planes, width) if flags & 4 else planes
        lengths.append(at - begin)
    want(at == len(stored), "bytes after the last block")
    return out, lengths


class File:
    def __init__(self, path):
        with open(path, "rb") as f:
            self.data = f.read()
        d = self.data
        want(len(d) >= 48, "shorter than header and footer")
        magic, major, minor, self.flags, m_off, m_size, i_off, i_size, d_off = struct.unpack_from("<4sHH6I", d, 0)
        want(magic == b"APR2" and major == 2, f"magic {magic}, version {major}.{minor}")
        want(self.flags & 0b10010000 == 0, "encrypted or streaming: not read here")
        want(32 <= m_off and m_off + m_size <= i_off and i_off + i_size <= d_off <= len(d), "sections overlap")
        self.align = 64 if self.flags & 2 else 32 if self.flags & 4 else 1
        want(d_off % self.align == 0, "the data section is not aligned")
        want(not any(d[i_off + i_size:d_off]), "padding before the data is not zero")
        text = d[m_off:m_off + m_size].decode("utf-8")
        self.metadata = json.loads(text, object_pairs_hook=no_duplicates)
        for key in ("apr_version", "model_type", "architecture"):
            want(key in self.metadata, f"no {key}")
        self.read_index(i_off, i_off + i_size, d_off)
        self.read_end(d_off)
        self.check_lengths()

    def read_index(self, at, end, d_off):
        d = self.data
        count, reserved = struct.unpack_from("<II", d, at)
        want(reserved == 0, "reserved word of the index")
        at += 8
        self.tensors = []
        for _ in range(count):
            (name_len,) = struct.unpack_from("<H", d, at)
            name = d[at + 2:at + 2 + name_len].decode("utf-8")
            at += 2 + name_len
            dtype, n_dims = d[at], d[at + 1]
            want(n_dims <= 8, f"{name}: {n_dims} dimensions")
            dims = list(struct.unpack_from(f"<{n_dims}Q", d, at + 2))
            at += 2 + 8 * n_dims
            offset, size, raw_size, flags = struct.unpack_from("<QQQI", d, at)
            at += 28
            want(dtype in DTYPES, f"{name}: dtype {dtype}")
            want(flags == 0 or self.flags & 1, f"{name}: compressed, and the header does not say so")
            raw = raw_size if flags else size
            want(flags or raw_size == 0, f"{name}: raw_size {raw_size}")
            want(raw == payload_len(dtype, dims), f"{name}: {raw} bytes for {DTYPES[dtype][0]} {dims}")
            want(offset % self.align == 0, f"{name}: offset {offset}")
            start = d_off + offset
            want(start + size <= len(d) - 16, f"{name}: ends past the data")
            self.tensors.append({"name": name, "dtype": DTYPES[dtype][0], "shape": dims, "at": start, "size": size,
                                 "flags": flags, "raw_size": raw})
        want(at == end, "the index is longer or shorter than its entries")
        names = [t["name"].encode() for t in self.tensors]
        want(names == sorted(set(names)), "the index is not sorted, or has a name twice")

    def read_end(self, d_off):
        d = self.data
        ranks = {name: n for n, name in enumerate(self.inline(self.metadata.get("order", [])))}
        self.tensors.sort(key=lambda t: (t["at"], ranks.get(t["name"], -1), t["size"] != 0, t["name"].encode()))
        end = d_off
        for t in (t for t in self.tensors if t["size"]):
            want(t["at"] >= end, f"{t['name']}: overlaps")
            want(not any(d[end:t["at"]]), f"padding before {t['name']} is not zero")
            end = t["at"] + t["size"]
        end = max([end] + [t["at"] for t in self.tensors])
        want(end <= len(d) - 16 < end + self.align, "the footer is not where the data ends")
        want(not any(d[end:-16]), "padding before the footer is not zero")
        crc, magic, size = struct.unpack_from("<I4sQ", d, len(d) - 16)
        want(magic == b"2RPA", f"magic_end {magic}")
        want(size == len(d), f"file_size {size}, the file has {len(d)}")
        want(crc == zlib.crc32(d[:-16]), f"CRC-32 {crc:08x}, computed {zlib.crc32(d[:-16]):08x}")

    def check_lengths(self):
        """Compares the table of block lengths, if there is one, with the frames."""
        lengths = []
        for t in (t for t in self.tensors if t["flags"]):
            stored = self.data[t["at"]:t["at"] + t["size"]]
            t["payload"], own = decompressed(stored, t["flags"], t["raw_size"], FLOATS.get(t["dtype"], 0))
            lengths += own
        if any(t["name"] == LENGTHS for t in self.tensors):
            want(self.hidden(LENGTHS) == struct.pack(f"<{len(lengths)}I", *lengths), "the table of block lengths")

    def payload(self, t):
        return t["payload"] if t["flags"] else self.data[t["at"]:t["at"] + t["size"]]

    def hidden(self, place):
        for t in self.tensors:
            if t["name"] == place and place.startswith(HIDDEN):
                return self.data[t["at"]:t["at"] + t["size"]]
        raise Broken(f"no hidden tensor {place}")

    def inline(self, value):
        """A carried value, fetched if it is hidden and then parsed."""
        if isinstance(value, dict) and list(value) == ["at"]:
            return json.loads(self.hidden(value["at"]))
        return value

    def bytes_of(self, value):
        if isinstance(value, str):
            return value.encode()
        return base64.b64decode(value["b64"]) if "b64" in value else self.hidden(value["at"])

    def digest(self, data):
        return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}

    def golden(self):
        m = self.metadata
        known = {"apr_version", "model_type", "architecture", "dialect", "recipe", "dtypes", "tokenizer", "assets",
                 "order", "provenance"}
        visible = [t for t in self.tensors if not t["name"].startswith(HIDDEN)]
        out = {
            "model_type": m["model_type"],
            "architecture": self.inline(m["architecture"]),
            "dialect": m.get("dialect", "none"),
            "tensors": [
                {"name": t["name"], "dtype": t["dtype"], "shape": t["shape"],
                 "sha256": hashlib.sha256(self.payload(t)).hexdigest()}
                for t in visible
            ],
            "assets": {name: self.digest(self.bytes_of(value)) for name, value in m.get("assets", {}).items()},
            "foreign": {},
            "unknown": [key for key in m if key not in known and not key.startswith("foreign.")],
        }
        for key in (k for k in m if k.startswith("foreign.")):
            out["foreign"][key[len("foreign."):]] = [self.record(file) for file in m[key]["files"]]
        for key in ("recipe", "provenance"):
            if key in m:
                out[key] = m[key]
        if "tokenizer" in m:
            out["tokenizer"] = self.inline(m["tokenizer"])
        return out

    def record(self, file):
        typed = [
            [key, value["t"], self.digest(self.hidden(value["at"])) if "at" in value else value]
            for key, value in file["typed"].items()
        ]
        out = {"name": file.get("name", ""), "n_tensors": file["n_tensors"], "typed": typed}
        if "verbatim" in file:
            out["verbatim"] = self.digest(self.bytes_of(file["verbatim"]))
        return out


def golden_of_shards(path, manifest):
    want(manifest["sharded"] is True and manifest["shard_count"] == len(manifest["shards"]), "shard_count")
    merged = None
    for number, shard in enumerate(manifest["shards"]):
        inner = os.path.join(os.path.dirname(path), shard["file"])
        with open(inner, "rb") as f:
            data = f.read()
        want(len(data) == shard["size"], f"{shard['file']}: size")
        want(f"{zlib.crc32(data[:-16]):08x}" == shard["crc32"], f"{shard['file']}: CRC-32")
        file = File(inner)
        want(file.flags & 8, f"{shard['file']}: not flagged as sharded")
        golden = file.golden()
        mapped = {name for name, n in manifest["tensor_shard_map"].items() if n == number}
        want(mapped == {t["name"] for t in golden["tensors"]}, f"{shard['file']}: the map is wrong")
        if merged is None:
            merged = golden
        else:
            merged["tensors"] += golden["tensors"]
    return merged


def golden(path):
    with open(path, "rb") as f:
        head = f.read(1)
    if head == b"{":
        with open(path, encoding="utf-8") as f:
            return golden_of_shards(path, json.load(f, object_pairs_hook=no_duplicates))
    return File(path).golden()


def main(args):
    check = args[:1] == ["--check"]
    status = 0
    for path in args[1:] if check else args:
        try:
            found = golden(path)
            if check:
                print(f"{path}: {len(found['tensors'])} tensors, intact")
            else:
                print(json.dumps(found, indent=1, ensure_ascii=True))
        except (Broken, ValueError, KeyError, OSError, struct.error) as error:
            print(f"{path}: {error}", file=sys.stderr)
            status = 1
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
