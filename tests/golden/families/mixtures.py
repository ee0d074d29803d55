"""Decoders with experts: see ../architectures.py."""

import json
from pathlib import Path

TOKENIZERS = Path(__file__).resolve().parent.parent / "tokenizers"


def renamed(kind, named, **config):
    """The files of a tokenizer whose tokens have other names, some of which a converter asks for by name; without most of its merges."""
    held = {name: json.loads((TOKENIZERS / kind / name).read_text()) for name in ("tokenizer.json", "tokenizer_config.json")}
    added = [*held["tokenizer.json"]["added_tokens"], *held["tokenizer_config.json"]["added_tokens_decoder"].values()]
    for token in added:
        new = named.get(token["content"])
        token |= {"content": new, "special": True} if new else {}
    model = held["tokenizer.json"]["model"]
    last = min(token["id"] for token in held["tokenizer.json"]["added_tokens"])
    vocabulary = sorted(model["vocab"], key=model["vocab"].get)[:264]
    model["merges"] = model["merges"][: 264 - 256]
    # Ids without a token lie between.
    model["vocab"] = {token: number for number, token in enumerate(vocabulary)}
    model["vocab"] |= {token["content"]: token["id"] for token in held["tokenizer.json"]["added_tokens"] if token["id"] >= last}
    held["tokenizer_config.json"] |= config
    return {name: json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n" for name, value in held.items()}


def linear(name, rows, columns, bias=False):
    yield f"{name}.weight", [rows, columns], 0
    if bias:
        yield f"{name}.bias", [rows], 0


def norm(name, width):
    yield f"{name}.weight", [width], 1


def ends(config):
    """The embedding, the last norm and the output."""
    vocab, width = config["vocab_size"], config["hidden_size"]
    yield "model.embed_tokens.weight", [vocab, width], 0
    yield from norm("model.norm", width)
    yield "lm_head.weight", [vocab, width], 0


def attention(at, config, bias=False, norms=None):
    """Queries, keys, values and output; with norms of each head, or of all heads at once."""
    width, heads, keys = config["hidden_size"], config["num_attention_heads"], config["num_key_value_heads"]
    head = config.get("head_dim") or width // heads
    yield from linear(f"{at}.q_proj", heads * head, width, bias)
    yield from linear(f"{at}.k_proj", keys * head, width, bias)
    yield from linear(f"{at}.v_proj", keys * head, width, bias)
    yield from linear(f"{at}.o_proj", width, heads * head)
    if norms:
        yield from norm(f"{at}.q_norm", head if norms == "head" else heads * head)
        yield from norm(f"{at}.k_norm", head if norms == "head" else keys * head)


def gated(at, width, inner, names=("gate_proj", "up_proj", "down_proj")):
    gate, up, down = names
    yield from linear(f"{at}.{gate}", inner, width)
    yield from linear(f"{at}.{up}", inner, width)
    yield from linear(f"{at}.{down}", width, inner)


def layer_norms(at, config, names=("input_layernorm", "post_attention_layernorm")):
    for name in names:
        yield from norm(f"{at}.{name}", config["hidden_size"])


def next_token(at, config):
    """What a layer that predicts a further token has besides a layer's own tensors."""
    width, vocab = config["hidden_size"], config["vocab_size"]
    yield from norm(f"{at}.enorm", width)
    yield from norm(f"{at}.hnorm", width)
    yield from linear(f"{at}.eh_proj", width, 2 * width)
    yield from linear(f"{at}.embed_tokens", vocab, width)
    yield from norm(f"{at}.shared_head.norm", width)
    yield from linear(f"{at}.shared_head.head", vocab, width)


def glm4_moe_tensors(config):
    """With the layer that predicts a further token, which the library does not have."""
    width, inner = config["hidden_size"], config["moe_intermediate_size"]
    yield from ends(config)
    for layer in range(config["num_hidden_layers"] + config["num_nextn_predict_layers"]):
        at = f"model.layers.{layer}"
        yield from layer_norms(at, config)
        yield from attention(f"{at}.self_attn", config, config["attention_bias"], config["use_qk_norm"] and "head")
        if layer < config["first_k_dense_replace"]:
            yield from gated(f"{at}.mlp", width, config["intermediate_size"])
        else:
            yield from linear(f"{at}.mlp.gate", config["n_routed_experts"], width)
            yield f"{at}.mlp.gate.e_score_correction_bias", [config["n_routed_experts"]], 0
            yield from gated(f"{at}.mlp.shared_experts", width, inner * config["n_shared_experts"])
            for expert in range(config["n_routed_experts"]):
                yield from gated(f"{at}.mlp.experts.{expert}", width, inner)
        if layer >= config["num_hidden_layers"]:
            yield from next_token(at, config)


def minimax_m2_tensors(config):
    width, inner = config["hidden_size"], config["intermediate_size"]
    yield from ends(config)
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}"
        yield from layer_norms(at, config)
        yield from attention(f"{at}.self_attn", config, norms="all")
        yield from linear(f"{at}.block_sparse_moe.gate", config["num_local_experts"], width)
        yield f"{at}.block_sparse_moe.e_score_correction_bias", [config["num_local_experts"]], 0
        for expert in range(config["num_local_experts"]):
            yield from gated(f"{at}.block_sparse_moe.experts.{expert}", width, inner, ("w1", "w3", "w2"))


def experts(at, config, count, inner, shared=0, names=("gate_proj", "up_proj", "down_proj"), shared_name="shared_experts"):
    """The router, the experts, and one that every token uses."""
    width = config["hidden_size"]
    yield from linear(f"{at}.gate", count, width)
    for expert in range(count):
        yield from gated(f"{at}.experts.{expert}", width, inner, names)
    if shared:
        yield from gated(f"{at}.{shared_name}", width, shared)


def gpt_oss_tensors(config):
    """Names and shapes of gpt-oss but for its experts' weights."""
    width, inner, experts = config["hidden_size"], config["intermediate_size"], config["num_local_experts"]
    yield from ends(config)
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}"
        yield from norm(f"{at}.input_layernorm", width)
        yield from norm(f"{at}.post_attention_layernorm", width)
        yield from attention(f"{at}.self_attn", config, bias=True)
        yield f"{at}.self_attn.o_proj.bias", [width], 0
        yield f"{at}.self_attn.sinks", [config["num_attention_heads"]], 0
        yield from linear(f"{at}.mlp.router", experts, width, bias=True)
        yield f"{at}.mlp.experts.gate_up_proj_bias", [experts, 2 * inner], 0
        yield f"{at}.mlp.experts.down_proj_bias", [experts, width], 0


