"""transformers and tokenizers, as `transformers_judge.py` asks them: a line of JSON in, a line of JSON out."""

import json
import os
import sys
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import torch
import transformers
from safetensors import safe_open
from safetensors.torch import save_file
from tokenizers import Tokenizer

HALVES = {"F16": torch.float16, "BF16": torch.bfloat16}
COUNT = 24


def dtypes(folder):
    """The type of each tensor of a folder's weights."""
    found = {}
    for path in Path(folder).glob("*.safetensors"):
        with safe_open(path, "pt") as weights:
            found |= {name: weights.get_slice(name).get_dtype() for name in weights.keys()}
    return found


def rounded(folder, other, into):
    """A copy of a folder in which tensors have the values that they can have in `other`'s types."""
    wanted = dtypes(other)
    into = Path(into)
    into.mkdir(parents=True, exist_ok=True)
    count = 0
    for path in Path(folder).iterdir():
        if path.suffix != ".safetensors":
            if path.is_file():
                (into / path.name).write_bytes(path.read_bytes())
            continue
        with safe_open(path, "pt") as weights:
            tensors = {}
            for name in weights.keys():
                tensor = weights.get_tensor(name)
                half = HALVES.get(wanted.get(name))
                if half is not None and tensor.dtype == torch.float32:
                    tensor, count = tensor.to(half).to(torch.float32), count + 1
                tensors[name] = tensor
        save_file(tensors, into / path.name, {"format": "pt"})
    return count


def config_of(folder):
    """The configuration. This version does not know where the next one says how positions turn."""
    config = transformers.AutoConfig.from_pretrained(folder)
    stated = json.loads((Path(folder) / "config.json").read_text()).get("rope_parameters") or {}
    if stated.get("rope_type") == "default" and "rope_theta" in stated:
        config.rope_theta = stated["rope_theta"]
    return config


def load(folder, means=None):
    config = config_of(folder)
    for key, value in (means or {}).items():
        setattr(config, key, value)
    name = (config.architectures or [""])[0]
    kind = transformers.AutoModel
    for end, auto in (("ForCausalLM", transformers.AutoModelForCausalLM), ("LMHeadModel", transformers.AutoModelForCausalLM),
                      ("ForConditionalGeneration", transformers.AutoModelForSeq2SeqLM), ("ForMaskedLM", transformers.AutoModelForMaskedLM)):
        if name.endswith(end):
            kind = auto
    model, told = kind.from_pretrained(folder, config=config, torch_dtype=torch.float32, attn_implementation="eager", output_loading_info=True)
    return model.eval(), config, told


def logits(folder, ids, means=None):
    model, config, told = load(folder, means)
    request = {"input_ids": ids}
    if config.is_encoder_decoder:
        request["decoder_input_ids"] = ids
    with torch.no_grad():
        out = model(**request)
    found = out.logits if hasattr(out, "logits") else out.last_hidden_state
    return found.to(torch.float64), config, told


def same_logits(before, after, scratch, means):
    """How far apart the logits of two folders are, in F32, and what transformers said of the second."""
    config = config_of(before)
    generator = torch.Generator().manual_seed(1)
    ids = torch.randint(3, config.vocab_size - 1, (1, COUNT), generator=generator)
    made = rounded(before, after, scratch)
    one, _, _ = logits(scratch if made else before, ids, means)
    two, config, told = logits(after, ids)
    return {"difference": (one - two).abs().max().item(), "largest": one.abs().max().item(), "rounded": made,
            "dtype": str(config.torch_dtype), "missing": sorted(told["missing_keys"]), "unexpected": sorted(told["unexpected_keys"])}


def ids(folder, texts):
    """Ids by the folder's tokenizer.json: with and without what is put around every text."""
    tokenizer = Tokenizer.from_file(str(Path(folder) / "tokenizer.json"))
    return [[tokenizer.encode(text, add_special_tokens=around).ids for around in (True, False)] for text in texts]


def auto_ids(folder, texts):
    """The same as transformers' own class gives them, which takes tokenizer_config.json too."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    return [tokenizer.encode(text) for text in texts]


def added(folder):
    """Texts of the tokens that are cut out of a text."""
    tokenizer = Tokenizer.from_file(str(Path(folder) / "tokenizer.json"))
    return [token.content for token in tokenizer.get_added_tokens_decoder().values()]


def normalized(folder, texts):
    """What the tokenizer makes of texts before it cuts them."""
    tokenizer = Tokenizer.from_file(str(Path(folder) / "tokenizer.json"))
    return [tokenizer.normalizer.normalize_str(text) if tokenizer.normalizer else text for text in texts]


def embeddings(folder, texts, pooling):
    """Pooled hidden states of texts."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model, _, _ = load(folder)
    found = []
    for text in texts:
        given = tokenizer(text, return_tensors="pt", padding=False, truncation=False)
        with torch.no_grad():
            states = getattr(model, model.base_model_prefix, model)(**given).last_hidden_state[0]
        found.append((states.mean(0) if pooling == "mean" else states[0]).tolist())
    return found


def piece_ids(path, texts):
    """Ids by SentencePiece itself."""
    from sentencepiece import SentencePieceProcessor
    return SentencePieceProcessor(model_file=str(path)).encode(texts)


def answer(request):
    do = request.pop("do")
    return {"same_logits": same_logits, "ids": ids, "auto_ids": auto_ids, "added": added, "normalized": normalized,
            "embeddings": embeddings, "piece_ids": piece_ids}[do](**request)


def main():
    print(json.dumps({"ready": f"transformers {transformers.__version__}, torch {torch.__version__}"}), flush=True)
    torch.set_num_threads(1)
    for line in sys.stdin:
        try:
            print(json.dumps({"done": answer(json.loads(line))}), flush=True)
        except Exception as error:
            print(json.dumps({"failed": f"{type(error).__name__}: {error}"[:2000]}), flush=True)


main()
