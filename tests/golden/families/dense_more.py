"""More dense decoders, and two of experts that came with them: what `MODELS` of architectures.py says."""

from families.dense import COMMON, llama_tensors, norm, without

CODE = {"initializer_range": 0.02, "layer_norm_epsilon": 1e-05, "n_embd": 64, "n_head": 4, "n_layer": 2, "n_positions": 128,
        "attn_pdrop": 0.1, "embd_pdrop": 0.1, "resid_pdrop": 0.1, "attention_softmax_in_fp32": True,
        "scale_attention_softmax_in_fp32": True, "scale_attn_weights": True, "torch_dtype": "bfloat16", "use_cache": True}


def codeshell_tensors(config):
    width, vocabulary = config["n_embd"], config["vocab_size"]
    keys = width // config["n_head"] * config["num_query_groups"]
    yield "transformer.wte.weight", [vocabulary, width], 0
    yield "lm_head.weight", [vocabulary, width], 0
    yield from norm("transformer.ln_f", width)
    for layer in range(config["n_layer"]):
        at = f"transformer.h.{layer}"
        yield from norm(f"{at}.ln_1", width)
        yield from norm(f"{at}.ln_2", width)
        for name, shape in (("attn.c_attn", [width + 2 * keys, width]), ("attn.c_proj", [width, width]),
                            ("mlp.c_fc", [config["n_inner"], width]), ("mlp.c_proj", [width, config["n_inner"]])):
            yield f"{at}.{name}.weight", shape, 0
            yield f"{at}.{name}.bias", shape[:1], 0
        yield f"{at}.attn.rotary_emb.inv_freq", [width // config["n_head"] // 2], 0


def refact_tensors(config):
    width, head, vocabulary, inner = config["n_embd"], config["n_embd"] // config["n_head"], config["vocab_size"], 256
    yield "transformer.wte.weight", [vocabulary, width], 0
    yield "lm_head.weight", [vocabulary, width], 0
    yield "ln_f.weight", [width], 1
    for layer in range(config["n_layer"]):
        at = f"transformer.h.{layer}"
        yield f"{at}.ln_1.weight", [width], 1
        yield f"{at}.ln_2.weight", [width], 1
        yield f"{at}.attn.q.weight", [width, width], 0
        yield f"{at}.attn.kv.weight", [2 * head, width], 0
        yield f"{at}.attn.c_proj.weight", [width, width], 0
        yield f"{at}.mlp.gate_up_proj.weight", [2 * inner, width], 0
        yield f"{at}.mlp.c_proj.weight", [width, inner], 0


def kormo_tensors(config):
    for name, shape, center in llama_tensors(config):
        name = name.replace("post_attention_layernorm", "pre_mlp_layernorm")
        yield name.replace("input_layernorm", "pre_attention_layernorm"), shape, center


def maincoder_tensors(config):
    for name, shape, center in llama_tensors(config):
        yield name.replace(".mlp.", ".feed_forward."), shape, center
        if name.endswith((".q_proj.weight", ".k_proj.weight")):
            yield name.replace("_proj.", "_norm."), [config["head_dim"]], 1


def mellum_tensors(config):
    width, inner = config["hidden_size"], config["moe_intermediate_size"]
    for name, shape, center in llama_tensors(config):
        at = name.partition("mlp.")[0] + "mlp"
        if name.endswith(".mlp.gate_proj.weight"):
            yield f"{at}.gate.weight", [config["num_experts"], width], 0
        for expert in range(config["num_experts"] if ".mlp." in name else 0):
            out = [width, inner] if ".down_proj." in name else [inner, width]
            yield name.replace(".mlp.", f".mlp.experts.{expert}."), out, 0
        if ".mlp." not in name:
            yield name, shape, center
        if name.endswith((".q_proj.weight", ".k_proj.weight")):
            yield name.replace("_proj.", "_norm."), [config["head_dim"]], 1


def spark_tensors(config):
    heads, keys = config["num_attention_heads"], config["num_key_value_heads"]
    for name, shape, center in llama_tensors(config):
        at = name.partition("self_attn.")[0] + "self_attn"
        if ".q_proj." in name:
            yield f"{at}.q_k_v_proj.weight", [(heads + 2 * keys) * config["head_dim"], config["hidden_size"]], 0
            yield f"{at}.g_proj.weight", [heads, config["hidden_size"]], 0
        elif ".k_proj." not in name and ".v_proj." not in name:
            yield name.replace("model.embed_tokens", "model.embedding").replace("o_proj", "out_proj"), shape, center


def openelm_tensors(config):
    width, head = config["model_dim"], config["head_dim"]
    yield "transformer.token_embeddings.weight", [config["vocab_size"], width], 0
    yield "transformer.norm.weight", [width], 1
    for layer, (heads, keys, factor) in enumerate(zip(config["num_query_heads"], config["num_kv_heads"], config["ffn_multipliers"])):
        at, inner = f"transformer.layers.{layer}", int(factor * width + 32) // 64 * 64
        yield f"{at}.attn_norm.weight", [width], 1
        yield f"{at}.ffn_norm.weight", [width], 1
        yield f"{at}.attn.q_norm.weight", [head], 1
        yield f"{at}.attn.k_norm.weight", [head], 1
        yield f"{at}.attn.qkv_proj.weight", [(heads + 2 * keys) * head, width], 0
        yield f"{at}.attn.out_proj.weight", [width, heads * head], 0
        yield f"{at}.ffn.proj_1.weight", [2 * inner, width], 0
        yield f"{at}.ffn.proj_2.weight", [width, inner], 0


def rugpt3xl_tensors(config):
    every = tuple(f"self_attn.{name}_proj" for name in "qkvo") + ("mlp.up_proj", "mlp.down_proj")
    yield "model.embed_positions.weight", [config["max_position_embeddings"], config["hidden_size"]], 0
    yield from llama_tensors(config, bias=every, norms=True, gate=False)


def chatglm_tensors(config):
    """Names and shapes of glm-4-9b, whose code is not in transformers."""
    width, inner = config["hidden_size"], config["ffn_hidden_size"]
    fused = width + 2 * config["multi_query_group_num"] * config["kv_channels"]
    yield "transformer.embedding.word_embeddings.weight", [config["padded_vocab_size"], width], 0
    yield "transformer.output_layer.weight", [config["padded_vocab_size"], width], 0
    yield "transformer.encoder.final_layernorm.weight", [width], 1
    yield "transformer.rotary_pos_emb.inv_freq", [config["kv_channels"] // 4], 0
    for layer in range(config["num_layers"]):
        at = f"transformer.encoder.layers.{layer}"
        yield f"{at}.input_layernorm.weight", [width], 1
        yield f"{at}.post_attention_layernorm.weight", [width], 1
        yield f"{at}.self_attention.query_key_value.weight", [fused, width], 0
        yield f"{at}.self_attention.query_key_value.bias", [fused], 0
        yield f"{at}.self_attention.dense.weight", [width, width], 0
        yield f"{at}.mlp.dense_h_to_4h.weight", [2 * inner, width], 0
        yield f"{at}.mlp.dense_4h_to_h.weight", [width, inner], 0


SPARK_ROPE = {"full_attention": {"partial_rotary_factor": 0.25, "rope_theta": 5000000},
              "sliding_attention": {"partial_rotary_factor": 1.0, "rope_theta": 10000}}

MODELS = {
    "starcoder": dict(tokenizer="starcoder", dtype="BF16", config=CODE | {
        "activation_function": "gelu", "architectures": ["GPTBigCodeForCausalLM"], "inference_runner": 0, "max_batch_size": None,
        "max_sequence_length": None, "model_type": "gpt_bigcode", "multi_query": True, "n_inner": 256, "pad_key_length": True,
        "pre_allocate_kv_cache": False, "summary_activation": None, "summary_first_dropout": 0.1, "summary_proj_to_labels": True,
        "summary_type": "cls_index", "summary_use_proj": True, "validate_runner_input": True}),
    # Old buffers of the rotation lie in the files.
    "codeshell": dict(tokenizer="starcoder", pre="codeshell", dtype="BF16", library=False, tensors=codeshell_tensors, config=CODE | {
        "activation_function": "gelu_pytorch_tanh", "architectures": ["CodeShellForCausalLM"], "group_query_attention": True,
        "model_type": "codeshell", "n_inner": 256, "num_query_groups": 2, "position_embedding_type": "rope", "rope_scaling": None,
        "auto_map": {"AutoConfig": "configuration_codeshell.CodeShellConfig",
                     "AutoModelForCausalLM": "modeling_codeshell.CodeShellForCausalLM"}}),
    # The feed forward is two thirds of four times the width, up to a multiple of 256.
    "refact": dict(tokenizer="starcoder", pre="refact", dtype="BF16", library=False, tensors=refact_tensors, config=CODE | {
        "architectures": ["GPTRefactForCausalLM"], "attention_bias_in_fp32": True, "do_sample": True, "model_type": "gpt_refact",
        "multi_query": True, "n_inner": None, "auto_map": {
            "AutoConfig": "configuration_gpt_refact.GPTRefactConfig", "AutoModelForCausalLM": "modeling_gpt_refact.GPTRefactForCausalLM"}}),
    "kormo": dict(tokenizer="qwen2", pre="kormo", dtype="BF16", library=False, tensors=kormo_tensors, config=COMMON | {
        "architectures": ["KORMoForCausalLM"], "attention_bias": False, "head_dim": 16, "mask_type": None, "mlp_bias": False,
        "model_type": "kormo", "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": None, "rope_theta": 500000.0,
        "tie_word_embeddings": False, "auto_map": {
            "AutoConfig": "_configuration_kormo.KORMoConfig", "AutoModel": "_modeling_kormo.KORMoModel",
            "AutoModelForCausalLM": "_modeling_kormo.KORMoForCausalLM"}}),
    "maincoder": dict(tokenizer="qwen2", dtype="BF16", pad=64, library=False, tensors=maincoder_tensors, config=COMMON | {
        "architectures": ["MaincoderForCausalLM"], "attention_bias": False, "head_dim": 32, "intermediate_size_mlp": 128,
        "model_type": "maincoder", "rms_norm_eps": 1e-05, "rope_scaling": None, "rope_theta": 1000000.0, "tie_word_embeddings": True,
        "use_qk_norm": True, "auto_map": {"AutoConfig": "configuration_maincoder.MaincoderConfig",
                                          "AutoModelForCausalLM": "modeling_maincoder.MaincoderForCausalLM"}}),
    # Windows in three layers of four, where the rotation is not stretched.
    "mellum": dict(tokenizer="starcoder", pre="mellum2", dtype="BF16", library=False, tensors=mellum_tensors,
                   config=without(COMMON, "torch_dtype", "use_cache") | {
        "architectures": ["MellumForCausalLM"], "attention_bias": False, "dtype": "bfloat16", "head_dim": 32,
        "layer_types": ["sliding_attention", "full_attention"], "mlp_layer_types": ["sparse", "sparse"], "model_type": "mellum",
        "moe_intermediate_size": 32, "norm_topk_prob": True, "num_experts": 4, "num_experts_per_tok": 2,
        "output_router_logits": False, "rms_norm_eps": 1e-06, "router_aux_loss_coef": 0.001, "sliding_window": 64,
        "tie_word_embeddings": False, "rope_parameters": {
            "full_attention": {"beta_fast": 32.0, "beta_slow": 1.0, "factor": 4.0, "original_max_position_embeddings": 64,
                               "rope_theta": 500000.0, "rope_type": "yarn"},
            "sliding_attention": {"rope_theta": 500000.0, "rope_type": "default"}}}),
    "spark2-5": dict(tokenizer="deepseek", dtype="BF16", library=False, tensors=spark_tensors, config=COMMON | {
        "architectures": ["Spark2_5ForCausalLM"], "attention_bias": False, "gate_attn_act_mode": "sigmoid", "head_dim": 32,
        "headwise_attn_output_gate": True, "hidden_act": "gelu", "layer_types": ["sliding_attention", "full_attention"],
        "mlp_bias": False, "model_type": "spark2_5", "rms_norm_eps": 1e-06, "rope_parameters": SPARK_ROPE, "sliding_window": 64,
        "tie_word_embeddings": True, "auto_map": {
            "AutoConfig": "configuration_spark.Spark2_5Config", "AutoModel": "modeling_spark.Spark2_5Model",
            "AutoModelForCausalLM": "modeling_spark.Spark2_5ForCausalLM"}}),
    # Layers of different widths.
    "openelm": dict(tokenizer="llama-sp", dtype="BF16", library=False, tensors=openelm_tensors, config={
        "activation_fn_name": "swish", "architectures": ["OpenELMForCausalLM"], "ffn_dim_divisor": 64,
        "ffn_multipliers": [0.5, 1.79, 4.0], "ffn_with_glu": True, "head_dim": 16, "initializer_range": 0.02,
        "max_context_length": 256, "model_dim": 64, "model_type": "openelm", "normalization_layer_name": "rms_norm",
        "normalize_qk_projections": True, "num_gqa_groups": 2, "num_kv_heads": [1, 1, 2], "num_query_heads": [2, 2, 4],
        "num_transformer_layers": 3, "qkv_multipliers": [0.5, 1.0], "rope_freq_constant": 10000, "rope_max_length": 512,
        "share_input_output_layers": True, "torch_dtype": "bfloat16", "use_cache": True, "auto_map": {
            "AutoConfig": "configuration_openelm.OpenELMConfig", "AutoModelForCausalLM": "modeling_openelm.OpenELMForCausalLM"}}),
    "rugpt3xl": dict(tokenizer="gpt2", dtype="BF16", library=False, tensors=rugpt3xl_tensors, config=without(
        COMMON, "num_key_value_heads", "attention_dropout") | {
        "architectures": ["RuGPT3XLForCausalLM"], "attention_dropout": 0.1, "attn_implementation": "sdpa", "embedding_dropout": 0.1,
        "hidden_act": "gelu_new", "intermediate_size": 256, "layer_norm_eps": 1e-05, "model_type": "rugpt3xl",
        "output_dropout": 0.1, "sparse_block_size": 16, "sparse_mode": "none", "sparse_num_different_global_patterns": 8,
        "sparse_num_global_blocks": 1, "sparse_num_local_blocks": 8, "tie_word_embeddings": False, "auto_map": {
            "AutoConfig": "configuration_rugpt3xl.RuGPT3XLConfig", "AutoModelForCausalLM": "modeling_rugpt3xl.RuGPT3XLForCausalLM"}}),
    # Half of each head rotates; four norms a layer.
    "glm4": dict(tokenizer="glm4", dtype="BF16", pad=64, config=COMMON | {
        "architectures": ["Glm4ForCausalLM"], "attention_bias": True, "head_dim": 32, "model_type": "glm4",
        "partial_rotary_factor": 0.5, "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "tie_word_embeddings": False}),
    "chatglm": dict(tokenizer="glm4", dtype="BF16", pad=64, library=False, tensors=chatglm_tensors, config={
        "add_bias_linear": False, "add_qkv_bias": True, "apply_query_key_layer_scaling": True,
        "apply_residual_connection_post_layernorm": False, "architectures": ["ChatGLMModel"], "attention_dropout": 0.0,
        "attention_softmax_in_fp32": True, "attn_implementation": "sdpa", "bias_dropout_fusion": True, "classifier_dropout": None,
        "ffn_hidden_size": 128, "fp32_residual_connection": False, "hidden_dropout": 0.0, "hidden_size": 64, "kv_channels": 16,
        "layernorm_epsilon": 1.5625e-07, "model_type": "chatglm", "multi_query_attention": True, "multi_query_group_num": 2,
        "num_attention_heads": 4, "num_hidden_layers": 2, "num_layers": 2, "original_rope": True, "padded_vocab_size": 512,
        "post_layer_norm": True, "rmsnorm": True, "rope_ratio": 500, "seq_length": 256, "tie_word_embeddings": False,
        "torch_dtype": "bfloat16", "use_cache": True, "auto_map": {
            "AutoConfig": "configuration_chatglm.ChatGLMConfig", "AutoModel": "modeling_chatglm.ChatGLMForConditionalGeneration",
            "AutoModelForCausalLM": "modeling_chatglm.ChatGLMForConditionalGeneration"}}),
    "nemotron": dict(tokenizer="nemotron-sp", dtype="BF16", config=COMMON | {
        "architectures": ["NemotronForCausalLM"], "attention_bias": False, "head_dim": 16, "hidden_act": "relu2",
        "initializer_range": 0.0134, "mlp_bias": False, "model_type": "nemotron", "norm_eps": 1e-05, "partial_rotary_factor": 0.5,
        "rope_theta": 10000, "tie_word_embeddings": False}),
}
