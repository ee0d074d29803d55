"""transformers 5, as `families_cases.py` asks it: a line of JSON in, a line of JSON out. Makes tiny seeded models by the library's own classes
(`families.py`) and compares what two folders compute."""

import json
import os
import sys
import zlib
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import torch
import transformers

from families import FAMILIES, REFUSED

COUNT = 64
TYPES = {"F32": torch.float32, "BF16": torch.bfloat16}
AUTOS = ("AutoModelForCausalLM", "AutoModelForSeq2SeqLM", "AutoModelForImageTextToText", "AutoModelForMaskedLM", "AutoModel")


def auto_of(config):
    """The library's class for a configuration: that of its head, unless it says that it has none."""
    if config.architectures and config.architectures[0].endswith("Model"):
        return transformers.AutoModel
    for name in AUTOS:
        auto = getattr(transformers, name)
        if type(config) in auto._model_mapping:
            return auto
    raise ValueError(f"no class takes a {config.model_type}")


def seeded(model):
    """Fills in weights for which every part of the model counts: logits have an RMS of about 1, and attention is far from even."""
    ones = {name for name, value in model.named_parameters() if value.dim() == 1 and bool((value == 1).all())}
    with torch.no_grad():
        for name, value in list(model.named_parameters()) + [(n, b) for n, b in model.named_buffers() if n in model.state_dict()]:
            if not value.is_floating_point():
                continue
            random = torch.randn(value.shape, generator=torch.Generator().manual_seed(zlib.crc32(name.encode())))
            last = name.split(".")[-1]
            if last in ("A_log", "D", "dt_bias") or "dt_proj.bias" in name:
                value.add_(0.2 * random.to(value.dtype))
            elif value.dim() < 2:
                sharp = 2.0 if any(part in name for part in ("q_norm", "k_norm", "query_layernorm", "key_layernorm")) else 1.0
                value.copy_(sharp * (1 + 0.3 * random) if name in ones else 0.3 * random)
            elif "embed" in name or "wte" in name or "shared" in name.split("."):
                value.copy_(random)
            elif "relative_attention_bias" in name:
                value.copy_(2 * random)
            else:
                sharp = 2.0 if any(part in name for part in ("q_proj", "k_proj", ".q.", ".k.", "qkv", "c_attn", "query", "key", "Wqkv", "q_a", "kv_a")) else 1.0
                value.copy_(sharp * random / value.shape[-1] ** 0.5)


SIDES = ("text_config", "llm_config")
# What tells the class, and what others than the class say.
STAYS = ("model_type", "architectures", "dtype", "torch_dtype", "rope_parameters", "rope_scaling", "vocab_size")


def silence(folder):
    """Takes out of a folder's config.json all that its class says where it is silent, as `to_diff_dict` does and publishers do by hand."""
    path = Path(folder) / "config.json"
    said, unsaid = json.loads(path.read_text()), []

    def meant():
        path.write_text(json.dumps(said))
        return transformers.AutoConfig.from_pretrained(folder).to_dict()

    whole = meant()
    for inside in (said, *(one for key, one in said.items() if key.endswith("_config") and isinstance(one, dict))):
        for key in [key for key in inside if key not in STAYS and not key.endswith("_token_id")]:
            value = inside.pop(key)
            try:
                if meant() == whole:
                    unsaid.append(key)
                    continue
            except Exception:
                pass
            inside[key] = value
    meant()
    return unsaid


def make(name, dtype, folder, silent=False):
    """Makes a family's folder; a silent one leaves to the class what it says itself."""
    arguments = dict(FAMILIES.get(name) or REFUSED[name][0])
    kind = arguments.pop("model_type", name if name in transformers.CONFIG_MAPPING else name.split("-")[0])
    untied, bare = arguments.pop("_untied", False), arguments.pop("_bare", False)
    torch.manual_seed(1)
    config = transformers.AutoConfig.for_model(kind, **arguments)
    if bare:
        config.architectures = [transformers.AutoModel._model_mapping[type(config)].__name__]
    # GGUF holds no pooler, which the library does without.
    without = {"add_pooling_layer": False} if bare and kind in ("bert", "roberta", "xlm-roberta") else {}
    model = auto_of(config).from_config(config, attn_implementation="eager", **without)
    if untied:
        model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.detach().clone())
    seeded(model)
    model.to(TYPES[dtype]).save_pretrained(folder)
    return {"class": type(model).__name__, "unsaid": silence(folder) if silent else None}