def gpt_oss_experts(layers, experts, width, inner):
    """The weights of gpt-oss's experts as its files have them: blocks of 32 codes in MXFP4, and a scale for each."""
    for layer in range(layers):
        for name, rows, columns in (("gate_up_proj", 2 * inner, width), ("down_proj", width, inner)):
            at, blocks = f"model.layers.{layer}.mlp.experts.{name}", [experts, rows, columns // 32]
            yield f"{at}_blocks", "U8", [*blocks, 16], 0
            yield f"{at}_scales", "U8", blocks, 1


def deepseek_tensors(config):
    inner = config["moe_intermediate_size"]
    yield from ends(config)
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}"
        yield from layer_norms(at, config)
        yield from attention(f"{at}.self_attn", config)
        if layer < config["first_k_dense_replace"]:
            yield from gated(f"{at}.mlp", config["hidden_size"], config["intermediate_size"])
        else:
            yield from experts(f"{at}.mlp", config, config["n_routed_experts"], inner, inner * config["n_shared_experts"])


def latent_attention(at, config):
    """Queries, keys and values through low ranks."""
    width, heads, rank, rotated = (config[k] for k in ("hidden_size", "num_attention_heads", "kv_lora_rank", "qk_rope_head_dim"))
    plain, value = config["qk_nope_head_dim"], config["v_head_dim"]
    yield from linear(f"{at}.q_a_proj", config["q_lora_rank"], width)
    yield from norm(f"{at}.q_a_layernorm", config["q_lora_rank"])
    yield from linear(f"{at}.q_b_proj", heads * (plain + rotated), config["q_lora_rank"])
    yield from linear(f"{at}.kv_a_proj_with_mqa", rank + rotated, width)
    yield from norm(f"{at}.kv_a_layernorm", rank)
    yield from linear(f"{at}.kv_b_proj", heads * (plain + value), rank)
    yield from linear(f"{at}.o_proj", width, heads * value)


def glm4_moe_lite_tensors(config):
    inner = config["moe_intermediate_size"]
    yield from ends(config)
    for layer in range(config["num_hidden_layers"] + config["num_nextn_predict_layers"]):
        at = f"model.layers.{layer}"
        yield from layer_norms(at, config)
        yield from latent_attention(f"{at}.self_attn", config)
        if layer < config["first_k_dense_replace"]:
            yield from gated(f"{at}.mlp", config["hidden_size"], config["intermediate_size"])
        else:
            yield from experts(f"{at}.mlp", config, config["n_routed_experts"], inner, inner * config["n_shared_experts"])
            yield f"{at}.mlp.gate.e_score_correction_bias", [config["n_routed_experts"]], 0
        if layer >= config["num_hidden_layers"]:
            yield from next_token(at, config)


def youtu_tensors(config):
    yield from list(ends(config))[:2]
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}"
        yield from layer_norms(at, config)
        yield from latent_attention(f"{at}.self_attn", config)
        yield from gated(f"{at}.mlp", config["hidden_size"], config["intermediate_size"])


def bailing_tensors(config):
    """Ling 1, or Ling 2 with norms of queries and keys, a correction, and layers that predict further tokens."""
    width, inner, heads, keys = (config[k] for k in ("hidden_size", "moe_intermediate_size", "num_attention_heads", "num_key_value_heads"))
    head = config.get("head_dim") or width // heads
    second = config["architectures"] == ["BailingMoeV2ForCausalLM"]
    more = config.get("num_nextn_predict_layers", 0)
    yield "model.word_embeddings.weight", [config["vocab_size"], width], 0
    yield from list(ends(config))[1:]
    for layer in range(config["num_hidden_layers"] + more):
        at = f"model.layers.{layer}"
        yield from layer_norms(at, config)
        yield from linear(f"{at}.attention.query_key_value", (heads + 2 * keys) * head, width)
        yield from linear(f"{at}.attention.dense", width, heads * head)
        if second:
            yield from norm(f"{at}.attention.query_layernorm", head)
            yield from norm(f"{at}.attention.key_layernorm", head)
        if layer < config["first_k_dense_replace"]:
            yield from gated(f"{at}.mlp", width, config["intermediate_size"])
        else:
            yield from experts(f"{at}.mlp", config, config["num_experts"], inner, inner * config["num_shared_experts"])
            if second:
                yield f"{at}.mlp.gate.expert_bias", [config["num_experts"]], 0
        if layer >= config["num_hidden_layers"]:
            for name in ("enorm", "hnorm", "final_layernorm"):
                yield from norm(f"{at}.{name}", width)
            yield from linear(f"{at}.eh_proj", width, 2 * width)


def llada_moe_tensors(config):
    yield from ends(config)
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}"
        yield from layer_norms(at, config)
        yield from attention(f"{at}.self_attn", config, norms="head")
        yield from experts(f"{at}.mlp", config, config["num_experts"], config.get("expert_intermediate_size") or config["moe_intermediate_size"])
        if config["model_type"] == "grove_moe":
            yield f"{at}.mlp.expert_bias", [config["num_experts"]], 0
            for pair in range(config["num_experts"] // 2):
                yield from gated(f"{at}.mlp.chunk_experts.{pair}", config["hidden_size"], config["head_dim"])


def afmoe_tensors(config):
    width, inner = config["hidden_size"], config["moe_intermediate_size"]
    yield from ends(config)
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}"
        yield from layer_norms(at, config, ("input_layernorm", "post_attention_layernorm", "pre_mlp_layernorm", "post_mlp_layernorm"))
        yield from attention(f"{at}.self_attn", config, norms="head")
        yield from linear(f"{at}.self_attn.gate_proj", config["num_attention_heads"] * config["head_dim"], width)
        if layer < config["num_dense_layers"]:
            yield from gated(f"{at}.mlp", width, config["intermediate_size"])
            continue
        yield from linear(f"{at}.mlp.router.gate", config["num_experts"], width)
        yield f"{at}.mlp.expert_bias", [config["num_experts"]], 0
        for expert in range(config["num_experts"]):
            yield from gated(f"{at}.mlp.experts.{expert}", width, inner)
        yield from gated(f"{at}.mlp.shared_experts", width, inner * config["num_shared_experts"])


def smallthinker_tensors(config):
    yield from list(ends(config))[:2]
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}"
        yield from layer_norms(at, config)
        yield from attention(f"{at}.self_attn", config)
        yield from linear(f"{at}.block_sparse_moe.primary_router", config["moe_num_primary_experts"], config["hidden_size"])
        for expert in range(config["moe_num_primary_experts"]):
            at_expert = f"{at}.block_sparse_moe.experts.{expert}"
            yield from gated(at_expert, config["hidden_size"], config["moe_ffn_hidden_size"], ("gate", "up", "down"))


