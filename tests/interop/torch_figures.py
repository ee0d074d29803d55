"""What figures.py needs of torch, in an interpreter that has torch and safetensors: `torch_figures.py COMMAND PATH ...`."""

import os
import sys
import time

import torch


def large(path, mib):
    """A state dict of `mib` MiB in tensors of 32 MiB, of bytes that do not repeat."""
    generator = torch.Generator().manual_seed(1)
    value = {}
    for number in range(int(mib) // 32):
        raw = torch.randint(-(2**63), 2**63 - 1, (1 << 22,), dtype=torch.int64, generator=generator)
        value[f"model.layers.{number:04}.weight"] = raw.view(torch.bfloat16).reshape(4096, 4096)
    torch.save(value, path)


def hollow(path, mib):
    """The same, but its records are holes: torch leaves room for data that it is not given."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    with FakeTensorMode():
        value = {f"model.layers.{n:04}.weight": torch.empty(4096, 4096, dtype=torch.bfloat16) for n in range(int(mib) // 32)}
    with torch.serialization.skip_data(materialize_fake_tensors=True):
        torch.save(value, path)


def convert(source, output, mmap):
    """What a user of both packages does; prints the seconds, imports left out, until it is saved and until it is on the disk."""
    from safetensors.torch import save_file
    began = time.monotonic()
    save_file(torch.load(source, weights_only=True, mmap=mmap == "mmap"), output)
    saved = time.monotonic() - began
    with open(output, "rb+") as file:
        os.fsync(file.fileno())
    print(saved, time.monotonic() - began)


{"large": large, "hollow": hollow, "convert": convert}[sys.argv[1]](*sys.argv[2:])
