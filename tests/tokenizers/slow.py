"""Writes slow.json: small tokenizers in the files that folders have without tokenizer.json, under every class of transformers that reads
such files, and what it makes of texts by them.

    slow.py [--check]

`vocabularies` are the parts of such files that cases share: lists of words, of tokens of bytes, of characters with an end of words,
and pairs that are merged; or a model of SentencePiece in base64. A case names one (`of`), the special tokens that stand before it (`first`) or behind it (`last`), the class,
its whole `tokenizer_config.json` but for the class (`config`), further files of JSON by name (`files`), what `config.json` has
(`model`), how a model of SentencePiece is called (`file`), and texts of its own behind the others (`texts`). The script adds under the version of the library that runs it the ids of `texts` with and without what is put around them,
the texts that these ids give back, also without special tokens for a case with texts of its own (`shown`), the ids of the special tokens and the variables that chat templates have of them, or
`{"error": class}`. What version 4 makes of a case counts where
version 5 fails, and is written in words where it does not. It is run with transformers 5 first, and then with version 4.
"""

import base64
import json
import logging
import sys
import tempfile
from collections import Counter
from pathlib import Path

import transformers
from recipes import charsmap
from sentencepiece import sentencepiece_model_pb2 as sentencepiece
from tokenizers import normalizers, pre_tokenizers
from transformers import AutoTokenizer

transformers.logging.set_verbosity(50)
logging.disable(logging.CRITICAL)

HERE = Path(__file__).resolve().parent
CLASSES_FILE = HERE.parents[1] / "plugins/huggingface/src/tokenizer/classes.json"
TRAINING = [
    "the quick brown fox jumps over the lazy dog. " * 3, "hello world! it's a test, isn't it? 12345 678 3.14",
    "def f(x):\n    return x + 1\n\n\tthe end", "naive cafe over the world",
]
TEXTS = [
    "", "Hello world", "hello  World it's 12345 café naïve 日本語\n\tx  ", " leading <mask> space", "a [MASK] b<mask>c", "the NEWWORD newword the new-word",
    "<|endoftext|>the</s> <s>fox [SEP] [CLS]", "``dog'' ☃ don't <unk> [UNK]", "hello <new> the<new>world", "<|startoftranscript|> the quick",
]
FIVE = transformers.__version__.startswith("5.")
NAMES = ["bos", "eos", "unk", "sep", "pad", "cls", "mask"]


def learned(step, n_merges, normalizer=None, end=""):
    """The pairs that are merged, most frequent first, in pieces that end with a mark."""
    counts = Counter()
    for text in TRAINING:
        text = normalizer.normalize_str(text) if normalizer else text
        counts.update((*piece[:-1], piece[-1] + end) for piece, _ in step.pre_tokenize_str(text))
    known, merges = sorted({part for word in counts for part in word}), []
    for _ in range(n_merges):
        pairs = Counter()
        for word, count in counts.items():
            for pair in zip(word, word[1:]):
                pairs[pair] += count
        if not pairs:
            break
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        merges.append(best)
        known += [text for text in ["".join(best)] if text not in known]
        joined = Counter()
        for word, count in counts.items():
            parts = []
            for part in word:
                if parts and (parts[-1], part) == best:
                    parts[-1] += part
                else:
                    parts.append(part)
            joined[tuple(parts)] += count
        counts = joined
    return known, merges


def vocabularies():
    bert, split = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    known, _ = learned(split, 60, bert)
    letters = sorted(set("abcdefghijklmnopqrstuvwxyz.,!?'-`HW") | {text for text in known if len(text) == 1})
    words = letters + ["##" + text for text in letters if text.isalnum()] + [text for text in known if len(text) > 1]
    words += ["##" + text for text in known if len(text) > 1]
    of_bytes = pre_tokenizers.ByteLevel(add_prefix_space=False)
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    known, merges = learned(of_bytes, 40)
    learned_bytes = alphabet + [text for text in known if text not in alphabet]
    lower = normalizers.Lowercase()
    known, ended = learned(pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), of_bytes]), 40, lower, "</w>")
    ended_bytes = alphabet + [text + "</w>" for text in alphabet]
    ended_bytes += [text for text in known if text not in ended_bytes]
    known, of_letters = learned(split, 40, bert, "</w>")
    ended_letters = letters + [text + "</w>" for text in letters]
    ended_letters += [text for text in known if text not in ended_letters]
    lines = lambda pairs: [" ".join(pair) for pair in pairs]
    models = {f"pieces of {name}": {"model": base64.b64encode(model(**head)).decode()} for name, head in HEADS.items()}
    return models | {
        "words": {"tokens": words},
        "bytes": {"tokens": learned_bytes, "merges": lines(merges)},
        "ended bytes": {"tokens": ended_bytes, "merges": lines(ended)},
        "ended letters": {"tokens": ended_letters, "merges": lines(of_letters)},
    }


