"""GPTQ by GPTQModel's own layer, and AutoRound's form of it by AutoRound's."""

from types import SimpleNamespace

import torch
from auto_round_extension.torch.qlinear_torch_zp import QuantLinear
from gptqmodel.nn_modules.qlinear.torch import TorchLinear
from gptqmodel.utils.model import convert_gptq_v2_to_v1_format_module

from .seeded import method, weight

SAID = {"packed_by": "gptqmodel 7.7", "judged_by": "gptqmodel 7.7, with scales in F32"}
ROUND = {"packed_by": "auto-round 0.16", "judged_by": "auto-round 0.16, with scales in F32"}


def linear(values):
    """A layer of these weights."""
    rows, columns = values.shape
    layer = torch.nn.Linear(columns, rows, bias=False)
    layer.weight.data = values.clone()
    return layer


def by_gptqmodel(layer, bits, group, symmetric, order, version, grid):
    scales, zeros, index = grid
    columns, rows = layer.in_features, layer.out_features
    own = TorchLinear(bits, group, symmetric, order, columns, rows, register_buffers=True)
    own.pack_original(layer, scales, zeros, index)
    own.post_init()
    half, own.scales = own.scales, own.scales.float()
    expected = own.dequantize_weight().T
    own.scales = half
    if version == 1:
        convert_gptq_v2_to_v1_format_module(own, SimpleNamespace(bits=bits, pack_dtype=torch.int32))
    return own, expected


def by_auto_round(layer, bits, group, grid):
    scales, zeros, _ = grid
    own = QuantLinear(bits, group, layer.in_features, layer.out_features, False, g_idx=True)
    own.pack(layer, scales, zeros)
    half, own.scales = own.scales, own.scales.float()
    expected = own(torch.eye(layer.in_features)).T
    own.scales = half
    return own, expected


def module(name, rows, columns, bits, group, symmetric, version, order=False, is_round=False):
    values = weight(name, rows, columns)
    index = torch.arange(columns) // group
    if order:
        index = index[torch.randperm(columns, generator=torch.Generator().manual_seed(3))]
    groups = int(index.max()) + 1
    scales, zeros = torch.zeros(groups, rows), torch.zeros(groups, rows)
    most = 2**bits - 1
    for number in range(groups):
        own = index == number
        low, high = values[:, own].amin(1).clamp(max=0), values[:, own].amax(1).clamp(min=0)
        if symmetric:
            high = torch.maximum(high, -low)
            low = -high
        scales[number] = ((high - low) / most).half().float()
        zeros[number] = (most + 1) // 2 if symmetric else torch.round(-low / scales[number]).clamp(1, most)
    grid = (scales.T.contiguous(), zeros.T.contiguous(), index.to(torch.int32))
    if is_round:
        own, expected = by_auto_round(linear(values), bits, group, grid)
    else:
        own, expected = by_gptqmodel(linear(values), bits, group, symmetric, order, version, grid)
    stored = {f"{name}.{part}": getattr(own, part) for part in ("qweight", "qzeros", "scales", "g_idx")}
    return stored, {f"{name}.weight": expected}


def case(name, bits, group, symmetric, version=1, order=False, columns=128, rows=64, config=None):
    group_size, is_round = columns if group < 0 else group, config is not None
    stored, expected = module("model.layers.0.mlp.up_proj", rows, columns, bits, group_size, symmetric, version, order, is_round)
    said = {"bits": bits, "group_size": group, "desc_act": order, "sym": symmetric}
    said["checkpoint_format"] = "gptq" if version == 1 else "gptq_v2"
    config = config or method("gptq", **said)
    return {"name": name, "config": config, "stored": stored, "expected": expected, **(ROUND if is_round else SAID)}


def without_zeros(case, zeros):
    """Symmetric weights: zero points are in the middle, and left out, or an empty tensor, as AutoRound stores them."""
    stored = {name: value for name, value in case["stored"].items() if not name.endswith(".qzeros")}
    stored.update({name: zeros for name in case["stored"] if name.endswith(".qzeros") and zeros is not None})
    return {**case, "stored": stored, "packed_by": f"{case['packed_by']}, but for the zero points"}


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
