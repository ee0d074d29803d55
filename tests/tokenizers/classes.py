"""Writes plugins/huggingface/src/tokenizer/classes.json: the special tokens that the classes of transformers have where a folder says
nothing, the class of each type of models, and the steps that version 5 makes anew for tokenizers that merge, whatever tokenizer.json
says.

    classes.py [--check]

It is run once with transformers 4 and then with transformers 5, whose word replaces that of version 4 where both have a class.
"""

import inspect
import json
import sys
from pathlib import Path

import transformers
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


def steps(name):
    """The steps of the class before tokens are looked up, if it merges and makes them itself."""
    found = getattr(transformers, name, None)
    try:
        if found.model.__name__ != "BPE" or "__init__" not in found.__dict__:
            return None
        made = json.loads(found().backend_tokenizer.to_str())
    except Exception:
        return None
    return {key: made[key] for key in ("normalizer", "pre_tokenizer")}


def classes():
    listed = {}
    for model, name in tokenization_auto.TOKENIZER_MAPPING_NAMES.items():
        names = [one for one in (name if isinstance(name, tuple) else (name,)) if one]
        if names:
            listed[model] = bare(names[-1])
    names = set(listed.values()) | {bare(name) for name in dir(transformers) if name.endswith(("Tokenizer", "TokenizerFast"))}
    found = {name: defaults(name) for name in sorted(names) if name not in PLAIN}
    return {name: texts for name, texts in found.items() if texts}, listed


def main():
    before = TARGET.read_text() if TARGET.exists() else ""
    known = json.loads(before) if before else {"made_by": {}, "classes": {}, "models": {}, "steps": {}}
    found, models = classes()
    major = transformers.__version__.split(".")[0]
    made = known["steps"]
    if major == "4":
        found, models = found | known["classes"], models | known["models"]
    else:
        found, models = known["classes"] | found, known["models"] | models
        made = {name: made for name in found if (made := steps(name))}
    made_by = known["made_by"] | {f"transformers {major}": transformers.__version__}
    row = lambda pair: f"  {json.dumps(pair[0])}: {json.dumps(pair[1], ensure_ascii=False)}"
    rows = lambda part: ",\n".join(map(row, sorted(part.items())))
    text = f'{{\n "made_by": {json.dumps(made_by)},\n "classes": {{\n{rows(found)}\n }},\n "models": {{\n{rows(models)}\n }},\n "steps": {{\n{rows(made)}\n }}\n}}\n'
    if sys.argv[1:] == ["--check"]:
        sys.exit(0 if before == text else "classes.json is not what the library has now")
    TARGET.write_text(text)


if __name__ == "__main__":
    main()
