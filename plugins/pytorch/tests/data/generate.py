#!/usr/bin/env python3
"""Writes the fixtures of this folder with torch 2.15.0 and numpy 2.4.6, and what torch says of each (NAME.golden.json).

Values come from torch.Generator().manual_seed(20). Nothing depends on the machine but the `serialization_id` record,
which is a hash of the records' names and sizes.
"""
import argparse
import collections
import datetime
import decimal
import hashlib
import io
import json
import os
import pathlib
import pickle
import struct
import sys
import tarfile
import types
import warnings
import zipfile
from collections import OrderedDict

import numpy
import torch

warnings.filterwarnings("ignore")
assert torch.__version__.split("+")[0] == "2.15.0", torch.__version__
HERE = pathlib.Path(__file__).parent
GENERATOR = torch.Generator().manual_seed(20)
NAMES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16",
    torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8",
    torch.uint16: "U16", torch.uint32: "U32", torch.uint64: "U64", torch.bool: "BOOL",
    torch.complex64: "C64", torch.complex128: "C128",
    torch.float8_e4m3fn: "F8_E4M3", torch.float8_e5m2: "F8_E5M2", torch.float8_e4m3fnuz: "F8_E4M3FNUZ",
    torch.float8_e5m2fnuz: "F8_E5M2FNUZ", torch.float8_e8m0fnu: "F8_E8M0",
    torch.qint8: "I8", torch.quint8: "U8", torch.qint32: "I32",
}
PLAIN = [dtype for dtype in NAMES if not str(dtype).startswith(("torch.qint", "torch.quint"))]


def floats(*shape):
    return torch.randn(*shape, generator=GENERATOR)


def of(dtype, *shape):
    """A tensor of any type, by its bytes where torch makes no random ones of it."""
    if dtype.is_complex:
        return torch.complex(floats(*shape), floats(*shape)).to(dtype)
    if dtype.is_floating_point and dtype.itemsize > 1:
        return floats(*shape).to(dtype)
    if dtype == torch.bool:
        return torch.randint(0, 2, shape, generator=GENERATOR).bool()
    count = 1
    for size in shape:
        count *= size
    raw = torch.randint(0, 120, (count * dtype.itemsize,), generator=GENERATOR, dtype=torch.uint8)
    return raw.view(dtype).reshape(shape)


def payload(tensor):
    tensor = tensor.detach()
    if tensor.is_quantized:
        tensor = tensor.int_repr()
    tensor = tensor.contiguous().clone(memory_format=torch.contiguous_format)
    return bytes(tensor.untyped_storage())


def entry(name, tensor):
    return {
        "name": name,
        "dtype": NAMES[tensor.dtype],
        "shape": list(tensor.shape),
        "sha256": hashlib.sha256(payload(tensor)).hexdigest(),
    }


def flatten(value, path=""):
    """Every tensor of a value with its path."""
    if isinstance(value, torch.Tensor):
        yield path or "data", value
        for key, item in vars(value).items():
            yield from flatten(item, f"{path}.{key}" if path else key)
        if value.is_quantized and value.qscheme() != torch.per_tensor_affine:
            yield f"{path}.q_scales", value.q_per_channel_scales()
            yield f"{path}.q_zero_points", value.q_per_channel_zero_points()
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from flatten(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, (list, tuple)):
        for n, item in enumerate(value):
            yield from flatten(item, f"{path}.{n}" if path else str(n))


def golden(name, tensors):
    said = {"by": f"torch {torch.__version__.split('+')[0]}", "tensors": [entry(*pair) for pair in tensors]}
    (HERE / f"{name}.golden.json").write_text(json.dumps(said, indent=1) + "\n")


def save(name, value, state=None, **how):
    torch.save(value, HERE / name, **how)
    loaded = torch.load(HERE / name, weights_only=not name.startswith("protocol_"), map_location="cpu")
    if state is not None:
        loaded = loaded[state]
    golden(name, flatten(loaded))


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(5, 4)
        self.norm = torch.nn.BatchNorm1d(4)
        self.head = torch.nn.Linear(4, 5, bias=False)
        self.head.weight = self.embed.weight
        for parameter in self.parameters():
            parameter.data = floats(*parameter.shape)

    def forward(self, x):
        return self.head(self.embed(x))


