"""Models whose weights are packed as NVFP4, with a scale of all scales and one for activations."""

from families.mixtures import attention, ends, gated, layer_norms, linear, norm

LLAMA = {"architectures": ["LlamaForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "head_dim": 32, "hidden_act": "silu",
         "hidden_size": 64, "initializer_range": 0.02, "intermediate_size": 128, "max_position_embeddings": 256, "mlp_bias": False,
         "model_type": "llama", "num_attention_heads": 4, "num_hidden_layers": 1, "num_key_value_heads": 2, "pretraining_tp": 1,
         "rms_norm_eps": 1e-05, "rope_theta": 10000.0, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "use_cache": True}
QWEN3_MOE = {
    "architectures": ["Qwen3MoeForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "decoder_sparse_step": 1, "head_dim": 32,
    "hidden_act": "silu", "hidden_size": 64, "initializer_range": 0.02, "intermediate_size": 192, "max_position_embeddings": 512,
    "max_window_layers": 1, "mlp_only_layers": [], "model_type": "qwen3_moe", "moe_intermediate_size": 64, "norm_topk_prob": True,
    "num_attention_heads": 4, "num_experts": 3, "num_experts_per_tok": 2, "num_hidden_layers": 1, "num_key_value_heads": 2,
    "output_router_logits": False, "rms_norm_eps": 1e-06, "rope_scaling": None, "rope_theta": 1000000.0, "router_aux_loss_coef": 0.001,
    "sliding_window": None, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "use_cache": True, "use_sliding_window": False}
PACKED = {"format": "nvfp4-pack-quantized", "targets": ["Linear"], "weights": {
    "group_size": 16, "num_bits": 4, "strategy": "tensor_group", "symmetric": True, "type": "float"}}


def floats(config):
    """What is not packed."""
    yield from ends(config)
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}"
        yield from layer_norms(at, config)
        if "num_experts" in config:
            yield from linear(f"{at}.mlp.gate", config["num_experts"], config["hidden_size"])
            yield from norm(f"{at}.self_attn.q_norm", config["head_dim"])
            yield from norm(f"{at}.self_attn.k_norm", config["head_dim"])


def weights(config):
    """Names and shapes of the weights that are packed."""
    for layer in range(config["num_hidden_layers"]):
        at, width = f"model.layers.{layer}", config["hidden_size"]
        yield from attention(f"{at}.self_attn", config)
        if "num_experts" not in config:
            yield from gated(f"{at}.mlp", width, config["intermediate_size"])
        for expert in range(config.get("num_experts", 0)):
            yield from gated(f"{at}.mlp.experts.{expert}", width, config["moe_intermediate_size"])


def nvfp4(config, codes, factor, activations, shape):
    """The parts of each weight under a scheme's names."""
    for name, (rows, columns), _ in weights(config):
        module = name.removesuffix(".weight")
        yield f"{module}.{codes}", "U8", [rows, columns // 2], 0
        yield f"{module}.weight_scale", "F8_E4M3", [rows, columns // 16], 0
        yield f"{module}.{factor}", "F32", shape, 1
        yield f"{module}.{activations}", "F32", shape, 1


MODELS = {
    "llama-nvfp4": dict(library=False, tokenizer="llama-sp", dtype="BF16", tensors=floats, config=LLAMA | {"quantization_config": {
        "config_groups": {}, "ignore": ["lm_head"], "quant_algo": "NVFP4", "quant_method": "modelopt"}},
        add=list(nvfp4(LLAMA, "weight", "weight_scale_2", "input_scale", []))),
    "qwen3-moe-nvfp4": dict(library=False, tokenizer="qwen2", dtype="BF16", pad=64, tensors=floats, config=QWEN3_MOE | {"quantization_config": {
        "config_groups": {"group_0": PACKED}, "format": "nvfp4-pack-quantized", "ignore": ["lm_head", "re:.*mlp.gate$"],
        "quant_method": "compressed-tensors"}},
        add=list(nvfp4(QWEN3_MOE, "weight_packed", "weight_global_scale", "input_global_scale", [1]))),
}
