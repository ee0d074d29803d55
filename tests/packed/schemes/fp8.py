"""FP8 with scales of blocks, and one scale. By hand, by DeepSeek's published `kernel.py`: torch has the type of the codes."""

import torch

from .seeded import method, weight

HAND = "the published layout, by torch 2.15"
CODES = torch.float8_e4m3fn


def blocks(values, side, power_of_two=False):
    """Codes, and a scale for each block; the last ones are cut."""
    rows, columns = values.shape
    codes = torch.zeros(rows, columns, dtype=CODES)
    scales = torch.zeros(-(-rows // side), -(-columns // side))
    expected = torch.zeros(rows, columns)
    for i in range(scales.shape[0]):
        for j in range(scales.shape[1]):
            box = slice(i * side, (i + 1) * side), slice(j * side, (j + 1) * side)
            scale = values[box].abs().max() / 448
            if power_of_two:
                scale = torch.exp2(torch.ceil(torch.log2(scale)))
            scales[i, j] = scale
            codes[box] = (values[box] / scale).to(CODES)
            expected[box] = codes[box].float() * scale
    return codes, scales, expected


def one(values):
    """Codes and one scale."""
    scale = values.abs().max() / 448
    codes = (values / scale).to(CODES)
    return codes, scale.reshape(()), codes.float() * scale


def case(name, config, modules, shards=None):
    stored, expected = {}, {}
    for own, value in modules:
        stored.update(own)
        expected.update(value)
    said = {"packed_by": HAND, "judged_by": "torch 2.15: code * scale in F32"}
    return {"name": name, "config": config, "stored": stored, "expected": expected, "shards": shards, **said}


def cases():
    for name, power_of_two in (("fp8-block", False), ("fp8-block-ue8m0", True)):
        modules = []
        for module, rows, columns in (("model.layers.0.mlp.up_proj", 160, 72), ("model.layers.0.mlp.down_proj", 24, 200)):
            codes, scales, expected = blocks(weight(name + module, rows, columns), 128, power_of_two)
            modules.append(({f"{module}.weight": codes, f"{module}.weight_scale_inv": scales}, {f"{module}.weight": expected}))
        more = {"scale_fmt": "ue8m0"} if power_of_two else {}
        config = method("fp8", fmt="e4m3", activation_scheme="dynamic", weight_block_size=[128, 128], **more)
        # A weight and its scales in different files.
        yield case(name, config, modules, (lambda key: int(key.endswith("_inv"))) if not power_of_two else None)
    module = "model.layers.0.self_attn.q_proj"
    codes, scale, expected = one(weight("static", 48, 40))
    stored = {f"{module}.weight": codes, f"{module}.weight_scale": scale, f"{module}.input_scale": torch.tensor(0.25)}
    stored["model.layers.0.self_attn.k_scale"] = torch.tensor(1.0)
    yield case("fp8-static", method("fp8", activation_scheme="static"), [(stored, {f"{module}.weight": expected})])
    module = "layers.0.attention.wq"
    codes, scale, expected = one(weight("mistral", 48, 40))
    scale = scale.to(torch.bfloat16)
    stored = {f"{module}.weight": codes, f"{module}.qscale_weight": scale, f"{module}.qscale_act": torch.tensor(0.5).to(torch.bfloat16)}
    yield case("fp8-mistral", {}, [(stored, {f"{module}.weight": codes.float() * scale.float()})])
    # DeepSeek V4: scales that are powers of two, by their exponents.
    codes, scales, expected = blocks(weight("v4", 130, 140), 128, True)
    exponents = (scales.log2().to(torch.int32) + 127).to(torch.uint8).view(torch.float8_e8m0fnu)
    stored = {"layers.0.attn.wo.weight": codes, "layers.0.attn.wo.scale": exponents}
    values = {"layers.0.attn.wo.weight": expected}
    pairs = torch.randint(0, 256, (24, 32), generator=torch.Generator().manual_seed(4), dtype=torch.int32).to(torch.uint8)
    powers = torch.randint(118, 124, (24, 2), generator=torch.Generator().manual_seed(5), dtype=torch.int32)
    table = torch.tensor([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
    nibbles = torch.stack([pairs & 15, pairs >> 4], dim=-1).reshape(24, 64).long()
    stored["layers.0.ffn.experts.0.w1.weight"] = pairs.view(torch.int8)
    stored["layers.0.ffn.experts.0.w1.scale"] = powers.to(torch.uint8).view(torch.float8_e8m0fnu)
    scale = torch.exp2((powers - 127).float()).repeat_interleave(32, dim=1)
    values["layers.0.ffn.experts.0.w1.weight"] = table[nibbles] * scale
    yield case("deepseek-v4", method("fp8", fmt="e4m3", scale_fmt="ue8m0", weight_block_size=[128, 128]), [(stored, values)])
