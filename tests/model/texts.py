"""The text that the model is trained on: the King James Bible and Debian Reference, from two packages of Debian, as documents.

    texts.py SCRATCH [--held-out]    prints what there is, or the text that is held out
"""

import gzip
import hashlib
import re
import subprocess
import sys
from pathlib import Path

# bible-kjv has the program that reads bible-kjv-text.
PACKAGES = ("bible-kjv-text", "bible-kjv", "debian-reference-en")
HELD_OUT = "Jonah"
BOOKS = {
    "Ge": "Genesis", "Exo": "Exodus", "Lev": "Leviticus", "Num": "Numbers", "Deu": "Deuteronomy", "Josh": "Joshua", "Jdgs": "Judges",
    "1Sm": "1 Samuel", "2Sm": "2 Samuel", "1Ki": "1 Kings", "2Ki": "2 Kings", "1Chr": "1 Chronicles", "2Chr": "2 Chronicles",
    "Neh": "Nehemiah", "Est": "Esther", "Psa": "Psalm", "Prv": "Proverbs", "Eccl": "Ecclesiastes", "SSol": "Song of Solomon",
    "Isa": "Isaiah", "Jer": "Jeremiah", "Lam": "Lamentations", "Eze": "Ezekiel", "Dan": "Daniel", "Hos": "Hosea", "Obad": "Obadiah",
    "Mic": "Micah", "Hab": "Habakkuk", "Zep": "Zephaniah", "Hag": "Haggai", "Zec": "Zechariah", "Mal": "Malachi", "Mat": "Matthew",
    "Rom": "Romans", "1Cor": "1 Corinthians", "2Cor": "2 Corinthians", "Gal": "Galatians", "Eph": "Ephesians", "Phi": "Philippians",
    "Col": "Colossians", "1Th": "1 Thessalonians", "2Th": "2 Thessalonians", "1Tim": "1 Timothy", "2Tim": "2 Timothy",
    "Phmn": "Philemon", "Heb": "Hebrews", "Jas": "James", "1Pet": "1 Peter", "2Pet": "2 Peter", "1Jn": "1 John", "2Jn": "2 John",
    "3Jn": "3 John", "Rev": "Revelation",
}


def unpacked(scratch):
    """The packages' files, fetched once."""
    root = Path(scratch) / "packages"
    if not (root / "complete").exists():
        root.mkdir(parents=True, exist_ok=True)
        subprocess.run(["apt-get", "download", *PACKAGES], cwd=root, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for package in root.glob("*.deb"):
            subprocess.run(["dpkg", "-x", package, root / "files"], check=True)
        (root / "complete").touch()
    return root


def chapters(files):
    """Of each chapter of the Bible: its book, its number, its verses."""
    read = subprocess.run([files / "usr/bin/bible", "-p", files / "usr/lib", "-f", "gen1:1-rev22:21"], check=True, capture_output=True)
    found = {}
    for line in read.stdout.decode("ascii").splitlines():
        place, verse = line.split(" ", 1)
        book, chapter = re.fullmatch(r"(\d?[A-Za-z]+)(\d+):\d+", place).groups()
        found.setdefault((BOOKS.get(book, book), int(chapter)), []).append(" ".join(verse.split()))
    return found


def sections(files):
    """The sections of Debian Reference, without tables and contents; paragraphs are one line each."""
    text = gzip.decompress((files / "usr/share/debian-reference/debian-reference.en.txt.gz").read_bytes()).decode().replace("\u00a0", " ")
    text = text[text.index("\nPreface\n", text.index("Table of Contents") + 200):]
    for section in re.split(r"\n(?=\d+\.\d+(?:\.\d+)*\. )", text):
        blocks = []
        for block in re.split(r"\n\s*\n", section):
            lines = [line.strip() for line in block.splitlines()]
            lines = [line for line in lines if line and line[0] not in "|+-"]
            commands = any(line[0] in "#$<{" or line.endswith(";") for line in lines)
            if lines:
                blocks.append(("\n" if commands else " ").join(lines))
        if len(blocks) > 1:
            yield "\n\n".join(blocks) + "\n"


def documents(scratch):
    """The documents to train on, pairs of a verse and the next one, and the text that is held out."""
    root = unpacked(scratch)
    held_out, bible, pairs = [], [], []
    for (book, number), verses in chapters(root / "files").items():
        text = f"{book} {number}\n\n" + "\n".join(verses) + "\n"
        if book == HELD_OUT:
            held_out.append(text)
        else:
            bible.append(text)
            pairs += zip(verses, verses[1:])
    return bible + list(sections(root / "files")), pairs, "\n".join(held_out)


def versions(scratch):
    """The packages as they are named, and the hash of all text."""
    names = sorted(path.name.removesuffix(".deb") for path in unpacked(scratch).glob("*.deb"))
    texts, _, held_out = documents(scratch)
    return {"packages": names, "sha256": hashlib.sha256("\0".join([*texts, held_out]).encode()).hexdigest()}


if __name__ == "__main__":
    texts, pairs, held_out = documents(sys.argv[1])
    if sys.argv[2:] == ["--held-out"]:
        print(held_out, end="")
    else:
        print(f"{len(texts)} documents of {sum(map(len, texts))} characters, {len(pairs)} pairs, {len(held_out)} characters held out")
        print(versions(sys.argv[1]))
