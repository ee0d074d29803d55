"""A real model, the BERT of 22 million parameters in a package of PyPI, as people have it: through APR and back, through GGUF
and back, and what llama.cpp and transformers make of it."""

import hashlib
import json
import math
import os
from pathlib import Path

import program
from judges import read_safetensors
from report import Failure, Skipped
from whole_cases import CORPUS, cut_otherwise, show
from whole_judges import llama_embeddings, llama_ids, transformers

FOLDER = os.environ.get("APR_INTEROP_MINILM", "")
SENTENCES = [
    "This is an example sentence.", "Each sentence is converted to a vector.", "A man is eating food.", "The cat sits outside!",
    "Zürich is the largest city of Switzerland.", "fn main() { println!(\"hello\"); }", "Он читает книгу.", "今天天气很好。",
    "1234567890 3.14159 -42", "The quick brown fox jumps over the lazy dog, and the lazy dog does not care about it at all.",
]
NEAR = 1e-3


def files(folder):
    return {str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
            for path in folder.rglob("*") if path.is_file() and path.name != ".gitattributes"}


def tensors(path):
    return {row["name"]: row for row in program.tensors(path)}


def through_apr(scratch):
    program.must("convert", FOLDER, scratch / "m.apr")
    program.must("convert", scratch / "m.apr", scratch / "back", "--to", "huggingface")
    before, after = tensors(FOLDER), tensors(scratch / "back")
    if before != after or len(before) < 100:
        raise Failure("apr lists other tensors of what came back")
    # The package reads both files by itself.
    one, two = (read_safetensors(Path(folder) / "model.safetensors") for folder in (FOLDER, scratch / "back"))
    if one.tensors != two.tensors:
        raise Failure("the package reads other tensors of what came back")
    before, after = files(Path(FOLDER)), files(scratch / "back")
    if before != after:
        raise Failure(f"other files: {sorted(set(before.items()) ^ set(after.items()))[:6]}")


def through_gguf(scratch):
    program.must("convert", scratch / "m.apr", scratch / "m.gguf")
    program.must("convert", scratch / "m.gguf", scratch / "from-gguf", "--to", "huggingface")
    said = transformers("same_logits", before=Path(FOLDER), after=scratch / "from-gguf", scratch=scratch / "rounded", means={})
    if said["unexpected"] or any("pooler" not in key for key in said["missing"]) or not said["difference"] <= 1e-5:
        raise Failure(str(said))
    before, after = tensors(FOLDER), tensors(scratch / "from-gguf")
    lost = sorted(name for name in before if name not in after)
    if any("pooler" not in name and "position_ids" not in name for name in lost) or any(name not in before for name in after):
        raise Failure(f"lost {lost}")
    kept = [name for name, row in after.items() if row["dtype"] == before[name]["dtype"]]
    wrong = [name for name in kept if after[name]["sha256"] != before[name]["sha256"]]
    if wrong or len(kept) < 60:
        raise Failure(f"{len(kept)} tensors of the same type, of which {wrong} differ")


def ids(scratch):
    source, back = (transformers("ids", folder=folder, texts=CORPUS) for folder in (Path(FOLDER), scratch / "from-gguf"))
    bad = [text for text, a, b in zip(CORPUS, source, back, strict=True) if unpadded(a) != unpadded(b)]
    show("the tokenizer that came back", bad, CORPUS, source, back)
    said = llama_ids(scratch / "m.gguf", CORPUS)
    bad = [text for text, a, b in zip(CORPUS, source, said, strict=True) if unpadded(a) != unpadded(b) and not cut_otherwise(text)]
    show("llama.cpp", bad, CORPUS, source, said)


def unpadded(pair):
    """The package's tokenizer pads to 128 ids and cuts at as many; a GGUF file has no place for that."""
    return [pair[n][:len(pair[n]) - next((i for i, id in enumerate(reversed(pair[n])) if id != 0), len(pair[n]))] for n in (0, 1)]


def embeddings(scratch):
    ours, theirs = llama_embeddings(scratch / "m.gguf", SENTENCES), transformers("embeddings", folder=Path(FOLDER), texts=SENTENCES, pooling="mean")
    for text, one, two in zip(SENTENCES, ours, theirs, strict=True):
        one, two = ([x / math.sqrt(sum(x * x for x in vector)) for x in vector] for vector in (one, two))
        apart = max(abs(a - b) for a, b in zip(one, two, strict=True))
        if not apart <= NEAR:
            raise Failure(f"{text!r}: {apart}")


def embedded(scratch):
    """apr's own embeddings: of whole texts, with the tokens around them."""
    theirs = transformers("embeddings", folder=Path(FOLDER), texts=SENTENCES, pooling="mean")
    for text, two in zip(SENTENCES, theirs, strict=True):
        one = json.loads(program.must("run", scratch / "m.gguf", text, "--embed", "--json"))["embedding"]
        two = [x / math.sqrt(sum(y * y for y in two)) for x in two]
        apart = max(abs(a - b) for a, b in zip(one, two, strict=True))
        if not apart <= NEAR:
            raise Failure(f"{text!r}: {apart}")


def run(report, scratch):
    scratch.mkdir()
    if not FOLDER:
        report.skip("a real BERT", Skipped("the package was not fetched"))
        return
    report.step("a real BERT: folder -> APR -> folder, every tensor and file to the byte", through_apr, scratch)
    report.step("a real BERT: folder -> APR -> GGUF -> folder, all that GGUF keeps, with the same hidden states", through_gguf, scratch)
    report.step("a real BERT: the package's tokenizer, the one that came back and llama.cpp give the same ids", ids, scratch)
    report.step("a real BERT: llama.cpp embeds ten sentences as transformers does, within 1e-3", embeddings, scratch)
    report.step("a real BERT: apr embeds them so too", embedded, scratch)
