"""The small tokenizers that the models share, each trained on the text below: `make(kind, folder)` writes its files."""

import io
import json
import tempfile
from pathlib import Path

import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

TEXT = """The quick brown fox jumps over the lazy dog, and then the dog thinks about it for a while.
It wasn't the dog's fault; they'll say it's nobody's, but I'M SURE THEY'VE seen what he'd done.
There are 3 apples, 33 pears, 333 plums and 3333 grapes: 1234567890 pieces, 3.14159 each, on 2026-11-22.
the the the there there then then this this that that with with which which would would about about other other
and and are are for for from from have have not not you you was was were were what what when when where where
A model is a file of numbers, and a tokenizer is a table of words; either without the other is worth nothing.
Reading and writing, counting and sorting, thinking and trying: the small things that programs are doing all day long.
Der schnelle braune Fuchs springt über den faulen Hund, während die Straße im Süden größer wird.
Le cœur déçu mais l'âme plutôt naïve, Louÿs rêva de crapaüter en canoë au delà des îles, près du mälström.
El pingüino Wenceslao hizo kilómetros bajo exhaustiva lluvia y frío; añoraba a su querido cachorro. ¿Por qué? ¡Así!
Съешь же ещё этих мягких французских булок, да выпей чаю. Привет, мир! Это небольшой текст на русском языке.
Ταχίστη αλώπηξ βαφής ψημένη γη, δρασκελίζει υπέρ νωθρού κυνός.
敏捷的棕色狐狸跳过了懒狗。我想在苹果公司工作,因为那里的人很好。今天的天气很好,我们去公园吧。
いろはにほへと ちりぬるを。吾輩は猫である。名前はまだ無い。カタカナもあります。
다람쥐 헌 쳇바퀴에 타고파. 안녕하세요 세계, 오늘 날씨가 좋습니다.
نص حكيم له سر قاطع وذو شأن عظيم مكتوب على ثوب أخضر. مرحبا بالعالم، كيف حالك؟
דג סקרן שט בים מאוכזב ולפתע מצא לו חברה. नमस्ते दुनिया, यह एक छोटा पाठ है। สวัสดีชาวโลก
🚀 (normal) 😶‍🌫️ (joined) ✅ 🦙🦙 🇩🇪 👩‍👩‍👧 ½ ² Ⅷ ﬁ ａｂｃ e\u0301 \u00e9 \u200b \u00a0 \ufeff
def main(argv: list[str]) -> int:\n    for index, value in enumerate(argv):\n        if value == "--help":\n            print(f"{index}: {value}")\n            return 0\n    return 1
fn main() {\n\tlet mut total = 0u64;\n\tfor x in 0..10 {\n\t\ttotal += x * x;\n\t}\n\tprintln!("{total}");\n}
#include <stdio.h>\r\nint main(void) { printf("%d\\n", 1 << 20); return 0; } // a comment /* and another */
SELECT name, count(*) FROM users WHERE age >= 18 AND name <> 'x' GROUP BY name ORDER BY 2 DESC;
<html><body class="page"><p id='a'>text &amp; more</p></body></html> {"key": [1, 2.5, null, true], "other": "value"}
for for for in in in return return print print self self.value = value; self.index += 1; if if not not None: else: pass
  two spaces   three    four     five\n\n\n\tTabs\t\tand \t mixed \n \n  lines   \n
------======= ''''''```````\"\"\"\"......!!!!!!?????? ... -- __init__ snake_case camelCase PascalCase SCREAMING_CASE kebab-case
https://example.org/path/to/file.html?query=1&other=2#part user@example.org C:\\Windows\\System32 /usr/local/bin/thing
"""

LINES = [line.replace("\\n", "\n").replace("\\r", "\r").replace("\\t", "\t") for line in TEXT.splitlines()]
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
          r"|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"
DEEPSEEK_V3 = [
    r"\p{N}{1,3}",
    "[一-龥\u3040-ゟ゠-ヿ]+",
    r'''[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*'''
    r"|\s*[\r\n]+|\s+(?!\S)|\s+",
]


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behavior=behavior, invert=invert)


def bytes_only():
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)


def gpt2_words():
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)


def template(single, pair, special):
    return processors.TemplateProcessing(single=single, pair=pair, special_tokens=special)


