"""Operators of onnxruntime on codes, with all that their definitions allow; and what onnxruntime computes of inputs that pick
a weight's elements one by one."""

import numpy as np
import onnx
from onnx import TensorProto, helper

from onnx_models import codes, scales, tensor
from ort_dynamic import run

NAME = "onnx-operators"
RAW = np.random.default_rng(23)


class Model:
    """Nodes that each have a weight, and how to run one for its values."""

    def __init__(self):
        self.nodes, self.initializers, self.values, self.inputs = [], {}, {}, {}

    def stored(self, name, kind, values):
        """An initializer; gives its name."""
        self.initializers[name] = tensor(name, kind, values)
        return name

    def given(self, name, values):
        """An input that picks; gives its name."""
        self.inputs[name] = np.asarray(values)
        return name

    def node(self, operator, inputs, output, domain="com.microsoft", **attributes):
        """A node; gives what it computes of the inputs."""
        node = helper.make_node(operator, inputs, [output], domain=domain, **attributes)
        self.nodes.append(node)
        return output

    def model(self, outputs):
        """All nodes, with some outputs."""
        kind = lambda value: helper.np_dtype_to_tensor_dtype(value.dtype)
        ends = [helper.make_tensor_value_info(name, kind(value), value.shape) for name, value in self.inputs.items()]
        outs = [helper.make_empty_tensor_value_info(name) for name in outputs]
        graph = helper.make_graph(self.nodes, "operators", ends, outs, list(self.initializers.values()))
        opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=opsets)
        model.ir_version = 10
        return model

    def run(self, output, changed=()):
        """What one output is, with some initializers changed."""
        part = Model()
        wanted = {output}
        for node in reversed(self.nodes):
            if wanted & set(node.output):
                part.nodes.insert(0, node)
                wanted |= set(node.input)
        part.initializers = {name: value for name, value in (self.initializers | dict(changed)).items() if name in wanted}
        part.inputs = {name: value for name, value in self.inputs.items() if name in wanted}
        return run(part.model([output]), part.inputs)


