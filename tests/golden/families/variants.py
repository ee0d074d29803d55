"""More models, most of them variants of others: see ../architectures.py."""

from families.mixtures import (GLM, attention, bailing_tensors, deepseek_tensors, ends, experts, gated, glm4_moe_lite_tensors, glm4_moe_tensors,
                               latent_attention, layer_norms, linear, next_token, norm, renamed, youtu_tensors)


def solar_open_tensors(config):
    yield from glm4_moe_tensors(config | {"num_nextn_predict_layers": 0})


def sarvam_tensors(config):
    yield from bailing_tensors(config | {"architectures": ["BailingMoeV2ForCausalLM"]})


def granite_swa_tensors(config):
    """The dense kind."""
    yield from list(ends(config))[:2]
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}"
        yield from layer_norms(at, config)
        yield from attention(f"{at}.self_attn", config)
        yield f"{at}.self_attn.sinks", [config["num_attention_heads"]], 0
        yield from gated(f"{at}.mlp", config["hidden_size"], config["intermediate_size"])


def neobert_tensors(config):
    """With a classifier."""
    width, inner = config["hidden_size"], 2 * config["intermediate_size"] // 3
    yield from linear("model.encoder", config["vocab_size"], width)
    yield from norm("model.layer_norm", width)
    for layer in range(config["num_hidden_layers"]):
        at = f"model.transformer_encoder.{layer}"
        yield from linear(f"{at}.qkv", 3 * width, width)
        yield from linear(f"{at}.wo", width, width)
        yield from linear(f"{at}.ffn.w12", 2 * inner, width)
        yield from linear(f"{at}.ffn.w3", width, inner)
        yield from norm(f"{at}.attention_norm", width)
        yield from norm(f"{at}.ffn_norm", width)
    yield from linear("dense", width, width, True)
    yield from linear("classifier", len(config["id2label"]), width, True)


def phi4_vision_tensors(config):
    """With some of what sees."""
    width, inner, heads, keys = (config[k] for k in ("hidden_size", "intermediate_size", "num_attention_heads", "num_key_value_heads"))
    yield from ends(config)
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}"
        yield from layer_norms(at, config)
        yield from linear(f"{at}.self_attn.qkv_proj", (heads + 2 * keys) * width // heads, width)
        yield from linear(f"{at}.self_attn.o_proj", width, width)
        yield from linear(f"{at}.mlp.gate_up_proj", 2 * inner, width)
        yield from linear(f"{at}.mlp.down_proj", width, inner)
    yield from linear("model.mm_projector.0", 16, 16, True)
    yield "model.vision_tower.vision_tower.vision_model.post_layernorm.weight", [16], 0


def jais_tensors(config):
    """Without the slopes of attention, of which seeded values would make no sense."""
    width, inner, vocab = config["n_embd"], config["n_inner"], config["vocab_size"]
    yield "transformer.wte.weight", [vocab, width], 0
    yield "lm_head.weight", [vocab, width], 0
    for layer in range(config["n_layer"]):
        at = f"transformer.h.{layer}"
        for name, rows, columns in (("attn.c_attn", width, 3 * width), ("attn.c_proj", width, width), ("mlp.c_fc", width, inner),
                                    ("mlp.c_fc2", width, inner), ("mlp.c_proj", inner, width)):
            yield f"{at}.{name}.weight", [rows, columns], 0
            yield f"{at}.{name}.bias", [columns], 0
        for name in ("ln_1", "ln_2"):
            yield from norm(f"{at}.{name}", width)
            yield f"{at}.{name}.bias", [width], 0
    yield from norm("transformer.ln_f", width)
    yield "transformer.ln_f.bias", [width], 0


def indexer(at, config):
    """What chooses the positions that attention sees."""
    heads, head = config["index_n_heads"], config["index_head_dim"]
    yield from linear(f"{at}.wq_b", heads * head, config["q_lora_rank"])
    yield from linear(f"{at}.wk", head, config["hidden_size"])
    yield from norm(f"{at}.k_norm", head)
    yield f"{at}.k_norm.bias", [head], 0
    yield from linear(f"{at}.weights_proj", heads, config["hidden_size"])


def glm_dsa_tensors(config):
    yield from glm4_moe_lite_tensors(config)
    for layer, kind in enumerate([*config["indexer_types"], "full"]):
        if kind == "full":
            yield from indexer(f"model.layers.{layer}.self_attn.indexer", config)


def hy_v4_tensors(config):
    """With some of a layer that predicts a further token."""
    width, inner, streams, count = (config[k] for k in ("hidden_size", "moe_intermediate_size", "hc_mult", "n_routed_experts"))
    yield from ends(config)
    yield "model.hc_head.hc_head_fn", [streams, streams * width], 0
    yield "model.hc_head.hc_head_base", [streams], 0
    yield "model.hc_head.hc_head_scale", [1], 0
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}"
        yield from layer_norms(at, config)
        yield from latent_attention(f"{at}.self_attn", config)
        yield from linear(f"{at}.self_attn.linear_gate", config["num_attention_heads"] * config["v_head_dim"], width)
        yield f"{at}.self_attn.learnable_sink_param", [config["num_attention_heads"]], 0
        for part in ("attn", "mlp"):
            yield f"{at}.hc_{part}_layer.hc_pre.hc_fn", [2 * streams, streams * width], 0
            yield f"{at}.hc_{part}_layer.hc_pre.hc_base", [2 * streams], 0
            yield f"{at}.hc_{part}_layer.hc_pre.hc_scale", [2], 0
        if config["indexer_types"][layer] == "full":
            yield from indexer(f"{at}.self_attn.indexer", config)
        if config["mlp_layer_types"][layer] == "dense":
            yield from gated(f"{at}.mlp", width, config["intermediate_size"])
            continue
        yield from linear(f"{at}.mlp.gate", count, width)
        yield f"{at}.mlp.gate.e_score_correction_bias", [count], 0
        yield f"{at}.mlp.experts.gate_up_proj", [count, 2 * inner, width], 0
        yield f"{at}.mlp.experts.down_proj", [count, width, inner], 0
        yield from gated(f"{at}.mlp.shared_experts", width, inner * config["n_shared_experts"])
    yield from norm("model.mtp_layers.0.enorm", width)


