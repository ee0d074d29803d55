"""Writes the fixtures of derived weights: models as the formats' own packages write them, and the true values.

Usage: generate.py onnx|onnxruntime|torch; see ../README.md.
"""

import importlib
import shutil
import sys
from pathlib import Path

from safetensors.numpy import save_file

MODULES = {"onnx": "onnx_models", "onnxruntime": "ort_models", "torch": "torch_tensors"}


def main():
    for name in sys.argv[1:]:
        module = importlib.import_module(MODULES[name])
        folder = Path(__file__).parent / "fixtures" / module.NAME
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        values = {key: value.astype("float32") for key, value in module.write(folder).items()}
        save_file(values, folder / "expected.safetensors")
        print(folder.name, len(values))


main()
