"""Operators of onnxruntime on codes that its quantizer writes for recurrent networks, embeddings and elements, and one of 16 bits.

True values are (code - zero point) * scale, as the manual of the operators says. The model's results are compared with those of the
same network in floats on these values.
"""

import logging
import tempfile
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import QuantType, quantize_dynamic

from onnx_models import tensor

NAME = "onnxruntime-contrib"
MICROSOFT = "com.microsoft"
FLOAT = TensorProto.FLOAT
RAW = np.random.default_rng(23)
HIDDEN = 4


def floats(name, *shape):
    """A weight."""
    return numpy_helper.from_array(RAW.normal(size=shape).astype(np.float32), name)


def info(name, kind=FLOAT):
    """A value of any shape."""
    return helper.make_tensor_value_info(name, kind, None)


def model(graph):
    """The model of a graph."""
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(MICROSOFT, 1)]
    made = helper.make_model(graph, opset_imports=opsets)
    made.ir_version = 10
    return made


def plain():
    """A recurrent network beside embeddings, before they are quantized."""
    lstm = [floats("lstm.w", 1, 4 * HIDDEN, 6), floats("lstm.r", 1, 4 * HIDDEN, HIDDEN)]
    embedding = [floats("words", 11, 8), floats("positions", 5, 8), floats("segments", 2, 8), floats("gamma", 8), floats("beta", 8)]
    nodes = [helper.make_node("LSTM", ["x", "lstm.w", "lstm.r"], ["y", "", ""], "lstm", hidden_size=HIDDEN),
             helper.make_node("EmbedLayerNormalization", ["ids", "kinds", *(one.name for one in embedding)], ["e", "m"], "embed",
                              domain=MICROSOFT, epsilon=1e-6)]
    ids = [helper.make_tensor_value_info(name, TensorProto.INT32, [2, 5]) for name in ("ids", "kinds")]
    inputs = [helper.make_tensor_value_info("x", FLOAT, [3, 2, 6])] + ids
    return model(helper.make_graph(nodes, "plain", inputs, [info("y"), info("e")], lstm + embedding))


def elements():
    """Operators on single elements, and a product of codes of 16 bits, whose scale follows."""
    stored = {"times": ("UINT8", (3, 4)), "then": ("INT8", (3, 4)), "else": ("INT8", (3, 4)), "long": ("INT16", (4, 6))}
    reach = {"UINT8": (0, 256), "INT8": (-128, 128), "INT16": (-999, 1000)}
    made = {name: RAW.integers(*reach[kind], shape) for name, (kind, shape) in stored.items()}
    of = [tensor(name, stored[name][0], values) for name, values in made.items()]
    for name in stored:
        of.append(tensor(f"{name}.s", "FLOAT", np.float32(RAW.uniform(0.01, 0.1))))
        if name != "long":
            of.append(tensor(f"{name}.z", stored[name][0], RAW.integers(*reach[stored[name][0]], ())))
    of += [tensor("u.s", "FLOAT", np.float32(0.05)), tensor("u.z", "UINT8", 100), tensor("i.s", "FLOAT", np.float32(0.07)),
           tensor("i.z", "INT8", -3), tensor("h.s", "FLOAT", np.float32(0.001)), tensor("h.z", "INT16", 0)]
    nodes = [
        helper.make_node("QuantizeLinear", ["a", "u.s", "u.z"], ["a.q"]),
        helper.make_node("QLinearMul", ["a.q", "u.s", "u.z", "times", "times.s", "times.z", "u.s", "u.z"], ["p"], domain=MICROSOFT),
        helper.make_node("DequantizeLinear", ["p", "u.s", "u.z"], ["product"]),
        helper.make_node("QLinearWhere", ["flag", "then", "then.s", "then.z", "else", "else.s", "else.z", "i.s", "i.z"], ["w"],
                         domain=MICROSOFT),
        helper.make_node("DequantizeLinear", ["w", "i.s", "i.z"], ["where"]),
    ]
    long = [helper.make_node("QuantizeLinear", ["b", "h.s", "h.z"], ["b.q"]),
            helper.make_node("MatMulInteger16", ["b.q", "long"], ["b.p"], domain=MICROSOFT),
            helper.make_node("Cast", ["b.p"], ["b.f"], to=FLOAT),
            helper.make_node("Mul", ["h.s", "long.s"], ["b.s"]),
            helper.make_node("Mul", ["b.f", "b.s"], ["wide"])]
    return nodes, long, of, made


