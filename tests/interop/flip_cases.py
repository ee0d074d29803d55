"""The judges can say no: one flipped byte of a file that apr wrote, in four kinds of places, must fail each of them."""

from pathlib import Path

import program
from judges import llama_differences, read_apr, read_gguf, read_safetensors
from models import differences
from report import Failure, Skipped
from same import agree, same_file
from seed import random_of
from writers import safetensors_tensors, tensors_of, write_gguf, write_safetensors

KEYS = [("interop.text", "str", "a text that is changed"), ("interop.numbers", "[u32]", [0x11223344] * 4)]


def places(data, tensor, others):
    """Offsets of bytes that mean something: in a name, in values, in weights, in the magic."""
    where = {"the magic": 0, "a tensor's name": data.index(tensor.name.encode()) + 1, "the weights": data.index(tensor.data) + 5}
    return where | {name: data.index(raw) + 1 for name, raw in others.items()}


def must_fail(report, judge_name, judge, path, where):
    """One step: the judge passes the file as it is, and fails each flipped copy of it."""
    def run():
        judge(path)
        data = path.read_bytes()
        for what, at in where(data).items():
            flipped = Path(f"{path}.flipped{path.suffix}")
            flipped.write_bytes(data[:at] + bytes([data[at] ^ 1]) + data[at + 1:])
            try:
                judge(flipped)
            except Skipped:
                raise
            except Exception:
                continue
            raise Failure(f"a flipped byte at {at}, in {what}, is not noticed")
    report.step(f"a flipped byte fails {judge_name}", run)


def run(report, scratch):
    random = random_of("flips")
    (source,), want = write_gguf(scratch / "m.gguf", KEYS, tensors_of(random, ["F32", "Q8_0"]))
    apr = program.convert(source, scratch / "m.apr")
    back = program.convert(apr, scratch / "back.gguf")
    values = {"a text": b"a text that", "numbers": b"\x44\x33\x22\x11"}

    def in_gguf(data):
        return places(data, want.tensors[0], values)
    must_fail(report, "the comparison of files", lambda path: same_file(source, path), back, in_gguf)
    must_fail(report, "the package gguf", lambda path: agree(differences(want, read_gguf(path))), back, in_gguf)
    must_fail(report, "llama.cpp's loader", lambda path: agree(llama_differences(want, path)), back, in_gguf)

    def in_apr(data):
        # Its CRC-32 covers every byte, padding too; the footer is judged by itself.
        everywhere = {f"byte {at}": at for at in range(0, len(data), max(1, len(data) // 200))}
        return everywhere | {"the footer": len(data) - 1, "the CRC-32": len(data) - 16}
    must_fail(report, "the reader of the specification", lambda path: agree(differences(want, read_apr(path))), apr, in_apr)
    must_fail(report, "apr validate --checksum", lambda path: program.must("validate", path, "--checksum"), apr, in_apr_places)

    safetensors = scratch / "m.safetensors"
    written = write_safetensors(safetensors, safetensors_tensors(random, ["float32", "int16"]), {"format": "a text that"})
    ours = program.convert(safetensors, scratch / "ours.safetensors")
    must_fail(report, "the package safetensors", lambda path: agree(differences(written, read_safetensors(path))), ours,
              lambda data: places(data, max(written.tensors, key=lambda t: len(t.data)), {"a text": b"a text that"}))
    must_fail(report, "apr's own list of tensors", lambda path: listed(path, want), back,
              lambda data: {k: v for k, v in in_gguf(data).items() if k not in values})


def in_apr_places(data):
    return {f"byte {at}": at for at in range(3, len(data), len(data) // 8)}


def listed(path, want):
    rows = [(r["name"], r["dtype"], tuple(r["shape"]), r["sha256"]) for r in program.tensors(path)]
    if rows != [t.facts() for t in want.tensors]:
        raise Failure("other tensors")
