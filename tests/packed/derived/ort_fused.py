"""The model of ort_dynamic as onnxruntime's optimizer writes it: DynamicQuantizeMatMul."""

import logging
import tempfile
from pathlib import Path

import onnx
import onnxruntime

import ort_dynamic

NAME = ort_dynamic.FUSED


def write(folder):
    """Writes the model; returns true values."""
    logging.disable(logging.WARNING)
    with tempfile.TemporaryDirectory() as scratch:
        before = Path(scratch) / "before.onnx"
        onnx.save(ort_dynamic.quantized(), before)
        options = onnxruntime.SessionOptions()
        options.optimized_model_filepath = str(folder / "model.onnx")
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        onnxruntime.InferenceSession(before, options, providers=["CPUExecutionProvider"])
    made = onnx.load(folder / "model.onnx")
    assert any(node.op_type == "DynamicQuantizeMatMul" for node in made.graph.node)
    return ort_dynamic.values(made)
