"""Families as transformers 5 saves them (`families.py`), in F32 and BF16, with and without a tokenizer, and with a configuration that is silent
where the class says the same: folder -> GGUF -> folder, of which the library computes the same logits, or apr refuses the first step and says what GGUF cannot."""

import atexit
import json
import os
import shutil
import subprocess
from pathlib import Path

import program
from families import FAMILIES, REFUSED, ROUNDED, SMALLEST
from judges import ROOT
from report import Failure, Skipped

PYTHON = os.environ.get("APR_INTEROP_TRANSFORMERS_5_PYTHON", "")
TOKENIZERS = ROOT / "tests/golden/tokenizers"
NEAR = 1e-5
_worker = None
# (type, with a tokenizer, silent of what the class says). A family is made in each of the first two; weekly in the others as well,
# and always where it is not made in one of the two.
VARIANTS = [("F32", False, True), ("BF16", True, False), ("F32", False, False), ("BF16", False, False)]


def fits(name, variant):
    """Whether a family is made in a variant."""
    dtype, tokenizer, silent = variant
    is_rounded = dtype == "BF16" and (name in ROUNDED or name in SMALLEST)
    return not (is_rounded or tokenizer and name in NO_TOKENIZER or silent and name in NOT_SILENT)


def variants(name):
    """The variants in which a family is made in this run."""
    fitting = [variant for variant in VARIANTS if fits(name, variant)]
    return fitting if os.environ.get("APR_INTEROP_WEEKLY") else fitting[:2]


def library(do, **request):
    """The answer of transformers 5, in an interpreter of its own; what it raised is a Failure here."""
    global _worker
    if _worker is None:
        if not PYTHON:
            raise Skipped("there is no interpreter with transformers 5")
        script = Path(__file__).parent / "families_worker.py"
        _worker = subprocess.Popen([PYTHON, "-B", str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        atexit.register(_worker.kill)
        _worker.stdout.readline()
    request = {key: str(value) if isinstance(value, Path) else value for key, value in request.items()}
    print(json.dumps({"do": do} | request), file=_worker.stdin, flush=True)
    answer = json.loads(_worker.stdout.readline() or '{"failed": "its interpreter ended"}')
    if "failed" in answer:
        raise Failure(f"transformers {do}: {answer['failed']}")
    return answer["done"]


def flags(dtype):
    # Else a file of F32 becomes one of F16, as the converter has it.
    return ("--precision", "f32") if dtype == "F32" else ()


# The converter says of any tokenizer of Nemotron which token stands for what is unknown.
NO_TOKENIZER = {"nemotron"}
# Refused by name where they do not say what their layers are.
NOT_SILENT = {"nemotron_h"}
# What sees, which GGUF has in a file of its own: the library fills it in at random, and the logits of texts do not depend on it.
SIGHT = "model.visual."


def there_and_back(name, dtype, tokenizer, silent, at):
    shutil.rmtree(at, ignore_errors=True)
    at.mkdir(parents=True)
    folder, file, back = at / "folder", at / "model.gguf", at / "back"
    library("make", name=name, dtype=dtype, folder=folder, silent=silent)
    if tokenizer:
        kind = "t5-sp" if name.split("-")[0].endswith("t5") else "starcoder"
        for path in (TOKENIZERS / kind).iterdir():
            shutil.copy(path, folder)
    program.must("convert", folder, file, *flags(dtype))
    program.must("convert", file, back, "--to", "huggingface")
    said = library("compare", before=folder, after=back)
    missing = [name for name in said["missing"] if not name.startswith(SIGHT)]
    if missing or said["unexpected"]:
        raise Failure(f"transformers misses {missing} and does not expect {said['unexpected']}")
    if not said["difference"] <= NEAR:
        raise Failure(f"logits differ by {said['difference']:.2g} of their RMS; the configuration: {said['config']}")
    shutil.rmtree(at)


def refused(name, reason, at):
    library("make", name=name, dtype="BF16", folder=at / "folder")
    said = program.refuses(4, "convert", at / "folder", at / "model.gguf")
    if reason not in said:
        raise Failure(f"it says {said.strip()}")


def run(report, scratch):
    scratch.mkdir()
    for name in FAMILIES:
        for dtype, tokenizer, silent in variants(name):
            how = f"{dtype}, {'with' if tokenizer else 'without'} a tokenizer" + (", silent of what its class says" if silent else "")
            step = f"{name} as transformers 5 saves it, {how}: the same logits behind GGUF"
            report.step(step, there_and_back, name, dtype, tokenizer, silent, scratch / name)
    for name, (_, reason) in REFUSED.items():
        report.step(f"{name} as transformers 5 saves it is refused by name", refused, name, reason, scratch / name)
