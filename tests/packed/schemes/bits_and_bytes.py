"""bitsandbytes 0.50, on the CPU: NF4, FP4, nested; INT8 rows.

Its kernel for the CPU begins a block anew in each row where a row is not a whole number of blocks, and packing does not:
such rows are odd here, so that the other code unpacks them.
"""

import torch
from bitsandbytes import functional

from .seeded import method, weight

SAID = {"packed_by": "bitsandbytes 0.50.2, on the CPU", "judged_by": "bitsandbytes 0.50.2, in F32"}


def four(name, kind, nested, size):
    module = "model.layers.0.mlp.up_proj"
    values = weight(name, *size)
    codes, state = functional.quantize_4bit(values, blocksize=64, quant_type=kind, compress_statistics=nested)
    expected = functional.dequantize_4bit(codes, state)
    stored = {f"{module}.weight": codes}
    for key, value in state.as_dict(packed=True).items():
        stored[f"{module}.weight.{key}"] = value
    config = method("bitsandbytes", load_in_4bit=True, bnb_4bit_quant_type=kind, bnb_4bit_use_double_quant=nested)
    return {"name": name, "config": config, "stored": stored, "expected": {f"{module}.weight": expected}, **SAID}


def cases():
    yield four("bnb-nf4", "nf4", False, (40, 128))
    yield four("bnb-nf4-nested", "nf4", True, (130, 128))
    yield four("bnb-fp4", "fp4", False, (40, 64))
    yield four("bnb-nf4-odd", "nf4", False, (37, 90))
    module = "model.layers.0.mlp.up_proj"
    values = weight("bnb-int8", 40, 96)
    codes, scales, _ = functional.int8_vectorwise_quant(values.half())
    stored = {f"{module}.weight": codes, f"{module}.SCB": scales.float(), f"{module}.weight_format": torch.tensor(0, dtype=torch.uint8)}
    expected = {f"{module}.weight": functional.int8_vectorwise_dequant(codes, scales.float())}
    yield {"name": "bnb-int8", "config": method("bitsandbytes", load_in_8bit=True), "stored": stored, "expected": expected, **SAID}
