"""Models whose codes cannot be computed for certain from what the file says. Usage: refused_models.py"""

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper

from onnx_models import codes, scales, tensor

FOLDER = Path(__file__).parent / "refused"
MICROSOFT = "com.microsoft"
FLOAT = TensorProto.FLOAT


def save(name, nodes, stored, functions=(), shape=(4, 6), kind="INT8"):
    """A model with the weight `w`, and inputs for all that nothing else makes."""
    stored = [tensor("w", kind, codes(kind, shape))] + stored
    made = {one.name for one in stored} | {out for node in nodes for out in node.output} | {""}
    given = dict.fromkeys(value for node in nodes for value in node.input if value not in made)
    inputs = [helper.make_tensor_value_info(value, FLOAT, None) for value in given]
    outputs = [helper.make_empty_tensor_value_info(nodes[-1].output[0])]
    graph = helper.make_graph(nodes, name, inputs, outputs, stored)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1), helper.make_opsetid("local", 1)]
    model = helper.make_model(graph, opset_imports=opsets, functions=functions)
    model.ir_version = 10
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
    save("moved", [helper.make_node("Transpose", ["w"], ["t"]), dequantize(["t", "s"])], [tensor("s", "FLOAT", scales(4))])
    body = helper.make_graph([helper.make_node("DequantizeLinear", ["row", "s"], ["values"])], "body",
                             [helper.make_tensor_value_info("row", TensorProto.INT8, [6])],
                             [helper.make_tensor_value_info("values", FLOAT, [6])])
    save("scanned", [helper.make_node("Scan", ["w"], ["y"], body=body, num_scan_inputs=1)], [one])
    lstm = ["x", "w", "r", "", "", "", "", "", "s", "z", "s", "z"]
    save("lstm", [helper.make_node("DynamicQuantizeLSTM", lstm, ["y"], domain=MICROSOFT, hidden_size=2)],
         [tensor("r", "INT8", codes("INT8", (1, 2, 8))), tensor("s", "FLOAT", scales((1, 8))), tensor("z", "INT8", np.zeros((1, 8)))],
         shape=(1, 3, 8))
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


main()