NORMAL, UNKNOWN, CONTROL, USER_DEFINED, BYTE = 1, 2, 3, 4, 6


def model(first, unk, merges=False, plain=False):
    """A model of SentencePiece, whose pieces begin with the ones named; a plain one, and one of merges, change no text."""
    made = sentencepiece.ModelProto()
    for text, kind in first.items():
        made.pieces.add(piece=text, score=0.0, type=kind)
    known, _ = learned(pre_tokenizers.Metaspace(), 30)
    known += [text for text in "HWx`'\"" if text not in known]
    for n, text in enumerate(known):
        if text not in first:
            made.pieces.add(piece=text, score=-4 - n / 64 + len(text) / 2, type=NORMAL)
    made.trainer_spec.model_type = 2 if merges else 1
    made.trainer_spec.unk_id, made.trainer_spec.unk_piece = list(first).index(unk), unk
    made.trainer_spec.bos_id = made.trainer_spec.eos_id = made.trainer_spec.pad_id = -1
    if BYTE in first.values():
        made.trainer_spec.byte_fallback = True
    made.trainer_spec.vocab_size = len(made.pieces)
    if merges or plain:
        made.normalizer_spec.remove_extra_whitespaces = False
    else:
        made.normalizer_spec.precompiled_charsmap = charsmap()
    return made.SerializeToString(deterministic=True)


LLAMA = {"<unk>": UNKNOWN, "<s>": CONTROL, "</s>": CONTROL, **{f"<0x{byte:02X}>": BYTE for byte in range(256)}}
HEADS = {
    "fairseq": {"first": {"<unk>": UNKNOWN, "<s>": CONTROL, "</s>": CONTROL}, "unk": "<unk>"},
    "T5": {"first": {"<pad>": CONTROL, "</s>": CONTROL, "<unk>": UNKNOWN}, "unk": "<unk>"},
    "ALBERT": {"first": {"<pad>": CONTROL, "<unk>": UNKNOWN, "[CLS]": CONTROL, "[SEP]": CONTROL, "[MASK]": CONTROL, "fox": USER_DEFINED}, "unk": "<unk>"},
    "DeBERTa": {"first": {"[PAD]": CONTROL, "[CLS]": CONTROL, "[SEP]": CONTROL, "[UNK]": UNKNOWN}, "unk": "[UNK]"},
    "XLNet": {"first": {"<unk>": UNKNOWN, **dict.fromkeys(["<s>", "</s>", "<cls>", "<sep>", "<pad>", "<mask>", "<eod>", "<eop>"], CONTROL)}, "unk": "<unk>"},
    "BigBird": {"first": {"<pad>": CONTROL, "</s>": CONTROL, "<s>": CONTROL, "<unk>": UNKNOWN, "[CLS]": CONTROL, "[SEP]": CONTROL, "[MASK]": CONTROL}, "unk": "<unk>"},
    "words with a purpose": {"first": {"<pad>": CONTROL, "<unk>": UNKNOWN, "[CLS]": USER_DEFINED, "[SEP]": USER_DEFINED, "[MASK]": USER_DEFINED, "fox": USER_DEFINED}, "unk": "<unk>"},
    "Llama": {"first": LLAMA, "unk": "<unk>", "merges": True},
    "Llama by cost": {"first": LLAMA, "unk": "<unk>", "plain": True},
}
BERT = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
ROBERTA = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
END = ["<|endoftext|>"]
NEW = {"files": {"added_tokens.json": {"newword": "+0", "<new>": "+1"}, "special_tokens_map.json": {"additional_special_tokens": ["<new>"]}}}
DECODER = {"config": {"added_tokens_decoder": {
    "+0": {"content": "newword", "lstrip": False, "normalized": True, "rstrip": False, "single_word": False, "special": False},
    "+1": {"content": "<new>", "lstrip": False, "normalized": False, "rstrip": True, "single_word": False, "special": True},
}}}
LISTED = {"config": {"additional_special_tokens": ["<new>"]}}
WORDS = [{}, {"config": {"do_lower_case": False}}, {"config": {"strip_accents": False, "tokenize_chinese_chars": False}}, NEW, DECODER, LISTED]
BYTES = [{}, {"config": {"add_prefix_space": True}}, {"config": {"add_prefix_space": False}}, {"config": {"add_bos_token": True}}, NEW, DECODER]
LANGUAGES = ["en", "zh", "de", "es"]
WHISPER = ["<|startoftranscript|>", *(f"<|{code}|>" for code in LANGUAGES), "<|translate|>", "<|transcribe|>", "<|notimestamps|>"]
WHISPERED = [{}, *({"config": config} for config in (
    {"predict_timestamps": True}, {"language": "english", "task": "transcribe"}, {"language": "de"}, {"task": "translate"}, {"language": "German", "task": "translate"}, {"add_prefix_space": True},
))]
FUNNEL = ["<pad>", "<unk>", "<cls>", "<sep>", "<mask>", "<s>", "</s>"]
MPNET = ["<s>", "<pad>", "</s>", "<unk>", "[UNK]", "<mask>"]

