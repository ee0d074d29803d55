"""Do tokenizers that apr wrote give the ids of their source? `tokenizers` of Hugging Face and `sentencepiece` judge.

usage: same_ids.py FOLDER

FOLDER is what `APR_TOKENIZERS_OUT=FOLDER cargo test -p apr-tests --test tokenizers` fills: NAME/{source,made,keys}/tokenizer.json
and, for SentencePiece, tokenizer.model. `made` is written from the source's tokenizer, `keys` from a GGUF file's keys.
"""

import itertools
import sys
from pathlib import Path

from tokenizers import Tokenizer

try:
    from sentencepiece import SentencePieceProcessor
except ImportError:
    SentencePieceProcessor = None

WORDS = """The quick brown fox|Ünïcödé façade naïve coöperate|Straße, Größe, Übermut|El niño comió jalapeños|Où est le garçon ?|
Привет, как дела?|Это предложение на русском.|Γειά σου Κόσμε|שלום עולם|مرحبا بالعالم|नमस्ते दुनिया|สวัสดีชาวโลก|你好，世界。|我想在apple工作1314151天～|
こんにちは世界|カタカナとひらがな|안녕하세요 세계|Xin chào thế giới|Zażółć gęślą jaźń|Çok güzel bir gün|🚀 launch 😶‍🌫️ ✅ 🦙🦙|👩‍👩‍👧 🇩🇪|e\u0301 vs \u00e9|ﬁne ligatures|
½ ² Ⅷ ①|ａｂｃ ＡＢＣ|def f(x): return x * 2|for (int i = 0; i < 10; ++i) { sum += a[i]; }|fn main() { println!("{}", 1); }|SELECT * FROM t WHERE a >= 10;|
{"key": [1, 2.5, null, true]}|<p class="x">text &amp; more</p>|https://example.org/a/b?c=d&e=f#g|user@example.org|C:\\Windows\\System32|snake_case camelCase kebab-case|
3 33 333 3333 33333 333333 3333333|3.14159 1,000,000 1e-5 0xFF|I've been 'told he's there, 'RE you sure? We'Ve a'lL|it's don't I'm you're|!!!??? ... --- === ***|''''''```````\"\"\"\"|
($100) 50% #tag @name|a|Z|7|.|é|中|🦙|\x00|\u200b|\ufeff|word\u00a0word|x\u3000y|<unk>|<0x41>|[PAD]|[CLS] inside|##ing|▁piece|Ġword|Ċ"""
SPACES = ["", " ", "  ", "   ", "    ", "        ", "\t", "\t\t", "\n", "\n\n", "\n\n\n", "\r\n", " \n", "\n ", " \t \n", "\u3000", "\u00a0"]


# What GGUF has no keys for: a normalizer of bytes (NFC), strip flags of added tokens, T5's tokens of tokenizer.json alone;
# and SentencePiece's types of pieces that tokenizer.json calls special. How many of the texts show it at most.
LOST = {("command-r", "keys"): 10, ("gpt-neox", "keys"): 10, ("mpt", "keys"): 10, ("stablelm", "keys"): 10,
        ("phi3", "keys"): 12, ("roberta", "keys"): 4, ("t5", "keys"): 48,
        ("phi3", "made", "sentencepiece"): 24, ("phi3", "keys", "sentencepiece"): 24}


def corpus(tokenizer):
    words = [word.strip("\n") for word in WORDS.split("|")]
    texts = list(words)
    texts += [space + word for space, word in itertools.product(SPACES[1:8], words[:12])]
    texts += [word + space for space, word in itertools.product(SPACES, words[24:32])]
    texts += [one + space + two for one, space, two in zip(words, itertools.cycle(SPACES), words[7:])]
    texts += [two + space + one for one, space, two in zip(words, itertools.cycle(SPACES[3:]), words[11:])]
    texts += [" ".join(pair) for pair in itertools.combinations(words[::4], 2)]
    texts += SPACES + [space * 3 + "x" + space for space in SPACES]
    special = [token.content for token in tokenizer.get_added_tokens_decoder().values()]
    for token in special:
        texts += [token, f"a{token}b", f"a {token} b", f" {token}", f"{token}{token}", f"{token}\n", token[:-1], token.upper()]
    return list(dict.fromkeys(texts))


def main(folder):
    compared, wrong = 0, 0
    for source in sorted(folder.glob("*/source/tokenizer.json")):
        name = source.parents[1].name
        first = Tokenizer.from_file(str(source))
        texts = corpus(first)
        assert len(texts) >= 500, f"{name}: {len(texts)} texts"
        for kind in ("made", "keys"):
            second = Tokenizer.from_file(str(source.parents[1] / kind / "tokenizer.json"))
            bad = [text for text in texts for flag in (True, False)
                   if first.encode(text, add_special_tokens=flag).ids != second.encode(text, add_special_tokens=flag).ids]
            compared, wrong = compared + len(texts), wrong + max(0, len(bad) - LOST.get((name, kind), 0))
            print(f"{name:12} {kind:5} {len(texts)} texts, {len(bad)} differ", *map(repr, bad[:3]))
            if bad:
                a, b = first.encode(bad[0]), second.encode(bad[0])
                print("   ", a.tokens[:20], b.tokens[:20])
            model = source.parents[1] / kind / "tokenizer.model"
            given = source.with_name("tokenizer.model") if source.with_name("tokenizer.model").exists() else source.with_name("spiece.model")
            if SentencePieceProcessor and model.exists() and given.exists():
                one, two = (SentencePieceProcessor(model_file=str(path)) for path in (given, model))
                bad = [text for text in texts if one.encode(text) != two.encode(text)]
                allowed = LOST.get((name, kind, "sentencepiece"), 0)
                compared, wrong = compared + len(texts), wrong + max(0, len(bad) - allowed)
                print(f"{name:12} {kind:5} {len(texts)} texts by sentencepiece, {len(bad)} differ", *map(repr, bad[:3]))
    print(f"{compared} texts compared, {wrong} differ that should not")
    return 0 if compared and not wrong else 1


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
