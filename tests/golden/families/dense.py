"""Dense decoders of one family each, newer ones first: what `MODELS` of architectures.py says."""

COMMON = {"attention_dropout": 0.0, "hidden_act": "silu", "hidden_size": 64, "initializer_range": 0.02, "intermediate_size": 128,
          "max_position_embeddings": 256, "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 2,
          "torch_dtype": "bfloat16", "use_cache": True}

LLAMA3_SCALING = {"factor": 8.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 64,
                  "rope_type": "llama3"}


def without(held, *names):
    return {key: value for key, value in held.items() if key not in names}


def exaone_tensors(config):
    """Names and shapes of EXAONE 3.5, whose code is not in transformers."""
    width, inner, head = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    queries, keys = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    yield "transformer.wte.weight", [config["vocab_size"], width], 0
    yield "transformer.ln_f.weight", [width], 1
    for layer in range(config["num_layers"]):
        at = f"transformer.h.{layer}"
        yield f"{at}.ln_1.weight", [width], 1
        yield f"{at}.ln_2.weight", [width], 1
        yield f"{at}.attn.attention.q_proj.weight", [queries, width], 0
        yield f"{at}.attn.attention.k_proj.weight", [keys, width], 0
        yield f"{at}.attn.attention.v_proj.weight", [keys, width], 0
        yield f"{at}.attn.attention.out_proj.weight", [width, queries], 0
        yield f"{at}.mlp.c_fc_0.weight", [inner, width], 0
        yield f"{at}.mlp.c_fc_1.weight", [inner, width], 0
        yield f"{at}.mlp.c_proj.weight", [width, inner], 0


def norm(name, width):
    yield f"{name}.weight", [width], 1
    yield f"{name}.bias", [width], 0


def llama_tensors(config, prefix="model.", bias=(), norms=False, gate=True):
    """Names and shapes of Llama's layout; biases of the parts in `bias`, layer norms if `norms`, no gate without `gate`."""
    width, inner = config["hidden_size"], config["intermediate_size"]
    head = config.get("head_dim") or width // config["num_attention_heads"]
    queries, keys = config["num_attention_heads"] * head, config.get("num_key_value_heads", config["num_attention_heads"]) * head
    shapes = {"self_attn.q_proj": [queries, width], "self_attn.k_proj": [keys, width], "self_attn.v_proj": [keys, width],
              "self_attn.o_proj": [width, queries], "mlp.gate_proj": [inner, width], "mlp.up_proj": [inner, width],
              "mlp.down_proj": [width, inner]}
    yield f"{prefix}embed_tokens.weight", [config["vocab_size"], width], 0
    if prefix and not config.get("tie_word_embeddings", False):
        yield "lm_head.weight", [config["vocab_size"], width], 0
    layers = [f"{prefix}layers.{layer}" for layer in range(config["num_hidden_layers"])]
    for at in [f"{prefix}norm"] + [f"{at}.{name}" for at in layers for name in ("input_layernorm", "post_attention_layernorm")]:
        yield from norm(at, width) if norms else [(f"{at}.weight", [width], 1)]
    for at in layers:
        for name, shape in shapes.items():
            if gate or name != "mlp.gate_proj":
                yield f"{at}.{name}.weight", shape, 0
                if name in bias:
                    yield f"{at}.{name}.bias", shape[:1], 0


def internlm2_tensors(config):
    width, inner, vocabulary = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    head = width // config["num_attention_heads"]
    yield "model.tok_embeddings.weight", [vocabulary, width], 0
    yield "output.weight", [vocabulary, width], 0
    yield "model.norm.weight", [width], 1
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}"
        yield f"{at}.attention_norm.weight", [width], 1
        yield f"{at}.ffn_norm.weight", [width], 1
        yield f"{at}.attention.wqkv.weight", [width + 2 * config["num_key_value_heads"] * head, width], 0
        yield f"{at}.attention.wo.weight", [width, width], 0
        yield f"{at}.feed_forward.w1.weight", [inner, width], 0
        yield f"{at}.feed_forward.w2.weight", [width, inner], 0
        yield f"{at}.feed_forward.w3.weight", [inner, width], 0


