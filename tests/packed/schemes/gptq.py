"""GPTQ by hand, by the layout of AutoGPTQ and GPTQModel: neither installs without a compiler for CUDA."""

import torch

from .seeded import method, weight

SAID = {"packed_by": "the published layout, by torch 2.15", "judged_by": "(code - zero) * scale in F32, by torch 2.15"}


def strings(codes, bits):
    """Codes [n, m] as strings of bits down each column, in words: [n * bits / 32, m]."""
    n, m = codes.shape
    words = torch.zeros(-(-n * bits // 32), m, dtype=torch.int64)
    for at in range(n):
        word, shift = at * bits // 32, at * bits % 32
        words[word] |= (codes[at] << shift) & 0xFFFFFFFF
        if shift + bits > 32:
            words[word + 1] |= codes[at] >> (32 - shift)
    return torch.where(words >= 2**31, words - 2**32, words).to(torch.int32)


def module(name, rows, columns, bits, group, symmetric, add, order=False):
    values = weight(name, rows, columns)
    index = torch.arange(columns) // group
    if order:
        index = index[torch.randperm(columns, generator=torch.Generator().manual_seed(3))]
    groups = int(index.max()) + 1
    scales, zeros = torch.zeros(groups, rows), torch.zeros(groups, rows, dtype=torch.int64)
    most = 2**bits - 1
    codes = torch.zeros(rows, columns, dtype=torch.int64)
    for number in range(groups):
        own = index == number
        low, high = values[:, own].amin(1).clamp(max=0), values[:, own].amax(1).clamp(min=0)
        if symmetric:
            high = torch.maximum(high, -low)
            low = -high
        scales[number] = ((high - low) / most).half().float()
        zeros[number] = (most + 1) // 2 if symmetric else torch.round(-low / scales[number]).long().clamp(1, most)
        codes[:, own] = (torch.round(values[:, own] / scales[number][:, None]).long() + zeros[number][:, None]).clamp(0, most)
    expected = (codes - zeros[index].T).float() * scales[index].T
    stored = {
        f"{name}.qweight": strings(codes.T, bits),
        f"{name}.qzeros": strings((zeros - add).T, bits).T,
        f"{name}.scales": scales.half(),
        f"{name}.g_idx": index.to(torch.int32),
    }
    return stored, {f"{name}.weight": expected}


def case(name, bits, group, symmetric, version=1, order=False, columns=128, rows=64, config=None):
    stored, expected = module("model.layers.0.mlp.up_proj", rows, columns, bits, columns if group < 0 else group, symmetric, 2 - version, order)
    said = {"bits": bits, "group_size": group, "desc_act": order, "sym": symmetric}
    said["checkpoint_format"] = "gptq" if version == 1 else "gptq_v2"
    config = config or method("gptq", **said)
    return {"name": name, "config": config, "stored": stored, "expected": expected, **SAID}


def without_zeros(case, zeros):
    """Symmetric weights: zero points are in the middle, and left out, or an empty tensor, as AutoRound stores them."""
    stored = {name: value for name, value in case["stored"].items() if not name.endswith(".qzeros")}
    stored.update({name: zeros for name in case["stored"] if name.endswith(".qzeros") and zeros is not None})
    return {**case, "stored": stored}


def cases():
    yield case("gptq-2", 2, 64, False)
    yield case("gptq-3", 3, 32, True)
    yield case("gptq-4-sym", 4, 32, True)
    yield case("gptq-4-asym", 4, 64, False)
    yield case("gptq-4-actorder", 4, 32, True, order=True)
    yield case("gptq-8", 8, 128, True, rows=32)
    yield case("gptq-v2", 4, 32, False, version=2)
    yield case("gptq-whole-rows", 4, -1, True)
    said = {"packing_format": "auto_round:auto_gptq", "bits": 4, "group_size": 32, "sym": True}
    yield case("auto-round-gptq", 4, 32, True, config=method("auto-round", **said))
    yield without_zeros(case("gptq-4-no-zeros", 4, 32, True), None)
    yield without_zeros(case("gptq-3-no-zeros", 3, 32, True), None)
    yield without_zeros(case("auto-round-empty-zeros", 8, 32, True, config=method("auto-round", **{**said, "bits": 8})), torch.empty(0, dtype=torch.int32))
