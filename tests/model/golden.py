"""Writes golden.json: what transformers computes in F32 with weights/, and llama.cpp with GGUF files of them. README.md describes it.

    golden.py APR LLAMA_TOOLS [--check] [--search]
"""

import argparse
import base64
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from importlib.metadata import version
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer

import perplexity as measured

HERE = Path(__file__).resolve().parent
WEIGHTS = HERE / "weights"
# Of those with wide gaps, which `--search` finds: what follows the last does not go round in a circle at once.
PROMPTS = ["Woe unto the children of Israel", "The sons of Moses", "But the"]
LOGITS_PROMPT = "And the LORD spake unto Moses, saying, Speak unto the children of Israel, and say unto them,"
EMBEDDED = "The LORD is my shepherd; I shall not want."
STEPS = 64
# Of the held-out text, in one context: as many positions as the model has.
TEACHER = 512
LLAMA_PACKAGE = "llama-cpp-python 0.3.36"
TYPES = ("F32", "F16", "Q8_0", "Q4_K_M")
TOLERANCE = 1e-4
LAYERS = 4
QUERY, KEY = "model.layers.{}.self_attn.q_proj.weight", "model.layers.{}.self_attn.k_proj.weight"
# Each is a mistake that a reader of such models could make. Swapped are as many rows as there are keys: queries of heads 0 and 1.
FAULTS = [
    {"name": "rotation", "what": "the base of the rotation is ten times as large", "config": {"rope_theta": 100000.0}},
    {"name": "rotation-slow", "what": "the base of the rotation is a tenth", "config": {"rope_theta": 1000.0}},
    {"name": "pairs", "what": "the rows of queries and keys are in GGUF's order, and are turned as in Hugging Face's", "permute": [
        {"tensor": name.format(n), "heads": heads} for n in range(LAYERS) for name, heads in ((QUERY, 4), (KEY, 2))]},
    {"name": "gain", "what": "every gain of one norm is 1", "fill": [{"tensor": "model.layers.0.input_layernorm.weight", "value": 1.0}]},
    {"name": "norm", "what": "one norm is left out, its gain too", "skip": ["model.layers.1.post_attention_layernorm"]},
    {"name": "query-key", "what": "queries and keys are swapped in every layer",
     "swap": [[{"tensor": QUERY.format(n), "rows": [0, 128]}, {"tensor": KEY.format(n), "rows": [0, 128]}] for n in range(LAYERS)]},
]


def load(changes=None):
    config = transformers.AutoConfig.from_pretrained(WEIGHTS)
    for key, value in (changes or {}).items():
        assert hasattr(config, key), key
        setattr(config, key, value)
    model = transformers.LlamaForCausalLM.from_pretrained(WEIGHTS, config=config, dtype=torch.float32, attn_implementation="eager")
    return model.eval()


