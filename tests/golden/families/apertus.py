"""Apertus, whose activation has numbers of its own in each layer."""

MODELS = {
    "apertus": dict(tokenizer="llama3", dtype="BF16", config={
        "architectures": ["ApertusForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "hidden_act": "xielu", "hidden_dropout": 0.0,
        "hidden_size": 64, "initializer_range": 0.02, "intermediate_size": 128, "max_position_embeddings": 512, "mlp_bias": False,
        "model_type": "apertus", "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 2, "post_norm": False,
        "qk_norm": True, "rms_norm_eps": 1e-05, "rope_scaling": {
            "factor": 8.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 64, "rope_type": "llama3",
            "type": "llama3"},
        "rope_theta": 12000000, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "use_cache": True}),
}
