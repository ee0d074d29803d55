"""compressed-tensors 0.20: its compressors pack, and unpack with the scales in F32."""

import torch
from compressed_tensors.compressors import BaseCompressor, unpack_fp4_from_uint8
from compressed_tensors.quantization import QuantizationArgs, QuantizationScheme
from compressed_tensors.quantization.lifecycle.forward import dequantize
from compressed_tensors.utils.match import match_name

from .seeded import method, weight

SAID = {"packed_by": "compressed-tensors 0.20.0", "judged_by": "compressed-tensors 0.20.0, scales in F32"}


def ranges(values, args):
    """A scale, and a zero point, for each row, group or block."""
    rows, columns = values.shape
    if args.strategy == "tensor":
        boxes = values.reshape(1, -1)
        shape = (1,)
    elif args.strategy == "channel":
        boxes = values
        shape = (rows, 1)
    elif args.strategy == "block":
        down, across = args.block_structure
        shape = (-(-rows // down), -(-columns // across))
        padded = torch.nn.functional.pad(values, (0, shape[1] * across - columns, 0, shape[0] * down - rows))
        boxes = padded.reshape(shape[0], down, shape[1], across).transpose(1, 2).reshape(*shape, -1)
    else:
        boxes = values.reshape(rows, -1, args.group_size)
        shape = (rows, columns // args.group_size)
    if args.symmetric:
        most = 448 if args.type == "float" else 2 ** (args.num_bits - 1) - 0.5
        return (boxes.abs().amax(-1) / most).reshape(shape), torch.zeros(shape, dtype=torch.int8)
    low, high = boxes.amin(-1).clamp(max=0), boxes.amax(-1).clamp(min=0)
    scale = (high - low) / (2**args.num_bits - 1)
    zero = (-(2 ** (args.num_bits - 1)) - torch.round(low / scale)).to(torch.int8)
    return scale.reshape(shape), zero.reshape(shape)


def experts(name, size, **arguments):
    """Stacked matrices, which are packed one by one."""
    args = QuantizationArgs(**arguments)
    scheme = QuantizationScheme(targets=["Linear"], weights=args, format="pack-quantized")
    module, values = "model.layers.0.mlp.experts.gate_up_proj", weight(name, size[0] * size[1], size[2]).reshape(size)
    scale, zero = (torch.stack(all) for all in zip(*(ranges(matrix, args) for matrix in values)))
    state = {"weight": values, "weight_scale": scale.half().float()}
    if not args.symmetric:
        state["weight_zero_point"] = zero
    compressor = BaseCompressor.get_value_from_registry("pack-quantized")
    packed = compressor.compress(state, scheme)
    expected = compressor.decompress(dict(packed), scheme)["weight"]
    packed["weight_scale"] = packed["weight_scale"].half()
    stored = {f"{module}.{key}": value for key, value in packed.items()}
    config = method("compressed-tensors", format="pack-quantized", config_groups={"group_0": json_of(scheme)}, ignore=["lm_head"])
    return {"name": name, "config": config, "stored": stored, "expected": {f"{module}.weight": expected}, **SAID}


def module(name, size, format, scale_dtype, **arguments):
    """The stored tensors of a module, its true weight, and its group of the configuration."""
    args = QuantizationArgs(**arguments)
    scheme = QuantizationScheme(targets=["Linear"], weights=args, format=format)
    values = weight(name, *size)
    scale, zero = ranges(values, args)
    scale = scale.to(scale_dtype)
    state = {"weight": values, "weight_scale": scale.float()}
    if not args.symmetric or format == "int-quantized":
        state["weight_zero_point"] = zero
    if args.actorder == "group":
        order = torch.randperm(size[1], generator=torch.Generator().manual_seed(9))
        state["weight_g_idx"] = torch.argsort(order).to(torch.int32) // args.group_size
    compressor = BaseCompressor.get_value_from_registry(format)
    packed = compressor.compress(dict(state), scheme)
    expected = compressor.decompress(dict(packed), scheme)["weight"]
    packed["weight_scale"] = packed["weight_scale"].to(scale_dtype)
    stored = {f"{name}.{key}": value for key, value in packed.items()}
    return stored, {f"{name}.weight": expected}, scheme


def micro(name, format, arguments):
    """Microscaled floats: scales that are floats of eight bits, or powers of two."""
    args = QuantizationArgs(**arguments)
    scheme = QuantizationScheme(targets=["Linear"], weights=args, format=format)
    module, values = "model.layers.0.mlp.up_proj", weight(name, 24, 96)
    boxes = values.reshape(24, -1, args.group_size).abs().amax(-1)
    state = {"weight": values}
    if args.strategy == "tensor_group":
        state["weight_global_scale"] = (448 * 6 / values.abs().max()).reshape(1)
        state["weight_scale"] = (boxes / 6 * state["weight_global_scale"]).to(torch.float8_e4m3fn).float()
    else:
        most = {4: 6, 6: 7.5, 8: 448}[args.num_bits]
        state["weight_scale"] = torch.exp2(torch.ceil(torch.log2(boxes / most)))
    compressor = BaseCompressor.get_value_from_registry(format)
    packed = compressor.compress(dict(state), scheme)
    expected = compressor.decompress({key: value.clone() for key, value in packed.items()}, scheme)["weight"].float()
    if args.strategy == "tensor_group":
        # It computes in BF16; in F32 the same steps give what it would be.
        codes = unpack_fp4_from_uint8(packed["weight_packed"], *values.shape).float()
        wide = dequantize(codes, packed["weight_scale"].float(), args=args, global_scale=state["weight_global_scale"], dtype=torch.float32)
        assert (wide - expected).abs().max() <= wide.abs().max() / 128
        expected = wide
    stored = {f"{module}.{key}": value for key, value in packed.items()}
    config = method("compressed-tensors", format=format, config_groups={"group_0": json_of(scheme)}, ignore=["lm_head"])
    return {"name": name, "config": config, "stored": stored, "expected": {f"{module}.weight": expected}, **SAID}


def case(name, format, size, scale_dtype=torch.bfloat16, **arguments):
    stored, expected, scheme = module("model.layers.0.mlp.up_proj", size, format, scale_dtype, **arguments)
    group = json_of(scheme)
    config = method("compressed-tensors", format=format, config_groups={"group_0": group}, ignore=["lm_head"])
    return {"name": name, "config": config, "stored": stored, "expected": expected, **SAID}


def json_of(scheme):
    keys = ("num_bits", "type", "symmetric", "strategy", "group_size", "block_structure", "actorder")
    weights = {key: getattr(scheme.weights, key, None) for key in keys}
    weights = {key: getattr(value, "value", value) for key, value in weights.items()}
    return {"targets": scheme.targets, "weights": weights, "format": scheme.format}


def cases():
    four = dict(num_bits=4, type="int", strategy="group", group_size=32)
    yield case("ct-pack-int4", "pack-quantized", (40, 96), symmetric=True, **four)
    yield case("ct-pack-int4-half", "pack-quantized", (40, 96), torch.float16, symmetric=True, **four)
    yield case("ct-pack-int4-asym", "pack-quantized", (40, 96), torch.float16, symmetric=False, **four)
    eight = dict(num_bits=8, type="int", strategy="channel", symmetric=True)
    yield case("ct-pack-int8", "pack-quantized", (24, 96), torch.float16, **eight)
    yield case("ct-pack-int3", "pack-quantized", (24, 96), torch.float16, num_bits=3, type="int", strategy="group", group_size=32, symmetric=True)
    yield case("ct-pack-int5", "pack-quantized", (24, 96), torch.float16, num_bits=5, type="int", strategy="group", group_size=32, symmetric=True)
    yield case("ct-pack-int2", "pack-quantized", (24, 128), torch.float16, num_bits=2, type="int", strategy="group", group_size=64, symmetric=True)
    yield case("ct-int8-channel", "int-quantized", (24, 96), torch.float16, **eight)
    yield case("ct-int8-tensor", "int-quantized", (24, 96), num_bits=8, type="int", strategy="tensor", symmetric=True)
    float8 = dict(num_bits=8, type="float", symmetric=True)
    yield case("ct-float-channel", "float-quantized", (24, 96), strategy="channel", **float8)
    yield case("ct-float-tensor", "float-quantized", (24, 96), torch.float32, strategy="tensor", **float8)
    yield case("ct-float-block", "float-quantized", (40, 96), strategy="block", block_structure=[16, 64], **float8)
    yield micro("ct-nvfp4", "nvfp4-pack-quantized", dict(num_bits=4, type="float", strategy="tensor_group", group_size=16, symmetric=True))
    yield micro("ct-mxfp4", "mxfp4-pack-quantized", dict(num_bits=4, type="float", strategy="group", group_size=32, symmetric=True))
    eight_bits = dict(num_bits=8, type="float", strategy="group", group_size=32, symmetric=True, scale_dtype=torch.uint8)
    yield micro("ct-mxfp8", "mxfp8-quantized", eight_bits)
    six = dict(num_bits=6, type="float", strategy="group", group_size=32, symmetric=True, scale_dtype=torch.uint8)
    yield micro("ct-mxfp6", "mxfp6-pack-quantized", six)
    yield case("ct-pack-int4-tensor", "pack-quantized", (40, 96), num_bits=4, type="int", strategy="tensor", symmetric=True)
    yield case("ct-pack-int4-tensor-asym", "pack-quantized", (40, 96), num_bits=4, type="int", strategy="tensor", symmetric=False)
    yield case("ct-pack-int4-channel-asym", "pack-quantized", (40, 96), torch.float16, num_bits=4, type="int", strategy="channel", symmetric=False)
    yield experts("ct-pack-int4-experts", (3, 20, 96), symmetric=True, **four)
    # Zero points of each matrix end within a word.
    yield experts("ct-pack-int4-experts-asym", (3, 20, 96), symmetric=False, **four)
    yield experts("ct-pack-int3-experts-asym", (2, 20, 96), num_bits=3, type="int", strategy="group", group_size=32, symmetric=False)
    names = ("model.layers.0.self_attn.q_proj", "model.layers.0.mlp.down_proj")
    yield two_groups("ct-two-groups", dict(symmetric=True, **four), eight, (["re:.*self_attn.*"], [names[1]]))
    # Patterns that look around.
    around = (["re:^(?=.*attn).*_proj$"], [r"re:^model\.(?!.*self_attn|lm_head).*(?<!up)_proj$"])
    assert [[match_name(name, target) for (target,) in around] for name in names] == [[True, False], [False, True]]
    yield two_groups("ct-two-groups-around", dict(symmetric=True, **four), eight, around)


def two_groups(name, first, second, targets):
    """Two modules, each of a group of its own."""
    stored, expected, groups = {}, {}, {}
    for number, (module_name, arguments) in enumerate((
        ("model.layers.0.self_attn.q_proj", first),
        ("model.layers.0.mlp.down_proj", second),
    )):
        own, value, scheme = module(module_name, (24, 96), "pack-quantized", torch.float16, **arguments)
        group = json_of(scheme)
        group["targets"] = targets[number]
        groups[f"group_{number}"] = group
        stored.update(own)
        expected.update(value)
    stored["lm_head.weight"] = weight("lm_head", 16, 96).to(torch.bfloat16)
    config = method("compressed-tensors", format="pack-quantized", config_groups=groups, ignore=["lm_head"])
    return {"name": name, "config": config, "stored": stored, "expected": expected, **SAID}
