"""Scales that the graph also computes with as they are: they stay, beside the weights that they scale.

onnx's reference evaluator says what the weights are.
"""

import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from onnx_models import tensor

NAME = "onnx-shared"
RAW = np.random.default_rng(37)
# How a scale is read besides: the node's operator, and whether the scale is stored as a list of numbers.
READERS = [("added", "Add", False), ("listed", "Sub", True), ("multiplied", "Mul", False), ("same", "Identity", False),
           ("called", "Grow", False), ("inside", "If", False), ("alone", None, False)]


def write(folder):
    """Writes the model; returns true values by name."""
    info = helper.make_tensor_value_info
    nodes, stored, values, outputs = [], [], {}, []
    for name, operator, as_list in READERS:
        codes, scale = RAW.integers(-128, 128, (3, 4)), RAW.uniform(0.01, 0.1, 3).astype(np.float32)
        stored += [tensor(name, "INT8", codes), tensor(f"{name}.s", "FLOAT", scale, typed=as_list)]
        nodes.append(helper.make_node("DequantizeLinear", [name, f"{name}.s"], [f"{name}.y"], axis=0))
        outputs.append(f"{name}.y")
        if operator is None:
            continue
        values[f"{name}.s"], more = scale, f"{name}.more"
        outputs.append(more)
        if operator == "Identity":
            nodes += [helper.make_node("Identity", [f"{name}.s"], [f"{name}.t"]), helper.make_node("Add", ["x", f"{name}.t"], [more])]
        elif operator == "If":
            branches = [helper.make_graph([helper.make_node(one, ["x", f"{name}.s"], [one])], one, [], [info(one, TensorProto.FLOAT, [3])])
                        for one in ("Add", "Sub")]
            nodes.append(helper.make_node("If", ["flag"], [more], then_branch=branches[0], else_branch=branches[1]))
        else:
            nodes.append(helper.make_node(operator, ["x", f"{name}.s"], [more], domain="local" if operator == "Grow" else ""))
    # A scale of what is computed, and one that only follows a product of integers.
    stored += [tensor("state.s", "FLOAT", [0.05]), tensor("long", "INT8", RAW.integers(-128, 128, (3, 4))),
               tensor("long.s", "FLOAT", RAW.uniform(0.01, 0.1, 4))]
    nodes += [helper.make_node("QuantizeLinear", ["x", "state.s"], ["x.q"], output_dtype=TensorProto.INT8),
              helper.make_node("Div", ["x", "state.s"], ["x.d"]),
              helper.make_node("DynamicQuantizeLinear", ["x"], ["a", "a.s", "a.z"]),
              helper.make_node("MatMulInteger", ["a", "long", "a.z"], ["p"]), helper.make_node("Cast", ["p"], ["p.f"], to=TensorProto.FLOAT),
              helper.make_node("Mul", ["a.s", "long.s"], ["p.s"]), helper.make_node("Mul", ["p.f", "p.s"], ["long.y"])]
    values["state.s"] = np.float32([0.05])
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("local", 1)]
    grow = helper.make_function("local", "Grow", ["a", "b"], ["c"], [helper.make_node("Add", ["a", "b"], ["c"])], opsets)
    ends = [info(name, TensorProto.FLOAT, [3]) for name in [*outputs, "x.d"]] + [info("long.y", TensorProto.FLOAT, [4])]
    graph = helper.make_graph(nodes, "shared", [info("x", TensorProto.FLOAT, [3]), info("flag", TensorProto.BOOL, [])], ends, stored)
    model = helper.make_model(graph, opset_imports=opsets, functions=[grow])
    model.ir_version = 10
    onnx.save(model, folder / "model.onnx")
    names = [name for name, _, _ in READERS]
    x = {"x": np.ones(3, np.float32), "flag": np.array(True)}
    computed = ReferenceEvaluator(model).run([f"{name}.y" for name in names], x)
    held = {one.name: onnx.numpy_helper.to_array(one) for one in stored}
    return values | dict(zip(names, computed)) | {"long": held["long"].astype(np.float32) * held["long.s"]}
