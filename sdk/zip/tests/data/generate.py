#!/usr/bin/env python3
"""Writes the archives beside it. Run with numpy 2.4, torch 2.15, Python 3.13 or later; no randomness.

golden.json says of each what Python's zipfile reads: name, method, stored and raw length, CRC-32, first bytes in hex.
"""
import io, json, pathlib, sys, zipfile

HERE = pathlib.Path(__file__).parent
TEXT = b"the same words again and again, " * 200


def plain():
    with zipfile.ZipFile(HERE / "python.zip", "w") as z:
        for name, data, method in [
            ("stored.txt", TEXT[:100], zipfile.ZIP_STORED),
            ("folder/deflated.txt", TEXT, zipfile.ZIP_DEFLATED),
            ("empty", b"", zipfile.ZIP_STORED),
            ("empty-deflated", b"", zipfile.ZIP_DEFLATED),
            ("größe/名前", b"\0\1\2", zipfile.ZIP_STORED),
        ]:
            z.writestr(zipfile.ZipInfo(name), data, method)
        z.comment = b"a comment"


class Pipe(io.RawIOBase):
    """A file that cannot seek, so that descriptors follow the data."""

    def __init__(self, file):
        self.file = file

    def writable(self):
        return True

    def write(self, data):
        return self.file.write(data)


def streamed():
    with open(HERE / "streamed.zip", "wb") as file, zipfile.ZipFile(Pipe(file), "w") as z:
        z.writestr(zipfile.ZipInfo("a"), TEXT[:50])
        z.writestr(zipfile.ZipInfo("b"), TEXT, zipfile.ZIP_DEFLATED)


def stored():
    """What the layout must repeat to the byte."""
    with zipfile.ZipFile(HERE / "stored.zip", "w") as z:
        for name, data in [("a", b"\0\1\2\3\4\5\6\7"), ("größe/名前", b"prefix" + bytes(range(40, 52))), ("empty", b"")]:
            z.writestr(zipfile.ZipInfo(name), data)


def empty():
    with zipfile.ZipFile(HERE / "empty.zip", "w"):
        pass


def arrays():
    import numpy

    numpy.savez(HERE / "numpy.zip.npz", a=numpy.arange(3, dtype="<f4"))
    (HERE / "numpy.zip.npz").rename(HERE / "numpy.zip")


def torch_archive():
    import torch

    torch.save({"a": torch.arange(6, dtype=torch.float32), "b": torch.ones(2, 2)}, HERE / "torch.zip")


def golden():
    out = {}
    for path in sorted(HERE.glob("*.zip")):
        with zipfile.ZipFile(path) as z:
            out[path.name] = [
                {
                    "name": i.filename,
                    "method": i.compress_type,
                    "stored": i.compress_size,
                    "raw": i.file_size,
                    "crc32": i.CRC,
                    "begins": z.read(i)[:16].hex(),
                }
                for i in z.infolist()
            ]
    (HERE / "golden.json").write_text(json.dumps(out, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    for make in [globals()[name] for name in sys.argv[1:]] or [plain, streamed, stored, empty]:
        make()
    golden()
