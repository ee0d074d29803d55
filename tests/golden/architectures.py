"""The models: what `config.json` says, which tokenizer, which type. `hub` configs are spelled as the checkpoints of their time
are; the others are what transformers itself writes."""

YARN = {"type": "yarn", "factor": 4, "original_max_position_embeddings": 64, "beta_fast": 32, "beta_slow": 1, "mscale": 1.0,
        "mscale_all_dim": 1.0}

README = """---
license: apache-2.0
license_link: https://example.org/license
language:
- en
- de
tags:
- tiny
- seeded
pipeline_tag: text-generation
base_model: example-org/Base-Model-7B
datasets:
- example-org/some-text
---
# A model of seeded weights
"""

POOLING = {
    "modules.json": [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
                     {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}],
    "1_Pooling/config.json": {"word_embedding_dimension": 64, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True,
                              "pooling_mode_max_tokens": False, "pooling_mode_mean_sqrt_len_tokens": False},
}

LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "attention_bias": False, "hidden_act": "silu", "hidden_size": 64,
         "intermediate_size": 128, "max_position_embeddings": 256, "num_attention_heads": 4, "num_hidden_layers": 2,
         "num_key_value_heads": 2, "rms_norm_eps": 1e-05}

# What is said of each: tokenizer (its kind), dtype, hub (the config is written as it stands), pad (the vocabulary is filled up to a
# multiple of this), cuts (tensors that begin a further file of weights), add (tensors that old checkpoints have beside the model's
# own), files (companions, JSON or text), library (False: transformers has no such class, and `tensors` gives names and shapes).
MODELS = {
    "llama": dict(tokenizer="llama-sp", dtype="BF16", config=LLAMA | {
        "hidden_size": 256, "intermediate_size": 512, "num_attention_heads": 8, "num_key_value_heads": 4, "tie_word_embeddings": False},
        files={"README.md": README, "generation_config.json": {"do_sample": True, "temperature": 0.6, "top_k": 40, "top_p": 0.9,
                                                              "repetition_penalty": 1.1}}),
    "qwen2": dict(tokenizer="qwen2", dtype="BF16", hub=True, pad=64, cuts=["model.layers.1.input_layernorm.weight"], config={
        "architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "hidden_act": "silu", "hidden_size": 64,
        "initializer_range": 0.02, "intermediate_size": 256, "max_position_embeddings": 512, "max_window_layers": 2,
        "model_type": "qwen2", "num_attention_heads": 4, "num_hidden_layers": 3, "num_key_value_heads": 2, "rms_norm_eps": 1e-06,
        "rope_theta": 1000000.0, "sliding_window": 512, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
        "use_cache": True, "use_sliding_window": False}),
    "gpt2": dict(tokenizer="gpt2", dtype="F32", hub=True, config={
        "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1, "embd_pdrop": 0.1,
        "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 128, "n_embd": 64, "n_head": 4,
        "n_layer": 2, "n_positions": 128, "resid_pdrop": 0.1}),
    "gemma2": dict(tokenizer="gemma-sp", dtype="BF16", hub=True, config={
        "architectures": ["Gemma2ForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "attn_logit_softcapping": 50.0,
        "cache_implementation": "hybrid", "final_logit_softcapping": 30.0, "head_dim": 32, "hidden_act": "gelu_pytorch_tanh",
        "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 64, "intermediate_size": 128, "max_position_embeddings": 256,
        "model_type": "gemma2", "num_attention_heads": 4, "num_hidden_layers": 3, "num_key_value_heads": 2,
        "query_pre_attn_scalar": 32, "rms_norm_eps": 1e-06, "rope_theta": 10000.0, "sliding_window": 64,
        "torch_dtype": "bfloat16", "use_cache": True}),
    "bert": dict(tokenizer="wordpiece", dtype="F32", hub=True, files=POOLING, add=[("embeddings.position_ids", "I64", [1, 128], 0)], config={
        "architectures": ["BertModel"], "attention_probs_dropout_prob": 0.1, "gradient_checkpointing": False, "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1, "hidden_size": 64, "initializer_range": 0.02, "intermediate_size": 256,
        "layer_norm_eps": 1e-12, "max_position_embeddings": 128, "model_type": "bert", "num_attention_heads": 4,
        "num_hidden_layers": 2, "pad_token_id": 0, "position_embedding_type": "absolute", "type_vocab_size": 2, "use_cache": True}),
}
