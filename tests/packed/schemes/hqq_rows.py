"""HQQ 0.2.8, on the CPU."""

import torch
from hqq.core.quantize import BaseQuantizeConfig, HQQLinear, Quantizer

from .seeded import method, weight

SAID = {"packed_by": "hqq 0.2.8.post1, on the CPU", "judged_by": "hqq 0.2.8.post1, scales and zeros in F32"}


def case(bits, axis, rows=64, columns=128, is_float=False):
    module = "model.layers.0.mlp.up_proj"
    linear = torch.nn.Linear(columns, rows, bias=False)
    linear.weight.data = weight(f"hqq-{bits}-{axis}", rows, columns)
    config = BaseQuantizeConfig(nbits=bits, group_size=64, axis=axis, view_as_float=is_float)
    packed = HQQLinear(linear, config, compute_dtype=torch.float16, device="cpu")
    meta = {key: value.float() if key in ("scale", "zero") else value for key, value in packed.meta.items()}
    meta["compute_dtype"] = torch.float32
    expected = Quantizer.dequantize(packed.W_q.data, meta).float()
    state = {key: value for key, value in packed.state_dict().items() if isinstance(value, torch.Tensor)}
    stored = {f"{module}.{key}": value.data for key, value in state.items()}
    weights = {"nbits": bits, "group_size": 64, "axis": axis, **({"view_as_float": True} if is_float else {})}
    said = method("hqq", quant_config={"weight_quant_params": weights}, skip_modules=["lm_head"])
    name = f"hqq-{bits}-axis{axis}" + ("-float" if is_float else "")
    return {"name": name, "config": said, "stored": stored, "expected": {f"{module}.weight": expected}, **SAID}


def cases():
    for bits in (8, 4, 3, 2, 1):
        yield case(bits, 1)
    yield case(4, 0)
    # Codes that are seen as halves, as FSDP wants all tensors to be of one type.
    yield case(4, 1, is_float=True)
    yield case(3, 1, is_float=True)
