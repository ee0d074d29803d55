"""Encoders: see ../architectures.py."""

import json
from pathlib import Path

TOKENIZERS = Path(__file__).resolve().parent.parent / "tokenizers"


def pooling(mode, width=64):
    modes = {f"pooling_mode_{name}": name == mode for name in ("cls_token", "mean_tokens", "max_tokens", "lasttoken")}
    return {
        "modules.json": [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
                         {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
                         {"idx": 2, "name": "2", "path": "2_Normalize", "type": "sentence_transformers.models.Normalize"}],
        "1_Pooling/config.json": {"word_embedding_dimension": width} | modes,
    }


def xlm_roberta():
    """A tokenizer as XLM-RoBERTa's, of some of T5's pieces, in place of RoBERTa's, whose special tokens have the same ids."""
    held = json.loads((TOKENIZERS / "t5-sp/tokenizer.json").read_text())
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    pieces = [[piece, 0.0] for piece in special] + held["model"]["vocab"][3:80] + [["<mask>", 0.0]]
    held["model"] |= {"vocab": pieces, "unk_id": 3}
    ids = {piece: number for number, (piece, _) in enumerate(pieces) if piece in (*special, "<mask>")}
    held["added_tokens"] = [{"id": number, "content": piece, "single_word": False, "lstrip": False, "rstrip": False,
                             "normalized": False, "special": True} for piece, number in sorted(ids.items(), key=lambda item: item[1])]
    begin, end = ({"SpecialToken": {"id": piece, "type_id": 0}} for piece in ("<s>", "</s>"))
    first, second = ({"Sequence": {"id": name, "type_id": 0}} for name in "AB")
    held["post_processor"] = {
        "type": "TemplateProcessing", "single": [begin, first, end], "pair": [begin, first, end, end, second, end],
        "special_tokens": {piece: {"id": piece, "ids": [ids[piece]], "tokens": [piece]} for piece in ("</s>", "<s>")}}
    tokens = {"bos_token": "<s>", "cls_token": "<s>", "eos_token": "</s>", "mask_token": "<mask>", "pad_token": "<pad>",
              "sep_token": "</s>", "unk_token": "<unk>"}
    added = {str(token["id"]): {key: value for key, value in token.items() if key != "id"} for token in held["added_tokens"]}
    config = {"add_prefix_space": True, "added_tokens_decoder": added, "clean_up_tokenization_spaces": True, "model_max_length": 128,
              "tokenizer_class": "XLMRobertaTokenizer"} | tokens
    compact = lambda value: json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n"
    return {"tokenizer.json": compact(held), "tokenizer_config.json": compact(config)}


def modern_bert():
    """RoBERTa's tokenizer with the special tokens of ModernBERT's, and what they stand around."""
    named = {"<s>": "[CLS]", "<pad>": "[PAD]", "</s>": "[SEP]", "<mask>": "[MASK]", "<unk>": "[UNK]"}
    held = {name: json.loads((TOKENIZERS / "roberta" / name).read_text()) for name in ("tokenizer.json", "tokenizer_config.json")}
    tokenizer, config = held["tokenizer.json"], held["tokenizer_config.json"]
    for token in [*tokenizer["added_tokens"], *config["added_tokens_decoder"].values()]:
        token |= {"content": named[token["content"]], "normalized": False, "special": True, "lstrip": False}
    vocabulary = tokenizer["model"]["vocab"]
    tokenizer["model"]["vocab"] = {named.get(token, token): number for token, number in vocabulary.items()}
    ids = {token["content"]: token["id"] for token in tokenizer["added_tokens"]}
    begin, end = ({"SpecialToken": {"id": piece, "type_id": 0}} for piece in ("[CLS]", "[SEP]"))
    first, second = ({"Sequence": {"id": name, "type_id": 0}} for name in "AB")
    tokenizer["post_processor"] = {
        "type": "TemplateProcessing", "single": [begin, first, end], "pair": [begin, first, end, second, end],
        "special_tokens": {piece: {"id": piece, "ids": [ids[piece]], "tokens": [piece]} for piece in ("[CLS]", "[SEP]")}}
    for name in ("bos_token", "eos_token"):
        config.pop(name)
    config |= {f"{name}_token": f"[{name.upper()}]" for name in ("cls", "mask", "pad", "sep", "unk")}
    return {name: json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n" for name, value in held.items()}


XLM = {"attention_probs_dropout_prob": 0.1, "classifier_dropout": None, "hidden_act": "gelu", "hidden_dropout_prob": 0.1,
       "hidden_size": 64, "initializer_range": 0.02, "intermediate_size": 256, "layer_norm_eps": 1e-05, "max_position_embeddings": 130,
       "model_type": "xlm-roberta", "num_attention_heads": 4, "num_hidden_layers": 2, "output_past": True,
       "position_embedding_type": "absolute", "torch_dtype": "float16", "type_vocab_size": 1, "use_cache": True}

MODERN = {"attention_bias": False, "attention_dropout": 0.0, "classifier_activation": "gelu", "classifier_bias": False,
          "classifier_dropout": 0.0, "classifier_pooling": "mean", "decoder_bias": True, "deterministic_flash_attn": False,
          "embedding_dropout": 0.0, "global_attn_every_n_layers": 3, "global_rope_theta": 160000.0, "gradient_checkpointing": False,
          "hidden_activation": "gelu", "hidden_size": 64, "initializer_cutoff_factor": 2.0, "initializer_range": 0.02,
          "intermediate_size": 96, "layer_norm_eps": 1e-05, "local_attention": 16, "local_rope_theta": 10000.0,
          "max_position_embeddings": 256, "mlp_bias": False, "mlp_dropout": 0.0, "model_type": "modernbert", "norm_bias": False,
          "norm_eps": 1e-05, "num_attention_heads": 4, "num_hidden_layers": 3, "position_embedding_type": "absolute",
          "tie_word_embeddings": True, "torch_dtype": "float16"}

DISTIL = {"activation": "gelu", "attention_dropout": 0.1, "dim": 64, "dropout": 0.1, "hidden_dim": 256, "initializer_range": 0.02,
          "max_position_embeddings": 128, "model_type": "distilbert", "n_heads": 4, "n_layers": 2, "qa_dropout": 0.1,
          "seq_classif_dropout": 0.2, "sinusoidal_pos_embds": False, "tie_weights_": True}

def linear(name, rows, columns, bias=False):
    yield f"{name}.weight", [rows, columns], 0
    if bias:
        yield f"{name}.bias", [rows], 0


def norm(name, width, bias=True):
    yield f"{name}.weight", [width], 1
    if bias:
        yield f"{name}.bias", [width], 0


def eurobert_tensors(config):
    width, heads, keys, inner = (config[k] for k in ("hidden_size", "num_attention_heads", "num_key_value_heads", "intermediate_size"))
    head = config["head_dim"]
    yield from linear("embed_tokens", config["vocab_size"], width)
    yield from norm("norm", width, False)
    for layer in range(config["num_hidden_layers"]):
        at = f"layers.{layer}"
        for name, rows, columns in (("q", heads * head, width), ("k", keys * head, width), ("v", keys * head, width), ("o", width, heads * head)):
            yield from linear(f"{at}.self_attn.{name}_proj", rows, columns)
        for name, rows, columns in (("gate", inner, width), ("up", inner, width), ("down", width, inner)):
            yield from linear(f"{at}.mlp.{name}_proj", rows, columns)
        yield from norm(f"{at}.input_layernorm", width, False)
        yield from norm(f"{at}.post_attention_layernorm", width, False)


def neobert_tensors(config):
    """With the head that predicts words."""
    width, inner, vocab = config["hidden_size"], 2 * config["intermediate_size"] // 3, config["vocab_size"]
    yield from linear("decoder", vocab, width, True)
    yield from linear("model.encoder", vocab, width)
    yield from norm("model.layer_norm", width, False)
    for layer in range(config["num_hidden_layers"]):
        at = f"model.transformer_encoder.{layer}"
        yield from linear(f"{at}.qkv", 3 * width, width)
        yield from linear(f"{at}.wo", width, width)
        yield from linear(f"{at}.ffn.w12", 2 * inner, width)
        yield from linear(f"{at}.ffn.w3", width, inner)
        yield from norm(f"{at}.attention_norm", width, False)
        yield from norm(f"{at}.ffn_norm", width, False)


def nomic_bert_moe_tensors(config):
    width, inner, experts = config["n_embd"], config["n_inner"], config["num_experts"]
    yield from linear("embeddings.word_embeddings", config["vocab_size"], width)
    yield from linear("embeddings.token_type_embeddings", config["type_vocab_size"], width)
    yield from norm("emb_ln", width)
    for layer in range(config["n_layer"]):
        at = f"encoder.layers.{layer}"
        yield from linear(f"{at}.attn.Wqkv", 3 * width, width, True)
        yield from linear(f"{at}.attn.out_proj", width, width, True)
        yield from norm(f"{at}.norm1", width)
        yield from norm(f"{at}.norm2", width)
        if layer % config["moe_every_n_layers"] == 1:
            yield from linear(f"{at}.mlp.router.layer", experts, width)
            yield f"{at}.mlp.experts.mlp.w1", [experts * inner, width], 0
            yield f"{at}.mlp.experts.mlp.w2", [experts * inner, width], 0
            yield f"{at}.mlp.experts.bias", [width], 0
        else:
            yield from linear(f"{at}.mlp.fc1", inner, width, True)
            yield from linear(f"{at}.mlp.fc2", width, inner, True)


T5 = {"d_ff": 128, "d_kv": 32, "d_model": 64, "decoder_start_token_id": 0, "dense_act_fn": "gelu_new", "dropout_rate": 0.1,
      "feed_forward_proj": "gated-gelu", "initializer_factor": 1.0, "is_encoder_decoder": True, "is_gated_act": True,
      "layer_norm_epsilon": 1e-06, "num_decoder_layers": 2, "num_heads": 4, "num_layers": 2, "output_past": True,
      "relative_attention_max_distance": 128, "relative_attention_num_buckets": 32, "tie_word_embeddings": False,
      "torch_dtype": "float16", "use_cache": True}

# As in ../architectures.py.
MODELS = {
    "xlm-roberta": dict(tokenizer="roberta", dtype="F16", files=xlm_roberta() | pooling("cls_token"), config=XLM | {
        "architectures": ["XLMRobertaModel"]}),
    # A reranker: one output, judged from the first row.
    "xlm-roberta-reranker": dict(tokenizer="roberta", dtype="F16", files=xlm_roberta(), config=XLM | {
        "architectures": ["XLMRobertaForSequenceClassification"], "id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}),
    "modern-bert": dict(tokenizer="roberta", dtype="F16", pad=64, files=modern_bert() | pooling("cls_token"), config=MODERN | {
        "architectures": ["ModernBertModel"]}),
    "modern-bert-reranker": dict(tokenizer="roberta", dtype="F16", pad=64, files=modern_bert(), config=MODERN | {
        "architectures": ["ModernBertForSequenceClassification"], "id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}),
    "distilbert": dict(tokenizer="wordpiece", dtype="F16", files=pooling("mean_tokens"), config=DISTIL | {
        "architectures": ["DistilBertModel"]}),
    "distilbert-classifier": dict(tokenizer="wordpiece", dtype="F16", config=DISTIL | {
        "architectures": ["DistilBertForSequenceClassification"], "id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}}),
    # As the models are saved without a head.
    "eurobert": dict(tokenizer="qwen2", dtype="BF16", library=False, tensors=eurobert_tensors, files=pooling("lasttoken"), config={
        "architectures": ["EuroBertModel"], "attention_bias": False, "attention_dropout": 0.0,
        "auto_map": {"AutoModel": "modeling_eurobert.EuroBertModel"}, "clf_pooling": "late", "head_dim": 16, "hidden_act": "silu",
        "hidden_dropout": 0.0, "hidden_size": 64, "initializer_range": 0.02, "intermediate_size": 128, "mask_token": "<|im_start|>",
        "mask_token_id": 461, "max_position_embeddings": 256, "mlp_bias": False, "model_type": "eurobert", "num_attention_heads": 4,
        "num_hidden_layers": 2, "num_key_value_heads": 2, "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": None,
        "rope_theta": 250000, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "use_cache": False}),
    "neobert": dict(tokenizer="wordpiece", dtype="F16", library=False, tensors=neobert_tensors, config={
        "architectures": ["NeoBERTLMHead"], "auto_map": {"AutoModel": "model.NeoBERT"}, "classifier_init_range": 0.02,
        "decoder_init_range": 0.02, "dim_head": 16, "embedding_init_range": 0.02, "hidden_size": 64, "intermediate_size": 96,
        "kwargs": {"architectures": ["NeoBERTLMHead"], "hidden_act": "SwiGLU"}, "max_length": 256, "model_type": "neobert",
        "norm_eps": 1e-05, "num_attention_heads": 4, "num_hidden_layers": 2, "torch_dtype": "float16"}),
    "nomic-bert-moe": dict(tokenizer="roberta", dtype="F16", library=False, tensors=nomic_bert_moe_tensors,
                           files=xlm_roberta() | pooling("mean_tokens"), config={
        "activation_function": "gelu", "add_pooling_layer": False, "architectures": ["NomicBertModel"], "attn_pdrop": 0.0,
        "causal": False, "dense_seq_output": True, "embd_pdrop": 0.1, "expert_choice_router": False, "ffn_div": 1, "fused_bias_fc": True,
        "fused_dropout_add_ln": True, "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "max_trained_positions": 2048,
        "mlp_fc1_bias": True, "mlp_fc2_bias": True, "model_type": "nomic_bert", "moe_every_n_layers": 2, "moe_impl": "megablocks",
        "moe_normalize_expert_weights": False, "moe_resid_pdrop": 0.0, "moe_top_k": 2, "n_embd": 64, "n_head": 4, "n_inner": 128,
        "n_layer": 2, "n_positions": 2048, "num_experts": 4, "num_shared_experts": 0, "pad_vocab_size_to_multiple": 64,
        "parallel_block": False, "parallel_block_tied_norm": False, "prenorm": False, "qkv_proj_bias": True,
        "reorder_and_upcast_attn": False, "resid_pdrop": 0.0, "rotary_emb_base": 10000, "rotary_emb_fraction": 1.0,
        "rotary_emb_interleaved": False, "rotary_emb_scale_base": None, "rotary_scaling_factor": None, "router_aux_loss_coef": 0.1,
        "scale_attn_by_inverse_layer_idx": False, "scale_attn_weights": True, "torch_dtype": "float16", "type_vocab_size": 1,
        "use_cache": True, "use_flash_attn": True, "use_rms_norm": None, "use_xentropy": True}),
    "t5-encoder": dict(tokenizer="t5-sp", dtype="F16", pad=32, config=T5 | {
        "architectures": ["T5EncoderModel"], "model_type": "t5", "n_positions": 512}),
    "umt5": dict(tokenizer="t5-sp", dtype="F16", pad=32, config=T5 | {
        "architectures": ["UMT5ForConditionalGeneration"], "model_type": "umt5", "scalable_attention": True}),
}
