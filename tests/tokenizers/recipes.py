"""What a class of transformers 5 makes of its vocabulary: a recipe of its steps, read out of the library by making tokenizers with
each of its flags in turn.

A step is as in `tokenizer.json`. Where it depends on a flag there is `{"$flag": NAME}` for the flag's own value, or `{"$if": NAME,
"then": ..., "else": ...}`; as an item of a list, a side that is left out is no item. `{NAME}` stands for the text of a special token,
or for the word that `words` has for what is stated under that name, `{charsmap}` for SentencePiece's rules. What is put around a text
lists texts of tokens, or numbers where the class has them for good, with the type of each; `adds` says that the flags for the
beginning and the end decide about it instead, where one of them is stated or the class itself puts nothing. `tokens` has flags of
special tokens that are stated as texts alone, `plain` says that those that are stated are lost, `unlike_4` what version 4 does otherwise
if it gives other ids (slow.json), `further` the special tokens that the class adds of its own, `reads` the files,
`pieces` what stands before and behind the pieces of SentencePiece's model, of which the first ones are left out, `counted` the form of
those that a stated number says how many there are of, and `unk_else` the unknown token's number where it is no piece.
"""

import base64
import inspect
import itertools
import json
import tempfile
from pathlib import Path

from tokenizers import AddedToken

KINDS = Path(__file__).resolve().parents[1] / "golden" / "tokenizers"
NAMES = ["bos", "eos", "unk", "sep", "pad", "cls", "mask"]
# Tokens of the sample vocabulary before those with a purpose: a number below is the class's own.
OTHERS = 64
# What says nothing of how a text is read, or is not a flag.
PASSED_OVER = {
    "vocab", "merges", "vocab_file", "merges_file", "errors", "trim_offsets", "tags_dict", "unk_id", "additional_special_tokens",
    "extra_special_tokens", "entity_vocab", "normalizer_file", "clean_up_tokenization_spaces", "use_default_system_prompt", "add_bos_token",
    "add_eos_token", "_spm_precompiled_charsmap", "src_lang", "tgt_lang", "language", "task",
}
CHARSMAP = "_spm_precompiled_charsmap"
# The classes whose recipe is followed over a model of SentencePiece, and those over which SentencePiece's own rules are.
OF_PIECES = [
    "AlbertTokenizer", "BigBirdTokenizer", "CamembertTokenizer", "DebertaV2Tokenizer", "LayoutXLMTokenizer", "MBart50Tokenizer", "MBartTokenizer", "T5Tokenizer",
    "UdopTokenizer", "XLMRobertaTokenizer", "XLNetTokenizer",
]
OF_SENTENCEPIECE = ["CodeLlamaTokenizer", "GemmaTokenizer", "LlamaTokenizer"]

def parameters(made):
    found = {}
    for base in made.__mro__:
        if base.__name__ in ("TokenizersBackend", "PreTrainedTokenizerBase"):
            break
        if "__init__" in base.__dict__:
            for name, parameter in inspect.signature(base.__init__).parameters.items():
                if parameter.kind not in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL) and name != "self":
                    found.setdefault(name, parameter.default)
    return found


