"""Models that the package `onnx` writes, drawn from the seed: every type of tensor in every place, and graphs that compute."""

from pathlib import Path

import numpy as np

from onnx_judge import DTYPES, onnx

if onnx:
    from onnx import TensorProto, helper, numpy_helper

# How the values can lie.
PLACES = ("raw", "typed", "external")


def array(random, kind, shape):
    """Values of a type, any bits that it has."""
    dtype = helper.tensor_dtype_to_np_dtype(kind)
    count = int(np.prod(shape, dtype=np.int64))
    name = DTYPES[kind]
    if name == "BOOL":
        return random.integers(0, 2, count).astype(bool).reshape(shape)
    if name in ("I4", "I2", "U4", "U2"):
        bits = int(name[1])
        least = -(1 << bits - 1) if name[0] == "I" else 0
        return (random.integers(0, 1 << bits, count) + least).astype("i1").astype(dtype).reshape(shape)
    if name.startswith(("F4_", "F6_")):
        return random.integers(0, 1 << int(name[1]), count).astype("u1").view(dtype).reshape(shape)
    return np.frombuffer(random.bytes(count * dtype.itemsize), dtype).reshape(shape)


def tensor(random, name, kind, shape, place="raw"):
    values = array(random, kind, shape)
    if place == "typed":
        # Flat: the package 1.23 cannot write a scalar FLOAT8E8M0 otherwise.
        return helper.make_tensor(name, kind, list(shape), values.reshape(-1))
    return numpy_helper.from_array(values, name)


def save(path, model, external=False, threshold=0, **options):
    """Writes with the package; with `external`, all values of at least `threshold` bytes lie in a file beside it."""
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    if external:
        onnx.save_model(model, path, save_as_external_data=True, location=f"{path.name}.data", size_threshold=threshold,
                        convert_attribute=True, **options)
    else:
        onnx.save_model(model, path)
    return path


def of_tensors(tensors, **more):
    """A model that has nothing but initialisers, as apr writes for a model without a graph."""
    graph = helper.make_graph([], "weights", [], [], initializer=tensors)
    return helper.make_model(graph, **more)


def every_type(random, place):
    shapes = [(3, 5), (), (7,), (0,), (2, 3, 2), (1, 1, 9)]
    tensors = []
    for kind in DTYPES:
        for number, shape in enumerate(shapes):
            if place == "external" and 0 in shape:
                continue
            tensors.append(tensor(random, f"{DTYPES[kind]}.{number}", kind, shape, place))
    return of_tensors(tensors)


def floats(random, *shape, scale=1.0):
    return (random.standard_normal(shape) * scale).astype("f4")


def perceptron(random, place="raw"):
    """Two layers, one of them stored as half floats and cast."""
    sizes = (16, 33, 5)
    weights = [
        ("first.weight", floats(random, sizes[0], sizes[1])), ("first.bias", floats(random, sizes[1])),
        ("second.weight", floats(random, sizes[1], sizes[2]).astype("f2")), ("second.bias", floats(random, sizes[2])),
    ]
    nodes = [
        helper.make_node("Gemm", ["x", "first.weight", "first.bias"], ["a"], name="first"),
        helper.make_node("Relu", ["a"], ["b"]),
        helper.make_node("Cast", ["second.weight"], ["w"], to=TensorProto.FLOAT),
        helper.make_node("MatMul", ["b", "w"], ["c"]),
        helper.make_node("Add", ["c", "second.bias"], ["y"]),
    ]
    return model(nodes, weights, [("x", ["n", sizes[0]])], [("y", ["n", sizes[2]])], place), {"x": floats(random, 3, sizes[0])}


