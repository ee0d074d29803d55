"""Gemma 4: the side of text, with embeddings for each layer, or with experts."""


def gemma4_tensors(whole):
    """Names and shapes of Gemma 4 as its checkpoints have them."""
    config, start = whole.get("text_config", whole), "model.language_model" if "text_config" in whole else "model"
    width, layers, heads = config["hidden_size"], config["num_hidden_layers"], config["num_attention_heads"]
    small, experts, expert = config["hidden_size_per_layer_input"], config["num_experts"], config["moe_intermediate_size"]
    yield f"{start}.embed_tokens.weight", [config["vocab_size"], width], 0
    for layer in range(layers):
        at, full = f"{start}.layers.{layer}", config["layer_types"][layer] == "full_attention"
        own = layer < layers - config["num_kv_shared_layers"]
        head = config["global_head_dim"] if full else config["head_dim"]
        keys = (full and config["attention_k_eq_v"] and config["num_global_key_value_heads"]) or config["num_key_value_heads"]
        inner = config["intermediate_size"] * (1 if own or not config["use_double_wide_mlp"] else 2)
        names = ["input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"]
        names += ["post_per_layer_input_norm"] if small else []
        names += ["post_feedforward_layernorm_1", "post_feedforward_layernorm_2", "pre_feedforward_layernorm_2"] if experts else []
        for name in names:
            yield f"{at}.{name}.weight", [width], 1
        yield f"{at}.layer_scalar", [1], 1
        yield f"{at}.self_attn.q_norm.weight", [head], 1
        matrices = [("self_attn.q_proj", [heads * head, width]), ("self_attn.o_proj", [width, heads * head]), ("mlp.gate_proj", [inner, width]),
                    ("mlp.up_proj", [inner, width]), ("mlp.down_proj", [width, inner])]
        if own:
            yield f"{at}.self_attn.k_norm.weight", [head], 1
            matrices.append(("self_attn.k_proj", [keys * head, width]))
            matrices += [("self_attn.v_proj", [keys * head, width])] if not (full and config["attention_k_eq_v"]) else []
        if small:
            matrices += [("per_layer_input_gate", [small, width]), ("per_layer_projection", [width, small])]
        if experts:
            yield f"{at}.router.scale", [width], 1
            yield f"{at}.router.per_expert_scale", [experts], 1
            yield f"{at}.experts.gate_up_proj", [experts, 2 * expert, width], 0
            yield f"{at}.experts.down_proj", [experts, width, expert], 0
            matrices.append(("router.proj", [experts, width]))
        for name, shape in matrices:
            yield f"{at}.{name}.weight", shape, 0
    yield f"{start}.norm.weight", [width], 1
    if small:
        yield f"{start}.embed_tokens_per_layer.weight", [config["vocab_size_per_layer_input"], layers * small], 0
        yield f"{start}.per_layer_model_projection.weight", [layers * small, width], 0
        yield f"{start}.per_layer_projection_norm.weight", [small], 1
    if "text_config" in whole:
        for name in ("vision_tower.patch_embedder.input_proj", "embed_vision.embedding_projection"):
            yield f"model.{name}.weight", [16, 16], 0


TEXT = {
    "attention_bias": False, "attention_dropout": 0.0, "attention_k_eq_v": False, "bos_token_id": 2, "dtype": "bfloat16",
    "enable_moe_block": False, "eos_token_id": 1, "final_logit_softcapping": 30.0, "global_head_dim": 64, "head_dim": 32,
    "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 64, "hidden_size_per_layer_input": 32, "initializer_range": 0.02,
    "intermediate_size": 96, "layer_types": ["sliding_attention", "full_attention"] * 3, "max_position_embeddings": 512,
    "model_type": "gemma4_text", "moe_intermediate_size": None, "num_attention_heads": 4, "num_experts": None,
    "num_global_key_value_heads": None, "num_hidden_layers": 6, "num_key_value_heads": 1, "num_kv_shared_layers": 2,
    "pad_token_id": 0, "rms_norm_eps": 1e-06,
    "rope_parameters": {
        "full_attention": {"partial_rotary_factor": 0.25, "rope_theta": 1000000.0, "rope_type": "proportional"},
        "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"}},
    "sliding_window": 16, "tie_word_embeddings": True, "top_k_experts": None, "use_bidirectional_attention": None,
    "use_cache": True, "use_double_wide_mlp": True, "vocab_size": 720, "vocab_size_per_layer_input": 720}

WHOLE = {
    "architectures": ["Gemma4ForConditionalGeneration"], "audio_token_id": 718, "boa_token_id": 716, "boi_token_id": 715, "dtype": "bfloat16",
    "eoa_token_id": 717, "eoi_token_id": 714, "eos_token_id": [1, 5], "image_token_id": 719, "initializer_range": 0.02,
    "model_type": "gemma4", "vision_config": {"model_type": "gemma4_vision", "hidden_size": 16}, "vision_soft_tokens_per_image": 280}

MODELS = {
    "gemma4": dict(tokenizer="gemma4", dtype="BF16", library=False, tensors=gemma4_tensors, config=WHOLE | {"audio_config": None, "text_config": TEXT}),
    "gemma4-moe": dict(tokenizer="gemma4", dtype="BF16", library=False, tensors=gemma4_tensors, config=WHOLE | {
        "audio_config": None, "text_config": TEXT | {
            "attention_k_eq_v": True, "enable_moe_block": True, "hidden_size_per_layer_input": 0, "moe_intermediate_size": 48, "num_experts": 4,
            "num_global_key_value_heads": 1, "num_key_value_heads": 2, "num_kv_shared_layers": 0, "top_k_experts": 2,
            "use_bidirectional_attention": "vision", "use_double_wide_mlp": False, "num_hidden_layers": 2,
            "layer_types": ["sliding_attention", "full_attention"]}}),
}