class Sample:
    """A class with a vocabulary that holds a token of each purpose under a name of its own."""

    def __init__(self, made):
        self.made = made
        self.parameters = parameters(made)
        self.kind = getattr(made.model, "__name__", None)
        self.tokens = [name for name in NAMES if f"{name}_token" in self.parameters]

    def tokenizer(self, named=True, **flags):
        texts = [f"other{n}" for n in range(OTHERS)]
        given = {f"{name}_token": f"own-{name}" for name in self.tokens} if named else {}
        texts += given.values()
        texts += [str(self.parameters[f"{name}_token"]) for name in self.tokens if self.parameters[f"{name}_token"]] if not named else []
        texts += ["<|startoftranscript|>", "<|en|>", "<|notimestamps|>", "<|transcribe|>", "<|translate|>", ".", "en_XX"]
        texts = list(dict.fromkeys(texts))
        if self.kind in ("BPE", "WordPiece"):
            given["vocab"] = {text: n for n, text in enumerate(texts)}
            if self.kind == "BPE":
                given["merges"] = []
        else:
            given["vocab"] = [(text, 0.0) for text in texts]
        if "tags_dict" in self.parameters:
            given["tags_dict"] = {"html": 0}
        return self.made(**given | flags)

    def steps(self, **flags):
        tokenizer = self.tokenizer(**flags)
        found = json.loads(tokenizer.backend_tokenizer.to_str())
        ids = {tokenizer.backend_tokenizer.token_to_id(f"own-{name}"): f"{{{name}}}" for name in self.tokens}
        model = {key: value for key, value in found["model"].items() if key not in ("vocab", "merges", "type", "dropout", "ignore_merges")}
        if isinstance(model.get("unk_id"), int):
            model["unk_id"] = ids.get(model["unk_id"], model["unk_id"])
            if model["unk_id"] == "{unk}" and (other := self.other_unknown()) is not None:
                model["unk_else"] = other
        return {
            "model": named(model),
            "normalizer": named(found["normalizer"]),
            "pre_tokenizer": plain(named(found["pre_tokenizer"])),
            "decoder": self.decoder(named(found["decoder"])),
            "post_processor": around(found["post_processor"], ids, tokenizer),
        }


    def other_unknown(self):
        """The number of the unknown token where the vocabulary has none of its text."""
        try:
            made = self.made(vocab=[(f"other{n}", 0.0) for n in range(2 * OTHERS)], **{f"{name}_token": f"own-{name}" for name in self.tokens})
            return json.loads(made.backend_tokenizer.to_str())["model"]["unk_id"]
        except Exception:
            return None

    def decoder(self, step):
        """With what a class does to texts behind it, in Python."""
        if not hasattr(self.made, "_wrap_decode_method_backend_tokenizer"):
            return step
        # The ends of words become spaces, and those around a text are taken off.
        ends = {"type": "Replace", "pattern": {"String": "</w>"}, "content": " "}
        return {"type": "Sequence", "decoders": [step, ends, {"type": "Strip", "content": " ", "start": 1 << 20, "stop": 1 << 20}]}


def named(step):
    text = json.dumps(step, ensure_ascii=False)
    for name in NAMES:
        text = text.replace(f'"own-{name}"', f'"{{{name}}}"')
    return json.loads(text)


def plain(step):
    """Without the flag that moves offsets alone."""
    if isinstance(step, list):
        return [plain(item) for item in step]
    if isinstance(step, dict):
        return {key: plain(value) if key != "trim_offsets" else True for key, value in step.items()}
    return step


def around(step, ids, tokenizer):
    """The step as a template; null if nothing is put around a text."""
    if step is None or step["type"] == "ByteLevel":
        return None
    def token(number):
        text = ids.get(number)
        if text is None and number >= OTHERS:
            text = tokenizer.backend_tokenizer.id_to_token(number)
        return number if text is None else text
    if step["type"] in ("BertProcessing", "RobertaProcessing"):
        cls, sep = token(step["cls"][1]), token(step["sep"][1])
        between = [sep] if step["type"] == "RobertaProcessing" else []
        second = 1 if not between else 0
        return {"single": [[cls, 0], ["$A", 0], [sep, 0]], "pair": [[cls, 0], ["$A", 0], [sep, 0], *([text, 0] for text in between), ["$B", second], [sep, second]]}
    assert step["type"] == "TemplateProcessing", step
    def items(side):
        found = []
        for item in step[side]:
            (kind, told), = item.items()
            if kind == "Sequence":
                found.append(["$" + told["id"], told["type_id"]])
            else:
                number, = step["special_tokens"][told["id"]]["ids"]
                found.append([token(number), told["type_id"]])
        return found
    made = {"single": items("single"), "pair": items("pair")}
    return None if [text for text, _ in made["single"]] == ["$A"] else made


