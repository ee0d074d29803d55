"""Weights from a seed, of a size such as models have."""

import torch


def weight(name, rows, columns, scale=0.05):
    """A matrix of normal values, the same for the same name."""
    seed = sum((at + 1) * byte for at, byte in enumerate(name.encode()))
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, columns, generator=generator) * scale


def method(name, **more):
    """What a configuration says about its method."""
    return {"quantization_config": {"quant_method": name, **more}}
