"""The packages `onnx` and `onnxruntime` as judges: what a model holds, whether it is valid, what it computes."""

from pathlib import Path

from models import Model, Tensor
from report import Failure, Skipped

try:
    import onnx
    import onnxruntime
    from onnx import numpy_helper
except ImportError as error:
    onnx, MISSING = None, str(error)

# `TensorProto.DataType` by its numbers, in apr's names.
DTYPES = {
    1: "F32", 2: "U8", 3: "I8", 4: "U16", 5: "I16", 6: "I32", 7: "I64", 9: "BOOL", 10: "F16", 11: "F64", 12: "U32", 13: "U64",
    14: "C64", 15: "C128", 16: "BF16", 17: "F8_E4M3", 18: "F8_E4M3FNUZ", 19: "F8_E5M2", 20: "F8_E5M2FNUZ", 21: "U4", 22: "I4",
    23: "F4_E2M1", 24: "F8_E8M0", 25: "U2", 26: "I2", 27: "F6_E2M3", 28: "F6_E3M2",
}
STRING = 8


def needed():
    if onnx is None:
        raise Skipped(f"the packages onnx and onnxruntime are not there: {MISSING}")


def payload(tensor, folder):
    """The values as the package reads them, wherever they lie, in the form of `raw_data`."""
    return numpy_helper.from_array(numpy_helper.to_array(tensor, str(folder))).raw_data


def tensor_of(name, tensor, folder):
    return Tensor(name, DTYPES[tensor.data_type], tuple(tensor.dims), payload(tensor, folder))


def read_onnx(path):
    """The initialisers of the model's own graph, by name."""
    needed()
    path = Path(path)
    model = onnx.load(path, load_external_data=False)
    return Model([tensor_of(t.name, t, path.parent) for t in model.graph.initializer], [])


def every_tensor(path):
    """All that has values, wherever a message can hold it, but texts; names are only those that the file gives."""
    path = Path(path)
    model = onnx.load(path, load_external_data=False)
    found = [t for t in tensors_in(model) if t.data_type != STRING]
    return Model([tensor_of(t.name, t, path.parent) for t in found], [])


def tensors_in(message):
    """Every TensorProto below a message, found by the descriptors and by no list of places."""
    if isinstance(message, onnx.TensorProto):
        yield message
        return
    for field, value in message.ListFields():
        if field.message_type is not None:
            for item in value if hasattr(value, "append") else [value]:
                yield from tensors_in(item)


def graph_without_values(path):
    """The whole message but the values and where they lie: what must not change."""
    model = onnx.load(path, load_external_data=False)
    for tensor in tensors_in(model):
        for field in ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data", "external_data",
                      "data_location"):
            tensor.ClearField(field)
    return model.SerializeToString(deterministic=True)


def valid(path):
    """The package's full check, which infers shapes too; by path, so that external data is looked at."""
    try:
        onnx.checker.check_model(str(path), full_check=True)
    except Exception as error:
        raise Failure(f"onnx.checker refuses {path}: {error}") from error


def outputs(path, inputs):
    """What onnxruntime computes, as bytes."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return [(value.dtype.name, value.shape, value.tobytes()) for value in session.run(None, inputs)]


def same_outputs(one, two, inputs):
    if outputs(one, inputs) != outputs(two, inputs):
        raise Failure(f"onnxruntime computes something else with {two} than with {one}")


def computes(path, inputs):
    """onnxruntime loads and runs it, and every output has finite numbers that differ: a model worth comparing."""
    import numpy as np
    for kind, shape, data in outputs(path, inputs):
        values = np.frombuffer(data, kind)
        if not np.isfinite(values).all() or len(set(values.tolist())) < min(4, values.size):
            raise Failure(f"{path} computes {values[:8]}, of shape {shape}")
