"""ZIP files as programs that know nothing of tensors see them."""

import shutil
import struct
import subprocess
import zipfile
from pathlib import Path

from report import Failure, Skipped

LOCAL_HEADER = struct.Struct("<IHHHHHIIIHH")


def accepted(path):
    """Python's `zipfile` finds every CRC right; so does `unzip -t`, where there is one."""
    with zipfile.ZipFile(path) as archive:
        broken = archive.testzip()
        if broken is not None:
            raise Failure(f"zipfile: {broken} of {path} is broken")
        names = archive.namelist()
    if len(set(names)) != len(names):
        raise Failure(f"{path} has an entry twice: {names}")
    if not shutil.which("unzip"):
        raise Skipped("zipfile accepts it; there is no unzip")
    done = subprocess.run(["unzip", "-tqq", str(path)], capture_output=True, timeout=60)
    # An archive without entries is a warning to unzip.
    if done.returncode != 0 and not (done.returncode == 1 and not names):
        raise Failure(f"unzip -t {path}: exit {done.returncode}\n{(done.stdout + done.stderr).decode(errors='replace').strip()}")


def data_starts(path):
    """Where each stored entry's data begins, by its local header: name, offset, length."""
    with zipfile.ZipFile(path) as archive, open(path, "rb") as file:
        for entry in archive.infolist():
            file.seek(entry.header_offset)
            fields = LOCAL_HEADER.unpack(file.read(LOCAL_HEADER.size))
            if entry.compress_type != zipfile.ZIP_STORED:
                raise Failure(f"{entry.filename} is compressed")
            yield entry.filename, entry.header_offset + LOCAL_HEADER.size + fields[9] + fields[10], entry.file_size


def aligned(path, alignment=64):
    """Every record that holds a storage begins at a multiple of `alignment`."""
    starts = [(name, start) for name, start, _ in data_starts(path) if "/data/" in name]
    for name, start in starts:
        if start % alignment:
            raise Failure(f"{name} begins at {start}, which is no multiple of {alignment}")
    return len(starts)


def rewritten(source, output, change, compression=zipfile.ZIP_STORED):
    """A copy made by `zipfile`: `change(name, data)` gives each entry's data, or None to leave it out."""
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(output, "w", compression) as new:
        for entry in old.infolist():
            data = change(entry.filename, old.read(entry))
            if data is not None:
                new.writestr(entry.filename, data)
    return Path(output)
