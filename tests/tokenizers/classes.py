"""Writes plugins/huggingface/src/tokenizer/classes.json: the special tokens that the classes of transformers have where a folder says
nothing, the class of each type of models, and what version 5 makes of the vocabulary of each class (recipes.py).

    classes.py [--check]

It is run with transformers 4, with transformers 5, whose word replaces that of version 4 where both have a class, and again with
version 4, which says where it differs.
"""

import inspect
import json
import sys
from pathlib import Path

import transformers
from recipes import OF_PIECES, recipe, unlike_four
from transformers.models.auto import tokenization_auto

NAMES = ["bos", "eos", "unk", "sep", "pad", "cls", "mask"]
TARGET = Path(__file__).resolve().parents[2] / "plugins/huggingface/src/tokenizer/classes.json"
# What a folder says counts alone.
PLAIN = ["PreTrainedTokenizer", "TokenizersBackend", "PythonBackend", "MistralCommonBackend", "MistralCommonTokenizer"]


def bare(name):
    return name.removesuffix("Fast")


def defaults(name):
    """The texts of the class's special tokens; version 4 states them for the fast class, where there is one."""
    for known in (name + "Fast", name):
        found = getattr(transformers, known, None)
        try:
            parameters = inspect.signature(found.__init__).parameters
        except (AttributeError, TypeError, ValueError):
            continue
        texts = {key: getattr(parameters.get(f"{key}_token"), "default", None) for key in NAMES}
        texts = {key: str(getattr(text, "content", text)) for key, text in texts.items() if isinstance(text, str) or hasattr(text, "content")}
        if texts:
            return texts
    return None


def made_by_five():
    """The recipes of classes, the other names of some of them, those that run in Python, and the types of models whose files name
    another class than theirs."""
    recipes, aliases, in_python = {}, {}, []
    names = {name for name in tokenization_auto.TOKENIZER_MAPPING_NAMES.values() if name}
    names |= {name for name in (*dir(transformers), *json.loads(TARGET.read_text())["classes"]) if name.endswith("Tokenizer")}
    for name in sorted({bare(name) for name in names} - {*PLAIN}):
        try:
            found = tokenization_auto.tokenizer_class_from_name(name)
            bases = [base.__name__ for base in found.__mro__]
        except (AttributeError, ImportError):
            continue
        if "PythonBackend" in bases or found.__name__ == "RoFormerTokenizer":
            in_python.append(name)
        elif "TokenizersBackend" in bases and found.__name__ != name:
            aliases[name] = found.__name__
        elif "TokenizersBackend" in bases:
            # What is not followed is known all the same.
            recipes[name] = recipe(found) if found.model is not None and found.__name__ != "EsmcTokenizer" or name in OF_PIECES else {}
    aliases = {name: other for name, other in aliases.items() if other in recipes}
    return recipes, aliases, in_python, sorted(tokenization_auto.MODELS_WITH_INCORRECT_HUB_TOKENIZER_CLASS)


def classes():
    listed = {}
    for model, name in tokenization_auto.TOKENIZER_MAPPING_NAMES.items():
        names = [one for one in (name if isinstance(name, tuple) else (name,)) if one]
        if names:
            listed[model] = bare(names[-1])
    names = set(listed.values()) | {bare(name) for name in dir(transformers) if name.endswith(("Tokenizer", "TokenizerFast"))}
    found = {name: defaults(name) for name in sorted(names) if name not in PLAIN}
    return {name: texts for name, texts in found.items() if texts}, listed


def others():
    """The classes under which version 4 gives other ids than version 5, where a folder states nothing else."""
    cases = json.loads((Path(__file__).resolve().parent / "slow.json").read_text())["cases"]
    plain = (case for case in cases if not {"config", "files", "model"} & case.keys())
    return {case["class"] for case in plain if "other ids" in case["found"].values()}


def main():
    before = TARGET.read_text() if TARGET.exists() else ""
    known = json.loads(before) if before else {"classes": {}, "models": {}, "recipes": {}, "aliases": {}, "in_python": [], "overruled": []}
    found, models = classes()
    major = transformers.__version__.split(".")[0]
    recipes, aliases, in_python, overruled = (known.get(key) for key in ("recipes", "aliases", "in_python", "overruled"))
    if major == "4":
        found, models = found | known["classes"], models | known["models"]
        for name, made in recipes.items():
            made.pop("unlike_4", None)
            if name in others():
                made["unlike_4"] = unlike_four(name, made, found.get(name, {}))
    else:
        found, models = known["classes"] | found, known["models"] | models
        before_it = recipes
        recipes, aliases, in_python, overruled = made_by_five()
        for name, made in recipes.items():
            made.update({key: value for key, value in before_it.get(name, {}).items() if key == "unlike_4"})
    made_by = known.get("made_by", {}) | {f"transformers {major}": transformers.__version__}
    row = lambda pair: f"  {json.dumps(pair[0])}: {json.dumps(pair[1], ensure_ascii=False)}"
    rows = lambda part: ",\n".join(map(row, sorted(part.items())))
    parts = {"classes": found, "models": models, "recipes": recipes, "aliases": aliases}
    lists = {"in_python": in_python, "overruled": overruled}
    text = f'{{\n "made_by": {json.dumps(made_by)},\n'
    text += "".join(f' "{name}": {{\n{rows(part)}\n }},\n' for name, part in parts.items())
    text += ",\n".join(f' "{name}": {json.dumps(part)}' for name, part in lists.items()) + "\n}\n"
    if sys.argv[1:] == ["--check"]:
        sys.exit(0 if before == text else "classes.json is not what the library has now")
    TARGET.write_text(text)


if __name__ == "__main__":
    main()
