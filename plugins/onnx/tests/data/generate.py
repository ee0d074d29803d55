"""Writes the fixtures with the Python package onnx, and beside each what the package reads from it.

Written with onnx 1.23.2, numpy 2.4.6, protobuf 7.36.2; seed 4. `ir-3.onnx` is laid out as onnx 1.0 to 1.3 did (IR 3: every
initialiser is an input too, no operator set of another domain); those releases no longer install.
"""

import hashlib
import json
import pathlib

import numpy as np
import onnx
from onnx import TensorProto as T, helper, numpy_helper

HERE = pathlib.Path(__file__).parent
RANDOM = np.random.default_rng(4)
BY = f"onnx {onnx.__version__}, numpy {np.__version__}"
NAMES = {
    T.FLOAT: "F32", T.UINT8: "U8", T.INT8: "I8", T.UINT16: "U16", T.INT16: "I16", T.INT32: "I32", T.INT64: "I64",
    T.BOOL: "BOOL", T.FLOAT16: "F16", T.DOUBLE: "F64", T.UINT32: "U32", T.UINT64: "U64", T.COMPLEX64: "C64",
    T.COMPLEX128: "C128", T.BFLOAT16: "BF16", T.FLOAT8E4M3FN: "F8_E4M3", T.FLOAT8E4M3FNUZ: "F8_E4M3FNUZ",
    T.FLOAT8E5M2: "F8_E5M2", T.FLOAT8E5M2FNUZ: "F8_E5M2FNUZ", T.UINT4: "U4", T.INT4: "I4", T.FLOAT4E2M1: "F4_E2M1",
    T.FLOAT8E8M0: "F8_E8M0", T.UINT2: "U2", T.INT2: "I2", T.FLOAT6E2M3: "F6_E2M3", T.FLOAT6E3M2: "F6_E3M2",
}
BITS = {"4": (T.UINT4, T.INT4, T.FLOAT4E2M1), "2": (T.UINT2, T.INT2), "6": (T.FLOAT6E2M3, T.FLOAT6E3M2)}


def array(kind, shape):
    """Values that every type can hold, as the package's own array of that type."""
    small = RANDOM.integers(0, 2, size=shape)
    if kind in (T.INT8, T.INT16, T.INT32, T.INT64):
        small = RANDOM.integers(-100, 100, size=shape)
    if kind in (T.INT4, T.INT2):
        small = RANDOM.integers(-2, 2, size=shape)
    if kind in (T.UINT8, T.UINT16, T.UINT32, T.UINT64):
        small = RANDOM.integers(0, 250, size=shape)
    if kind in (T.FLOAT, T.DOUBLE, T.FLOAT16, T.BFLOAT16, T.COMPLEX64, T.COMPLEX128):
        small = RANDOM.standard_normal(size=shape)
    if kind in (T.COMPLEX64, T.COMPLEX128):
        small = small + 1j * RANDOM.standard_normal(size=shape)
    return np.asarray(small).astype(helper.tensor_dtype_to_np_dtype(kind))


def typed(name, kind, shape):
    """A tensor whose data is in the typed field of its type."""
    values = array(kind, shape)
    if kind in BITS["6"]:
        values = values.astype(np.float32)
    return helper.make_tensor(name, kind, shape, values.flatten().tolist())


def weights(tensors, name="weights", **more):
    graph = helper.make_graph([], name, [], [], tensors, **more)
    return helper.make_model(graph, producer_name="fixture")


def tensors_of(model):
    """Every tensor under the name that the plugin's README gives it, as the package reads it."""
    wanted = []

    def of_graph(graph, way):
        for n, node in enumerate(graph.node):
            of_node(node, way, n)
        for tensor in graph.initializer:
            wanted.append((way + [tensor.name], tensor))
        for tensor in graph.sparse_initializer:
            of_sparse(tensor, way)

    def of_sparse(tensor, way):
        name = tensor.values.name
        for part, inner in (("values", tensor.values), ("indices", tensor.indices)):
            wanted.append((way + [f"{name}.{part}" if name else part], inner))

    def of_node(node, way, n):
        way = way + [node.name or (node.output[0] if node.output else f"node.{n}")]
        for attribute in node.attribute:
            of_attribute(attribute, way + [attribute.name])

    def of_attribute(attribute, way):
        if attribute.HasField("t"):
            wanted.append((way, attribute.t))
        if attribute.HasField("sparse_tensor"):
            of_sparse(attribute.sparse_tensor, way)
        if attribute.HasField("g"):
            of_graph(attribute.g, way)
        for n, tensor in enumerate(attribute.tensors):
            wanted.append((way + [str(n)], tensor))
        for n, graph in enumerate(attribute.graphs):
            of_graph(graph, way + [str(n)])
        for n, tensor in enumerate(attribute.sparse_tensors):
            of_sparse(tensor, way + [str(n)])

    of_graph(model.graph, [])
    for n, training in enumerate(model.training_info):
        of_graph(training.initialization, ["training_info", str(n), "initialization"])
        of_graph(training.algorithm, ["training_info", str(n), "algorithm"])
    for function in model.functions:
        overload = f":{function.overload}" if function.overload else ""
        way = [f"functions/{function.domain}.{function.name}{overload}"]
        for attribute in function.attribute_proto:
            of_attribute(attribute, way + [attribute.name])
        for n, node in enumerate(function.node):
            of_node(node, way, n)
    return [("/".join(way), tensor) for way, tensor in wanted if tensor.data_type != T.STRING]


