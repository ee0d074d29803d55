"""More models that see, hear or both: what is converted is the side of text."""


def gemma3n_tensors(whole):
    """Names and shapes of Gemma 3n as its checkpoints have them."""
    config, start = whole["text_config"], "model.language_model"
    width, head, layers = config["hidden_size"], config["head_dim"], config["num_hidden_layers"]
    queries, keys = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    small, inputs, rank = config["hidden_size_per_layer_input"], config["altup_num_inputs"], config["laurel_rank"]
    yield f"{start}.embed_tokens.weight", [config["vocab_size"], width], 0
    yield f"{start}.embed_tokens_per_layer.weight", [config["vocab_size_per_layer_input"], layers * small], 0
    yield f"{start}.per_layer_model_projection.weight", [layers * small, width], 0
    yield f"{start}.per_layer_projection_norm.weight", [small], 1
    for number in range(inputs - 1):
        yield f"{start}.altup_projections.{number}.weight", [width, width], 0
        yield f"{start}.altup_unembed_projections.{number}.weight", [width, width], 0
    for layer in range(layers):
        at, inner = f"{start}.layers.{layer}", config["intermediate_size"][layer]
        for name, size in (("input_layernorm", width), ("post_attention_layernorm", width), ("pre_feedforward_layernorm", width),
                           ("post_feedforward_layernorm", width), ("post_per_layer_input_norm", width), ("altup.router_norm", width),
                           ("laurel.post_laurel_norm", width), ("self_attn.q_norm", head), ("self_attn.k_norm", head)):
            yield f"{at}.{name}.weight", [size], 1
        yield f"{at}.altup.correct_output_scale", [width], 0
        for name, shape in (("self_attn.q_proj", [queries, width]), ("self_attn.k_proj", [keys, width]), ("self_attn.v_proj", [keys, width]),
                            ("self_attn.o_proj", [width, queries]), ("mlp.gate_proj", [inner, width]), ("mlp.up_proj", [inner, width]),
                            ("mlp.down_proj", [width, inner]), ("per_layer_input_gate", [small, width]), ("per_layer_projection", [width, small]),
                            ("altup.correction_coefs", [inputs, inputs]), ("altup.prediction_coefs", [inputs * inputs, inputs]),
                            ("altup.modality_router", [inputs, width]), ("laurel.linear_left", [rank, width]), ("laurel.linear_right", [width, rank])):
            yield f"{at}.{name}.weight", shape, 0
    yield f"{start}.norm.weight", [width], 1
    for name in ("vision_tower.timm_model.conv_stem.conv", "embed_audio.embedding"):
        yield f"model.{name}.weight", [16, 16], 0


