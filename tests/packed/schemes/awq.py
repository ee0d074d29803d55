"""AWQ by AutoAWQ's own layers, and AutoRound's form of it by AutoRound's."""

import torch
from auto_round.export.export_to_awq.utils import WQLinear_GEMM as RoundGemm
from auto_round.export.export_to_awq.utils import dequantize_gemm as round_dequantize
from awq.modules.linear.gemm import WQLinear_GEMM
from awq.modules.linear.gemv import WQLinear_GEMV
from awq.modules.linear.gemv_fast import WQLinear_GEMVFast
from awq.utils.packing_utils import dequantize_gemm

from .gptq import linear
from .seeded import method, weight

NAME = "model.layers.0.mlp.up_proj"
BY_HAND = "(code - zero) * scale in F32, by torch 2.15"


def quantized(rows, columns, group):
    values = weight(NAME, rows, columns)
    boxes = values.reshape(rows, -1, group)
    low, high = boxes.amin(-1).clamp(max=0), boxes.amax(-1).clamp(min=0)
    scales = ((high - low) / 15).half().float()
    zeros = torch.round(-low / scales).clamp(0, 15)
    # The layers do not clamp codes.
    codes = (torch.round(boxes / scales[..., None]) + zeros[..., None]).clamp(0, 15)
    values = ((codes - zeros[..., None]) * scales[..., None]).reshape(rows, columns)
    return values, scales, zeros, codes


def gemm(layer, dequantize):
    values, scales, zeros, _ = quantized(64, 96, 32)
    own = layer.from_linear(linear(values), 4, 32, scales=scales.T.contiguous(), zeros=zeros.T.contiguous())
    return own, dequantize(own.qweight, own.qzeros, own.scales.float(), 4, 32).T


def gemv(layer, rows, columns):
    values, scales, zeros, codes = quantized(rows, columns, 32)
    own = layer.from_linear(linear(values), 4, 32, scales=scales, zeros=zeros)
    if layer is WQLinear_GEMV:
        return own, values
    # Its zero points are values, rounded to F16.
    expected = codes * scales[..., None] - (scales * zeros).half().float()[..., None]
    return own, expected.reshape(rows, columns)


def cases():
    config = lambda version: method("awq", bits=4, group_size=32, zero_point=True, version=version)
    of_round = method("auto-round", packing_format="auto_round:auto_awq", bits=4, group_size=32)
    awq, own_round = "autoawq 0.2.9", "auto-round 0.16"
    for name, (own, expected), said, packed_by, judged_by in (
        ("awq-gemm", gemm(WQLinear_GEMM, dequantize_gemm), config("gemm"), awq, f"{awq}, with scales in F32"),
        ("awq-gemv", gemv(WQLinear_GEMV, 64, 96), config("gemv"), awq, BY_HAND),
        ("awq-gemv-fast", gemv(WQLinear_GEMVFast, 24, 128), config("gemv_fast"), awq, BY_HAND),
        ("auto-round-awq", gemm(RoundGemm, round_dequantize), of_round, own_round, f"{own_round}, with scales in F32"),
    ):
        stored = {f"{NAME}.{part}": getattr(own, part) for part in ("qweight", "qzeros", "scales")}
        expected = {f"{NAME}.weight": expected}
        yield {"name": name, "config": said, "stored": stored, "expected": expected, "packed_by": packed_by, "judged_by": judged_by}
