"""DequantizeLinear with constants of nodes, in branches, in the body of a loop and in functions; and what onnxruntime
computes."""

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper

from onnx_models import codes, scales, tensor

NAME = "onnx-scopes"
DOMAIN = "local"


def constant(name, **value):
    """A node that is a constant."""
    return helper.make_node("Constant", [], [name], f"{name}_node", **value)


def dequantize(inputs, output, **attributes):
    """The node."""
    return helper.make_node("DequantizeLinear", inputs, [output], **attributes)


def outputs(*names):
    """Values of any shape."""
    return [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in names]


def function(name, inputs, nodes, attributes=(), defaults=()):
    """A function with one output, `y`."""
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(DOMAIN, 1)]
    return helper.make_function(DOMAIN, name, inputs, ["y"], nodes, opsets, attributes, defaults)


def write(folder):
    """Writes the model; returns true values by name."""
    stored = {name: tensor(name, kind, codes(kind, shape)) for name, kind, shape in (
        ("number", "INT8", (3, 4)), ("list", "UINT8", (3, 4)), ("looped", "INT8", (4, 5)), ("first", "INT8", (3, 5)),
        ("second", "UINT8", (6, 2)), ("third", "INT8", (2, 3)), ("then", "INT8", (2, 2)), ("else", "INT8", (2, 2)))}
    stored |= {f"{name}.s": tensor(f"{name}.s", "FLOAT", scales(shape)) for name, shape in (
        ("looped", 5), ("first", 3), ("second", 2), ("third", ()), ("branch", ()))}
    stored["second.z"] = tensor("second.z", "UINT8", codes("UINT8", 2))
    nodes = [
        # A number of an attribute, a list of them, and tensors, also of the codes themselves.
        constant("number.s", value_float=0.0375),
        dequantize(["number", "number.s"], "number_out"),
        constant("list.s", value_floats=[0.5, 0.25, 0.0375]),
        constant("list.z", value=tensor("", "UINT8", [1, 128, 255], typed=True)),
        dequantize(["list", "list.s", "list.z"], "list_out", axis=0),
        constant("codes", value=tensor("", "INT8", codes("INT8", (2, 3)))),
        constant("codes.s", value=tensor("", "FLOAT", scales(3))),
        helper.make_node("Identity", ["codes.s"], ["codes.same"]),
        dequantize(["codes", "codes.same"], "codes_out"),
    ]
    branch = lambda name: helper.make_graph([dequantize([name, "branch.s"], f"{name}_value")], name, [], outputs(f"{name}_value"),
                                            [stored.pop(name)])
    nodes.append(helper.make_node("If", ["flag"], ["branch_out"], "if", then_branch=branch("then"), else_branch=branch("else")))
    body = helper.make_graph(
        [helper.make_node("Identity", ["go"], ["go_on"]), dequantize(["looped", "looped.s"], "looped_value", axis=1)], "body",
        [helper.make_tensor_value_info("trip", TensorProto.INT64, []), helper.make_tensor_value_info("go", TensorProto.BOOL, [])],
        [helper.make_tensor_value_info("go_on", TensorProto.BOOL, [])] + outputs("looped_value"))
    nodes.append(helper.make_node("Loop", ["trips", "goes"], ["looped_out"], "loop", body=body))
    node = dequantize(["q", "s", "z"], "y")
    node.attribute.append(onnx.AttributeProto(name="axis", ref_attr_name="along", type=onnx.AttributeProto.INT))
    functions = [
        function("Values", ["q", "s", "z"], [node], defaults=[helper.make_attribute("along", 0)]),
        function("Outer", ["q", "s", "z"], [helper.make_node("Values", ["q", "s", "z"], ["y"], domain=DOMAIN, along=1)]),
        function("Own", ["s"], [constant("own", value=tensor("", "INT8", codes("INT8", (4, 2)))), dequantize(["own", "s"], "y")]),
    ]
    nodes += [
        helper.make_node("Values", ["first", "first.s", ""], ["first_out"], domain=DOMAIN),
        helper.make_node("Outer", ["second", "second.s", "second.z"], ["second_out"], domain=DOMAIN),
        helper.make_node("Values", ["third", "third.s", ""], ["third_out"], domain=DOMAIN),
        helper.make_node("Own", ["third.s"], ["own_out"], domain=DOMAIN),
    ]
    names = ["number", "list", "codes", "looped", "first", "second", "third", "own", "branch"]
    # Constants whose values the caller gives, or the function's defaults.
    linked = lambda name, key, of, kind: onnx.NodeProto(op_type="Constant", output=[name], name=f"{name}_node", attribute=[
        onnx.AttributeProto(name=key, ref_attr_name=of, type=getattr(onnx.AttributeProto, kind))])
    given = [linked("q", "value", "codes", "TENSOR"), linked("s", "value_float", "scale", "FLOAT"), dequantize(["q", "s"], "y")]
    default = helper.make_attribute("codes", tensor("", "INT8", codes("INT8", (2, 5))))
    functions += [function("Given", [], given, ["codes", "scale"]), function("Default", [], given, ["scale"], [default])]
    nodes += [helper.make_node("Given", [], ["given_out"], "given", domain=DOMAIN, codes=tensor("", "INT8", codes("INT8", (3, 2))), scale=0.0375),
              helper.make_node("Default", [], ["default_out"], "default", domain=DOMAIN, scale=0.0125)]
    # A loop has one state that is computed, and one that is a weight: what is made of the first says nothing of the other.
    stored |= {"beside": tensor("beside", "INT8", codes("INT8", (2, 3))), "beside.s": tensor("beside.s", "FLOAT", scales(()))}
    info = lambda name, kind: helper.make_tensor_value_info(name, getattr(TensorProto, kind), [2, 3] if kind == "INT8" else [])
    same = [helper.make_node("Identity", [name], [f"{name}_next"]) for name in ("go", "one", "two")]
    body = helper.make_graph(same, "states", [info("trip", "INT64"), info("go", "BOOL"), info("one", "INT8"), info("two", "INT8")],
                             [info("go_next", "BOOL"), info("one_next", "INT8"), info("two_next", "INT8")])
    nodes += [dequantize(["beside", "beside.s"], "beside_out"),
              helper.make_node("QuantizeLinear", ["beside_out", "third.s"], ["state"], output_dtype=TensorProto.INT8),
              helper.make_node("Loop", ["trips", "goes", "state", "beside"], ["state_last", "beside_last"], "states", body=body),
              dequantize(["state_last", "third.s"], "state_out")]
    names += ["given", "default", "beside", "state"]
    kinds = {"flag": TensorProto.BOOL, "goes": TensorProto.BOOL, "trips": TensorProto.INT64}
    inputs = [helper.make_tensor_value_info(name, kind, []) for name, kind in kinds.items()]
    graph = helper.make_graph(nodes, "scopes", inputs, outputs(*(f"{name}_out" for name in names)), list(stored.values()))
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(DOMAIN, 1)]
    model = helper.make_model(graph, opset_imports=opsets, functions=functions)
    model.ir_version = 10
    onnx.save(model, folder / "model.onnx")
    feeds = lambda flag: {"flag": np.array(flag), "goes": np.array(True), "trips": np.array(1)}
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    runs = [dict(zip(names, session.run(None, feeds(flag)))) for flag in (True, False)]
    values = runs[0]
    values["looped"] = values["looped"].reshape(4, 5)
    values |= {"if/then_branch/then": values.pop("branch"), "if/else_branch/else": runs[1]["branch"]}
    values["codes_node/value"] = values.pop("codes")
    values["functions/local.Own/own_node/value"] = values.pop("own")
    values["given/codes"], values["functions/local.Default/codes"] = values.pop("given"), values.pop("default")
    del values["state"]
    return values