def merged(flag, sides):
    """One step of what a flag's values give."""
    values = list(sides)
    first = sides[values[0]]
    if all(side == first for side in sides.values()):
        return first
    if all(type(side) is type(value) and side == value for value, side in sides.items()):
        return {"$flag": flag}
    if all(isinstance(side, dict) and side.keys() == first.keys() for side in sides.values()) and not any(key.startswith("$") for key in first):
        return {key: merged(flag, {value: side[key] for value, side in sides.items()}) for key in first}
    if all(isinstance(side, list) and len(side) == len(first) for side in sides.values()):
        return [merged(flag, {value: side[n] for value, side in sides.items()}) for n in range(len(first))]
    yes, = (sides[value] for value in values if value)
    no, = (sides[value] for value in values if not value)
    if isinstance(yes, list) and isinstance(no, list):
        return listed(flag, yes, no)
    return {"$if": flag, "then": yes, "else": no}


def listed(flag, yes, no):
    found = []
    yes, no = list(yes), list(no)
    while yes or no:
        if yes and no and yes[0] == no[0]:
            found.append(yes.pop(0)); no.pop(0)
        elif yes and (not no or no[0] in yes):
            found.append({"$if": flag, "then": yes.pop(0)})
        elif no and (not yes or yes[0] in no):
            found.append({"$if": flag, "else": no.pop(0)})
        else:
            found.append({"$if": flag, "then": yes.pop(0)})
    return found


def applied(step, flags):
    if isinstance(step, list):
        found = []
        for item in step:
            if isinstance(item, dict) and "$if" in item:
                side = "then" if flags[item["$if"]] else "else"
                found += [applied(item[side], flags)] if side in item else []
            else:
                found.append(applied(item, flags))
        return found
    if isinstance(step, dict):
        if "$flag" in step:
            return flags[step["$flag"]]
        if "$if" in step:
            return applied(step["then" if flags[step["$if"]] else "else"], flags)
        return {key: applied(value, flags) for key, value in step.items()}
    return step


def words(made):
    """The tokens of what may be stated, by its name, what is stated in a sample, and what counts otherwise."""
    if made.__name__ == "WhisperTokenizer":
        from transformers.models.whisper.tokenization_whisper import LANGUAGES, TASK_IDS, TO_LANGUAGE_CODE
        languages = {code: code for code in LANGUAGES} | TO_LANGUAGE_CODE
        options = {"language": {name: f"<|{code}|>" for name, code in sorted(languages.items())}, "task": {name: f"<|{name}|>" for name in TASK_IDS}}
        return options, {"language": "en", "task": "transcribe"}, {"language": None, "task": None}
    if made.__name__ in ("MBartTokenizer", "MBart50Tokenizer"):
        from importlib import import_module
        codes = import_module(made.__module__).FAIRSEQ_LANGUAGE_CODES
        return {"src_lang": {code: code for code in codes}}, {"src_lang": "en_XX"}, {"src_lang": "en_XX"}
    return {}, {}, {}