def byte_level(size, first, pre_tokenizer, last=(), normalizer=None, post=None, lines=LINES, **model):
    """Byte-level BPE. `first` are special tokens at the head of the vocabulary, `last` added ones behind it."""
    tokenizer = Tokenizer(models.BPE(**model))
    if normalizer is not None:
        tokenizer.normalizer = normalizer
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=size, special_tokens=list(first), show_progress=False,
                                  initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()))
    tokenizer.train_from_iterator(lines, trainer)
    for token in last:
        tokenizer.add_tokens([token]) if isinstance(token, AddedToken) and not token.special else tokenizer.add_special_tokens([token])
    tokenizer.post_processor = post(tokenizer) if post else processors.ByteLevel(trim_offsets=False)
    return tokenizer


def llama3(ignore_merges):
    begin = "<|begin_of_text|>"
    names = [begin, "<|end_of_text|>", "<|reserved_special_token_0|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]

    def post(tokenizer):
        ids = [(begin, tokenizer.token_to_id(begin))]
        return processors.Sequence([processors.ByteLevel(trim_offsets=False),
                                    template(f"{begin} $A", f"{begin} $A {begin}:1 $B:1", ids)])

    return byte_level(480, (), pre_tokenizers.Sequence([split(LLAMA3), bytes_only()]), names, post=post, ignore_merges=ignore_merges)


def olmo2():
    names = [AddedToken("<|endoftext|>", special=True), AddedToken("|||IP_ADDRESS|||", normalized=False), AddedToken("<|pad|>", special=True)]
    return byte_level(440, (), pre_tokenizers.Sequence([split(LLAMA3), bytes_only()]), names)


def qwen2(lines=LINES):
    names = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", AddedToken("<tool_call>", normalized=False), AddedToken("</tool_call>", normalized=False)]
    return byte_level(460, (), pre_tokenizers.Sequence([split(QWEN2), bytes_only()]), names, normalizer=normalizers.NFC(), lines=lines)


def gpt2():
    return byte_level(420, (), gpt2_words(), ["<|endoftext|>"])


def gptneox():
    runs = [AddedToken(" " * n, normalized=True) for n in (8, 4, 2)]
    return byte_level(420, ["<|endoftext|>", "<|padding|>"], gpt2_words(), runs, normalizer=normalizers.NFC())


def phi2():
    runs = [AddedToken(" " * n, normalized=False) for n in (4, 3, 2)] + [AddedToken("\t\t", normalized=False)]
    return byte_level(420, (), gpt2_words(), ["<|endoftext|>"] + runs)


def roberta():
    first = ["<s>", "<pad>", "</s>", "<unk>"]
    mask = AddedToken("<mask>", lstrip=True, normalized=False, special=True)
    post = lambda t: processors.RobertaProcessing(("</s>", 2), ("<s>", 0), trim_offsets=True, add_prefix_space=False)
    return byte_level(420, first, gpt2_words(), [mask], post=post)


def starcoder():
    words = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), gpt2_words()])
    return byte_level(440, ["<|endoftext|>", "<fim_prefix>", "<fim_middle>", "<fim_suffix>", "<fim_pad>", "<repo_name>"], words)


def command_r():
    words = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), gpt2_words()])
    first = ["<PAD>", "<UNK>", "<CLS>", "<SEP>", "<MASK_TOKEN>", "<BOS_TOKEN>", "<EOS_TOKEN>", "<EOP_TOKEN>"]
    last = ["<|START_OF_TURN_TOKEN|>", "<|END_OF_TURN_TOKEN|>", "<|USER_TOKEN|>"]
    post = lambda t: template("<BOS_TOKEN> $A", "<BOS_TOKEN> $A $B:1", [("<BOS_TOKEN>", 5)])
    return byte_level(440, first, words, last, normalizer=normalizers.NFC(), post=post)


def falcon():
    words = pre_tokenizers.Sequence([
        pre_tokenizers.Punctuation(behavior="contiguous"), gpt2_words(),
        pre_tokenizers.Digits(individual_digits=False), split("[0-9][0-9][0-9]")])
    first = [">>TITLE<<", ">>ABSTRACT<<", ">>INTRODUCTION<<", "<|endoftext|>"]
    return byte_level(430, first, words)


def glm4():
    last = ["<|endoftext|>", "[MASK]", "[gMASK]", "[sMASK]", "<sop>", "<eop>", "<|system|>", "<|user|>", "<|assistant|>", "<|observation|>"]
    words = pre_tokenizers.Sequence([split(LLAMA3), bytes_only()])
    post = lambda t: template("[gMASK] <sop> $A", "[gMASK] <sop> $A $B:1", [("[gMASK]", t.token_to_id("[gMASK]")), ("<sop>", t.token_to_id("<sop>"))])
    return byte_level(440, (), words, last, post=post, ignore_merges=True)