def hy_v3_tensors(config):
    width, inner = config["hidden_size"], config["expert_hidden_dim"]
    yield from ends(config)
    for layer in range(config["num_hidden_layers"] + config["num_nextn_predict_layers"]):
        at = f"model.layers.{layer}"
        yield from layer_norms(at, config)
        yield from attention(f"{at}.self_attn", config, norms="head")
        if layer < config["first_k_dense_replace"]:
            yield from gated(f"{at}.mlp", width, config["intermediate_size"])
        else:
            yield from linear(f"{at}.mlp.router.gate", config["num_experts"], width)
            yield f"{at}.mlp.expert_bias", [config["num_experts"]], 0
            yield from gated(f"{at}.mlp.shared_mlp", width, inner * config["num_shared_experts"])
            for expert in range(config["num_experts"]):
                yield from gated(f"{at}.mlp.experts.{expert}", width, inner)
        if layer >= config["num_hidden_layers"]:
            for name in ("enorm", "hnorm", "final_layernorm"):
                yield from norm(f"{at}.{name}", width)
            yield from linear(f"{at}.eh_proj", width, 2 * width)


def laguna_tensors(config):
    width = config["hidden_size"]
    yield from ends(config)
    for layer, heads in enumerate(config["num_attention_heads_per_layer"]):
        at = f"model.layers.{layer}"
        yield from layer_norms(at, config)
        yield from attention(f"{at}.self_attn", config | {"num_attention_heads": heads}, norms="head")
        yield from linear(f"{at}.self_attn.g_proj", heads, width)
        if config["mlp_layer_types"][layer] == "dense":
            yield from gated(f"{at}.mlp", width, config["intermediate_size"])
        else:
            yield from experts(f"{at}.mlp", config, config["num_experts"], config["moe_intermediate_size"],
                               config["shared_expert_intermediate_size"], shared_name="shared_expert")
            yield f"{at}.mlp.experts.e_score_correction_bias", [config["num_experts"]], 0


def cohere2_moe_tensors(config):
    """The output is the embedding."""
    width = config["hidden_size"]
    yield from list(ends(config))[:2]
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}"
        yield from norm(f"{at}.input_layernorm", width)
        yield from attention(f"{at}.self_attn", config)
        if layer < config["first_k_dense_replace"]:
            yield from gated(f"{at}.mlp", width, config["prefix_dense_intermediate_size"])
        else:
            yield from experts(f"{at}.mlp", config, config["num_experts"], config["intermediate_size"])


def maple_tensors(config):
    yield "model.word_embeddings.weight", [config["vocab_size"], config["hidden_size"]], 0
    yield from list(ends(config))[1:]
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}"
        yield from layer_norms(at, config)
        yield from attention(f"{at}.self_attn", config, norms="head")
        yield from experts(f"{at}.mlp", config, config["num_experts"], config["moe_intermediate_size"])


def granite_swa_tensors(config):
    width, inner, count, shared = (config[k] for k in ("hidden_size", "intermediate_size", "num_local_experts", "shared_intermediate_size"))
    yield from list(ends(config))[:2]
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}"
        yield from layer_norms(at, config)
        yield from attention(f"{at}.self_attn", config)
        yield f"{at}.self_attn.sinks", [config["num_attention_heads"]], 0
        yield from linear(f"{at}.block_sparse_moe.router", count, width)
        yield f"{at}.block_sparse_moe.experts.gate_up_proj", [count, 2 * inner, width], 0
        yield f"{at}.block_sparse_moe.experts.down_proj", [count, width, inner], 0
        yield from linear(f"{at}.shared_mlp.input_linear", 2 * shared, width)
        yield from linear(f"{at}.shared_mlp.output_linear", width, shared)


def arctic_tensors(config):
    width = config["hidden_size"]
    yield from ends(config)
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}"
        yield from layer_norms(at, config, ("input_layernorm", "post_attention_layernorm", "residual_layernorm"))
        yield from attention(f"{at}.self_attn", config)
        yield from gated(f"{at}.residual_mlp", width, width, ("w1", "w3", "w2"))
        yield from experts(f"{at}.block_sparse_moe", config, config["num_local_experts"], config["intermediate_size"], names=("w1", "w3", "w2"))


def minimax_01_tensors(config):
    """Layers with linear attention alone: there is another in eight."""
    width = config["hidden_size"]
    inside = config["num_attention_heads"] * config["head_dim"]
    yield from ends(config)
    for layer in range(config["num_hidden_layers"]):
        at = f"model.layers.{layer}"
        yield from layer_norms(at, config)
        yield from linear(f"{at}.self_attn.qkv_proj", 3 * inside, width)
        yield from linear(f"{at}.self_attn.output_gate", inside, width)
        yield from norm(f"{at}.self_attn.norm", inside)
        yield from linear(f"{at}.self_attn.out_proj", width, inside)
        yield from experts(f"{at}.block_sparse_moe", config, config["num_local_experts"], config["intermediate_size"], names=("w1", "w3", "w2"))


def exaone_moe_tensors(config):
    """With a dense layer that predicts a further token, under a name of its own."""
    width, inner = config["hidden_size"], config["moe_intermediate_size"]
    yield from ends(config)
    for layer in range(config["num_hidden_layers"] + 1):
        at = f"model.layers.{layer}" if layer < config["num_hidden_layers"] else "mtp.layers.0"
        yield from layer_norms(at, config)
        yield from attention(f"{at}.self_attn", config, norms="head")
        if not config["first_k_dense_replace"] <= layer < config["num_hidden_layers"]:
            yield from gated(f"{at}.mlp", width, config["intermediate_size"])
        else:
            yield from experts(f"{at}.mlp", config, config["num_experts"], inner, inner * config["num_shared_experts"])
            yield f"{at}.mlp.e_score_correction_bias", [config["num_experts"]], 0
    yield from linear("mtp.fc", width, 2 * width)
    for name in ("pre_fc_norm_embedding", "pre_fc_norm_hidden", "norm"):
        yield from norm(f"mtp.{name}", width)


GLM = renamed("qwen2", {"<|endoftext|>": "[gMASK]", "<|im_start|>": "<|user|>", "<|im_end|>": "<|endoftext|>",
                        "<tool_call>": "<|observation|>"}, eos_token="<|endoftext|>", pad_token="[gMASK]")

