"""Judges the folders that apr makes of the GGUF files of saved/: the `tokenizers` library and transformers cut every text of the
corpus as the folder that transformers 5 saved does, and back.json has their digests. Any version of transformers will do.

    judge.py APR [NAME ...]
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
HERE = Path(__file__).resolve().parent
GOLDEN = HERE.parent / "golden"
sys.path.append(str(GOLDEN))

from folder import write_folder
from generate import FAMILIES, load

CORPUS = load(HERE / "corpus.json")
# What a GGUF file cannot say, and the texts in which it shows: T5's added tokens.
EXCEPT = {
    "t5": lambda text: "<extra_id_" in text,
    "t5-fast": lambda text: "<extra_id_" in text,
}


def judge(apr, name, scratch):
    import tokenizers
    from transformers import AutoTokenizer

    kind, _, model = FAMILIES[name]
    # apr names the file after its folder, and llama.cpp goes by the name.
    folder, back = scratch / model, scratch / "back"
    folder.mkdir()
    write_folder(load(GOLDEN / model / "tensors.json"), GOLDEN, folder)
    for file in ("tokenizer.model", "spiece.model", "tokenizer_config.json"):
        (folder / file).unlink(missing_ok=True)
    for file in (HERE / "saved" / name).iterdir():
        shutil.copy(file, folder) if file.name != "golden.json" else None
    for source, target in ((folder, scratch / "m.gguf"), (scratch / "m.gguf", back)):
        subprocess.run([apr, "convert", source, target, "--to", "gguf" if target.suffix else "huggingface"], check=True, capture_output=True)
    bad = []
    if hashlib.sha256((back / "tokenizer.json").read_bytes()).hexdigest() != load(HERE / "back.json")[name]:
        bad.append("tokenizer.json is not that of back.json")
    ids = [[t.encode(text).ids for text in CORPUS] for t in (tokenizers.Tokenizer.from_file(str(f / "tokenizer.json")) for f in (folder, back))]
    library = AutoTokenizer.from_pretrained(back)
    ids.append([library(text)["input_ids"] for text in CORPUS])
    known = EXCEPT.get(name, lambda text: False)
    for text, saved, came, loaded in zip(CORPUS, *ids):
        if came != loaded or (came != saved and not known(text)):
            bad.append(f"{text!r}: {saved} saved, {came} by tokenizers, {loaded} by transformers")
    return bad


def main():
    apr, *names = sys.argv[1:]
    failed = 0
    for name in names or FAMILIES:
        with tempfile.TemporaryDirectory() as scratch:
            bad = judge(apr, name, Path(scratch))
        failed += bool(bad)
        print(f"{name}: " + (f"{len(bad)} differ: {bad[0][:400]}" if bad else "the same ids"), flush=True)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
