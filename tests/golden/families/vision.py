"""Models that see as well: what is converted is the side of text, and the tensors of the rest are there."""

TEXT = {"attention_dropout": 0.0, "dtype": "bfloat16", "hidden_act": "silu", "hidden_size": 64, "initializer_range": 0.02, "intermediate_size": 128,
        "max_position_embeddings": 512, "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 2, "rms_norm_eps": 1e-06,
        "use_cache": True}
TOKENS = {"image_token_id": 3, "video_token_id": 4, "vision_start_token_id": 5, "vision_end_token_id": 6}
QWEN3_SIGHT = {"deepstack_visual_indexes": [0], "depth": 1, "hidden_act": "gelu_pytorch_tanh", "hidden_size": 32, "in_channels": 3,
               "initializer_range": 0.02, "intermediate_size": 64, "num_heads": 2, "num_position_embeddings": 16, "out_hidden_size": 64,
               "patch_size": 4, "spatial_merge_size": 2, "temporal_patch_size": 2}
SECTIONS = {"mrope_interleaved": True, "mrope_section": [6, 5, 5], "rope_type": "default"}


def llama_tensors(config):
    """Names and shapes of a Llama."""
    width, inner, head = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    queries, keys = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    yield "model.embed_tokens.weight", [config["vocab_size"], width], 0
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}"
        yield f"{at}.input_layernorm.weight", [width], 1
        yield f"{at}.post_attention_layernorm.weight", [width], 1
        for name, shape in (("q", [queries, width]), ("k", [keys, width]), ("v", [keys, width]), ("o", [width, queries])):
            yield f"{at}.self_attn.{name}_proj.weight", shape, 0
        for name, shape in (("gate", [inner, width]), ("up", [inner, width]), ("down", [width, inner])):
            yield f"{at}.mlp.{name}_proj.weight", shape, 0
    yield "model.norm.weight", [width], 1
    yield "lm_head.weight", [config["vocab_size"], width], 0