def delta_attention(at, config, convolutions, short):
    """Queries, keys and values of delta attention behind short convolutions."""
    width, heads = config["hidden_size"], config["num_attention_heads"]
    inside = heads * config["head_dim"]
    for name in ("q", "k", "v"):
        yield from linear(f"{at}.{name}_proj", inside, width)
        yield f"{at}.{name}_conv1d.weight", [inside, 1, convolutions], 0
    yield f"{at}.A_log", short, 0
    yield f"{at}.dt_bias", [inside], 0
    yield from linear(f"{at}.b_proj", heads, width)
    yield from norm(f"{at}.o_norm", config["head_dim"])
    yield from linear(f"{at}.o_proj", width, inside)


def bailing_v3_tensors(whole):
    """Delta attention in the first layers of a group, and a layer that predicts a further token."""
    config = whole.get("text_config", whole)
    width, inner, heads, group = (config[k] for k in ("hidden_size", "moe_intermediate_size", "num_attention_heads", "layer_group_size"))
    layers = config["num_hidden_layers"]
    yield "model.word_embeddings.weight", [config["vocab_size"], width], 0
    yield from list(ends(config))[1:]
    for layer in range(layers + config["num_nextn_predict_layers"]):
        at = f"model.layers.{layer}"
        yield from layer_norms(at, config)
        if layer >= layers // group * group or (layer + 1) % group == 0:
            for name, shape, center in latent_attention(f"{at}.attention", config):
                yield name.replace("o_proj", "dense"), shape, center
            yield from linear(f"{at}.attention.g_proj", heads, width)
        else:
            yield from delta_attention(f"{at}.attention", config, config["short_conv_kernel_size"], [heads])
            for name in ("f_proj", "g_proj"):
                yield from linear(f"{at}.attention.{name}", heads * config["head_dim"], width)
        if layer < config["first_k_dense_replace"]:
            yield from gated(f"{at}.mlp", width, config["intermediate_size"])
        else:
            yield from experts(f"{at}.mlp", config, config["num_experts"], inner, config["moe_shared_expert_intermediate_size"])
            yield f"{at}.mlp.gate.expert_bias", [config["num_experts"]], 0
        if layer >= layers:
            for name in ("enorm", "hnorm", "final_layernorm"):
                yield from norm(f"{at}.{name}", width)
            yield from linear(f"{at}.eh_proj", width, 2 * width)
    if config is not whole:
        yield "model.visual.merger.norm.weight", [16], 0
        yield from linear("linear_proj.0", 16, 16, True)


