"""Whole models: the goldens' folders through GGUF and back. llama.cpp computes with the GGUF file; transformers loads what came back, with the same logits; the
tokenizer that came back, the source's and llama.cpp's give the same ids."""

import json
import math
import re
import shutil
import sys
from pathlib import Path

import program
from judges import ROOT
from report import Failure, Skipped
from whole_judges import llama, llama_ids, transformers

GOLDENS = ROOT / "tests/golden"
CORPUS = json.loads((ROOT / "tests/tokenizers/corpus.json").read_text())
NEAR = 1e-5

# What llama.cpp's model of an architecture does whatever the folder says: it knows no other gelu for gemma.
MEANS = {"gemma": {"hidden_act": "gelu_pytorch_tanh"}}

# Why a judge cannot be asked about a model: by judge and model.
NOT_JUDGED = json.loads((GOLDENS / "not_judged.json").read_text())


# Of which GGUF has not all, so that no folder comes back.
ONE_WAY = {"qwen3-reranker-untied"}


def make(name, scratch):
    """The golden's folder, its GGUF file and the folder that came back of that."""
    sys.path.insert(0, str(GOLDENS))
    from folder import write_folder
    described = json.loads((GOLDENS / name / "tensors.json").read_text())
    at = scratch / name
    folder = at / described["folder"]
    folder.mkdir(parents=True)
    write_folder(described, GOLDENS, folder)
    program.must("convert", folder, at / "model.gguf")
    if name in ONE_WAY:
        program.refuses(4, "convert", at / "model.gguf", at / "back", "--to", "huggingface")
    else:
        program.must("convert", at / "model.gguf", at / "back", "--to", "huggingface")


def source_of(at):
    return next(path for path in at.iterdir() if path.is_dir() and path.name not in ("back", "rounded"))


def pieces_of(folder):
    """SentencePiece's file of a folder."""
    return next((folder / file for file in ("tokenizer.model", "spiece.model") if (folder / file).is_file()), None)


def logits(name, scratch):
    at = scratch / name
    if reason := NOT_JUDGED["transformers"].get(name):
        raise Skipped(reason)
    folder = source_of(at)
    said = transformers("same_logits", before=folder, after=at / "back", scratch=at / "rounded", means=MEANS.get(name, {}))
    if said["unexpected"] or any("pooler" not in key for key in said["missing"]):
        raise Failure(f"transformers misses {said['missing']} and does not expect {said['unexpected']}")
    if not said["difference"] <= NEAR:
        raise Failure(f"logits differ by {said['difference']} (largest {said['largest']}, {said['rounded']} tensors rounded)")


def texts_for(folder):
    """The corpus, and each token that is cut out of a text, between and beside other text."""
    texts = list(CORPUS)
    for token in transformers("added", folder=folder)[:40]:
        texts += [token, f"a{token}b", f"a {token} b", f" {token}", f"{token}{token}", f"{token}\n", token[:-1], token.upper()]
    return list(dict.fromkeys(texts))


def different(texts, one, two, allowed):
    """The texts with other ids, but for those that are allowed."""
    return [text for text, a, b in zip(texts, one, two, strict=True) if a != b and text not in allowed]


def show(what, found, texts, one, two):
    if not found:
        return
    n = texts.index(found[0])
    raise Failure(f"{what}: {len(found)} of {len(texts)} texts differ: {', '.join(map(repr, found[:5]))}\n"
                  f"{one[n][0][:30]}\n{two[n][0][:30]}")


def token_ids(name, scratch):
    at = scratch / name
    folder = source_of(at)
    texts = texts_for(folder)
    if len(texts) < 500:
        raise Failure(f"only {len(texts)} texts")
    source, back = (transformers("ids", folder=path, texts=texts) for path in (folder, at / "back"))
    changed = {text for text, made in zip(texts, transformers("normalized", folder=folder, texts=texts), strict=True) if text != made}
    lost = set(changed) if name in NORMALIZED else set()
    strips = {text for text in texts if STRIPS.get(name) and re.search(STRIPS[name], text)}
    lost |= strips
    show("the tokenizer that came back", different(texts, source, back, lost), texts, source, back)
    auto = [[ids, ids] for ids in transformers("auto_ids", folder=at / "back", texts=texts)]
    mine = [[ids[0], ids[0]] for ids in back]
    show("transformers' class", different(texts, mine, auto, set()), texts, mine, auto)
    said = llama_ids(at / "model.gguf", texts)
    by_bytes = '"ByteLevel"' in (folder / "tokenizer.json").read_text()
    odd = changed if by_bytes else {text for text in texts if name in RUNS and re.search("[\u2581\x85\u2028]", text) or name in WORDS and cut_otherwise(text)}
    show("llama.cpp", different(texts, source, said, strips | odd), texts, source, said)


def cut_otherwise(text):
    """Whether llama.cpp takes the accents off a text otherwise: it leaves the marks of India's scripts and Hangul as they are."""
    return bool(re.search("[\u0900-\u0dff\uac00-\ud7a3]", text))


