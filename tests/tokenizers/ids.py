"""Writes ids.json: what the `tokenizers` library makes of every text of corpus.json, by each tokenizer of tests/golden/tokenizers.

    ids.py [--check]

`ids` are the tokens of the first texts, with what is put around a text; `digests` has for every text how many tokens it has and the
first 4 digits of the SHA-256 of their ids, `plain` those of the ids with nothing put around, `decoded` and `stripped` those of
the text that the ids give back, with special tokens and without them, `long` the same as `digests` for all texts in lines, 60 times
over. Ids are joined by spaces.
"""

import hashlib
import json
import sys
from importlib.metadata import version
from pathlib import Path

from tokenizers import Tokenizer

HERE = Path(__file__).resolve().parent
KINDS = HERE.parent / "golden" / "tokenizers"
WHOLE = 30


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()[:4]


def joined(ids):
    return " ".join(map(str, ids))


def counted(ids):
    return f"{len(ids)}:{digest(joined(ids))}"


def of(kind, texts):
    tokenizer = Tokenizer.from_file(str(KINDS / kind / "tokenizer.json"))
    ids = [tokenizer.encode(text).ids for text in texts]
    plain = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    back = [[tokenizer.decode(row, skip_special_tokens=skip) for row in ids] for skip in (False, True)]
    return {
        "ids": ids[:WHOLE],
        "digests": " ".join(map(counted, ids)),
        "long": counted(tokenizer.encode("\n".join(texts * 60)).ids),
        "plain": digest("\n".join(map(joined, plain))),
        "decoded": " ".join(map(digest, back[0])),
        "stripped": " ".join(map(digest, back[1])),
    }


def main():
    texts = json.loads((HERE / "corpus.json").read_text())
    kinds = sorted(path.name for path in KINDS.iterdir())
    rows = [f' "made_by": {json.dumps({"tokenizers": version("tokenizers")})}']
    rows += [f" {json.dumps(kind)}: {json.dumps(of(kind, texts), separators=(',', ':'))}" for kind in kinds]
    text = "{\n" + ",\n".join(rows) + "\n}\n"
    path = HERE / "ids.json"
    if sys.argv[1:] == ["--check"]:
        sys.exit(0 if path.read_text() == text else "ids.json is not what the library gives now")
    path.write_text(text)


if __name__ == "__main__":
    main()
