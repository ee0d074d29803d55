"""Makes the golden manifests: for each model of architectures.py a Hugging Face folder of seeded weights, and what llama.cpp's
converter wrote for it. README.md says how; generate.sh sets up what it needs.

    generate.py LLAMA_CPP [--check] [--keep FOLDER] [NAME ...]
"""

import json
import shutil
from pathlib import Path

import checked_in
import tokenizers_of
from architectures import MODELS
from folder import SEED, describe, dump, rows, sha256, tensors_of_saved, write_folder
from manifest import manifest
from weights import payload

HERE = Path(__file__).resolve().parent
TORCH = {"F32": "float32", "F16": "float16", "BF16": "bfloat16"}
LLAMA_PACKAGE = "llama-cpp-python 0.3.36"
WEIGHT_CASES = (
    [(0, "a", dtype, [64], center) for dtype in ("F32", "F16", "BF16") for center in (0, 1)]
    + [(1, "model.layers.0.self_attn.q_proj.weight", dtype, [256, 300], 0) for dtype in ("F32", "F16", "BF16")]
    + [(7, "norm.é", dtype, [5000], 1) for dtype in ("F32", "F16", "BF16")]
    + [(1, "embeddings.position_ids", "I64", [1, 512], 0), (1, "t", "I32", [9], 0), ((1 << 64) - 1, "", "F32", [2, 3, 5], 0),
       (3, "scalar", "BF16", [], 1), (3, "none", "F16", [0, 4], 0), (1, "codes", "U8", [3, 300], 0), (1, "scales", "U8", [300], 1),
       (1, "scales", "F8_E4M3", [300], 0)]
)


def json_text(value):
    return json.dumps(value, ensure_ascii=False, indent=1) + "\n"


def tokenizer_facts(kind):
    """The vocabulary's size, and the ids that a config names."""
    folder = HERE / "tokenizers" / kind
    held = json.loads((folder / "tokenizer.json").read_text())
    config = json.loads((folder / "tokenizer_config.json").read_text())
    ids = {token["content"]: token["id"] for token in held["added_tokens"]}
    vocabulary = held["model"]["vocab"]
    size = max([len(vocabulary) - 1] + list(ids.values())) + 1
    named = {f"{role}_token_id": ids[config[f"{role}_token"]] for role in ("bos", "eos", "pad") if config.get(f"{role}_token")}
    return size, named


def model_tensors(model, config_file, scratch):
    """The tensors of a model, as transformers saves it."""
    import torch
    import transformers

    folder = scratch / "config"
    folder.mkdir()
    (folder / "config.json").write_text(config_file)
    config = transformers.AutoConfig.from_pretrained(folder)
    # Norms are ones or zeros without it, and one model's own fails on a norm that has no bias.
    transformers.PreTrainedModel._initialize_weights = lambda self, *rest: None
    built = getattr(transformers, model.get("library_class", model["config"]["architectures"][0]))(config).to(getattr(torch, TORCH[model["dtype"]]))
    saved = scratch / "saved"
    built.save_pretrained(saved)
    return tensors_of_saved(saved)


def with_vocabulary(config, said):
    """The config with what its tokenizer says, where a model of text states such things."""
    inside = next((root for root in ("text_config", "llm_config", "language_config") if root in config), None)
    return config | ({inside: config[inside] | said} if inside else said)


def make_folder(name, model, scratch, out):
    """The files below tests/golden/NAME but golden.json, and the model folder."""
    target = out / name
    target.mkdir(parents=True)
    size, ids = tokenizer_facts(model["tokenizer"])
    pad = model.get("pad", 1)
    config = with_vocabulary(model["config"], ids | model.get("ids", {}) | {"vocab_size": -(-size // pad) * pad})
    text = json_text(dict(sorted(config.items())))
    if model.get("library", True):
        tensors = model_tensors(model, text, scratch)
    else:
        tensors = [(n, model["dtype"], shape, center) for n, shape, center in model["tensors"](config)]
    wide = model.get("f32", "\0")
    tensors = [(n, "F32" if n.endswith(wide) else dtype, shape, center) for n, dtype, shape, center in tensors + model.get("add", [])]
    tensors.sort()
    kind = model["tokenizer"]
    companions = {"config.json": f"{name}/config.json"}
    companions |= {file.name: f"tokenizers/{kind}/{file.name}" for file in sorted((HERE / "tokenizers" / kind).iterdir())}
    files = {"config.json": text} | {n: v if isinstance(v, str) else json_text(v) for n, v in model.get("files", {}).items()}
    for file, content in files.items():
        companions[file] = f"{name}/{file}"
        (target / file).parent.mkdir(parents=True, exist_ok=True)
        (target / file).write_text(content)
    described = describe(name, tensors, companions, model.get("cuts", []))
    folder = scratch / name
    folder.mkdir()
    sources = scratch / "sources"
    sources.mkdir()
    for path in companions.values():
        (sources / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(target.parent / path if path.startswith(f"{name}/") else HERE / path, sources / path)
    write_folder(described, sources, folder)
    (target / "tensors.json").write_text(dump(described))
    return folder


def golden(name, model, folder, file):
    """What golden.json says of the GGUF file, which is written first."""
    pre = model.get("pre") or tokenizers_of.pre_of(model["tokenizer"])
    checked_in.convert(folder, file, pre)
    held = manifest(file)
    made = {"llama.cpp": LLAMA_PACKAGE} | checked_in.versions("transformers", "tokenizers", "sentencepiece", "torch", "numpy")
    head = {"architecture": name, "made_by": made, "outtype": "auto", "pre": pre, "file_len": held["file_len"],
            "file_sha256": held["file_sha256"]}
    return checked_in.dump_golden(head, kvs=held["kvs"], tensors=held["tensors"])


def weight_hashes():
    cases = []
    for seed, name, dtype, shape, center in WEIGHT_CASES:
        hash = sha256(payload(seed, name, dtype, shape, center))
        cases.append({"seed": seed, "name": name, "dtype": dtype, "shape": shape, "center": center, "sha256": hash})
    return rows(cases, 0) + "\n"


def main():
    given = checked_in.given_arguments(keep="leave model folders and GGUF files in this folder")
    for kind in tokenizers_of.KINDS:
        # Trained once: the trainers break ties differently from run to run.
        if not (HERE / "tokenizers" / kind).exists():
            assert not given.check, f"tokenizers/{kind} is missing"
            tokenizers_of.make(kind, HERE / "tokenizers" / kind)
    bad = []
    if given.check:
        bad += [] if (HERE / "weights.json").read_text() == weight_hashes() else ["weights.json"]
    else:
        (HERE / "weights.json").write_text(weight_hashes())

    def make(name, scratch):
        made, file = scratch / "made", scratch / "out.gguf"
        folder = make_folder(name, MODELS[name], scratch, made)
        (made / name / "golden.json").write_text(golden(name, MODELS[name], folder, file))
        if given.keep:
            shutil.copytree(folder, Path(given.keep) / name, dirs_exist_ok=True)
            shutil.copy(file, Path(given.keep) / f"{name}.gguf")
        return made / name

    checked_in.end(bad + checked_in.generate(given, MODELS, make, HERE))


if __name__ == "__main__":
    main()
