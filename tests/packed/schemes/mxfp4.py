"""gpt-oss: experts in MXFP4. Random codes; transformers 5.24 unpacks them."""

import torch
from transformers.integrations.mxfp4 import convert_moe_packed_tensors

from .seeded import method

SAID = {"packed_by": "the published layout, by torch 2.15", "judged_by": "transformers 5.24.0, convert_moe_packed_tensors in F32"}


def experts(name, rows, columns, seed):
    generator = torch.Generator().manual_seed(seed)
    codes = torch.randint(0, 256, (2, rows, columns // 32, 16), generator=generator, dtype=torch.int32).to(torch.uint8)
    scales = torch.randint(112, 124, (2, rows, columns // 32), generator=generator, dtype=torch.int32).to(torch.uint8)
    expected = convert_moe_packed_tensors(codes.clone(), scales.clone(), dtype=torch.float32)
    return {f"{name}_blocks": codes, f"{name}_scales": scales}, {name: expected}


def cases():
    stored, expected = {}, {}
    for name, rows, columns, seed in (("gate_up_proj", 64, 64, 1), ("down_proj", 64, 32, 2)):
        own, values = experts(f"model.layers.0.mlp.experts.{name}", rows, columns, seed)
        stored.update(own)
        expected.update(values)
        stored[f"model.layers.0.mlp.experts.{name}_bias"] = torch.zeros(2, rows, dtype=torch.bfloat16)
    config = {"architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", **method("mxfp4", modules_to_not_convert=["lm_head"])}
    yield {"name": "mxfp4-gpt-oss", "config": config, "stored": stored, "expected": expected, **SAID}
