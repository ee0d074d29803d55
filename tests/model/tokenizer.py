"""The model's own tokenizer: byte-level BPE with Llama 3's splitter, 1536 tokens, five of them special."""

import json

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, processors, trainers

SIZE = 1536
BEGIN, END, HEADER, END_HEADER, TURN = "<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"
SPECIAL = (BEGIN, END, HEADER, END_HEADER, TURN)
SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
CHAT = (f"{{{{ bos_token }}}}{{% for message in messages %}}{HEADER}{{{{ message['role'] }}}}{END_HEADER}\n\n"
        f"{{{{ message['content'] | trim }}}}{TURN}{{% endfor %}}"
        f"{{% if add_generation_prompt %}}{HEADER}assistant{END_HEADER}\n\n{{% endif %}}")


def trained(texts):
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(SPLIT), "isolated"), pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(vocab_size=SIZE - len(SPECIAL), initial_alphabet=pre_tokenizers.ByteLevel.alphabet(), show_progress=False)
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in SPECIAL])
    assert tokenizer.get_vocab_size() == SIZE
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(single=f"{BEGIN} $A", pair=f"{BEGIN} $A {BEGIN}:1 $B:1",
                                      special_tokens=[(BEGIN, tokenizer.token_to_id(BEGIN))])])
    return tokenizer


def turns(question, answer=None):
    """A chat as the template writes it, but for the beginning of the text, which the post-processor puts there."""
    text = f"{HEADER}user{END_HEADER}\n\n{question}{TURN}{HEADER}assistant{END_HEADER}\n\n"
    return text if answer is None else f"{text}{answer}{TURN}"


def save(tokenizer, folder):
    compact = json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=False, separators=(",", ":"))
    (folder / "tokenizer.json").write_text(compact + "\n")
    added = {tokenizer.token_to_id(text): {"content": text, "lstrip": False, "normalized": False, "rstrip": False,
                                           "single_word": False, "special": True} for text in SPECIAL}
    config = {"added_tokens_decoder": added, "bos_token": BEGIN, "chat_template": CHAT, "clean_up_tokenization_spaces": False,
              "eos_token": TURN, "model_input_names": ["input_ids", "attention_mask"], "model_max_length": 512,
              "tokenizer_class": "PreTrainedTokenizerFast"}
    (folder / "tokenizer_config.json").write_text(json.dumps(config, ensure_ascii=False, indent=1) + "\n")
