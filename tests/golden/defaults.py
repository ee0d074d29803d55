"""Writes what transformers' classes say where a configuration is silent into the tables: sections `[dialect.hf.defaults.MODEL_TYPE]`, of
each class that a table detects or names, with the keys that it reads. What follows from other keys is the table's own to say, and the
vocabulary's size is that of tensors. Keys that version 5 has no more are an older version's, which `--say` prints.

    defaults.py --say > OLDER; defaults.py [--check] < OLDER
"""

import json
import re
import sys
import tomllib
from pathlib import Path

TABLES = Path(__file__).resolve().parent.parent.parent / "plugins/architectures/tables"
# What a class makes of other keys of a file.
FOLLOWS = {"dense_act_fn", "model_type", "vocab_size", "id2label.0", "label2id.LABEL_0"}
OF_ROTATION = {"rope_theta", "partial_rotary_factor"}
# What is as good as nothing.
USUAL = [("rope_type", "default"), ("type", "default")]
OF_ROOT = "What the library's class says where a file is silent (generated: `defaults.sh`)."
SECTION = re.compile(r"^\[dialect\.hf\.(?:defaults|spellings)\.([a-z0-9_-]+)\]\n((?:[^\n\[#][^\n]*\n)*)", re.M)


def read(table, refused=True):
    """The table's names of the configuration in config.json, and the type of each, its bases' too; and keys that it only refuses."""
    text = tomllib.loads((TABLES / f"{table}.toml").read_text())
    names, types = read(text["base"], refused) if "base" in text else ({}, {})
    for name, entry in text.get("config", {}).items():
        found = entry.get("hf") if isinstance(entry, dict) else None
        if found is not None or name not in names:
            names[name] = [found] if isinstance(found, str) else found if found is not None else [name]
        types[name] = (entry.get("type") if isinstance(entry, dict) else entry) or types.get(name)
    # Keys of the dialect's own, whatever they set, and those that it refuses by their values.
    dialect = text.get("dialect", {}).get("hf", {})
    own = [entry["key"] for entry in dialect.get("key", []) if is_read(entry)]
    own += [key for entry in dialect.get("refuse", []) if refused and not entry.get("unknown") for key in entry.get("keys", []) if "*" not in key]
    for key in own:
        if all(key not in known for known in names.values()):
            names[key] = [key]
    for gone in text.get("remove_config", []):
        if gone not in text.get("config", {}):
            names.pop(gone, None)
    return names, types


def is_read(entry):
    """Whether a key of a dialect says something of a file: a constant number or flag is the only one that the table covers."""
    if "const" in entry:
        return isinstance(entry["const"], (bool, int, float))
    return entry.get("sets") != "" and entry.get("value") != ""


def detected(table):
    """The library's types of models that a table is for."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    text = tomllib.loads((TABLES / f"{table}.toml").read_text())
    said = [entry.get("model_type", []) for entry in text.get("dialect", {}).get("hf", {}).get("detect", [])]
    types = [one for types in said for one in ([types] if isinstance(types, str) else types)]
    return sorted({one for one in types if one in CONFIG_MAPPING_NAMES})


def class_of(model_type):
    """The library's class of a configuration of text. Some are registered nowhere but in the class of the whole."""
    from transformers import CONFIG_MAPPING
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    if model_type not in CONFIG_MAPPING_NAMES and model_type.removesuffix("_text") not in CONFIG_MAPPING_NAMES:
        return None
    return side_of_text(CONFIG_MAPPING[model_type if model_type in CONFIG_MAPPING_NAMES else model_type.removesuffix("_text")]())


def side_of_text(whole):
    """The class of a configuration's side of text, or its own."""
    sides = [getattr(whole, side, None) for side in ("text_config", "llm_config", "thinker_config")]
    side = next((side for side in sides if hasattr(side, "to_dict")), None)
    return type(whole) if side is None else side_of_text(side)


def said_by(found, **arguments):
    """What a configuration of a class states once it was told this alone, under the names of its fields."""
    said = flat(found(**arguments).to_dict())
    return said | {name: said[own] for name, own in found.attribute_map.items() if own in said and name not in said}


def flat(value, path=""):
    if not isinstance(value, dict) or not value:
        return {path: value}
    return {inner: one for key, item in value.items() for inner, one in flat(item, f"{path}.{key}" if path else str(key)).items()}


