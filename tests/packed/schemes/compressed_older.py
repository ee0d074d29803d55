"""compressed-tensors 0.11: what later versions read, and no longer write: columns in the order of their activations, and words
whose last bits are idle."""

import torch
from compressed_tensors.compressors.quantized_compressors.pack_quantized import PackedQuantizationCompressor
from compressed_tensors.quantization import QuantizationArgs

from .seeded import method, weight

SAID = {"packed_by": "compressed-tensors 0.11.0", "judged_by": "compressed-tensors 0.11.0, scales in F32"}
MODULE = "model.layers.0.mlp.up_proj"


def case(name, size, **arguments):
    args = QuantizationArgs(type="int", strategy="group", symmetric=True, **arguments)
    values, (rows, columns) = weight(name, *size), size
    index = torch.arange(columns) // args.group_size
    if args.actorder is not None:
        index = index[torch.randperm(columns, generator=torch.Generator().manual_seed(9))]
    most = 2 ** (args.num_bits - 1) - 0.5
    scale = torch.stack([values[:, index == group].abs().amax(1) for group in range(int(index.max()) + 1)], 1) / most
    scale = scale.half().float()
    given = {"scale": scale, "zero_point": torch.zeros_like(scale, dtype=torch.int8), "g_idx": index.to(torch.int32)}
    compressor = PackedQuantizationCompressor()
    packed = compressor.compress_weight(values, quantization_args=args, **given)
    packed["weight_scale"] = scale
    if args.actorder is not None:
        packed["weight_g_idx"] = given["g_idx"]
    expected = compressor.decompress_weight(packed, args)
    packed["weight_scale"] = scale.half()
    stored = {f"{MODULE}.{key}": value for key, value in packed.items()}
    keys = ("num_bits", "type", "symmetric", "strategy", "group_size", "block_structure", "actorder")
    weights = {key: getattr(getattr(args, key), "value", getattr(args, key)) for key in keys}
    group = {"targets": ["Linear"], "weights": weights}
    config = method("compressed-tensors", format="pack-quantized", config_groups={"group_0": group}, ignore=["lm_head"])
    return {"name": name, "config": config, "stored": stored, "expected": {f"{MODULE}.weight": expected}, **SAID}


def cases():
    yield case("ct-pack-int4-actorder", (40, 96), num_bits=4, group_size=32, actorder="group")
    yield case("ct-pack-int3-padded", (24, 96), num_bits=3, group_size=32)