MODELS = {
    # Qwen 2.5 VL as its checkpoints are: flat.
    "qwen2-vl": dict(tokenizer="qwen2", dtype="BF16", pad=64, config=TEXT | TOKENS | {
        "architectures": ["Qwen2_5_VLForConditionalGeneration"], "model_type": "qwen2_5_vl", "max_window_layers": 2, "torch_dtype": "bfloat16",
        "rope_scaling": {"type": "mrope", "mrope_section": [2, 3, 3]}, "rope_theta": 1000000.0, "sliding_window": 512,
        "tie_word_embeddings": True, "use_sliding_window": False,
        "vision_config": {"depth": 1, "fullatt_block_indexes": [0], "hidden_act": "silu", "hidden_size": 32, "in_channels": 3, "in_chans": 3,
                          "intermediate_size": 64, "model_type": "qwen2_5_vl", "num_heads": 2, "out_hidden_size": 64, "patch_size": 4,
                          "spatial_merge_size": 2, "spatial_patch_size": 4, "temporal_patch_size": 2, "tokens_per_second": 2, "window_size": 16}}),
    "qwen3-vl": dict(tokenizer="qwen2", dtype="BF16", pad=64, config=TOKENS | {
        "architectures": ["Qwen3VLForConditionalGeneration"], "model_type": "qwen3_vl", "tie_word_embeddings": False,
        "text_config": TEXT | {"attention_bias": False, "head_dim": 32, "model_type": "qwen3_vl_text", "rope_scaling": SECTIONS,
                               "rope_theta": 5000000},
        "vision_config": QWEN3_SIGHT | {"model_type": "qwen3_vl"}}),
    "qwen3-vl-moe": dict(tokenizer="qwen2", dtype="BF16", pad=64, config=TOKENS | {
        "architectures": ["Qwen3VLMoeForConditionalGeneration"], "model_type": "qwen3_vl_moe", "tie_word_embeddings": False,
        "text_config": TEXT | {"attention_bias": False, "decoder_sparse_step": 1, "head_dim": 32, "mlp_only_layers": [],
                               "model_type": "qwen3_vl_moe_text", "moe_intermediate_size": 48, "norm_topk_prob": True, "num_experts": 4,
                               "num_experts_per_tok": 2, "rope_scaling": SECTIONS, "rope_theta": 5000000},
        "vision_config": QWEN3_SIGHT | {"model_type": "qwen3_vl_moe"}}),
    # As transformers saves Gemma 3: what equals the defaults of its class is not said.
    "gemma3-vision": dict(tokenizer="gemma-sp", dtype="BF16", pad=64, config={
        "architectures": ["Gemma3ForConditionalGeneration"], "boi_token_index": 7, "eoi_token_index": 8, "image_token_index": 9,
        "initializer_range": 0.02, "mm_tokens_per_image": 4, "model_type": "gemma3", "torch_dtype": "bfloat16", "transformers_version": "4.50.0.dev0",
        "text_config": {"head_dim": 32, "hidden_size": 64, "intermediate_size": 128, "model_type": "gemma3_text", "num_hidden_layers": 2,
                        "query_pre_attn_scalar": 32, "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 64},
        "vision_config": {"hidden_size": 32, "image_size": 16, "intermediate_size": 64, "model_type": "siglip_vision_model", "num_attention_heads": 2,
                          "num_hidden_layers": 1, "patch_size": 4, "vision_use_head": False}}),
    "mistral3": dict(tokenizer="llama3", dtype="BF16", pad=64, config={
        "architectures": ["Mistral3ForConditionalGeneration"], "image_token_index": 10, "model_type": "mistral3", "multimodal_projector_bias": False,
        "projector_hidden_act": "gelu", "spatial_merge_size": 2, "torch_dtype": "bfloat16", "vision_feature_layer": -1,
        "text_config": TEXT | {"head_dim": 32, "model_type": "mistral", "rope_theta": 1000000000.0, "sliding_window": None},
        "vision_config": {"attention_dropout": 0.0, "head_dim": 16, "hidden_act": "silu", "hidden_size": 32, "image_size": 16, "initializer_range": 0.02,
                          "intermediate_size": 64, "model_type": "pixtral", "num_attention_heads": 2, "num_channels": 3, "num_hidden_layers": 1,
                          "patch_size": 4, "rope_theta": 10000.0}}),
    # Ministral 3, whose class is not in this version of transformers.
    "ministral3": dict(tokenizer="llama3", dtype="BF16", pad=64, library=False, tensors=lambda config: llama_tensors(config), config=TEXT | {
        "architectures": ["Ministral3ForCausalLM"], "head_dim": 32, "model_type": "ministral3", "sliding_window": None, "tie_word_embeddings": False,
        "rope_parameters": {"beta_fast": 32.0, "beta_slow": 1.0, "factor": 16.0, "llama_4_scaling_beta": 0.1, "mscale": 1.0, "mscale_all_dim": 1.0,
                            "original_max_position_embeddings": 64, "rope_theta": 1000000.0, "rope_type": "yarn", "type": "yarn"}}),
    # Experts in every other layer, as in Maverick.
    "llama4": dict(tokenizer="llama3", dtype="BF16", pad=64, config={
        "architectures": ["Llama4ForConditionalGeneration"], "boi_token_index": 11, "eoi_token_index": 12, "image_token_index": 13,
        "model_type": "llama4", "tie_word_embeddings": False, "torch_dtype": "bfloat16",
        "text_config": TEXT | {"attention_bias": False, "attention_chunk_size": 8192, "attn_scale": 0.1, "attn_temperature_tuning": 4, "floor_scale": 8192,
                               "for_llm_compressor": False, "head_dim": 16, "interleave_moe_layer_step": 2, "intermediate_size": 64,
                               "intermediate_size_mlp": 128, "model_type": "llama4_text", "no_rope_layers": [], "num_experts_per_tok": 1,
                               "num_hidden_layers": 2, "num_local_experts": 4, "output_router_logits": False, "rms_norm_eps": 1e-05, "rope_scaling": None,
                               "rope_theta": 500000.0, "router_aux_loss_coef": 0.001, "router_jitter_noise": 0.0, "use_qk_norm": True},
        "vision_config": {"hidden_act": "gelu", "hidden_size": 32, "image_size": 16, "initializer_range": 0.02, "intermediate_size": 64,
                          "model_type": "llama4_vision_model", "multi_modal_projector_bias": False, "norm_eps": 1e-05, "num_attention_heads": 2,
                          "num_channels": 3, "num_hidden_layers": 1, "patch_size": 4, "pixel_shuffle_ratio": 0.5, "projector_dropout": 0.0,
                          "projector_input_dim": 32, "projector_output_dim": 32, "rope_theta": 10000, "vision_feature_layer": -1,
                          "vision_feature_select_strategy": "default", "vision_output_dim": 32}}),
}