@torch.no_grad()
def faulty(fault):
    model = load(fault.get("config"))
    held = dict(model.named_parameters())
    for row in fault.get("fill", []):
        held[row["tensor"]].fill_(row["value"])
    for one, two in fault.get("swap", []):
        one, two = (held[row["tensor"]].narrow(0, *row["rows"]) for row in (one, two))
        kept = one.clone()
        one.copy_(two)
        two.copy_(kept)
    for row in fault.get("permute", []):
        # Of each head, its halves as [2, half] become pairs as [half, 2].
        rows, columns = held[row["tensor"]].shape
        halves = held[row["tensor"]].view(row["heads"], 2, rows // row["heads"] // 2, columns)
        held[row["tensor"]].copy_(halves.transpose(1, 2).reshape(rows, columns))
    for name in fault.get("skip", []):
        model.get_submodule(name).forward = lambda states: states
    return model


def encoded(values):
    return base64.b64encode(np.ascontiguousarray(values, "<f4").tobytes()).decode()


@torch.no_grad()
def greedy(model, prompts, stop, least=0.0):
    """For each prompt's ids the most likely ids, and how far the second is behind; ends at an end, and where that is less than `least`."""
    for ids in prompts:
        given, taken, gaps = list(ids), [], []
        while len(taken) < STEPS:
            two = model(torch.tensor([given]), use_cache=False).logits[0, -1].topk(2)
            taken.append(two.indices[0].item())
            gaps.append(round((two.values[0] - two.values[1]).item(), 4))
            given.append(taken[-1])
            if taken[-1] in stop or gaps[-1] < least:
                break
        yield taken, gaps


@torch.no_grad()
def teacher(model, ids):
    """The most likely id after each of the ids, whatever stands there; and how far the second is behind, as a part of the logits' RMS."""
    logits = model(torch.tensor([ids]), use_cache=False).logits[0].double()
    two = logits.topk(2)
    gaps = (two.values[:, 0] - two.values[:, 1]) / logits.square().mean(-1).sqrt()
    return {"ids": len(ids), "most_likely": two.indices[:, 0].tolist(), "gaps": [round(gap, 4) for gap in gaps.tolist()]}


def search(model, tokenizer, stop):
    """Prints beginnings of sentences whose continuations have wide gaps."""
    starts = ("And", "And the", "And he", "Then", "The LORD", "Now", "Behold", "Therefore", "But", "For", "So", "And when", "Thus saith", "In the",
              "These are", "Blessed", "Woe unto", "Hear", "O LORD", "Let", "If", "Who", "He that", "Jesus", "The sons of", "My son", "I")
    ends = ("", " the", " the king", " it came to pass", " the LORD said unto", " the children of Israel", " David", " Moses", " of the house of",
            " is", " shall be", " in the land of", " he said", " the people", " unto", " not", " all the", " ye", " when")
    found = []
    for text in (one + two for one in starts for two in ends):
        taken, gaps = next(greedy(model, [tokenizer.encode(text).ids], stop, 0.04))
        if len(taken) == STEPS and min(gaps) >= 0.04:
            found.append((min(gaps), text, tokenizer.decode(taken)))
    for row in sorted(found, reverse=True)[:25]:
        print(row)


def by_llama(apr, tools, scratch):
    """llama-perplexity's figures for the files that apr makes."""
    found = {}
    for kind in TYPES:
        file = scratch / f"{kind}.gguf"
        subprocess.run([apr, "convert", WEIGHTS, file, "--quantize", kind], check=True, capture_output=True)
        # One thread and one sequence: a figure that does not depend on how work is divided.
        command = ["llama-perplexity", "-m", f"{kind}.gguf", "-f", "held-out.txt", "-c", str(measured.CHUNK), "-b", str(measured.CHUNK),
                   "-t", "1", "--no-warmup"]
        ran = subprocess.run([tools / command[0], "-m", file, "-f", HERE / "held-out.txt", *command[5:]], capture_output=True, text=True)
        said = ran.stdout + ran.stderr
        figure = re.search(r"Final estimate: PPL = ([0-9.]+) \+/- ([0-9.]+)", said)
        assert figure, said[-2000:]
        found[kind] = {"perplexity": float(figure[1]), "plus_minus": float(figure[2]), "bytes": file.stat().st_size,
                       "command": " ".join(command)}
    return found


def make(apr, tools, scratch):
    torch.set_num_threads(1)
    tokenizer = Tokenizer.from_file(str(WEIGHTS / "tokenizer.json"))
    model = load()
    bos, stop = model.config.bos_token_id, model.config.eos_token_id
    text = (HERE / "held-out.txt").read_text()
    ids = tokenizer.encode(text).ids
    losses = measured.losses(model, ids, bos)
    right = math.exp(sum(losses) / len(losses))
    # What a model would reach that knows nothing but how often each token stands in this very text.
    counts = Counter(ids)
    unigram = math.exp(-sum(n * math.log(n / len(ids)) for n in counts.values()) / len(ids))
    made = {"made_by": {package: version(package) for package in ("transformers", "torch", "tokenizers", "numpy")}}
    made["held_out"] = {"file": "held-out.txt", "ids": ids, "chunk": measured.CHUNK, "chunks": len(ids) // measured.CHUNK,
                        "scored": len(losses), "loss": sum(losses) / len(losses), "perplexity": right, "unigram_perplexity": unigram}
    made["faults"] = []
    for fault in FAULTS:
        wrong = measured.perplexity(faulty(fault), ids, bos)
        made["faults"].append(fault | {"perplexity": wrong, "times": round(wrong / right, 4)})
    prompt = tokenizer.encode(LOGITS_PROMPT).ids
    positions = [0, len(prompt) // 2, len(prompt) - 2, len(prompt) - 1]
    with torch.no_grad():
        logits = model(torch.tensor([prompt]), use_cache=False).logits[0, positions].numpy()
    made["logits"] = {"prompt": LOGITS_PROMPT, "ids": prompt, "positions": positions, "vocabulary": logits.shape[1],
                      "largest": float(np.abs(logits).max()), "logits": encoded(logits)}
    made["teacher"] = teacher(model, ids[:TEACHER])
    made["greedy"] = []
    prompts = [tokenizer.encode(text).ids for text in PROMPTS]
    for text, given, (taken, gaps) in zip(PROMPTS, prompts, greedy(model, prompts, stop)):
        made["greedy"].append({"prompt": text, "ids": given, "continuation": taken, "text": tokenizer.decode(taken, skip_special_tokens=False),
                               "gaps": gaps, "smallest_gap": min(gaps)})
    embedded = tokenizer.encode(EMBEDDED).ids
    with torch.no_grad():
        states = model.model(torch.tensor([embedded]), use_cache=False).last_hidden_state[0].mean(0).numpy()
    made["embedding"] = {"text": EMBEDDED, "ids": embedded, "pooling": "mean", "width": len(states), "values": encoded(states)}
    made["llama.cpp"] = {"made_by": LLAMA_PACKAGE, "files": by_llama(apr, tools, scratch)}
    return made


def dump(value, depth=0):
    """JSON in which what holds no objects is one line."""
    flat = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, (dict, list)) or "{" not in flat[1:] and (depth or isinstance(value, list)) or depth == 2:
        return flat
    space = " " * (depth + 1)
    if isinstance(value, dict):
        rows, ends = [f"{json.dumps(key)}: {dump(held, depth + 1)}" for key, held in value.items()], "{}"
    else:
        rows, ends = [dump(held, depth + 1) for held in value], "[]"
    return f"{ends[0]}\n{space}" + f",\n{space}".join(rows) + f"\n{' ' * depth}{ends[1]}"


def differs(made, kept, place=""):
    """Where two values are not the same but for rounding."""
    if isinstance(made, dict) and isinstance(kept, dict) and made.keys() == kept.keys():
        return [bad for key in made if key not in ("made_by", "plus_minus", "times") for bad in differs(made[key], kept[key], f"{place}/{key}")]
    if place.endswith(("/logits/logits", "/values")):
        one, two = (np.frombuffer(base64.b64decode(value), "<f4") for value in (made, kept))
        return [] if one.shape == two.shape and np.abs(one - two).max() <= TOLERANCE * np.abs(two).max() else [place]
    if isinstance(made, list) and isinstance(kept, list) and len(made) == len(kept):
        return [bad for number, pair in enumerate(zip(made, kept)) for bad in differs(*pair, f"{place}/{number}")]
    if isinstance(made, float) and isinstance(kept, float):
        # llama.cpp's kernels depend on the processor. Gaps are rounded to four digits: two may fall to either side.
        within = 2e-3 * kept if "/llama.cpp/" in place else TOLERANCE * max(1.0, abs(kept)) * (2 if "/gaps/" in place else 1)
        return [] if abs(made - kept) <= within else [f"{place}: {made}, {kept} is checked in"]
    return [] if made == kept else [place]


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("apr", type=Path)
    arguments.add_argument("tools", type=Path)
    arguments.add_argument("--check", action="store_true", help="compare with what is checked in, and write nothing")
    arguments.add_argument("--search", action="store_true", help="look for prompts with wide gaps, and write nothing")
    given = arguments.parse_args()
    if given.search:
        torch.set_num_threads(1)
        model = load()
        return search(model, Tokenizer.from_file(str(WEIGHTS / "tokenizer.json")), model.config.eos_token_id)
    with tempfile.TemporaryDirectory() as scratch:
        made = make(given.apr, given.tools, Path(scratch))
    target = HERE / "golden.json"
    for fault in [made["held_out"] | {"name": "none"}] + made["faults"]:
        print(f"{fault['name']}: perplexity {fault['perplexity']:.4f}")
    for kind, held in made["llama.cpp"]["files"].items():
        print(f"llama.cpp, {kind}: perplexity {held['perplexity']}")
    if not given.check:
        target.write_text(dump(made) + "\n")
    elif bad := differs(made, json.loads(target.read_text())):
        sys.exit("not what is checked in: " + "; ".join(bad))


if __name__ == "__main__":
    main()