def nemotron_sp():
    proto = sentencepiece_model(model_type="bpe", vocab_size=720, byte_fallback=True, character_coverage=0.98,
                                normalization_rule_name="identity", split_digits=True, allow_whitespace_only_pieces=True,
                                remove_extra_whitespaces=False, pad_id=0, unk_id=1, bos_id=2, eos_id=3)
    special = [AddedToken(name, normalized=False, special=True) for name in ("<pad>", "<unk>", "<s>", "</s>")]
    return sp_bpe(proto, True, special), proto


def bloom():
    words = pre_tokenizers.Sequence([split(BLOOM), bytes_only()])
    return byte_level(430, ["<unk>", "<s>", "</s>", "<pad>"], words)


def deepseek():
    words = pre_tokenizers.Sequence([split(p) for p in DEEPSEEK_V3] + [bytes_only()])
    begin = "<｜begin▁of▁sentence｜>"
    last = [begin, "<｜end▁of▁sentence｜>", AddedToken("<｜fim▁hole｜>", normalized=False), AddedToken("User:", normalized=False)]
    post = lambda t: template(f"{begin} $A", f"{begin} $A {begin}:1 $B:1", [(begin, t.token_to_id(begin))])
    return byte_level(430, (), words, last, post=post)


def wordpiece():
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    tokenizer.train_from_iterator(LINES, trainers.WordPieceTrainer(vocab_size=900, special_tokens=special, show_progress=False))
    tokenizer.decoder = decoders.WordPiece()
    tokenizer.post_processor = template("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1", [("[CLS]", 2), ("[SEP]", 3)])
    return tokenizer


def sentencepiece_model(**options):
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter([line for text in LINES for line in text.split("\n") if line]), model_writer=model, num_threads=1,
        hard_vocab_limit=False, minloglevel=2, max_sentence_length=4096, **options)
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model.getvalue())
    return proto


def sp_bpe_merges(pieces):
    """The pairs that make each piece, in the order in which SentencePiece would merge: the piece's rank, then its left part's."""
    ids = {piece.piece: number for number, piece in enumerate(pieces) if piece.type in (1, 4)}
    merges = []
    for piece in ids:
        pairs = [(ids[piece[:cut]], ids[piece[cut:]], piece[:cut], piece[cut:])
                 for cut in range(1, len(piece)) if piece[:cut] in ids and piece[cut:] in ids]
        merges += [(left, right) for *_, left, right in sorted(pairs)]
    return merges


def sp_bpe(proto, prefix, special):
    """The tokenizer.json of a SentencePiece BPE model, as transformers 4 wrote it for Llama 2 and Gemma."""
    pieces = proto.pieces
    tokenizer = Tokenizer(models.BPE({p.piece: n for n, p in enumerate(pieces)}, sp_bpe_merges(pieces), unk_token="<unk>",
                                     fuse_unk=True, byte_fallback=True))
    replace = normalizers.Replace(" ", "▁")
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), replace]) if prefix else replace
    if not prefix:
        tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    decoder = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence(decoder + ([decoders.Strip(" ", 1, 0)] if prefix else []))
    for token in special:
        tokenizer.add_special_tokens([token]) if token.special else tokenizer.add_tokens([token])
    begin = "<s>" if prefix else "<bos>"
    tokenizer.post_processor = template(f"{begin} $A", f"{begin} $A {begin}:1 $B:1", [(begin, tokenizer.token_to_id(begin))])
    return tokenizer


def llama_sp():
    proto = sentencepiece_model(model_type="bpe", vocab_size=720, byte_fallback=True, character_coverage=0.98,
                                normalization_rule_name="identity", split_digits=True, allow_whitespace_only_pieces=True,
                                remove_extra_whitespaces=False)
    special = [AddedToken(name, normalized=False, special=True) for name in ("<unk>", "<s>", "</s>")]
    return sp_bpe(proto, True, special), proto


def phi3_sp():
    tokenizer, proto = llama_sp()
    for name in ("<|endoftext|>", "<|assistant|>", "<|user|>", "<|end|>"):
        tokenizer.add_special_tokens([AddedToken(name, rstrip=name != "<|endoftext|>", normalized=False, special=True)])
    return tokenizer, proto