class Scripted(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = torch.nn.Linear(3, 2)
        self.inner.weight.data = floats(2, 3)
        self.inner.bias.data = floats(2)
        self.register_buffer("steps", torch.arange(3))
        self.sizes = [1, 2, 3]
        self.table = {"a": 1.5}

    def forward(self, x):
        return self.inner(x) + self.steps.sum()


def legacy_tar(path, tensors, record_suffix="Tensor"):
    """The layout before 0.1.10, as torch 2.15's `_legacy_load.legacy_load` reads it (torch/serialization.py).

    A record of `tensors` names the tensor's type (`torch.FloatTensor`); that reader does not look at it.
    """

    def member(tar, name, data):
        info = tarfile.TarInfo(name)
        info.size = len(data)
        tar.addfile(info, io.BytesIO(data))

    def dump(value):
        return pickle.dumps(value, protocol=2)

    class StorageClass:
        def __init__(self, name):
            self.name = name

    class Pickler(pickle._Pickler):
        def save(self, obj, **rest):
            if isinstance(obj, StorageClass):
                self.write(f"ctorch\n{obj.name}\n".encode())
                return
            super().save(obj, **rest)

        def persistent_id(self, obj):
            return obj.key if isinstance(obj, Reference) else None

    class Reference:
        def __init__(self, key):
            self.key = key

    def special(value):
        out = io.BytesIO()
        Pickler(out, protocol=2).dump(value)
        return out.getvalue()

    classes = {torch.float32: "FloatStorage", torch.int64: "LongStorage"}
    storages, records, named = b"", b"", OrderedDict()
    storages += dump(len(tensors))
    records += dump(len(tensors))
    for n, (name, tensor) in enumerate(tensors.items()):
        key, storage = 1000 + n, 2000 + n
        held = tensor.untyped_storage()
        storages += special((storage, "cpu", StorageClass(classes[tensor.dtype])))
        storages += struct.pack("<q", held.nbytes() // tensor.element_size()) + bytes(held)
        records += special((key, storage, StorageClass(classes[tensor.dtype].replace("Storage", record_suffix))))
        dims = tensor.dim()
        records += struct.pack("<i4x", dims) + struct.pack(f"<{dims}q", *tensor.shape)
        records += struct.pack(f"<{dims}q", *tensor.stride()) + struct.pack("<q", tensor.storage_offset())
        named[name] = Reference(key)
    storages += dump([])
    with tarfile.open(path, "w:", format=tarfile.PAX_FORMAT) as tar:
        member(tar, "sys_info", dump({"protocol_version": 1000, "little_endian": True, "type_sizes": {}}))
        member(tar, "pickle", special(named))
        member(tar, "tensors", records)
        member(tar, "storages", storages)


def main():
    for old in HERE.iterdir():
        if old.suffix in (".pt", ".pth", ".bin", ".ckpt") or old.name.endswith(".golden.json"):
            old.unlink()
    every = OrderedDict((str(dtype).removeprefix("torch."), of(dtype, 2, 3)) for dtype in PLAIN)
    save("every_dtype.pt", every)
    for protocol in (3, 4, 5):
        small = OrderedDict(a=floats(3), b=floats(2, 2))
        save(f"protocol_{protocol}.pt", small, pickle_protocol=protocol)
    save("state_dict.pth", Tied().state_dict())
    model = Tied()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.125, betas=(0.5, 0.75))
    model(torch.tensor([1, 2])).sum().backward()
    optimizer.step()
    save("optimizer.pt", optimizer.state_dict())
    checkpoint = {
        "epoch": 7, "loss": 0.5, "name": "run é", "done": False, "nothing": None, "sizes": [1, 2, 3],
        "mixed": [1, "two", 3.0, None], "pair": (0.25, 0.5), "empty": {}, "big": 1 << 70, "bytes": b"\x00\xff",
        "complex": 1 + 2j, "dtype": torch.bfloat16, "size": torch.Size([2, 3]), "device": torch.device("cpu"),
        "set": {3}, "nested": {"deep": {"er": [True, False]}}, "state_dict": model.state_dict(),
    }
    save("checkpoint.ckpt", checkpoint, state="state_dict")
    save("nested.pt", {"model": {"a": floats(2)}, "ema": [floats(1), {"x": floats(2), 5: floats(3)}]})
    base = floats(6, 4)
    save("views.pt", {
        "base": base, "transposed": base.t(), "slice": base[1:3], "column": base[:, 2], "expanded": floats(1, 3).expand(4, 3),
        "tied": base, "permuted": floats(2, 3, 4).permute(2, 0, 1), "step": base[::2, ::3],
    })
    save("shapes.pt", OrderedDict(scalar=torch.tensor(3.5), none=floats(0), wide=floats(2, 0, 3), one=floats(1, 1, 1), odd=floats(7)))
    save("parameters.pt", OrderedDict(p=torch.nn.Parameter(floats(3)), frozen=torch.nn.Parameter(floats(2), False), buffer=torch.nn.Buffer(floats(2)), grad=floats(2).requires_grad_()))
    save("no_tensors.pt", {"epoch": 1})
    save("tensor.pt", floats(2, 3))
    save("list.pt", [floats(2), (floats(1), torch.tensor(1))])
    quantized = {
        "tensor": torch.quantize_per_tensor(floats(3, 2), 0.125, 10, torch.quint8),
        "signed": torch.quantize_per_tensor(floats(4), 0.5, 0, torch.qint8),
        "wide": torch.quantize_per_tensor(floats(4), 0.001, 0, torch.qint32),
        "channel": torch.quantize_per_channel(floats(2, 3), torch.tensor([0.5, 0.25], dtype=torch.float64), torch.tensor([1, 2]), 0, torch.qint8),
    }
    save("quantized.pt", quantized)
    script = torch.jit.script(Scripted().eval())
    torch.jit.save(script, HERE / "script.pt")
    again = torch.jit.load(HERE / "script.pt")
    golden("script.pt", [("steps", again.steps), ("inner.weight", again.inner.weight), ("inner.bias", again.inner.bias)])
    legacy = OrderedDict(a=floats(2, 3), b=torch.arange(5), base=base, row=base[2], half=floats(3).half(), flag=torch.tensor([True, False]))
    save("legacy_stream.pt", legacy, _use_new_zipfile_serialization=False)
    save("legacy_checkpoint.pt", {"epoch": 3, "model": Tied().state_dict()}, state="model", _use_new_zipfile_serialization=False)
    tensors = OrderedDict(weight=floats(2, 3), column=base[:, 1], steps=torch.arange(4))
    legacy_tar(HERE / "legacy_tar.pt", tensors)
    loaded = torch.load(HERE / "legacy_tar.pt", weights_only=False)
    golden("legacy_tar.pt", flatten(loaded))
    # A big-endian archive: every element of every storage swapped, the record says so.
    swapped = OrderedDict(a=floats(2, 3), b=torch.arange(4), c=torch.complex(floats(2), floats(2)), d=of(torch.uint8, 3))
    torch.save(swapped, HERE / "big_endian.pt")
    rewrite(HERE / "big_endian.pt", swapped)
    golden("big_endian.pt", flatten(torch.load(HERE / "big_endian.pt", weights_only=True)))
    # As a user's zip program leaves it: deflated.
    source = HERE / "state_dict.pth"
    with zipfile.ZipFile(source) as old, zipfile.ZipFile(HERE / "deflated.pt", "w", zipfile.ZIP_DEFLATED) as new:
        for info in old.infolist():
            fresh = zipfile.ZipInfo(info.filename, (1980, 1, 1, 0, 0, 0))
            fresh.compress_type = zipfile.ZIP_DEFLATED
            new.writestr(fresh, old.read(info))
    golden("deflated.pt", flatten(torch.load(source, weights_only=True)))
    folder = HERE / "sharded"
    folder.mkdir(exist_ok=True)
    shards = [OrderedDict(a=floats(2, 3), b=floats(4)), OrderedDict(c=of(torch.bfloat16, 3, 2))]
    index = {"metadata": {"total_size": 52}, "weight_map": {}}
    for n, shard in enumerate(shards, 1):
        name = f"pytorch_model-{n:05}-of-00002.bin"
        torch.save(shard, folder / name)
        index["weight_map"].update({key: name for key in shard})
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps(index, indent=2, sort_keys=True) + "\n")
    both = OrderedDict(item for shard in shards for item in shard.items())
    golden("sharded/pytorch_model.bin.index.json", flatten(both))
    embedding = torch.quantize_per_channel(floats(3, 2), torch.tensor([0.5, 0.25, 0.75]), torch.tensor([1.5, 2.0, 0.5]), 0, torch.quint8)
    save("quantized_embedding.pt", {"embedding": embedding})
    utc = datetime.timezone.utc
    version = torch.torch_version.TorchVersion("2.15.0")
    values = {
        "hyper_parameters": argparse.Namespace(lr=0.125, layers=[1, 2], inner=types.SimpleNamespace(name="é")),
        "path": pathlib.PosixPath("/data/run 1/model"), "relative": pathlib.PurePosixPath("a/b"),
        "windows": pathlib.PureWindowsPath("C:\\runs\\1"), "version": version,
        "counter": collections.Counter("aab"), "default": collections.defaultdict(list, {"x": [1]}),
        "deque": collections.deque([1, 2], 5), "range": range(2, 9, 3), "frozen": frozenset({4}),
        "when": datetime.datetime(2020, 1, 2, 3, 4, 5, 6), "zoned": datetime.datetime(2020, 1, 2, 3, tzinfo=utc),
        "day": datetime.date(1999, 12, 31), "time": datetime.time(23, 59, 1), "span": datetime.timedelta(1, 2, 500000),
        "decimal": decimal.Decimal("1.50"),
        "f16": numpy.float16(-1.5), "f32": numpy.float32(0.1), "f64": numpy.float64(0.1), "c64": numpy.complex64(1 - 2j),
        "i8": numpy.int8(-3), "i64": numpy.int64(-1 << 62), "u16": numpy.uint16(65535), "u64": numpy.uint64(2**64 - 1),
        "bool": numpy.bool_(True), "str": numpy.str_("né"), "dtype": numpy.dtype(">f4"),
        "big": numpy.dtype(">i4").type(7), "rng": numpy.arange(4, dtype=numpy.uint32).reshape(2, 2),
        "state_dict": OrderedDict(w=floats(2)),
    }
    torch.save(values, HERE / "plain_values.ckpt")
    golden("plain_values.ckpt", flatten(torch.load(HERE / "plain_values.ckpt", weights_only=False)["state_dict"]))
    tagged = OrderedDict(p=torch.nn.Parameter(floats(3)), t=floats(2), buffer=torch.nn.Buffer(floats(2), persistent=False))
    tagged["p"].tensor_model_parallel = True
    tagged["p"].partition_dim = 1
    tagged["t"].scale = floats(2)
    tagged["t"].history = [1, "two", {"three": (3.0, None)}]
    save("attributes.pt", tagged)
    # Whole numbers of more than 64 bits: in binary, and as the text that protocols below 2 write.
    numbers = {"seed": 2**64, "least": -2**63 - 1, "list": [2**65, -2**90, 1], "exact": -2**63}
    save("big_numbers.pt", {"w": torch.arange(3), **numbers})
    save("protocol_1.pt", {"w": torch.arange(4), **numbers}, pickle_protocol=1)


def rewrite(path, tensors):
    """The archive with its storages in big-endian order."""
    with zipfile.ZipFile(path) as old:
        records = [(info.filename, old.read(info)) for info in old.infolist()]
    widths = [8 if t.dtype == torch.int64 else 4 if t.dtype != torch.uint8 else 1 for t in tensors.values()]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as new:
        for name, data in records:
            if "/data/" in name:
                width = widths[int(name.rsplit("/", 1)[1])]
                data = b"".join(data[at:at + width][::-1] for at in range(0, len(data), width))
            if name.endswith("byteorder"):
                data = b"big"
            new.writestr(zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0)), data)


if __name__ == "__main__":
    main()
