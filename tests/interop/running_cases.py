"""What apr computes, judged by llama.cpp: the logits after every token, with keys and values in F32 and no flash attention.
Most families with GELU are not here: ggml looks it up in a table, and stands 1e-3 apart from everyone; `tests/inference` has them. It has
EXAONE 4 too, for which llama.cpp goes by the number of layers."""

import json
import shutil
import sys

import numpy as np

import program
from judges import ROOT
from report import Failure
from whole_judges import llama

GOLDENS = ROOT / "tests/golden"
TRAINED = ROOT / "tests/model/weights"
GOLDEN = json.loads((ROOT / "tests/model/golden.json").read_text())
FAMILIES = ("llama", "llama3", "mistral", "mixtral", "qwen2", "qwen3", "qwen2-moe", "qwen3-moe", "phi3", "olmo2", "stablelm", "command-r",
            "afmoe", "arcee", "bailing-moe", "bailing-moe-v2", "chatglm", "codeshell", "cohere2", "cohere2-moe", "dbrx", "deepseek",
            "dots1", "ernie4-5", "ernie4_5-moe", "exaone", "exaone-moe", "falcon-40b", "glm", "glm-ocr", "glm4", "glm4-moe", "glm4v",
            "glm4v-moe", "gpt-oss", "granite", "granite-hybrid-dense", "granite-moe", "granite-swa-dense", "hunyuan-dense", "hunyuan-moe", "hunyuan-vl",
            "hy-v3", "internlm2", "internlm3", "iquestcoder", "jais2", "kormo", "llama-multimodal", "maincoder", "mellum", "minicpm",
            "minimax-m2", "ministral3", "mistral3", "nemotron", "olmo", "olmo3", "olmoe", "openelm", "orion", "paddleocr", "pangu-embedded",
            "phi4-vision", "qwen2-multimodal", "qwen2-vl", "qwen3-asr", "qwen3-multimodal", "qwen3-omni-moe", "qwen3-vl", "qwen3-vl-moe",
            "rugpt3xl", "seed-oss", "smollm3", "solar-open")
