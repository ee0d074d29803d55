"""torchao 0.18: its classes pack, and flatten themselves for SafeTensors; they unpack in F32."""

import math

import torch
from torchao.prototype.mx_formats.mx_tensor import MXTensor
from torchao.prototype.mx_formats.nvfp4_tensor import NVFP4Tensor, per_tensor_amax_to_scale
from torchao.prototype.safetensors.safetensors_support import flatten_tensor_state_dict
from torchao.quantization import Float8WeightOnlyConfig, Int8WeightOnlyConfig, IntxWeightOnlyConfig, PerGroup, quantize_

from .seeded import method, weight

SAID = {"packed_by": "torchao 0.18.0", "judged_by": "torchao 0.18.0, in F32"}
MODULE = "model.layers.0.mlp.up_proj"


def linear(config):
    """Packs as users do: a layer, by a configuration."""

    def pack(values):
        layer = torch.nn.Linear(values.shape[1], values.shape[0], bias=False)
        layer.weight.data = values
        quantize_(layer, config)
        return layer.weight

    return pack


def case(name, config, pack, shape=(32, 96)):
    values = weight(name, math.prod(shape[:-1]), shape[-1]).reshape(shape)
    packed = pack(values).detach()
    stored, metadata = flatten_tensor_state_dict({f"{MODULE}.weight": packed})
    expected = packed.dequantize()
    assert expected.dtype == torch.float32
    said = method("torchao", quant_type={"default": {"_type": config}})
    return {"name": name, "config": said, "stored": stored, "metadata": metadata, "expected": {f"{MODULE}.weight": expected}, **SAID}


def cases():
    yield case("torchao-int8", "Int8WeightOnlyConfig", linear(Int8WeightOnlyConfig()))
    intx = IntxWeightOnlyConfig(weight_dtype=torch.int4, granularity=PerGroup(32))
    yield case("torchao-intx4", "IntxWeightOnlyConfig", linear(intx))
    yield case("torchao-float8", "Float8WeightOnlyConfig", linear(Float8WeightOnlyConfig()))
    yield case("torchao-mxfp8", "MXDynamicActivationMXWeightConfig", lambda values: MXTensor.to_mx(values, torch.float8_e4m3fn, 32))
    yield case("torchao-mxfp4", "MXDynamicActivationMXWeightConfig", lambda values: MXTensor.to_mx(values, torch.float4_e2m1fn_x2, 32))
    nvfp4 = lambda values: NVFP4Tensor.to_nvfp4(values, per_tensor_scale=per_tensor_amax_to_scale(values.abs().max()))
    yield case("torchao-nvfp4", "NVFP4WeightOnlyConfig", nvfp4)
    # Scales in tiles of 128 rows by 4, as kernels want them: rows that fill tiles, and rows that do not.
    tiled = lambda values: NVFP4Tensor.to_nvfp4(values, per_tensor_scale=per_tensor_amax_to_scale(values.abs().max()), is_swizzled_scales=True)
    yield case("torchao-nvfp4-tiled", "NVFP4DynamicActivationNVFP4WeightConfig", tiled, (128, 192))
    yield case("torchao-nvfp4-tiled-cut", "NVFP4DynamicActivationNVFP4WeightConfig", tiled, (136, 96))
    mx = lambda kind: lambda values: MXTensor.to_mx(values, kind, 32, is_swizzled_scales=True)
    yield case("torchao-mxfp8-tiled", "MXDynamicActivationMXWeightConfig", mx(torch.float8_e4m3fn), (48, 160))
    yield case("torchao-mxfp4-tiled", "MXDynamicActivationMXWeightConfig", mx(torch.float4_e2m1fn_x2), (128, 128))
    # Experts, each with a scale of its own; and in tiles that run on from one to the next.
    each = lambda values: per_tensor_amax_to_scale(values.abs().amax(dim=(1, 2), keepdim=True))
    experts = lambda values: NVFP4Tensor.to_nvfp4(values, per_tensor_scale=each(values))
    yield case("torchao-nvfp4-experts", "NVFP4WeightOnlyConfig", experts, (3, 16, 64))
    experts = lambda values: NVFP4Tensor.to_nvfp4(values, per_tensor_scale=each(values), is_swizzled_scales=True)
    yield case("torchao-nvfp4-experts-tiled", "NVFP4WeightOnlyConfig", experts, (2, 100, 64))