def golden(name):
    model = onnx.load(HERE / name)
    said = []
    for path, tensor in tensors_of(model):
        raw = numpy_helper.from_array(numpy_helper.to_array(tensor)).raw_data
        digest = hashlib.sha256(raw).hexdigest()
        said.append({"name": path, "dtype": NAMES[tensor.data_type], "shape": list(tensor.dims), "sha256": digest})
    said.sort(key=lambda tensor: tensor["name"])
    text = json.dumps({"by": BY, "ir_version": model.ir_version, "tensors": said}, indent=1, ensure_ascii=False)
    (HERE / f"{name}.golden.json").write_text(text + "\n")


def save(name, model, **how):
    onnx.save(model, HERE / name, **how)


def small_types():
    """Odd counts, so that the last byte of a packed type is filled in part."""
    return [(kind, f"{NAMES[kind].lower()}") for kind in NAMES]


def types():
    raw = [numpy_helper.from_array(array(kind, (3, 5)), name) for kind, name in small_types()]
    save("types-raw.onnx", weights(raw))
    save("types-typed.onnx", weights([typed(name, kind, (3, 5)) for kind, name in small_types()]))
    raw = [numpy_helper.from_array(array(kind, (3, 5)), name) for kind, name in small_types()]
    how = {"save_as_external_data": True, "all_tensors_to_one_file": True, "size_threshold": 0}
    save("beside/model.onnx", weights(raw), location="model.onnx.data", **how)


def shapes():
    tensors = [numpy_helper.from_array(array(T.FLOAT, shape), f"shape{len(shape)}.{n}") for n, shape in
               enumerate([(), (0,), (1,), (2, 0, 3), (1, 2, 1, 2, 1, 2, 1, 2)])]
    tensors.append(helper.make_tensor("typed scalar", T.INT64, [], [-(2**63)]))
    tensors.append(helper.make_tensor("typed empty", T.INT32, [0], []))
    tensors.append(helper.make_tensor("é漢🙂", T.UINT64, [2], [2**64 - 1, 0]))
    tensors.append(helper.make_tensor("nul\0byte\n", T.INT32, [3], [-(2**31), -1, 2**31 - 1]))
    save("shapes.onnx", weights(tensors))


def value(name, kind, shape):
    return helper.make_tensor_value_info(name, kind, shape)


def graph():
    """A model with a branch, a loop, a scan, constants, a function, strings and metadata, that onnxruntime runs."""
    def branch(name, scale):
        inner = helper.make_node("Mul", ["hidden", "scale"], [f"{name}_out"])
        outputs = [value(f"{name}_out", T.FLOAT, None)]
        return helper.make_graph([inner], name, [], outputs, [numpy_helper.from_array(np.float32(scale), "scale")])

    body = helper.make_graph(
        [
            helper.make_node("Constant", [], ["one"], value=numpy_helper.from_array(np.float32(1))),
            helper.make_node("Add", ["state", "one"], ["state_out"]),
            helper.make_node("Identity", ["keep"], ["keep_out"]),
        ],
        "body",
        [value("iteration", T.INT64, []), value("keep", T.BOOL, []), value("state", T.FLOAT, [2, 3])],
        [value("keep_out", T.BOOL, []), value("state_out", T.FLOAT, [2, 3])],
    )
    step = helper.make_graph(
        [helper.make_node("Add", ["sum_in", "row"], ["sum_out"]), helper.make_node("Mul", ["sum_out", "half"], ["scanned"])],
        "step",
        [value("sum_in", T.FLOAT, [3]), value("row", T.FLOAT, [3])],
        [value("sum_out", T.FLOAT, [3]), value("scanned", T.FLOAT, [3])],
        [numpy_helper.from_array(np.float32(0.5), "half")],
    )
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"], name="matmul"),
        helper.make_node("Add", ["product", "b"], ["hidden"], name="add"),
        helper.make_node("Constant", [], ["limit"], value=numpy_helper.from_array(np.array([3.0], np.float32))),
        helper.make_node("Constant", [], ["text"], value=helper.make_tensor("t", T.STRING, [2], [b"a", b"\xc3\xa9"])),
        helper.make_node("Constant", [], ["shape"], value=numpy_helper.from_array(np.array([2, 3], np.int64), "s")),
        helper.make_node("If", ["flag"], ["branched"], name="if",
                         then_branch=branch("then", 2), else_branch=branch("else", 3)),
        helper.make_node("Reshape", ["branched", "shape"], ["shaped"]),
        helper.make_node("Loop", ["trips", "yes", "shaped"], ["looped"], name="loop", body=body),
        helper.make_node("Scan", ["zero", "looped"], ["total", "scanned"], name="scan", body=step, num_scan_inputs=1),
        helper.make_node("Shift", ["scanned"], ["y"], domain="fixture", name="shift"),
    ]
    tensors = [
        numpy_helper.from_array(array(T.FLOAT, (4, 3)), "w"),
        numpy_helper.from_array(array(T.FLOAT, (3,)), "b"),
        helper.make_tensor("zero", T.FLOAT, [3], [0.0, 0.0, 0.0]),
        numpy_helper.from_array(np.int64(2), "trips"),
        numpy_helper.from_array(np.bool_(True), "yes"),
    ]
    shift = helper.make_function(
        "fixture", "Shift", ["a"], ["b"],
        [helper.make_node("Constant", [], ["by"], value=numpy_helper.from_array(np.float32(0.25))),
         helper.make_node("Add", ["a", "by"], ["b"])],
        [helper.make_opsetid("", 17)],
    )
    made = helper.make_graph(nodes, "fixture graph", [value("x", T.FLOAT, [2, 4]), value("flag", T.BOOL, [])],
                             [value("y", T.FLOAT, ["rows", 3])], tensors, doc_string="a graph of everything")
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("fixture", 1)]
    model = helper.make_model(made, producer_name="fixture", producer_version="1", functions=[shift],
                              opset_imports=opsets, ir_version=8, doc_string="model")
    helper.set_model_props(model, {"author": "é", "onnx.ir_version": "mine", "empty": ""})
    onnx.checker.check_model(model)
    return model


