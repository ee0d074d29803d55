"""Makes saved/: the small tokenizers of tests/golden as transformers 5.23 saves them, and the keys that llama.cpp's converter
writes for each, SentencePiece's file put beside. generate.sh sets up what it needs; README.md says what is in the folders.

    generate.py LLAMA_CPP [--check] [NAME ...]
"""

import json
import shutil
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
GOLDEN = HERE.parent / "golden"
sys.path.insert(0, str(GOLDEN))

import checked_in
import tokenizers_of
from manifest import manifest

# NAME: the tokenizer of tests/golden, the class that its configuration names before it is saved, the golden model that it is
# a tokenizer of. Real checkpoints of the family name this class.
FAMILIES = {
    "llama": ("llama-sp", "LlamaTokenizer", "llama"),
    "llama-fast": ("llama-sp", "PreTrainedTokenizerFast", "llama"),
    "mistral": ("llama-sp", "LlamaTokenizerFast", "mistral"),
    "mixtral": ("llama-sp", "PreTrainedTokenizerFast", "mixtral"),
    "phi3": ("phi3-sp", "LlamaTokenizer", "phi3"),
    "gemma": ("gemma-sp", "GemmaTokenizerFast", "gemma"),
    "gemma2": ("gemma-sp", "GemmaTokenizer", "gemma2"),
    "gemma3": ("gemma-sp", "PreTrainedTokenizerFast", "gemma3"),
    "t5": ("t5-sp", "T5TokenizerFast", "t5"),
    "t5-fast": ("t5-sp", "PreTrainedTokenizerFast", "t5"),
    "bert": ("wordpiece", "BertTokenizer", "bert"),
    "bert-fast": ("wordpiece", "PreTrainedTokenizerFast", "bert"),
    "nomic-bert": ("wordpiece", "BertTokenizerFast", "nomic-bert"),
    "roberta": ("roberta", "RobertaTokenizer", "roberta"),
    "qwen2": ("qwen2", "Qwen2Tokenizer", "qwen2"),
    "llama3": ("llama3", "PreTrainedTokenizerFast", "llama3"),
    "gpt2": ("gpt2", "GPT2Tokenizer", "gpt2"),
    "gpt-neox": ("gptneox", "GPTNeoXTokenizerFast", "gpt-neox"),
    "bloom": ("bloom", "BloomTokenizerFast", "bloom"),
    "command-r": ("command-r", "CohereTokenizerFast", "command-r"),
    "deepseek2": ("deepseek", "LlamaTokenizerFast", "deepseek2"),
    "starcoder2": ("starcoder", "PreTrainedTokenizerFast", "starcoder2"),
    "phi2": ("phi2", "CodeGenTokenizer", "phi2"),
    "olmo2": ("olmo2", "PreTrainedTokenizerFast", "olmo2"),
    "falcon": ("falcon", "PreTrainedTokenizerFast", "falcon"),
}
# The class adds this token where the vocabulary lacks it, as that of no real checkpoint does.
WITHOUT_MASK = ("gemma", "gemma2")


def load(path):
    return json.loads(Path(path).read_text())


def save(name, scratch):
    """What transformers writes when it loads the tokenizer and saves it."""
    from transformers import AutoTokenizer

    kind, library_class, model = FAMILIES[name]
    source, saved = scratch / "source", scratch / "saved"
    shutil.copytree(GOLDEN / "tokenizers" / kind, source)
    shutil.copy(GOLDEN / model / "config.json", source)
    config = load(source / "tokenizer_config.json") | {"tokenizer_class": library_class}
    if name in WITHOUT_MASK:
        config["mask_token"] = None
    (source / "tokenizer_config.json").write_text(json.dumps(config))
    AutoTokenizer.from_pretrained(source).save_pretrained(saved)
    # As the file lies in the goldens: without the spaces.
    fast = load(saved / "tokenizer.json")
    if fast == load(GOLDEN / "tokenizers" / kind / "tokenizer.json"):
        (saved / "tokenizer.json").unlink()
    else:
        (saved / "tokenizer.json").write_text(json.dumps(fast, ensure_ascii=False, separators=(",", ":")) + "\n")
    config = {key: value for key, value in load(saved / "tokenizer_config.json").items() if "/" not in str(value)[:2]}
    (saved / "tokenizer_config.json").write_text(json.dumps(config, ensure_ascii=False, indent=1, sort_keys=True) + "\n")
    return saved


def keys(name, saved, scratch):
    """The keys of the tokenizer that the converter writes for the saved folder with SentencePiece's file."""
    from conversion.base import ModelBase

    kind, _, model = FAMILIES[name]
    folder, file = scratch / "model", scratch / "vocabulary.gguf"
    shutil.copytree(GOLDEN / "tokenizers" / kind, folder)
    (folder / "tokenizer_config.json").unlink()
    shutil.copytree(saved, folder, dirs_exist_ok=True)
    shutil.copy(GOLDEN / model / "config.json", folder)
    # The converter takes the flags of added tokens from here, but for Phi-3, where it takes them from tokenizer.json; without
    # them it calls what a user defined ordinary. This version of transformers writes them to tokenizer.json alone.
    config = load(folder / "tokenizer_config.json")
    added = {str(token["id"]): {k: v for k, v in token.items() if k != "id"} for token in load(folder / "tokenizer.json")["added_tokens"]}
    (folder / "tokenizer_config.json").write_text(json.dumps(config | {"added_tokens_decoder": added}))
    # The configuration as it stands: this version of transformers calls some of its keys otherwise than the converter.
    ModelBase.load_hparams = staticmethod(lambda folder, *_, **__: load(Path(folder) / "config.json"))
    checked_in.convert(folder, file, tokenizers_of.pre_of(kind), "--vocab-only")
    return [kv for kv in manifest(file)["kvs"] if kv["key"].startswith("tokenizer.") and kv["key"] != "tokenizer.ggml.token_type_count"]


def make(name, scratch):
    kind, library_class, model = FAMILIES[name]
    saved = save(name, scratch)
    head = {"tokenizer": kind, "class": library_class, "model": model,
            "made_by": checked_in.versions("transformers", "tokenizers", "sentencepiece")}
    (saved / "golden.json").write_text(checked_in.dump_golden(head, kvs=keys(name, saved, scratch)))
    return saved


def main():
    given = checked_in.given_arguments()
    checked_in.end(checked_in.generate(given, FAMILIES, make, HERE / "saved"))


if __name__ == "__main__":
    main()
