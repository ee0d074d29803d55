"""The checked-in fixtures, of packages and made by hand: what apr makes of them, the judges read as they read those."""

import json
import struct

import program
from judges import NESTED, ROOT, llama_refuses, load_with_llama, read_gguf, read_safetensors
from models import differences
from report import Failure
from same import agree

# What the package cannot read: it lacks Q2_0 and has another size for Q8_1.
NOT_OF_THE_PACKAGE = {"shapes.gguf"}


def has_nested_arrays(path):
    """Arrays of arrays, which llama.cpp refuses in the fixture and in a right copy of it alike."""
    golden = path.with_suffix(".golden.json")
    files = json.loads(golden.read_text())["files"] if golden.exists() else []
    return any(value.get("of") == "arr" for file in files for _, value in file["keys"])


def by_llama(path, scratch):
    """Loads apr's copy; if llama.cpp loads the fixture too, it must hold the same of both."""
    options = ["-O", "gguf.be-payload=little"] if path.name == "big-endian.gguf" else []
    copy = program.convert(path, scratch / f"llama-{path.name}", *options)
    if has_nested_arrays(path):
        llama_refuses(copy, NESTED)
        return
    ours, said = load_with_llama(copy)
    if ours is None:
        raise Failure(said)
    theirs, _ = load_with_llama(path)
    if theirs is None:
        # It reads no version 1, no other byte order and no offsets out of order: only the copy is judged.
        head = path.read_bytes()[4:8]
        if head == struct.pack("<I", 3) and path.name != "unsorted.gguf":
            raise Failure("llama.cpp refuses the fixture itself")
        return
    if without_version(ours) != without_version(theirs):
        raise Failure("llama.cpp holds another model of apr's copy")


def without_version(model):
    return {name: value for name, value in model.items() if name != "version"}


def by_package(path, scratch, read, extension):
    """What the package reads of apr's copy is what it reads of the fixture, if it can read that."""
    theirs = read(path)
    copy = program.convert(path, scratch / f"package-{path.stem}.{extension}", "--foreign", "typed")
    agree(differences(theirs, read(copy)))


def run(report, scratch):
    scratch.mkdir()
    for path in sorted((ROOT / "plugins/gguf/tests/data").glob("*.gguf")):
        what = "refuses the arrays of arrays" if has_nested_arrays(path) else "loads apr's copy"
        report.step(f"fixture {path.name}: llama.cpp {what}", by_llama, path, scratch)
        # The package reads no version 1 and leaves bytes of another order as they are.
        if path.name not in NOT_OF_THE_PACKAGE and path.read_bytes()[4:8] in (struct.pack("<I", 2), struct.pack("<I", 3)):
            report.step(f"fixture {path.name}: the package reads apr's copy as it reads the fixture",
                        by_package, path, scratch, read_gguf, "gguf")
    for path in sorted((ROOT / "plugins/safetensors/tests/data").glob("*.safetensors")):
        report.step(f"fixture {path.name}: the package reads apr's copy as it reads the fixture",
                    by_package, path, scratch, read_safetensors, "safetensors")