def glm4v_tensors(whole):
    """Names and shapes of the sides of text of GLM-4V and GLM-OCR, which has a layer more, and a tensor of what sees."""
    config, start = whole.get("text_config", whole), "model.language_model"
    width, inner, head = config["hidden_size"], config["intermediate_size"], config.get("head_dim", config["hidden_size"] // config["num_attention_heads"])
    queries, keys = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    yield f"{start}.embed_tokens.weight", [config["vocab_size"], width], 0
    more = config.get("num_nextn_predict_layers", 0)
    for layer in range(config["num_hidden_layers"] + more):
        at = f"{start}.layers.{layer}"
        for name in ("input_layernorm", "post_self_attn_layernorm", "post_attention_layernorm", "post_mlp_layernorm"):
            yield f"{at}.{name}.weight", [width], 1
        for name, shape in (("self_attn.q_proj", [queries, width]), ("self_attn.k_proj", [keys, width]), ("self_attn.v_proj", [keys, width]),
                            ("self_attn.o_proj", [width, queries]), ("mlp.gate_up_proj", [2 * inner, width]), ("mlp.down_proj", [width, inner])):
            yield f"{at}.{name}.weight", shape, 0
        for name, size in (("q", queries), ("k", keys), ("v", keys)) if config["attention_bias"] else ():
            yield f"{at}.self_attn.{name}_proj.bias", [size], 0
        if layer >= config["num_hidden_layers"]:
            for name, shape, center in (("eh_proj", [width, 2 * width], 0), ("enorm", [width], 1), ("hnorm", [width], 1), ("embed_tokens", [config["vocab_size"], width], 0),
                                        ("shared_head.head", [config["vocab_size"], width], 0), ("shared_head.norm", [width], 1)):
                yield f"{at}.{name}.weight", shape, center
    yield f"{start}.norm.weight", [width], 1
    yield "model.visual.merger.proj.weight", [16, 16], 0
    yield "lm_head.weight", [config["vocab_size"], width], 0


def glm4v_moe_tensors(whole):
    """Names and shapes of the side of text of GLM-4.5V."""
    config, start = whole["text_config"], "model.language_model"
    width, head = config["hidden_size"], config["head_dim"]
    queries, keys = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    yield f"{start}.embed_tokens.weight", [config["vocab_size"], width], 0
    for layer in range(config["num_hidden_layers"]):
        at = f"{start}.layers.{layer}"
        for name in ("input_layernorm", "post_attention_layernorm"):
            yield f"{at}.{name}.weight", [width], 1
        for name, shape in (("q", [queries, width]), ("k", [keys, width]), ("v", [keys, width]), ("o", [width, queries])):
            yield f"{at}.self_attn.{name}_proj.weight", shape, 0
        for name, size in (("q", queries), ("k", keys), ("v", keys)):
            yield f"{at}.self_attn.{name}_proj.bias", [size], 0
        parts = [("", config["intermediate_size"])]
        if layer >= config["first_k_dense_replace"]:
            yield f"{at}.mlp.gate.weight", [config["n_routed_experts"], width], 0
            yield f"{at}.mlp.gate.e_score_correction_bias", [config["n_routed_experts"]], 0
            parts = [(f"experts.{expert}.", config["moe_intermediate_size"]) for expert in range(config["n_routed_experts"])]
            parts.append(("shared_experts.", config["moe_intermediate_size"] * config["n_shared_experts"]))
        for place, size in parts:
            for name, shape in (("gate", [size, width]), ("up", [size, width]), ("down", [width, size])):
                yield f"{at}.mlp.{place}{name}_proj.weight", shape, 0
    yield f"{start}.norm.weight", [width], 1
    yield "model.visual.merger.proj.weight", [16, 16], 0
    yield "lm_head.weight", [config["vocab_size"], width], 0


def decoder_tensors(config, start="", head="", bias=False, norms=False):
    """Names and shapes of a Llama, a Qwen 2 (`bias`) or a Qwen 3 (`norms`): the decoder's names begin with `start`, the output's with `head`."""
    width, inner = config["hidden_size"], config["intermediate_size"]
    size = config.get("head_dim", width // config["num_attention_heads"])
    queries, keys = config["num_attention_heads"] * size, config["num_key_value_heads"] * size
    yield f"{start}embed_tokens.weight", [config["vocab_size"], width], 0
    for layer in range(config["num_hidden_layers"]):
        at = f"{start}layers.{layer}"
        yield f"{at}.input_layernorm.weight", [width], 1
        yield f"{at}.post_attention_layernorm.weight", [width], 1
        for name, shape in (("q", [queries, width]), ("k", [keys, width]), ("v", [keys, width]), ("o", [width, queries])):
            yield f"{at}.self_attn.{name}_proj.weight", shape, 0
        for name, rows in (("q", queries), ("k", keys), ("v", keys)) if bias else ():
            yield f"{at}.self_attn.{name}_proj.bias", [rows], 0
        for name in ("q", "k") if norms else ():
            yield f"{at}.self_attn.{name}_norm.weight", [size], 1
        for name, shape in (("gate", [inner, width]), ("up", [inner, width]), ("down", [width, inner])):
            yield f"{at}.mlp.{name}_proj.weight", shape, 0
    yield f"{start}norm.weight", [width], 1
    yield f"{head}lm_head.weight", [config["vocab_size"], width], 0


def audio_flamingo_tensors(whole):
    """Names and shapes of Audio Flamingo 3, whose text is a Qwen 2, with some of what hears."""
    yield from decoder_tensors(whole["text_config"], "language_model.model.", "language_model.", bias=True)
    yield "audio_tower.layer_norm.weight", [16], 0
    yield "multi_modal_projector.linear_1.weight", [16, 16], 0


def smolvlm_tensors(whole):
    yield from decoder_tensors(whole["text_config"], "model.text_model.")
    yield "model.vision_model.post_layernorm.weight", [16], 0
    yield "model.connector.modality_projection.proj.weight", [16, 16], 0


def step_vl_tensors(whole):
    yield from decoder_tensors(whole["text_config"], "model.", norms=True)
    yield "vit_large_projector.weight", [16, 16], 0
    yield "vision_model.ln_pre.weight", [16], 0


def embedding_gemma_tensors(config):
    for name, shape, center in decoder_tensors(config, norms=True):
        if name != "lm_head.weight":
            yield name, shape, 0
        if name.endswith("input_layernorm.weight"):
            for other in ("pre_feedforward_layernorm", "post_feedforward_layernorm"):
                yield name.replace("input_layernorm", other), shape, 0


def paddleocr_tensors(config):
    yield from decoder_tensors(config, "model.")
    yield "visual.vision_model.post_layernorm.weight", [16], 0
    yield "mlp_AR.linear_1.weight", [16, 16], 0


def kimi_vl_tensors(whole):
    """Names and shapes of Kimi-VL's side of text, and a tensor of what sees."""
    config, start = whole["text_config"], "language_model.model"
    width, heads, rank = config["hidden_size"], config["num_attention_heads"], config["kv_lora_rank"]
    plain, turned, value = config["qk_nope_head_dim"], config["qk_rope_head_dim"], config["v_head_dim"]
    yield f"{start}.embed_tokens.weight", [config["vocab_size"], width], 0
    for layer in range(config["num_hidden_layers"]):
        at = f"{start}.layers.{layer}"
        for name, size in (("input_layernorm", width), ("post_attention_layernorm", width), ("self_attn.kv_a_layernorm", rank)):
            yield f"{at}.{name}.weight", [size], 1
        for name, shape in (("q_proj", [heads * (plain + turned), width]), ("kv_a_proj_with_mqa", [rank + turned, width]),
                            ("kv_b_proj", [heads * (plain + value), rank]), ("o_proj", [width, heads * value])):
            yield f"{at}.self_attn.{name}.weight", shape, 0
        parts = [("", config["intermediate_size"])]
        if layer >= config["first_k_dense_replace"]:
            yield f"{at}.mlp.gate.weight", [config["n_routed_experts"], width], 0
            yield f"{at}.mlp.gate.e_score_correction_bias", [config["n_routed_experts"]], 0
            parts = [(f"experts.{expert}.", config["moe_intermediate_size"]) for expert in range(config["n_routed_experts"])]
            parts.append(("shared_experts.", config["moe_intermediate_size"] * config["n_shared_experts"]))
        for place, size in parts:
            for name, shape in (("gate", [size, width]), ("up", [size, width]), ("down", [width, size])):
                yield f"{at}.mlp.{place}{name}_proj.weight", shape, 0
    yield f"{start}.norm.weight", [width], 1
    yield "language_model.lm_head.weight", [config["vocab_size"], width], 0
    yield "vision_tower.encoder.final_layernorm.weight", [16], 0


def hunyuan_vl_tensors(config):
    for name, shape, center in decoder_tensors(config, "model.", norms=True):
        if name != "lm_head.weight":
            yield name.replace("q_norm", "query_layernorm").replace("k_norm", "key_layernorm"), shape, center
    yield "vit.perceive.mlp.weight", [16, 16], 0


def exaone45_tensors(whole):
    """Names and shapes of EXAONE 4.5's side of text with its layer for a further token, and a tensor of what sees."""
    config = whole["text_config"]
    after = {"input_layernorm": "post_attention_layernorm", "post_attention_layernorm": "post_feedforward_layernorm"}
    for start, several in (("model.language_model.", config), ("mtp.", config | {"num_hidden_layers": 1})):
        for name, shape, center in decoder_tensors(several, start, norms=True):
            if start == "mtp." and ("embed_tokens" in name or "lm_head" in name):
                continue
            part = name.split(".")[-2]
            yield name.replace(part, after.get(part, part)), shape, center
    width = config["hidden_size"]
    yield "mtp.fc.weight", [width, 2 * width], 0
    yield "mtp.pre_fc_norm_embedding.weight", [width], 1
    yield "mtp.pre_fc_norm_hidden.weight", [width], 1
    yield "model.visual.merger.ln_q.weight", [16], 0


POOLING = {
    "modules.json": [{"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
                     {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}],
    "1_Pooling/config.json": {"word_embedding_dimension": 64, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True,
                              "pooling_mode_max_tokens": False, "pooling_mode_mean_sqrt_len_tokens": False},
}
GLM = {"attention_dropout": 0.0, "hidden_act": "silu", "hidden_size": 64, "initializer_range": 0.02, "intermediate_size": 128,
       "max_position_embeddings": 512, "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 2, "rms_norm_eps": 1e-05,
       "use_cache": True}

MODELS = {
    "gemma3n": dict(tokenizer="gemma-sp", dtype="BF16", library=False, tensors=gemma3n_tensors, config={
        "architectures": ["Gemma3nForConditionalGeneration"], "audio_config": {"model_type": "gemma3n_audio"}, "model_type": "gemma3n", "torch_dtype": "bfloat16",
        "text_config": {
            "activation_sparsity_pattern": [0.95, 0.95], "altup_active_idx": 0, "altup_coef_clip": 120.0, "altup_correct_scale": True,
            "altup_lr_multiplier": 1.0, "altup_num_inputs": 4, "attention_bias": False, "attention_dropout": 0.0, "final_logit_softcapping": 30.0,
            "head_dim": 32, "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 64, "hidden_size_per_layer_input": 16, "initializer_range": 0.02,
            "intermediate_size": [128, 128], "laurel_rank": 8, "layer_types": ["sliding_attention", "full_attention"],
            "max_position_embeddings": 512, "model_type": "gemma3n_text", "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 2,
            "num_kv_shared_layers": 0, "query_pre_attn_scalar": 256, "rms_norm_eps": 1e-06, "rope_local_base_freq": 10000.0, "rope_scaling": None,
            "rope_theta": 1000000.0, "sliding_window": 64, "torch_dtype": "bfloat16", "use_cache": True, "vocab_size_per_layer_input": 300}}),
    # As the first files of GLM-4.1V are: flat.
    "glm4v": dict(tokenizer="glm4", dtype="BF16", pad=64, library=False, tensors=glm4v_tensors, config=GLM | {
        "architectures": ["Glm4vForConditionalGeneration"], "attention_bias": True, "image_end_token_id": 3, "image_start_token_id": 4,
        "image_token_id": 5, "model_type": "glm4v", "partial_rotary_factor": 0.5, "rope_scaling": {"type": "default", "mrope_section": [1, 1, 2]},
        "rope_theta": 10000.0, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "video_end_token_id": 6, "video_start_token_id": 7,
        "video_token_id": 8, "vision_config": {"depth": 1, "hidden_size": 16}}),
    # With a layer that predicts further tokens.
    "glm-ocr": dict(tokenizer="glm4", dtype="BF16", pad=64, library=False, tensors=glm4v_tensors, config={
        "architectures": ["GlmOcrForConditionalGeneration"], "image_token_id": 5, "model_type": "glm_ocr", "tie_word_embeddings": False,
        "text_config": GLM | {"attention_bias": False, "dtype": "bfloat16", "head_dim": 32, "model_type": "glm_ocr_text", "num_nextn_predict_layers": 1,
                              "rope_parameters": {"rope_type": "default", "mrope_section": [2, 3, 3], "partial_rotary_factor": 0.5, "rope_theta": 10000}},
        "vision_config": {"depth": 1, "hidden_size": 16, "model_type": "glm_ocr_vision"}}),
    "glm4v-moe": dict(tokenizer="glm4", dtype="BF16", pad=64, library=False, tensors=glm4v_moe_tensors, f32="e_score_correction_bias", config={
        "architectures": ["Glm4vMoeForConditionalGeneration"], "image_end_token_id": 3, "image_start_token_id": 4, "image_token_id": 5,
        "model_type": "glm4v_moe", "tie_word_embeddings": False, "torch_dtype": "bfloat16", "video_end_token_id": 6, "video_start_token_id": 7,
        "video_token_id": 8, "vision_config": {"depth": 1, "hidden_size": 16, "model_type": "glm4v_moe"},
        "text_config": GLM | {"attention_bias": True, "first_k_dense_replace": 1, "head_dim": 32, "model_type": "glm4v_moe_text", "moe_intermediate_size": 32,
                              "n_group": 1, "n_routed_experts": 3, "n_shared_experts": 1, "norm_topk_prob": True, "num_experts_per_tok": 2,
                              "partial_rotary_factor": 0.5, "rope_scaling": {"type": "default", "mrope_section": [2, 3, 3]}, "rope_theta": 10000.0,
                              "routed_scaling_factor": 1.0, "topk_group": 1, "use_qk_norm": False}}),
    "qwen2-multimodal": dict(tokenizer="qwen2", dtype="BF16", pad=64, library=False, tensors=audio_flamingo_tensors, config={
        "architectures": ["AudioFlamingo3ForConditionalGeneration"], "audio_config": {"hidden_size": 16, "model_type": "audioflamingo3_encoder"},
        "audio_token_id": 3, "dtype": "bfloat16", "model_type": "audioflamingo3", "projector_bias": True, "projector_hidden_act": "gelu",
        "text_config": GLM | {"dtype": "bfloat16", "max_window_layers": 2, "model_type": "qwen2", "rms_norm_eps": 1e-06, "rope_scaling": None,
                              "rope_theta": 1000000.0, "sliding_window": None, "tie_word_embeddings": False, "use_sliding_window": False}}),
    "qwen3-multimodal": dict(tokenizer="qwen2", dtype="BF16", pad=64, library=False, tensors=step_vl_tensors, config={
        "architectures": ["StepVLForConditionalGeneration"], "im_end_token": "<im_end>", "im_patch_token": "<im_patch>", "im_start_token": "<im_start>",
        "image_token_len": 169, "model_type": "step_robotics", "projector_bias": False, "torch_dtype": "bfloat16", "understand_projector_stride": 2,
        "vision_config": {"hidden_size": 16},
        "text_config": GLM | {"architectures": ["Qwen3ForCausalLM"], "attention_bias": False, "head_dim": 32, "max_window_layers": 2, "model_type": "qwen3",
                              "rms_norm_eps": 1e-06, "rope_scaling": None, "rope_theta": 1000000.0, "sliding_window": None,
                              "tie_word_embeddings": False, "torch_dtype": "bfloat16", "use_sliding_window": False}}),
    "llama-multimodal": dict(tokenizer="llama3", dtype="BF16", pad=64, library=False, tensors=smolvlm_tensors, config={
        "architectures": ["SmolVLMForConditionalGeneration"], "image_token_id": 3, "model_type": "smolvlm", "scale_factor": 4,
        "tie_word_embeddings": False, "torch_dtype": "bfloat16", "use_cache": True, "vision_config": {"hidden_size": 16, "model_type": "smolvlm_vision"},
        "text_config": GLM | {"architectures": ["VLlama3ForCausalLM"], "attention_bias": False, "head_dim": 32, "mlp_bias": False, "model_type": "llama",
                              "perceiver_config": {"model_type": "vllama3"}, "pretraining_tp": 1, "qk_layer_norms": False, "rope_interleaved": False,
                              "rope_scaling": None, "rope_theta": 100000, "torch_dtype": "bfloat16", "use_resampler": False}}),
    # EmbeddingGemma without dense modules.
    "gemma-embedding": dict(tokenizer="gemma-sp", dtype="BF16", library=False, tensors=embedding_gemma_tensors, files=POOLING, config={
        "_sliding_window_pattern": 6, "architectures": ["Gemma3TextModel"], "attention_bias": False, "attention_dropout": 0.0,
        "attn_logit_softcapping": None, "dtype": "bfloat16", "final_logit_softcapping": None, "head_dim": 32, "hidden_activation": "gelu_pytorch_tanh",
        "hidden_size": 64, "initializer_range": 0.02, "intermediate_size": 96, "layer_types": ["sliding_attention", "sliding_attention"],
        "max_position_embeddings": 512, "model_type": "gemma3_text", "num_attention_heads": 3, "num_hidden_layers": 2, "num_key_value_heads": 1,
        "query_pre_attn_scalar": 32, "rms_norm_eps": 1e-06, "rope_local_base_freq": 10000.0, "rope_scaling": None, "rope_theta": 1000000.0,
        "sliding_window": 64, "use_bidirectional_attention": True, "use_cache": True}),
    "paddleocr": dict(tokenizer="llama-sp", dtype="BF16", pad=64, library=False, tensors=paddleocr_tensors, config={k: v for k, v in GLM.items() if k != "attention_dropout"} | {
        "architectures": ["PaddleOCRVLForConditionalGeneration"], "attention_probs_dropout_prob": 0.0, "compression_ratio": 1.0, "head_dim": 32,
        "hidden_dropout_prob": 0.0, "ignored_index": -100, "image_token_id": 3, "max_sequence_length": None, "model_type": "paddleocr_vl",
        "rope_is_neox_style": True, "rope_scaling": {"mrope_section": [4, 6, 6], "rope_type": "default", "type": "default"}, "rope_theta": 500000,
        "sliding_window": None, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "use_3d_rope": True, "use_bias": False,
        "use_flash_attention": False, "video_token_id": 4, "vision_config": {"hidden_size": 16, "model_type": "paddleocr_vl"},
        "vision_start_token_id": 5, "weight_share_add_bias": True}),
    # DeepSeek V3's layers without a rank of queries.
    "kimi-vl": dict(tokenizer="deepseek", dtype="BF16", library=False, tensors=kimi_vl_tensors, f32="e_score_correction_bias", config={
        "architectures": ["KimiVLForConditionalGeneration"], "ignore_index": -100, "media_placeholder_token_id": 3, "model_type": "kimi_vl",
        "torch_dtype": "bfloat16", "vision_config": {"hidden_size": 16, "model_type": "moonvit"},
        "text_config": GLM | {
            "attention_bias": False, "aux_loss_alpha": 0.001, "first_k_dense_replace": 1, "intermediate_size": 96, "kv_lora_rank": 32, "model_type": "deepseek_v3",
            "moe_intermediate_size": 32, "moe_layer_freq": 1, "n_group": 1, "n_routed_experts": 3, "n_shared_experts": 2, "norm_topk_prob": True,
            "num_experts_per_tok": 2, "num_key_value_heads": 4, "num_nextn_predict_layers": 0, "pretraining_tp": 1, "q_lora_rank": None,
            "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "rope_scaling": None, "rope_theta": 800000.0, "routed_scaling_factor": 2.446,
            "scoring_func": "sigmoid", "seq_aux": True, "tie_word_embeddings": False, "topk_group": 1, "topk_method": "noaux_tc",
            "torch_dtype": "bfloat16", "v_head_dim": 24}}),
    "hunyuan-vl": dict(tokenizer="deepseek", pre="hunyuan-dense", dtype="BF16", library=False, tensors=hunyuan_vl_tensors, config=GLM | {
        "architectures": ["HunYuanVLForConditionalGeneration"], "attention_bias": False, "attention_head_dim": 32, "head_dim": 32, "image_token_id": 3,
        "mlp_bias": False, "model_type": "hunyuan_vl", "norm_type": "rms", "num_experts": 1, "pretraining_tp": 1, "rope_theta": 10000.0,
        "rope_scaling": {"alpha": 1000.0, "beta_fast": 32, "beta_slow": 1, "factor": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0, "type": "xdrope",
                         "xdrope_section": [4, 4, 4, 4]},
        "tie_word_embeddings": True, "torch_dtype": "bfloat16", "use_cla": False, "use_qk_norm": True,
        "vision_config": {"hidden_size": 16}}),
    "exaone4-5": dict(tokenizer="gpt2", pre="exaone4", dtype="BF16", library=False, tensors=exaone45_tensors, config={
        "architectures": ["Exaone4_5_ForConditionalGeneration"], "image_token_id": 3, "model_type": "exaone4_5", "tie_word_embeddings": False,
        "torch_dtype": "bfloat16", "video_token_id": 4, "vision_config": {"hidden_size": 16, "model_type": "exaone4_5_vision"},
        "text_config": GLM | {"head_dim": 16, "layer_types": ["sliding_attention", "full_attention"], "model_type": "exaone4_5_text",
                              "mtp_share_layers": False, "num_nextn_predict_layers": 1, "rope_theta": 1000000, "sliding_window": 64,
                              "sliding_window_pattern": "LG",
                              "rope_scaling": {"factor": 16.0, "high_freq_factor": 4.0, "low_freq_factor": 1.0,
                                               "original_max_position_embeddings": 8192, "rope_type": "llama3"}}}),
}
