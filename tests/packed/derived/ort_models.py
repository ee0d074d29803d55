"""A small network that onnxruntime quantizes to pairs of QuantizeLinear and DequantizeLinear, for each channel."""

import logging
import tempfile
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

NAME = "onnxruntime"
RAW = np.random.default_rng(18)


class Samples(CalibrationDataReader):
    """Three inputs."""

    def __init__(self):
        self.left = 3

    def get_next(self):
        self.left -= 1
        return {"x": RAW.normal(size=(1, 1, 4, 4)).astype(np.float32)} if self.left >= 0 else None


def write(folder):
    """Writes the model; returns true values by the names that weights had before."""
    logging.disable(logging.WARNING)
    of = lambda name, *shape: numpy_helper.from_array(RAW.normal(size=shape).astype(np.float32), name)
    weights = [of("conv.weight", 4, 1, 3, 3), of("fc.weight", 16, 8), of("fc.bias", 8)]
    nodes = [helper.make_node("Conv", ["x", "conv.weight"], ["c"]), helper.make_node("Flatten", ["c"], ["f"]),
             helper.make_node("Gemm", ["f", "fc.weight", "fc.bias"], ["y"])]
    ends = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 1, 4, 4])], [
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 8])]
    model = helper.make_model(helper.make_graph(nodes, "small", *ends, weights),
                              opset_imports=[helper.make_opsetid("", 21)])
    model.ir_version = 10
    with tempfile.TemporaryDirectory() as scratch:
        plain = Path(scratch) / "plain.onnx"
        onnx.save(model, plain)
        quantize_static(plain, folder / "model.onnx", Samples(), quant_format=QuantFormat.QDQ, per_channel=True,
                        weight_type=QuantType.QInt8)
    made = onnx.load(folder / "model.onnx")
    stored = {one.name: numpy_helper.to_array(one) for one in made.graph.initializer}
    values = {}
    for node in made.graph.node:
        if node.op_type == "DequantizeLinear" and node.input[0] in stored:
            name = node.input[0].removesuffix("_quantized")
            values[name] = ReferenceEvaluator(node).run(None, {key: stored[key] for key in node.input})[0]
    return values
