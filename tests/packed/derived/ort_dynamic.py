"""The network of ort_operators with activations that are quantized while it runs, as onnxruntime quantizes it and as its
optimizer fuses that; and what onnxruntime computes of inputs that pick a weight's elements one by one."""

import logging
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

from ort_operators import plain

NAME = "onnxruntime-dynamic"
FUSED = "onnxruntime-fused"


def run(model, feeds):
    """The first output, by onnxruntime, which changes nothing before."""
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)[0]


def picking(shape):
    """Inputs of ones that pick element by element; the last has a 255, so that all are quantized with a scale of 1."""
    n = int(np.prod(shape))
    return np.concatenate([np.eye(n), np.full((1, n), 255)]).astype(np.float32).reshape(n + 1, *shape)


def picked(model, start, end, shape):
    """What the nodes between two values compute of such inputs."""
    nodes, wanted = [], {end}
    for node in reversed(model.graph.node):
        if wanted & set(node.output) and start not in node.output:
            nodes.insert(0, node)
            wanted |= set(node.input)
    ends = [[helper.make_tensor_value_info(name, TensorProto.FLOAT, None)] for name in (start, end)]
    graph = helper.make_graph(nodes, "part", *ends, model.graph.initializer)
    part = helper.make_model(graph, opset_imports=model.opset_import)
    part.ir_version = 10
    return run(part, {start: picking(shape)})[:-1]


def quantized():
    """The model."""
    with tempfile.TemporaryDirectory() as scratch:
        before, after = Path(scratch) / "plain.onnx", Path(scratch) / "after.onnx"
        onnx.save(plain(np.random.default_rng(21)), before)
        quantize_dynamic(before, after, per_channel=True, weight_type=QuantType.QInt8)
        return onnx.load(after)


def values(made):
    """True values by the names that weights had before."""
    stored = {one.name: numpy_helper.to_array(one) for one in made.graph.initializer}
    fused = [node for node in made.graph.node if node.op_type == "DynamicQuantizeMatMul"]
    # What is fused adds the bias too: for the product alone it is taken away.
    for node in fused:
        node.input[4] = ""
    kernel = picked(made, "x", "cquant_scaled_output", (1, 3, 3))
    out = {"conv.weight": kernel.reshape(9, 4).T.reshape(4, 1, 3, 3),
           "fc.weight": picked(made, "f", "g" if fused else "g_MatMul", (16,)),
           "up.weight": picked(made, "g", "y", (8,))}
    names = {node.input[1].removesuffix("_quantized") for node in made.graph.node if "Integer" in node.op_type}
    assert fused or names == set(out), names
    rest = {name for name in stored if not name.startswith(tuple(f"{of}_" for of in out))}
    return out | {name: stored[name] for name in rest if stored[name].dtype == np.float32}


def write(folder):
    """Writes the model; returns true values."""
    logging.disable(logging.WARNING)
    made = quantized()
    onnx.save(made, folder / "model.onnx")
    return values(made)
