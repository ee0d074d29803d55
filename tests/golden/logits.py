"""Writes logits.json beside golden.json: what transformers computes in F32 with the seeded weights, for fixed token ids.
README.md describes the file; logits.sh sets up what this needs.

    logits.py [--check] [NAME ...]
"""

import argparse
import base64
import json
import os
import random
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import numpy as np
import torch
import transformers

import nomic_bert
from folder import write_folder
from scaled import scaled_tensors

HERE = Path(__file__).resolve().parent
NAMES = ["llama", "qwen2", "gemma2", "gpt2", "bert", "llama3", "mistral", "mixtral", "qwen3", "qwen2-moe", "qwen3-moe", "gemma",
         "gemma3", "phi2", "phi3", "olmo2", "stablelm", "starcoder2", "command-r", "falcon", "falcon-40b", "gpt-neox", "bloom", "mpt",
         "nomic-bert", "roberta", "exaone4", "glm", "glm4-moe"]
# Long enough to leave the sliding window, and phi3's original context; 48 tokens elsewhere.
LENGTHS = {"gemma2": 96, "gemma3": 96, "starcoder2": 96, "phi3": 160, "exaone4": 96}
# Beside "plain" and "sharp": within phi3's original context the other table of factors holds.
SHORT = {"phi3": 48}
POSITIONS = {"phi3": {"plain": [0, 80, 158, 159], "sharp": [80, 158, 159], "short": [24, 47]}}
# Ids that every vocabulary has, beyond those with a meaning of their own.
LOWEST, HIGHEST = 4, 400
# What another processor's order of additions may change: this part of the largest value, or ten times what F64 changes.
TOLERANCE = 1e-4


def config_of(folder):
    """The configuration. This version does not know where the next one says how positions turn."""
    config = transformers.AutoConfig.from_pretrained(folder)
    stated = json.loads((folder / "config.json").read_text()).get("rope_parameters") or {}
    if "rope_theta" in stated:
        assert stated["rope_type"] == "default", stated
        config.rope_theta = stated["rope_theta"]
    return config


def behind(config):
    """How the names begin of a layer behind the last, which predicts further tokens."""
    return f"model.layers.{config.get('num_hidden_layers')}."


def load(folder, dtype):
    """The model, and whether it gives logits."""
    if json.loads((folder / "config.json").read_text())["model_type"] == "nomic_bert":
        return nomic_bert.load(folder, dtype), False
    config = config_of(folder)
    # A model without an output of its own is an encoder; MPT's name has another capital in this library.
    lower = config.architectures[0].lower()
    gives_logits = lower.endswith(("forcausallm", "lmheadmodel"))
    kind = transformers.AutoModelForCausalLM if gives_logits else transformers.AutoModel
    model, told = kind.from_pretrained(folder, config=config, dtype=dtype, attn_implementation="eager", output_loading_info=True)
    assert not told["missing_keys"] and not told["mismatched_keys"], told
    # Buffers that old checkpoints have beside the weights, and layers behind the last that predict further tokens.
    odd = [name for name in told["unexpected_keys"]
           if not name.endswith(("masked_bias", "rotary_emb.inv_freq", "position_ids")) and not name.startswith(behind(vars(config)))]
    assert not odd, odd
    return model.eval(), gives_logits


def scale(model, scaled):
    """Applies the list to the values in memory, in the model's own type: nothing is rounded to BF16 or F16."""
    held = dict(model.named_parameters())
    for row in scaled:
        part = held[row["tensor"]].data
        for axis, key in ((0, "rows"), (1, "columns")):
            if row.get(key):
                part = part.narrow(axis, *row[key])
        part.mul_(row["multiply"])
        if "add" in row:
            part.add_(row["add"])


@torch.no_grad()
def run(folder, dtype, scaled, ids):
    # MPT makes its mask in the default type.
    torch.set_default_dtype(dtype)
    model, gives_logits = load(folder, dtype)
    scale(model, scaled)
    given = {"input_ids": torch.tensor([ids])}
    if gives_logits:
        return model(**given, use_cache=False).logits[0], True
    return model(**given).last_hidden_state[0], False


