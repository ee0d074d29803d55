"""Writes trained.json: small tokenizers of kinds that no family has, as transformers 5.23 saves them, and what it makes of texts by
them.

    trained.py [--check]

Each case has the folder's files, the ids of the texts with what is put around them and without, the texts that the ids give, the
special tokens, and words of what a conversion to GGUF warns of.
"""

import json
import sys
import tempfile
from collections import Counter
from importlib.metadata import version
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import AutoTokenizer, PreTrainedTokenizerFast

HERE = Path(__file__).resolve().parent
TRAINING = [
    "the quick brown fox jumps over the lazy dog. " * 3, "Hello world! It's a test, isn't it? 12345 678 3.14",
    "def f(x):\n    return x + 1\n\n\tthe end", "naïve café Übergröße 日本語 テスト",
]
TEXTS = [
    "", "Hello world", "Hello  world  it's 12345 café 日本語\n\tx  ", " leading space", "</s> a <s>b", "NEWWORD newword foo  bar", "the☃☃ ☃x", "foo<sep>bar <sep> z",
    "\t..  ", "_Hello_world",
]
NAMES = ["bos", "eos", "unk", "sep", "pad", "cls", "mask"]
SPECIAL = ["<s>", "</s>", "<unk>"]


def learned(step, n_merges, normalizer=None, alphabet=()):
    """The characters of the training texts, and the pairs that are merged, most frequent first: the library's own training gives other
    ids each time."""
    counts = Counter()
    for text in TRAINING * 3:
        text = normalizer.normalize_str(text) if normalizer else text
        counts.update(tuple(piece) for piece, _ in (step.pre_tokenize_str(text) if step else [(text, None)]))
    tokens = SPECIAL + sorted({char for word in counts for char in word} | set(alphabet))
    merges = []
    for _ in range(n_merges):
        pairs = Counter()
        for word, count in counts.items():
            for pair in zip(word, word[1:]):
                pairs[pair] += count
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        merges.append(best)
        tokens += [text for text in ["".join(best)] if text not in tokens]
        joined = Counter()
        for word, count in counts.items():
            parts = []
            for part in word:
                if parts and (parts[-1], part) == best:
                    parts[-1] += part
                else:
                    parts.append(part)
            joined[tuple(parts)] += count
        counts = joined
    return {text: at for at, text in enumerate(tokens)}, merges


def unigram(step=None, decoder=None):
    step = step or pre_tokenizers.Metaspace()
    vocabulary, _ = learned(step, 60)
    scored = [(text, 0.0 if text in SPECIAL else -3 - at / 64 + len(text) / 2) for text, at in vocabulary.items()]
    tokenizer = Tokenizer(models.Unigram(scored, unk_id=SPECIAL.index("<unk>")))
    tokenizer.pre_tokenizer = step
    tokenizer.decoder = decoder or decoders.Metaspace()
    tokenizer.add_special_tokens(SPECIAL)
    return tokenizer


def whole_spaces():
    # With pieces that have spaces inside.
    parsed = json.loads(unigram(pre_tokenizers.Metaspace(split=False), decoders.Metaspace(split=False)).to_str())
    known = [text for text, _ in parsed["model"]["vocab"]]
    parsed["model"]["vocab"] += [[text, -0.5] for text in ("▁▁", "o▁w", "e▁q") if text not in known]
    return Tokenizer.from_str(json.dumps(parsed))


def even_odds():
    # With scores that go by length, so that many ways to cut a text are about as probable, and the bits behind the 32nd decide.
    parsed = json.loads(unigram().to_str())
    for entry in parsed["model"]["vocab"]:
        if entry[0] not in SPECIAL:
            entry[1] = -round(0.7 * len(entry[0]), 1)
    return Tokenizer.from_str(json.dumps(parsed))


def added(*tokens):
    tokenizer = unigram()
    for token in tokens:
        special = isinstance(token, AddedToken) and token.special
        (tokenizer.add_special_tokens if special else tokenizer.add_tokens)([token])
    return tokenizer


def finished(tokenizer, normalizer=None, step=None, decoder=None):
    if normalizer:
        tokenizer.normalizer = normalizer
    if step:
        tokenizer.pre_tokenizer = step
    tokenizer.decoder = decoder
    tokenizer.add_special_tokens(SPECIAL)
    return tokenizer


