"""Codes with one scale that nodes move before DequantizeLinear scales them: each weight has its values where its codes are stored.

onnxruntime computes them without the node, and checks that the node moves codes as it moves these values.
"""

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

from onnx_models import tensor

NAME = "onnx-moved"
RAW = np.random.default_rng(31)
# The operator, its further inputs, and its attributes.
MOVERS = [
    ("Identity", [], {}),
    ("Reshape", [[6, 4]], {}),
    ("Transpose", [], {"perm": [2, 0, 1]}),
    ("Squeeze", [[1]], {}),
    ("Unsqueeze", [[0, 4]], {}),
    ("Flatten", [], {"axis": 2}),
    ("Slice", [[0], [2], [0]], {}),
    ("Gather", [[2, 0, 1, 2]], {"axis": 2}),
    ("GatherElements", [np.zeros((4, 1, 6), np.int64)], {}),
    ("GatherND", [[[1, 0], [3, 0]]], {}),
    ("Expand", [[2, 4, 1, 6]], {}),
    ("Tile", [[1, 3, 1]], {}),
    ("DepthToSpace", [], {"blocksize": 2}),
]


def dequantize(name, codes, output):
    """The node."""
    return helper.make_node("DequantizeLinear", [codes, f"{name}.s", f"{name}.z"], [output])


def model(nodes, stored, outputs):
    """A model without inputs."""
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
    graph = helper.make_graph(nodes, "moved", [], ends, stored)
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    made.ir_version = 10
    return made


def run(made):
    """What onnxruntime computes."""
    return onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, {})


def write(folder):
    """Writes the model; returns true values by name."""
    stored, before, after, names = [], [], [], [operator.lower() for operator, _, _ in MOVERS]
    for operator, inputs, attributes in MOVERS:
        name, shape = operator.lower(), (1, 4, 2, 3) if operator == "DepthToSpace" else (4, 1, 6)
        more = [f"{name}.{at}" for at in range(len(inputs))]
        stored += [tensor(of, "INT64", values) for of, values in zip(more, inputs)]
        stored += [tensor(name, "INT8", RAW.integers(-128, 128, shape)), tensor(f"{name}.s", "FLOAT", RAW.uniform(0.01, 0.1)),
                   tensor(f"{name}.z", "INT8", RAW.integers(-128, 128))]
        move = lambda value, output: helper.make_node(operator, [value, *more], [output], **attributes)
        before += [move(name, f"{name}.moved"), dequantize(name, f"{name}.moved", f"{name}.y")]
        after += [dequantize(name, name, f"{name}.values"), move(f"{name}.values", f"{name}.y")]
    made = model(before, stored, [f"{name}.y" for name in names])
    values = run(model(after, stored, [f"{name}.values" for name in names]))
    for name, a, b in zip(names, run(made), run(model(after, stored, [f"{name}.y" for name in names]))):
        assert np.array_equal(a, b), name
    # A float that is quantized while the model runs is stored as a float.
    fake = RAW.normal(size=(3, 5)).astype(np.float32)
    made.graph.initializer.extend([tensor("fake", "FLOAT", fake), tensor("fake.s", "FLOAT", 0.05), tensor("fake.z", "INT8", 3)])
    made.graph.node.extend([helper.make_node("QuantizeLinear", ["fake", "fake.s", "fake.z"], ["fake.q"]),
                            dequantize("fake", "fake.q", "fake.y")])
    made.graph.output.append(helper.make_tensor_value_info("fake.y", TensorProto.FLOAT, None))
    run(made)
    onnx.save(made, folder / "model.onnx")
    return dict(zip(names, values)) | {"fake": fake}
