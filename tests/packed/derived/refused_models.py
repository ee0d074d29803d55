"""Models whose codes cannot be computed for certain from what the file says. Usage: refused_models.py"""

from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

from onnx_models import INTS, RAW, codes, scales, tensor

FOLDER = Path(__file__).parent / "refused"
MICROSOFT = "com.microsoft"
FLOAT = TensorProto.FLOAT


def save(name, nodes, stored, functions=(), shape=(4, 6), kind="INT8", kinds=None, sparse=None, opset=21, runs=False):
    """A model with the weight `w` of a shape, or a sparse one, or none, and inputs for all that nothing else makes."""
    if sparse is None and shape is not None:
        stored = [tensor("w", kind, codes(kind, shape) if kind in INTS or kind == "FLOAT8E4M3FN" else RAW.integers(0, 2, shape))] + stored
    made = {one.name for one in stored} | {out for node in nodes for out in node.output} | {"", "w"}
    given = dict.fromkeys(value for node in nodes for value in node.input if value not in made)
    inputs = [helper.make_tensor_value_info(value, (kinds or {}).get(value, FLOAT), None) for value in given]
    outputs = [helper.make_empty_tensor_value_info(nodes[-1].output[0])]
    graph = helper.make_graph(nodes, name, inputs, outputs, stored)
    graph.sparse_initializer.extend([sparse] if sparse else [])
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid(MICROSOFT, 1), helper.make_opsetid("local", 1)]
    opsets += [helper.make_opsetid(domain, 1) for domain in {node.domain for node in nodes} - {"", MICROSOFT, "local"}]
    model = helper.make_model(graph, opset_imports=opsets, functions=functions)
    model.ir_version = 10
    if runs:
        onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    onnx.save(model, FOLDER / f"{name}.onnx")


def dynamic(*after, scale):
    """A product of integers, and what follows it."""
    return [helper.make_node("DynamicQuantizeLinear", ["x"], ["a", "a.s", "a.z"]),
            helper.make_node("MatMulInteger", ["a", "w", "a.z"], ["product"]),
            helper.make_node("Cast", ["product"], ["floats"], to=FLOAT), *after,
            helper.make_node("Mul", ["floats", scale], ["y"])]