def logits(folder, ids):
    config = transformers.AutoConfig.from_pretrained(folder)
    # A cache without any attention is none that the library can ask for its length.
    config.use_cache = config.get_text_config().use_cache = False
    model, told = auto_of(config).from_pretrained(folder, config=config, dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    request = {"input_ids": ids}
    if config.is_encoder_decoder:
        request["decoder_input_ids"] = ids
    with torch.no_grad():
        out = model.eval()(**request)
    return (out.logits if hasattr(out, "logits") else out.last_hidden_state).to(torch.float64), config, told


def flat(value, path=""):
    if not isinstance(value, dict):
        return {path: value}
    found = {}
    for key, one in value.items():
        found |= flat(one, f"{path}.{key}" if path else str(key))
    return found


def silence_known(folder):
    """The same for any folder; nothing if the library has no class for it, or one that does not take it."""
    kind = json.loads((Path(folder) / "config.json").read_text()).get("model_type")
    try:
        transformers.AutoConfig.from_pretrained(folder) if kind in transformers.CONFIG_MAPPING else None
    except Exception:
        return []
    return silence(folder) if kind in transformers.CONFIG_MAPPING else []


def left(folder, key):
    """What the library makes of a key that a folder's config.json leaves out, inside of its side of text or at its root; an error in words."""
    path = Path(folder) / "config.json"
    said = json.loads(path.read_text())
    if said.get("model_type") not in transformers.CONFIG_MAPPING:
        return {"known": False}
    inside = next((said[side] for side in SIDES if isinstance(said.get(side), dict) and key in said[side]), said)
    inside.pop(key)
    path.write_text(json.dumps(said))
    config = transformers.AutoConfig.from_pretrained(folder).get_text_config()
    return {"known": key in config.to_dict(), "value": config.to_dict().get(key)}


def meant(before, after):
    """In what two folders' configurations differ, filled in by their classes."""
    one, other = (transformers.AutoConfig.from_pretrained(folder).get_text_config() for folder in (before, after))
    was, now = flat(one.to_dict()), flat(other.to_dict())
    known = type(one)().to_dict().keys() | {"rope_parameters"}

    def same(value, other):
        both = isinstance(value, float) and isinstance(other, (float, int))
        return abs(value - other) <= 1e-6 * abs(value) if both else value == other

    keys = sorted(key for key in was.keys() | now.keys() if key.split(".")[0] in known)
    return {key: [was.get(key), now.get(key)] for key in keys if not same(was.get(key), now.get(key))}


def compare(before, after):
    """How far apart two folders' logits are, over the RMS of the first's, and in what their filled-in configurations differ."""
    text = transformers.AutoConfig.from_pretrained(before).get_text_config()
    ids = torch.randint(3, text.vocab_size - 1, (1, COUNT), generator=torch.Generator().manual_seed(1))
    one, config, of_first = logits(before, ids)
    two, other, told = logits(after, ids)
    rms = one.pow(2).mean().sqrt().item()
    was, now = flat(config.get_text_config().to_dict()), flat(other.get_text_config().to_dict())
    return {"difference": (one - two).abs().max().item() / rms, "rms": rms, "class": [config.architectures, other.architectures],
            "missing": sorted(set(told["missing_keys"]) - set(of_first["missing_keys"])), "unexpected": sorted(told["unexpected_keys"]),
            "config": {key: [was.get(key), now.get(key)] for key in sorted(was.keys() | now.keys()) if was.get(key) != now.get(key)}}


def main():
    # Some classes print where answers belong.
    answers, sys.stdout = sys.stdout, sys.stderr
    print(json.dumps({"ready": f"transformers {transformers.__version__}, torch {torch.__version__}"}), file=answers, flush=True)
    torch.set_num_threads(1)
    for line in sys.stdin:
        try:
            request = json.loads(line)
            done = {"make": make, "compare": compare, "silence": silence_known, "left": left, "meant": meant}[request.pop("do")](**request)
            print(json.dumps({"done": done}), file=answers, flush=True)
        except Exception as error:
            print(json.dumps({"failed": f"{type(error).__name__}: {error}"[:2000]}), file=answers, flush=True)


main()
