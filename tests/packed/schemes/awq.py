"""AWQ by hand, by the layouts of AutoAWQ's `packing_utils.py`, `gemv.py` and `gemv_fast.py`."""

import torch

from .gptq import SAID
from .seeded import method, weight

ORDER = [0, 2, 4, 6, 1, 3, 5, 7]


def eights(codes):
    """Codes [n, m] with eight columns in a word, in AWQ's order."""
    n, m = codes.shape
    words = torch.zeros(n, m // 8, dtype=torch.int64)
    for place, column in enumerate(ORDER):
        words |= codes[:, column::8] << (4 * place)
    return torch.where(words >= 2**31, words - 2**32, words).to(torch.int32)


def linear(codes, words):
    """Codes [n, m] with eight columns in a word, in order; padded to so many words."""
    codes = torch.nn.functional.pad(codes, (0, words * 8 - codes.shape[1]))
    out = sum(codes[:, place::8] << (4 * place) for place in range(8))
    return torch.where(out >= 2**31, out - 2**32, out).to(torch.int32)


def interleaved(codes):
    """Codes [n, m], four rows in turn with 64 columns each: place p of 32 is column p % 4 * 8 + p // 8 * 2 + p % 8 // 4."""
    n, m = codes.shape
    order = [place % 4 * 8 + place // 8 * 2 + place % 8 // 4 for place in range(32)]
    codes = codes.reshape(n, m // 32, 32)[:, :, order].reshape(n // 4, 4, m // 64, 64)
    places = codes.transpose(1, 2).reshape(n // 4, m, 4)
    words = sum(places[:, :, place] << (4 * place) for place in range(4))
    return torch.where(words >= 2**15, words - 2**16, words).to(torch.int16)


def fast(name, rows, columns, group):
    """The version gemv_fast: scales and scaled zero points for a multiple of 32 groups, or of 8 where groups are long."""
    _, _, scales, zeros, codes = quantized(name, rows, columns, group)
    scaled = -(scales * zeros).half().float()
    expected = codes.reshape(rows, -1, group) * scales[..., None] + scaled[..., None]
    padded = lambda values: torch.nn.functional.pad(values, (0, 32 - values.shape[1])).T.half()
    stored = {"qweight": interleaved(codes), "qzeros": padded(scaled), "scales": padded(scales)}
    stored = {f"{name}.{key}": value for key, value in stored.items()}
    return stored, {f"{name}.weight": expected.reshape(rows, columns)}


def quantized(name, rows, columns, group):
    values = weight(name, rows, columns)
    boxes = values.reshape(rows, -1, group)
    low, high = boxes.amin(-1).clamp(max=0), boxes.amax(-1).clamp(min=0)
    scales = ((high - low) / 15).half().float()
    zeros = torch.round(-low / scales).long().clamp(0, 15)
    codes = (torch.round(boxes / scales[..., None]).long() + zeros[..., None]).clamp(0, 15)
    expected = ((codes - zeros[..., None]).float() * scales[..., None]).reshape(rows, columns)
    return values, expected, scales, zeros, codes.reshape(rows, columns)


def module(name, rows, columns, group, gemv):
    _, expected, scales, zeros, codes = quantized(name, rows, columns, group)
    if gemv:
        # `calculate_zeros_width`: groups of 32 take a multiple of four words.
        words = 4
        stored = {
            "qweight": linear(codes, columns // 8),
            "qzeros": linear(zeros, words),
            "scales": torch.nn.functional.pad(scales, (0, words * 8 - scales.shape[1])).half(),
        }
    else:
        stored = {"qweight": eights(codes.T), "qzeros": eights(zeros.T), "scales": scales.T.half()}
    return {f"{name}.{key}": value for key, value in stored.items()}, {f"{name}.weight": expected}


def cases():
    for name, version, config in (
        ("awq-gemm", "gemm", None),
        ("awq-gemv", "gemv", None),
        ("auto-round-awq", "gemm", method("auto-round", packing_format="auto_round:auto_awq", bits=4, group_size=32)),
    ):
        stored, expected = module("model.layers.0.mlp.up_proj", 64, 96, 32, version == "gemv")
        config = config or method("awq", bits=4, group_size=32, zero_point=True, version=version)
        yield {"name": name, "config": config, "stored": stored, "expected": expected, **SAID}
    stored, expected = fast("model.layers.0.mlp.up_proj", 24, 128, 32)
    config = method("awq", bits=4, group_size=32, zero_point=True, version="gemv_fast")
    said = {**SAID, "packed_by": "the published layout, by torch 2.15: what WQLinear_GEMVFast of AutoAWQ 0.2.9 packs"}
    yield {"name": "awq-gemv-fast", "config": config, "stored": stored, "expected": expected, **said}
