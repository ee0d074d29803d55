"""TensorRT Model Optimizer, by its own packers, on the CPU."""

import torch
from modelopt.torch.export import quant_utils
from modelopt.torch.quantization.qtensor import NVFP4QTensor

from .seeded import method, weight

SAID = {"packed_by": "modelopt 0.47.0, on the CPU", "judged_by": "modelopt 0.47.0, in F32"}


def nvfp4(values):
    """Codes, scales, the scale of scales, and the values."""
    second = values.abs().max() / (6 * 448)
    scales = NVFP4QTensor.get_weights_scaling_factor(values, block_size=16, weights_scaling_factor_2=second)[0]
    codes = quant_utils.to_quantized_weight(values, scales, quant_utils.QUANTIZATION_NVFP4, second, 16)
    packed = NVFP4QTensor(values.shape, torch.float32, codes)
    expected = packed.dequantize(torch.float32, scale=scales, double_scale=second, block_sizes={-1: 16})
    return codes, scales, second, expected


def experts(name, shape, is_turned):
    """Experts in NVFP4, as `_export_quantized_weight` stores them: those of Llama 4 and gpt-oss column after column."""
    values = weight(name, shape[0] * shape[1], shape[2]).reshape(shape)
    turn = lambda *tensors: quant_utils.maybe_transpose_expert_weight_dimensions(*tensors, is_bmm_expert_weight=is_turned)
    values, _ = turn(values)
    codes, scales, second, expected = nvfp4(values)
    expected, _ = turn(expected)
    codes, scales = turn(codes, scales)
    stored = {name: codes, f"{name}_weight_scale": scales, f"{name}_weight_scale_2": second, f"{name}_input_scale": torch.tensor(0.25)}
    return stored, {name: expected}


def cases():
    module = "model.layers.0.mlp.up_proj"
    codes, scales, second, values = nvfp4(weight(module, 24, 128))
    stored = {"weight": codes, "weight_scale": scales, "weight_scale_2": second.reshape(()), "input_scale": torch.tensor(0.125)}
    stored = {f"{module}.{part}": value for part, value in stored.items()}
    expected = {f"{module}.weight": values}
    said = {"producer": {"name": "modelopt", "version": "0.39.0"}}
    said["quantization"] = {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "group_size": 16, "exclude_modules": ["lm_head"]}
    yield {"name": "modelopt-nvfp4", "files": {"hf_quant_config.json": said}, "stored": stored, "expected": expected, **SAID}
    values = weight("modelopt-fp8", 24, 64)
    scale = values.abs().max() / 448
    codes = quant_utils.to_quantized_weight(values, scale, quant_utils.QUANTIZATION_FP8)
    by_hand = {**SAID, "judged_by": "code * scale in F32, by torch 2.15"}
    stored = {f"{module}.weight": codes, f"{module}.weight_scale": scale.reshape(()), f"{module}.input_scale": torch.tensor(0.5)}
    config = method("modelopt", quant_algo="FP8", kv_cache_scheme=None)
    yield {"name": "modelopt-fp8", "config": config, "stored": stored, "expected": {f"{module}.weight": codes.float() * scale}, **by_hand}
    values = weight("modelopt-int4-awq", 24, 128)
    scales = (values.reshape(24, -1, 64).abs().amax(-1) / 7).to(torch.bfloat16)
    wide = scales.float().repeat_interleave(64, 1)
    codes = torch.round(values / wide).clamp(-8, 7).long()
    columns = torch.linspace(0.5, 1.5, 128).to(torch.bfloat16)
    stored = {
        f"{module}.weight": quant_utils.pack_int4_in_uint8(values, scales, 64),
        f"{module}.weight_scale": scales,
        f"{module}.pre_quant_scale": columns,
    }
    said = {**SAID, "judged_by": "code * scale * pre_quant_scale in F32, by torch 2.15"}
    config = method("modelopt", quant_algo="W4A16_AWQ", group_size=64, has_zero_point=False, pre_quant_scale=True)
    expected = {f"{module}.weight": codes.float() * wide * columns.float()}
    yield {"name": "modelopt-int4-awq", "config": config, "stored": stored, "expected": expected, **said}
    for name, shape, is_turned in (("modelopt-nvfp4-experts", (3, 24, 64), False), ("modelopt-nvfp4-experts-turned", (2, 128, 40), True)):
        stored, expected = {}, {}
        for part in ("gate_up_proj", "down_proj"):
            own, values = experts(f"model.layers.0.mlp.experts.{part}", shape, is_turned)
            stored.update(own)
            expected.update(values)
        config = method("modelopt", quant_algo="NVFP4", group_size=16)
        yield {"name": name, "config": config, "stored": stored, "expected": expected, **SAID}
    name, values = "model.layers.0.mlp.experts.down_proj", weight("modelopt-fp8-experts", 64, 40).reshape(2, 32, 40)
    scale = values.abs().max() / 448
    codes = quant_utils.to_quantized_weight(values, scale, quant_utils.QUANTIZATION_FP8)
    stored = {name: codes, f"{name}_weight_scale": scale, f"{name}_input_scale": torch.tensor(0.5)}
    config = method("modelopt", quant_algo="FP8")
    yield {"name": "modelopt-fp8-experts", "config": config, "stored": stored, "expected": {name: codes.float() * scale}, **by_hand}
