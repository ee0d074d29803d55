"""Writes the fixtures of derived weights: models as the formats' own packages write them, and the true values.

Usage: generate.py MODULE...; see ../README.md.
"""

import importlib
import shutil
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file


def main():
    for name in sys.argv[1:]:
        module = importlib.import_module(name)
        folder = Path(__file__).parent / "fixtures" / module.NAME
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        values = module.write(folder).items()
        # What is not contiguous is saved in another order.
        values = {key: np.ascontiguousarray(value, "float32") for key, value in values}
        save_file(values, folder / "expected.safetensors")
        print(folder.name, len(values))


main()