def glm5_next_tensors(whole):
    """A layer of either kind, and one that predicts a further token."""
    config = whole["text_config"]
    width, inner, streams, count = (config[k] for k in ("hidden_size", "moe_intermediate_size", "hc_mult", "n_routed_experts"))
    delta, layers = config["linear_attn_config"], config["num_hidden_layers"]

    def all_of_them():
        yield from ends(config)
        for layer in range(layers + config["num_nextn_predict_layers"]):
            at = f"model.layers.{layer}"
            yield from layer_norms(at, config)
            if layer < layers and config["layer_types"][layer] == "linear_attention":
                of = config | {"head_dim": delta["head_dim"]}
                yield from delta_attention(f"{at}.self_attn", of, delta["short_conv_kernel_size"], [config["num_attention_heads"]])
                for name in ("f", "g"):
                    yield from linear(f"{at}.self_attn.{name}_a_proj", delta["head_dim"], width)
                    yield from linear(f"{at}.self_attn.{name}_b_proj", config["num_attention_heads"] * delta["head_dim"], delta["head_dim"])
            else:
                yield from latent_attention(f"{at}.self_attn", config)
                yield from indexer(f"{at}.self_attn.indexer", config)
                yield f"{at}.self_attn.indexer.index_kpool_compress_gate", [config["index_head_dim"], width], 0
                yield f"{at}.self_attn.indexer.index_kpool_compress_ape", [config["index_kpool"], config["index_head_dim"]], 0
            for part in ("attn", "ffn") if layer < layers else ():
                yield f"{at}.hc_{part}_fn", [(2 + streams) * streams, streams * width], 0
                yield f"{at}.hc_{part}_base", [(2 + streams) * streams], 0
                yield f"{at}.hc_{part}_scale", [3], 0
            if layer < config["first_k_dense_replace"]:
                yield from gated(f"{at}.mlp", width, config["intermediate_size"])
            else:
                yield from experts(f"{at}.mlp", config, count, inner, inner * config["n_shared_experts"])
                yield f"{at}.mlp.gate.e_score_correction_bias", [count], 0
            if layer >= layers:
                yield from next_token(at, config)

    for name, shape, center in all_of_them():
        yield name.replace("model.", "model.language_model.", 1), shape, center
    yield "model.visual.merger.norm.weight", [16], 0


def cogvlm_tensors(config):
    """With some of what sees."""
    width = config["hidden_size"]
    yield from ends(config)
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}"
        yield from layer_norms(at, config)
        for kind in ("language", "vision"):
            yield from linear(f"{at}.self_attn.{kind}_expert_query_key_value", 3 * width, width)
            yield from linear(f"{at}.self_attn.{kind}_expert_dense", width, width)
            yield from gated(f"{at}.mlp.{kind}_mlp", width, config["intermediate_size"])
    yield "model.vision.boi", [1, 1, width], 0


def youtu_vl_tensors(config):
    yield from youtu_tensors(config)
    yield "siglip2.vision_model.post_layernorm.weight", [16], 0
    yield from linear("merger.mlp.0", 16, 16, True)


# The side of text, which the configuration states twice.
OCR = {
    "first_k_dense_replace": 1, "hidden_size": 64, "intermediate_size": 96, "kv_lora_rank": None, "lm_head": True,
    "max_position_embeddings": 256, "moe_intermediate_size": 32, "n_group": 1, "n_routed_experts": 4, "n_shared_experts": 2,
    "num_attention_heads": 4, "num_experts_per_tok": 2, "num_hidden_layers": 2, "num_key_value_heads": 4, "q_lora_rank": None,
    "qk_nope_head_dim": 0, "qk_rope_head_dim": 0, "rm_head": False, "topk_group": 1, "topk_method": "greedy", "torch_dtype": "bfloat16",
    "use_mla": False, "v_head_dim": 0}


def deepseek_ocr_tensors(whole):
    yield from deepseek_tensors(whole["language_config"])
    yield "model.image_newline", [16], 0
    yield "model.view_seperator", [16], 0
    yield from linear("model.projector.layers", 16, 16, True)
    yield "model.sam_model.pos_embed", [1, 2, 2, 16], 0
    yield "model.vision_model.pre_layrnorm.weight", [16], 0


def granite_switch_tensors(config):
    """A layer fewer than counted, and adapters behind each matrix."""
    width, inner, heads, keys = (config[k] for k in ("hidden_size", "shared_intermediate_size", "num_attention_heads", "num_key_value_heads"))
    count, rank, head = config["num_adapters"], config["max_lora_rank"], config["hidden_size"] // config["num_attention_heads"]

    def adapted(at, rows, columns, slices=None):
        yield from linear(f"{at}.base_layer", sum(rows), columns)
        for number, size in enumerate(rows):
            end = f"_slices.{number}" if slices else ""
            yield f"{at}.lora_A{end}", [count, 1, rank, columns], 0
            yield f"{at}.lora_B{end}", [count, 1, size, rank], 0

    yield from list(ends(config))[:2]
    for layer in range(config["num_hidden_layers"] - 1):
        at = f"model.layers.{layer}"
        yield from layer_norms(at, config)
        yield from adapted(f"{at}.self_attn.qkv_proj", [heads * head, keys * head, keys * head], width, True)
        yield from adapted(f"{at}.self_attn.o_proj", [width], heads * head)
        yield from adapted(f"{at}.shared_mlp.input_linear", [inner, inner], width, True)
        yield from adapted(f"{at}.shared_mlp.output_linear", [width], inner)


