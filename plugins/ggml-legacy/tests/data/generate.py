#!/usr/bin/env python3
"""Writes the fixtures: `python3 generate.py`, in this folder, with numpy 2.4.6 and gguf 0.19.0.

No release that wrote these formats can be installed, so each layout is written here from its program's source:

| fixture | follows |
| --- | --- |
| ggjt-v3 | llama.cpp 2d5db483 (19 May 2023) and 99009e72 (5 June 2023, K types), `llama.cpp`: `llama_file_saver` |
| ggjt-v2 | llama.cpp b9fd7eee (11 May 2023), `llama.cpp`, `ggml.c`: `block_q4_0` ... with f32 scales |
| ggjt-v1, q4_2 | llama.cpp 574406dc (26 April 2023), `ggml.c`: neighbours share a byte; `convert.py` of 723dac55 |
| ggmf, ggml-llama | llama.cpp 074bea2e (20 March 2023) and before, `convert-pth-to-ggml.py` |
| ggla | llama.cpp 315a95a4 (17 April 2023), `convert-lora-to-ggml.py` |
| whisper-qnt0 to 2 | whisper.cpp f0d2bfbf, `models/convert-pt-to-ggml.py`, `examples/quantize` for `ftype` |
| gpt2 ... replit, starcoder | ggml b57410a8 (July 2023), `examples/*/main.cpp`; stablelm: b3799aaa (April 2023) |
| bert | bert.cpp (May 2023), `bert.cpp`: `bert_load_from_file` |

Beside each fixture is NAME.golden.json: names, shapes (outermost first), today's types, keys, and per tensor the sha256
of its payload in today's blocks and the sha256 of its values as F32. Both come from the same numbers that were packed in
the old layout; that today's blocks mean those values is judged by the package gguf. Seeded: a second run gives the same bytes.
"""

import base64
import hashlib
import json
import struct
from pathlib import Path

import gguf
import numpy as np
from gguf import GGMLQuantizationType as T

HERE = Path(__file__).parent
PAIRS, HALVES, TODAY = 0, 1, 2
NUMBER = {"F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q4_2": 4, "Q4_3": 5, "Q5_0": 6, "Q5_1": 7, "Q8_0": 8,
          "Q2_K": 10, "Q3_K": 11, "Q4_K": 12, "Q5_K": 13, "Q6_K": 14}
BITS = {"Q4_0": 4, "Q4_1": 4, "Q4_2": 4, "Q4_3": 4, "Q5_0": 5, "Q5_1": 5, "Q8_0": 8}
SHORT = ("Q4_2", "Q4_3")
WITH_MIN = ("Q4_1", "Q4_3", "Q5_1")
random = np.random.default_rng(11)


def nibbles(quants, pairs):
    """Four low bits of each element, two to a byte."""
    q = quants & 15
    low, high = (q[0::2], q[1::2]) if pairs else np.split(q, 2)
    return (low | (high << 4)).astype(np.uint8).tobytes()


def block(kind, generation, quants, d, m):
    """One block of `generation`: quants are unsigned, but signed for Q8_0."""
    wide = generation != TODAY and kind in ("Q4_0", "Q4_1", "Q8_0")
    out = d.astype("<f4" if wide else "<f2").tobytes()
    if kind in WITH_MIN:
        out += m.astype("<f4" if wide else "<f2").tobytes()
    if BITS[kind] == 8:
        return out + quants.astype(np.int8).tobytes()
    if BITS[kind] == 5:
        out += struct.pack("<I", sum(int(q >> 4) << n for n, q in enumerate(quants)))
    return out + nibbles(quants, generation == PAIRS)


def values(kind, quants, d, m):
    """As the programs computed: f32, one rounding for each step."""
    q, d, m = quants.astype(np.float32), np.float32(d), np.float32(m)
    if kind in WITH_MIN:
        return q * d + m
    return (q - np.float32({4: 8, 5: 16, 8: 0}[BITS[kind]])) * d


