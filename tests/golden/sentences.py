"""Writes sentences.json: the vectors that sentence-transformers makes of texts by the settings of a folder. README.md describes it.

    sentences.py [--check]
"""

import argparse
import base64
import json
import os
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"

import numpy as np
from sentence_transformers import SentenceTransformer

from folder import write_folder

HERE = Path(__file__).resolve().parent
TEXT = "  The quick brown fox jumps over the lazy dog, and THE DOG sleeps."
PROMPTS = {"prompts": {"query": "Query: ", "other": ""}, "default_prompt_name": "query"}
MEAN = {"word_embedding_dimension": 64, "pooling_mode_mean_tokens": True}
KINDS = ["Transformer", "Pooling", "Normalize"]
# Of each case the configurations of the first module, of the whole and of the module that pools.
CASES = [
    ("plain", {}, {}, MEAN),
    ("short", {"max_seq_length": 9}, {}, MEAN),
    ("usual-length", {"max_seq_length": None}, {}, MEAN),
    ("lower", {"max_seq_length": 64, "do_lower_case": True}, {}, MEAN),
    ("prompt", {}, PROMPTS, MEAN),
    ("prompt-without-words", {}, {**PROMPTS, "default_prompt_name": "other"}, MEAN),
    ("first", {"max_seq_length": 12}, PROMPTS, {"word_embedding_dimension": 64, "pooling_mode_cls_token": True,
                                                "pooling_mode_mean_tokens": False}),
    ("narrow", {}, {"truncate_dim": 24}, MEAN),
    ("together", {"max_seq_length": 11, "do_lower_case": True}, {**PROMPTS, "truncate_dim": 48}, MEAN),
]
REPEATED = {"usual-length": 40}


def files(kinds, first, whole, pooling):
    """The files of a folder's modules; the tokenizer keeps upper case, else lowering would be nothing new."""
    modules = [{"idx": n, "name": str(n), "path": f"{n}_{kind}" if n else "", "type": f"sentence_transformers.models.{kind}"}
               for n, kind in enumerate(kinds)]
    tokenizer = json.loads((HERE / "tokenizers/wordpiece/tokenizer.json").read_text())
    tokenizer["normalizer"]["lowercase"] = False
    config = json.loads((HERE / "tokenizers/wordpiece/tokenizer_config.json").read_text())
    config |= {"do_lower_case": False, "tokenizer_class": "PreTrainedTokenizerFast", "model_max_length": 10**30}
    return {
        "modules.json": modules, "sentence_bert_config.json": first, "config_sentence_transformers.json": whole,
        "1_Pooling/config.json": pooling, "tokenizer.json": tokenizer, "tokenizer_config.json": config,
    }


def case(name, first, whole, pooling):
    text = TEXT * REPEATED.get(name, 1)
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        write_folder(json.loads((HERE / "bert/tensors.json").read_text()), HERE, folder)
        for path, content in files(KINDS, first, whole, pooling).items():
            (folder / path).parent.mkdir(exist_ok=True)
            (folder / path).write_text(json.dumps(content))
        (folder / "2_Normalize").mkdir()
        model = SentenceTransformer(str(folder), device="cpu")
        vector = model.encode(text, convert_to_numpy=True).astype(np.float64)
    # `apr` gives vectors the length 1, those that are cut too.
    vector = (vector / np.linalg.norm(vector)).astype("<f4")
    return {"name": name, "text": text, "first": first, "whole": whole, "pooling": pooling,
            "vector": base64.b64encode(vector.tobytes()).decode()}


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--check", action="store_true")
    options = options.parse_args()
    cases = [case(*one) for one in CASES]
    made = {name: version(name) for name in ("sentence-transformers", "transformers", "torch", "tokenizers")}
    lines = ",\n  ".join(json.dumps(one) for one in cases)
    text = f'{{\n "made_by": {json.dumps(made)},\n "cases": [\n  {lines}\n ]\n}}\n'
    path = HERE / "sentences.json"
    if options.check:
        floats = lambda one: np.frombuffer(base64.b64decode(one["vector"]), "<f4")
        have = json.loads(path.read_text())["cases"]
        wrong = [one["name"] for one, other in zip(cases, have, strict=True) if not np.allclose(floats(one), floats(other), atol=1e-5)]
        sys.exit(f"sentences: other vectors of {wrong}" if wrong else None)
    path.write_text(text)


if __name__ == "__main__":
    main()