def gemma_sp():
    user = ["<start_of_turn>", "<end_of_turn>", "\n", "\n\n", "▁▁", "▁▁▁▁", "<table>"]
    proto = sentencepiece_model(model_type="bpe", vocab_size=720, byte_fallback=True, character_coverage=0.98,
                                normalization_rule_name="identity", split_digits=True, allow_whitespace_only_pieces=True,
                                add_dummy_prefix=False, remove_extra_whitespaces=False, pad_id=0, eos_id=1, bos_id=2, unk_id=3,
                                pad_piece="<pad>", eos_piece="<eos>", bos_piece="<bos>", user_defined_symbols=user)
    special = [AddedToken(name, normalized=False, special=True) for name in ("<pad>", "<eos>", "<bos>", "<unk>")]
    special += [AddedToken(name, normalized=False, special=name.endswith("turn>")) for name in user]
    return sp_bpe(proto, False, special), proto


def gemma4():
    """Gemma's pieces in tokenizer.json alone."""
    user = ["<|turn>", "<turn|>", "<|channel>", "<channel|>", "\n", "\n\n", "▁▁", "▁▁▁▁", "<table>"]
    proto = sentencepiece_model(model_type="bpe", vocab_size=720, byte_fallback=True, character_coverage=0.98,
                                normalization_rule_name="identity", split_digits=True, allow_whitespace_only_pieces=True,
                                add_dummy_prefix=False, remove_extra_whitespaces=False, pad_id=0, eos_id=1, bos_id=2, unk_id=3,
                                pad_piece="<pad>", eos_piece="<eos>", bos_piece="<bos>", user_defined_symbols=user)
    special = [AddedToken(name, normalized=False, special=True) for name in ("<pad>", "<eos>", "<bos>", "<unk>")]
    special += [AddedToken(name, normalized=False, special="|" in name) for name in user]
    return sp_bpe(proto, False, special)


def t5_rules(folder):
    """A normalization map as T5's is, but of some characters, so that it takes no 240 KB."""
    pairs = [(chr(0xFF01 + n), chr(0x21 + n)) for n in range(94)] + [("½", "1⁄2"), ("²", "2"), ("Ⅷ", "VIII"), ("ﬁ", "fi"), ("…", "...")]
    pairs += [(c, " ") for c in "\u00a0\u3000\u2003\ufeff"] + [("\u200b", ""), ("e\u0301", "é"), ("\t", " "), ("\n", " "), ("\r", " ")]
    path = Path(folder) / "rules.tsv"
    hexadecimal = lambda text: " ".join(f"{ord(c):X}" for c in text)
    path.write_text("".join(f"{hexadecimal(a)}\t{hexadecimal(b)}\n" for a, b in pairs))
    return str(path)


def t5_sp():
    with tempfile.TemporaryDirectory() as folder:
        return t5_with(t5_rules(folder))


def t5_with(rules):
    proto = sentencepiece_model(model_type="unigram", vocab_size=540, character_coverage=0.98, normalization_rule_tsv=rules,
                                pad_id=0, eos_id=1, unk_id=2, bos_id=-1, pad_piece="<pad>", eos_piece="</s>", unk_piece="<unk>")
    tokenizer = Tokenizer(models.Unigram([(p.piece, p.score) for p in proto.pieces], 2))
    tokenizer.normalizer = normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()])
    tokenizer.decoder = decoders.Metaspace()
    tokenizer.add_special_tokens(["<pad>", "</s>", "<unk>"] + [f"<extra_id_{n}>" for n in reversed(range(4))])
    tokenizer.post_processor = template("$A </s>", "$A </s> $B </s>", [("</s>", 1)])
    return tokenizer, proto


CHATML = ("{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
          "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}")
LLAMA3_CHAT = ("{{ bos_token }}{% for message in messages %}<|start_header_id|>{{ message['role'] }}<|end_header_id|>\n\n"
               "{{ message['content'] | trim }}<|eot_id|>{% endfor %}")