TYPES = ("Q8_0", "Q4_K_M", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q5_K_M", "Q6_K")
# The least cosine of the logits after a token, for floats and for blocks: what multiplies blocks rounds activations to
# 8 bits, and no two programs add in one order.
SAME, NEAR = 0.999999, 0.9999
# Where the cosine is less: the distance from F32 arithmetic over the same weights, as a multiple of llama.cpp's own.
AS_FAR = 1.2
# The most likely token must be the same where the second is this far behind, in units of the logits' root mean square.
GAPS = {"F32": 0.02, "Q4_K_M": 0.25}
# How many positions of a family are judged, where that is not all: llama.cpp has no sliding window for it.
WITHIN = {"phi3": 128}
# The context, where what a model computes depends on it: llama.cpp's, and the one beyond which apr refuses to compute.
CONTEXTS = {"minicpm": 512, "ministral3": 64}
# Keys of apr's own for what llama.cpp does not compute: without them both compute the same, with them apr computes what the
# folder says.
UNKNOWN_TO_LLAMA = {"gpt-oss": "gpt-oss.apr.rope.scaling.truncate"}
# Whose context is shorter than the text.
SHORT = ("codeshell", "glm", "ministral3")
TEXT = ("In the beginning was a list of 17 words, and a second one of 3.5: the naive café, \"quoted\" ☃ signs, x_1 = y[2] * z; "
        "then came the others, one after the other.\n\nNobody had counted them before; 1, 2, 3, and so they were counted. ")
STEPS = 512
# How far a perplexity may be from llama-perplexity's, which golden.json has.
AS_LIKELY = 1e-3


def folder_of(name, at):
    """The golden's folder."""
    sys.path.insert(0, str(GOLDENS))
    from folder import write_folder
    described = json.loads((GOLDENS / name / "tensors.json").read_text())
    folder = at / described["folder"]
    folder.mkdir(parents=True)
    write_folder(described, GOLDENS, folder)
    return folder


def ids_of(path, text):
    return [int(word) for word in program.must("tokenizer", path, "--encode", text).split()]


def by_apr(path, text, *more):
    """What apr computes: a row of logits for each token."""
    out = path.parent / f"{path.name}.npy"
    program.must("run", path, text, "--raw", "--logits-out", out, "--force", "--max-tokens", "0", "--cache-type", "f32",
                 "--temperature", "0", *more)
    return np.load(out).astype(np.float64)


def by_llama(path, ids):
    (line,) = llama("logits", path, [" ".join(map(str, ids))])
    return np.fromstring(line, dtype=np.float64, sep=" ").reshape(len(ids), -1)


def least_cosine(have, want):
    if have.shape != want.shape:
        raise Failure(f"logits of {have.shape}, llama.cpp has {want.shape}")
    norms = np.linalg.norm(have, axis=1) * np.linalg.norm(want, axis=1)
    return float(np.min(np.sum(have * want, axis=1) / norms))


def distance(have, exact):
    return float(np.linalg.norm(have - exact) / np.linalg.norm(exact))


def family(name, scratch):
    path = scratch / name / "model.gguf"
    folder = folder_of(name, path.parent)
    program.must("convert", folder, path, "--precision", "f32")
    text = TEXT[:60] if name in SHORT else TEXT
    context = ("--context", CONTEXTS[name]) if name in CONTEXTS else ()
    ids = ids_of(path, text)
    have = known = by_apr(path, text, *context)
    if name in UNKNOWN_TO_LLAMA:
        without = path.with_name("without.gguf")
        program.must("convert", path, without, "--unset", UNKNOWN_TO_LLAMA[name])
        known = by_apr(without, text, *context)
    want = by_llama(path, ids)
    within = WITHIN.get(name, len(want))
    found = least_cosine(known[:within], want[:within])
    if within < len(want) and least_cosine(known, want) >= SAME:
        raise Failure("llama.cpp has a sliding window now")
    # Some tokenizers put more before a text than GGUF can say.
    if ids_of(folder, text) != ids:
        return
    alike = least_cosine(by_apr(folder, text, *context), have)
    if not alike >= SAME:
        raise Failure(f"the least cosine of the folder's logits and its GGUF file's is {alike:.9f}")
    if not found >= SAME:
        raise Failure(f"the least cosine of {within} positions is {found:.9f}")


class Trained:
    """The trained model as GGUF files; what was computed once is kept."""

    def __init__(self, scratch):
        self.at, self.kept = scratch / "trained", {}
        self.at.mkdir(parents=True)
        self.ids = GOLDEN["held_out"]["ids"][:STEPS]
        self.text = program.must("tokenizer", TRAINED, "--decode", " ".join(map(str, self.ids[1:])))

    def file(self, kind, folder=TRAINED):
        path = self.at / f"{folder.name}-{kind}.gguf"
        if not path.exists():
            program.must("convert", folder, path, "--quantize", kind)
        return path

    def ours(self, kind, folder=TRAINED):
        return self.once(("apr", kind, folder), lambda: by_apr(self.file(kind, folder), self.text))

    def theirs(self, kind):
        return self.once(("llama.cpp", kind), lambda: by_llama(self.file(kind), self.ids))

    def exact(self, kind):
        """F32 arithmetic over the weights that the blocks stand for."""
        path = self.at / f"exact-{kind}.gguf"

        def compute():
            program.must("convert", self.file(kind), path, "--dequantize", "f32")
            return by_apr(path, self.text)
        return self.once(("exact", kind), compute)

    def once(self, key, compute):
        if key not in self.kept:
            self.kept[key] = compute()
        return self.kept[key]


def same_text(trained):
    """The prompt's ids are those that llama.cpp is given."""
    ids = ids_of(TRAINED, trained.text)
    if ids != trained.ids:
        raise Failure(f"{len(ids)} ids, not {len(trained.ids)}")


def blocks(trained, kind, folder=TRAINED):
    have, want = trained.ours(kind, folder), trained.theirs(kind)
    cosine = least_cosine(have, want)
    if cosine >= NEAR:
        return f"cosine 1 - {1 - cosine:.1e}"
    ours, theirs = (distance(logits, trained.exact(kind)) for logits in (have, want))
    if not ours <= AS_FAR * theirs:
        raise Failure(f"the least cosine is {cosine:.6f}; {ours:.2e} from F32 arithmetic, llama.cpp {theirs:.2e}")
    return f"cosine 1 - {1 - cosine:.1e}; {ours:.2e} from F32 arithmetic, llama.cpp {theirs:.2e}"


def floats(trained, folder=TRAINED):
    cosine = least_cosine(trained.ours("F32", folder), trained.theirs("F32"))
    if not cosine >= SAME:
        raise Failure(f"the least cosine is {cosine:.9f}")
    return f"cosine 1 - {1 - cosine:.1e}"


def most_likely(trained, kind, folder=TRAINED):
    have, want = trained.ours(kind, folder), trained.theirs(kind)
    top = np.sort(want, axis=1)
    wide = top[:, -1] - top[:, -2] > GAPS[kind] * np.sqrt(np.mean(want ** 2, axis=1))
    if np.sum(wide) < STEPS // 8:
        raise Failure(f"only {np.sum(wide)} of {STEPS} positions have wide gaps: this proves nothing")
    bad = np.flatnonzero((have.argmax(axis=1) != want.argmax(axis=1)) & wide)
    if len(bad):
        raise Failure(f"{len(bad)} of {np.sum(wide)} positions with wide gaps have another token, first {bad[:5].tolist()}")
    return f"{np.sum(wide)} of {STEPS} positions"


def chunks():
    """The ids of each chunk of the held-out text, and the text that has them."""
    held, found = GOLDEN["held_out"], []
    for first in range(0, len(held["ids"]) - held["chunk"] + 1, held["chunk"]):
        ids = [held["ids"][0]] + held["ids"][first + 1:first + held["chunk"]]
        text = program.must("tokenizer", TRAINED, "--decode", " ".join(map(str, ids[1:])))
        if ids_of(TRAINED, text) != ids:
            raise Failure(f"the text of the ids from {first} has others")
        found.append((ids, text))
    return found


def as_likely(trained, kind, folder=TRAINED):
    """The perplexity of the held-out text, by the protocol of `tests/model/perplexity.py`."""
    want, losses = GOLDEN["llama.cpp"]["files"][kind]["perplexity"], []
    for ids, text in trained.once("chunks", chunks):
        logits = by_apr(trained.file(kind, folder), text)
        logits -= logits.max(axis=1, keepdims=True)
        likely = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        losses += [-likely[n, ids[n + 1]] for n in range(len(ids) // 2, len(ids) - 1)]
    have, scored = float(np.exp(np.mean(losses))), GOLDEN["held_out"]["scored"]
    if len(losses) != scored or not abs(have / want - 1) <= AS_LIKELY:
        raise Failure(f"{have:.4f} over {len(losses)} tokens, llama-perplexity says {want:.4f} over {scored}")
    return f"{have:.4f}, llama-perplexity {want:.4f}"


def continues():
    """As README has it: the text goes to stdout, and nothing else."""
    for golden in GOLDEN["greedy"]:
        said = program.must("run", TRAINED, golden["prompt"], "--raw", "--temperature", "0", "--max-tokens", "20", "--cache-type", "f32")
        if not said.strip() or not golden["text"].startswith(said.removesuffix("\n")):
            raise Failure(f"after {golden['prompt']!r} it says {said!r}, not {golden['text']!r}")


def planted(fault, at):
    """A copy of the trained model's folder with a mistake of golden.json."""
    folder = at / fault["name"]
    shutil.copytree(TRAINED, folder)
    config = json.loads((folder / "config.json").read_text()) | fault.get("config", {})
    (folder / "config.json").write_text(json.dumps(config))
    path = folder / "model.safetensors"
    data = bytearray(path.read_bytes())
    begin = 8 + int.from_bytes(data[:8], "little")
    header = json.loads(data[8:begin])

    def held(name):
        first, last = (begin + offset for offset in header[name]["data_offsets"])
        return np.frombuffer(data, "<u2", (last - first) // 2, first).reshape(header[name]["shape"])
    for row in fault.get("fill", []):
        held(row["tensor"])[:] = int(np.array(row["value"], np.float32).view(np.uint32)) >> 16
    for pair in fault.get("swap", []):
        one, two = (held(row["tensor"])[row["rows"][0]:][:row["rows"][1]] for row in pair)
        one[:], two[:] = two.copy(), one.copy()
    for row in fault.get("permute", []):
        values = held(row["tensor"])
        heads = values.reshape(row["heads"], 2, -1, values.shape[1])
        values[:] = heads.swapaxes(1, 2).reshape(values.shape).copy()
    path.write_bytes(data)
    return folder


def is_seen(trained, fault):
    """Every judge says no to the model with the mistake."""
    folder = planted(fault, trained.at)
    missed = []
    for name, judge, args in (("floats", floats, ()), ("blocks of Q8_0", blocks, ("Q8_0",)), ("blocks of Q4_K_M", blocks, ("Q4_K_M",)),
                              ("the most likely token", most_likely, ("F32",)), ("perplexity", as_likely, ("Q8_0",))):
        try:
            missed.append(f"{name}: {judge(trained, *args, folder=folder)}")
        except Failure:
            pass
    if missed:
        raise Failure("not seen by " + "; ".join(missed))


def base_is_seen(scratch):
    """A GGUF file that states ten times the base of the rotation."""
    right, wrong = scratch / "llama/model.gguf", scratch / "llama/wrong.gguf"
    program.must("edit", right, "--set", "llama.rope.freq_base=100000", "--output", wrong)
    found = least_cosine(by_apr(wrong, TEXT), by_llama(right, ids_of(right, TEXT)))
    if found >= SAME:
        raise Failure(f"the cosine is {found:.9f} all the same")


def run(report, scratch):
    scratch.mkdir()
    for name in FAMILIES:
        report.step(f"{name}: llama.cpp's logits in F32", family, name, scratch)
    report.step("llama: another base of the rotation is seen", base_is_seen, scratch)
    trained = Trained(scratch)
    report.step("the trained model: the ids of the text", same_text, trained)
    report.step("the trained model: llama.cpp's logits in F32", floats, trained)
    for kind in TYPES:
        report.step(f"the trained model in {kind}: llama.cpp's logits, or as near to exact arithmetic", blocks, trained, kind)
    for kind in GAPS:
        report.step(f"the trained model in {kind}: the most likely of {STEPS} tokens", most_likely, trained, kind)
    for kind in ("F16", "Q8_0", "Q4_K_M"):
        report.step(f"the trained model in {kind}: llama-perplexity's figure", as_likely, trained, kind)
    report.step("the trained model: its continuations are those of transformers", continues)
    for fault in GOLDEN["faults"]:
        if "skip" not in fault:
            report.step(f"the trained model: {fault['name']} is seen", is_seen, trained, fault)