def pieces(**flags):
    normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    vocabulary, merges = learned(None, 60, normalizer)
    return finished(Tokenizer(models.BPE(vocabulary, merges, unk_token="<unk>", **flags)), normalizer, None, decoder)


def byte_pieces(step=None, normalizer=None, added=()):
    """Pieces with a token for each byte, and a space before nothing."""
    known = pieces(fuse_unk=True, byte_fallback=True)
    parsed = json.loads(known.to_str())
    vocabulary = sorted(parsed["model"]["vocab"], key=parsed["model"]["vocab"].get)
    tokens = vocabulary[:3] + [f"<0x{byte:02X}>" for byte in range(256)] + vocabulary[3:]
    merges = [tuple(pair) for pair in parsed["model"]["merges"]]
    model = models.BPE({text: at for at, text in enumerate(tokens)}, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True)
    tokenizer = Tokenizer(model)
    if step:
        tokenizer.pre_tokenizer = step
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_special_tokens(["<unk>"])
    for token in added:
        (tokenizer.add_special_tokens if isinstance(token, str) else tokenizer.add_tokens)([token])
    return tokenizer


def squeezed(*steps, single=None):
    tokenizer = unigram()
    tokenizer.normalizer = normalizers.Sequence(list(steps))
    if single:
        tokenizer.post_processor = around(single, "</s>")
    return tokenizer


def underscored():
    step = pre_tokenizers.Metaspace(replacement="_")
    vocabulary, merges = learned(step, 60)
    model = models.BPE(vocabulary, merges, unk_token="<unk>", fuse_unk=True)
    return finished(Tokenizer(model), None, step, decoders.Metaspace(replacement="_"))


def words(around=None):
    normalizer, step = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    vocabulary, merges = learned(step, 60, normalizer)
    tokens = list(vocabulary) + ["##" + text for text in vocabulary if text not in SPECIAL]
    model = models.WordPiece({text: at for at, text in enumerate(tokens)}, unk_token="<unk>")
    tokenizer = finished(Tokenizer(model), normalizer, step, decoders.WordPiece())
    if around:
        tokenizer.post_processor = around
    return tokenizer


def bytes_of(single, *special):
    step = pre_tokenizers.ByteLevel(add_prefix_space=False)
    vocabulary, merges = learned(step, 20, alphabet=pre_tokenizers.ByteLevel.alphabet())
    tokenizer = finished(Tokenizer(models.BPE(vocabulary, merges)), None, step, decoders.ByteLevel())
    if single:
        tokenizer.post_processor = around(single, *special)
    return tokenizer


def around(single, *special):
    return processors.TemplateProcessing(single=single, special_tokens=[(text, SPECIAL.index(text)) for text in special])


def saved(tokenizer, files=None, **roles):
    roles = {"bos_token": "<s>", "eos_token": "</s>", **roles}
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, **{key: value for key, value in roles.items() if value})
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        fast.save_pretrained(folder)
        for name, text in (files or {}).items():
            (folder / name).parent.mkdir(exist_ok=True)
            (folder / name).write_text(text)
        loaded = AutoTokenizer.from_pretrained(folder)
        found = {str(path.relative_to(folder)): path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}
    read = {name: json.loads(text) if name.endswith(".json") else text for name, text in found.items()}
    ids = [loaded(text)["input_ids"] for text in TEXTS]
    return {
        "files": read,
        "ids": ids,
        "bare": [loaded(text, add_special_tokens=False)["input_ids"] for text in TEXTS],
        "back": [loaded.decode(row) for row in ids],
        "special": {name: getattr(loaded, f"{name}_token_id") for name in NAMES if getattr(loaded, f"{name}_token") is not None},
    }