def main():
    FOLDER.mkdir(exist_ok=True)
    dequantize = lambda inputs, **attributes: helper.make_node("DequantizeLinear", inputs, ["y"], **attributes)
    columns, one = tensor("s", "FLOAT", scales(6)), tensor("s", "FLOAT", scales(()))
    save("computed-scale", [helper.make_node("Abs", ["x"], ["t"]), dequantize(["w", "t"])], [])
    save("computed-zero", [dequantize(["w", "s", "x"])], [columns])
    save("gathered-scale", [helper.make_node("Gather", ["table", "x"], ["t"]), dequantize(["w", "t"])],
         [tensor("table", "FLOAT", scales((3, 6)))])
    save("integer", [helper.make_node("MatMulInteger", ["x", "w"], ["y"])], [])
    # The scale of the other operand is not among the factors: it may be in this one.
    save("integer-folded", dynamic(scale="s"), [columns])
    # It runs along the rows of the result.
    across = helper.make_node("Mul", ["a.s", "s"], ["both"])
    save("integer-across", dynamic(across, scale="both"), [tensor("s", "FLOAT", scales((6, 1)))])
    # A factor before it may be the scale as well.
    save("integer-gained", [*dynamic(scale="a.s")[:3], helper.make_node("Mul", ["floats", "a.s"], ["scaled"]),
                            helper.make_node("Mul", ["scaled", "g"], ["gained"]), helper.make_node("Mul", ["gained", "s"], ["y"])],
         [columns, tensor("g", "FLOAT", np.float32([2, 3, 4, 5, 6, 7]))])
    save("moved", [helper.make_node("Transpose", ["w"], ["t"]), dequantize(["t", "s"])], [tensor("s", "FLOAT", scales(4))])
    body = helper.make_graph([helper.make_node("DequantizeLinear", ["row", "s"], ["values"])], "body",
                             [helper.make_tensor_value_info("row", TensorProto.INT8, [6])],
                             [helper.make_tensor_value_info("values", FLOAT, [6])])
    save("scanned", [helper.make_node("Scan", ["w"], ["y"], body=body, num_scan_inputs=1)], [one])
    save("added", [helper.make_node("QLinearAdd", ["x", "t", "z", "w", "s", "z", "t", "z"], ["y"], domain=MICROSOFT)],
         [columns, tensor("t", "FLOAT", scales(())), tensor("z", "INT8", 0)], kinds={"x": TensorProto.INT8})
    packed = dict(domain=MICROSOFT, K=32, N=2, block_size=16)
    blocks = tensor("s", "FLOAT", scales((2, 2)))
    save("assigned", [helper.make_node("MatMulNBits", ["x", "w", "s", "", "g"], ["y"], bits=4, **packed)],
         [blocks, tensor("g", "INT32", np.arange(32) // 16)], shape=(2, 2, 8), kind="UINT8")
    save("three-bits", [helper.make_node("MatMulNBits", ["x", "w", "s"], ["y"], bits=3, **packed)], [blocks],
         shape=(2, 2, 6), kind="UINT8")
    save("bnb4", [helper.make_node("MatMulBnb4", ["x", "w", "s"], ["y"], domain=MICROSOFT, K=32, N=2, block_size=16, quant_type=1)],
         [tensor("s", "FLOAT", scales(4))], shape=(32,), kind="UINT8")
    function = helper.make_function("local", "Values", ["q", "s"], ["y"], [dequantize(["q", "s"])],
                                    [helper.make_opsetid("", 21)])
    save("in-function", [helper.make_node("Abs", ["x"], ["t"]), helper.make_node("Values", ["w", "t"], ["y"], domain="local")], [],
         functions=[function])
    # Codes that other nodes join, choose or change before they are scaled.
    other = tensor("other", "INT8", codes("INT8", (2, 6)))
    save("joined", [helper.make_node("Concat", ["other", "w"], ["both"], axis=0), dequantize(["both", "s"])], [other, one])
    save("shifted", [tensor_of("bits", 4), helper.make_node("BitShift", ["w", "bits"], ["high"], direction="RIGHT"),
                     dequantize(["high", "s"])], [one], kind="UINT8")
    save("widened", [helper.make_node("Cast", ["w"], ["wide"], to=TensorProto.INT32), dequantize(["wide", "s"])], [one])
    branch = lambda name: helper.make_graph([helper.make_node("Identity", [name], [f"{name}.same"])], name, [],
                                            [helper.make_tensor_value_info(f"{name}.same", TensorProto.INT8, [4, 6])])
    save("chosen", [helper.make_node("If", ["flag"], ["q"], then_branch=branch("w"), else_branch=branch("v")),
                    dequantize(["q", "s"])], [tensor("v", "INT8", codes("INT8", (4, 6))), one], kinds={"flag": TensorProto.BOOL})
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["go_on"]), helper.make_node("Identity", ["state"], ["next"])], "body",
        [helper.make_tensor_value_info(name, kind, shape) for name, kind, shape in (
            ("trip", TensorProto.INT64, []), ("go", TensorProto.BOOL, []), ("state", TensorProto.INT8, [4, 6]))],
        [helper.make_tensor_value_info("go_on", TensorProto.BOOL, []), helper.make_tensor_value_info("next", TensorProto.INT8, [4, 6])])
    save("carried", [helper.make_node("Loop", ["trips", "", "w"], ["q"], body=body), dequantize(["q", "s"])], [one],
         kinds={"trips": TensorProto.INT64})
    inner = [constant("own", codes("INT8", (4, 2))), helper.make_node("Concat", ["own", "p"], ["r"], axis=1)]
    joins = helper.make_function("local", "Joins", ["p"], ["r"], inner, [helper.make_opsetid("", 21)])
    save("returned", [helper.make_node("Joins", ["w"], ["q"], domain="local"), dequantize(["q", "s"])], [one], functions=[joins])
    unusual(one)
    # So may one after it that is an attribute, behind a cast.
    factor = helper.make_node("Constant", [], ["g"], value_float=0.125)
    save("integer-halved", [factor, helper.make_node("Mul", ["a.s", "s"], ["both"]), *dynamic(scale="both")[:3],
                            helper.make_node("Mul", ["floats", "both"], ["scaled"]),
                            helper.make_node("Cast", ["scaled"], ["same"], to=FLOAT), helper.make_node("Mul", ["same", "g"], ["y"])],
         [columns])