# By class: the vocabulary, the special tokens before it and behind it, and the variants.
CLASSES = {
    **{name: ("words", BERT, [], WORDS) for name in ("BertTokenizer", "DistilBertTokenizer", "ElectraTokenizer", "LayoutLMTokenizer")},
    **{name: ("words", BERT, [], WORDS[:4]) for name in (
        "MobileBertTokenizer", "ConvBertTokenizer", "LxmertTokenizer", "SqueezeBertTokenizer", "DPRContextEncoderTokenizer", "DPRQuestionEncoderTokenizer",
        "DPRReaderTokenizer", "LayoutLMv2Tokenizer",
    )},
    "SplinterTokenizer": ("words", [*BERT, "[QUESTION]"], [], WORDS[:4]),
    "FunnelTokenizer": ("words", FUNNEL, [], WORDS),
    "MPNetTokenizer": ("words", MPNET[:4], MPNET[4:], WORDS),
    "GPT2Tokenizer": ("bytes", [], END, BYTES),
    "CodeGenTokenizer": ("bytes", [], END, BYTES[:4]),
    "GPTNeoXTokenizer": ("bytes", ["<|endoftext|>", "<|padding|>"], [], BYTES),
    "Qwen2Tokenizer": ("bytes", [], END, BYTES),
    "Qwen3_5Tokenizer": ("bytes", [], END, BYTES[:1]),
    "CohereTokenizer": ("bytes", ["<PAD>", "<UNK>", "<CLS>", "<SEP>", "<MASK_TOKEN>", "<BOS_TOKEN>", "<EOS_TOKEN>", "<EOP_TOKEN>", "<|END_OF_TURN_TOKEN|>"], [], BYTES[:4]),
    **{name: ("bytes", ROBERTA, [], BYTES) for name in ("RobertaTokenizer", "BartTokenizer")},
    **{name: ("bytes", ROBERTA, [], BYTES[:4]) for name in ("LongformerTokenizer", "LEDTokenizer", "MvpTokenizer", "BlenderbotTokenizer", "LayoutLMv3Tokenizer")},
    "LukeTokenizer": ("bytes", ROBERTA, [], BYTES[:2]),
    "MarkupLMTokenizer": ("bytes", ROBERTA, [], [{"config": {"tags_dict": {"html": 0}}}, {"config": {"tags_dict": {"html": 0}, "add_prefix_space": True}}]),
    "DebertaTokenizer": ("bytes", BERT, [], BYTES),
    "WhisperTokenizer": ("bytes", [], [*END, *WHISPER], WHISPERED),
    "NougatTokenizer": ("bytes", ROBERTA, [], BYTES[:1]),
    "CLIPTokenizer": ("ended bytes", [], ["<|startoftext|>", "<|endoftext|>"], [{}, {"config": {"do_lower_case": True}}, NEW]),
    "OpenAIGPTTokenizer": ("ended letters", ["<unk>"], [], [{}, NEW]),
    "HerbertTokenizer": ("ended letters", ROBERTA, [], [{}, NEW]),
}
ADDED = [{}, NEW, DECODER]
SPACED = [{}, {"config": {"add_prefix_space": False}}, NEW, DECODER]
LANGUAGE = [{}, {"config": {"src_lang": "de_DE", "tgt_lang": "en_XX"}}, NEW]
LOWERED = [{}, {"config": {"do_lower_case": True}}, {"config": {"do_lower_case": False}}, {"config": {"keep_accents": True}}, NEW, DECODER]
# By class: the model, the name of its file, and the variants.
PIECES = {
    "AlbertTokenizer": ("ALBERT", "spiece.model", LOWERED + [{"config": {"add_bos_token": True}}]),
    "BigBirdTokenizer": ("BigBird", "spiece.model", SPACED),
    "CamembertTokenizer": ("fairseq", "sentencepiece.bpe.model", SPACED),
    "DebertaV2Tokenizer": ("DeBERTa", "spm.model", LOWERED + [{"config": {"split_by_punct": True}}]),
    "LayoutXLMTokenizer": ("fairseq", "sentencepiece.bpe.model", SPACED[:2]),
    "MBartTokenizer": ("fairseq", "sentencepiece.bpe.model", LANGUAGE),
    "MBart50Tokenizer": ("fairseq", "sentencepiece.bpe.model", LANGUAGE),
    "T5Tokenizer": ("T5", "spiece.model", ADDED + [{"config": {"extra_ids": 100, "additional_special_tokens": [f"<extra_id_{n}>" for n in range(100)]}}]),
    "UdopTokenizer": ("T5", "spiece.model", ADDED[:1]),
    "XLMRobertaTokenizer": ("fairseq", "sentencepiece.bpe.model", SPACED),
    "XLNetTokenizer": ("XLNet", "spiece.model", LOWERED),
    # Refused: version 5 gives other ids than the models were trained with, or Python does more than the model says.
    **{name: ("fairseq", "sentencepiece.bpe.model", [{}]) for name in ("BarthezTokenizer", "XGLMTokenizer", "NllbTokenizer", "SeamlessM4TTokenizer", "M2M100Tokenizer", "PLBartTokenizer", "BartphoTokenizer")},
    **{name: ("T5", "spiece.model", [{}]) for name in ("PegasusTokenizer", "SiglipTokenizer", "LasrTokenizer", "VideoPrismTokenizer", "BertGenerationTokenizer", "GPTSw3Tokenizer", "CpmTokenizer")},
    **{name: ("ALBERT", "spiece.model", [{}]) for name in ("FNetTokenizer", "RemBertTokenizer", "BertJapaneseTokenizer")},
}
# What T5's class counts, tokens with a purpose that are words of the model, and flags of added tokens.
SENTINELS = ["<extra_id_0> the <extra_id_4>", "<extra_id_5> fox <new>"]
COUNTED = [{"extra_ids": 5}, {"extra_ids": 0}, {"extra_ids": 103}, {"extra_ids": -1}, {"extra_ids": 5, "additional_special_tokens": ["<new>"]},
           {"extra_ids": 2, "additional_special_tokens": ["<extra_id_0>", "<extra_id_1>", "<new>"]}]
