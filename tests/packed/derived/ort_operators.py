"""The network of ort_models with operators on integers, as onnxruntime quantizes it; and what its twin with pairs of
QuantizeLinear and DequantizeLinear says that weights and biases are, whose scales onnxruntime stores one by one."""

import logging
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

NAME = "onnxruntime-operators"


class Samples(CalibrationDataReader):
    """Three inputs, the same each time."""

    def __init__(self):
        self.raw = np.random.default_rng(20)
        self.left = 3

    def get_next(self):
        self.left -= 1
        return {"x": self.raw.normal(size=(1, 1, 4, 4)).astype(np.float32)} if self.left >= 0 else None


def plain(raw):
    """The network before it is quantized: a convolution, a Gemm, a MatMul."""
    of = lambda name, *shape: numpy_helper.from_array(raw.normal(size=shape).astype(np.float32), name)
    weights = [of("conv.weight", 4, 1, 3, 3), of("conv.bias", 4), of("fc.weight", 16, 8), of("fc.bias", 8),
               of("up.weight", 8, 6)]
    nodes = [helper.make_node("Conv", ["x", "conv.weight", "conv.bias"], ["c"], "conv"),
             helper.make_node("Flatten", ["c"], ["f"]),
             helper.make_node("Gemm", ["f", "fc.weight", "fc.bias"], ["g"], "fc"),
             helper.make_node("MatMul", ["g", "up.weight"], ["y"], "up")]
    ends = [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 1, 4, 4])], [
        helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 6])]
    model = helper.make_model(helper.make_graph(nodes, "small", *ends, weights),
                              opset_imports=[helper.make_opsetid("", 21)])
    model.ir_version = 10
    return model


def write(folder):
    """Writes the model, before and after; returns true values by the names that weights had before."""
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as scratch:
        before, twin = folder / "before.onnx", Path(scratch) / "twin.onnx"
        onnx.save(plain(np.random.default_rng(19)), before)
        for path, how in ((folder / "model.onnx", QuantFormat.QOperator), (twin, QuantFormat.QDQ)):
            quantize_static(before, path, Samples(), quant_format=how, per_channel=True, weight_type=QuantType.QInt8)
        twin = onnx.load(twin)
    made = onnx.load(folder / "model.onnx")
    operators = {node.op_type for node in made.graph.node}
    assert operators >= {"QLinearConv", "QGemm", "QLinearMatMul"}, operators
    integers = {one.name: numpy_helper.to_array(one) for one in made.graph.initializer}
    stored = {one.name: numpy_helper.to_array(one) for one in twin.graph.initializer}
    values = {}
    for node in twin.graph.node:
        if node.op_type == "DequantizeLinear" and node.input[0] in stored:
            assert (stored[node.input[0]] == integers[node.input[0]]).all(), node.input[0]
            name = node.input[0].removesuffix("_quantized")
            values[name] = ReferenceEvaluator(node).run(None, {key: stored[key] for key in node.input})[0]
    return values
