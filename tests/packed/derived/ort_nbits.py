"""Matrices and tables that onnxruntime's quantizer of weights packs into 2, 4 and 8 bits, and what onnxruntime computes with
the unit matrix and with all rows."""

import logging

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization.matmul_nbits_quantizer import DefaultWeightOnlyQuantConfig, MatMulNBitsQuantizer

from ort_dynamic import run

NAME = "onnxruntime-nbits"


def write(folder):
    """Writes the model; returns true values by the names that weights had before."""
    logging.disable(logging.WARNING)
    raw = np.random.default_rng(22)
    sizes, weights, nodes, outputs, ways = {}, [], [], [], []
    for bits in (2, 4, 8):
        for is_symmetric in (True, False):
            # Rows that end within a block, and within a byte of zero points.
            for rows, columns, block, of in ((72, 6, 16, np.float32), (64, 5, 32, np.float32)):
                name = f"m{bits}.{'symmetric' if is_symmetric else 'asymmetric'}.{rows}"
                sizes[name] = rows
                weights.append(numpy_helper.from_array(raw.normal(size=(rows, columns)).astype(of), name))
                nodes.append(helper.make_node("MatMul", [f"x{rows}", name], [f"{name}_out"], name))
                outputs.append(helper.make_tensor_value_info(f"{name}_out", TensorProto.FLOAT, [rows, columns]))
                ways.append((name, bits, is_symmetric, block, "MatMul"))
    for is_symmetric in (True, False):
        name = f"table.{'symmetric' if is_symmetric else 'asymmetric'}"
        weights.append(numpy_helper.from_array(raw.normal(size=(5, 64)).astype(np.float32), name))
        nodes.append(helper.make_node("Gather", [name, "rows"], [f"{name}_out"], name))
        outputs.append(helper.make_tensor_value_info(f"{name}_out", TensorProto.FLOAT, [5, 64]))
        ways.append((name, 4, is_symmetric, 32, "Gather"))
    inputs = [helper.make_tensor_value_info(f"x{n}", TensorProto.FLOAT, [n, n]) for n in (64, 72)]
    inputs.append(helper.make_tensor_value_info("rows", TensorProto.INT64, [5]))
    model = helper.make_model(helper.make_graph(nodes, "packed", inputs, outputs, weights),
                              opset_imports=[helper.make_opsetid("", 21)])
    model.ir_version = 10
    for name, bits, is_symmetric, block, operator in ways:
        config = DefaultWeightOnlyQuantConfig(block_size=block, is_symmetric=is_symmetric, bits=bits,
                                              op_types_to_quantize=(operator,))
        others = [other for other, *_ in ways if other != name]
        quantizer = MatMulNBitsQuantizer(model, nodes_to_exclude=others, algo_config=config)
        quantizer.process()
        model = quantizer.model.model
    names = [node.op_type for node in model.graph.node]
    assert sorted(set(names)) == ["GatherBlockQuantized", "MatMulNBits"], names
    onnx.save(model, folder / "model.onnx")
    values = {}
    for name, *_ in ways:
        part = onnx.ModelProto()
        part.CopyFrom(model)
        del part.graph.output[:]
        part.graph.output.extend(out for out in model.graph.output if out.name == f"{name}_out")
        feeds = {f"x{n}": np.eye(n, dtype=np.float32) for n in (64, 72)} | {"rows": np.arange(5)}
        values[name] = run(part, feeds)
    return values
