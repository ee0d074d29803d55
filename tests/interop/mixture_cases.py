"""llama-quantize's mixtures: the goldens' folders, quantized at once by apr, and by way of a BF16 GGUF by llama.cpp itself.
Every tensor has the same type and bytes; llama.cpp loads apr's file, and finds every text as likely as by its own."""

import json
import math
import struct
import sys

import gguf
import numpy as np

import program
from judges import ROOT
from report import Failure
from seed import SEED
from whole_judges import llama

GOLDENS = ROOT / "tests/golden"
# Grouped heads; eight experts; output and embedding in one; fused queries, keys and values; other rules for Falcon.
MODELS = ("llama", "mixtral", "qwen2", "phi3", "falcon")
# Of the last three only mixtures of each kind: the types are made as for the others.
FEW = ("Q2_K", "Q3_K_L", "Q4_K_M", "Q5_K_S", "IQ3_XS", "IQ4_XS", "Q8_0")
# `llama_ftype`, by the names of llama-quantize.
MIXTURES = {
    "Q4_0": 2, "Q4_1": 3, "Q8_0": 7, "Q5_0": 8, "Q5_1": 9, "Q2_K": 10, "Q3_K_S": 11, "Q3_K_M": 12, "Q3_K_L": 13, "Q4_K_S": 14,
    "Q4_K_M": 15, "Q5_K_S": 16, "Q5_K_M": 17, "Q6_K": 18, "IQ2_XXS": 19, "IQ2_XS": 20, "Q2_K_S": 21, "IQ3_XS": 22, "IQ3_XXS": 23,
    "IQ1_S": 24, "IQ4_NL": 25, "IQ3_S": 26, "IQ3_M": 27, "IQ2_S": 28, "IQ2_M": 29, "IQ4_XS": 30, "IQ1_M": 31, "TQ1_0": 36,
    "TQ2_0": 37, "MXFP4_MOE": 38, "Q1_0": 40, "Q2_0": 41,
}


def make(name, scratch):
    """The golden's folder, a GGUF of its BF16, and importance for every matrix of a layer."""
    sys.path.insert(0, str(GOLDENS))
    from folder import write_folder
    described = json.loads((GOLDENS / name / "tensors.json").read_text())
    at = scratch / name
    folder = at / described["folder"]
    folder.mkdir(parents=True)
    write_folder(described, GOLDENS, folder)
    program.must("convert", folder, at / "base.gguf", "--precision", "bf16")
    random = np.random.default_rng(SEED)
    entries = []
    for tensor in gguf.GGUFReader(at / "base.gguf").tensors:
        shape = [int(n) for n in tensor.shape]
        if len(shape) > 1 and tensor.name.startswith("blk."):
            matrices = shape[2] if len(shape) > 2 else 1
            values = (random.standard_normal(shape[0] * matrices).astype(np.float32) ** 2 + np.float32(1e-4)) * 3
            entries.append(struct.pack("<i", len(tensor.name)) + tensor.name.encode()
                           + struct.pack("<ii", 3, len(values)) + values.astype("<f4").tobytes())
    (at / "matrix.dat").write_bytes(struct.pack("<i", len(entries)) + b"".join(entries))


def tensors_of(path):
    """Types and bytes, by the package; it does not know the newest types, which apr itself must read."""
    try:
        return {tensor.name: (tensor.tensor_type.name, tensor.data.tobytes()) for tensor in gguf.GGUFReader(path).tensors}
    except ValueError:
        return {row["name"]: (row["dtype"], row["sha256"]) for row in program.tensors(path)}


