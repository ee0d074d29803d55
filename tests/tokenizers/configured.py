"""Writes configured.json: what transformers makes of the small tokenizers of tests/golden when `tokenizer_config.json` says something
else than `tokenizer.json`, or leaves to the class what it does not say.

    configured.py [--check]

Each variant of `cases` names a tokenizer of tests/golden/tokenizers (`of`), the files that it is without (`without`), the list of
words that is made of its tokenizer.json (`vocabulary`) or whether vocab.json and merges.txt are (`merged`), its whole
`tokenizer_config.json` (`config`; null for none), further files of JSON by name (`files`), and members of `config.json` and
`tokenizer.json` that are changed (`model`, `fast`: JSON pointers and values). The script adds under the version of the library that
runs it: the ids of `texts` with and without what is put around them, the texts that these ids give back, the ids of the special
tokens, and for version 5 the variables that chat templates have of them; or `{"error": class}`. It is run once with transformers 5 and
once with version 4. What apr refuses has a word of the message (`refused`).
"""

import json
import logging
import shutil
import sys
import tempfile
from pathlib import Path

import transformers
from transformers import AutoTokenizer

transformers.logging.set_verbosity(50)
logging.disable(logging.CRITICAL)

HERE = Path(__file__).resolve().parent
KINDS = HERE.parent / "golden" / "tokenizers"
FIVE = transformers.__version__.startswith("5.")
NAMES = ["bos", "eos", "unk", "sep", "pad", "cls", "mask"]


def put(document, pointer, value):
    *path, last = pointer.strip("/").split("/")
    for name in path:
        document = document[int(name) if isinstance(document, list) else name]
    if isinstance(document, list):
        last = int(last) if last != "-" else len(document)
        document[last:last + 1] = [value]
    else:
        document[last] = value


def folder_of(case, folder):
    shutil.copytree(KINDS / case["of"], folder)
    path = folder / "tokenizer.json"
    if case.get("vocabulary"):
        vocabulary = json.loads(path.read_text())["model"]["vocab"]
        (folder / case["vocabulary"]).write_text("".join(f"{text}\n" for text in sorted(vocabulary, key=vocabulary.get)))
    if case.get("merged"):
        fast = json.loads(path.read_text())
        pairs = [pair if isinstance(pair, str) else " ".join(pair) for pair in fast["model"]["merges"]]
        (folder / "merges.txt").write_text("".join(f"{line}\n" for line in ["#version: 0.2", *pairs]))
        added = {token["content"]: token["id"] for token in fast["added_tokens"]}
        (folder / "vocab.json").write_text(json.dumps(fast["model"]["vocab"] | added))
    for name in case.get("without", []):
        (folder / name).unlink(missing_ok=True)
    if "fast" in case:
        fast = json.loads(path.read_text())
        for pointer, value in case["fast"].items():
            put(fast, pointer, value)
        path.write_text(json.dumps(fast))
    if case["config"] is None:
        (folder / "tokenizer_config.json").unlink(missing_ok=True)
    else:
        (folder / "tokenizer_config.json").write_text(json.dumps(case["config"]))
    for name, content in case.get("files", {}).items():
        (folder / name).write_text(json.dumps(content))
    (folder / "config.json").write_text(json.dumps(case.get("model", {})))
    return folder


def judged(case, texts):
    with tempfile.TemporaryDirectory() as scratch:
        try:
            tokenizer = AutoTokenizer.from_pretrained(folder_of(case, Path(scratch) / "folder"))
            ids = [tokenizer(text)["input_ids"] for text in texts]
            return {
                "class": type(tokenizer).__name__,
                "ids": ids,
                "bare": [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts],
                "back": [tokenizer.decode(row) for row in ids],
                "special": {name: getattr(tokenizer, f"{name}_token_id") for name in NAMES},
                **({"variables": tokenizer.special_tokens_map} if FIVE else {}),
            }
        except Exception as error:
            return {"error": type(error).__name__}


def main():
    path = HERE / "configured.json"
    before = path.read_text()
    listed = json.loads(before)
    version = transformers.__version__
    for case in listed["cases"]:
        found = judged(case, listed["texts"])
        case.setdefault("found", {})[version] = found

    rows = ",\n".join("  " + json.dumps(case, ensure_ascii=False) for case in listed["cases"])
    text = f'{{\n "texts": {json.dumps(listed["texts"], ensure_ascii=False)},\n "cases": [\n{rows}\n ]\n}}\n'
    if sys.argv[1:] == ["--check"]:
        sys.exit(0 if before == text else "configured.json is not what the library gives now")
    path.write_text(text)


if __name__ == "__main__":
    main()