class Tensor:
    def __init__(self, name, kind, shape, generation=TODAY, scale=None):
        self.name, self.kind, self.shape = name, kind, shape
        count = int(np.prod(shape))
        if kind in ("F32", "F16"):
            data = random.standard_normal(count).astype("<f4" if kind == "F32" else "<f2")
            self.stored = self.today = data.tobytes()
            self.f32 = data.astype("<f4").tobytes()
        elif kind in BITS:
            self.pack(count, generation, scale)
        else:
            size = gguf.GGML_QUANT_SIZES[T[kind]]
            raw = random.integers(0, 256, (count // size[0], size[1])).astype(np.uint8)
            raw[:, -2:] = np.frombuffer(np.float16(0.01).tobytes(), np.uint8)
            raw[:, 0:2] = np.frombuffer(np.float16(0.02).tobytes(), np.uint8)
            self.stored = self.today = raw.tobytes()
            self.f32 = None

    def pack(self, count, generation, scale):
        each = 16 if self.kind in SHORT else 32
        stored, today, f32 = [], [], []
        for _ in range(count // each):
            low, high = (-127, 128) if BITS[self.kind] == 8 else (0, 1 << BITS[self.kind])
            quants = random.integers(low, high, each)
            # Scales that are f16 numbers: large, negative, and the small ones without a leading bit.
            d = np.float16(random.choice([0.0123, -0.75, 3.0e-6, 117.5, 0.0]))
            m = np.float16(random.choice([-1.25, 0.1, 2.0e-7]))
            stored.append(block(self.kind, generation, quants, d if scale is None else scale, m))
            today.append(b"" if self.kind in SHORT else block(self.kind, TODAY, quants, d, m))
            f32.append(values(self.kind, quants, d if scale is None else scale, m))
        # With a scale that f16 does not have there is no block of today.
        self.stored, self.today = b"".join(stored), b"".join(today) if scale is None else None
        self.f32 = np.concatenate(f32).astype("<f4").tobytes()
        if self.today:
            size = gguf.GGML_QUANT_SIZES[T[self.kind]][1]
            judged = gguf.quants.dequantize(np.frombuffer(self.today, np.uint8).reshape(-1, size), T[self.kind])
            assert (judged.reshape(-1) == np.frombuffer(self.f32, "<f4")).all(), self.kind

    def record(self, at, align):
        """The record and payload as they lie at offset `at`."""
        name = self.name.encode()
        out = struct.pack("<3i", len(self.shape), len(name), NUMBER[self.kind])
        out += struct.pack(f"<{len(self.shape)}i", *reversed(self.shape)) + name
        if align:
            out += bytes(-(at + len(out)) % 32)
        return out + self.stored

    def golden(self):
        sha = lambda data: hashlib.sha256(data).hexdigest() if data is not None else None
        return {"name": self.name, "dtype": None if self.kind in SHORT else self.kind, "shape": list(self.shape),
                "sha256": sha(self.today), "f32_sha256": sha(self.f32)}


def text(data):
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"b64": base64.b64encode(data).decode()}


def scalar(kind, value):
    return {"t": kind, "v": struct.pack(">f", value).hex() if kind == "f32" else value if kind == "str" else str(value)}


def array(kind, items):
    return {"t": "arr", "of": kind, "v": items}


class File:
    """Magic, version, hyperparameters, vocabulary, tensors; what is written goes into the golden keys too."""

    def __init__(self, word, version=None, model=None):
        self.out = struct.pack(">4s", word.encode())[::-1]
        self.keys = [["magic", scalar("str", word)]]
        self.align = word in ("ggjt", "ggla")
        self.tensors = []
        if version is not None:
            self.out += struct.pack("<I", version)
            self.keys.append(["version", scalar("u32", version)])
        if model:
            self.keys.append(["model", scalar("str", model)])

    def hparams(self, **values):
        for key, value in values.items():
            is_float = isinstance(value, float)
            self.out += struct.pack("<f" if is_float else "<i", value)
            self.keys.append([key, scalar("f32" if is_float else "i32", value)])

    def mel(self, n_mel, n_fft):
        filters = random.random(n_mel * n_fft).astype("<f4")
        self.out += struct.pack("<2i", n_mel, n_fft) + filters.tobytes()
        self.keys += [["mel.n_mel", scalar("u32", n_mel)], ["mel.n_fft", scalar("u32", n_fft)],
                      ["mel.filters", array("f32", [struct.pack(">f", x).hex() for x in filters])]]

    def tokens(self, tokens, counted=False, scored=False):
        if counted:
            self.out += struct.pack("<i", len(tokens))
        scores = []
        for n, token in enumerate(tokens):
            self.out += struct.pack("<I", len(token)) + token
            if scored:
                scores.append(struct.pack(">f", -0.5 * n).hex())
                self.out += struct.pack("<f", -0.5 * n)
        self.keys.append(["tokens", array("str", [text(token) for token in tokens])])
        if scored:
            self.keys.append(["scores", array("f32", scores)])

    def add(self, name, kind, shape, generation=TODAY, scale=None):
        tensor = Tensor(name, kind, shape, generation, scale)
        self.out += tensor.record(len(self.out), self.align)
        self.tensors.append(tensor)

    def save(self, name):
        (HERE / name).parent.mkdir(exist_ok=True)
        (HERE / name).write_bytes(self.out)
        golden = {"gguf": "0.19.0", "numpy": np.__version__, "keys": self.keys,
                  "tensors": [tensor.golden() for tensor in self.tensors]}
        stem = (HERE / name).with_suffix("")
        stem.with_name(stem.name + ".golden.json").write_text(json.dumps(golden, indent=1, ensure_ascii=False) + "\n")


TOKENS = [b"<unk>", b"", " é".encode(), b"\xff\xfe", b"the"]


def vocabulary(count):
    return [TOKENS[n] if n < len(TOKENS) else f"t{n}".encode() for n in range(count)]


LLAMA_LAYER = ["attention_norm.weight", "attention.wq.weight", "attention.wk.weight", "attention.wv.weight",
               "attention.wo.weight", "ffn_norm.weight", "feed_forward.w1.weight", "feed_forward.w2.weight",
               "feed_forward.w3.weight"]


def llama_header(word, version, ftype, n_layer=2):
    file = File(word, version, "llama")
    file.hparams(n_vocab=6, n_embd=32, n_mult=256, n_head=4, n_layer=n_layer, n_rot=8, ftype=ftype)
    file.tokens(vocabulary(6), scored=version is not None)
    return file


def llama(name, word, version, ftype, kinds, generation, n_layer=2):
    """`kinds` are given to the matrices in turn; norms are F32."""
    file = llama_header(word, version, ftype, n_layer)
    matrices = 0

    def matrix(name, shape=(2, 32)):
        nonlocal matrices
        kind = kinds[matrices % len(kinds)]
        matrices += 1
        if kind.endswith("_K"):
            shape = (*shape[:-1], 256)
        file.add(name, kind, shape, generation)

    file.add("tok_embeddings.weight", kinds[0], (6, 32), generation)
    file.add("norm.weight", "F32", (32,))
    matrix("output.weight", (6, 32))
    for layer in range(n_layer):
        for part in LLAMA_LAYER:
            if "norm" in part:
                file.add(f"layers.{layer}.{part}", "F32", (32,))
            else:
                matrix(f"layers.{layer}.{part}")
    file.save(name)


def standalone(name, model, hparams, names, layer_prefix, layer_parts, n_layer, kinds, generation, **vocab):
    """A file of the bare magic: names of tensors, a layer's parts, types of matrices in turn."""
    file = File("ggml", None, model)
    file.hparams(**hparams)
    file.tokens(vocabulary(hparams["n_vocab"]), **vocab)
    wanted = names + [f"{layer_prefix}{n}{part}" for n in range(n_layer) for part in layer_parts]
    for n, tensor in enumerate(wanted):
        vector = tensor.endswith((".bias", "/b", "/g")) or "ln_" in tensor or "norm" in tensor.lower()
        file.add(tensor, "F32" if vector else kinds[n % len(kinds)], (3,) if vector else (2, 32), generation)
    file.save(name)


def weights_and_biases(*parts):
    return [f"{part}.{what}" for part in parts for what in ("weight", "bias")]


def whisper(name, ftype, kinds, generation):
    file = File("ggml", None, "whisper")
    file.hparams(n_vocab=9, n_audio_ctx=4, n_audio_state=32, n_audio_head=2, n_audio_layer=1, n_text_ctx=4,
                 n_text_state=32, n_text_head=2, n_text_layer=2, n_mels=3, ftype=ftype)
    file.mel(3, 5)
    # Fewer than n_vocab: the program makes up the special ones.
    file.tokens(vocabulary(6), counted=True)
    turn = 0
    attention = lambda name: [f"{name}.query.weight", f"{name}.query.bias", f"{name}.key.weight", f"{name}.value.weight",
                              f"{name}.value.bias", f"{name}.out.weight", f"{name}.out.bias"]
    layer = attention("attn") + weights_and_biases("attn_ln", "mlp.0", "mlp.2", "mlp_ln")
    cross = attention("cross_attn") + weights_and_biases("cross_attn_ln")
    names = ["encoder.positional_embedding", *weights_and_biases("encoder.conv1", "encoder.conv2")]
    names += [f"encoder.blocks.0.{part}" for part in layer] + weights_and_biases("encoder.ln_post")
    names += ["decoder.positional_embedding", "decoder.token_embedding.weight"]
    names += [f"decoder.blocks.{n}.{part}" for n in range(2) for part in layer + cross] + weights_and_biases("decoder.ln")
    for tensor in names:
        if "conv" in tensor:
            file.add(tensor, *(("F32", (4, 1)) if tensor.endswith("bias") else ("F16", (4, 3, 3))))
        elif tensor.endswith("bias") or "ln" in tensor or "positional" in tensor:
            file.add(tensor, "F32", (4,))
        else:
            file.add(tensor, kinds[turn % len(kinds)], (1, 32), generation)
            turn += 1
    file.save(name)


def main():
    old = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "F16"]
    k = ["Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"]
    llama("ggjt-v3.bin", "ggjt", 3, 2, old + k, TODAY)
    llama("ggjt-v2.bin", "ggjt", 2, 2, old, HALVES)
    llama("ggjt-v1.bin", "ggjt", 1, 2, old, PAIRS)
    llama("ggmf.bin", "ggmf", 1, 3, ["Q4_0", "Q4_1"], PAIRS)
    llama("ggml-llama.ggml", "ggml", None, 2, ["Q4_0", "F16"], PAIRS)
    llama_header("ggjt", 3, 1).save("vocabulary-only.bin")

    adapter = File("ggla", 1)
    adapter.hparams(lora_r=8, lora_alpha=16)
    for part in ("attention.wq", "attention.wv"):
        adapter.add(f"layers.0.{part}.weight.loraA", "F16", (32, 8))
        adapter.add(f"layers.0.{part}.weight.loraB", "F32", (32, 8))
    adapter.save("ggla.bin")

    whisper("whisper-qnt0.bin", 2, ["Q4_0", "Q5_1", "Q8_0"], PAIRS)
    whisper("whisper-qnt1.bin", 1008, ["Q8_0", "Q5_0", "Q4_1"], HALVES)
    whisper("whisper-qnt2.bin", 2009, ["Q5_1", "Q8_0", "Q4_0"], TODAY)

    gpt2 = dict(n_vocab=7, n_ctx=16, n_embd=32, n_head=2, n_layer=2)
    gpt2_names = ["model/ln_f/g", "model/ln_f/b", "model/wte", "model/wpe"]
    gpt2_parts = [f"/{part}" for part in ("ln_1/g", "ln_1/b", "ln_2/g", "ln_2/b", "attn/c_attn/w", "attn/c_attn/b",
                                           "attn/c_proj/w", "attn/c_proj/b", "mlp/c_fc/w", "mlp/c_fc/b",
                                           "mlp/c_proj/w", "mlp/c_proj/b")]
    standalone("gpt2.bin", "gpt2", gpt2 | dict(ftype=0), gpt2_names, "model/h", gpt2_parts, 2, ["F32", "F16"], TODAY,
               counted=True)
    standalone("starcoder.bin", "gpt2", gpt2 | dict(ftype=2002), gpt2_names + ["model/lm_head"], "model/h", gpt2_parts,
               2, ["Q4_0", "Q5_1"], TODAY, counted=True)
    standalone("gptj.bin", "gptj", gpt2 | dict(n_rot=4, ftype=1002),
               weights_and_biases("transformer.ln_f", "lm_head") + ["transformer.wte.weight"], "transformer.h.",
               [f".{part}" for part in weights_and_biases("ln_1", "mlp.fc_in", "mlp.fc_out")
                + [f"attn.{x}_proj.weight" for x in ("q", "k", "v", "out")]], 2, ["Q4_0", "Q4_1"], HALVES, counted=True)
    neox_names = ["gpt_neox.embed_in.weight", "embed_out.weight", *weights_and_biases("gpt_neox.final_layer_norm")]
    neox_parts = [f".{part}" for part in weights_and_biases(
        "input_layernorm", "post_attention_layernorm", "attention.query_key_value", "attention.dense",
        "mlp.dense_h_to_4h", "mlp.dense_4h_to_h")]
    standalone("gptneox.bin", "gptneox", gpt2 | dict(n_rot=4, par_res=1, ftype=2006), neox_names, "gpt_neox.layers.",
               neox_parts, 2, ["Q5_0"], TODAY)
    standalone("stablelm.bin", "stablelm", gpt2 | dict(n_rot=4, ftype=1), neox_names, "gpt_neox.layers.", neox_parts, 2,
               ["F16"], TODAY)
    mpt = dict(d_model=32, max_seq_len=16, n_heads=2, n_layers=2, n_vocab=6)
    mpt_names = ["transformer.wte.weight", "transformer.norm_f.weight"]
    mpt_parts = [f".{part}.weight" for part in ("norm_1", "norm_2", "attn.Wqkv", "attn.out_proj", "ffn.up_proj",
                                                "ffn.down_proj")]
    standalone("mpt.bin", "mpt", mpt | dict(alibi_bias_max=8.0, clip_qkv=0.0, ftype=2007), mpt_names,
               "transformer.blocks.", mpt_parts, 2, ["Q8_0"], TODAY)
    standalone("replit.bin", "replit", mpt | dict(ftype=1007), mpt_names, "transformer.blocks.", mpt_parts, 2, ["Q8_0"],
               HALVES, scored=True)
    bert_names = weights_and_biases("embeddings.LayerNorm") + [
        f"embeddings.{x}_embeddings.weight" for x in ("word", "token_type", "position")]
    bert_parts = [f".{part}" for part in weights_and_biases(
        "attention.self.query", "attention.self.key", "attention.self.value", "attention.output.dense",
        "attention.output.LayerNorm", "intermediate.dense", "output.dense", "output.LayerNorm")]
    standalone("bert.bin", "bert", dict(n_vocab=6, n_max_tokens=8, n_embd=32, n_intermediate=64, n_head=2, n_layer=1,
                                        ftype=3), bert_names, "encoder.layer.", bert_parts, 1, ["Q4_1"], PAIRS)

    llama("rejects/q4_2.bin", "ggjt", 1, 5, ["Q4_2", "Q4_3"], PAIRS, 1)
    for version, name in ((1, "inexact-v1"), (2, "inexact-v2")):
        file = llama_header("ggjt", version, 2, 1)
        generation = PAIRS if version == 1 else HALVES
        file.add("tok_embeddings.weight", "Q4_0", (6, 32), generation, np.float32(0.1))
        file.add("norm.weight", "F32", (32,))
        file.add("output.weight", "Q8_0", (6, 32), generation, np.float32(1e-9))
        for part in LLAMA_LAYER:
            file.add(f"layers.0.{part}", "F32", (2, 32))
        file.save(f"rejects/{name}.bin")


main()