def case(folder, name, scaled, ids, positions):
    single, gives_logits = run(folder, torch.float32, scaled, ids)
    double, _ = run(folder, torch.float64, scaled, ids)
    chosen = single[positions].numpy().astype("<f4")
    assert np.isfinite(chosen).all()
    made = {"name": name, "query_key_scale": 3 if scaled else 1, "scaled": scaled, "length": len(ids), "positions": positions}
    made |= {"kind": "logits", "vocabulary": chosen.shape[1]} if gives_logits else {"kind": "hidden", "width": chosen.shape[1]}
    made["largest"] = float(np.abs(chosen).max())
    made["f64_difference"] = float(f"{(single.double() - double.double())[positions].abs().max().item():.2g}")
    made["logits" if gives_logits else "hidden"] = base64.b64encode(chosen.tobytes()).decode()
    return made


def golden(name, folder):
    described = json.loads((HERE / name / "tensors.json").read_text())
    write_folder(described, HERE, folder)
    length = LENGTHS.get(name, 48)
    random_ids = random.Random(f"logits of {name}")
    ids = [random_ids.randrange(LOWEST, HIGHEST) for _ in range(length)]
    config = json.loads((folder / "config.json").read_text())
    scaled = [row for row in scaled_tensors(described, config) if not row["tensor"].startswith(behind(config))]
    asked = [("plain", [], length), ("sharp", scaled, length)] + ([("short", [], SHORT[name])] if name in SHORT else [])
    cases = []
    for title, rule, count in asked:
        positions = POSITIONS.get(name, {}).get(title) or [0, count // 2, count - 2, count - 1]
        cases.append(case(folder, title, rule, ids[:count], positions))
    made = {package: version(package) for package in ("transformers", "torch", "numpy")}
    if name == "nomic-bert":
        made = {"tests/golden/nomic_bert.py": "own"} | {package: version(package) for package in ("torch", "numpy")}
    return {"made_by": made, "ids": ids, "cases": cases}


def dump(value):
    """One line for each case, but a tensor of `scaled` a line."""
    lines = [f' "made_by": {json.dumps(value["made_by"])}', f' "ids": {json.dumps(value["ids"])}']
    cases = []
    for each in value["cases"]:
        held = {key: held for key, held in each.items() if key != "scaled"}
        rows = ",\n".join("   " + json.dumps(row) for row in each["scaled"])
        scaled = f"[\n{rows}]" if rows else "[]"
        cases.append("  " + json.dumps(held)[:-1] + f',\n  "scaled": {scaled}}}')
    return "{\n" + ",\n".join(lines) + ',\n "cases": [\n' + ",\n".join(cases) + "\n ]\n}\n"


def values(each):
    return np.frombuffer(base64.b64decode(each.get("logits") or each["hidden"]), "<f4")


def differs(made, kept):
    """What is not the same but for rounding; None if all is."""
    steady = lambda file: [file["ids"], [{k: v for k, v in each.items() if k not in ("logits", "hidden", "largest", "f64_difference")}
                                         for each in file["cases"]]]
    if steady(made) != steady(kept):
        return "ids or cases differ"
    for one, two in zip(made["cases"], kept["cases"]):
        away = float(np.abs(values(one) - values(two)).max())
        if not away <= max(TOLERANCE * two["largest"], 10 * two["f64_difference"]):
            return f"{one['name']}: {away} away, the largest is {two['largest']}"
    return None


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("names", nargs="*")
    arguments.add_argument("--check", action="store_true", help="compare with what is checked in, and write nothing")
    given = arguments.parse_intermixed_args()
    torch.set_num_threads(1)
    bad = []
    for name in given.names or NAMES:
        with tempfile.TemporaryDirectory() as scratch:
            made = golden(name, Path(scratch))
        target = HERE / name / "logits.json"
        if given.check:
            wrong = differs(made, json.loads(target.read_text()))
            bad += [f"{target}: {wrong}"] if wrong else []
        else:
            target.write_text(dump(made))
        figures = ", ".join(f"{each['name']} {each['largest']:.3g} ± {each['f64_difference']:.1g}" for each in made["cases"])
        print(f"{name}: {figures}", flush=True)
    if bad:
        sys.exit("not what is checked in: " + "; ".join(bad))


if __name__ == "__main__":
    main()