def chameleon_tensors(config):
    """Norms of each head with a bias, and some of what makes tokens of pictures."""
    heads, keys = config["num_attention_heads"], config["num_key_value_heads"]
    head = config["hidden_size"] // heads
    yield from ends(config)
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}"
        yield from layer_norms(at, config)
        yield from attention(f"{at}.self_attn", config)
        for name, count in (("q", heads), ("k", keys)):
            yield f"{at}.self_attn.{name}_norm.weight", [count, head], 1
            yield f"{at}.self_attn.{name}_norm.bias", [count, head], 0
        yield from gated(f"{at}.mlp", config["hidden_size"], config["intermediate_size"])
    yield "model.vqmodel.quantize.embedding.weight", [16, 16], 0


SOLAR = renamed("qwen2", {"<|endoftext|>": "<|startoftext|>", "<|im_start|>": "<unk>", "<|im_end|>": "<|endoftext|>", "<tool_call>": "<|think|>"},
                bos_token="<|startoftext|>", eos_token="<|endoftext|>", pad_token="<|endoftext|>", unk_token="<unk>")

LING = {
    "expert_swiglu_limit_list": [0.0, 7.0, 7.0, 7.0], "first_k_dense_replace": 1, "gated_attention_proj_granularity_type": "head_wise",
    "head_dim": 16, "hidden_act": "silu", "hidden_size": 64, "initializer_range": 0.02, "intermediate_size": 96, "kda_lower_bound": -5.0,
    "kda_safe_gate": True, "kv_lora_rank": 32, "layer_group_size": 2, "max_position_embeddings": 256, "moe_intermediate_size": 32,
    "moe_shared_expert_intermediate_size": 32, "n_group": 1, "no_kda_lora": True, "norm_topk_prob": True, "num_attention_heads": 4,
    "num_experts": 2, "num_experts_per_tok": 2, "num_hidden_layers": 3, "num_key_value_heads": 4, "num_nextn_predict_layers": 1,
    "num_shared_experts": 1, "q_lora_rank": 48, "qk_nope_head_dim": 24, "qk_rope_head_dim": 8, "rms_norm_eps": 1e-06, "rope_scaling": None,
    "rope_theta": 600000, "routed_scaling_factor": 2.5, "score_function": "sigmoid", "share_expert_swiglu_limit_list": [0.0, 0.0, 10.0, 10.0],
    "short_conv_kernel_size": 4, "tie_word_embeddings": False, "topk_group": 1, "torch_dtype": "bfloat16", "use_cache": True, "v_head_dim": 24}