def training():
    inner = helper.make_graph([helper.make_node("Add", ["w", "step"], ["w2"])], "algorithm", [], [value("w2", T.FLOAT, [2])],
                              [numpy_helper.from_array(array(T.FLOAT, (2,)), "step")])
    start = helper.make_graph(
        [helper.make_node("Constant", [], ["w0"], value=numpy_helper.from_array(array(T.FLOAT, (2,))))],
        "initialization", [], [value("w0", T.FLOAT, [2])])
    info = helper.make_training_info(inner, [("w", "w2")], start, [("w", "w0")])
    model = weights([numpy_helper.from_array(array(T.FLOAT, (2,)), "w")])
    model.training_info.append(info)
    return model


def sparse():
    def tensor(name, indices, shape):
        values = numpy_helper.from_array(array(T.FLOAT, (2,)), name)
        return helper.make_sparse_tensor(values, numpy_helper.from_array(np.array(indices, np.int64), name), shape)

    node = helper.make_node("Constant", [], ["c"], sparse_value=tensor("", [1, 2], [4]))
    graph = helper.make_graph([node], "sparse", [], [value("c", T.FLOAT, [4])], [],
                              sparse_initializer=[tensor("s", [[0, 1], [2, 0]], [3, 2])])
    return helper.make_model(graph, producer_name="fixture")


def lists():
    """Attributes that are lists of tensors and of graphs, nodes without names, names that occur twice."""
    node = helper.make_node("Odd", [], [], domain="fixture")
    node.attribute.append(helper.make_attribute("many", [numpy_helper.from_array(array(T.INT8, (n,))) for n in (1, 2)]))
    one = helper.make_graph([], "one", [], [], [numpy_helper.from_array(array(T.INT16, (2,)), "w")])
    node.attribute.append(helper.make_attribute("graphs", [one, one]))
    made = helper.make_graph([node], "lists", [], [], [numpy_helper.from_array(array(T.INT32, (2,)), "w")])
    return helper.make_model(made, producer_name="fixture")


def old():
    tensors = [numpy_helper.from_array(array(T.FLOAT, (2, 2)), "w"), helper.make_tensor("b", T.FLOAT, [2], [1, 2])]
    made = helper.make_graph(
        [helper.make_node("Gemm", ["x", "w", "b"], ["y"])], "ir 3",
        [value("x", T.FLOAT, [1, 2]), value("w", T.FLOAT, [2, 2]), value("b", T.FLOAT, [2])],
        [value("y", T.FLOAT, [1, 2])], tensors)
    return helper.make_model(made, producer_name="fixture", ir_version=3, opset_imports=[helper.make_opsetid("", 7)])


def split():
    """One file for each tensor, as the package writes them without a location."""
    tensors = [numpy_helper.from_array(array(T.FLOAT, (3,)), name) for name in ("a.weight", "b.weight")]
    tensors.append(numpy_helper.from_array(array(T.FLOAT, (1,)), "small"))
    save("external/split.onnx", weights(tensors), save_as_external_data=True, all_tensors_to_one_file=False, size_threshold=8)


def main():
    for folder in (HERE / "external", HERE / "beside"):
        folder.mkdir(exist_ok=True)
        for stale in folder.iterdir():
            stale.unlink()
    types()
    shapes()
    save("graph.onnx", graph())
    save("training.onnx", training())
    save("sparse.onnx", sparse())
    save("lists.onnx", lists())
    save("ir-3.onnx", old())
    split()
    for path in sorted([*HERE.glob("*.onnx"), *HERE.glob("*/*.onnx")]):
        if not path.name.startswith("handmade"):
            golden(str(path.relative_to(HERE)))


if __name__ == "__main__":
    main()
