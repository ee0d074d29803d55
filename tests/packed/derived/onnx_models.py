"""ONNX models whose weights DequantizeLinear computes, and what onnx's reference evaluator says that they are."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

NAME = "onnx"
RAW = np.random.default_rng(17)
INTS = {"INT8": (-128, 127), "UINT8": (0, 255), "INT16": (-32768, 32767), "UINT16": (0, 65535),
        "INT4": (-8, 7), "UINT4": (0, 15), "INT2": (-2, 1), "UINT2": (0, 3), "INT32": (-(1 << 30), 1 << 30)}


def tensor(name, kind, values, typed=False):
    """An initializer; as a list of numbers if `typed`, as `make_tensor` writes it."""
    values = np.asarray(values)
    if typed:
        return helper.make_tensor(name, getattr(TensorProto, kind), values.shape, values.flatten().tolist())
    dtype = helper.tensor_dtype_to_np_dtype(getattr(TensorProto, kind))
    made = numpy_helper.from_array(values.astype(dtype), name)
    assert made.data_type == getattr(TensorProto, kind) and made.HasField("raw_data")
    return made


def codes(kind, shape):
    """Codes of a type over its whole reach."""
    if kind in INTS:
        low, high = INTS[kind]
        return RAW.integers(low, high + 1, shape)
    return RAW.normal(0, 2, shape).astype(np.float32)


def scales(shape):
    """Scales of a weight."""
    return RAW.uniform(0.001, 0.1, shape).astype(np.float32)


def cases():
    """Name of the weight, initializers, the node's attributes."""
    # onnxruntime: per tensor, per channel; 8 bits; the scalars as lists of numbers.
    shape = (6, 40)
    for kind in ("INT8", "UINT8"):
        zero = 0 if kind == "INT8" else 131
        yield f"tensor_{kind}", kind, shape, scales(()), np.array(zero), {}, True
        yield f"rows_{kind}", kind, shape, scales(6), RAW.integers(*INTS[kind], 6), {"axis": 0}, False
        yield f"columns_{kind}", kind, shape, scales(40), RAW.integers(*INTS[kind], 40), {"axis": 1}, False
    yield "bias", "INT32", (40,), scales(()) / 1e7, None, {}, False
    yield "bias_rows", "INT32", (40,), scales(40) / 1e7, np.zeros(40), {"axis": 0}, False
    yield "kernel", "INT8", (4, 3, 5, 7), scales(3), None, {"axis": -3}, False
    yield "even", "INT8", (3, 64), np.array(0.0625), np.array(0), {}, True
    for kind in ("INT16", "UINT16"):
        yield f"tensor_{kind}", kind, shape, scales(()), RAW.integers(*INTS[kind], ()), {}, False
    # Blocks; 4 bits with rows that end within a byte.
    for kind in ("INT4", "UINT4", "INT2", "UINT2", "INT8"):
        for axis, of in ((0, (32, 15)), (1, (5, 60)), (2, (2, 3, 35)), (1, (3, 32, 5))):
            block = {32: 16, 15: 4, 60: 20, 35: 10}[of[axis]]
            grid = [n if at != axis else -(-n // block) for at, n in enumerate(of)]
            name = f"blocks_{kind}_{axis}_{len(of)}"
            zero = RAW.integers(INTS[kind][0], INTS[kind][1] + 1, grid)
            yield name, kind, of, scales(grid), zero, {"axis": axis, "block_size": block}, False
    for kind in ("FLOAT8E4M3FN", "FLOAT8E4M3FNUZ", "FLOAT8E5M2", "FLOAT8E5M2FNUZ", "FLOAT4E2M1"):
        yield f"float_{kind}", kind, (7, 16), scales(7), None, {"axis": 0}, False
    yield "half", "INT8", (5, 8), None, None, {"axis": 0}, False


def write(folder):
    """Writes the model; returns true values by name."""
    initializers, nodes, outputs = [], [], []
    # A pair around an activation, which is no weight.
    initializers += [tensor("x_scale", "FLOAT", 0.05, True), tensor("x_zero_point", "UINT8", 128, True)]
    nodes.append(helper.make_node("QuantizeLinear", ["x", "x_scale", "x_zero_point"], ["x_q"]))
    nodes.append(helper.make_node("DequantizeLinear", ["x_q", "x_scale", "x_zero_point"], ["x_dq"]))
    outputs.append(helper.make_tensor_value_info("x_dq", TensorProto.FLOAT, None))
    names = []
    for name, kind, shape, scale, zero, attributes, typed in cases():
        of_scale = "FLOAT16" if name == "half" else "FLOAT"
        scale = scales(5) if scale is None else scale
        initializers.append(tensor(f"{name}_quantized", kind, codes(kind, shape)))
        initializers.append(tensor(f"{name}_scale", of_scale, scale, typed))
        inputs = [f"{name}_quantized", f"{name}_scale"]
        if zero is not None:
            initializers.append(tensor(f"{name}_zero_point", kind, zero, typed))
            inputs.append(f"{name}_zero_point")
        nodes.append(helper.make_node("DequantizeLinear", inputs, [f"{name}_out"], **attributes))
        outputs.append(helper.make_tensor_value_info(f"{name}_out", TensorProto.UNDEFINED, None))
        names.append(name)
    # Weights that share a scale, and codes that two nodes read.
    for n in range(2):
        initializers.append(tensor(f"shared.{n}", "INT8", codes("INT8", (3, 4))))
        for again in range(2):
            inputs = [f"shared.{n}", "tensor_INT8_scale", "tensor_INT8_zero_point"]
            nodes.append(helper.make_node("DequantizeLinear", inputs, [f"shared.{n}_out{'_' * again}"]))
        outputs.append(helper.make_tensor_value_info(f"shared.{n}_out", TensorProto.FLOAT, None))
        names.append(f"shared.{n}")
    plain = tensor("plain", "FLOAT", RAW.normal(0, 1, (3, 4)))
    initializers.append(plain)
    outputs.append(helper.make_tensor_value_info("plain", TensorProto.FLOAT, [3, 4]))
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [2])]
    graph = helper.make_graph(nodes, "quantized", inputs, outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)])
    model.ir_version = 13
    onnx.save(model, folder / "model.onnx")
    # In F32, rounded to no other type: as scales are, but for those of half precision.
    for node in model.graph.node:
        if node.output[0] == "half_out":
            node.attribute.append(helper.make_attribute("output_dtype", TensorProto.FLOAT))
    values = ReferenceEvaluator(model).run(None, {"x": np.zeros(2, np.float32)})
    by_name = {out.name: value for out, value in zip(model.graph.output, values)}
    return {name: by_name[f"{name}_out"] for name in names} | {"plain": by_name["plain"]}
