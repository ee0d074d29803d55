"""torch as a writer and as a judge, in an interpreter of its own: see `torch_worker.py`."""

import atexit
import json
import os
import subprocess
from pathlib import Path

from models import Model, Tensor
from report import Failure, Skipped

PYTHON = os.environ.get("APR_INTEROP_TORCH_PYTHON", "")
_worker = None


def worker():
    global _worker
    if _worker is None:
        if not PYTHON:
            raise Skipped("there is no interpreter with torch")
        script = Path(__file__).parent / "torch_worker.py"
        try:
            _worker = subprocess.Popen([PYTHON, "-B", str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       stderr=subprocess.DEVNULL, text=True)
        except OSError as error:
            raise Skipped(f"{PYTHON} does not start: {error}") from error
        atexit.register(_worker.kill)
        _worker.ready = json.loads(_worker.stdout.readline() or "{}").get("ready")
    if not _worker.ready:
        raise Skipped(f"{PYTHON} has no torch that works")
    return _worker


def version():
    return worker().ready


def ask(do, **request):
    """The worker's answer; what it raised is a Failure here."""
    process = worker()
    request = {key: str(value) if isinstance(value, Path) else value for key, value in request.items()}
    print(json.dumps({"do": do} | request), file=process.stdin, flush=True)
    line = process.stdout.readline()
    if not line:
        raise Failure(f"torch's interpreter ended over {request}")
    answer = json.loads(line)
    if "failed" in answer:
        raise Failure(f"torch {do} {request.get('path', '')}: {answer['failed']}")
    return answer["done"]


class TorchModel(Model):
    """A Model, with what torch says beyond it: `rows`, one for each tensor."""

    def __init__(self, rows):
        super().__init__(tensors_of(rows), [])
        self.rows = rows

    def as_apr_names_it(self):
        """By apr's rules: a tensor alone has a name; a lone usual key is taken off; what quantizes channels are tensors."""
        tensors = tensors_of(self.rows + [part for row in self.rows for part in row.get("channels", [])])
        firsts = {tensor.name.split(".")[0] for tensor in tensors}
        for tensor in tensors:
            if len(firsts) == 1 and firsts & ROOTS:
                tensor.name = tensor.name.partition(".")[2]
            if len(self.rows) == 1:
                tensor.name = tensor.name or ALONE
        return Model(tensors, [])


# The keys of which a lone one is taken off, and the name of a tensor that is saved without a map.
ROOTS = {"state_dict", "model", "module", "model_state_dict", "params", "params_ema", "generator", "net"}
ALONE = "data"


def tensors_of(rows):
    return [Tensor(row["name"], row["dtype"], tuple(row["shape"]), sha256=row["sha256"]) for row in rows]


def save(do, path, **request):
    """Has torch write a file; gives what it holds."""
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    return TorchModel(ask(do, path=path, **request))


def read_torch(path, mmap=True):
    """`torch.load(weights_only=True)`: every tensor in plain containers."""
    return TorchModel(ask("load", path=path, mmap=mmap))


def carried():
    """torch's names of the element types that apr carries."""
    return ask("carried")
