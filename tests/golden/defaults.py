"""Writes what transformers' classes say where a configuration is silent into the tables: sections `[dialect.hf.defaults.MODEL_TYPE]`.
Where a table names the class of a nested object, all keys that it reads; for each other class that it detects, only the floats and
texts, such as epsilons and activations: sizes are those of tensors.

    defaults.py [--check]
"""

import re
import sys
import tomllib
from pathlib import Path

TABLES = Path(__file__).resolve().parent.parent.parent / "plugins/architectures/tables"
# What a class makes of other keys of a file.
FOLLOWS = {"dense_act_fn", "model_type"}
OF_ROOT = "What the library's class says where a file is silent (generated: `defaults.sh`)."
SECTION = re.compile(r"^\[dialect\.hf\.defaults\.([a-z0-9_-]+)\]\n((?:[^\n\[]+\n)*)", re.M)


def read(table):
    """The table's names of the configuration in config.json, and the type of each, its bases' too."""
    text = tomllib.loads((TABLES / f"{table}.toml").read_text())
    names, types = read(text["base"]) if "base" in text else ({}, {})
    for name, entry in text.get("config", {}).items():
        found = entry.get("hf") if isinstance(entry, dict) else None
        if found is not None or name not in names:
            names[name] = [found] if isinstance(found, str) else found if found is not None else [name]
        types[name] = (entry.get("type") if isinstance(entry, dict) else entry) or types.get(name)
    for gone in text.get("remove_config", []):
        if gone not in text.get("config", {}):
            names.pop(gone, None)
    return names, types


def detected(table):
    """The library's types of models that a table is for."""
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    text = tomllib.loads((TABLES / f"{table}.toml").read_text())
    said = [entry.get("model_type", []) for entry in text.get("dialect", {}).get("hf", {}).get("detect", [])]
    types = [one for types in said for one in ([types] if isinstance(types, str) else types)]
    return sorted({one for one in types if one in CONFIG_MAPPING_NAMES})


def of_class(model_type):
    """What a configuration of this class states without being told anything."""
    from transformers import CONFIG_MAPPING
    from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

    return CONFIG_MAPPING[model_type]().to_dict() if model_type in CONFIG_MAPPING_NAMES else text_class(model_type)


def text_class(model_type):
    """Some classes of the side of text are registered nowhere but in the class of the whole."""
    from transformers import CONFIG_MAPPING

    whole = CONFIG_MAPPING[model_type.removesuffix("_text")]
    return whole.sub_configs["text_config"]().to_dict()


def toml(value):
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return '"' + value + '"'
    if isinstance(value, float):
        text = repr(value)
        return text if "." in text or "e" in text else text + ".0"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, list) and value and all(isinstance(item, (bool, str, float, int)) for item in value):
        return "[" + ", ".join(toml(item) for item in value) + "]"
    return None


def section(table, model_type):
    """The section of the class of a nested object."""
    said, lines = of_class(model_type), []
    # What follows from other sizes follows from a model's own.
    heads = said.get("num_attention_heads") or 1
    derived = {"num_key_value_heads": heads, "head_dim": (said.get("hidden_size") or 0) // heads}
    said = {key: value for key, value in said.items() if derived.get(key) != value}
    for names in read(table)[0].values():
        for name in names:
            value = toml(said.get(name))
            # What has an entry for each layer belongs to the class's own number of layers.
            if value is not None and not value.startswith("[") and f"{name} =" not in [line.split(" ")[0] + " =" for line in lines]:
                lines.append(f"{name} = {value}\n")
    return f"[dialect.hf.defaults.{model_type}]\n" + "".join(lines)


def of_root(table, model_type):
    """The section of a class whose files state their configuration at the root; empty if the class says nothing that counts."""
    said, (all_names, types), lines = of_class(model_type), read(table), {}
    for name, names in all_names.items():
        for key in (key for key in names if key not in FOLLOWS):
            value = said.get(key)
            if types.get(name) == "float" and isinstance(value, (int, float)) and not isinstance(value, bool):
                lines.setdefault(key, toml(float(value)))
            elif types.get(name) == "text" and isinstance(value, str):
                lines.setdefault(key, toml(value))
    body = "".join(f"{key} = {value}\n" for key, value in lines.items())
    return f"[dialect.hf.defaults.{model_type}]\n{body}" if body else ""


def filled(table, text):
    """The table's text with the sections of its classes."""
    if "roots" in tomllib.loads(text).get("dialect", {}).get("hf", {}):
        return SECTION.sub(lambda found: section(table, found.group(1)), text)
    text = re.sub(r"# " + re.escape(OF_ROOT) + r"\n" + f"(?:{SECTION.pattern}\n)+", "", text, flags=re.M)
    sections = [made for made in (of_root(table, one) for one in detected(table)) if made]
    first = re.search(r"^(#[^\n]*\n)*\[(\[dialect\.hf\.|dialect\.(?!hf\]))", text, re.M)
    if not sections or not first:
        return text
    return text[: first.start()] + f"# {OF_ROOT}\n" + "\n".join(sections) + "\n" + text[first.start() :]


def main():
    bad = []
    for path in sorted(TABLES.glob("*.toml")):
        text = path.read_text()
        made = filled(path.stem, text)
        if made != text:
            bad.append(path.name)
            if "--check" not in sys.argv:
                path.write_text(made)
    print("defaults: " + (", ".join(bad) + (" differ" if "--check" in sys.argv else " written") if bad else "as they are"))
    sys.exit(1 if bad and "--check" in sys.argv else 0)


if __name__ == "__main__":
    main()
