"""Tensors that torch quantized to 4 and 2 bits, several codes in a byte, and what `dequantize` says that they are."""

import torch

NAME = "torch-packed"


def write(folder):
    """Writes the checkpoint; returns true values by name."""
    torch.manual_seed(18)
    tensors = {}
    for dtype, most in ((torch.quint4x2, 15), (torch.quint2x4, 3)):
        # Rows that end within a byte, and rows that do not.
        for shape in ((5, 24), (3, 7), (2, 3, 5)):
            name = f"{str(dtype).removeprefix('torch.')}.{'x'.join(map(str, shape))}"
            values, rows = torch.randn(*shape), shape[0]
            scales = torch.rand(rows) / 5 + 0.05
            tensors[f"rows.{name}"] = torch.quantize_per_channel(values, scales, torch.rand(rows) * most, 0, dtype)
            tensors[f"tensor.{name}"] = torch.quantize_per_tensor(values, 0.213, 2, dtype)
    torch.save(tensors, folder / "model.pt")
    return {name: t.dequantize().contiguous().numpy() for name, t in tensors.items()}