def convolution(random, place="raw"):
    """A convolution, a normalisation, integers for shapes, a constant, a branch with its own weights."""
    weights = [
        ("conv.weight", floats(random, 4, 3, 3, 3)), ("conv.bias", floats(random, 4)),
        ("norm.weight", floats(random, 4)), ("norm.bias", floats(random, 4)), ("norm.mean", floats(random, 4)),
        ("norm.var", np.abs(floats(random, 4)) + 0.5), ("shape", np.array([0, -1], "i8")), ("head.weight", floats(random, 144, 6)),
    ]
    constant = numpy_helper.from_array(floats(random, 6), "scale")
    branches = {}
    for branch in ("then", "else"):
        inner = [tensor_from(f"{branch}.weight", floats(random, 6, 2), place)]
        out = helper.make_tensor_value_info(f"{branch}.out", TensorProto.FLOAT, None)
        node = helper.make_node("MatMul", ["scaled", f"{branch}.weight"], [f"{branch}.out"], name=f"{branch}.matmul")
        branches[branch] = helper.make_graph([node], branch, [], [out], initializer=inner)
    nodes = [
        helper.make_node("Conv", ["x", "conv.weight", "conv.bias"], ["a"], name="conv", kernel_shape=[3, 3]),
        helper.make_node("BatchNormalization", ["a", "norm.weight", "norm.bias", "norm.mean", "norm.var"], ["b"]),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("Reshape", ["c", "shape"], ["d"]),
        helper.make_node("MatMul", ["d", "head.weight"], ["e"]),
        helper.make_node("Constant", [], ["factor"], name="constant", value=constant),
        helper.make_node("Mul", ["e", "factor"], ["scaled"]),
        helper.make_node("If", ["which"], ["y"], name="if", then_branch=branches["then"], else_branch=branches["else"]),
    ]
    made = model(nodes, weights, [("x", [2, 3, 8, 8])], [("y", [2, 2])], place)
    made.graph.input.append(helper.make_tensor_value_info("which", TensorProto.BOOL, []))
    return made, {"x": floats(random, 2, 3, 8, 8), "which": np.array(bool(random.integers(0, 2)))}


def tensor_from(name, values, place):
    if place == "typed":
        return helper.make_tensor(name, helper.np_dtype_to_tensor_dtype(values.dtype), values.shape, values)
    return numpy_helper.from_array(values, name)


def model(nodes, weights, inputs, outputs, place):
    """With everything that a file can say beside the graph."""
    def info(pair):
        return helper.make_tensor_value_info(pair[0], TensorProto.FLOAT, pair[1])
    graph = helper.make_graph(nodes, "graph of é", list(map(info, inputs)), list(map(info, outputs)),
                              initializer=[tensor_from(name, values, place) for name, values in weights], doc_string="drawn")
    made = helper.make_model(graph, producer_name="interop", producer_version="1", doc_string="a text", model_version=7,
                             opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    helper.set_model_props(made, {"author": "é", "empty": "", "long": "text " * 5000})
    made.graph.node[0].doc_string = "the first"
    return made


def everywhere(random):
    """Tensors wherever a message can hold them, texts too; valid, though it computes nothing of note."""
    made, inputs = convolution(random)
    sparse = onnx.SparseTensorProto()
    sparse.values.CopyFrom(tensor_from("sparse", floats(random, 3), "raw"))
    sparse.indices.CopyFrom(tensor_from("", np.array([1, 4, 7], "i8"), "raw"))
    sparse.dims.extend([3, 3])
    made.graph.sparse_initializer.append(sparse)
    made.graph.initializer.append(helper.make_tensor("texts", TensorProto.STRING, [2], [b"ab", "é".encode()]))
    made.graph.initializer.append(helper.make_tensor("typed.half", TensorProto.FLOAT16, [3], floats(random, 3).astype("f2")))
    made.graph.node.append(helper.make_node("Constant", [], ["numbers"], name="numbers", value_floats=[1.0, 2.5]))
    made.graph.node.append(helper.make_node(
        "Constant", [], ["inner"], name="unnamed", value=tensor_from("", floats(random, 4), "typed")))
    body = [helper.make_node("Constant", [], ["w"], name="of.function", value=tensor_from("w", floats(random, 2), "raw")),
            helper.make_node("Add", ["a", "w"], ["r"])]
    made.functions.append(helper.make_function("own", "AddOwn", ["a"], ["r"], body, [helper.make_opsetid("", 17)]))
    made.opset_import.append(helper.make_opsetid("own", 1))
    return made, inputs
