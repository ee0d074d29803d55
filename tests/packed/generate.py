"""Writes the fixtures: packed checkpoints as the schemes' own packages write them, and the values that these compute.

Usage: generate.py [--older] [NAME ...]; see README.md. `--older` writes what only an older compressed-tensors packs.
"""

import importlib
import json
import shutil
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file

HERE = Path(__file__).parent
CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "torch_dtype": "bfloat16"}
MODULES = ["fp8", "compressed", "gptq", "awq", "bits_and_bytes", "mxfp4", "modelopt", "mlx_affine", "hqq_rows", "bitnet", "torch_ao", "comfy"]
OLDER = ["compressed_older"]


def save(tensors, file, metadata):
    """Writes SafeTensors, the entries of the metadata in the order of their names: the package's own order is another each time."""
    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, file, metadata=metadata)
    content = file.read_bytes()
    end = 8 + int.from_bytes(content[:8], "little")
    header = json.loads(content[8:end])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    file.write_bytes(content[:8] + text.ljust(end - 8) + content[end:])


def write(case):
    """A folder: the model, what is expected of it, and who says so."""
    folder = HERE / "fixtures" / case["name"]
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    config = {**CONFIG, **case.get("config", {})}
    (folder / "config.json").write_text(json.dumps(config, indent=1) + "\n")
    for name, content in case.get("files", {}).items():
        (folder / name).write_text(json.dumps(content, indent=1) + "\n")
    stored = dict(case["stored"])
    stored["model.norm.weight"] = torch.linspace(0.5, 1.5, 16).to(torch.bfloat16)
    shards = case.get("shards")
    if shards is None:
        save(stored, folder / "model.safetensors", {"format": "pt", **case.get("metadata", {})})
    else:
        index = {}
        for number in range(2):
            name = f"model-0000{number + 1}-of-00002.safetensors"
            own = {key: value for key, value in stored.items() if shards(key) == number}
            save(own, folder / name, {"format": "pt"})
            index.update({key: name for key in own})
        size = sum(tensor.numel() * tensor.element_size() for tensor in stored.values())
        text = {"metadata": {"total_size": size}, "weight_map": index}
        (folder / "model.safetensors.index.json").write_text(json.dumps(text, indent=1) + "\n")
    expected = {name: value.to(torch.float32) for name, value in case["expected"].items()}
    save_file({name: value.contiguous() for name, value in expected.items()}, folder / "expected.safetensors")
    said = {key: case[key] for key in ("packed_by", "judged_by")}
    (folder / "fixture.json").write_text(json.dumps(said, indent=1) + "\n")


def main():
    only = [name for name in sys.argv[1:] if name != "--older"]
    for module in OLDER if "--older" in sys.argv else MODULES:
        for case in importlib.import_module(f"schemes.{module}").cases():
            if not only or any(name in case["name"] for name in only):
                write(case)
                print(case["name"])


if __name__ == "__main__":
    main()