def minicpm3_tensors(config):
    heads, rope, nope = config["num_attention_heads"], config["qk_rope_head_dim"], config["qk_nope_head_dim"]
    width, rank, value = config["hidden_size"], config["kv_lora_rank"], config["hidden_size"] // config["num_attention_heads"]
    for name, shape, center in llama_tensors(config | {"tie_word_embeddings": True}):
        at = name.partition("self_attn.")[0] + "self_attn."
        if ".self_attn.q_proj." in name:
            yield f"{at}q_a_proj.weight", [config["q_lora_rank"], width], 0
            yield f"{at}q_a_layernorm.weight", [config["q_lora_rank"]], 1
            yield f"{at}q_b_proj.weight", [heads * (nope + rope), config["q_lora_rank"]], 0
        elif ".self_attn.k_proj." in name:
            yield f"{at}kv_a_proj_with_mqa.weight", [rank + rope, width], 0
            yield f"{at}kv_a_layernorm.weight", [rank], 1
            yield f"{at}kv_b_proj.weight", [heads * (nope + value), rank], 0
        elif ".self_attn.o_proj." in name:
            yield name, [width, heads * value], 0
        elif ".self_attn.v_proj." not in name:
            yield name, shape, center


def plm_tensors(config):
    heads, rope, nope, value = config["num_attention_heads"], config["qk_rope_head_dim"], config["qk_nope_head_dim"], config["v_head_dim"]
    width, rank = config["hidden_size"], config["kv_lora_rank"]
    for name, shape, center in llama_tensors(config, gate=False):
        at = name.partition("self_attn.")[0] + "self_attn."
        if ".self_attn.q_proj." in name:
            yield name, [heads * (nope + rope), width], 0
        elif ".self_attn.k_proj." in name:
            yield f"{at}kv_a_proj_with_mqa.weight", [rank + rope, width], 0
            yield f"{at}kv_a_layernorm.weight", [rank], 1
            yield f"{at}kv_b_proj.weight", [heads * (nope + value), rank], 0
        elif ".self_attn.o_proj." in name:
            yield name, [width, heads * value], 0
        elif ".self_attn.v_proj." not in name:
            yield name, shape, center