def recipe(made):
    sample = Sample(made)
    options, stated, usually = words(made)
    defaults = {name: value for name, value in sample.parameters.items()
                if (isinstance(value, bool) or value is None) and name not in PASSED_OVER and not name.endswith("_token")}
    usual = sample.steps()
    flags, step = {}, usual
    values_of = {}
    for name, default in defaults.items():
        sides = {}
        for value in (default, True, False):
            sides.setdefault(value, sample.steps(**{name: value}))
        if all(side == usual for side in sides.values()):
            continue
        if default is None and sides[None] in (sides[True], sides[False]):
            default = sides[None] == sides[True]
            del sides[None]
        flags[name], values_of[name] = default, list(sides)
    samples = stated | ({CHARSMAP: charsmap()} if CHARSMAP in sample.parameters else {})
    for name in samples:
        flags[name], values_of[name] = usually.get(name), [samples[name], *([] if usually.get(name) else [None])]
    # One flag after the other, each over what the others are usually.
    step = build(sample, list(flags), values_of, {})
    for chosen in itertools.product(*values_of.values()):
        given = dict(zip(flags, chosen))
        assert applied(step, given) == sample.steps(**given), (made, given, applied(step, given), sample.steps(**given))
    text = json.dumps(step, ensure_ascii=False).replace(json.dumps(base64.b64encode(charsmap()).decode()), '"{charsmap}"')
    for name, tokens in options.items():
        text = text.replace(f'"{tokens[stated[name]]}"', f'"{{{name}}}"')
    step = json.loads(text.replace(f'"{CHARSMAP}"', '"charsmap"'))
    flags.pop(CHARSMAP, None)
    for name in list(step["model"]):
        if step["model"][name] is None or step["model"][name] is False or step["model"][name] == "":
            del step["model"][name]
    found = {"reads": reads(made), "kind": sample.kind or "Unigram", **step, "flags": flags, "words": options or None, "pieces": pieces(made)}
    if "extra_ids" in sample.parameters and found["pieces"]:
        found["counted"] = {"extra_ids": "<extra_id_{}>"}
    forced = around_of(sample)
    if forced is not None:
        found["adds"] = forced
    if loses_flags(sample):
        found["plain"] = True
    tokens = own_flags(sample)
    if tokens:
        found["tokens"] = tokens
    further = others(sample)
    if further:
        found["further"] = further
    return {key: value for key, value in found.items() if value is not None}


def build(sample, names, values_of, given):
    if not names:
        return sample.steps(**given)
    name, *rest = names
    return merged(name, {value: build(sample, rest, values_of, given | {name: value}) for value in values_of[name]})


def reads(made):
    """The files that the class reads, where this is known of it."""
    files = {*getattr(made, "vocab_files_names", {}).values()}
    if made.__name__ in OF_PIECES:
        return "pieces"
    if made.__name__ in OF_SENTENCEPIECE:
        return "sentencepiece"
    # The library adds tokens for its entities to the vocabulary.
    if made.__name__ == "LukeTokenizer":
        return None
    if "merges.txt" in files and getattr(made.model, "__name__", None) == "BPE":
        return "merges"
    return "words" if "vocab.txt" in files and getattr(made.model, "__name__", None) == "WordPiece" else None


def pieces(made):
    """What the class puts before and behind the pieces of a model, and how many of them it leaves out."""
    if made.__name__ not in OF_PIECES:
        return None
    from transformers.convert_slow_tokenizer import SLOW_TO_FAST_CONVERTERS
    listed = [(f"piece{n}", -1.0) for n in range(9)]
    convert = getattr(SLOW_TO_FAST_CONVERTERS.get(made.__name__), "convert_from_spm", None)
    sample = Sample(made)
    given = {f"{name}_token": f"own-{name}" for name in sample.tokens}
    if "mask_token_sent" in sample.parameters:
        given["mask_token_sent"] = sample.parameters["mask_token_sent"]
    texts = [text for text, _ in (convert(vocab=listed, **given)["vocab"] if convert else listed)]
    kept = [n for n, text in enumerate(texts) if text.startswith("piece")]
    assert kept == list(range(kept[0], kept[-1] + 1)) and texts[kept[-1]] == "piece8"
    named_ones = lambda part: ["{" + text[4:] + "}" if text.startswith("own-") else text for text in part]
    found = {"first": named_ones(texts[:kept[0]]), "from": 9 - len(kept), "last": named_ones(texts[kept[-1] + 1:])}
    return {key: value for key, value in found.items() if value} or None


def charsmap():
    """Rules of SentencePiece, of a tokenizer of tests/golden."""
    steps = [json.loads((KINDS / "t5-sp" / "tokenizer.json").read_text())["normalizer"]]
    while steps:
        step = steps.pop()
        steps += step.get("normalizers", [])
        if step["type"] == "Precompiled":
            return base64.b64decode(step["precompiled_charsmap"])


