"""Writes patterns.json: what the `tokenizers` library, whose expressions are Oniguruma's, makes of texts by regular expressions.

    patterns.py [--check]

`sets` has for expressions of single characters the first digits of the SHA-256 of what is left of `characters` (first, behind the
last, step) when what is matched is removed. `cases` has for other expressions every text with what is matched replaced by a mark,
`null` where the library refuses the expression. `splits` has the digest of how the first texts of corpus.json, in lines, are cut by
the expressions of plugins/gguf/src/tokenizer/pre.json. `unfollowed` are those that the library takes and apr refuses, with a word of
why.
"""

import hashlib
import json
import sys
from importlib.metadata import version
from pathlib import Path

from tokenizers import Regex, normalizers, pre_tokenizers

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
MARK = "\u2039"

CHARACTERS = [
    [0, 0x3400, 1], [0x3400, 0x4DC0, 61], [0x4DC0, 0x4E00, 1], [0x4E00, 0xA000, 61], [0xA000, 0xAC00, 1],
    [0xAC00, 0xD7A4, 61], [0xD7A4, 0xD800, 1], [0xE000, 0xF900, 61], [0xF900, 0x12000, 1], [0x12000, 0x16000, 5],
    [0x16000, 0x17000, 1], [0x17000, 0x18D00, 61], [0x18D00, 0x1B300, 3], [0x1BC00, 0x1BD00, 1], [0x1CC00, 0x1D000, 1],
    [0x1D000, 0x20000, 1], [0x20000, 0xE0000, 997], [0xE0000, 0xE0200, 1], [0xE0200, 0x110000, 997],
]

TEXTS = [
    "aXb\nc\r\nd\u2028e\u2029f\x85g\x0bh\x0ci \t j\n",
    "straße STRASSE ſtraße kK\u212a åÅ\u212b ǅǆǄ İiıI ΣσςﬁFIfi ß ẞ ss SS sS K",
    "foo123bar 45 abab xyxy aa bb abc\nfoo\nbar\n",
    "e\u0301a\u0308 👨\u200d👩\u200d👧 a\u200cb 🇩🇪 x²y³ ¼½¾ ٣४ 각 日本語 _ \u203f",
    "",
    "\n",
    "a-]^[&~ ss{2} (x) a{,} \\ } . R X N k Q 9",
]

PROPERTIES = """L N M P S Z C Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs Zl Zp Cc Cf Co Cn LC Any Assigned ASCII
Alpha Alphabetic Alnum Blank Cntrl Digit Graph Lower Print Punct Space Upper XDigit Word White_Space Uppercase Lowercase
Han Hiragana Katakana Hangul Latin Greek Cyrillic Arabic Hebrew Devanagari Thai Bengali Tamil Armenian Georgian Ethiopic Khmer
Mongolian Tibetan Common Inherited Emoji Emoji_Presentation Emoji_Modifier Emoji_Component Extended_Pictographic Ideographic
Unified_Ideograph Math ID_Start ID_Continue XID_Start XID_Continue Dash Hex_Digit ASCII_Hex_Digit Diacritic Extender
Default_Ignorable_Code_Point Noncharacter_Code_Point Variation_Selector Pattern_White_Space Cased Case_Ignorable Letter
Uppercase_Letter Decimal_Number Punctuation Symbol Separator Other Mark Number ^L ^Han""".split()
BRACKETS = "alnum alpha ascii blank cntrl digit graph lower print punct space upper word xdigit".split()
SETS = (
    [r"\w", r"\W", r"[\w]", r"[\W]", r"[^\w]", r"\d", r"\D", r"[\d]", r"\s", r"\S", r"[^\s]", r"\h", r"\H", r"[\h]", r"\R", r"\N"]
    + [r"\O", ".", "(?m).", r"[\p{word}]", r"[^\p{word}]", r"\P{word}", r"[\w&&[^\d]]", r"[^\w\s]", r"[^\S\n]", r"[\p{L}&&\p{Lu}]"]
    + ["(?i)[a-z]", "(?i)[^k]", "(?i)k", "(?i)å", "(?i)ǆ", "(?i)σ", "(?i)i", r"(?i)\p{Lu}", r"(?i)[\x{10400}-\x{10410}]", "(?i)s", "(?i)[σ]"]
    + [rf"\p{{{name}}}" for name in PROPERTIES]
    + [rf"[[:{name}:]]" for name in BRACKETS]
    + [rf"[[:^{name}:]]" for name in BRACKETS]
)

