"""Compares what apr makes of models with what llama.cpp's converter makes of them, with the tables as they lie in the sources: while a
table is being written. Nothing is written but below --keep, where folders and files stay to be looked at.

    compare.py LLAMA_CPP --apr PROGRAM --keep FOLDER [NAME ...]
"""

import json
import os
import shutil
import subprocess
import sys
import traceback
from pathlib import Path

import checked_in
import generate
import tokenizers_of
from architectures import MODELS
from folder import read_header
from manifest import manifest

HERE = Path(__file__).resolve().parent
TABLES = HERE.parent.parent / "plugins/architectures/tables"


def run(apr, *arguments):
    """Runs apr with the tables of the sources; what it said if it failed."""
    path = os.environ.get("APR_PLUGIN_PATH", "")
    environment = os.environ | {"APR_PLUGIN_PATH": f"{TABLES}:{path}" if path else str(TABLES)}
    done = subprocess.run([apr, *map(str, arguments), "--force"], capture_output=True, text=True, env=environment)
    return done.returncode, (done.stdout + done.stderr).strip()


def keys(held):
    plain = lambda row: {k: v for k, v in row.items() if k not in ("key", "value" if "bits" in row else "")}
    return {row["key"]: plain(row) for row in held["kvs"]}


def compared(wanted, made, left_out):
    """What differs between two files, a line each."""
    want, have = keys(wanted), keys(made)
    for key in [*want, *(key for key in have if key not in want)]:
        if want.get(key) != have.get(key) and key not in left_out:
            yield f"key {key}: {have.get(key)}, not {want.get(key)}"
    plain = lambda row: {k: v for k, v in row.items() if k != "offset"}
    want, have = ({row["name"]: plain(row) for row in held["tensors"]} for held in (wanted, made))
    for name in [*want, *(name for name in have if name not in want)]:
        if want.get(name) != have.get(name):
            short = lambda row: row and f"{row['type']} {row['dims']} {row['sha256'][:8]}"
            yield f"tensor {name}: {short(have.get(name))}, not {short(want.get(name))}"
    if [row["name"] for row in wanted["tensors"]] != [row["name"] for row in made["tensors"]]:
        yield "the tensors' order differs"


def flat(value, prefix=""):
    if not isinstance(value, dict):
        return {} if value is None else {prefix[:-1]: value}
    return {k: v for key, inside in value.items() for k, v in flat(inside, f"{prefix}{key}.").items()}


def payloads(folder):
    for path in sorted(folder.glob("*.safetensors")):
        header, data = read_header(path)
        for name, row in header.items():
            begin, end = row["data_offsets"]
            yield name, (row["dtype"], row["shape"], data[begin:end])


def came_back(folder, back):
    """What of a folder did not come back, a line each."""
    before, after = dict(payloads(folder)), dict(payloads(back))
    for name in [*before, *(name for name in after if name not in before)]:
        if before.get(name) != after.get(name):
            short = lambda row: row and row[:2]
            yield f"back: {name}: {short(after.get(name))}, not {short(before.get(name))}"
    was, now = (flat(json.loads((f / "config.json").read_text())) for f in (folder, back))
    for key in [*was, *(key for key in now if key not in was)]:
        if was.get(key) != now.get(key):
            yield f"back: config.json {key}: {now.get(key)}, not {was.get(key)}"


def main():
    given = checked_in.given_arguments(apr="the program", keep="where everything stays")
    kept = Path(given.keep).resolve()
    for name in given.names or MODELS:
        scratch = kept / name
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(parents=True)
        print(f"== {name}", flush=True)
        try:
            model = MODELS[name]
            folder = generate.make_folder(name, model, scratch, scratch / "made")
            pre = model.get("pre") or tokenizers_of.pre_of(model["tokenizer"])
            checked_in.convert(folder, scratch / "wanted.gguf", pre)
        except BaseException:
            traceback.print_exc()
            print(f"{name}: the converter failed", flush=True)
            continue
        for source, file in ((folder, "made.gguf"), (folder, "held.apr"), (scratch / "held.apr", "again.gguf")):
            code, said = run(given.apr, "convert", source, scratch / file)
            if code or file == "made.gguf":
                print(said)
            if code:
                break
        else:
            wanted = manifest(scratch / "wanted.gguf")
            for line in compared(wanted, manifest(scratch / "made.gguf"), {"general.quantization_version", "tokenizer.ggml.pre"}):
                print(line)
            for line in compared(manifest(scratch / "made.gguf"), manifest(scratch / "again.gguf"), {"general.name", "general.basename", "general.finetune", "general.size_label"}):
                print("through APR:", line)
            code, said = run(given.apr, "convert", scratch / "made.gguf", scratch / "back", "--to", "huggingface")
            print("\n".join(came_back(folder, scratch / "back")) if not code else said)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
