"""MLX 0.32, on the CPU: affine in every width, and the modes of microscaled floats."""

import mlx.core as mx
import numpy
import torch

from .seeded import weight

SAID = {"packed_by": "mlx 0.32.4, on the CPU", "judged_by": "mlx 0.32.4, scales and biases in F32"}
mx.set_default_device(mx.cpu)


def tensor(array):
    """An array of MLX in torch; halves by way of F32, which holds them."""
    if array.dtype == mx.bfloat16:
        return torch.from_numpy(numpy.array(array.astype(mx.float32))).to(torch.bfloat16)
    return torch.from_numpy(numpy.array(array))


def module(name, rows, columns, **how):
    values = mx.array(weight(name, rows, columns).numpy())
    mode = how.get("mode", "affine")
    parts = mx.quantize(values.astype(mx.float16 if mode == "affine" else mx.float32), **how)
    wide = [part.astype(mx.float32) if part.dtype == mx.float16 else part for part in parts]
    expected = mx.dequantize(*wide, **how)
    if mode != "affine":
        expected = mx.dequantize(*parts, **how, dtype=mx.float32)
    stored = {f"{name}.{key}": tensor(part) for key, part in zip(("weight", "scales", "biases"), parts)}
    return stored, {f"{name}.weight": tensor(expected)}


def cases():
    for bits in (2, 3, 4, 5, 6, 8):
        how = dict(group_size=32, bits=bits)
        stored, expected = module("model.layers.0.mlp.up_proj", 24, 96, **how)
        yield {"name": f"mlx-{bits}", "config": {"quantization": how, "quantization_config": how}, "stored": stored, "expected": expected, **SAID}
    for mode, group, bits in (("mxfp4", 32, 4), ("nvfp4", 16, 4), ("mxfp8", 32, 8)):
        how = dict(group_size=group, bits=bits, mode=mode)
        stored, expected = module("model.layers.0.mlp.up_proj", 24, 96, **how)
        yield {"name": f"mlx-{mode}", "config": {"quantization": how}, "stored": stored, "expected": expected, **SAID}
    own = {"group_size": 64, "bits": 4, "model.layers.0.mlp.down_proj": {"group_size": 32, "bits": 8}}
    stored, expected = module("model.layers.0.mlp.up_proj", 24, 128, group_size=64, bits=4)
    more, values = module("model.layers.0.mlp.down_proj", 24, 96, group_size=32, bits=8)
    yield {"name": "mlx-mixed", "config": {"quantization": own}, "stored": {**stored, **more}, "expected": {**expected, **values}, **SAID}