def llada_tensors(config):
    width, inner, vocabulary = config["d_model"], config["mlp_hidden_size"], config["vocab_size"]
    yield "model.transformer.wte.weight", [vocabulary, width], 0
    yield "model.transformer.ff_out.weight", [vocabulary, width], 0
    yield "model.transformer.ln_f.weight", [width], 1
    for layer in range(config["n_layers"]):
        at = f"model.transformer.blocks.{layer}"
        yield f"{at}.attn_norm.weight", [width], 1
        yield f"{at}.ff_norm.weight", [width], 1
        for name in ("q_proj", "attn_out"):
            yield f"{at}.{name}.weight", [width, width], 0
        for name in ("k_proj", "v_proj"):
            yield f"{at}.{name}.weight", [width // config["n_heads"] * config["n_kv_heads"], width], 0
        for name in ("ff_proj", "up_proj"):
            yield f"{at}.{name}.weight", [inner, width], 0
        yield f"{at}.ff_out.weight", [width, inner], 0



MODELS = {
    # Every fourth layer does not rotate.
    "smollm3": dict(tokenizer="llama3", dtype="BF16", config=COMMON | {
        "architectures": ["SmolLM3ForCausalLM"], "attention_bias": False, "layer_types": ["full_attention"] * 4,
        "max_window_layers": 28, "mlp_bias": False, "model_type": "smollm3", "no_rope_layer_interval": 4,
        "no_rope_layers": [1, 1, 1, 0], "num_hidden_layers": 4, "pad_token_id": 482, "pretraining_tp": 2, "rms_norm_eps": 1e-06,
        "rope_scaling": None, "rope_theta": 5000000.0, "sliding_window": None, "use_sliding_window": False}),
    "granite": dict(tokenizer="starcoder", pre="refact", dtype="BF16", config=COMMON | {
        "architectures": ["GraniteForCausalLM"], "attention_bias": False, "attention_multiplier": 0.015625,
        "embedding_multiplier": 12.0, "logits_scaling": 8.0, "mlp_bias": False, "model_type": "granite", "residual_multiplier": 0.22,
        "rms_norm_eps": 1e-05, "rope_scaling": None, "rope_theta": 10000000.0, "tie_word_embeddings": True}),
    "seed-oss": dict(tokenizer="qwen2", dtype="BF16", pad=64, config=COMMON | {
        "architectures": ["SeedOssForCausalLM"], "attention_bias": True, "attention_dropout": 0.1, "attention_out_bias": False,
        "head_dim": 32, "mlp_bias": False, "model_type": "seed_oss", "residual_dropout": 0.1, "rms_norm_eps": 1e-06,
        "rope_scaling": {"rope_type": "default"}, "rope_theta": 10000000.0, "tie_word_embeddings": False}),
    "arcee": dict(tokenizer="llama3", dtype="BF16", config=COMMON | {
        "architectures": ["ArceeForCausalLM"], "attention_bias": False, "head_dim": 32, "hidden_act": "relu2", "mlp_bias": False,
        "model_type": "arcee", "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "tie_word_embeddings": False,
        "rope_scaling": {"beta_fast": 32.0, "beta_slow": 1.0, "factor": 4.0, "mscale": 1.0, "original_max_position_embeddings": 64,
                         "rope_type": "yarn", "type": "yarn"}}),
    "ernie4-5": dict(tokenizer="llama-sp", dtype="BF16", config=without(COMMON, "attention_dropout", "initializer_range") | {
        "architectures": ["Ernie4_5ForCausalLM"], "head_dim": 32, "model_type": "ernie4_5", "rms_norm_eps": 1e-05,
        "rope_scaling": None, "rope_theta": 500000.0, "tie_word_embeddings": True, "use_bias": False}),
    # Norms are those of the layer before, without weights of their own; queries, keys and values are bounded.
    "olmo": dict(tokenizer="gptneox", pre="olmo", dtype="BF16", pad=64, config=COMMON | {
        "architectures": ["OlmoForCausalLM"], "attention_bias": False, "clip_qkv": 8.0, "model_type": "olmo", "num_key_value_heads": 4,
        "rope_scaling": None, "rope_theta": 10000.0, "tie_word_embeddings": False}),
    # Windows in three layers of four, where the rotation is not stretched.
    "olmo3": dict(tokenizer="olmo2", dtype="BF16", pad=64, config=COMMON | {
        "architectures": ["Olmo3ForCausalLM"], "attention_bias": False, "model_type": "olmo3", "num_hidden_layers": 4,
        "layer_types": ["sliding_attention"] * 3 + ["full_attention"], "num_key_value_heads": 4, "rms_norm_eps": 1e-06,
        "rope_theta": 500000, "sliding_window": 64, "tie_word_embeddings": False,
        "rope_scaling": {"attention_factor": 1.1386294361119891, "beta_fast": 32.0, "beta_slow": 1.0, "factor": 4.0,
                         "original_max_position_embeddings": 64, "rope_type": "yarn"}}),
    "exaone": dict(tokenizer="starcoder", pre="exaone", dtype="BF16", library=False, tensors=exaone_tensors,
                   config=without(COMMON, "hidden_act", "num_hidden_layers") | {
        "activation_function": "silu", "architectures": ["ExaoneForCausalLM"], "embed_dropout": 0.0, "head_dim": 16,
        "layer_norm_epsilon": 1e-05, "model_type": "exaone", "num_layers": 2, "rope_scaling": LLAMA3_SCALING,
        "rope_theta": 1000000.0, "tie_word_embeddings": True, "auto_map": {
            "AutoConfig": "configuration_exaone.ExaoneConfig", "AutoModelForCausalLM": "modeling_exaone.ExaoneForCausalLM",
            "AutoModelForSequenceClassification": "modeling_exaone.ExaoneForSequenceClassification"}}),
    # Layers without a window do not rotate.
    "exaone4": dict(tokenizer="gpt2", pre="exaone4", dtype="BF16", config=COMMON | {
        "architectures": ["Exaone4ForCausalLM"], "head_dim": 16, "model_type": "exaone4", "num_hidden_layers": 4,
        "layer_types": ["sliding_attention"] * 3 + ["full_attention"], "rms_norm_eps": 1e-05, "rope_scaling": LLAMA3_SCALING,
        "rope_theta": 1000000, "sliding_window": 64, "sliding_window_pattern": "LLLG", "tie_word_embeddings": False}),
    "cohere2": dict(tokenizer="command-r", dtype="BF16", config=COMMON | {
        "architectures": ["Cohere2ForCausalLM"], "attention_bias": False, "cache_implementation": "hybrid", "head_dim": 16,
        "layer_norm_eps": 1e-05, "layer_switch": 4, "logit_scale": 0.25, "model_type": "cohere2", "num_hidden_layers": 4,
        "order_of_interleaved_layers": "local_attn_first", "position_embedding_type": "rope_gptj", "rope_scaling": None,
        "rope_theta": 50000, "rotary_pct": 1.0, "sliding_window": 64, "sliding_window_pattern": 4, "use_embedding_sharing": True,
        "use_gated_activation": True, "use_parallel_block": True, "use_parallel_embedding": False, "use_qk_norm": False}),
    "internlm2": dict(tokenizer="llama-sp", dtype="BF16", library=False, tensors=internlm2_tensors,
                      config=without(COMMON, "attention_dropout") | {
        "architectures": ["InternLM2ForCausalLM"], "attn_implementation": "eager", "bias": False, "model_type": "internlm2",
        "rms_norm_eps": 1e-05, "rope_scaling": {"factor": 2.0, "type": "dynamic"}, "rope_theta": 1000000, "tie_word_embeddings": False,
        "auto_map": {"AutoConfig": "configuration_internlm2.InternLM2Config", "AutoModel": "modeling_internlm2.InternLM2ForCausalLM",
                     "AutoModelForCausalLM": "modeling_internlm2.InternLM2ForCausalLM"}}),
    "internlm3": dict(tokenizer="llama-sp", dtype="BF16", library=False, tensors=llama_tensors, config=COMMON | {
        "architectures": ["InternLM3ForCausalLM"], "bias": False, "head_dim": 32, "model_type": "internlm3", "qkv_bias": False,
        "rms_norm_eps": 1e-05, "rope_scaling": {"factor": 6.0, "rope_type": "dynamic"}, "rope_theta": 50000000,
        "tie_word_embeddings": False, "auto_map": {
            "AutoConfig": "configuration_internlm3.InternLM3Config", "AutoModelForCausalLM": "modeling_internlm3.InternLM3ForCausalLM"}}),
    # MiniCPM 4: factors of the rotation, for as many positions as it was trained with.
    "minicpm": dict(tokenizer="llama-sp", dtype="BF16", library=False, tensors=llama_tensors,
                    config=without(COMMON, "attention_dropout") | {
        "architectures": ["MiniCPMForCausalLM"], "dim_model_base": 32, "model_type": "minicpm", "mup_denominator": 32,
        "rms_norm_eps": 1e-06, "scale_depth": 1.4, "scale_emb": 12, "tie_word_embeddings": False, "rope_theta": 10000.0,
        "rope_scaling": {"rope_type": "longrope", "long_factor": [1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 8.0],
                         "short_factor": [1.0, 1.0, 1.01, 1.02, 1.05, 1.1, 1.2, 1.4], "original_max_position_embeddings": 256},
        "auto_map": {"AutoConfig": "configuration_minicpm.MiniCPMConfig", "AutoModel": "modeling_minicpm.MiniCPMModel",
                     "AutoModelForCausalLM": "modeling_minicpm.MiniCPMForCausalLM"}}),
    "minicpm3": dict(tokenizer="llama-sp", dtype="BF16", library=False, tensors=minicpm3_tensors, config=COMMON | {
        "architectures": ["MiniCPM3ForCausalLM"], "attention_bias": False, "dim_model_base": 256, "initializer_range": 0.1,
        "kv_lora_rank": 32, "model_type": "minicpm3", "num_key_value_heads": 4, "pretraining_tp": 1, "q_lora_rank": 48,
        "qk_nope_head_dim": 16, "qk_rope_head_dim": 8, "rms_norm_eps": 1e-05, "scale_depth": 1.4, "scale_emb": 12,
        "rope_scaling": {"type": "longrope", "long_factor": [1.0, 1.5, 2.0, 8.0], "short_factor": [1.0, 1.0, 1.05, 1.4],
                         "original_max_position_embeddings": 256},
        "auto_map": {"AutoConfig": "configuration_minicpm.MiniCPM3Config", "AutoModel": "modeling_minicpm.MiniCPM3Model",
                     "AutoModelForCausalLM": "modeling_minicpm.MiniCPM3ForCausalLM"}}),
    "orion": dict(tokenizer="llama-sp", dtype="BF16", library=False, tensors=lambda config: llama_tensors(config, norms=True),
                  config=without(COMMON, "attention_dropout") | {
        "architectures": ["OrionForCausalLM"], "attention_bias": False, "max_sequence_length": 256, "model_type": "orion",
        "num_key_value_heads": 4, "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": None, "rope_theta": 10000.0,
        "tie_word_embeddings": False, "auto_map": {
            "AutoConfig": "configuration_orion.OrionConfig", "AutoModelForCausalLM": "modeling_orion.OrionForCausalLM"}}),
    "jais2": dict(tokenizer="olmo2", dtype="BF16", library=False, tensors=lambda config: llama_tensors(
        config, norms=True, gate=False, bias=("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.up_proj",
                                              "mlp.down_proj")), config=COMMON | {
        "architectures": ["Jais2ForCausalLM"], "attention_bias": True, "head_dim": 16, "hidden_act": "relu2", "layer_norm_eps": 1e-05,
        "mlp_bias": True, "model_type": "jais2", "num_key_value_heads": 4, "rope_theta": 500000.0, "tie_word_embeddings": False}),
    "plm": dict(tokenizer="qwen2", dtype="BF16", pad=64, library=False, tensors=plm_tensors, config=COMMON | {
        "architectures": ["PLMForCausalLM"], "attention_bias": False, "hidden_act": "relu2", "kv_lora_rank": 32, "model_type": "plm",
        "num_key_value_heads": 4, "q_lora_rank": None, "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "rms_norm_eps": 1e-06,
        "rope_scaling": None, "rope_theta": 100000.0, "tie_word_embeddings": True, "v_head_dim": 32, "auto_map": {
            "AutoConfig": "configuration_plm.PLMConfig", "AutoModel": "modeling_plm.PLMModel",
            "AutoModelForCausalLM": "modeling_plm.PLMForCausalLM"}}),
    "pangu-embedded": dict(tokenizer="llama-sp", dtype="BF16", library=False, tensors=lambda config: llama_tensors(
        config, bias=("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj")),
        config=without(COMMON, "attention_dropout") | {
        "architectures": ["PanguEmbeddedForCausalLM"], "bias": True, "model_type": "PanguEmbedded", "rms_norm_eps": 1e-05,
        "rope_theta": 16000000.0, "tie_word_embeddings": False, "auto_map": {
            "AutoConfig": "configuration_openpangu_dense.PanguEmbeddedConfig",
            "AutoModelForCausalLM": "modeling_openpangu_dense.PanguEmbeddedForCausalLM"}}),
    # Goes through its layers several times.
    "nanbeige": dict(tokenizer="llama-sp", dtype="BF16", library=False, tensors=llama_tensors, config=COMMON | {
        "architectures": ["NanbeigeForCausalLM"], "attention_bias": False, "head_dim": 32, "kv_channels": 32,
        "loop_loss_weights": [], "model_type": "nanbeige", "num_loops": 2, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
        "rope_scaling": None, "rope_theta": 70000000, "skip_loop_final_norm": False, "tie_word_embeddings": False, "auto_map": {
            "AutoConfig": "configuration_nanbeige.NanbeigeConfig", "AutoModelForCausalLM": "modeling_nanbeige.NanbeigeForCausalLM"}}),
    "dream": dict(tokenizer="qwen2", dtype="BF16", pad=64, library=False, tensors=lambda config: llama_tensors(
        config, bias=("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")), config=COMMON | {
        "architectures": ["DreamModel"], "mask_token_id": 463, "max_window_layers": 28, "model_type": "Dream", "rms_norm_eps": 1e-06,
        "rope_scaling": None, "rope_theta": 1000000.0, "sliding_window": None, "tie_word_embeddings": False,
        "use_sliding_window": False, "auto_map": {
            "AutoConfig": "configuration_dream.DreamConfig", "AutoModel": "modeling_dream.DreamModel"}}),
    "llada": dict(tokenizer="llama3", dtype="BF16", library=False, tensors=llada_tensors, config={
        "activation_type": "silu", "alibi": False, "alibi_bias_max": 8.0, "architectures": ["LLaDAModelLM"], "attention_dropout": 0.0,
        "attention_layer_norm": False, "attention_layer_norm_with_affine": True, "bias_for_layer_norm": False, "block_group_size": 1,
        "block_type": "llama", "d_model": 64, "embedding_dropout": 0.0, "embedding_size": 486, "flash_attention": False,
        "include_bias": False, "include_qkv_bias": False, "init_cutoff_factor": None, "init_device": "meta", "init_fn": "mitchell",
        "init_std": 0.02, "input_emb_norm": False, "layer_norm_type": "rms", "layer_norm_with_affine": True, "mask_token_id": 482,
        "max_sequence_length": 256, "mlp_hidden_size": 128, "mlp_ratio": 4, "model_type": "llada", "multi_query_attention": None,
        "n_heads": 4, "n_kv_heads": 4, "n_layers": 2, "precision": "amp_bf16", "residual_dropout": 0.0, "rms_norm_eps": 1e-05,
        "rope": True, "rope_full_precision": True, "rope_theta": 500000.0, "scale_logits": False, "use_cache": False,
        "weight_tying": False, "auto_map": {
            "AutoConfig": "configuration_llada.LLaDAConfig", "AutoModel": "modeling_llada.LLaDAModelLM",
            "AutoModelForCausalLM": "modeling_llada.LLaDAModelLM"}}),
    "llama-embed": dict(tokenizer="llama3", dtype="BF16", library=False, tensors=lambda config: llama_tensors(config, prefix=""),
                        config=COMMON | {
        "architectures": ["LlamaBidirectionalModel"], "attention_bias": False, "head_dim": 32, "mlp_bias": False,
        "model_type": "llama_bidirec", "pooling": "avg", "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": LLAMA3_SCALING,
        "rope_theta": 500000.0, "tie_word_embeddings": False, "auto_map": {
            "AutoConfig": "llama_bidirectional_model.LlamaBidirectionalConfig",
            "AutoModel": "llama_bidirectional_model.LlamaBidirectionalModel"}}),
    "iquestcoder": dict(tokenizer="qwen2", dtype="BF16", library=False, tensors=llama_tensors, config=COMMON | {
        "architectures": ["IQuestCoderForCausalLM"], "attention_bias": False, "clip_qkv": None, "head_dim": 32, "mlp_bias": False,
        "model_type": "iquestcoder", "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": None, "rope_theta": 500000.0,
        "tie_word_embeddings": False, "use_sliding_window": False, "auto_map": {
            "AutoConfig": "configuration_iquestcoder.IQuestCoderConfig",
            "AutoModelForCausalLM": "modeling_iquestcoder.IQuestCoderForCausalLM"}}),
    # The base of the rotation is stretched at conversion.
    "hunyuan-dense": dict(tokenizer="deepseek", pre="hunyuan-dense", dtype="BF16", config=COMMON | {
        "architectures": ["HunYuanDenseV1ForCausalLM"], "attention_bias": False, "attention_head_dim": 32, "head_dim": 32,
        "max_position_embeddings": 262144, "mlp_bias": False, "model_type": "hunyuan_v1_dense", "norm_type": "rms",
        "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "tie_word_embeddings": True, "use_cla": False, "use_qk_norm": True,
        "use_rotary_pos_emb": True, "rope_scaling": {"alpha": 1000.0, "beta_fast": 32, "beta_slow": 1, "factor": 1.0, "mscale": 1.0,
                                                     "mscale_all_dim": 1.0, "type": "dynamic"}}),
}