CASES = [
    # Places.
    "^", "$", r"^\w", r"\w$", r"^.*$", r"\A.", r".\z", r".\Z", r"\Z", r"\z", r"\A", r"\b", r"\B", r"\b\w+\b", r"\B.", r"(?<=\b|\n)b", "(?m)^.", "^$",
    "(?=a)", "(?!a)", r"(?<=o)\w", r"(?<!o)\w", "(?<!a|bc)d", r"(?<!\S)\w+", r"o\K\w", r"\K", r"a\Kb",
    # Dots and options.
    "(?m).", "(?m:a.)", "(?-m).", "a(?i)b|c", "(?:a(?i)x|B)|c", "(?i)(?-i:S)s?x", "(?mi-x:a.)", "(?x) a b # c", "(?x: a +) b", "(?x)[ a]\\ ", "(?#c)a", "a(?#c\\))+",
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)", "(?i)k", "(?i)s[s]", "(?i)[s][s]", "(?i)s{2}", "(?i)ss+", "(?i)s(s)", "(?i:s)s", "(?i)(?:s|x)s", "(?i)[^ß]", "(?i)[k-s]+",
    # Repetitions.
    "a*", "a+?", "a??", "a*+", "a++a", "a?+", "(?:ab){2}", "a{2}?", "a{1,2}?", "a{1,2}+b", "a{2}+", "a{,2}", "a{,}", "a{x", "a{3,1}", "a{1}", "a**", "a+?+",
    "a{2,}", "(?:a|b)*", "(?>a|ab)c", "(?:)", "", "a|", "a||b", "|a", r"\w++\d", r"\w*+\w", "b*", "(?:a?)*b",
    # Groups.
    r"(\w)\1", r"(?<x>\w)\k<x>", r"(?<x>a)(b)\k<x>", r"(?'x'a)\k'x'", r"(\w)\k<1>", r"(a)(b)\k<-2>", r"\18", r"(a)\10", "((a)b)", "(?=(a))\\1",
    # Characters.
    r"\x{e9}", r"\u00e9", r"\xc3\x9f", r"[\xc3\x9f]", r"\o{141}", r"\141", r"\0", r"\x61", r"\t|\n|\f|\v|\a|\e|\r", r"[\b]", r"\cJ", r"\C-J", r"[\cJ]", r"\q\<", r"\-|\]|\^|\{", r"\Qa\E", r"\pL", "]", "}", "{",
    # Brackets.
    "[]a]", "[^]a]", "[a-]", "[-a]", "[--a]", "[a-z-9]", r"[a\-z]", "[a&&]", "[a-z&&[^aeiou]]", "[a-z&&aeiou]", "[[a-c]x]", "[^[a-c]x]", "[a[b]-]", "[[:alpha:]_]", "[[:alpha]:]", "[&]", "[a&b]", "[~]", "[a~~b]", r"[\R\X\N\K]", r"[\p{L}--a]", r"[\w-]", r"[\w-&&a-]", "[ ]", "[#]", r"[\x{61}-\x{63}]", r"[^\x{0}-\x{10ffff}]", "[.]", "[$^]", "[一-鿿]",
    # What the library refuses.
    "(?s).", r"\p{Script=Han}", r"\p{L&}", r"[a-\d]", r"[\d-a]", "^*", "(?=a)*", "[[:foo:]]", "(?P<x>a)", "a)", "(a", "[a", "*a", r"\xe9", r"(a)(?<x>b)\1", "[z-a]", "{2}", "+", r"(?<x>a)\k<y>", r"\p{Nonsense}",
]

