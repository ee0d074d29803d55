"""What `torch.save` is given, drawn from the seed. Runs in the interpreter that has torch."""

import math
import warnings
from collections import OrderedDict

import torch

from seed import random_of

# What torch warns of here is meant: quantized tensors and TorchScript are to go one day.
warnings.simplefilter("ignore")

# torch's names of the element types that apr carries, and apr's.
DTYPES = {
    "float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16", "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2", "float8_e4m3fnuz": "F8_E4M3FNUZ", "float8_e5m2fnuz": "F8_E5M2FNUZ",
    "float8_e8m0fnu": "F8_E8M0", "int64": "I64", "int32": "I32", "int16": "I16", "int8": "I8", "uint64": "U64",
    "uint32": "U32", "uint16": "U16", "uint8": "U8", "bool": "BOOL", "complex64": "C64", "complex128": "C128",
    "qint8": "I8", "quint8": "U8", "qint32": "I32",
}
QUANTIZED = ("qint8", "quint8", "qint32")
PLAIN = [name for name in DTYPES if name not in QUANTIZED]


def tensor(random, dtype, shape):
    """Any bits at all, NaNs too."""
    dtype = getattr(torch, dtype) if isinstance(dtype, str) else dtype
    count = math.prod(shape)
    if count == 0:
        return torch.empty(shape, dtype=dtype)
    raw = random.integers(0, 2, count).astype("u1").tobytes() if dtype == torch.bool else random.bytes(count * dtype.itemsize)
    return torch.frombuffer(bytearray(raw), dtype=torch.uint8).clone().view(dtype).reshape(shape)


def shape_of(random, dims=(0, 5)):
    return tuple(int(n) for n in random.integers(1, 9, int(random.integers(*dims))))


def dtypes(random):
    return {f"layer.{n}.{name}": tensor(random, name, shape_of(random)) for n, name in enumerate(PLAIN * 2)}


def floats(random):
    """What every layout of files has."""
    names = ["float64", "float32", "float16", "bfloat16", "int64", "int32", "int16", "int8", "uint8", "bool", "complex64"]
    return OrderedDict((f"{name}.weight", tensor(random, name, shape_of(random))) for name in names)


def one_type(random, name):
    return {"a": tensor(random, "float32", (2,)), f"of.{name}": tensor(random, name, (4, 6))}


def views(random):
    base = tensor(random, "float32", (6, 8))
    halves = tensor(random, "bfloat16", (4, 5, 6))
    return {
        "base": base, "transposed": base.t(), "column": base[:, 3], "rows": base[2:5], "last.element": base[-1, -1],
        "every.other": base[::2, 1::3], "expanded": base[0, :1].expand(50, 8), "diagonal": base.diagonal(),
        "overlapping": base.as_strided((5, 4), (3, 1), 2), "permuted": halves.permute(2, 0, 1), "part": halves[1, 2:, :4],
        "channels.last": tensor(random, "float16", (2, 3, 4, 5)).to(memory_format=torch.channels_last),
        "unsqueezed": base.t().unsqueeze(1), "complex": tensor(random, "complex64", (3, 4)).t(),
        "bytes": tensor(random, "uint8", (7, 9)).t(), "flags": tensor(random, "bool", (3, 5)).t(),
    }


def tied(random):
    embedding = tensor(random, "float16", (9, 4))
    return OrderedDict([("embed.weight", embedding), ("middle", tensor(random, "int8", (3,))), ("head.weight", embedding),
                        ("view.of.it", embedding[2:4]), ("same.storage", embedding.view(4, 9))])


def odd(random):
    names = ["", " ", "a.b/c", "é日本😀", "new\nline", "\x01\x7f", '"\\', "n" * 3000, "1", "__metadata__x"]
    shapes = [(), (1,), (0,), (3, 0), (0, 2, 5), (1, 1, 1, 1, 1), (2, 1, 2, 1, 2, 1, 2, 1), (), (7,), (2, 0)]
    kinds = ["float32", "int64", "float32", "bfloat16", "int8", "float64", "uint8", "bool", "float8_e5m2", "complex128"]
    return {name: tensor(random, kind, shape) for name, kind, shape in zip(names, kinds, shapes)}


def many(random):
    return OrderedDict((f"layers.{n}.weight", tensor(random, PLAIN[n % len(PLAIN)], shape_of(random))) for n in range(700))


def large(random):
    return {"a": tensor(random, "float32", (700, 1024)), "b": tensor(random, "bfloat16", (3, 900_001)),
            "c": tensor(random, "int8", (2_000_003,)), "d": tensor(random, "float16", (300, 900)).t()}


