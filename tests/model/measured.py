"""Writes measured/: what llama-perplexity and llama-imatrix say of the trained model. README.md describes it.

    measured.py APR TOOLS    the program that makes the GGUF files; the folder of llama.cpp's programs"""

import json
import shutil
import sys
import tempfile
from pathlib import Path

import subprocess

from llama_tools import Tools

HERE = Path(__file__).parent
OUT = HERE / "measured"
TEXT = "held-out.txt"
TYPES = ("F32", "F16", "Q8_0", "Q4_K_M")
# Of the imatrix and of the base: llama-perplexity prints no figures of fewer than 100 tokens.
WINDOW, BASE_WINDOW, BASE_CHUNKS = 256, 128, 2
# Keys and values in F32, as the tests have them: in F16 sums of squares are 1e-3 apart.
EXACT = ("-ctk", "f32", "-ctv", "f32", "-fa", "off")


def main():
    apr, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    OUT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as scratch:
        scratch = Path(scratch)
        tools = Tools(folder, scratch)
        shutil.copy(HERE / TEXT, scratch / TEXT)
        made = {"made_by": "llama-cpp-python 0.3.36", "window": WINDOW, "base_window": BASE_WINDOW, "base_chunks": BASE_CHUNKS,
                "perplexity": {}, "divergence": {}}
        for kind in TYPES:
            subprocess.run([apr, "convert", "-q", HERE / "weights", scratch / f"{kind}.gguf", "--quantize", kind], check=True)
            made["perplexity"][kind] = tools.perplexity(f"{kind}.gguf", TEXT, WINDOW)
        made["base_perplexity"] = tools.perplexity("F32.gguf", TEXT, BASE_WINDOW, "--chunks", BASE_CHUNKS, "--kl-divergence-base", "base.kld", *EXACT)
        for kind in TYPES[1:]:
            made["divergence"][kind] = tools.divergence(f"{kind}.gguf", "base.kld", BASE_WINDOW, *EXACT)
        for kind in ("F32", "F16"):
            tools.imatrix(f"{kind}.gguf", TEXT, WINDOW, f"imatrix-{kind}.gguf", *EXACT)
        tools.imatrix("F32.gguf", TEXT, WINDOW, "imatrix-F32.dat", "--output-format", "dat", *EXACT)
        made["statistics"] = tools.statistics("F32.gguf", "imatrix-F32.gguf")
        for name in ("base.kld", "imatrix-F32.gguf", "imatrix-F16.gguf", "imatrix-F32.dat"):
            shutil.copy(scratch / name, OUT / name)
    rows = ",\n  ".join(json.dumps(row) for row in made.pop("statistics"))
    text = json.dumps(made, indent=1)
    (OUT / "figures.json").write_text(text[:-2] + ',\n "statistics": [\n  ' + rows + "\n ]\n}\n")


if __name__ == "__main__":
    main()
