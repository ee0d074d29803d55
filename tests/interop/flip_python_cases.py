"""The judges of PyTorch, NumPy and ONNX can say no: one flipped byte of a file that apr wrote must fail each of them."""

import onnx_judge
import program
import torch_judge
from archives import accepted, aligned
from flip_cases import must_fail, places
from models import differences
from numpy_judge import read_npz
from report import Failure
from same import agree
from seed import random_of
from writers import safetensors_tensors, write_safetensors


def of_archives(report, scratch, source, want):
    """PyTorch's files and NumPy's."""
    largest = max(want.tensors, key=lambda t: len(t.data))

    def in_zip(data):
        return places(data, largest, {"the central directory": b"PK\x01\x02"})
    torch_file, npz = scratch / "m.pt", scratch / "m.npz"
    report.step("a file for the judges of PyTorch", program.convert, source, torch_file)
    report.step("a file for the judges of NumPy", program.convert, source, npz)
    in_tensors = "the magic", "a tensor's name", "the weights"
    must_fail(report, "torch", lambda path: agree(differences(want, torch_judge.read_torch(path).sorted(), keys=False)), torch_file,
              lambda data: {k: v for k, v in in_zip(data).items() if k in in_tensors})
    must_fail(report, "the package numpy", lambda path: agree(differences(want, read_npz(path).sorted(), keys=False)), npz,
              lambda data: in_zip(data) | {"the array's type": data.index(b"'<f4'") + 2})
    for path in (torch_file, npz):
        must_fail(report, f"zipfile and `unzip -t` of {path.name}", accepted, path, in_zip)

    must_fail(report, "the alignment of records", aligned, torch_file,
              lambda data: {"the extra field's length": data.rindex(b"PK\x03\x04", 0, data.index(b"/data/0")) + 28})


def of_graphs(report, scratch, source, want):
    """ONNX: the reader, the check and the runtime."""
    weights = scratch / "m.onnx"
    report.step("a file for the reader of ONNX", program.convert, source, weights)
    must_fail(report, "the package onnx",
              lambda path: agree(differences(want, onnx_judge.read_onnx(path).sorted(), keys=False)), weights,
              lambda data: places(data, max(want.tensors, key=lambda t: len(t.data)), {}))

    def graph():
        onnx_judge.needed()
        import onnx_models
        made, inputs = onnx_models.perceptron(random_of("flipped graph"))
        path = onnx_models.save(scratch / "graph.onnx", made)
        return program.convert(program.convert(path, scratch / "graph.apr"), scratch / "graph-back.onnx"), path, inputs
    made = []
    report.step("a graph for the judges of ONNX", lambda: made.extend(graph()))
    if not made:
        return
    back, path, inputs = made
    bias = onnx_judge.read_onnx(path).tensors[-1].data
    must_fail(report, "onnx.checker", onnx_judge.valid, back, lambda data: {"an operator": data.index(b"Gemm")})
    must_fail(report, "onnxruntime's outputs", lambda flipped: onnx_judge.same_outputs(path, flipped, inputs), back,
              lambda data: {"a bias": data.index(bias) + 3, "an operator": data.index(b"Gemm")})
    must_fail(report, "the comparison of graphs", lambda flipped: same_graph(path, flipped), back,
              lambda data: {"a producer": data.index(b"interop"), "a dimension": data.index(b"first.weight") - 4})


def same_graph(one, two):
    if onnx_judge.graph_without_values(one) != onnx_judge.graph_without_values(two):
        raise Failure("another graph")


def run(report, scratch):
    source = scratch / "m.safetensors"
    want = write_safetensors(source, safetensors_tensors(random_of("flips of packages"), ["float32", "int16"]), None)
    of_archives(report, scratch, source, want)
    of_graphs(report, scratch, source, want)