def unusual(one):
    """Codes in places and of types that are rarely theirs: onnxruntime runs all of these but for the last two."""
    dequantize = lambda codes, out="y", **attributes: helper.make_node("DequantizeLinear", [codes, "s"], [out], **attributes)
    info = helper.make_tensor_value_info
    cast = [helper.make_node("Cast", ["w"], ["q"], to=TensorProto.INT8), dequantize("q")]
    for name, kind in (("narrowed", "INT64"), ("flags", "BOOL"), ("rounded", "FLOAT")):
        save(name, cast, [one], kind=kind, runs=True)
    # One element each, as a network's own first token.
    save("joined-ones", [helper.make_node("Concat", ["other", "w"], ["q"], axis=0), dequantize("q")],
         [tensor("other", "INT8", codes("INT8", (1,))), one], shape=(1,), runs=True)
    save("multiplied", [helper.make_node("MatMul", ["x", "w"], ["q"]), dequantize("q")], [one], kind="INT32",
         kinds={"x": TensorProto.INT32}, runs=True)
    # The body of a loop gets its own weight from the second turn on.
    ends = [info("go_on", TensorProto.BOOL, []), info("next", TensorProto.INT8, [4, 6]), info("values", FLOAT, [4, 6])]
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["go_on"]), helper.make_node("Identity", ["w"], ["next"]), dequantize("state", "values")],
        "body", [info("trip", TensorProto.INT64, []), info("go", TensorProto.BOOL, []), info("state", TensorProto.INT8, [4, 6])], ends)
    save("fed-back", [helper.make_node("Loop", ["trips", "", "first"], ["last", "y"], body=body)], [one],
         kinds={"trips": TensorProto.INT64, "first": TensorProto.INT8}, runs=True)
    # Opset 8 has an input more, the lengths.
    body = helper.make_graph([helper.make_node("DequantizeLinear", ["row", "s"], ["values"], domain=MICROSOFT)], "body",
                             [info("row", TensorProto.INT8, [6])], [info("values", FLOAT, [6])])
    save("scanned-in-batches", [helper.make_node("Scan", ["", "w"], ["y"], body=body, num_scan_inputs=1)], [one], shape=(2, 4, 6),
         opset=8, runs=True)
    # A branch that the caller of a function gives.
    choose = helper.make_node("If", ["flag"], ["q"])
    for name in ("then_branch", "else_branch"):
        choose.attribute.append(onnx.AttributeProto(name=name, ref_attr_name=name, type=onnx.AttributeProto.GRAPH))
    function = helper.make_function("local", "Choose", ["flag", "s"], ["y"], [choose, dequantize("q")], [helper.make_opsetid("", 21)],
                                    ["then_branch", "else_branch"])
    branch = lambda name: helper.make_graph([constant(name, codes("INT8", (4, 6)))], name, [], [info(name, TensorProto.INT8, [4, 6])])
    save("given-branch", [helper.make_node("Choose", ["flag", "s"], ["y"], domain="local", then_branch=branch("a"), else_branch=branch("b"))],
         [one], functions=[function], kinds={"flag": TensorProto.BOOL}, shape=None, runs=True)
    defaults = [helper.make_attribute(name, branch(name[0])) for name in ("then_branch", "else_branch")]
    function = helper.make_function("local", "Choose", ["flag", "s"], ["y"], [choose, dequantize("q")], [helper.make_opsetid("", 21)], [], defaults)
    save("default-branch", [helper.make_node("Choose", ["flag", "s"], ["y"], domain="local")], [one], functions=[function],
         kinds={"flag": TensorProto.BOOL}, shape=None, runs=True)
    sparse = helper.make_sparse_tensor(tensor("w", "INT8", [1, 2, 3]), tensor("", "INT64", [0, 2, 5]), [2, 3])
    save("sparse", [dequantize("w")], [one], sparse=sparse, runs=True)
    attribute = helper.make_sparse_tensor(tensor("", "INT8", [1, 2, 3]), tensor("", "INT64", [0, 2, 5]), [2, 3])
    save("sparse-constant", [helper.make_node("Constant", [], ["q"], "w", sparse_value=attribute), dequantize("q")], [one],
         shape=None, runs=True)
    # Nothing calls it, and so its axis may be any.
    function = helper.make_function("local", "Uncalled", ["s"], ["y"], [constant("q", codes("INT8", (4, 6))), dequantize("q")],
                                    [helper.make_opsetid("", 21)])
    save("uncalled", [helper.make_node("Identity", ["s"], ["y"])], [one], functions=[function], shape=None, runs=True)
    # Operators of others, whose names say what they do.
    save("of-others", [helper.make_node("TRT_FP8DequantizeLinear", ["w", "s"], ["y"], domain="trt")], [one], kind="FLOAT8E4M3FN")
    save("of-a-layout", [helper.make_node("QLinearConv", ["x", "s", "z", "w", "s", "z", "s", "z"], ["y"], domain="com.ms.internal.nhwc")],
         [one, tensor("z", "INT8", 0)], shape=(2, 1, 3, 3), kinds={"x": TensorProto.INT8})


def constant(name, values):
    """A node that is a tensor."""
    return helper.make_node("Constant", [], [name], value=tensor("", "INT8", values))


def tensor_of(name, number):
    """A node that is one byte."""
    return helper.make_node("Constant", [], [name], value=tensor("", "UINT8", [number]))


main()