# kind: what makes it, the value of tokenizer.ggml.pre for its splitter, the name of its SentencePiece file, tokenizer_config.json.
KINDS = {
    "glm4": (glm4, "glm4", None, {"eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>", "model_max_length": 128000}),
    "nemotron-sp": (nemotron_sp, None, "tokenizer.model", {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "pad_token": "<pad>"}),
    "llama3": (lambda: llama3(True), "llama-bpe", None, {
        "bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>", "chat_template": LLAMA3_CHAT, "clean_up_tokenization_spaces": True,
        "model_max_length": 256, "model_input_names": ["input_ids", "attention_mask"]}),
    "olmo2": (olmo2, "dbrx", None, {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "pad_token": "<|pad|>",
                                    "unk_token": "<|endoftext|>"}),
    "qwen2": (qwen2, "qwen2", None, {
        "add_bos_token": False, "add_prefix_space": False, "bos_token": None, "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>",
        "unk_token": None, "chat_template": CHATML}),
    # The same with the answers of rerankers as tokens.
    "qwen2-answers": (lambda: qwen2(LINES + ["yes", "no"] * 60), "qwen2", None, {
        "add_bos_token": False, "add_prefix_space": False, "bos_token": None, "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>",
        "unk_token": None, "chat_template": CHATML}),
    "gpt2": (gpt2, "gpt-2", None, {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "unk_token": "<|endoftext|>",
                                   "add_prefix_space": False}),
    "gptneox": (gptneox, "gpt-2", None, {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "pad_token": "<|padding|>",
                                         "unk_token": "<|endoftext|>"}),
    "phi2": (phi2, "gpt-2", None, {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "unk_token": "<|endoftext|>"}),
    "roberta": (roberta, "gpt-2", None, {
        "bos_token": "<s>", "eos_token": "</s>", "cls_token": "<s>", "sep_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>",
        "mask_token": "<mask>", "trim_offsets": True}),
    "starcoder": (starcoder, "starcoder", None, {"bos_token": "<|endoftext|>", "eos_token": "<|endoftext|>", "unk_token": "<|endoftext|>"}),
    "command-r": (command_r, "command-r", None, {"add_bos_token": True, "add_eos_token": False, "bos_token": "<BOS_TOKEN>",
                                                 "eos_token": "<|END_OF_TURN_TOKEN|>", "pad_token": "<PAD>", "unk_token": "<UNK>"}),
    "falcon": (falcon, "falcon", None, {"eos_token": "<|endoftext|>", "model_max_length": 2048}),
    "bloom": (bloom, "bloom", None, {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}),
    "deepseek": (deepseek, "deepseek-v3", None, {
        "add_bos_token": True, "add_eos_token": False, "bos_token": "<｜begin▁of▁sentence｜>", "eos_token": "<｜end▁of▁sentence｜>",
        "pad_token": "<｜end▁of▁sentence｜>"}),
    "wordpiece": (wordpiece, "bert-bge", None, {
        "tokenizer_class": "BertTokenizer", "do_lower_case": True, "cls_token": "[CLS]", "mask_token": "[MASK]", "pad_token": "[PAD]",
        "sep_token": "[SEP]", "unk_token": "[UNK]", "strip_accents": None, "tokenize_chinese_chars": True}),
    "llama-sp": (llama_sp, None, "tokenizer.model", {
        "add_bos_token": True, "add_eos_token": False, "bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "legacy": False,
        "model_max_length": 256}),
    "phi3-sp": (phi3_sp, None, "tokenizer.model", {
        "add_bos_token": False, "add_eos_token": False, "bos_token": "<s>", "eos_token": "<|endoftext|>", "pad_token": "<|endoftext|>",
        "unk_token": "<unk>"}),
    "gemma-sp": (gemma_sp, None, "tokenizer.model", {
        "add_bos_token": True, "add_eos_token": False, "bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>",
        "unk_token": "<unk>"}),
    "gemma4": (gemma4, None, None, {
        "add_bos_token": True, "add_eos_token": False, "bos_token": "<bos>", "eos_token": "<eos>", "pad_token": "<pad>",
        "unk_token": "<unk>", "additional_special_tokens": ["<|turn>", "<turn|>", "<|channel>", "<channel|>"]}),
    "t5-sp": (t5_sp, None, "spiece.model", {
        "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>", "extra_ids": 4,
        "additional_special_tokens": [f"<extra_id_{n}>" for n in range(4)]}),
}


def pre_of(kind):
    return KINDS[kind][1] or "default"


def make(kind, folder: Path):
    """Writes tokenizer.json, tokenizer_config.json and, for SentencePiece, the model; returns their names."""
    build, _, sp_file, config = KINDS[kind]
    built = build()
    tokenizer, proto = built if sp_file else (built, None)
    folder.mkdir(parents=True, exist_ok=True)
    compact = json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False, separators=(",", ":"))
    (folder / "tokenizer.json").write_text(compact + "\n")
    added = {}
    for token in json.loads(tokenizer.to_str())["added_tokens"]:
        number = token.pop("id")
        added[str(number)] = token
    config = {"added_tokens_decoder": added, "tokenizer_class": "PreTrainedTokenizerFast"} | config
    (folder / "tokenizer_config.json").write_text(json.dumps(config, ensure_ascii=False, indent=1, sort_keys=True) + "\n")
    if proto:
        (folder / sp_file).write_bytes(proto.SerializeToString(deterministic=True))
    return sorted(path.name for path in folder.iterdir())