def same(at, name, mixture, matrix):
    folder = next(path for path in at.iterdir() if path.is_dir())
    theirs, ours = at / "theirs.gguf", at / "ours.gguf"
    for path in (theirs, ours):
        path.unlink(missing_ok=True)
    said = llama("quantize", at / "base.gguf", [f"{MIXTURES[mixture]} {theirs} {at / 'matrix.dat' if matrix else '-'}"])
    args = ["--imatrix", at / "matrix.dat"] if matrix else []
    code, _, err = program.run("convert", folder, ours, "--quantize", mixture, *args)
    if not said or said[0] != "done":
        # It says so, or ends: where a matrix is missing, or a type does not fit.
        if code == 0:
            raise Failure(f"llama.cpp refuses ({said}), apr writes")
        return
    if code != 0:
        raise Failure(f"llama.cpp writes, apr refuses: {err.strip()}")
    one, two = tensors_of(theirs), tensors_of(ours)
    if one.keys() != two.keys():
        raise Failure(f"other tensors: {sorted(one.keys() ^ two.keys())[:5]}")
    bad = [f"{key}: {one[key][0]} and {two[key][0]}" for key in one if one[key] != two[key]]
    if bad:
        raise Failure(f"{len(bad)} of {len(one)} tensors differ: {', '.join(bad[:5])}")
    if "Q2_0" in mixture:
        return
    keys = [{key: (field.types[0].name, field.contents()) for key, field in gguf.GGUFReader(path).fields.items()
             if key in ("general.file_type", "general.quantization_version")} for path in (theirs, ours)]
    if keys[0] != keys[1]:
        raise Failure(f"other keys: {keys[0]} and {keys[1]}")


def from_gguf(at):
    """A GGUF file gives the same blocks as the folder."""
    folder = next(path for path in at.iterdir() if path.is_dir())
    for number, source in enumerate((folder, at / "base.gguf")):
        program.must("convert", source, at / f"from{number}.gguf", "--quantize", "Q4_K_M")
    if tensors_of(at / "from0.gguf") != tensors_of(at / "from1.gguf"):
        raise Failure("a folder and the GGUF file made of it give other blocks")


IDS = [int(n) for n in np.random.default_rng(SEED).integers(3, 500, 128)]


def perplexity(path):
    (line,) = llama("logits", path, [" ".join(map(str, IDS))])
    logits = np.array(line.split(), dtype=np.float64).reshape(len(IDS), -1)
    logits -= logits.max(axis=1, keepdims=True)
    likely = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
    return math.exp(-np.mean([likely[n, IDS[n + 1]] for n in range(len(IDS) - 1)]))


def as_likely(at, mixture):
    folder = next(path for path in at.iterdir() if path.is_dir())
    theirs, ours = at / "theirs-p.gguf", at / "ours-p.gguf"
    said = llama("quantize", at / "base.gguf", [f"{MIXTURES[mixture]} {theirs} -"])
    if said != ["done"]:
        raise Failure(f"llama.cpp: {said}")
    program.must("convert", folder, ours, "--quantize", mixture)
    one, two, base = perplexity(theirs), perplexity(ours), perplexity(at / "base.gguf")
    for path in (theirs, ours):
        path.unlink()
    if one != two:
        raise Failure(f"perplexity {one} by llama.cpp's file, {two} by apr's")
    if one == base:
        raise Failure("quantizing changes nothing: this proves nothing")


def run(report, scratch):
    scratch.mkdir()
    for name in MODELS:
        report.step(f"{name}: a GGUF of BF16, and importance", make, name, scratch)
        at = scratch / name
        if not (at / "matrix.dat").is_file():
            continue
        for mixture in MIXTURES if name in MODELS[:2] else FEW:
            for matrix in (False, True):
                with_matrix = " with importance" if matrix else ""
                report.step(f"{name}: {mixture}{with_matrix} as llama-quantize, to the byte", same, at, name, mixture, matrix)
        report.step(f"{name}: a folder and its GGUF give the same blocks", from_gguf, at)
    for mixture in ("Q4_K_M", "Q2_K", "Q8_0", "IQ4_XS"):
        report.step(f"llama: {mixture} has llama.cpp's own perplexity", as_likely, scratch / "llama", mixture)
