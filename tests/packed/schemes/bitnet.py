"""BitNet: transformers 5.24 packs, and unpacks."""

import torch
from transformers.integrations.bitnet import pack_weights

from .seeded import method, weight

SAID = {"packed_by": "transformers 5.24.0, pack_weights", "judged_by": "(code - 1) / scale in F32, as llama.cpp's converter"}


def cases():
    module = "model.layers.0.mlp.up_proj"
    values = weight("bitnet", 32, 256)
    scale = torch.tensor([64.0]).to(torch.bfloat16)
    codes = torch.sign(values) * (values.abs() > 0.02)
    stored = {f"{module}.weight": pack_weights(codes.clone()), f"{module}.weight_scale": scale}
    config = method("bitnet", modules_to_not_convert=["lm_head"])
    yield {"name": "bitnet", "config": config, "stored": stored, "expected": {f"{module}.weight": codes / scale.float()}, **SAID}
