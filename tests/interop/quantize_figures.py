"""Prints what quantizing a model of 1 GB costs, beside llama.cpp: `quantize_figures.py FOLDER [ROUNDS]`.

Called by quantize_figures.sh. Both have two threads; orders alternate from round to round, and medians are given.
"""

import json
import math
import os
import statistics
import struct
import subprocess
import sys
from pathlib import Path

import gguf
import numpy as np

from costs import cost
from judges import ROOT
from program import APR, environment

ASKER = os.environ["APR_INTEROP_ASKER"]
HIDDEN, FORWARD, LAYERS, HEADS, SHARED = 2048, 5632, 11, 32, 8
Q4_K_M = 15


def shapes():
    yield "model.embed_tokens.weight", [720, HIDDEN]
    for n in range(LAYERS):
        at = f"model.layers.{n}."
        key = HIDDEN // HEADS * SHARED
        yield at + "input_layernorm.weight", [HIDDEN]
        yield at + "mlp.down_proj.weight", [HIDDEN, FORWARD]
        yield at + "mlp.gate_proj.weight", [FORWARD, HIDDEN]
        yield at + "mlp.up_proj.weight", [FORWARD, HIDDEN]
        yield at + "post_attention_layernorm.weight", [HIDDEN]
        yield at + "self_attn.k_proj.weight", [key, HIDDEN]
        yield at + "self_attn.o_proj.weight", [HIDDEN, HIDDEN]
        yield at + "self_attn.q_proj.weight", [HIDDEN, HIDDEN]
        yield at + "self_attn.v_proj.weight", [key, HIDDEN]
    yield "model.norm.weight", [HIDDEN]
    yield "lm_head.weight", [720, HIDDEN]


def make(folder):
    """The golden's folder with more layers, and weights that are about normal."""
    folder.mkdir()
    golden = ROOT / "tests/golden"
    config = json.loads((golden / "llama/config.json").read_text())
    config |= {"hidden_size": HIDDEN, "intermediate_size": FORWARD, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
               "num_key_value_heads": SHARED, "head_dim": HIDDEN // HEADS}
    (folder / "config.json").write_text(json.dumps(config))
    for name in ("tokenizer.json", "tokenizer.model", "tokenizer_config.json"):
        (folder / name).write_bytes((golden / "tokenizers/llama-sp" / name).read_bytes())
    header, at = {}, 0
    for name, shape in shapes():
        size = 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    random = np.random.default_rng(1)
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, shape in shapes():
            values = (random.standard_normal(math.prod(shape), dtype=np.float32) * np.float32(0.02)).view(np.uint32)
            file.write((values >> 16).astype("<u2").tobytes())
    return at


def figure(what, value, target, unit, least=False):
    met = value >= target if least else value <= target
    bound = "at least" if least else "at most"
    print(f"{what}: {value:.2f} {unit} ({bound} {target} {unit}): {'met' if met else 'MISSED'}", flush=True)


def tensors_of(path):
    return {tensor.name: (tensor.tensor_type.name, tensor.data.tobytes()) for tensor in gguf.GGUFReader(path).tensors}


def main():
    scratch, rounds = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 3
    folder, base = scratch / "model", scratch / "base.gguf"
    size = make(folder)
    subprocess.run([APR, "convert", "-q", folder, base, "--precision", "bf16"], check=True, env=environment())
    theirs, ours = scratch / "theirs.gguf", scratch / "ours.gguf"
    commands = {
        "llama.cpp": lambda: cost([ASKER, "quantize", str(base)], input=f"{Q4_K_M} {theirs} -\n"),
        "apr": lambda: cost([APR, "convert", "-q", "--force", "-j", "2", str(folder), str(ours), "--quantize", "Q4_K_M"]),
    }
    found = {name: [] for name in commands}
    for number in range(rounds):
        for name in sorted(commands, reverse=number % 2 == 1):
            found[name].append(commands[name]())
    one, two = tensors_of(theirs), tensors_of(ours)
    differ = sum(one[name] != two.get(name) for name in one)
    print(f"{size / 1e9:.2f} GB of BF16 to Q4_K_M, 2 threads, {rounds} rounds; {differ} of {len(one)} tensors differ")
    for name, costs in found.items():
        wall, cpu, memory = (statistics.median(values) for values in zip(*costs))
        print(f"{name}: {wall:.2f} s, {cpu:.2f} s of the processors, {memory:.0f} MiB")
    middle = {name: statistics.median(cost[0] for cost in costs) for name, costs in found.items()}
    figure("as fast as llama.cpp, times", middle["llama.cpp"] / middle["apr"], 5, "x", least=True)
    figure("apr's memory, RSS", max(cost[2] for cost in found["apr"]), 256, "MiB")


main()
