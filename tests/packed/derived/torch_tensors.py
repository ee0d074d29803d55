"""Tensors that torch quantized, as `torch.save` writes them, and what `dequantize` says that they are."""

import torch

NAME = "torch"


def write(folder):
    """Writes the checkpoint; returns true values by name."""
    torch.manual_seed(17)
    of = lambda *shape: torch.randn(*shape)
    scales = lambda n: torch.rand(n, dtype=torch.float64) / 50 + 1e-3
    channel = lambda t, n, zeros, axis, dtype: torch.quantize_per_channel(t, scales(n), zeros, axis, dtype)
    tensors = {
        "tensor.qint8": torch.quantize_per_tensor(of(6, 40), 0.0213, 3, torch.qint8),
        "tensor.quint8": torch.quantize_per_tensor(of(6, 40), 0.0213, 131, torch.quint8),
        "tensor.qint32": torch.quantize_per_tensor(of(6, 40) * 100, 1.7e-7, 12345, torch.qint32),
        "even": torch.quantize_per_tensor(of(3, 64), 0.0625, 0, torch.qint8),
        "rows.qint8": channel(of(6, 40), 6, torch.randint(-128, 128, (6,)), 0, torch.qint8),
        "columns.quint8": channel(of(6, 40), 40, torch.randint(0, 256, (40,)), 1, torch.quint8),
        "kernel": channel(of(4, 3, 5, 7), 4, torch.zeros(4, dtype=torch.int64), 0, torch.qint8),
        "turned": torch.quantize_per_tensor(of(6, 40), 0.0213, 3, torch.qint8).t(),
        "embedding.quint8": torch.quantize_per_channel(
            of(5, 24), torch.rand(5) / 20 + 1e-3, torch.rand(5) * 200, 0, torch.quint8),
        "plain": of(3, 4),
    }
    torch.save(tensors, folder / "model.pt")
    return {name: t.dequantize().contiguous().numpy() for name, t in tensors.items()}
