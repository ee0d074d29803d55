"""`apr perplexity` and `apr imatrix`, judged by llama.cpp's own tools: perplexities and their distance from F32, base files in both
directions, sums of dense models and of experts, statistics, and what llama-quantize makes of apr's file."""

import json
import os
import shutil
import sys
from pathlib import Path

import gguf
import numpy as np

import program
from judges import ROOT
from report import Failure, Skipped
from running_cases import folder_of

sys.path.insert(0, str(ROOT / "tests/model"))
from llama_tools import Tools  # noqa: E402

TRAINED = ROOT / "tests/model/weights"
HELD_OUT = ROOT / "tests/model/held-out.txt"
TOOLS = os.environ.get("APR_LLAMA_TOOLS")
WINDOW = 128
# How far a perplexity may be from llama-perplexity's, as a share.
AS_LIKELY = {"F32": 1e-3, "F16": 1e-3, "Q8_0": 5e-3, "Q4_K_M": 5e-3, "Q5_1": 5e-3, "Q6_K": 5e-3}
# How far a sum may be from llama-imatrix's, as a share. What multiplies F16 rounds activations to F16 there.
AS_IMPORTANT, BEHIND_F16 = 1e-3, 2e-3
# Dense, with one matrix for query, key and value, with experts, and with an expert that every token has.
FAMILIES = ("llama", "qwen3", "phi3", "falcon-40b", "mixtral", "qwen2-moe", "qwen3-moe", "olmoe", "granite-moe")


def near(what, have, want, share):
    if not abs(have - want) <= share * abs(want):
        raise Failure(f"{what}: {have}, llama.cpp has {want}")


def entries(path):
    """The tensors of an importance matrix as the package gguf reads them."""
    reader = gguf.GGUFReader(path)
    keys = {key: field.contents() for key, field in reader.fields.items() if key.startswith(("general", "imatrix"))}
    return keys, {tensor.name: np.array(tensor.data) for tensor in reader.tensors}


