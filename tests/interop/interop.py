"""Runs every case in a scratch folder, two modules at a time: `interop.py FOLDER [CASES ...]`. Called by run.sh, which sets up the
judges."""

import contextlib
import io
import multiprocessing
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import bom_cases
import crossing_cases
import defaults_cases
import families_cases
import fixture_cases
import flip_cases
import flip_python_cases
import gguf_cases
import hub_cases
import measured_cases
import minilm_cases
import mixture_cases
import numpy_cases
import onnx_cases
import program
import pytorch_cases
import pytorch_scan_cases
import quants_cases
import running_cases
import safetensors_cases
import tables_cases
import template_cases
import whole_cases
from report import Failure, Report
from seed import SEED

# Those that take longest are first, so that none of them is left alone at the end.
CASES = (whole_cases, running_cases, families_cases, mixture_cases, gguf_cases, safetensors_cases, numpy_cases, pytorch_cases, pytorch_scan_cases, onnx_cases,
         crossing_cases, defaults_cases, fixture_cases, flip_cases, flip_python_cases, quants_cases, minilm_cases, bom_cases, tables_cases,
         template_cases, hub_cases, measured_cases)


def plugins_are_loaded():
    """The formats come from plugin files beside `apr`, loaded when it runs."""
    import json
    listed = json.loads(program.must("plugins", "list", "--json"))
    rows = listed["plugins"] if isinstance(listed, dict) else listed
    beside = Path(program.APR).resolve().parent
    loaded = {row["id"]: row for row in rows}
    for name in ("apr", "architectures", "cpu_kernels", "ggml_legacy", "gguf", "huggingface", "numpy", "onnx", "pytorch", "quants",
                 "safetensors"):
        if name not in loaded:
            raise Failure(f"there is no plugin {name}")
        path = loaded[name].get("path")
        if not path or beside not in Path(path).resolve().parents:
            raise Failure(f"plugin {name} is not beside apr: {path}")


def one(number, scratch):
    """Runs the cases of a module; what they print is printed whole when they are done."""
    cases, report, said, begun = CASES[number], Report(), io.StringIO(), time.monotonic()
    with contextlib.redirect_stdout(said):
        cases.run(report, scratch / cases.__name__)
        print(f"        {cases.__name__} took {time.monotonic() - begun:.1f} s")
    return said.getvalue(), report


def main():
    scratch = Path(sys.argv[1])
    print(f"interop: {program.must('--version').splitlines()[0]}, seed {SEED}", flush=True)
    report = Report()
    report.step("the plugins are loaded from beside apr", plugins_are_loaded)
    asked = sys.argv[2:]
    numbers = [number for number, cases in enumerate(CASES) if not asked or cases.__name__.removesuffix("_cases") in asked]
    with ProcessPoolExecutor(2, mp_context=multiprocessing.get_context("spawn")) as pool:
        for done in as_completed([pool.submit(one, number, scratch) for number in numbers]):
            said, part = done.result()
            print(said, end="", flush=True)
            report.add(part)
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
