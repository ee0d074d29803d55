"""A model of a size at which memory is what bounds decoding: a folder of seeded BF16 weights that are about normal, shaped
like a Llama, with the trained model's tokenizer. As a program:

    decode_model.py FOLDER [LAYERS HIDDEN FORWARD HEADS SHARED VOCABULARY]
"""

import json
import math
import struct
import sys
from pathlib import Path

import numpy as np

HIDDEN, FORWARD, LAYERS, HEADS, SHARED, VOCABULARY, CONTEXT = 1536, 8960, 36, 12, 2, 32000, 4096
# Normal numbers, drawn once: a tensor is a run of them that begins anywhere.
POOL = 1 << 26
TRAINED = Path(__file__).resolve().parents[1] / "model/weights"


def shapes():
    """Every tensor in the order in which it is written."""
    yield "model.embed_tokens.weight", [VOCABULARY, HIDDEN]
    key = HIDDEN // HEADS * SHARED
    for n in range(LAYERS):
        at = f"model.layers.{n}."
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
    yield "lm_head.weight", [VOCABULARY, HIDDEN]


def make(folder):
    """Writes the folder; ids beyond the tokenizer's own 1536 mean nothing."""
    folder.mkdir(parents=True)
    config = json.loads((TRAINED / "config.json").read_text())
    config |= {"hidden_size": HIDDEN, "intermediate_size": FORWARD, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
               "num_key_value_heads": SHARED, "head_dim": HIDDEN // HEADS, "vocab_size": VOCABULARY,
               "max_position_embeddings": CONTEXT, "tie_word_embeddings": False}
    (folder / "config.json").write_text(json.dumps(config))
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        (folder / name).write_bytes((TRAINED / name).read_bytes())
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in shapes():
        size = 2 * math.prod(shape)
        header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    random = np.random.default_rng(1)
    # A deviation at which a sum over a row neither grows nor fades much from layer to layer.
    pool = random.standard_normal(POOL, dtype=np.float32) * np.float32(0.02)
    pool = (pool.view(np.uint32) >> 16).astype("<u2")
    one = np.array([1.0], np.float32).view(np.uint32) >> 16
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for name, shape in shapes():
            count = math.prod(shape)
            if name.endswith("norm.weight"):
                file.write(np.full(count, one[0], "<u2").tobytes())
                continue
            first = int(random.integers(0, POOL - count))
            pool[first:first + count].tofile(file)
    return at


if __name__ == "__main__":
    if len(sys.argv) > 2:
        LAYERS, HIDDEN, FORWARD, HEADS, SHARED, VOCABULARY = map(int, sys.argv[2:])
        POOL = max(POOL, 2 * VOCABULARY * HIDDEN)
    make(Path(sys.argv[1]))