def module(random):
    torch.manual_seed(int(random.integers(2**31)))
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.Linear(5, 6), torch.nn.Embedding(7, 3),
        torch.nn.GRU(3, 2, batch_first=True), torch.nn.MultiheadAttention(4, 2))


def trained(random):
    """A module and an optimizer that has taken steps."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.LayerNorm(5), torch.nn.Linear(5, 2))
    torch.manual_seed(int(random.integers(2**31)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, amsgrad=True)
    for _ in range(2):
        optimizer.zero_grad()
        model(torch.randn(3, 4)).square().sum().backward()
        optimizer.step()
    return model, optimizer


def checkpoint(random):
    """What training scripts keep: more than tensors, at several depths."""
    model, optimizer = trained(random)
    return {
        "epoch": 3, "loss": 0.25, "best": None, "done": False, "name": "é", "big": 2**80, "args": {"lr": 1e-3, "sizes": [1, 2]},
        "shape": torch.Size([2, 3]), "dtype": torch.bfloat16, "device": torch.device("cpu"), "raw": bytearray(b"\x00\xff"),
        "model": model.state_dict(), "optimizer": optimizer.state_dict(), "random": torch.get_rng_state(),
        "history": [tensor(random, "float32", (2,)), (tensor(random, "int64", ()), {"deep": {"er": tensor(random, "int8", (3,))}})],
    }


def wrapped(random):
    """A state dict below the key that most scripts use, and nothing else there that is a tensor."""
    return {"state_dict": trained(random)[0].state_dict(), "epoch": 7}


def quantized(random):
    values = torch.from_numpy(random.standard_normal((4, 6)).astype("f4"))
    scales = torch.tensor([0.1, 0.02, 0.3, 1.5], dtype=torch.float64)
    return {
        "per.tensor": torch.quantize_per_tensor(values, 0.037, 3, torch.qint8),
        "unsigned": torch.quantize_per_tensor(values, 0.5, 128, torch.quint8),
        "wide": torch.quantize_per_tensor(values, 1e-6, 0, torch.qint32),
        "per.channel": torch.quantize_per_channel(values, scales, torch.tensor([0, 1, -2, 3]), 0, torch.qint8),
        "plain": values,
    }


def trace_free_script(random):
    return torch.jit.script(torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.BatchNorm1d(4)))


# Everything that must read back: its name, and the function that draws it.
CASES = {
    "dtypes": dtypes, "views": views, "tied": tied, "odd": odd, "many": many, "large": large,
    "state-dict": lambda random: module(random).state_dict(),
    "parameters": lambda random: dict(module(random).named_parameters()),
    "parameter": lambda random: {"a": torch.nn.Parameter(tensor(random, "float32", (3, 2))),
                                 "b": torch.nn.Buffer(tensor(random, "float32", (2,))),
                                 "c": torch.nn.Parameter(tensor(random, "int8", (2,)), requires_grad=False)},
    "optimizer": lambda random: trained(random)[1].state_dict(),
    "checkpoint": checkpoint, "wrapped": wrapped, "floats": floats, "quantized": quantized,
    "list": lambda random: [tensor(random, "float32", (2, 3)), tensor(random, "int8", (4,))],
    "alone": lambda random: tensor(random, "bfloat16", (5, 2)),
    "nothing": lambda random: {},
}


def refused(name):
    """What apr cannot carry, which is to be refused by name."""
    random = random_of(f"refused {name}")
    dense = tensor(random, "float32", (3, 4)).nan_to_num().clamp(-1, 1).relu()
    cube = dense.reshape(2, 2, 3)
    return {
        "sparse COO": lambda: {"s": dense.to_sparse()}, "sparse CSR": lambda: {"s": dense.to_sparse_csr()},
        "sparse CSC": lambda: {"s": dense.to_sparse_csc()}, "sparse BSR": lambda: {"s": dense[:2].to_sparse_bsr((1, 2))},
        "nested": lambda: {"s": torch.nested.nested_tensor([cube[0], cube[1, :1]])},
        "meta": lambda: {"s": torch.empty(3, device="meta")},
        "conj": lambda: {"s": tensor(random, "complex64", (3,)).conj()},
        "neg": lambda: {"s": tensor(random, "complex64", (3,)).conj().imag},
        "module": lambda: torch.nn.Linear(2, 3),
    }[name]()


def storable():
    """Names of the element types of which torch can save and load a tensor."""
    import io
    found = {str(value)[6:] for value in vars(torch).values() if isinstance(value, torch.dtype)}
    kept = []
    for name in sorted(found):
        file = io.BytesIO()
        try:
            torch.save({"a": tensor(random_of(name), name, (2, 4))}, file)
            file.seek(0)
            torch.load(file, weights_only=True)
        except Exception:
            continue
        kept.append(name)
    return kept