def around_of(sample):
    """The flags that say what is put around a text where either is stated; none where the class does so for good."""
    if not {"bos", "eos"} <= set(sample.tokens) and sample.kind is None:
        return None
    try:
        with_both = sample.steps(add_bos_token=True, add_eos_token=True)["post_processor"]
        without = sample.steps(add_bos_token=False, add_eos_token=False)["post_processor"]
    except Exception:
        return None
    if with_both == without:
        return None
    return {name: bool(sample.parameters.get(f"add_{name}_token", False)) is True for name in ("bos", "eos")}


def unlike_four(name, recipe, tokens):
    """The parts of a recipe that version 4 has otherwise, where a folder states no flags; `tokens` are the class's own."""
    from transformers import AutoTokenizer

    if recipe.get("reads") not in ("words", "merges"):
        return []
    texts = list(dict.fromkeys([*tokens.values(), "a", "b"]))
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        if recipe["reads"] == "words":
            (folder / "vocab.txt").write_text("".join(f"{text}\n" for text in texts))
        else:
            (folder / "vocab.json").write_text(json.dumps({text: n for n, text in enumerate(texts)}))
            (folder / "merges.txt").write_text("#version: 0.2\n")
        (folder / "tokenizer_config.json").write_text(json.dumps({"tokenizer_class": name}))
        (folder / "config.json").write_text("{}")
        found = json.loads(AutoTokenizer.from_pretrained(folder).backend_tokenizer.to_str())
    def framed(step):
        if step is None or step["type"] == "ByteLevel":
            return []
        if step["type"] != "TemplateProcessing":
            return [step["cls"][0], "$A", step["sep"][0]]
        return ["$A" if "Sequence" in item else item["SpecialToken"]["id"] for item in step["single"]]
    own = {key: applied(recipe.get(key), recipe["flags"]) for key in ("normalizer", "pre_tokenizer", "post_processor")}
    frame = [text for text, _ in (own["post_processor"] or {"single": []})["single"]]
    frame = [tokens.get(text.strip("{}"), text) if isinstance(text, str) else texts[text] for text in frame]
    unlike = [f"`{key}`" for key in ("normalizer", "pre_tokenizer") if own[key] != plain(found[key])]
    unlike += ["`post_processor`"] if [text for text in frame if text != "$A"] != [text for text in framed(found["post_processor"]) if text != "$A"] else []
    for token in found["added_tokens"]:
        flags = {key for key in ("single_word", "lstrip", "rstrip") if token[key]}
        for purpose in (purpose for purpose, text in tokens.items() if text == token["content"]):
            if flags != {*recipe.get("tokens", {}).get(purpose, {})} - {"normalized"}:
                unlike.append(f"`{purpose}_token`")
    return unlike


def loses_flags(sample):
    """Whether special tokens lose the flags that are stated for them."""
    purpose = next((name for name in ("eos", "sep") if name in sample.tokens), None)
    if purpose is None:
        return False
    stated = AddedToken(f"own-{purpose}", lstrip=True, special=True, normalized=False)
    made = json.loads(sample.tokenizer(**{f"{purpose}_token": stated}).backend_tokenizer.to_str())
    return not any(token["lstrip"] for token in made["added_tokens"] if token["content"] == f"own-{purpose}")


def own_flags(sample):
    """Flags of special tokens that the class gives to a token of which the text alone is stated."""
    tokenizer = sample.tokenizer()
    found = {}
    for token in json.loads(tokenizer.backend_tokenizer.to_str())["added_tokens"]:
        if token["content"].startswith("own-"):
            flags = {key: True for key in ("single_word", "lstrip", "rstrip", "normalized") if token[key]}
            if flags:
                found[token["content"].removeprefix("own-")] = flags
    return found


def others(sample):
    """Special tokens that the class adds of its own."""
    tokenizer = sample.tokenizer(named=False)
    named_ones = {key: str(value) for key, value in tokenizer._special_tokens_map.items() if key.removesuffix("_token") not in NAMES and value is not None}
    return {**({"named": named_ones} if named_ones else {}), **({"listed": [str(token) for token in tokenizer._extra_special_tokens]} if tokenizer._extra_special_tokens else {})}