class Judge:
    def __init__(self, scratch):
        self.at = scratch
        self.tools = Tools(Path(TOOLS), scratch)
        shutil.copy(HELD_OUT, scratch / "text")
        self.figures = {}

    def file(self, kind):
        path = self.at / f"{kind}.gguf"
        if not path.exists():
            program.must("convert", TRAINED, path, "--quantize", kind)
        return path

    def perplexity(self, kind):
        """Both programs' perplexity of a type, and how far each is from its own of F32."""
        if kind not in self.figures:
            ours = json.loads(program.must("perplexity", self.file(kind), self.at / "text", "--context", WINDOW, "--json"))
            self.figures[kind] = ours["perplexity"]["mean"], self.tools.perplexity(f"{kind}.gguf", "text", WINDOW)["mean"]
        return self.figures[kind]

    def perplexities(self, kind):
        (have, want), (have_f32, want_f32) = self.perplexity(kind), self.perplexity("F32")
        print(f"        {kind}: {have:.4f}, llama.cpp {want:.4f}; over F32 {100 * (have / have_f32 - 1):+.3f} % and {100 * (want / want_f32 - 1):+.3f} %")
        near(kind, have, want, AS_LIKELY[kind])

    def base_files(self):
        """Each program compares Q4_K_M with the base file of the other."""
        program.must("perplexity", self.file("F32"), self.at / "text", "--context", WINDOW, "--chunks", 8, "--save-base", self.at / "ours.kld")
        self.tools.perplexity("F32.gguf", "text", WINDOW, "--chunks", 8, "--kl-divergence-base", "theirs.kld")
        self.file("Q4_K_M")
        theirs = self.tools.divergence("Q4_K_M.gguf", "ours.kld", WINDOW)
        ours = json.loads(program.must("perplexity", self.file("Q4_K_M"), "--kl-base", self.at / "theirs.kld", "--json"))["base"]
        near("the base's perplexity", ours["perplexity"]["mean"], theirs["base_perplexity"]["mean"], 1e-3)
        near("the mean divergence", ours["divergence"]["mean"], theirs["divergence"]["mean"], 0.05)
        near("the median divergence", ours["divergences"]["median"], theirs["divergences"]["median"], 0.1)
        near("the RMS change", ours["rms_probability"]["mean"], theirs["rms_probability"]["mean"], 0.1)
        # A base of our own file is the same to both.
        again = self.tools.divergence("Q4_K_M.gguf", "theirs.kld", WINDOW)
        for name in ("divergence", "same_top", "ratio"):
            near(f"{name} by either base file", theirs[name]["mean"], again[name]["mean"], 1e-3)

    def importance(self, name, model, share=AS_IMPORTANT):
        """Sums, counts and keys of a model of F32 or F16."""
        ours, theirs = self.at / f"{name}-ours.gguf", self.at / f"{name}-theirs.gguf"
        window = min(WINDOW, self.context(model))
        program.must("imatrix", model, self.at / "text", "--context", window, "-o", ours, "--cache-type", "f32", "--process-output")
        self.tools.imatrix(model, "text", window, theirs.name, "-ctk", "f32", "-ctv", "f32", "-fa", "off", "--process-output")
        (have_keys, have), (want_keys, want) = entries(ours), entries(theirs)
        have_keys.pop("imatrix.datasets")
        want_keys.pop("imatrix.datasets")
        if have_keys != want_keys:
            raise Failure(f"keys {have_keys}, llama.cpp {want_keys}")
        if list(have) != list(want):
            raise Failure(f"other tensors: {sorted(have.keys() ^ want.keys())[:6]}")
        worst = 0.0
        for key in want:
            if have[key].shape != want[key].shape:
                raise Failure(f"{key}: shape {have[key].shape}, llama.cpp {want[key].shape}")
            if key.endswith(".counts"):
                if not np.array_equal(have[key], want[key]):
                    raise Failure(f"{key}: {have[key].ravel()[:4]}, llama.cpp {want[key].ravel()[:4]}")
                continue
            far = np.abs(have[key] - want[key]) / np.maximum(np.abs(want[key]), 1e-30)
            worst = max(worst, float(far.max()))
        print(f"        {name}: {len(want) // 2} tensors, sums at most {worst:.1e} apart")
        if worst > share:
            raise Failure(f"sums are {worst:.1e} apart")

    @staticmethod
    def context(model):
        reader = gguf.GGUFReader(model)
        return next(int(field.contents()) for key, field in reader.fields.items() if key.endswith(".context_length"))

    def family(self, name):
        model = self.at / name / "model.gguf"
        program.must("convert", folder_of(name, model.parent), model, "--precision", "f32")
        self.importance(name, model)

    def quantized(self):
        """llama-quantize takes apr's file, and makes the same blocks of it as apr does."""
        source = self.file("F16")
        program.must("imatrix", source, self.at / "text", "--context", WINDOW, "-o", self.at / "q.imatrix.gguf", "--force")
        self.tools.run("llama-quantize", "--imatrix", "q.imatrix.gguf", source.name, "theirs-iq.gguf", "IQ3_S", "1")
        program.must("convert", source, self.at / "ours-iq.gguf", "--quantize", "IQ3_S", "--imatrix", self.at / "q.imatrix.gguf", "--force")
        one, two = ({row["name"]: row for row in program.tensors(self.at / f"{name}-iq.gguf")} for name in ("theirs", "ours"))
        if {name: row["dtype"] for name, row in one.items()} != {name: row["dtype"] for name, row in two.items()}:
            raise Failure("llama-quantize and apr choose other types by apr's importance matrix")
        # This build of llama.cpp uses the processor's fused multiplications, which move single bits; ggml.sh judges bits.
        by_importance = [name for name, row in one.items() if row["dtype"].startswith("IQ")]
        same = [name for name in by_importance if one[name] == two[name]]
        print(f"        {len(same)} of {len(by_importance)} tensors of IQ types are the same")
        if len(same) * 4 < len(by_importance) * 3:
            raise Failure(f"only {len(same)} of {len(by_importance)} tensors are the same")


def run(report, scratch):
    scratch.mkdir()
    if not TOOLS:
        def skipped():
            raise Skipped("llama.cpp's own tools were not built")
        report.step("measured: llama-perplexity and llama-imatrix", skipped)
        return
    judge = Judge(scratch)
    for kind in AS_LIKELY:
        report.step(f"measured: the perplexity of {kind} is llama-perplexity's", judge.perplexities, kind)
    report.step("measured: each program compares with the other's base file", judge.base_files)
    for kind, share in (("F32", AS_IMPORTANT), ("F16", BEHIND_F16)):
        report.step(f"measured: importance over {kind} is llama-imatrix's",
                    lambda kind=kind, share=share: judge.importance(kind, judge.file(kind), share))
    for name in FAMILIES:
        report.step(f"measured: importance of {name} is llama-imatrix's", judge.family, name)
    report.step("measured: llama-quantize makes the same of apr's importance matrix", judge.quantized)