# As in ../architectures.py.
MODELS = {
    # GLM 4.6 with the norms of 4.5: a layer for predicting further ahead, which becomes one more layer.
    "glm4-moe": dict(tokenizer="qwen2", dtype="BF16", f32="e_score_correction_bias", library=False, tensors=glm4_moe_tensors,
                     files=GLM, config={
        "architectures": ["Glm4MoeForCausalLM"], "attention_bias": True, "attention_dropout": 0.0, "first_k_dense_replace": 1,
        "head_dim": 32, "hidden_act": "silu", "hidden_size": 64, "initializer_range": 0.02, "intermediate_size": 128,
        "max_position_embeddings": 256, "model_type": "glm4_moe", "moe_intermediate_size": 32, "n_group": 1, "n_routed_experts": 3,
        "n_shared_experts": 1, "norm_topk_prob": True, "num_attention_heads": 4, "num_experts_per_tok": 2, "num_hidden_layers": 1,
        "num_key_value_heads": 2, "num_nextn_predict_layers": 1, "partial_rotary_factor": 0.5, "rms_norm_eps": 1e-05,
        "rope_scaling": None, "rope_theta": 1000000, "routed_scaling_factor": 2.5, "tie_word_embeddings": False, "topk_group": 1,
        "torch_dtype": "bfloat16", "use_cache": True, "use_qk_norm": True}),
    "minimax-m2": dict(tokenizer="qwen2", dtype="BF16", f32="e_score_correction_bias", library=False, tensors=minimax_m2_tensors, config={
        "architectures": ["MiniMaxM2ForCausalLM"], "attention_dropout": 0.0, "attn_type_list": [1, 1], "head_dim": 32,
        "hidden_act": "silu", "hidden_size": 64, "initializer_range": 0.02, "intermediate_size": 64,
        "layernorm_full_attention_beta": 1.0, "layernorm_linear_attention_beta": 1.0, "layernorm_mlp_beta": 1.0,
        "max_position_embeddings": 256, "mlp_intermediate_size": 128, "model_type": "minimax_m2", "mtp_transformer_layers": 1,
        "num_attention_heads": 4, "num_experts_per_tok": 2, "num_hidden_layers": 2, "num_key_value_heads": 2, "num_local_experts": 4,
        "num_mtp_modules": 3, "output_router_logits": False, "qk_norm_type": "per_layer", "rms_norm_eps": 1e-06,
        "rope_theta": 5000000, "rotary_dim": 16, "router_aux_loss_coef": 0.001, "router_jitter_noise": 0.0, "scoring_func": "sigmoid",
        "shared_intermediate_size": 0, "shared_moe_mode": "sigmoid", "sliding_window": None, "tie_word_embeddings": False,
        "torch_dtype": "bfloat16", "use_cache": True, "use_mtp": True, "use_qk_norm": True, "use_routing_bias": True}),
    "granite-moe": dict(tokenizer="qwen2", dtype="BF16", config={
        "architectures": ["GraniteMoeSharedForCausalLM"], "attention_bias": False, "attention_dropout": 0.1,
        "attention_multiplier": 0.015625, "embedding_multiplier": 12.0, "hidden_act": "silu", "hidden_size": 64,
        "initializer_range": 0.02, "intermediate_size": 32, "logits_scaling": 6.0, "max_position_embeddings": 256,
        "model_type": "granitemoeshared", "num_attention_heads": 4, "num_experts_per_tok": 2, "num_hidden_layers": 2,
        "num_key_value_heads": 2, "num_local_experts": 4, "output_router_logits": False, "residual_multiplier": 0.22,
        "rms_norm_eps": 1e-06, "rope_scaling": None, "rope_theta": 10000.0, "router_aux_loss_coef": 0.01,
        "shared_intermediate_size": 64, "tie_word_embeddings": True, "torch_dtype": "bfloat16", "use_cache": True}),
    "olmoe": dict(tokenizer="olmo2", dtype="BF16", pad=64, config={
        "architectures": ["OlmoeForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "clip_qkv": None, "hidden_act": "silu",
        "hidden_size": 64, "initializer_range": 0.02, "intermediate_size": 32, "max_position_embeddings": 256, "model_type": "olmoe",
        "norm_topk_prob": False, "num_attention_heads": 4, "num_experts": 4, "num_experts_per_tok": 2, "num_hidden_layers": 2,
        "num_key_value_heads": 4, "output_router_logits": False, "rms_norm_eps": 1e-05, "rope_scaling": None, "rope_theta": 10000.0,
        "router_aux_loss_coef": 0.01, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "use_cache": True}),
    # The released ones say `noaux_tc`, at which this version of the converter stops.
    "dots1": dict(tokenizer="qwen2", dtype="BF16", pad=64, f32="e_score_correction_bias", config={
        "architectures": ["Dots1ForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "first_k_dense_replace": 1,
        "head_dim": 32, "hidden_act": "silu", "hidden_size": 64, "initializer_range": 0.02, "intermediate_size": 128,
        "max_position_embeddings": 256, "max_window_layers": 2, "model_type": "dots1", "moe_intermediate_size": 32, "n_group": 1,
        "n_routed_experts": 4, "n_shared_experts": 2, "norm_topk_prob": True, "num_attention_heads": 4, "num_experts_per_tok": 2,
        "num_hidden_layers": 2, "num_key_value_heads": 4, "pretraining_tp": 1, "rms_norm_eps": 1e-05, "rope_scaling": None,
        "rope_theta": 10000000, "routed_scaling_factor": 2.5, "scoring_func": "sigmoid", "sliding_window": None,
        "tie_word_embeddings": False, "topk_group": 1, "torch_dtype": "bfloat16", "use_cache": True}),
    "phi3-moe": dict(tokenizer="phi3-sp", dtype="BF16", pad=32, library_class="PhimoeForCausalLM", config={
        "architectures": ["PhiMoEForCausalLM"], "attention_bias": True, "attention_dropout": 0.0, "hidden_act": "silu",
        "hidden_dropout": 0.0, "hidden_size": 64, "initializer_range": 0.02, "input_jitter_noise": 0.01, "intermediate_size": 32,
        "lm_head_bias": True, "max_position_embeddings": 512, "model_type": "phimoe", "num_attention_heads": 4,
        "num_experts_per_tok": 2, "num_hidden_layers": 2, "num_key_value_heads": 2, "num_local_experts": 4,
        "original_max_position_embeddings": 64, "output_router_logits": False, "rms_norm_eps": 1e-05,
        "rope_scaling": {"long_factor": [1.0, 1.1, 1.25, 1.5, 2.0, 3.0, 5.0, 8.0], "long_mscale": 1.243163121016122,
                         "original_max_position_embeddings": 64,
                         "short_factor": [1.0, 1.0, 1.01, 1.02, 1.05, 1.1, 1.2, 1.4], "short_mscale": 1.243163121016122,
                         "type": "longrope"},
        "rope_theta": 10000.0, "router_aux_loss_coef": 0.0, "router_jitter_noise": 0.01, "sliding_window": 512,
        "tie_word_embeddings": False, "torch_dtype": "bfloat16", "use_cache": True}),
    "ernie4_5-moe": dict(tokenizer="llama-sp", dtype="BF16", f32="e_score_correction_bias", config={
        "architectures": ["Ernie4_5_MoeForCausalLM"], "head_dim": 16, "hidden_act": "silu", "hidden_size": 64, "intermediate_size": 128,
        "max_position_embeddings": 256, "model_type": "ernie4_5_moe", "moe_intermediate_size": 32, "moe_k": 2,
        "moe_layer_end_index": 2, "moe_layer_interval": 1, "moe_layer_start_index": 1, "moe_num_experts": 4,
        "moe_num_shared_experts": 2, "num_attention_heads": 4, "num_hidden_layers": 3, "num_key_value_heads": 2,
        "num_nextn_predict_layers": 1, "rms_norm_eps": 1e-05, "rope_theta": 500000, "tie_word_embeddings": True,
        "torch_dtype": "bfloat16", "use_bias": False, "use_cache": False}),
    # As if unpacked: the released ones hold their experts in MXFP4, as the next one does.
    "gpt-oss": dict(tokenizer="qwen2", dtype="BF16", pad=64, config={
        "architectures": ["GptOssForCausalLM"], "attention_bias": True, "attention_dropout": 0.0, "experts_per_token": 2, "head_dim": 32,
        "hidden_act": "silu", "hidden_size": 64, "initial_context_length": 64, "initializer_range": 0.02, "intermediate_size": 32,
        "layer_types": ["sliding_attention", "full_attention"], "max_position_embeddings": 256, "model_type": "gpt_oss",
        "num_attention_heads": 4, "num_experts_per_tok": 2, "num_hidden_layers": 2, "num_key_value_heads": 2, "num_local_experts": 4,
        "output_router_logits": False, "rms_norm_eps": 1e-05, "rope_scaling": {
            "beta_fast": 32.0, "beta_slow": 1.0, "factor": 4.0, "original_max_position_embeddings": 64, "rope_type": "yarn",
            "truncate": False},
        "rope_theta": 150000, "router_aux_loss_coef": 0.9, "sliding_window": 128, "swiglu_limit": 7.0, "tie_word_embeddings": False,
        "torch_dtype": "bfloat16", "use_cache": True}),
    "gpt-oss-mxfp4": dict(tokenizer="qwen2", dtype="BF16", pad=64, library=False, tensors=gpt_oss_tensors, add=list(gpt_oss_experts(2, 3, 64, 96)), config={
        "architectures": ["GptOssForCausalLM"], "attention_bias": True, "attention_dropout": 0.0, "experts_per_token": 2, "head_dim": 32,
        "hidden_act": "silu", "hidden_size": 64, "initial_context_length": 64, "initializer_range": 0.02, "intermediate_size": 96,
        "layer_types": ["sliding_attention", "full_attention"], "max_position_embeddings": 256, "model_type": "gpt_oss",
        "num_attention_heads": 4, "num_experts_per_tok": 2, "num_hidden_layers": 2, "num_key_value_heads": 2, "num_local_experts": 3,
        "output_router_logits": False, "quantization_config": {"modules_to_not_convert": [
            "model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens", "lm_head"], "quant_method": "mxfp4"},
        "rms_norm_eps": 1e-05, "rope_scaling": {
            "beta_fast": 32.0, "beta_slow": 1.0, "factor": 4.0, "original_max_position_embeddings": 64, "rope_type": "yarn",
            "truncate": False},
        "rope_theta": 150000, "router_aux_loss_coef": 0.9, "sliding_window": 128, "swiglu_limit": 7.0, "tie_word_embeddings": False,
        "torch_dtype": "bfloat16", "use_cache": True}),
    "deepseek": dict(tokenizer="deepseek", dtype="BF16", library=False, tensors=deepseek_tensors, config={
        "architectures": ["DeepseekForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "aux_loss_alpha": 0.001,
        "auto_map": {"AutoConfig": "configuration_deepseek.DeepseekConfig"}, "first_k_dense_replace": 1, "hidden_act": "silu",
        "hidden_size": 64, "initializer_range": 0.02, "intermediate_size": 128, "max_position_embeddings": 256, "model_type": "deepseek",
        "moe_intermediate_size": 32, "moe_layer_freq": 1, "n_routed_experts": 4, "n_shared_experts": 2, "norm_topk_prob": False,
        "num_attention_heads": 4, "num_experts_per_tok": 2, "num_hidden_layers": 2, "num_key_value_heads": 4, "pretraining_tp": 1,
        "rms_norm_eps": 1e-06, "rope_scaling": None, "rope_theta": 10000, "scoring_func": "softmax", "seq_aux": True,
        "tie_word_embeddings": False, "torch_dtype": "bfloat16", "use_cache": True}),
    "glm4-moe-lite": dict(tokenizer="qwen2", dtype="BF16", f32="e_score_correction_bias", library=False, tensors=glm4_moe_lite_tensors,
                          files=GLM, config={
        "architectures": ["Glm4MoeLiteForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "dtype": "bfloat16",
        "first_k_dense_replace": 1, "hidden_act": "silu", "hidden_size": 64, "intermediate_size": 128, "kv_lora_rank": 32,
        "max_position_embeddings": 256, "model_type": "glm4_moe_lite", "moe_intermediate_size": 32, "n_group": 1, "n_routed_experts": 3,
        "n_shared_experts": 1, "norm_topk_prob": True, "num_attention_heads": 4, "num_experts_per_tok": 2, "num_hidden_layers": 1,
        "num_key_value_heads": 4, "num_nextn_predict_layers": 1, "partial_rotary_factor": 1.0, "q_lora_rank": 48,
        "qk_nope_head_dim": 24, "qk_rope_head_dim": 8, "rms_norm_eps": 1e-05, "rope_scaling": None, "rope_theta": 1000000,
        "routed_scaling_factor": 1.8, "tie_word_embeddings": False, "topk_group": 1, "topk_method": "noaux_tc", "use_cache": True,
        "v_head_dim": 32}),
    "youtu": dict(tokenizer="llama3", dtype="BF16", library=False, tensors=youtu_tensors, config={
        "architectures": ["YoutuForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "head_dim": 8, "hidden_act": "silu",
        "hidden_size": 64, "initializer_range": 0.02, "intermediate_size": 128, "kv_lora_rank": 32, "max_position_embeddings": 256,
        "mlp_bias": False, "model_type": "youtu_llm", "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 4,
        "q_lora_rank": 48, "qk_head_dim": 32, "qk_nope_head_dim": 24, "qk_rope_head_dim": 8, "rms_norm_eps": 1e-06,
        "rope_interleave": True, "rope_scaling": None, "rope_theta": 1600000, "tie_word_embeddings": True, "torch_dtype": "bfloat16",
        "use_cache": True, "v_head_dim": 24}),
    "bailing-moe": dict(tokenizer="qwen2", dtype="BF16", library=False, tensors=bailing_tensors, config={
        "architectures": ["BailingMoeForCausalLM"], "attention_dropout": 0.0, "embedding_dropout": 0.0, "first_k_dense_replace": 0,
        "head_dim": 32, "hidden_act": "silu", "hidden_size": 64, "initializer_range": 0.006, "intermediate_size": 128,
        "max_position_embeddings": 256, "max_window_layers": 28, "model_type": "bailing_moe", "moe_intermediate_size": 32,
        "multi_gate": False, "norm_head": False, "norm_softmax": False, "norm_topk_prob": True, "num_attention_heads": 4,
        "num_experts": 4, "num_experts_per_tok": 2, "num_hidden_layers": 2, "num_key_value_heads": 2, "num_shared_experts": 2,
        "output_dropout": 0.0, "output_router_logits": False, "pretraining_tp": 1, "rms_norm_eps": 1e-06, "rope_scaling": None,
        "rope_theta": 600000, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "use_bias": False, "use_cache": True,
        "use_qkv_bias": False, "use_sliding_window": False}),
    "bailing-moe-v2": dict(tokenizer="qwen2", dtype="BF16", f32="expert_bias", library=False, tensors=bailing_tensors, config={
        "architectures": ["BailingMoeV2ForCausalLM"], "attention_dropout": 0.0, "embedding_dropout": 0.0, "first_k_dense_replace": 1,
        "head_dim": 16, "hidden_act": "silu", "hidden_size": 64, "initializer_range": 0.006, "intermediate_size": 128,
        "max_position_embeddings": 256, "max_window_layers": 20, "model_type": "bailing_moe_v2", "moe_intermediate_size": 32,
        "moe_router_enable_expert_bias": True, "moe_shared_expert_intermediate_size": 32, "mtp_loss_scaling_factor": 0, "n_group": 2,
        "norm_topk_prob": True, "num_attention_heads": 4, "num_experts": 4, "num_experts_per_tok": 1, "num_hidden_layers": 2,
        "num_key_value_heads": 2, "num_nextn_predict_layers": 1, "num_shared_experts": 1, "output_dropout": 0.0,
        "output_router_logits": False, "partial_rotary_factor": 0.5, "rms_norm_eps": 1e-06, "rope_scaling": None, "rope_theta": 600000,
        "routed_scaling_factor": 2.5, "router_dtype": "fp32", "score_function": "sigmoid", "tie_word_embeddings": False,
        "topk_group": 1, "torch_dtype": "bfloat16", "use_bias": False, "use_cache": True, "use_qk_norm": True, "use_qkv_bias": False,
        "use_rmsnorm": True}),
    "llada-moe": dict(tokenizer="qwen2", dtype="BF16", library=False, tensors=llada_moe_tensors, config={
        "architectures": ["LLaDAMoEModelLM"], "attention_bias": False, "attention_dropout": 0.0, "dense_intermediate_size": 128,
        "expert_intermediate_size": 32, "hidden_act": "silu", "hidden_size": 64, "initializer_range": 0.02,
        "max_position_embeddings": 256, "model_type": "llada_moe", "moe_layer_freq": [1, 1], "moe_router_enable_expert_bias": False,
        "moe_router_score_function": "softmax", "norm_topk_prob": None, "num_attention_heads": 4, "num_experts": 4,
        "num_experts_per_tok": 2, "num_hidden_layers": 2, "num_key_value_heads": 4, "output_router_logits": False,
        "partial_rotary_factor": 1, "qk_layernorm": True, "rms_norm_eps": 1e-05, "rope_scaling": None, "rope_theta": 50000,
        "routed_scaling_factor": 1, "router_aux_loss_coef": 0.01, "router_num_group": None, "router_topk_group": None,
        "shared_expert_intermediate_size": None, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "use_cache": False}),
    "rnd1": dict(tokenizer="qwen2", dtype="BF16", library=False, tensors=llada_moe_tensors, config={
        "architectures": ["RND1"], "attention_bias": False, "attention_dropout": 0.0, "decoder_sparse_step": 1, "head_dim": 32,
        "hidden_act": "silu", "hidden_size": 64, "initializer_range": 0.02, "intermediate_size": 128, "mask_token_id": 463,
        "max_position_embeddings": 256, "max_window_layers": 48, "mlp_only_layers": [], "model_type": "rnd1",
        "moe_intermediate_size": 32, "norm_topk_prob": True, "num_attention_heads": 4, "num_experts": 4, "num_experts_per_tok": 2,
        "num_hidden_layers": 2, "num_key_value_heads": 2, "output_router_logits": False, "rms_norm_eps": 1e-06, "rope_scaling": None,
        "rope_theta": 1000000.0, "router_aux_loss_coef": 0.001, "sliding_window": None, "tie_word_embeddings": False,
        "torch_dtype": "bfloat16", "use_cache": False, "use_sliding_window": False}),
    "afmoe": dict(tokenizer="llama3", dtype="BF16", f32="expert_bias", library=False, tensors=afmoe_tensors, config={
        "architectures": ["AfmoeForCausalLM"], "attention_dropout": 0.0, "global_attn_every_n_layers": 4, "head_dim": 32,
        "hidden_act": "silu", "hidden_size": 64, "initializer_range": 0.02, "intermediate_size": 128,
        "layer_types": ["sliding_attention", "sliding_attention"], "load_balance_coeff": 0.001, "max_position_embeddings": 512, "model_type": "afmoe",
        "moe_intermediate_size": 32, "mup_enabled": True, "n_group": 1, "num_attention_heads": 4, "num_dense_layers": 1,
        "num_expert_groups": 1, "num_experts": 4, "num_experts_per_tok": 2, "num_hidden_layers": 2, "num_key_value_heads": 2,
        "num_limited_groups": 1, "num_shared_experts": 1, "rms_norm_eps": 1e-05, "rope_scaling": None, "rope_theta": 10000,
        "route_norm": True, "route_scale": 2.826, "score_func": "sigmoid", "sliding_window": 128, "tie_word_embeddings": False,
        "topk_group": 1, "torch_dtype": "bfloat16", "use_cache": True, "use_grouped_mm": True}),
    "grovemoe": dict(tokenizer="qwen2", dtype="BF16", library=False, tensors=llada_moe_tensors, config={
        "architectures": ["GroveMoeForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "decoder_sparse_step": 1,
        "head_dim": 32, "hidden_act": "silu", "hidden_size": 64, "initializer_range": 0.02, "intermediate_size": 128,
        "max_position_embeddings": 256, "max_window_layers": 48, "mlp_only_layers": [], "model_type": "grove_moe",
        "moe_intermediate_size": 32, "norm_topk_prob": True, "num_attention_heads": 4, "num_experts": 4, "num_experts_per_tok": 2,
        "num_hidden_layers": 2, "num_key_value_heads": 2, "output_router_logits": False, "parallel_expert_intermediate_size": 32,
        "rms_norm_eps": 1e-06, "rope_scaling": None, "rope_theta": 1000000.0, "router_aux_loss_coef": 0.001, "sliding_window": None,
        "tie_word_embeddings": False, "torch_dtype": "bfloat16", "use_cache": True, "use_sliding_window": False}),
    "smallthinker": dict(tokenizer="qwen2", dtype="BF16", library=False, tensors=smallthinker_tensors, config={
        "architectures": ["SmallThinkerForCausalLM"], "head_dim": 32, "hidden_size": 64, "initializer_range": 0.02,
        "max_position_embeddings": 8192, "model_name": "smallthinker_21b", "model_type": "smallthinker", "moe_enable_early_router": True,
        "moe_enable_secondary_experts": False, "moe_ffn_hidden_size": 32, "moe_num_active_primary_experts": 2,
        "moe_num_primary_experts": 4, "moe_primary_router_apply_softmax": False, "moe_secondary_expert_size": 0, "norm_topk_prob": True,
        "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 2, "output_router_logits": False, "rms_norm_eps": 1e-06,
        "rope_layout": [0, 1], "rope_scaling": None, "rope_theta": 1500000, "sliding_window_layout": [0, 1],
        "sliding_window_size": 4096, "tie_word_embeddings": True, "torch_dtype": "bfloat16", "use_cache": True}),
    "hy-v3": dict(tokenizer="qwen2", dtype="BF16", f32="expert_bias", library=False, tensors=hy_v3_tensors, config={
        "architectures": ["HYV3ForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "enable_attention_fp32_softmax": False,
        "enable_lm_head_fp32": True, "enable_moe_fp32_combine": False, "expert_hidden_dim": 32, "first_k_dense_replace": 1,
        "head_dim": 32, "hidden_act": "silu", "hidden_size": 64, "initializer_range": 0.006, "intermediate_size": 128,
        "max_position_embeddings": 256, "mlp_bias": False, "model_type": "hy_v3", "moe_intermediate_size": 32,
        "moe_router_enable_expert_bias": True, "moe_router_use_sigmoid": True, "num_attention_heads": 4, "num_experts": 2,
        "num_experts_per_tok": 1, "num_hidden_layers": 2, "num_key_value_heads": 2, "num_nextn_predict_layers": 1,
        "num_shared_experts": 1, "output_router_logits": False, "qk_norm": True, "rms_norm_eps": 1e-05,
        "rope_parameters": {"rope_theta": 11158840.0, "rope_type": "default"}, "route_norm": True, "router_scaling_factor": 2.826,
        "tie_word_embeddings": False, "use_cache": True, "use_grouped_mm": False}),
    # The released model states lists of the same number for every layer.
    "hunyuan-moe": dict(tokenizer="qwen2", pre="hunyuan", dtype="BF16", config={
        "architectures": ["HunYuanMoEV1ForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "attention_head_dim": 32,
        "capacity_factor": 1.0, "cla_share_factor": 2, "group_limited_greedy": False, "head_dim": 32, "hidden_act": "silu", "hidden_size": 64,
        "initializer_range": 0.02, "intermediate_size": 96, "max_position_embeddings": 256, "mlp_bias": False, "model_type": "hunyuan_v1_moe",
        "moe_drop_tokens": False, "moe_intermediate_size": [96, 96], "moe_layer_num_skipped": 0, "moe_random_routing_dropped_token": False,
        "moe_topk": [2, 2], "norm_topk_prob": True, "norm_type": "rms", "num_attention_heads": 4, "num_experts": 4, "num_hidden_layers": 2,
        "num_key_value_heads": 2, "num_shared_expert": [1, 1], "position_embedding_xdrope": False, "pretraining_tp": 1, "qk_norm": True,
        "rms_norm_eps": 1e-05, "rope_scaling": None, "rope_theta": 10000.0, "tie_word_embeddings": True, "torch_dtype": "bfloat16", "use_cache": True,
        "use_cla": False, "use_mixed_mlp_moe": True, "use_mla": False, "use_qk_norm": True, "use_rotary_pos_emb": True}),
    # Half as many heads in the layers without windows.
    "laguna": dict(tokenizer="qwen2", dtype="BF16", f32="e_score_correction_bias", library=False, tensors=laguna_tensors, config={
        "architectures": ["LagunaForCausalLM"], "attention_bias": False, "attention_dropout": 0.0, "gating": "per-head", "head_dim": 32,
        "hidden_size": 64, "initializer_range": 0.02, "intermediate_size": 128, "layer_types": ["full_attention", "sliding_attention"],
        "max_position_embeddings": 512, "mlp_layer_types": ["dense", "sparse"], "model_type": "laguna", "moe_intermediate_size": 32,
        "moe_routed_scaling_factor": 2.5, "moe_router_score_func": "sigmoid", "num_attention_heads": 2,
        "num_attention_heads_per_layer": [2, 4], "num_experts": 4, "num_experts_per_tok": 2, "num_hidden_layers": 2,
        "num_key_value_heads": 2, "qkv_bias": False, "rms_norm_eps": 1e-06,
        "rope_parameters": {
            "full_attention": {"attention_factor": 1.0, "beta_fast": 64.0, "beta_slow": 1.0, "factor": 4.0,
                               "original_max_position_embeddings": 128, "partial_rotary_factor": 0.5, "rope_theta": 500000.0,
                               "rope_type": "yarn"},
            "sliding_attention": {"partial_rotary_factor": 1.0, "rope_theta": 10000.0, "rope_type": "default"}},
        "shared_expert_intermediate_size": 64, "sliding_window": 128, "tie_word_embeddings": False, "torch_dtype": "bfloat16",
        "use_cache": True}),
    "cohere2-moe": dict(tokenizer="llama3", dtype="BF16", library=False, tensors=cohere2_moe_tensors, config={
        "architectures": ["Cohere2MoeForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
        "expert_selection_fn": "sigmoid", "first_k_dense_replace": 1, "head_dim": 32, "hidden_act": "silu", "hidden_size": 64,
        "initializer_range": 0.02, "intermediate_size": 32, "layer_types": ["full_attention", "sliding_attention"], "logit_scale": 0.5,
        "max_position_embeddings": 512, "model_type": "cohere2_moe", "norm_topk_prob": False, "num_attention_heads": 4, "num_experts": 4,
        "num_experts_per_tok": 2, "num_hidden_layers": 2, "num_key_value_heads": 2, "num_shared_experts": 0,
        "prefix_dense_intermediate_size": 128, "prefix_dense_sliding_window_pattern": 1, "rms_norm_eps": 1e-06, "rope_theta": 50000.0,
        "sliding_window": 128, "tie_word_embeddings": True, "torch_dtype": "bfloat16", "use_cache": True, "use_parallel_block": True,
        "use_qk_norm": False}),
    "maple": dict(tokenizer="qwen2", dtype="BF16", library=False, tensors=maple_tensors, config={
        "architectures": ["MapleForCausalLM"], "attention_dropout": 0.0, "head_dim": 32, "hidden_act": "silu", "hidden_size": 64,
        "initializer_range": 0.02, "intermediate_size": 128, "layer_types": ["sliding_attention", "full_attention"],
        "max_position_embeddings": 512, "model_type": "maple", "moe_intermediate_size": 32, "moe_router_enable_expert_bias": False,
        "nope_on_global_attention": True, "norm_topk_prob": True, "num_attention_heads": 4, "num_experts": 4, "num_experts_per_tok": 2,
        "num_hidden_layers": 2, "num_key_value_heads": 2, "num_shared_experts": 0, "output_router_logits": False,
        "partial_rotary_factor": 0.5, "preaffine": False, "quantize": True, "rms_norm_eps": 1e-06, "rope_theta": 10000.0,
        "router_dtype": "fp32", "sliding_window": 128, "tie_word_embeddings": False, "torch_dtype": "bfloat16", "use_bias": False,
        "use_cache": True, "use_qk_norm": True}),
    "granite-swa": dict(tokenizer="olmo2", dtype="BF16", library=False, tensors=granite_swa_tensors, config={
        "architectures": ["GraniteMoeSWAForCausalLM"], "attention_bias": False, "attention_dropout": 0.0,
        "attention_multiplier": 0.015625, "embedding_multiplier": 12.0, "hidden_act": "silu", "hidden_size": 64,
        "initializer_range": 0.02, "intermediate_size": 32, "layer_types": ["full_attention", "sliding_attention"],
        "logits_scaling": 6.0, "max_position_embeddings": 512, "model_type": "granitemoe_swa", "no_rope_layers": [0, 1],
        "num_attention_heads": 4, "num_experts_per_tok": 2, "num_hidden_layers": 2, "num_key_value_heads": 2, "num_local_experts": 4,
        "output_router_logits": False, "residual_multiplier": 0.22, "rms_norm_eps": 1e-06, "rope_scaling": None, "rope_theta": 10000.0,
        "router_aux_loss_coef": 0.01, "shared_intermediate_size": 64, "sliding_window": 128, "tie_word_embeddings": True,
        "torch_dtype": "bfloat16", "use_cache": True}),
    # The converter asks for an index.
    "minimax-01": dict(tokenizer="qwen2", dtype="BF16", library=False, tensors=minimax_01_tensors,
                       cuts=["model.layers.1.input_layernorm.weight"], config={
        "architectures": ["MiniMaxText01ForCausalLM"], "attention_dropout": 0.0, "attn_type_list": [0, 0], "head_dim": 32,
        "hidden_act": "silu", "hidden_size": 64, "initializer_range": 0.02, "intermediate_size": 32,
        "layernorm_full_attention_alpha": 3.5565588200778455, "layernorm_full_attention_beta": 1.0,
        "layernorm_linear_attention_alpha": 3.5565588200778455, "layernorm_linear_attention_beta": 1.0,
        "layernorm_mlp_alpha": 3.5565588200778455, "layernorm_mlp_beta": 1.0, "max_position_embeddings": 256,
        "model_type": "minimax_text_01", "num_attention_heads": 4, "num_experts_per_tok": 2, "num_hidden_layers": 2,
        "num_key_value_heads": 2, "num_local_experts": 4, "output_router_logits": False, "postnorm": True, "rms_norm_eps": 1e-05,
        "rope_theta": 10000000, "rotary_dim": 16, "router_aux_loss_coef": 0.001, "router_jitter_noise": 0.0,
        "shared_intermediate_size": 0, "shared_moe_mode": "sigmoid", "sliding_window": None, "tie_word_embeddings": False,
        "torch_dtype": "bfloat16", "use_cache": True}),
    "exaone-moe": dict(tokenizer="llama3", dtype="BF16", f32="e_score_correction_bias", library=False, tensors=exaone_moe_tensors, config={
        "architectures": ["ExaoneMoEForCausalLM"], "attention_dropout": 0.0, "first_k_dense_replace": 1, "head_dim": 32,
        "hidden_act": "silu", "hidden_size": 64, "initializer_range": 0.02, "intermediate_size": 128, "is_moe_layer": [False, True],
        "layer_types": ["sliding_attention", "full_attention"], "max_position_embeddings": 512, "model_type": "exaone_moe",
        "moe_intermediate_size": 32, "n_group": 1, "norm_topk_prob": True, "num_attention_heads": 4, "num_experts": 4,
        "num_experts_per_tok": 2, "num_hidden_layers": 2, "num_key_value_heads": 2, "num_nextn_predict_layers": 1,
        "num_shared_experts": 1, "rms_norm_eps": 1e-05, "rope_parameters": {"rope_theta": 1000000, "rope_type": "default"},
        "routed_scaling_factor": 2.5, "scoring_func": "sigmoid", "sliding_window": 128, "sliding_window_pattern": "LLLG",
        "tie_word_embeddings": False, "topk_group": 1, "topk_method": "noaux_tc", "torch_dtype": "bfloat16", "use_cache": True}),
    "dbrx": dict(tokenizer="olmo2", dtype="BF16", pad=64, config={
        "architectures": ["DbrxForCausalLM"], "attn_config": {"clip_qkv": 8, "kv_n_heads": 2, "model_type": "", "rope_theta": 500000},
        "d_model": 64, "emb_pdrop": 0.0,
        "ffn_config": {"ffn_hidden_size": 32, "model_type": "", "moe_jitter_eps": 0.01, "moe_loss_weight": 0.05, "moe_num_experts": 4,
                       "moe_top_k": 2},
        "initializer_range": 0.02, "max_seq_len": 256, "model_type": "dbrx", "n_heads": 4, "n_layers": 2,
        "output_router_logits": False, "resid_pdrop": 0.0, "router_aux_loss_coef": 0.05, "tie_word_embeddings": False,
        "torch_dtype": "bfloat16", "use_cache": True}),
}

# Whose tokenizer differs from the converter's yet.
UNFINISHED = {
    "arctic": dict(tokenizer="llama-sp", dtype="BF16", library=False, tensors=arctic_tensors, config={
        "architectures": ["ArcticForCausalLM"], "attention_dropout": 0,
        "auto_map": {"AutoConfig": "configuration_arctic.ArcticConfig"}, "hidden_act": "silu", "hidden_size": 64,
        "initializer_range": 0.02, "intermediate_size": 32, "max_position_embeddings": 256, "max_sequence_length": 256,
        "model_type": "arctic", "moe_eval_capacity_factor": 1, "moe_layer_frequency": 1, "moe_min_capacity": 0,
        "moe_token_dropping": True, "moe_train_capacity_factor": 1, "num_attention_heads": 4, "num_experts_per_tok": 2,
        "num_hidden_layers": 2, "num_key_value_heads": 2, "num_local_experts": 4, "parallel_attn_mlp_res": True, "rms_norm_eps": 1e-05,
        "rope_theta": 10000, "router_aux_loss_coef": 0.001, "sliding_window": None, "tie_word_embeddings": False,
        "torch_dtype": "bfloat16", "use_cache": True, "use_residual": True}),
}
