"""Decoders whose weights have three values while they compute."""


def bitnet_tensors(config):
    """Names and shapes of BitNet b1.58, whose code comes with the model."""
    width, inner = config["hidden_size"], config["intermediate_size"]
    keys = width // config["num_attention_heads"] * config["num_key_value_heads"]
    yield "model.embed_tokens.weight", [config["vocab_size"], width], 0
    yield "model.norm.weight", [width], 1
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}"
        for name, size in (("input_layernorm", width), ("post_attention_layernorm", width), ("self_attn.inner_attn_ln", width), ("mlp.ffn_layernorm", inner)):
            yield f"{at}.{name}.weight", [size], 1
        for name, shape in (("self_attn.q_proj", [width, width]), ("self_attn.k_proj", [keys, width]), ("self_attn.v_proj", [keys, width]),
                            ("self_attn.o_proj", [width, width]), ("mlp.gate_proj", [inner, width]), ("mlp.up_proj", [inner, width]), ("mlp.down_proj", [width, inner])):
            yield f"{at}.{name}.weight", shape, 0


BITNET = {"architectures": ["BitnetForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "hidden_act": "silu", "hidden_size": 64,
          "initializer_range": 0.02, "input_bits": 8, "intermediate_size": 160, "max_position_embeddings": 256, "model_type": "llama",
          "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 2, "pretraining_tp": 1, "rms_norm_eps": 1e-05,
          "rope_scaling": None, "rope_theta": 10000.0, "tie_word_embeddings": True, "use_cache": True, "weight_bits": 1}

MODELS = {
    # The converter takes SentencePiece's model alone.
    "bitnet": dict(tokenizer="llama-sp", dtype="BF16", library=False, tensors=bitnet_tensors, config=BITNET | {"torch_dtype": "bfloat16"}),
    "bitnet-f32": dict(tokenizer="llama-sp", dtype="F32", library=False, tensors=bitnet_tensors, config=BITNET | {
        "num_key_value_heads": 4, "torch_dtype": "float32"}),
}