PURPOSES = ["the fox [MASK] over [SEP] the", "a\u2603b"]
FLAGS = {"lstrip": False, "normalized": False, "rstrip": False, "single_word": False, "special": False}
STRIPPED = {"add_bos_token": True, "legacy": False, "added_tokens_decoder": {
    "+0": {"content": "<left>", **FLAGS, "lstrip": True}, "+1": {"content": "<right>", **FLAGS, "rstrip": True},
    "+2": {"content": "<new>", **FLAGS, "lstrip": True, "rstrip": True, "special": True}, "+3": {"content": "hello", **FLAGS, "single_word": True},
}}
STRIPS = ["the <left> fox", "the <right> fox", "the<new> fox <new> the", "hellos hello the hello"]
MORE_PIECES = [
    *(("T5Tokenizer", "T5", "spiece.model", {"config": config, "texts": SENTINELS}) for config in COUNTED),
    ("AlbertTokenizer", "words with a purpose", "spiece.model", {"texts": PURPOSES}),
    ("DebertaV2Tokenizer", "words with a purpose", "spm.model", {"texts": PURPOSES}),
    ("DebertaV2Tokenizer", "words with a purpose", "spm.model", {"config": {"unk_token": "<unk>", "pad_token": "<pad>"}, "texts": PURPOSES}),
    *((name, of, "tokenizer.model", {"config": STRIPPED, "texts": STRIPS}) for name in ("LlamaTokenizer", "CodeLlamaTokenizer") for of in ("Llama", "Llama by cost")),
]
# Classes that transformers runs in Python, and other files that no one class reads: refused by name.
OTHERS = {
    **{name: ("words", BERT, [], [{}]) for name in ("BertJapaneseTokenizer", "ProphetNetTokenizer", "TapasTokenizer", "RoCBertTokenizer", "RoFormerTokenizer", "EsmTokenizer", "CpmAntTokenizer", "NoSuchTokenizer")},
    **{name: ("bytes", ROBERTA, [], [{}]) for name in ("BioGptTokenizer", "BlenderbotSmallTokenizer", "CTRLTokenizer", "ClvpTokenizer", "FlaubertTokenizer", "XLMTokenizer", "PreTrainedTokenizerFast", "Speech2TextTokenizer", "VitsTokenizer", "Wav2Vec2CTCTokenizer", "NoSuchTokenizer")},
}
# Where config.json alone says it, or says it otherwise.
MODELS = [
    ("words", BERT, [], None, {"model_type": "bert"}), ("words", FUNNEL, [], None, {"model_type": "funnel"}), ("words", MPNET[:4], MPNET[4:], None, {"model_type": "mpnet"}),
    ("bytes", [], END, None, {"model_type": "gpt2"}), ("bytes", ROBERTA, [], None, {"model_type": "roberta"}), ("bytes", ROBERTA, [], None, {"model_type": "bart"}),
    ("bytes", BERT, [], None, {"model_type": "deberta"}), ("bytes", [], [*END, *WHISPER], None, {"model_type": "whisper"}), ("bytes", [], END, "GPT2Tokenizer", {"model_type": "qwen2"}),
    ("ended bytes", [], ["<|startoftext|>", "<|endoftext|>"], None, {"model_type": "clip"}), ("ended letters", ["<unk>"], [], None, {"model_type": "openai-gpt"}),
    ("bytes", [], END, "GPT2Tokenizer", {"model_type": "gpt_bigcode"}), ("words", BERT, [], "BertTokenizer", {"model_type": "nomic_bert"}), ("bytes", [], END, "GPT2Tokenizer", {"model_type": "opt"}),
]