UNK = {"unk_token": "<unk>"}
NEVER = pre_tokenizers.Metaspace(prepend_scheme="never", split=False)
CASES = {
    "unigram with words added": (lambda: saved(added("newword", "foo"), **UNK), []),
    "unigram with a normalized word": (lambda: saved(added(AddedToken("foo", normalized=True)), **UNK), []),
    "unigram with spaces added": (lambda: saved(added(AddedToken("  ", normalized=False)), **UNK), []),
    "unigram with a word that takes spaces": (lambda: saved(added(AddedToken("foo", lstrip=True)), **UNK), ["`lstrip`"]),
    "unigram with a special token added": (lambda: saved(added(AddedToken("<sep>", special=True)), **UNK), []),
    "unigram with another mark": (lambda: saved(unigram(pre_tokenizers.Metaspace(replacement="_"), decoders.Metaspace(replacement="_")), **UNK), ["replaces spaces with U+2581", "`Metaspace`"]),
    "unigram with scores of more than 32 bits": (lambda: saved(even_odds(), **UNK), ["32 bits for a score"]),
    "unigram of whole texts": (lambda: saved(whole_spaces(), **UNK), []),
    "unigram that takes spaces off both ends": (lambda: saved(squeezed(normalizers.Strip(), normalizers.Replace(Regex(" {2,}"), "▁")), **UNK), ["keeps line ends and tabs"]),
    "unigram that makes one of many spaces": (lambda: saved(squeezed(normalizers.Replace(Regex(" {2,}"), " ")), **UNK), ["removes spaces at the end"]),
    "unigram that begins with its end": (lambda: saved(squeezed(normalizers.Replace(Regex(" {2,}"), " "), single="</s> $A"), cls_token="<s>", **UNK), ["around a text", "removes spaces at the end"]),
    "pieces with a normalized word that takes spaces": (lambda: saved(byte_pieces(NEVER, None, ["<s>", "</s>", AddedToken("foo", lstrip=True)]), **UNK), ["`lstrip`"]),
    "pieces that spell out what is no token": (lambda: saved(byte_pieces(None, normalizers.Replace(" ", "▁"), ["<b>", "<e>"]), bos_token="<b>", eos_token="<e>", **UNK), []),
    "pieces with another mark": (lambda: saved(underscored(), **UNK), ["fails on characters", "replaces spaces with U+2581", "`Metaspace`"]),
    "pieces with each unknown by itself": (lambda: saved(pieces(fuse_unk=False), **UNK), ["fails on characters"]),
    "pieces with unknowns as one": (lambda: saved(pieces(fuse_unk=True), **UNK), ["fails on characters"]),
    "words with nothing around": (lambda: saved(words(), **UNK), ["this tokenizer nothing"]),
    "words between other tokens": (lambda: saved(words(around("<s> $A </s>", "<s>", "</s>")), **UNK), ["around a text"]),
    "words that classify and separate": (lambda: saved(words(processors.BertProcessing(("</s>", 1), ("<s>", 0))), cls_token="<s>", sep_token="</s>", **UNK), []),
    "bytes that end as they begin": (lambda: saved(bytes_of("<s> $A <s>", "<s>")), ["as the end of an answer"]),
    "bytes that end with another token": (lambda: saved(bytes_of("<s> $A <unk>", "<s>", "<unk>"), pad_token="<unk>"), ["as the end of an answer"]),
    "bytes whose end is the beginning": (lambda: saved(bytes_of("$A </s>", "</s>"), eos_token="<s>", bos_token=None), ["as the end of an answer"]),
    "bytes with their own end": (lambda: saved(bytes_of("<s> $A </s>", "<s>", "</s>")), []),
    "an empty chat template": (lambda: saved(bytes_of(None), {"chat_template.jinja": ""}), ["`default` is empty"]),
    "a chat template that is not the usual one": (lambda: saved(bytes_of(None), {"additional_chat_templates/rag.jinja": "R{{ messages[0].content }}"}), []),
}


def main():
    rows = [f' "made_by": {json.dumps({name: version(name) for name in ("transformers", "tokenizers")})}', f' "texts": {json.dumps(TEXTS, ensure_ascii=False)}']
    cases = []
    for name, (make, warned) in CASES.items():
        case = {"name": name, "warned": warned, **make()}
        cases.append("  " + json.dumps(case, ensure_ascii=False, separators=(",", ":")))
    rows.append(' "cases": [\n' + ",\n".join(cases) + "\n ]")
    text = "{\n" + ",\n".join(rows) + "\n}\n"
    path = HERE / "trained.json"
    if sys.argv[1:] == ["--check"]:
        sys.exit(0 if path.read_text() == text else "trained.json is not what the library gives now")
    path.write_text(text)


if __name__ == "__main__":
    main()