UNFOLLOWED = {
    r"\X": "text segment", r"\y": "text segment", r"\Y": "text segment", r"\G": "search start", "(?~ab)": "absent operator", "(?W)\\w": "the option `W`",
    "(?y{w})\\X": "the option `y`", "(?i)ss": "case-insensitive `ss`", "(?i)fi": "case-insensitive `fi`", "(?i)ß": "case-insensitive `ß`", "(?i)s(?:s)": "case-insensitive `ss`",
    r"(?i)\x73\x73": "case-insensitive `ss`", "(?i)[ßa]": "in a case-insensitive set", r"(?i)[\p{L}]": "in a case-insensitive set", "(?i)strasse": "case-insensitive", "(?i)cost": "case-insensitive `st`", r"(?i)(a)\1": "case-insensitive backreference",
    r"(a)(?(1)b|c)": "a condition", "(*FAIL)": "a callout", "(?{x})": "a callout", r"\M-a": "high bit", r"\x{61 62}": "several character codes", r"\p{In_Basic_Latin}": "the property `In_Basic_Latin`",
    "(?<a>.)(?<a>.)\\k<a>": "two groups named `a`", r"(?<n>a|b\g<n>c)": "a subexpression call",
}


def digest(text):
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def characters():
    return "".join(chr(code) for first, last, step in CHARACTERS for code in range(first, last, step))


def left(pattern, text):
    return "".join(piece for piece, _ in pre_tokenizers.Split(Regex(pattern), "removed").pre_tokenize_str(text))


def marked(pattern):
    try:
        step = normalizers.Replace(Regex(pattern), MARK)
    except Exception:
        return None
    return [step.normalize_str(text) for text in TEXTS]


def patterns_of(step):
    if isinstance(step, dict):
        if "Regex" in step:
            yield step["Regex"]
        for inner in step.values():
            yield from patterns_of(inner)
    if isinstance(step, list):
        for inner in step:
            yield from patterns_of(inner)


def cut(pattern, text):
    try:
        step = pre_tokenizers.Split(Regex(pattern), "isolated")
    except Exception:
        return None
    # A space becomes a mark too, and a piece that begins with one has no other before it.
    pieces = [piece.replace(" ", MARK) for piece, _ in step.pre_tokenize_str(text)]
    return digest("".join(piece if piece.startswith(MARK) else MARK + piece for piece in pieces))


def rows(name, table):
    inner = ",\n".join(f"  {json.dumps(key, ensure_ascii=False)}: {json.dumps(value, ensure_ascii=False)}" for key, value in table.items())
    return f' "{name}": {{\n{inner}\n }}'


def main():
    every = characters()
    assert all(marked(pattern) is not None for pattern in UNFOLLOWED)
    pre = json.loads((ROOT / "plugins/gguf/src/tokenizer/pre.json").read_text())
    splits = list(dict.fromkeys(patterns_of(pre)))
    corpus = "\n".join(json.loads((HERE / "corpus.json").read_text()))
    parts = [
        f' "made_by": {json.dumps({"tokenizers": version("tokenizers")})}',
        f' "characters": {json.dumps(CHARACTERS)}',
        f' "texts": {json.dumps(TEXTS, ensure_ascii=False)}',
        rows("sets", {pattern: digest(left(pattern, every)) for pattern in SETS}),
        rows("cases", {pattern: marked(pattern) for pattern in CASES}),
        rows("splits", {pattern: cut(pattern, corpus) for pattern in splits}),
        rows("unfollowed", UNFOLLOWED),
    ]
    text = "{\n" + ",\n".join(parts) + "\n}\n"
    path = HERE / "patterns.json"
    if sys.argv[1:] == ["--check"]:
        sys.exit(0 if path.read_text() == text else "patterns.json is not what the library gives now")
    path.write_text(text)


if __name__ == "__main__":
    main()
