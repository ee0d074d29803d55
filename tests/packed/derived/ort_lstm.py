"""Recurrent networks of two directions as onnxruntime's quantizer writes them: with a scale for each direction, and for each channel.

True values are (code - zero point) * scale, as the manual of DynamicQuantizeLSTM says; the results are compared with those of the same
network in floats on these values.
"""

import logging
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

from ort_contrib import model, near, run

NAME = "onnxruntime-lstm"
RAW = np.random.default_rng(41)
HIDDEN, SIZE, DIRECTIONS = 3, 5, 2


def plain(name):
    """A network before it is quantized; its directions have unlike scales."""
    reach = np.float32([1, 5]).reshape(2, 1, 1)
    weights = [(f"{name}.{of}", RAW.normal(size=(DIRECTIONS, 4 * HIDDEN, columns)).astype(np.float32) * reach)
               for of, columns in (("w", SIZE), ("r", HIDDEN))]
    node = helper.make_node("LSTM", [f"{name}.x", f"{name}.w", f"{name}.r"], [f"{name}.y", "", ""], name, hidden_size=HIDDEN,
                            direction="bidirectional")
    info = lambda of: helper.make_tensor_value_info(f"{name}.{of}", TensorProto.FLOAT, None)
    graph = helper.make_graph([node], name, [helper.make_tensor_value_info(f"{name}.x", TensorProto.FLOAT, [4, 1, SIZE])], [info("y")],
                              [numpy_helper.from_array(array, of) for of, array in weights])
    return model(graph)


def write(folder):
    """Writes the model; returns true values."""
    logging.disable(logging.WARNING)
    onnxruntime.set_default_logger_severity(3)
    all_graphs, values = [], {}
    for name, per_channel in (("tensor", False), ("channel", True)):
        before = plain(name)
        with tempfile.TemporaryDirectory() as scratch:
            onnx.save(before, Path(scratch) / "before.onnx")
            quantize_dynamic(Path(scratch) / "before.onnx", Path(scratch) / "after.onnx", weight_type=QuantType.QInt8,
                             per_channel=per_channel, op_types_to_quantize=["LSTM"])
            graph = onnx.load(Path(scratch) / "after.onnx").graph
        node, = (node for node in graph.node if node.op_type == "DynamicQuantizeLSTM")
        held = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
        twin = onnx.ModelProto.FromString(before.SerializeToString())
        for at, (codes, scale, zero) in enumerate(((1, 8, 9), (2, 10, 11))):
            codes, scale, zero = (held[node.input[n]] for n in (codes, scale, zero))
            shape = (DIRECTIONS, 1, 4 * HIDDEN if per_channel else 1)
            assert scale.size == np.prod(shape), scale.shape
            true = (codes.astype(np.float32) - zero.reshape(shape).astype(np.float32)) * scale.reshape(shape)
            values[node.input[1 + at].removesuffix("_quantized")] = true
            own = twin.graph.initializer[at]
            own.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(true.transpose(0, 2, 1)), own.name))
        feeds = {f"{name}.x": RAW.normal(size=(4, 1, SIZE)).astype(np.float32)}
        near(run(model(graph), feeds, f"{name}.y")[0], run(twin, feeds, f"{name}.y")[0], 0.02)
        all_graphs.append(graph)
    first, second = all_graphs
    for field in ("node", "initializer", "input", "output"):
        getattr(first, field).extend(getattr(second, field))
    onnx.save(model(first), folder / "model.onnx")
    return values
