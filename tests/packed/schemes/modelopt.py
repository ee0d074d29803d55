"""TensorRT Model Optimizer, by hand, by the layout of its `export/quant_utils.py`: the package wants CUDA."""

import torch

from .seeded import method, weight

SAID = {"packed_by": "the published layout, by torch 2.15", "judged_by": "code * (scale * scale_2) in F32, by torch 2.15"}
E2M1 = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6])


def four(values):
    """The nearest codes of E2M1."""
    nearest = (values.abs()[..., None] - E2M1).abs().argmin(-1)
    return nearest + 8 * (values < 0)


def nvfp4(name, rows, columns):
    values = weight(name, rows, columns)
    boxes = values.reshape(rows, -1, 16)
    second = values.abs().max() / (6 * 448)
    scales = (boxes.abs().amax(-1) / (6 * second)).to(torch.float8_e4m3fn)
    both = scales.float() * second
    codes = four(boxes / both[..., None])
    table = torch.cat([E2M1, -E2M1])
    expected = (table[codes] * both[..., None]).reshape(rows, columns)
    codes = codes.reshape(rows, columns)
    stored = {
        f"{name}.weight": (codes[:, 0::2] | codes[:, 1::2] << 4).to(torch.uint8),
        f"{name}.weight_scale": scales,
        f"{name}.weight_scale_2": second.reshape(()),
        f"{name}.input_scale": torch.tensor(0.125),
    }
    return stored, {f"{name}.weight": expected}


def cases():
    module = "model.layers.0.mlp.up_proj"
    stored, expected = nvfp4(module, 24, 128)
    said = {"producer": {"name": "modelopt", "version": "0.39.0"}}
    said["quantization"] = {"quant_algo": "NVFP4", "kv_cache_quant_algo": "FP8", "group_size": 16, "exclude_modules": ["lm_head"]}
    yield {"name": "modelopt-nvfp4", "files": {"hf_quant_config.json": said}, "stored": stored, "expected": expected, **SAID}
    values = weight("modelopt-fp8", 24, 64)
    scale = values.abs().max() / 448
    codes = (values / scale).to(torch.float8_e4m3fn)
    stored = {f"{module}.weight": codes, f"{module}.weight_scale": scale.reshape(()), f"{module}.input_scale": torch.tensor(0.5)}
    config = method("modelopt", quant_algo="FP8", kv_cache_scheme=None)
    yield {"name": "modelopt-fp8", "config": config, "stored": stored, "expected": {f"{module}.weight": codes.float() * scale}, **SAID}
    values = weight("modelopt-int4-awq", 24, 128)
    scales = (values.reshape(24, -1, 64).abs().amax(-1) / 7).to(torch.bfloat16)
    wide = scales.float().repeat_interleave(64, 1)
    codes = torch.round(values / wide).clamp(-8, 7).long()
    columns = torch.linspace(0.5, 1.5, 128).to(torch.bfloat16)
    stored = {
        f"{module}.weight": (codes[0::2] & 15 | (codes[1::2] & 15) << 4).to(torch.uint8),
        f"{module}.weight_scale": scales,
        f"{module}.pre_quant_scale": columns,
    }
    said = {**SAID, "packed_by": "the published layout, by torch 2.15: what `pack_int4_in_uint8` of modelopt 0.47 packs"}
    said["judged_by"] = "code * scale * pre_quant_scale in F32, by torch 2.15"
    config = method("modelopt", quant_algo="W4A16_AWQ", group_size=64, has_zero_point=False, pre_quant_scale=True)
    expected = {f"{module}.weight": codes.float() * wide * columns.float()}
    yield {"name": "modelopt-int4-awq", "config": config, "stored": stored, "expected": expected, **said}