def cases():
    for name, (of, first, last, variants) in (*CLASSES.items(), *OTHERS.items()):
        for variant in variants:
            yield {"class": name, "of": of, "first": first, "last": last, **variant}
    for name, (of, file, variants) in PIECES.items():
        for variant in variants:
            yield {"class": name, "of": f"pieces of {of}", "file": file, **variant}
    for name, of, file, variant in MORE_PIECES:
        yield {"class": name, "of": f"pieces of {of}", "file": file, **variant}
    for of, first, last, name, model in MODELS:
        yield {"class": name, "of": of, "first": first, "last": last, "model": model}


def numbered(value, n):
    """With ids counted from the end of the vocabulary."""
    if isinstance(value, dict):
        return {numbered(key, n): numbered(item, n) for key, item in value.items()}
    if isinstance(value, str) and value[:1] == "+" and value[1:].isdigit():
        return n + int(value)
    return value


def n_of_pieces(name, model):
    """How many ids a class has over a model."""
    pieces = json.loads(CLASSES_FILE.read_text())["recipes"].get(name, {}).get("pieces", {})
    n = len(sentencepiece.ModelProto.FromString(base64.b64decode(model)).pieces)
    return len(pieces.get("first", [])) + n - pieces.get("from", 0) + len(pieces.get("last", []))