def nbits(of):
    """MatMulNBits: bits, block, with which zero points."""
    cases = [(4, 16, 40, 3, None, "FLOAT", False), (4, 32, 96, 4, "UINT8", "FLOAT", True), (2, 16, 48, 5, "FLOAT", "FLOAT", False),
             (8, 16, 33, 2, "UINT8", "FLOAT", False), (4, 16, 64, 3, "FLOAT16", "FLOAT16", False), (2, 32, 64, 1, None, "FLOAT", True)]
    for number, (bits, block, rows, columns, zeros, kind, is_flat) in enumerate(cases):
        name, blocks = f"nbits{number}", -(-rows // block)
        packed = RAW.integers(0, 256, (columns, blocks, block * bits // 8))
        shape = (columns * blocks,) if is_flat else (columns, blocks)
        of_blocks = scales(shape)
        if zeros in ("FLOAT", "FLOAT16"):
            # The definition takes zero points away before it scales, and onnxruntime after that, and rounds to the type of the
            # scales: with short numbers all are exact.
            of_blocks = RAW.integers(1, 8, shape) / 64
        inputs = [of.given(f"{name}_x", np.eye(rows).astype(np.float16 if kind == "FLOAT16" else np.float32)),
                  of.stored(name, "UINT8", packed), of.stored(f"{name}.s", kind, of_blocks)]
        if zeros == "UINT8":
            row = -(-blocks * bits // 8)
            shape = (columns * row,) if is_flat else (columns, row)
            inputs.append(of.stored(f"{name}.z", zeros, RAW.integers(0, 256, shape)))
        elif zeros:
            inputs.append(of.stored(f"{name}.z", zeros, np.round(RAW.uniform(-1, 17, shape) * 4) / 4))
        of.node("MatMulNBits", inputs, f"{name}_out", K=rows, N=columns, bits=bits, block_size=block)
        of.values[name] = of.run(f"{name}_out")


def tables(of):
    """GatherBlockQuantized: type, bits, block, with zero points."""
    cases = [("UINT8", 2, 16, True), ("UINT8", 4, 16, False), ("UINT8", 4, 32, True), ("UINT8", 8, 16, True), ("UINT8", 8, 16, False),
             ("UINT4", 4, 16, False), ("INT4", 4, 16, True)]
    for number, (kind, bits, block, has_zeros) in enumerate(cases):
        name, rows, width = f"table{number}", 3, 80
        each = 8 // bits if kind == "UINT8" else 1
        blocks = -(-width // block)
        inputs = [of.stored(name, kind, codes(kind, (rows, width // each))), of.given("rows", np.arange(rows)),
                  of.stored(f"{name}.s", "FLOAT", scales((rows, blocks)))]
        if has_zeros:
            inputs.append(of.stored(f"{name}.z", kind, codes(kind, (rows, -(-blocks // each)))))
        of.node("GatherBlockQuantized", inputs, f"{name}_out", bits=bits, block_size=block, quantize_axis=1)
        of.values[name] = of.run(f"{name}_out")


def matrices(of):
    """Products of 8-bit integers, with scales and zero points for each column."""
    rows, columns = 7, 5
    one = of.stored("one", "FLOAT", np.array(1))
    none = of.stored("none", "UINT8", np.array(0))
    x = of.given("x", np.eye(rows, dtype=np.uint8))
    columnwise = lambda name, kind: [of.stored(f"{name}.s", "FLOAT", scales(columns)),
                                     of.stored(f"{name}.z", kind, codes(kind, columns))]
    of.stored("to_float", "UINT8", codes("UINT8", (rows, columns)))
    scale, zero = columnwise("to_float", "UINT8")
    of.node("MatMulIntegerToFloat", [x, "to_float", one, scale, none, zero], "to_float_out")
    of.values["to_float"] = of.run("to_float_out")
    # The bias is that of inputs that are 0.
    of.stored("gemm", "INT8", codes("INT8", (columns, rows)))
    of.stored("gemm.bias", "INT32", RAW.integers(-5000, 5000, columns))
    scale, zero = columnwise("gemm", "INT8")
    of.node("QGemm", [x, of.stored("half", "FLOAT", np.array(0.37)), none, "gemm", scale, zero, "gemm.bias"], "gemm_out",
            alpha=0.7, transB=1)
    of.inputs["x"] = np.zeros((rows, rows), np.uint8)
    of.values["gemm.bias"] = of.run("gemm_out")[0]
    of.inputs["x"] = np.eye(rows, dtype=np.uint8)
    alone = Model()
    alone.inputs, alone.initializers = of.inputs, of.initializers
    alone.node("QGemm", [x, one, none, "gemm", scale, zero], "out", transB=1)
    of.values["gemm"] = alone.run("out").T
    # What is as wide as a byte needs two runs: for what is above zero, and for what is below.
    of.stored("product", "UINT8", codes("UINT8", (rows, columns)))
    scale, zero = columnwise("product", "UINT8")
    of.node("QLinearMatMul", [x, one, none, "product", scale, zero, one, none], "product_out", domain="")
    value = np.zeros((rows, columns), np.float32)
    for at, of_column in enumerate(onnx.numpy_helper.to_array(of.initializers[scale])):
        for middle in (0, 255):
            changed = {"result.s": tensor("result.s", "FLOAT", of_column), "result.z": tensor("result.z", "UINT8", middle)}
            part = Model()
            part.inputs, part.initializers = of.inputs, of.initializers | changed
            part.node("QLinearMatMul", [x, one, none, "product", scale, zero, "result.s", "result.z"], "y", domain="")
            part.node("DequantizeLinear", ["y", "result.s", "result.z"], "out", domain="")
            value[:, at] += part.run("out")[:, at]
    of.values["product"] = value
    # Multiplied by both scales, one after the other; the other operand is quantized with a stored scale.
    floats = of.given("floats", np.eye(rows, dtype=np.float32))
    of.node("QuantizeLinear", [floats, one, none], "floats_quantized", domain="")
    of.stored("late", "INT8", codes("INT8", (rows, columns)))
    scale = of.stored("late.s", "FLOAT", scales((1, columns)))
    zero = of.stored("late.z", "INT8", codes("INT8", columns))
    of.node("MatMulInteger", ["floats_quantized", "late", none, zero], "late_product", domain="")
    of.node("Cast", ["late_product"], "late_cast", domain="", to=TensorProto.FLOAT)
    of.node("Mul", ["late_cast", one], "late_scaled", domain="")
    of.node("Mul", [scale, "late_scaled"], "late_out", domain="")
    of.values["late"] = of.run("late_out")


def elements(of):
    """Operators on one scale: a sum, a join, a choice, a table that is read before its values are computed."""
    one = lambda name, kind: [of.stored(f"{name}.s", "FLOAT", scales(())), of.stored(f"{name}.z", kind, codes(kind, ()))]
    for operator, name in (("QLinearAdd", "sum"), ("QLinearConcat", "join")):
        of.stored(name, "UINT8", codes("UINT8", (1, 6)))
        own = one(name, "UINT8")
        # The other operand is all zero points: the result is the weight.
        other = of.given(f"{name}_x", np.full((1, 6), 9, np.uint8))
        nine = of.stored("nine", "UINT8", np.array(9))
        if operator == "QLinearAdd":
            of.node(operator, [other, "one", nine, name, *own, *own], f"{name}_y")
        else:
            of.node(operator, [*own, name, *own, other, "one", nine], f"{name}_y", axis=0)
        of.node("DequantizeLinear", [f"{name}_y", *own], f"{name}_out", domain="")
        of.values[name] = of.run(f"{name}_out")[:1]
    of.stored("read", "INT8", codes("INT8", (4, 6)))
    of.node("Gather", ["read", of.given("reads", np.arange(4))], "read_rows", domain="")
    of.node("DequantizeLinear", ["read_rows", *one("read", "INT8")], "read_out", domain="")
    of.values["read"] = of.run("read_out")


def attention(of):
    """Values of QAttention are the inputs times the last third of its weight; each third is the last once."""
    hidden = 4
    of.stored("attention", "INT8", codes("INT8", (hidden, 3 * hidden)))
    scale = of.stored("attention.s", "FLOAT", scales(3 * hidden))
    zero = of.stored("attention.z", "INT8", codes("INT8", 3 * hidden))
    bias = of.stored("attention.bias", "FLOAT", np.zeros(3 * hidden))
    x = of.given("tokens", np.eye(hidden, dtype=np.uint8).reshape(hidden, 1, hidden))
    of.node("QAttention", [x, "attention", bias, "one", scale, "", "none", zero], "attention_out", num_heads=2)
    thirds = {}
    for third in range(3):
        changed = {}
        for name in ("attention", "attention.s", "attention.z"):
            values = onnx.numpy_helper.to_array(of.initializers[name])
            kind = TensorProto.DataType.Name(of.initializers[name].data_type)
            changed[name] = tensor(name, kind, np.roll(values, third * hidden, axis=-1))
        thirds[2 - third] = of.run("attention_out", changed).reshape(hidden, hidden)
    of.values["attention"] = np.concatenate([thirds[at] for at in range(3)], axis=1)
    of.values["attention.bias"] = np.zeros(3 * hidden)


def write(folder):
    """Writes the model; returns true values by name."""
    of = Model()
    for part in (nbits, tables, matrices, elements, attention):
        part(of)
    outputs = [node.output[0] for node in of.nodes if node.output[0].endswith("_out")]
    onnx.save(of.model(outputs), folder / "model.onnx")
    return of.values