# GGUF cannot say the normalizer (NFC) that byte-level tokenizers of these come with, and no name of a splitter stands for it.
# Of others a name does; llama.cpp itself never normalizes for byte-level tokenizers.
NORMALIZED = {"command-r", "gpt-neox", "mpt", "stablelm"}
# A GGUF file has no flag for tokens that take the spaces beside them (for phi3 llama.cpp goes by the model's name, and then
# </s> is one), and keeps no token beyond SentencePiece's model of a T5.
STRIPS = {"phi3": "</s>[ \n\t]", "roberta": "[ \n\t]<mask>", "t5": "<extra_id_"}
# Words' pieces, of which llama.cpp takes accents off in its own way.
WORDS = {"bert", "jina-bert-v2", "nomic-bert"}
# Runs of spaces are tokens of these, spelled with SentencePiece's mark for a space: where a text has the mark itself, the
# library finds them, llama.cpp does not. A T5's file maps some spaces that no keyboard has; llama.cpp cuts before it maps.
RUNS = {"gemma", "gemma2", "gemma3", "t5"}


def pieces(name, scratch):
    """SentencePiece itself, by the file that came back and by the folder's own."""
    at = scratch / name
    own = pieces_of(source_of(at))
    if not (at / "back/tokenizer.model").is_file():
        raise Failure("no tokenizer.model came back")
    source, back = (transformers("piece_ids", path=path, texts=CORPUS) for path in (own, at / "back/tokenizer.model"))
    pairs = [[[a], [b]] for a, b in zip(source, back, strict=True)]
    lost = {text for text in CORPUS if any(token in text for token in SPECIAL.get(name, ()))}
    bad = [text for text, (a, b) in zip(CORPUS, pairs, strict=True) if a != b and text not in lost]
    show("SentencePiece", bad, CORPUS, [a for a, _ in pairs], [b for _, b in pairs])


# Tokens that tokenizer.json calls special, and SentencePiece's file does not: GGUF has one type for both.
SPECIAL = {"phi3": ("</s>", "<|")}


def judges_say_no(scratch):
    """One merge less, and one other byte of a weight, must not pass."""
    at = scratch / "qwen2"
    wrong = at / "rounded" / "wrong"
    shutil.copytree(at / "back", wrong)
    tokenizer = json.loads((wrong / "tokenizer.json").read_text())
    del tokenizer["model"]["merges"][12]
    (wrong / "tokenizer.json").write_text(json.dumps(tokenizer))
    one, two = (transformers("ids", folder=path, texts=CORPUS) for path in (at / "back", wrong))
    if one == two:
        raise Failure("the ids are the same with one merge less")
    data = bytearray((wrong / "model.safetensors").read_bytes())
    data[-1] ^= 2
    (wrong / "model.safetensors").write_bytes(data)
    said = transformers("same_logits", before=at / "back", after=wrong, scratch=at / "rounded" / "again", means={})
    if said["difference"] <= NEAR:
        raise Failure("the logits are the same with one other byte")


def computes(name, scratch):
    """llama.cpp loads the file and computes finite numbers with it."""
    if reason := NOT_JUDGED["llama.cpp"].get(name):
        raise Skipped(reason)
    lines = llama("logits", scratch / name / "model.gguf", ["5 6 7 8 9 10 11 12"])
    numbers = [float(word) for line in lines for word in line.split()]
    if not numbers or not all(map(math.isfinite, numbers)):
        raise Failure(f"{len(numbers)} numbers, of which some are not finite")


def families():
    """The models that `tests/golden/families` lists, and whether transformers has their class. There are many, each like one of the
    others in what its tokenizer is."""
    found = {}
    for path in sorted((GOLDENS / "families").glob("*.py")):
        listed = path.read_text().split("UNFINISHED")[0]
        found |= {name: "library=False" not in rest for name, rest in re.findall(r'^    "([a-z0-9_-]+)": dict\((.*)', listed, re.M)}
    return found


def run(report, scratch):
    scratch.mkdir()
    others = families()
    for path in sorted(GOLDENS.glob("*/golden.json")):
        name = path.parent.name
        if "quantization_config" in json.loads((path.parent / "config.json").read_text()):
            continue  # no folder comes back of blocks
        report.step(f"{name}: folder -> GGUF -> folder", make, name, scratch)
        if (scratch / name / "model.gguf").is_file():
            report.step(f"{name}: llama.cpp computes with the file", computes, name, scratch)
        if (scratch / name / "back").is_dir() and others.get(name, True):
            report.step(f"{name}: transformers loads what came back, with the same logits", logits, name, scratch)
        if name in others:
            shutil.rmtree(scratch / name)
            continue
        if (scratch / name / "back").is_dir():
            report.step(f"{name}: its tokenizer, the source's and llama.cpp give the same ids", token_ids, name, scratch)
        if (scratch / name / "back").is_dir() and pieces_of(source_of(scratch / name)):
            report.step(f"{name}: SentencePiece reads the file that came back as the folder's", pieces, name, scratch)
    report.step("one merge less and one other byte are seen", judges_say_no, scratch)
