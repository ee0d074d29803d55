"""Does for interop.py what needs torch: one JSON request a line on stdin, one JSON answer a line on stdout.

Run by `torch_judge.py` in an interpreter that has torch; the script's own interpreter need not have it.
"""

import ctypes
import hashlib
import json
import sys
import traceback
from pathlib import Path

import torch

import torch_objects
from seed import random_of


def flattened(value, way=()):
    """Every tensor in plain containers, under the keys that lead to it."""
    if isinstance(value, torch.Tensor):
        yield ".".join(way), value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from flattened(item, (*way, str(key)))
    elif isinstance(value, (list, tuple)):
        for number, item in enumerate(value):
            yield from flattened(item, (*way, str(number)))


def quantizer(tensor):
    """How a quantized tensor's numbers are meant; none for others."""
    if not tensor.is_quantized:
        return None
    if tensor.qscheme() in (torch.per_tensor_affine, torch.per_tensor_symmetric):
        return [str(tensor.qscheme()), tensor.q_scale(), tensor.q_zero_point()]
    return [str(tensor.qscheme()), tensor.q_per_channel_scales().tolist(), tensor.q_per_channel_zero_points().tolist(),
            tensor.q_per_channel_axis()]


def facts(name, tensor):
    plain = tensor.detach().resolve_conj().resolve_neg()
    if plain.is_quantized:
        plain = plain.int_repr()
    plain = plain.contiguous()
    length = plain.numel() * plain.element_size()
    data = ctypes.string_at(plain.data_ptr(), length) if length else b""
    kind = str(tensor.dtype)[6:]
    return {
        "name": name, "dtype": torch_objects.DTYPES.get(kind, kind), "torch_dtype": kind, "shape": list(tensor.shape),
        "bytes": length, "sha256": hashlib.sha256(data).hexdigest(), "contiguous": tensor.is_contiguous(),
        "storage": tensor.untyped_storage().data_ptr(), "quantizer": quantizer(tensor),
    }


def listed(value):
    if isinstance(value, torch.nn.Module):
        pairs = [*value.named_parameters(), *value.named_buffers()]
    else:
        pairs = list(flattened(value))
    rows = [facts(name, tensor) for name, tensor in pairs]
    for row, (name, tensor) in zip(rows, pairs):
        if tensor.is_quantized and len(row["quantizer"]) == 4:
            # What makes values of each channel's numbers, under the names that apr gives it.
            row["channels"] = [facts(f"{name}.q_scales", tensor.q_per_channel_scales()),
                               facts(f"{name}.q_zero_points", tensor.q_per_channel_zero_points())]
    return rows


def save(request):
    """Draws a case and writes it; gives what it has."""
    case = request["case"]
    random = random_of(f"torch {case}")
    value = torch_objects.CASES[case](random)
    torch.save(value, request["path"], **request["options"])
    return listed(value)


def save_type(request):
    value = torch_objects.one_type(random_of("one type"), request["dtype"])
    torch.save(value, request["path"])
    return listed(value)


def save_refused(request):
    torch.save(torch_objects.refused(request["case"]), request["path"])
    return []


def save_script(request):
    script = torch_objects.trace_free_script(random_of("script"))
    torch.jit.save(script, request["path"])
    return listed(script)


def save_sharded(request):
    """Shards and an index, as huggingface's tools of the time wrote them."""
    value = torch_objects.floats(random_of("sharded torch"))
    names = list(value)
    folder, weight_map = Path(request["path"]), {}
    folder.mkdir(parents=True)
    for number in range(3):
        file = f"pytorch_model-{number + 1:05}-of-00003.bin"
        part = {name: value[name] for name in names[number::3]}
        torch.save(part, folder / file)
        weight_map |= dict.fromkeys(part, file)
    total = sum(tensor.numel() * tensor.element_size() for tensor in value.values())
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (folder / "pytorch_model.bin.index.json").write_text(json.dumps(index, indent=2, sort_keys=True) + "\n")
    return listed(value)


class Calls:
    """What a hostile file is made of: unpickling calls a function."""

    def __init__(self, function, *arguments):
        self.call = (function, arguments)

    def __reduce__(self):
        return self.call


def save_hostile(request):
    """A checkpoint that looks like any other, and runs a command when it is loaded."""
    import os
    value = {"weight": torch.ones(2), "note": Calls(os.system, f"touch {request['canary']}")}
    torch.save(value, request["path"], **request["options"])
    return []


def load(request):
    """The safest way that torch has: nothing but weights, the file mapped."""
    return listed(torch.load(request["path"], weights_only=True, mmap=request["mmap"]))


def load_anything(request):
    torch.load(request["path"], weights_only=False)
    return []


def storable(_):
    return torch_objects.storable()


def carried(_):
    # The last two are read alone; tests/packed/derived judges their values.
    return [*torch_objects.DTYPES, "quint4x2", "quint2x4"]


DO = {f.__name__: f for f in (
    save, save_type, save_refused, save_script, save_sharded, save_hostile, load, load_anything, storable, carried)}


def main():
    answers = sys.stdout
    sys.stdout = sys.stderr  # Whatever torch prints is no answer.
    print(json.dumps({"ready": f"torch {torch.__version__}"}), file=answers, flush=True)
    for line in sys.stdin:
        request = json.loads(line)
        try:
            answer = {"done": DO[request["do"]](request)}
        except Exception as error:
            answer = {"failed": f"{type(error).__name__}: {error}", "trace": traceback.format_exc()}
        print(json.dumps(answer), file=answers, flush=True)


main()