def run(made, feeds, *names):
    """What onnxruntime computes."""
    session = onnxruntime.InferenceSession(made.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(list(names), feeds)


def near(a, b, most):
    """Whether results are the same but for codes of what is computed on the way."""
    assert np.abs(a - b).max() <= most, np.abs(a - b).max()


def write(folder):
    """Writes the model; returns true values."""
    logging.disable(logging.WARNING)
    onnxruntime.set_default_logger_severity(3)
    before = plain()
    with tempfile.TemporaryDirectory() as scratch:
        onnx.save(before, Path(scratch) / "before.onnx")
        quantize_dynamic(Path(scratch) / "before.onnx", Path(scratch) / "after.onnx", weight_type=QuantType.QInt8,
                         op_types_to_quantize=["LSTM", "EmbedLayerNormalization"])
        graph = onnx.load(Path(scratch) / "after.onnx").graph
    nodes, long, stored, made = elements()
    graph.node.extend(nodes)
    graph.initializer.extend(stored)
    graph.input.extend([info("a"), info("flag", TensorProto.BOOL)])
    graph.output.extend([info("product"), info("where")])
    operators = {node.op_type for node in graph.node}
    assert operators >= {"DynamicQuantizeLSTM", "QEmbedLayerNormalization", "QLinearMul", "QLinearWhere"}, operators
    # What is stored, by the inputs of the nodes that read it.
    held = {one.name: numpy_helper.to_array(one) for one in graph.initializer}
    value = lambda codes, scale, zero: (held[codes].astype(np.float32) - held[zero].astype(np.float32)) * held[scale].astype(np.float32)
    by = {node.op_type: node.input for node in graph.node}
    lstm, embed = by["DynamicQuantizeLSTM"], by["QEmbedLayerNormalization"]
    values = {lstm[1]: value(lstm[1], lstm[8], lstm[9]), lstm[2]: value(lstm[2], lstm[10], lstm[11])}
    values |= {embed[2 + at]: value(embed[2 + at], embed[8 + at], embed[13 + at]) for at in range(5)}
    for name in ("times", "then", "else"):
        values[name] = value(name, f"{name}.s", f"{name}.z")
    # The same network in floats on these values.
    feeds = {"x": RAW.normal(size=(3, 2, 6)).astype(np.float32), "a": RAW.normal(size=(3, 4)).astype(np.float32),
             "ids": RAW.integers(0, 11, (2, 5)).astype(np.int32), "kinds": RAW.integers(0, 2, (2, 5)).astype(np.int32),
             "flag": RAW.integers(0, 2, (3, 4)).astype(bool)}
    y, e, product, where = run(model(graph), feeds, "y", "e", "product", "where")
    twin = onnx.ModelProto.FromString(before.SerializeToString())
    changed = {"lstm.w": values[lstm[1]].transpose(0, 2, 1), "lstm.r": values[lstm[2]].transpose(0, 2, 1)}
    changed |= {name: values[embed[2 + at]] for at, name in enumerate(("words", "positions", "segments", "gamma", "beta"))}
    for one in twin.graph.initializer:
        one.CopyFrom(numpy_helper.from_array(np.ascontiguousarray(changed[one.name]), one.name))
    plain_y, plain_e = run(twin, {name: feeds[name] for name in ("x", "ids", "kinds")}, "y", "e")
    near(y, plain_y, 0.05)
    near(e, plain_e, 1e-4)
    near(product, np.clip(feeds["a"] * values["times"], -5.0, 7.75), 0.025 * (1 + np.abs(values["times"]).max()) + 0.025)
    near(where, np.clip(np.where(feeds["flag"], values["then"], values["else"]), -8.75, 9.1), 0.036)
    graph.node.extend(long)
    graph.input.append(info("b"))
    graph.output.append(info("wide"))
    held |= {name: numpy_helper.to_array(one) for one in graph.initializer for name in [one.name]}
    values["long"] = held["long"].astype(np.float32) * held["long.s"]
    # Multiples of the scale, so that the product is exact but for the last rounding.
    feeds["b"] = np.float32(0.001) * RAW.integers(-2000, 2000, (3, 4)).astype(np.float32)
    (wide,) = run(model(graph), feeds, "wide")
    near(wide, feeds["b"] @ values["long"], 1e-6 * np.abs(wide).max())
    onnx.save(model(graph), folder / "model.onnx")
    return {name.removesuffix("_quantized"): of for name, of in values.items()}
