"""ComfyUI, by comfy-kitchen, which packs and unpacks for it, on the CPU."""

import json

import comfy_kitchen
import torch
from comfy_kitchen.backends.eager import quantization

from .seeded import weight

SAID = {"packed_by": "comfy-kitchen 0.2.40, on the CPU", "judged_by": "comfy-kitchen 0.2.40, in F32"}
MODULE = "model.diffusion_model.blocks.0.mlp.up"
LAYOUTS = {"nvfp4": "TensorCoreNVFP4Layout", "mxfp8": "TensorCoreMXFP8Layout", "int8_tensorwise": "TensorWiseINT8Layout"}


def mark(**said):
    """What ComfyUI stores beside a weight."""
    return torch.tensor(list(json.dumps(said).encode()), dtype=torch.uint8)


def packed(name, values, how, **arguments):
    """The tensors of a layer, without its mark, and the values."""
    layout = comfy_kitchen.tensor.get_layout_class(LAYOUTS.get(how, "TensorCoreFP8Layout"))
    codes, params = layout.quantize(values, **arguments)
    stored = {f"{name}.weight{end}": tensor for end, tensor in layout.state_dict_tensors(codes, params).items()}
    if how == "mxfp8":
        stored[f"{name}.weight_scale"] = stored[f"{name}.weight_scale"].view(torch.uint8)
    return stored, {f"{name}.weight": layout.dequantize(codes, params)}


def cases():
    # With 128 rows and 64 columns' scales a tile more or less does not show in any shape.
    stored, expected = packed(MODULE, weight("comfy-nvfp4", 256, 128), "nvfp4")
    stored |= {f"{MODULE}.comfy_quant": mark(format="nvfp4"), f"{MODULE}.bias": torch.zeros(256, dtype=torch.bfloat16)}
    stored[f"{MODULE}.input_scale"] = torch.tensor(0.125)
    yield {"name": "comfy-nvfp4", "stored": stored, "expected": expected, **SAID}
    stored, expected = packed(MODULE, weight("comfy-nvfp4-metadata", 48, 96), "nvfp4")
    columns = torch.linspace(0.5, 1.5, 96).to(torch.bfloat16)
    stored[f"{MODULE}.pre_quant_scale"] = columns
    expected = {name: values * columns.float() for name, values in expected.items()}
    said = {"format_version": "1.0", "layers": {MODULE: {"format": "nvfp4", "group_size": 16}}}
    metadata = {"_quantization_metadata": json.dumps(said)}
    by_hand = {**SAID, "judged_by": "comfy-kitchen 0.2.40, in F32, times pre_quant_scale"}
    yield {"name": "comfy-nvfp4-metadata", "metadata": metadata, "stored": stored, "expected": expected, **by_hand}
    stored, expected = packed(MODULE, weight("comfy-mxfp8", 128, 256), "mxfp8")
    stored[f"{MODULE}.comfy_quant"] = mark(format="mxfp8")
    yield {"name": "comfy-mxfp8", "stored": stored, "expected": expected, **SAID}
    stored, expected, down = {}, {}, MODULE.replace("up", "down")
    for name, dtype, said in ((MODULE, torch.float8_e4m3fn, "float8_e4m3fn"), (down, torch.float8_e5m2, "float8_e5m2")):
        values = weight(f"comfy-{said}", 24, 40)
        scale = values.abs().max() / torch.finfo(dtype).max
        codes = quantization.quantize_per_tensor_fp8(values, scale, dtype)
        stored |= {f"{name}.weight": codes, f"{name}.weight_scale": scale}
        stored[f"{name}.comfy_quant"] = mark(format=said, full_precision_matrix_mult=True)
        expected[f"{name}.weight"] = quantization.dequantize_per_tensor_fp8(codes, scale, torch.float32)
    stored[f"{MODULE}.input_scale"] = torch.tensor(0.5)
    yield {"name": "comfy-fp8", "stored": stored, "expected": expected, **SAID}
    older = {key.replace("weight_scale", "scale_weight"): value for key, value in stored.items() if "comfy_quant" not in key}
    older[f"{MODULE}.scale_input"] = older.pop(f"{MODULE}.input_scale")
    older["model.diffusion_model.scaled_fp8"] = torch.empty(0, dtype=torch.float8_e4m3fn)
    older |= {f"{MODULE}.norm.weight": torch.ones(24, dtype=torch.bfloat16), f"{MODULE}.norm.scale_weight": torch.tensor(1.0)}
    yield {"name": "comfy-scaled-fp8", "stored": older, "expected": expected, **SAID}
    stored, expected = packed(MODULE, weight("comfy-int8", 24, 40), "int8_tensorwise")
    own, values = packed(down, weight("comfy-int8-rows", 40, 24), "int8_tensorwise", per_channel=True)
    stored, expected = stored | own, expected | values
    stored |= {f"{name}.comfy_quant": mark(format="int8_tensorwise") for name in (MODULE, down)}
    yield {"name": "comfy-int8", "stored": stored, "expected": expected, **SAID}
