"""The models: what `config.json` says, which tokenizer, which type. Each config is spelled as the checkpoints of its family are;
llama, mixtral, qwen3 and olmo2 as transformers 5 writes them (`rope_parameters`, `dtype`), the others as version 4 did."""

import importlib
from pathlib import Path

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

V5 = {"attention_dropout": 0.0, "dtype": "bfloat16", "hidden_act": "silu", "initializer_range": 0.02, "max_position_embeddings": 256,
      "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 2, "transformers_version": "5.23.0", "use_cache": True}

LLAMA = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "attention_bias": False, "hidden_act": "silu", "hidden_size": 64,
         "intermediate_size": 128, "max_position_embeddings": 256, "num_attention_heads": 4, "num_hidden_layers": 2,
         "num_key_value_heads": 2, "rms_norm_eps": 1e-05}


def rope(theta):
    return {"rope_parameters": {"rope_theta": theta, "rope_type": "default"}}

def nomic_tensors(config):
    """Names and shapes of nomic-embed-text-v1.5, whose code is not in transformers."""
    width, inner = config["n_embd"], config["n_inner"]
    yield "embeddings.word_embeddings.weight", [config["vocab_size"], width], 0
    yield "embeddings.token_type_embeddings.weight", [config["type_vocab_size"], width], 0
    yield from norm("emb_ln", width)
    for layer in range(config["n_layer"]):
        at = f"encoder.layers.{layer}"
        yield f"{at}.attn.Wqkv.weight", [3 * width, width], 0
        yield f"{at}.attn.out_proj.weight", [width, width], 0
        yield f"{at}.mlp.fc11.weight", [inner, width], 0
        yield f"{at}.mlp.fc12.weight", [inner, width], 0
        yield f"{at}.mlp.fc2.weight", [width, inner], 0
        yield from norm(f"{at}.norm1", width)
        yield from norm(f"{at}.norm2", width)


def jina_tensors(config):
    """Names and shapes of jina-embeddings-v2-base-en, whose code is not in transformers."""
    width, inner = config["hidden_size"], config["intermediate_size"]
    yield "embeddings.word_embeddings.weight", [config["vocab_size"], width], 0
    yield "embeddings.token_type_embeddings.weight", [config["type_vocab_size"], width], 0
    yield from norm("embeddings.LayerNorm", width)
    for layer in range(config["num_hidden_layers"]):
        at = f"encoder.layer.{layer}"
        for name in ("self.query", "self.key", "self.value", "output.dense"):
            yield f"{at}.attention.{name}.weight", [width, width], 0
            yield f"{at}.attention.{name}.bias", [width], 0
        yield from norm(f"{at}.attention.output.LayerNorm", width)
        yield f"{at}.mlp.gated_layers.weight", [2 * inner, width], 0
        yield f"{at}.mlp.wo.weight", [width, inner], 0
        yield f"{at}.mlp.wo.bias", [width], 0
        yield from norm(f"{at}.mlp.layernorm", width)
    yield "pooler.dense.weight", [width, width], 0
    yield "pooler.dense.bias", [width], 0


def norm(name, width):
    yield f"{name}.weight", [width], 1
    yield f"{name}.bias", [width], 0