def folder_of(case, vocabulary, folder):
    folder.mkdir()
    tokens = [*case.get("first", []), *vocabulary.get("tokens", []), *case.get("last", [])]
    n = n_of_pieces(case["class"], vocabulary["model"]) if "model" in vocabulary else len(tokens)
    if "model" in vocabulary:
        (folder / case["file"]).write_bytes(base64.b64decode(vocabulary["model"]))
    elif "merges" in vocabulary:
        (folder / "vocab.json").write_text(json.dumps({text: n for n, text in enumerate(tokens)}))
        (folder / "merges.txt").write_text("".join(f"{line}\n" for line in ["#version: 0.2", *vocabulary["merges"]]))
    else:
        (folder / "vocab.txt").write_text("".join(f"{text}\n" for text in tokens))
    config = numbered(case.get("config", {}), n)
    if case["class"]:
        config["tokenizer_class"] = case["class"]
    if config:
        (folder / "tokenizer_config.json").write_text(json.dumps(config))
    for name, content in case.get("files", {}).items():
        (folder / name).write_text(json.dumps(numbered(content, n)))
    (folder / "config.json").write_text(json.dumps(case.get("model", {})))
    return folder


# They take words with their places on a page: what they make of a text is what the library makes of it.
OF_PAGES = ["LayoutLMv2Tokenizer", "LayoutLMv3Tokenizer", "LayoutXLMTokenizer", "MarkupLMTokenizer", "UdopTokenizer"]


def judged(case, vocabulary):
    with tempfile.TemporaryDirectory() as scratch:
        try:
            tokenizer = AutoTokenizer.from_pretrained(folder_of(case, vocabulary, Path(scratch) / "folder"))
            if case["class"] in OF_PAGES:
                tokenizer = tokenizer.backend_tokenizer
                ids = [tokenizer.encode(text).ids for text in TEXTS]
                return {"ids": ids, "bare": [tokenizer.encode(text, add_special_tokens=False).ids for text in TEXTS]}
            texts = TEXTS + case.get("texts", [])
            ids = [tokenizer(text)["input_ids"] for text in texts]
            return {
                "ids": ids,
                "bare": [tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts],
                "back": [tokenizer.decode(row) for row in ids],
                **({"shown": [tokenizer.decode(row, skip_special_tokens=True) for row in ids]} if "texts" in case else {}),
                "special": {name: getattr(tokenizer, f"{name}_token_id") for name in NAMES if getattr(tokenizer, f"{name}_token_id", None) is not None},
                **({"variables": tokenizer.special_tokens_map} if FIVE else {}),
            }
        except Exception as error:
            return {"error": type(error).__name__}


def main():
    path = HERE / "slow.json"
    before = path.read_text() if path.exists() else '{"cases": []}'
    known = {json.dumps({key: value for key, value in case.items() if key != "found"}): case.get("found", {}) for case in json.loads(before)["cases"]}
    version, shared, rows = transformers.__version__, vocabularies(), []
    for case in cases():
        if FIVE:
            # What version 4 found beside it stays.
            found = known.get(json.dumps(case), {}) | {version: judged(case, shared[case["of"]])}
        else:
            found = known[json.dumps(case)]
            five, made = next(value for key, value in found.items() if key.startswith("5.")), judged(case, shared[case["of"]])
            other = "other ids" if (made.get("ids"), made.get("bare")) != (five.get("ids"), five.get("bare")) else "other texts"
            said = "fails" if "error" in made else "the same" if made == {key: value for key, value in five.items() if key != "variables"} else other
            found[version] = made if "error" in five else said
        rows.append({**case, "found": found})
    write = lambda value: json.dumps(value, ensure_ascii=False)
    lists = ",\n".join(f"  {write(name)}: {write(vocabulary)}" for name, vocabulary in shared.items())
    text = f'{{\n "texts": {write(TEXTS)},\n "vocabularies": {{\n{lists}\n }},\n "cases": [\n' + ",\n".join("  " + write(row) for row in rows) + "\n ]\n}\n"
    if sys.argv[1:] == ["--check"]:
        sys.exit(0 if before == text else "slow.json is not what the library gives now")
    path.write_text(text)


if __name__ == "__main__":
    main()
