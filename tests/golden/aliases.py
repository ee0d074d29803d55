"""Classes that are laid out like one of the models here: what the converter writes for that model's folder if its configuration names
them, as differences from the model's golden.json. aliases.sh writes aliases.json, aliases.sh --check compares."""

import json
import shutil
import tempfile
from pathlib import Path

import checked_in
import tokenizers_of
from architectures import MODELS
from folder import describe, rows, write_folder
from manifest import manifest

HERE = Path(__file__).resolve().parent
FILE = HERE / "aliases.json"


# By class: of (the model), config (merged into its configuration; None takes a key out), nest (all of the configuration but this goes
# into an object of this name), start (other starts of names), drop (starts of names that are not there), cuts (names that begin further files).
ALIASES = {
    "LLaMAForCausalLM": dict(of="llama"),
    "LlamaModel": dict(of="llama", start={"model.": ""}, drop=["lm_head."]),
    "LlavaForConditionalGeneration": dict(of="llama", nest="text_config", config={"model_type": "llava", "image_token_index": 4}, start={"": "language_model."}),
    "VoxtralForConditionalGeneration": dict(of="llama", nest="text_config", config={"model_type": "voxtral", "audio_token_id": 4}, start={"": "language_model."}),
    "BertForMaskedLM": dict(of="bert", start={"": "bert."}),
    "BertForSequenceClassification": dict(of="bert", start={"": "bert."}),
    "BitNetForCausalLM": dict(of="bitnet"),
    "BloomModel": dict(of="bloom", start={"transformer.": ""}),
    "Qwen2Model": dict(of="qwen2", start={"model.": ""}),
    "Qwen2AudioForConditionalGeneration": dict(of="qwen2", nest="text_config", config={"model_type": "qwen2_audio", "audio_token_index": 4},
                                               start={"": "language_model."}),
    "Qwen3Model": dict(of="qwen3", start={"model.": ""}),
    "StableLMEpochForCausalLM": dict(of="stablelm", config={"model_type": "stablelm_epoch", "use_parallel_residual": False}),
    "T5WithLMHeadModel": dict(of="t5"),
    "UMT5Model": dict(of="umt5", drop=["lm_head."]),
    "MT5ForConditionalGeneration": dict(of="t5", config={"model_type": "mt5"}),
    "JinaBertModel": dict(of="jina-bert-v2"),
    "RobertaForSequenceClassification": dict(of="roberta", start={"": "roberta."}),
    "Qwen2VLForConditionalGeneration": dict(of="qwen2-vl", config={"model_type": "qwen2_vl"}),
    "Qwen2VLModel": dict(of="qwen2-vl", config={"model_type": "qwen2_vl"}),
    "Qwen3_5ForCausalLM": dict(of="qwen3-5", start={"model.language_model.": "model."}, drop=["model.visual."]),
    "Qwen3_5MoeForConditionalGeneration": dict(of="qwen3-5-moe", nest="text_config", config={"model_type": "qwen3_5_moe"},
                                               start={"model.": "model.language_model."}),
    "MambaLMHeadModel": dict(of="mamba"),
    "LFM2ForCausalLM": dict(of="lfm2"),
    "Llama4ForCausalLM": dict(of="llama4", flat="text_config", config={"model_type": "llama4_text"}, start={"language_model.": ""},
                              drop=["vision_model.", "multi_modal_projector."]),
    "JanusForConditionalGeneration": dict(of="llama-multimodal", config={"model_type": "janus"}, start={"model.text_model.": "model.language_model."}),
    "Sarashina2VisionForCausalLM": dict(of="llama-multimodal", config={"model_type": "sarashina2_vision"}, start={
        "model.text_model.": "llm.model.", "lm_head.": "llm.lm_head."}),
    "VLlama3ForCausalLM": dict(of="llama-multimodal", config={"model_type": "vllama3"}),
    "Gemma4ForCausalLM": dict(of="gemma4-moe", flat="text_config", config={"model_type": "gemma4_text"}, start={"model.language_model.": "model."},
                              drop=["model.vision_tower.", "model.embed_vision."]),
    "Gemma4UnifiedForConditionalGeneration": dict(of="gemma4-moe", config={"model_type": "gemma4_unified"}),
    "MiniMaxM3SparseForCausalLM": dict(of="minimax-m3", flat="text_config", config={"model_type": "minimax_m3"}, start={"language_model.": ""},
                                       drop=["vision_tower.", "multi_modal_projector.", "patch_merge_mlp."]),
    "Dots3NoteForConditionalGeneration": dict(of="dots3note"),
    "Dots3NoteTextForCausalLM": dict(of="dots3note", config={"model_type": "dots3_note_text", "vision_config": None, "audio_config": None},
                                     drop=["vision_encoder.", "audio_encoder."]),
    "ChatGLMForConditionalGeneration": dict(of="chatglm"),
    "DistilBertForMaskedLM": dict(of="distilbert", start={"": "distilbert."}),
    "Ernie4_5_ForCausalLM": dict(of="ernie4-5"),
    "ExaoneMoeForCausalLM": dict(of="exaone-moe"),
    "LLaDAMoEModel": dict(of="llada-moe"),
    "modeling_grove_moe.GroveMoeForCausalLM": dict(of="grovemoe"),
    "NeoBERT": dict(of="neobert", start={"model.": ""}, drop=["decoder."]),
    "ModernBertForMaskedLM": dict(of="modern-bert", start={"": "model."}),
    "OLMoForCausalLM": dict(of="olmo"),
    "JinaEmbeddingsV5Model": dict(of="eurobert"),
    "Qwen2_5OmniModel": dict(of="qwen2-vl", nest="thinker_config.text_config", config={"model_type": "qwen2_5_omni"}, start={"": "thinker."}),
    "DotsOCRForCausalLM": dict(of="qwen2", config={"model_type": "dots_ocr"}),
    "LlavaStableLMEpochForCausalLM": dict(of="stablelm", config={"model_type": "llava_stablelm_epoch", "use_parallel_residual": False}),
    "GraniteMoeForCausalLM": dict(of="granite-moe", config={"model_type": "granitemoe", "shared_intermediate_size": None},
                                  drop=[f"model.layers.{layer}.shared_mlp." for layer in range(4)]),
    "ChameleonForCausalLM": dict(of="chameleon"),
    "UnlimitedOCRForCausalLM": dict(of="deepseek2-ocr", config={"sliding_window_size": 128}),
    "Gemma3nForCausalLM": dict(of="gemma3n", flat="text_config", config={"model_type": "gemma3n_text"}, start={"model.language_model.": "model."},
                               drop=["model.vision_tower.", "model.audio_tower.", "model.embed_vision.", "model.embed_audio."]),
    "Step3p7ForConditionalGeneration": dict(of="step3p5", nest="text_config", config={"model_type": "step3p7", "image_token_id": 4}),
    "MiniMaxM1ForCausalLM": dict(of="minimax-01", config={"model_type": "minimax_m1"}, cuts=["model.layers.1.input_layernorm.weight"]),
}