# What is said of each: tokenizer (its kind), dtype, pad (the vocabulary is filled up to a
# multiple of this), cuts (tensors that begin a further file of weights), add (tensors that old checkpoints have beside the model's
# own), files (companions, JSON or text), f32 (names with this end
# are F32 whatever the rest is), library (False: transformers has no such class, and
# `tensors` gives names and shapes), library_class (its class, if the config names another).
MODELS = {
    "llama": dict(tokenizer="llama-sp", dtype="BF16", config=LLAMA | V5 | rope(10000.0) | {
        "head_dim": 32, "hidden_size": 256, "intermediate_size": 512, "mlp_bias": False, "num_attention_heads": 8,
        "num_key_value_heads": 4, "pretraining_tp": 1, "tie_word_embeddings": False},
        files={"README.md": README, "generation_config.json": {"do_sample": True, "temperature": 0.6, "top_k": 40, "top_p": 0.9,
                                                              "repetition_penalty": 1.1}}),
    # Llama 3.2: scaled rotation, heads wider than hidden / heads, a tied output.
    "llama3": dict(tokenizer="llama3", dtype="BF16", config=LLAMA | {
        "head_dim": 32, "initializer_range": 0.02, "max_position_embeddings": 131072, "mlp_bias": False, "num_hidden_layers": 3,
        "pretraining_tp": 1, "rope_theta": 500000.0, "tie_word_embeddings": True, "torch_dtype": "bfloat16", "use_cache": True,
        "rope_scaling": {"factor": 32.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 8192,
                         "rope_type": "llama3"}},
        files={"generation_config.json": {"do_sample": True, "temperature": 0.6, "top_p": 0.9}}),
    # Eleven layers: in the order of names the last but one is the third.
    "mistral": dict(tokenizer="llama-sp", dtype="BF16", config={
        "architectures": ["MistralForCausalLM"], "attention_dropout": 0.0, "head_dim": 32, "hidden_act": "silu", "hidden_size": 96,
        "initializer_range": 0.02, "intermediate_size": 256, "max_position_embeddings": 512, "model_type": "mistral",
        "num_attention_heads": 4, "num_hidden_layers": 11, "num_key_value_heads": 2, "rms_norm_eps": 1e-05, "rope_theta": 1000000.0,
        "sliding_window": None, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "use_cache": True}),
    # A layer's experts lie in both files.
    "mixtral": dict(tokenizer="llama-sp", dtype="BF16", cuts=["model.layers.0.block_sparse_moe.experts.2.w1.weight"], config=V5 | rope(1000000.0) | {
        "architectures": ["MixtralForCausalLM"], "head_dim": None, "hidden_size": 64, "intermediate_size": 128, "model_type": "mixtral",
        "num_experts_per_tok": 2, "num_local_experts": 4, "output_router_logits": False, "rms_norm_eps": 1e-05,
        "router_aux_loss_coef": 0.001, "router_jitter_noise": 0.0, "sliding_window": None, "tie_word_embeddings": False}),
    "qwen2": dict(tokenizer="qwen2", dtype="BF16", pad=64, cuts=["model.layers.1.input_layernorm.weight"], config={
        "architectures": ["Qwen2ForCausalLM"], "attention_dropout": 0.0, "hidden_act": "silu", "hidden_size": 64,
        "initializer_range": 0.02, "intermediate_size": 256, "max_position_embeddings": 512, "max_window_layers": 2,
        "model_type": "qwen2", "num_attention_heads": 4, "num_hidden_layers": 3, "num_key_value_heads": 2, "rms_norm_eps": 1e-06,
        "rope_theta": 1000000.0, "sliding_window": 512, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
        "use_cache": True, "use_sliding_window": False}),
    "qwen2-moe": dict(tokenizer="qwen2", dtype="BF16", pad=64, config={
        "architectures": ["Qwen2MoeForCausalLM"], "attention_dropout": 0.0, "decoder_sparse_step": 1, "hidden_act": "silu",
        "hidden_size": 64, "initializer_range": 0.02, "intermediate_size": 192, "max_position_embeddings": 512,
        "max_window_layers": 2, "model_type": "qwen2_moe", "moe_intermediate_size": 64, "norm_topk_prob": False,
        "num_attention_heads": 4, "num_experts": 4, "num_experts_per_tok": 2, "num_hidden_layers": 2, "num_key_value_heads": 4,
        "output_router_logits": False, "rms_norm_eps": 1e-06, "rope_theta": 1000000.0, "router_aux_loss_coef": 0.001,
        "shared_expert_intermediate_size": 128, "sliding_window": 512, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
        "use_cache": True, "use_sliding_window": False}),
    "qwen3": dict(tokenizer="qwen2", dtype="BF16", pad=64, config=V5 | rope(1000000.0) | {
        "architectures": ["Qwen3ForCausalLM"], "attention_bias": False, "head_dim": 32, "hidden_size": 64, "intermediate_size": 128,
        "layer_types": ["full_attention", "full_attention"], "max_window_layers": 28, "model_type": "qwen3", "rms_norm_eps": 1e-06,
        "sliding_window": None, "tie_word_embeddings": True, "use_sliding_window": False},
        files={"generation_config.json": {"do_sample": True, "temperature": 0.6, "top_k": 20, "top_p": 0.95}}),
    "qwen3-moe": dict(tokenizer="qwen2", dtype="BF16", pad=64, config={
        "architectures": ["Qwen3MoeForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "decoder_sparse_step": 1,
        "head_dim": 32, "hidden_act": "silu", "hidden_size": 64, "initializer_range": 0.02, "intermediate_size": 192,
        "max_position_embeddings": 512, "max_window_layers": 2, "mlp_only_layers": [], "model_type": "qwen3_moe",
        "moe_intermediate_size": 64, "norm_topk_prob": True, "num_attention_heads": 4, "num_experts": 4, "num_experts_per_tok": 2,
        "num_hidden_layers": 2, "num_key_value_heads": 2, "output_router_logits": False, "rms_norm_eps": 1e-06,
        "rope_scaling": None, "rope_theta": 1000000.0, "router_aux_loss_coef": 0.001, "sliding_window": None,
        "tie_word_embeddings": False, "torch_dtype": "bfloat16", "use_cache": True, "use_sliding_window": False}),
    "gemma": dict(tokenizer="gemma-sp", dtype="BF16", config={
        "architectures": ["GemmaForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "head_dim": 32, "hidden_act": "gelu",
        "hidden_activation": None, "hidden_size": 64, "initializer_range": 0.02, "intermediate_size": 256,
        "max_position_embeddings": 256, "model_type": "gemma", "num_attention_heads": 4, "num_hidden_layers": 2,
        "num_key_value_heads": 1, "rms_norm_eps": 1e-06, "rope_scaling": None, "rope_theta": 10000.0, "torch_dtype": "bfloat16",
        "use_cache": True}),
    "gemma2": dict(tokenizer="gemma-sp", dtype="BF16", config={
        "architectures": ["Gemma2ForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "attn_logit_softcapping": 50.0,
        "cache_implementation": "hybrid", "final_logit_softcapping": 30.0, "head_dim": 32, "hidden_act": "gelu_pytorch_tanh",
        "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 64, "intermediate_size": 128, "max_position_embeddings": 256,
        "model_type": "gemma2", "num_attention_heads": 4, "num_hidden_layers": 3, "num_key_value_heads": 2,
        "query_pre_attn_scalar": 32, "rms_norm_eps": 1e-06, "rope_theta": 10000.0, "sliding_window": 64,
        "torch_dtype": "bfloat16", "use_cache": True}),
    "gemma3": dict(tokenizer="gemma-sp", dtype="BF16", pad=64, config={
        "architectures": ["Gemma3ForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "attn_logit_softcapping": None,
        "cache_implementation": "hybrid", "final_logit_softcapping": None, "head_dim": 32, "hidden_activation": "gelu_pytorch_tanh",
        "hidden_size": 64, "initializer_range": 0.02, "intermediate_size": 128, "max_position_embeddings": 512,
        "model_type": "gemma3_text", "num_attention_heads": 4, "num_hidden_layers": 7, "num_key_value_heads": 1,
        "query_pre_attn_scalar": 32, "rms_norm_eps": 1e-06, "rope_local_base_freq": 10000, "rope_scaling": None,
        "rope_theta": 1000000, "sliding_window": 64, "sliding_window_pattern": 6, "torch_dtype": "bfloat16", "use_cache": True}),
    "phi2": dict(tokenizer="phi2", dtype="F16", pad=64, config={
        "architectures": ["PhiForCausalLM"], "attention_dropout": 0.0, "embd_pdrop": 0.0, "hidden_act": "gelu_new", "hidden_size": 64,
        "initializer_range": 0.02, "intermediate_size": 256, "layer_norm_eps": 1e-05, "max_position_embeddings": 128,
        "model_type": "phi", "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 4, "partial_rotary_factor": 0.5,
        "qk_layernorm": False, "resid_pdrop": 0.1, "rope_scaling": None, "rope_theta": 10000.0, "tie_word_embeddings": False,
        "torch_dtype": "float16", "use_cache": True}),
    # Phi-3 with 128k: two tables of rotation factors.
    "phi3": dict(tokenizer="phi3-sp", dtype="BF16", pad=32, config={
        "architectures": ["Phi3ForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "embd_pdrop": 0.0,
        "hidden_act": "silu", "hidden_size": 64, "initializer_range": 0.02, "intermediate_size": 128, "max_position_embeddings": 512,
        "model_type": "phi3", "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 2,
        "original_max_position_embeddings": 64, "resid_pdrop": 0.0, "rms_norm_eps": 1e-05,
        "rope_scaling": {"long_factor": [1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 8.0],
                         "short_factor": [1.0, 1.0, 1.01, 1.02, 1.05, 1.1, 1.2, 1.4], "type": "longrope"},
        "rope_theta": 10000.0, "sliding_window": 128, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "use_cache": True}),
    "starcoder2": dict(tokenizer="starcoder", dtype="BF16", config={
        "activation_function": "gelu", "architectures": ["Starcoder2ForCausalLM"], "attention_dropout": 0.1,
        "attention_softmax_in_fp32": True, "embedding_dropout": 0.1, "hidden_act": "gelu_pytorch_tanh", "hidden_size": 64,
        "initializer_range": 0.018042, "intermediate_size": 256, "layer_norm_epsilon": 1e-05, "max_position_embeddings": 256,
        "mlp_type": "default", "model_type": "starcoder2", "norm_epsilon": 1e-05, "norm_type": "layer_norm",
        "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 2, "residual_dropout": 0.1, "rope_theta": 999999.44,
        "sliding_window": 64, "torch_dtype": "bfloat16", "use_bias": True, "use_cache": True}),
    "gpt2": dict(tokenizer="gpt2", dtype="F32", config={
        "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1, "embd_pdrop": 0.1,
        "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 128, "n_embd": 64, "n_head": 4,
        "n_layer": 2, "n_positions": 128, "resid_pdrop": 0.1}),
    # Pythia: old checkpoints carry buffers that are no weights.
    "gpt-neox": dict(tokenizer="gptneox", dtype="F16", pad=64, add=[
        (f"gpt_neox.layers.{layer}.attention.{name}", "F16", shape, 0)
        for layer in range(2) for name, shape in (("masked_bias", []), ("rotary_emb.inv_freq", [2]))], config={
        "architectures": ["GPTNeoXForCausalLM"], "hidden_act": "gelu", "hidden_size": 64, "initializer_range": 0.02,
        "intermediate_size": 256, "layer_norm_eps": 1e-05, "max_position_embeddings": 128, "model_type": "gpt_neox",
        "num_attention_heads": 4, "num_hidden_layers": 2, "rotary_emb_base": 10000, "rotary_pct": 0.25,
        "tie_word_embeddings": False, "torch_dtype": "float16", "use_cache": True, "use_parallel_residual": True}),
    # Its config must say 1: transformers fills in the number of heads, with which the converter stops.
    "falcon": dict(tokenizer="falcon", dtype="BF16", config={
        "alibi": False, "architectures": ["FalconForCausalLM"], "attention_dropout": 0.0, "bias": False, "hidden_dropout": 0.0,
        "hidden_size": 64, "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "model_type": "falcon", "multi_query": True,
        "new_decoder_architecture": False, "num_attention_heads": 4, "num_hidden_layers": 2, "num_kv_heads": 1, "parallel_attn": True,
        "torch_dtype": "bfloat16", "use_cache": True}),
    # Falcon 40B: groups of keys and values, two norms.
    "falcon-40b": dict(tokenizer="falcon", dtype="BF16", config={
        "alibi": False, "architectures": ["FalconForCausalLM"], "attention_dropout": 0.0, "bias": False, "hidden_dropout": 0.0,
        "hidden_size": 128, "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "model_type": "falcon",
        "multi_query": True, "new_decoder_architecture": True, "num_attention_heads": 8, "num_hidden_layers": 2, "num_kv_heads": 2,
        "parallel_attn": True, "torch_dtype": "bfloat16", "use_cache": True}),
    "bloom": dict(tokenizer="bloom", dtype="F16", config={
        "apply_residual_connection_post_layernorm": False, "architectures": ["BloomForCausalLM"], "attention_dropout": 0.0,
        "attention_softmax_in_fp32": True, "bias_dropout_fusion": True, "hidden_dropout": 0.0, "hidden_size": 64,
        "initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "masked_softmax_fusion": True, "model_type": "bloom", "n_head": 4,
        "n_inner": None, "n_layer": 2, "offset_alibi": 100, "pretraining_tp": 1, "seq_length": 128, "use_cache": True}),
    "mpt": dict(tokenizer="gptneox", dtype="BF16", pad=64, library_class="MptForCausalLM", config={
        "architectures": ["MPTForCausalLM"], "d_model": 64, "emb_pdrop": 0, "expansion_ratio": 4, "init_device": "cpu",
        "learned_pos_emb": True, "logit_scale": None, "max_seq_len": 128, "model_type": "mpt", "n_heads": 4, "n_layers": 2,
        "no_bias": True, "norm_type": "low_precision_layernorm", "resid_pdrop": 0, "torch_dtype": "bfloat16", "use_cache": False,
        "attn_config": {"alibi": True, "alibi_bias_max": 8, "attn_impl": "torch", "attn_pdrop": 0, "attn_type": "multihead_attention",
                        "attn_uses_sequence_id": False, "clip_qkv": 8.0, "prefix_lm": False, "qk_ln": False, "softmax_scale": None}}),
    "stablelm": dict(tokenizer="gptneox", dtype="BF16", pad=64, config={
        "architectures": ["StableLmForCausalLM"], "attention_dropout": 0.0, "hidden_act": "silu", "hidden_dropout": 0.0,
        "hidden_size": 128, "initializer_range": 0.02, "intermediate_size": 256, "layer_norm_eps": 1e-05,
        "max_position_embeddings": 256, "model_type": "stablelm", "num_attention_heads": 4, "num_hidden_layers": 2,
        "num_key_value_heads": 4, "partial_rotary_factor": 0.25, "rope_theta": 10000, "tie_word_embeddings": False,
        "torch_dtype": "bfloat16", "use_cache": True, "use_qkv_bias": True}),
    "olmo2": dict(tokenizer="olmo2", dtype="BF16", pad=64, config=V5 | rope(500000.0) | {
        "architectures": ["Olmo2ForCausalLM"], "attention_bias": False, "hidden_size": 64, "intermediate_size": 128,
        "model_type": "olmo2", "rms_norm_eps": 1e-06, "tie_word_embeddings": False}),
    # DeepSeek V3: sigmoid routing with a correction, and a layer for predicting further ahead that is left out.
    "deepseek2": dict(tokenizer="deepseek", dtype="BF16", f32="e_score_correction_bias", add=[
        ("model.layers.3.eh_proj.weight", "BF16", [64, 128], 0), ("model.layers.3.enorm.weight", "BF16", [64], 1)], config={
        "architectures": ["DeepseekV3ForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "ep_size": 1,
        "first_k_dense_replace": 1, "hidden_act": "silu", "hidden_size": 64, "initializer_range": 0.02, "intermediate_size": 128,
        "kv_lora_rank": 32, "max_position_embeddings": 256, "model_type": "deepseek_v3", "moe_intermediate_size": 64,
        "moe_layer_freq": 1, "n_group": 2, "n_routed_experts": 4, "n_shared_experts": 1, "norm_topk_prob": True,
        "num_attention_heads": 4, "num_experts_per_tok": 2, "num_hidden_layers": 3, "num_key_value_heads": 4,
        "num_nextn_predict_layers": 1, "q_lora_rank": 48, "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "rms_norm_eps": 1e-06,
        "rope_scaling": YARN, "rope_theta": 10000, "routed_scaling_factor": 2.5, "scoring_func": "sigmoid",
        "tie_word_embeddings": False, "topk_group": 1, "topk_method": "noaux_tc", "torch_dtype": "bfloat16", "use_cache": True,
        "v_head_dim": 24}),
    # DeepSeek V2 Lite: no rank of queries, softmax routing.
    "deepseek2-lite": dict(tokenizer="deepseek", dtype="BF16", config={
        "architectures": ["DeepseekV2ForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "aux_loss_alpha": 0.001,
        "first_k_dense_replace": 1, "hidden_act": "silu", "hidden_size": 64, "initializer_range": 0.02, "intermediate_size": 128,
        "kv_lora_rank": 32, "max_position_embeddings": 256, "model_type": "deepseek_v2", "moe_intermediate_size": 64,
        "moe_layer_freq": 1, "n_group": 1, "n_routed_experts": 4, "n_shared_experts": 2, "norm_topk_prob": False,
        "num_attention_heads": 4, "num_experts_per_tok": 2, "num_hidden_layers": 2, "num_key_value_heads": 4,
        "q_lora_rank": None, "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "rms_norm_eps": 1e-06,
        "rope_scaling": YARN | {"mscale": 0.707, "mscale_all_dim": 0.707}, "rope_theta": 10000, "routed_scaling_factor": 1.0,
        "scoring_func": "softmax", "seq_aux": True, "tie_word_embeddings": False, "topk_group": 1, "topk_method": "greedy",
        "torch_dtype": "bfloat16", "use_cache": True, "v_head_dim": 32}),
    "command-r": dict(tokenizer="command-r", dtype="F16", config={
        "architectures": ["CohereForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "hidden_act": "silu",
        "hidden_size": 64, "initializer_range": 0.02, "intermediate_size": 128, "layer_norm_eps": 1e-05, "logit_scale": 0.0625,
        "max_position_embeddings": 256, "model_max_length": 1024, "model_type": "cohere", "num_attention_heads": 4,
        "num_hidden_layers": 2, "num_key_value_heads": 2, "rope_theta": 8000000.0, "torch_dtype": "float16", "use_cache": True,
        "use_qk_norm": False}),
    "bert": dict(tokenizer="wordpiece", dtype="F32", files=POOLING, add=[("embeddings.position_ids", "I64", [1, 128], 0)], config={
        "architectures": ["BertModel"], "attention_probs_dropout_prob": 0.1, "gradient_checkpointing": False, "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1, "hidden_size": 64, "initializer_range": 0.02, "intermediate_size": 256,
        "layer_norm_eps": 1e-12, "max_position_embeddings": 128, "model_type": "bert", "num_attention_heads": 4,
        "num_hidden_layers": 2, "pad_token_id": 0, "position_embedding_type": "absolute", "type_vocab_size": 2, "use_cache": True}),
    "nomic-bert": dict(tokenizer="wordpiece", dtype="F32", pad=64, library=False, tensors=nomic_tensors, files=POOLING, config={
        "activation_function": "swiglu", "architectures": ["NomicBertModel"], "attn_pdrop": 0.0, "causal": False,
        "dense_seq_output": True, "embd_pdrop": 0.0, "fused_bias_fc": True, "fused_dropout_add_ln": True, "initializer_range": 0.02,
        "layer_norm_epsilon": 1e-12, "max_trained_positions": 2048, "mlp_fc1_bias": False, "mlp_fc2_bias": False,
        "model_type": "nomic_bert", "n_embd": 64, "n_head": 4, "n_inner": 128, "n_layer": 2, "n_positions": 8192,
        "pad_vocab_size_multiple": 64, "parallel_block": False, "parallel_block_tied_norm": False, "prenorm": False,
        "qkv_proj_bias": False, "resid_pdrop": 0.0, "rotary_emb_base": 1000, "rotary_emb_fraction": 1.0,
        "rotary_emb_interleaved": False, "rotary_emb_scale_base": None, "rotary_scaling_factor": None, "type_vocab_size": 2,
        "use_cache": True, "use_flash_attn": True, "use_rms_norm": False}),
    "jina-bert-v2": dict(tokenizer="wordpiece", dtype="F16", library=False, tensors=jina_tensors, files=POOLING, config={
        "architectures": ["JinaBertForMaskedLM"], "attention_probs_dropout_prob": 0.0, "attn_implementation": "torch",
        "emb_pooler": "mean", "feed_forward_type": "geglu", "gradient_checkpointing": False, "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1, "hidden_size": 64, "initializer_range": 0.02, "intermediate_size": 128,
        "layer_norm_eps": 1e-12, "max_position_embeddings": 512, "model_type": "bert", "model_max_length": 512,
        "num_attention_heads": 4, "num_hidden_layers": 2, "position_embedding_type": "alibi", "torch_dtype": "float16",
        "type_vocab_size": 2, "use_cache": True}),
    "roberta": dict(tokenizer="roberta", dtype="F32", config={
        "architectures": ["RobertaModel"], "attention_probs_dropout_prob": 0.1, "gradient_checkpointing": False, "hidden_act": "gelu",
        "hidden_dropout_prob": 0.1, "hidden_size": 64, "initializer_range": 0.02, "intermediate_size": 256, "layer_norm_eps": 1e-05,
        "max_position_embeddings": 130, "model_type": "roberta", "num_attention_heads": 4, "num_hidden_layers": 2,
        "position_embedding_type": "absolute", "type_vocab_size": 1, "use_cache": True}),
    # Flan-T5: gated feed-forward, an output of its own. The converter knows no decoder with more layers than the encoder.
    "t5": dict(tokenizer="t5-sp", dtype="F32", pad=32, config={
        "architectures": ["T5ForConditionalGeneration"], "d_ff": 128, "d_kv": 32, "d_model": 64, "decoder_start_token_id": 0,
        "dense_act_fn": "gelu_new", "dropout_rate": 0.1, "feed_forward_proj": "gated-gelu", "initializer_factor": 1.0,
        "is_encoder_decoder": True, "is_gated_act": True, "layer_norm_epsilon": 1e-06, "model_type": "t5", "n_positions": 512,
        "num_decoder_layers": 2, "num_heads": 4, "num_layers": 3, "output_past": True, "relative_attention_max_distance": 128,
        "relative_attention_num_buckets": 32, "tie_word_embeddings": False, "use_cache": True}),
}

# Further families: a module each, with `MODELS` of its own.
for found in sorted((Path(__file__).resolve().parent / "families").glob("*.py")):
    MODELS |= importlib.import_module(f"families.{found.stem}").MODELS