def of_class(model_type):
    """What a configuration of this class states without being told anything, but for what follows from other keys."""
    found = class_of(model_type)
    if found is None:
        return {}
    said = said_by(found)
    follows = set()
    for key, value in said.items():
        # Twice as much of anything that is counted.
        if not isinstance(value, int) or isinstance(value, bool) or "." in key or key not in found().to_dict():
            continue
        try:
            other = said_by(found, **{key: 2 * value})
        except Exception:
            continue
        same = {name for name, own in found.attribute_map.items() if own == found.attribute_map.get(key, key)}
        follows |= {name for name in said if name != key and other.get(name) != said[name]} - same - {found.attribute_map.get(key, key)}
    return {key: value for key, value in said.items() if key not in follows}


def toml(value):
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return '"' + value + '"'
    if isinstance(value, float):
        text = repr(value)
        return text if {".", "e", "f"} & set(text) else text + ".0"
    if isinstance(value, int):
        return str(value)
    # Words of a list are kinds of layers, which are a model's own.
    if isinstance(value, list) and value and all(isinstance(item, (bool, float, int)) for item in value):
        return "[" + ", ".join(toml(item) for item in value) + "]"
    return None


def section(table, model_type, older):
    """The section of a class; empty if it says nothing that the table reads."""
    (all_names, types), lines = read(table), {}
    newer = of_class(model_type)
    older = older.get(model_type, {})
    for name, names in all_names.items():
        keys = [key for key in names if key not in FOLLOWS and not key.startswith("/")]
        key, value = next((found for said in (newer, older) for found in (said_of(key, said) for key in keys) if found), (None, None))
        if types.get(name) == "float" and isinstance(value, int) and not isinstance(value, bool):
            value = float(value)
        made = toml(value)
        if made is None or (key.split(".")[-1], value) in USUAL:
            continue
        # What an object of the file's own replaces with all others of it, and what it does not.
        plain = [one for one in keys if "." not in one]
        lines[plain[0] if plain and key.split(".")[-1] in OF_ROTATION else key] = made
    body = "".join(f"{quoted(key)} = {value}\n" for key, value in lines.items())
    others = "".join(f"{key} = {json.dumps(also)}\n" for key, also in spellings(model_type, read(table, refused=False)[0]).items())
    parts = (("defaults", body), ("spellings", others))
    return "\n".join(f"[dialect.hf.{kind}.{model_type}]\n{inside}" for kind, inside in parts if inside)


def spellings(model_type, all_names):
    """What else a class reads for the keys that a table does."""
    found, names = class_of(model_type), {}
    for alias, own in found.attribute_map.items() if found else ():
        for keys in all_names.values():
            known = [key for key in (own, alias) if key in keys]
            if len(known) == 1 and "vocab_size" not in known:
                names.setdefault(known[0], []).append(alias if known == [own] else own)
    return names


def said_of(key, said):
    """A key, and what a class says of it; version 5 has in an object what others say beside it."""
    value = said.get(f"rope_parameters.{key}") if key in OF_ROTATION else None
    value = said.get(key) if value is None else value
    return None if value is None else (key, value)


def quoted(key):
    return f'"{key}"' if "." in key else key


def named(table, text):
    """The types that a table detects, those of their sides of text, and those that it names for a nested object."""
    nested = "roots" in tomllib.loads(text).get("dialect", {}).get("hf", {})
    own = {found.group(1) for found in SECTION.finditer(text)} if nested else set()
    types = own | set(detected(table))
    return types | {found.model_type for found in map(class_of, types) if found and found.model_type}


def filled(table, text, older):
    """The table's text with the sections of its classes."""
    types = sorted(named(table, text))
    text = re.sub(f"(?:# What the library's class says where[^\\n]*\\n)?(?:{SECTION.pattern}\\n*)+", "", text, flags=re.M)
    sections = [made for made in (section(table, one, older) for one in types) if made]
    first = re.search(r"^(#[^\n]*\n)*\[(\[dialect\.hf\.|dialect\.(?!hf\]))", text, re.M)
    if not sections or not first:
        return text
    return text[: first.start()] + f"# {OF_ROOT}\n" + "\n".join(sections) + "\n" + text[first.start() :]


def main():
    if "--say" in sys.argv:
        types = sorted({one for path in TABLES.glob("*.toml") for one in named(path.stem, path.read_text())})
        print(json.dumps({one: of_class(one) for one in types}))
        return
    older, bad = json.load(sys.stdin), []
    for path in sorted(TABLES.glob("*.toml")):
        text = path.read_text()
        made = filled(path.stem, text, older)
        if made != text:
            bad.append(path.name)
            if "--check" not in sys.argv:
                path.write_text(made)
    print("defaults: " + (", ".join(bad) + (" differ" if "--check" in sys.argv else " written") if bad else "as they are"))
    sys.exit(1 if bad and "--check" in sys.argv else 0)


if __name__ == "__main__":
    main()
