"""Which classes of llama.cpp's converter are covered, by models of this folder, and which are not, with what each needs: writes
plugins/architectures/CENSUS.md. census.sh does it, census.sh --check compares.

    census.py LLAMA_CPP [--check]
"""

import json
import re
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
FILE = HERE.parent.parent / "plugins/architectures/CENSUS.md"
BEFORE = 41

# What the classes that are not covered need, by class or by the converter's module.
NEEDS = {
    "HrmTextForCausalLM": "layers counted on in a second stack, and a count of cache slots",
    "TalkieForCausalLM": "a key made of a tensor, and signs of half of each head changed",
    "PlamoForCausalLM": "columns permuted by a fixed size that the converter insists on",
    "QWenLMHeadModel": "a tokenizer of tiktoken's ranks",
    "RWForCausalLM": "slopes of attention (ALiBi) that GGUF has no key for",
    "BaichuanForCausalLM": "a judge: the converter fails on it (endless recursion); there is a table",
    "BaiChuanForCausalLM": "a judge: the converter fails on it (endless recursion); there is a table",
    "XverseForCausalLM": "a judge of scores of tokens: the converter writes none; there is a table",
    "ArcticForCausalLM": "the converter's scores and types of special tokens; there is a table",
    "CamembertModel": "a judge of its tokenizer: the converter takes it for WordPiece",
    "GrokForCausalLM": "parts of one name joined over shards", "Grok1ForCausalLM": "parts of one name joined over shards",
    "MiMoV2ForCausalLM": "FP8 weights, whose rows lie by shards", "MiMoV2FlashForCausalLM": "FP8 weights, whose rows lie by shards",
    "LlamaForCausalLMEagle3": "the folder of another model", "Eagle3LlamaForCausalLM": "the folder of another model",
    "Eagle3Speculator": "the folder of another model", "Eagle3DraftModel": "the folder of another model",
    "UltravoxModel": "a converter: its class of text always fails",
    "GraniteSwitchForCausalLM": "the usual type for adapters' tensors, and a size label left out",
    "SarvamMoEForCausalLM": "an operation that takes a tensor's mean off",
    "modeling_sarvam_moe.SarvamMoEForCausalLM": "an operation that takes a tensor's mean off",
    "CogVLMForCausalLM": "a judge: the converter drops tensors of the text's layers",
    "Qwen4ExpForCausalLM": "keys of 64-bit integers made of tensors",
    "Qwen4ExpForConditionalGeneration": "keys of 64-bit integers made of tensors",
    "Lfm25AudioTokenizer": "models without a tokenizer in what makes golden models",
    "WavTokenizerDec": "models without a tokenizer in what makes golden models",
    "Qwen3TTSForConditionalGeneration": "an embedding put through two matrices while converting",
    "PocketTTSModel": "a configuration: its folder has none",
    "Gemma4AssistantForCausalLM": "a table and a model that proves it",
    "Gemma4UnifiedAssistantForCausalLM": "a table and a model that proves it",
    "DFlashDraftModel": "the folder of another model",
    "DFlash2DraftModel": "the folder of another model",
    "Qwen3DSparkModel": "the folder of another model",
    "DSparkDraftModel": "the folder of another model",
    "DSparkSpeculator": "the folder of another model",
    "LingDSparkModel": "the folder of another model",
    "Lfm2DSparkDraftModel": "the folder of another model",
    "Gemma4DSparkModel": "the folder of another model",
    "MuseGlimmerAssistantModel": "the folder of another model",
    "DeepseekV4DSparkModel": "the folder of another model",
    "Lfm2Model": "weights in a folder of their own", "Lfm2BidirectionalModel": "weights in a folder of their own",
}
MODULES = {
    "rwkv": "rows mixed with positions, division by powers of two by layer, a tokenizer of its own",
    "deepseek": "FP8 weights, an indexer, or a nested model of another kind", "kimi_linear": "convolutions of three and a decay cut by heads",
    "kimi_k3": "tensors multiplied with each other", "jamba": "a judge", "plamo": "permutes of its own", "deci": "widths of each layer",
    "nemotron": "layers of several kinds joined into one", "dots3note": "a table", "glm5next": "tensors multiplied with each other",
}


def covered():
    """The classes that models of this folder have, with the models."""
    found = {}
    for path in sorted(HERE.glob("*/config.json")):
        if (path.parent / "golden.json").exists():
            for name in json.loads(path.read_text()).get("architectures", []):
                found.setdefault(name, []).append(path.parent.name)
    for row in json.loads((HERE / "aliases.json").read_text()):
        found.setdefault(row["class"], []).append(f"{row['of']} (another class of its layout)")
    return found


def main():
    sys.path.insert(0, sys.argv[1])
    text = (Path(sys.argv[1]) / "conversion/__init__.py").read_text()
    body = text[text.index("TEXT_MODEL_MAP") : text.index("MMPROJ_MODEL_MAP")]
    classes = dict(re.findall(r'"([^"]+)": "([^"]+)"', body))
    registered = set()
    for path in (Path(sys.argv[1]) / "conversion").glob("*.py"):
        for names in re.findall(r"@ModelBase\.register\(([^)]*)\)", path.read_text()):
            registered |= set(re.findall(r'"([^"]+)"', names))
    # Two of the map have no class of the side of text.
    none = {"GraniteSpeechForConditionalGeneration", "GraniteSpeechPlusForConditionalGeneration"}
    classes = {name: module for name, module in classes.items() if name in registered - none}
    have = {name: models for name, models in covered().items() if name in classes}
    lines = [
        "# The converter's classes",
        "",
        f"Of the {len(classes)} classes of text that llama.cpp's converter (of llama-cpp-python 0.3.36) knows, {len(have)} are covered: the file that",
        "apr writes for a folder of seeded weights has the converter's tensors, types, bytes and keys (`tests/golden`; the named test is",
        f"`a_folder_becomes_the_file_that_llama_cpp_s_converter_writes`). Before this list there were {BEFORE}. `tests/golden/census.sh` writes it.",
        "",
        "| class | model of `tests/golden` |",
        "| --- | --- |",
    ]
    lines += [f"| {name} | {', '.join(have[name])} |" for name in sorted(have, key=str.lower)]
    rest = sorted((name for name in classes if name not in have), key=str.lower)
    lines += ["", f"## Not covered: {len(rest)}", "", "| class | what it needs |", "| --- | --- |"]
    lines += [f"| {name} | {NEEDS.get(name) or MODULES.get(classes[name]) or 'a table and a model that proves it'} |" for name in rest]
    made = "\n".join(lines) + "\n"
    if "--check" in sys.argv:
        sys.exit(0 if made == FILE.read_text() else "CENSUS.md is not what census.sh writes")
    FILE.write_text(made)
    print(f"{len(have)} of {len(classes)} classes")


if __name__ == "__main__":
    main()