def changed_config(name, alias, config):
    said = alias.get("config", {})
    if inside := alias.get("flat"):
        config = {k: v for k, v in config.items() if not isinstance(v, dict)} | config[inside]
    if root := alias.get("nest"):
        inner = {k: v for k, v in config.items() if k != "architectures"}
        tied = {"tie_word_embeddings": inner["tie_word_embeddings"]} if "tie_word_embeddings" in inner else {}
        for part in reversed(root.split(".")):
            inner = {part: inner}
        config = inner | tied
    config = config | {"architectures": [name]} | said
    return {k: v for k, v in config.items() if v is not None}


def renamed(alias, name):
    if any(name.startswith(start) for start in alias.get("drop", [])):
        return None
    for old, new in alias.get("start", {}).items():
        if name.startswith(old):
            return new + name[len(old):]
    return name


def make(name, alias, scratch):
    """The folder, and what is different in the converter's file."""
    of = alias["of"]
    described = json.loads((HERE / of / "tensors.json").read_text())
    config = changed_config(name, alias, json.loads((HERE / of / "config.json").read_text()))
    text = json.dumps(config, indent=1) + "\n"
    tensors = []
    for file in described["files"]:
        for row in file["tensors"]:
            other = renamed(alias, row["name"])
            if other:
                tensors.append((other, row["dtype"], row["shape"], row.get("center", 0)))
    made = describe(of, sorted(tensors), described["companions"], alias.get("cuts", []))
    sources = scratch / "sources"
    shutil.copytree(HERE, sources, ignore=shutil.ignore_patterns("*.py", "golden.json", "tensors.json", "logits.json"))
    (sources / of / "config.json").write_text(text)
    folder = scratch / described["folder"]
    folder.mkdir()
    write_folder(made, sources, folder)
    pre = MODELS[of].get("pre") or tokenizers_of.pre_of(MODELS[of]["tokenizer"])
    checked_in.convert(folder, scratch / "out.gguf", pre)
    return text, manifest(scratch / "out.gguf")


def difference(held, golden):
    """What is different from the model's own golden file: keys and tensors as they are, names alone if they are gone."""
    plain = lambda row: {k: v for k, v in row.items() if k != "offset"}
    out = {}
    for what, key in (("kvs", "key"), ("tensors", "name")):
        had, has = ({row[key]: plain(row) for row in of[what]} for of in (golden, held))
        out[what] = [row for name, row in has.items() if had.get(name) != row]
        out["no_" + what] = [name for name in had if name not in has]
    return {key: value for key, value in out.items() if value}


def main():
    given = checked_in.given_arguments()
    kept = {row["class"]: row for row in json.loads(FILE.read_text())} if FILE.exists() else {}
    for name in given.names or ALIASES:
        alias = ALIASES[name]
        with tempfile.TemporaryDirectory() as scratch:
            text, held = make(name, alias, Path(scratch))
        golden = json.loads((HERE / alias["of"] / "golden.json").read_text())
        row = {"class": name, "of": alias["of"], "config": json.loads(text)}
        row |= {key: alias[key] for key in ("start", "drop") if key in alias}
        kept[name] = row | difference(held, golden)
        print(f"{name}: done", flush=True)
    made = rows([kept[name] for name in sorted(kept)], 0) + "\n"
    if given.check:
        checked_in.end([] if made == FILE.read_text() else ["aliases.json"])
    else:
        FILE.write_text(made)


if __name__ == "__main__":
    main()