# As in ../architectures.py.
MODELS = {
    # Dense, with sinks, and no rotation in the layers that see all.
    "granite-swa-dense": dict(tokenizer="olmo2", dtype="BF16", library=False, tensors=granite_swa_tensors, config={
        "architectures": ["GraniteSWAForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "attention_multiplier": 0.015625,
        "embedding_multiplier": 12.0, "hidden_act": "silu", "hidden_size": 64, "initializer_range": 0.02, "intermediate_size": 128,
        "layer_types": ["full_attention", "sliding_attention"], "logits_scaling": 6.0, "max_position_embeddings": 512, "mlp_bias": False,
        "model_type": "granite_swa", "no_rope_layers": [0, 1], "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 2,
        "residual_multiplier": 0.22, "rms_norm_eps": 1e-06, "rope_scaling": None, "rope_theta": 10000.0, "sliding_window": 128,
        "tie_word_embeddings": True, "torch_dtype": "bfloat16", "use_cache": True}),
    "neobert-classifier": dict(tokenizer="wordpiece", dtype="F16", library=False, tensors=neobert_tensors, config={
        "architectures": ["NeoBERTForSequenceClassification"], "auto_map": {
            "AutoConfig": "model.NeoBERTConfig", "AutoModel": "model.NeoBERT",
            "AutoModelForSequenceClassification": "model.NeoBERTForSequenceClassification"},
        "classifier_init_range": 0.02, "decoder_init_range": 0.02, "dim_head": 16, "embedding_init_range": 0.02, "hidden_size": 64,
        "id2label": {"0": "LABEL_0"}, "intermediate_size": 96, "kwargs": {"architectures": ["NeoBERTLMHead"], "hidden_act": "SwiGLU"},
        "label2id": {"LABEL_0": 0}, "max_length": 256, "model_type": "neobert", "norm_eps": 1e-05, "num_attention_heads": 4,
        "num_hidden_layers": 2, "torch_dtype": "float16"}),
    # State spaces, and attention with rotation and a plain network in each layer.
    "bamba": dict(tokenizer="llama3", dtype="BF16", pad=8, config={
        "architectures": ["BambaForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "attn_layer_indices": [1, 3],
        "attn_rotary_emb": 8, "hidden_act": "silu", "hidden_size": 64, "initializer_range": 0.02, "intermediate_size": 128,
        "mamba_chunk_size": 256, "mamba_conv_bias": True, "mamba_d_conv": 4, "mamba_d_head": 16, "mamba_d_state": 8, "mamba_expand": 2,
        "mamba_n_groups": 1, "mamba_n_heads": 8, "mamba_proj_bias": False, "max_position_embeddings": 256, "mlp_bias": False,
        "model_type": "bamba", "num_attention_heads": 4, "num_hidden_layers": 4, "num_key_value_heads": 2, "num_logits_to_keep": 1,
        "rms_norm_eps": 1e-05, "rope_scaling": None, "rope_theta": 10000.0, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
        "use_cache": True, "z_loss_coefficient": 0.0}),
    # Phi 4 with the tokenizer of GPT-2's kind that it has.
    "phi4-vision": dict(tokenizer="olmo2", dtype="BF16", pad=64, library=False, tensors=phi4_vision_tensors,
                        files=renamed("olmo2", {}, tokenizer_class="GPT2Tokenizer"), config={
        "architectures": ["Phi4ForCausalLMV"], "attention_bias": False, "attention_dropout": 0.0, "auto_map": {
            "AutoConfig": "configuration_phi4_visionr.Phi4VisionR", "AutoModelForCausalLM": "modeling_phi4_visionr.Phi4ForCausalLMV"},
        "embd_pdrop": 0.0, "hidden_act": "silu", "hidden_size": 64, "image_aspect_ratio": "square", "initializer_range": 0.02,
        "intermediate_size": 128, "max_num_patches": 3600, "max_position_embeddings": 512, "min_num_patches": 256, "mm_hidden_size": 16,
        "mm_projector_type": "mlp2x_gelu", "mm_vision_tower": "google/siglip2-so400m-patch16-naflex", "model_type": "phi4-siglip",
        "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 2, "original_max_position_embeddings": 512,
        "partial_rotary_factor": 1.0, "resid_pdrop": 0.0, "rms_norm_eps": 1e-05, "rope_scaling": None, "rope_theta": 250000,
        "sliding_window": None, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "use_cache": True,
        "vision_config": {"hidden_size": 16, "model_type": "siglip2_vision_model", "patch_size": 16}}),
    # GGUF has the factors in its tensors, rounded to BF16.
    "jais": dict(tokenizer="gpt2", pre="jais", dtype="BF16", library=False, tensors=jais_tensors, config={
        "activation_function": "swiglu", "architectures": ["JAISLMHeadModel"], "attn_pdrop": 0.0, "auto_map": {
            "AutoConfig": "configuration_jais.JAISConfig", "AutoModel": "modeling_jais.JAISModel",
            "AutoModelForCausalLM": "modeling_jais.JAISLMHeadModel"},
        "embd_pdrop": 0.0, "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "model_type": "jais", "mup_embeddings_scale": 9.1705785388303,
        "mup_output_alpha": 1.09518349815769, "mup_scale_qk_dot_by_d": True, "mup_width_scale": 0.16666666666666666, "n_embd": 64, "n_head": 4,
        "n_inner": 96, "n_layer": 2, "n_positions": 256, "position_embedding_type": "alibi", "reorder_and_upcast_attn": False,
        "resid_pdrop": 0.0, "scale_attn_by_inverse_layer_idx": False, "scale_attn_weights": True, "torch_dtype": "bfloat16", "use_cache": True}),
    # GLM 5.2, where layers share an indexer; with the layer that predicts a further token.
    "glm-dsa": dict(tokenizer="qwen2", dtype="BF16", f32="e_score_correction_bias", library=False, tensors=glm_dsa_tensors, files=GLM, config={
        "architectures": ["GlmMoeDsaForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "dtype": "bfloat16", "ep_size": 1,
        "first_k_dense_replace": 1, "head_dim": 8, "hidden_act": "silu", "hidden_size": 64, "index_head_dim": 64, "index_n_heads": 4,
        "index_topk": 32, "indexer_rope_interleave": True, "indexer_types": ["full", "shared"], "initializer_range": 0.02,
        "intermediate_size": 96, "kv_lora_rank": 32, "max_position_embeddings": 256, "model_type": "glm_moe_dsa", "moe_intermediate_size": 32,
        "moe_layer_freq": 1, "n_group": 1, "n_routed_experts": 2, "n_shared_experts": 1, "norm_topk_prob": True, "num_attention_heads": 4,
        "num_experts_per_tok": 2, "num_hidden_layers": 2, "num_key_value_heads": 4, "num_nextn_predict_layers": 1, "pretraining_tp": 1,
        "q_lora_rank": 48, "qk_head_dim": 32, "qk_nope_head_dim": 24, "qk_rope_head_dim": 8, "rms_norm_eps": 1e-05, "rope_interleave": True,
        "rope_parameters": {"rope_theta": 1000000, "rope_type": "default"}, "routed_scaling_factor": 2.5, "scoring_func": "sigmoid",
        "tie_word_embeddings": False, "topk_group": 1, "topk_method": "noaux_tc", "use_cache": True, "v_head_dim": 32}),
    "youtu-vl": dict(tokenizer="llama3", dtype="BF16", library=False, tensors=youtu_vl_tensors, config={
        "architectures": ["YoutuVLForConditionalGeneration"], "attention_bias": False, "attention_dropout": 0.0, "auto_map": {
            "AutoConfig": "configuration_youtu_vl.YoutuVLConfig"},
        "head_dim": 8, "hidden_act": "silu", "hidden_size": 64, "image_token_id": 5, "initializer_range": 0.02, "intermediate_size": 128,
        "kv_lora_rank": 32, "max_position_embeddings": 256, "mlp_bias": False, "model_type": "youtu_vl", "num_attention_heads": 4,
        "num_hidden_layers": 2, "num_key_value_heads": 4, "q_lora_rank": 48, "qk_head_dim": 32, "qk_nope_head_dim": 24,
        "qk_rope_head_dim": 8, "rms_norm_eps": 1e-06, "rope_interleave": True, "rope_scaling": None, "rope_theta": 1600000,
        "tie_word_embeddings": True, "torch_dtype": "bfloat16", "use_cache": True, "v_head_dim": 24,
        "vision_config": {"hidden_size": 16, "model_type": "siglip2_vision_model", "num_hidden_layers": 1}}),
    # With the template that the converter writes where a folder has none.
    "deepseek2-ocr": dict(tokenizer="deepseek", dtype="BF16", library=False, tensors=deepseek_ocr_tensors,
                          files=renamed("deepseek", {}, chat_template="{% for m in messages %}{{m['content']}}{% endfor %}"), config=OCR | {
        "architectures": ["DeepseekOCRForCausalLM"], "auto_map": {
            "AutoConfig": "modeling_deepseekocr.DeepseekOCRConfig", "AutoModel": "modeling_deepseekocr.DeepseekOCRForCausalLM"},
        "candidate_resolutions": [[1024, 1024]], "global_view_pos": "head", "language_config": OCR | {
            "architectures": ["DeepseekV2ForCausalLM"], "auto_map": {"AutoConfig": "configuration_deepseekv2.DeepseekV2Config"}},
        "model_type": "deepseek_vl_v2", "projector_config": {"input_dim": 16, "model_type": "mlp_projector", "n_embed": 64, "projector_type": "linear"},
        "tile_tag": "2D", "torch_dtype": "bfloat16", "vision_config": {"image_size": 1024, "model_name": "deeplip_b_l", "model_type": "vision"}}),
    # With one head: the converter takes the first head's norms for all.
    "chameleon": dict(tokenizer="gpt2", dtype="BF16", library=False, tensors=chameleon_tensors, config={
        "architectures": ["ChameleonForConditionalGeneration"], "attention_bias": False, "attention_dropout": 0.0, "hidden_act": "silu",
        "hidden_size": 64, "initializer_range": 0.02, "intermediate_size": 96, "max_position_embeddings": 256, "mlp_bias": False,
        "model_parallel_size": 1, "model_type": "chameleon", "num_attention_heads": 1, "num_hidden_layers": 2, "num_key_value_heads": 1,
        "rms_norm_eps": 1e-05, "rope_scaling": None, "rope_theta": 10000.0, "swin_norm": True, "tie_word_embeddings": False,
        "torch_dtype": "bfloat16", "use_cache": True, "vq_config": {"base_channels": 128}}),
    "solar-open": dict(tokenizer="qwen2", pre="solar-open", dtype="BF16", f32="e_score_correction_bias", library=False, tensors=solar_open_tensors,
                       files=SOLAR, config={
        "architectures": ["SolarOpenForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "auto_map": {
            "AutoConfig": "configuration_solar_open.SolarOpenConfig", "AutoModelForCausalLM": "modeling_solar_open.SolarOpenForCausalLM"},
        "first_k_dense_replace": 0, "head_dim": 32, "hidden_act": "silu", "hidden_size": 64, "initializer_range": 0.02, "intermediate_size": 128,
        "max_position_embeddings": 512, "model_type": "solar_open", "moe_intermediate_size": 32, "n_group": 1, "n_routed_experts": 3,
        "n_shared_experts": 1, "norm_topk_prob": True, "num_attention_heads": 4, "num_experts_per_tok": 2, "num_hidden_layers": 2,
        "num_key_value_heads": 2, "partial_rotary_factor": 1.0, "rms_norm_eps": 1e-05, "rope_scaling": {
            "factor": 2.0, "original_max_position_embeddings": 256, "type": "yarn"},
        "rope_theta": 1000000, "routed_scaling_factor": 1.0, "tie_word_embeddings": False, "topk_group": 1, "torch_dtype": "bfloat16",
        "use_cache": True, "use_qk_norm": False}),
    "hy-v4": dict(tokenizer="deepseek", pre="hunyuan-dense", dtype="BF16", f32="e_score_correction_bias", library=False, tensors=hy_v4_tensors, config={
        "architectures": ["HYV4ForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "dtype": "bfloat16",
        "enable_lm_head_fp32": False, "first_k_dense_replace": 1, "hc_eps": 1e-06, "hc_magnitude": 2.0, "hc_mult": 2, "hidden_act": "silu",
        "hidden_size": 64, "index_head_dim": 16, "index_n_heads": 4, "index_topk": 32, "indexer_types": ["full", "shared"],
        "initializer_range": 0.02, "intermediate_size": 96, "kv_lora_rank": 32, "layer_types": ["deepseek_sparse_attention"] * 2,
        "max_position_embeddings": 256, "mlp_layer_types": ["dense", "sparse"], "model_type": "hy_v4", "moe_intermediate_size": 32,
        "n_group": 1, "n_routed_experts": 3, "n_shared_experts": 1, "norm_topk_prob": True, "num_attention_heads": 4,
        "num_experts_per_tok": 2, "num_hidden_layers": 2, "num_key_value_heads": 4, "num_nextn_predict_layers": 1, "q_lora_rank": 48,
        "qk_nope_head_dim": 24, "qk_rope_head_dim": 8, "rms_norm_eps": 1e-05, "rope_scaling": None, "rope_theta": 1000000.0,
        "routed_scaling_factor": 2.5, "swiglu_limit": 7.0, "tie_word_embeddings": False, "topk_group": 1, "use_cache": True, "v_head_dim": 24}),
    "bailing-moe-v3": dict(tokenizer="qwen2", dtype="BF16", f32="expert_bias", library=False, tensors=bailing_v3_tensors, config=LING | {
        "architectures": ["BailingMoeV3ForCausalLM"], "auto_map": {"AutoConfig": "configuration_bailing_moe_v3.BailingMoeV3Config"},
        "model_type": "bailing_moe_v3"}),
    "bailing-moe-v3-vl": dict(tokenizer="qwen2", dtype="BF16", f32="expert_bias", library=False, tensors=bailing_v3_tensors, config={
        "architectures": ["BailingMoeV3VLForConditionalGeneration"], "image_token_id": 5, "model_type": "bailing_moe_v3_vl",
        "text_config": LING | {"model_type": "bailing_moe_v3", "mrope_section": [1, 1, 2]}, "vision_config": {"disable_merger_proj": True, "hidden_size": 16}}),
    "glm5-next": dict(tokenizer="qwen2", dtype="BF16", f32="e_score_correction_bias", library=False, tensors=glm5_next_tensors, files=GLM, config={
        "architectures": ["Glm5NextForConditionalGeneration"], "image_token_id": 5, "model_type": "glm5_next", "tie_word_embeddings": False,
        "vision_config": {"hidden_size": 16}, "text_config": {
            "attention_bias": False, "attention_dropout": 0.0, "dtype": "bfloat16", "first_k_dense_replace": 1, "hc_eps": 1e-06, "hc_mult": 4,
            "hc_sinkhorn_iters": 20, "hidden_act": "silu", "hidden_size": 64, "index_head_dim": 16, "index_kpool": 4,
            "index_kpool_always_select_tail": True, "index_n_heads": 4, "index_topk": 32, "indexer_types": ["full", "full"],
            "initializer_range": 0.02, "intermediate_size": 96, "kv_lora_rank": 32, "layer_types": ["linear_attention", "deepseek_sparse_attention"],
            "linear_attn_config": {"gate_lower_bound": -5.0, "head_dim": 16, "num_heads": 4, "short_conv_kernel_size": 4},
            "max_position_embeddings": 256, "mhc": True, "mla_use_nope": True, "model_type": "glm5_next_text", "moe_intermediate_size": 32,
            "n_group": 1, "n_routed_experts": 2, "n_shared_experts": 1, "norm_topk_prob": True, "num_attention_heads": 4,
            "num_experts_per_tok": 2, "num_hidden_layers": 2, "num_key_value_heads": 4, "num_nextn_predict_layers": 1, "q_lora_rank": 48,
            "qk_nope_head_dim": 24, "qk_rope_head_dim": 0, "rms_norm_eps": 1e-05, "routed_scaling_factor": 2.5, "scoring_func": "sigmoid",
            "swiglu_limit": 10.0, "topk_group": 1, "topk_method": "noaux_tc", "use_cache": True, "v_head_dim": 24}}),
    "glm": dict(tokenizer="glm4", dtype="BF16", pad=64, config={
        "architectures": ["GlmForCausalLM"], "attention_bias": True, "attention_dropout": 0.0, "head_dim": 16, "hidden_act": "silu",
        "hidden_size": 64, "initializer_range": 0.02, "intermediate_size": 128, "max_position_embeddings": 64, "model_type": "glm",
        "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 2, "partial_rotary_factor": 0.5, "rms_norm_eps": 1e-05,
        "rope_theta": 10000.0, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "use_cache": True}),
}

# Of which something is missing: types of some tensors, roles of tokens, an operation, or a judge.
UNFINISHED = {
    "cogvlm": dict(tokenizer="llama-sp", dtype="BF16", library=False, tensors=cogvlm_tensors, config={
        "architectures": ["CogVLMForCausalLM"], "auto_map": {
            "AutoConfig": "configuration_cogvlm.CogVLMConfig", "AutoModelForCausalLM": "modeling_cogvlm.CogVLMForCausalLM"},
        "hidden_act": "silu", "hidden_size": 64, "initializer_range": 0.02, "intermediate_size": 96, "max_position_embeddings": 2048,
        "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 4, "rms_norm_eps": 1e-05, "template_version": "chat",
        "tie_word_embeddings": False, "torch_dtype": "bfloat16", "use_cache": True, "vision_config": {"hidden_size": 16, "num_hidden_layers": 1}}),
    "granite-switch": dict(tokenizer="starcoder", dtype="BF16", library=False, tensors=granite_switch_tensors,
                           add=[("model.control_to_substitute_lut", "I64", [440], 0)], config={
        "adapter_substitute_token_ids": [7, 8], "adapter_token_ids": [436, 437], "architectures": ["GraniteSwitchForCausalLM"],
        "attention_bias": False, "attention_dropout": 0.0, "attention_multiplier": 0.015625, "control_token_gain": 15.0,
        "embedding_multiplier": 12.0, "hidden_act": "silu", "hidden_size": 64, "initializer_range": 0.02, "intermediate_size": 96,
        "logits_scaling": 6.0, "max_lora_rank": 8, "max_position_embeddings": 256, "model_type": "granite_switch", "num_adapters": 2,
        "num_attention_heads": 4, "num_experts_per_tok": 0, "num_hidden_layers": 2, "num_key_value_heads": 2, "num_local_experts": 0,
        "residual_multiplier": 0.22, "rms_norm_eps": 1e-05, "rope_scaling": None, "rope_theta": 10000000.0, "shared_intermediate_size": 96,
        "tie_word_embeddings": True, "torch_dtype": "bfloat16", "use_cache": True}),
    "sarvam-moe": dict(tokenizer="qwen2", pre="sarvam-moe", dtype="BF16", f32="expert_bias", library=False, tensors=sarvam_tensors, config={
        "architectures": ["SarvamMoEForCausalLM"], "attention_dropout": 0.0, "auto_map": {
            "AutoConfig": "configuration_sarvam_moe.SarvamMoEConfig", "AutoModelForCausalLM": "modeling_sarvam_moe.SarvamMoEForCausalLM"},
        "embedding_dropout": 0.0, "first_k_dense_replace": 1, "head_dim": 16, "hidden_act": "silu", "hidden_size": 64, "initializer_range": 0.006,
        "intermediate_size": 128, "max_position_embeddings": 256, "model_type": "sarvam_moe", "moe_intermediate_size": 32,
        "moe_router_enable_expert_bias": True, "moe_shared_expert_intermediate_size": 32, "n_group": 1, "norm_topk_prob": True,
        "num_attention_heads": 4, "num_experts": 4, "num_experts_per_tok": 2, "num_hidden_layers": 2, "num_key_value_heads": 2,
        "num_shared_experts": 1, "output_dropout": 0.0, "output_router_logits": False, "rms_norm_eps": 1e-06, "rope_scaling": None,
        "rope_theta": 8000000, "routed_scaling_factor": 2.5, "router_dtype": "fp32", "score_function": "sigmoid", "tie_word_embeddings": False,
        "topk_group": 1, "torch_dtype": "bfloat16", "use_bias": False, "use_cache": True, "use_qk_norm": True, "use_qkv_bias": False,
        "use_rmsnorm": True}),
}
