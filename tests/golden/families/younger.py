"""Models of several kinds that are younger than this version of transformers: the side of text."""

import json

from families.hybrids import EXPERTS, LINEAR, qwen35_tensors
from families.mixtures import TOKENIZERS, attention, ends, experts, gated, latent_attention, layer_norms, linear, next_token, norm, renamed

GENERAL = {"attention_bias": False, "attention_dropout": 0.0, "hidden_act": "silu", "hidden_size": 64, "initializer_range": 0.02,
           "intermediate_size": 96, "max_position_embeddings": 256, "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 4,
           "rms_norm_eps": 1e-06, "use_cache": True}
YARN = {"beta_fast": 32, "beta_slow": 1, "factor": 4, "mscale": 1.0, "mscale_all_dim": 1.0, "original_max_position_embeddings": 64, "type": "yarn"}
DEEPSEEK = GENERAL | {
    "aux_loss_alpha": 0.001, "ep_size": 1, "first_k_dense_replace": 1, "kv_lora_rank": 32, "moe_intermediate_size": 32, "moe_layer_freq": 1,
    "n_group": 1, "n_routed_experts": 3, "n_shared_experts": 1, "norm_topk_prob": True, "num_experts_per_tok": 2, "num_nextn_predict_layers": 0,
    "pretraining_tp": 1, "q_lora_rank": 48, "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "rope_scaling": YARN, "rope_theta": 50000.0,
    "routed_scaling_factor": 2.827, "scoring_func": "sigmoid", "seq_aux": True, "tie_word_embeddings": False, "topk_group": 1,
    "topk_method": "noaux_tc", "v_head_dim": 24}
# What older versions of the library saved for every configuration inside of another.
SAVED = {"_name_or_path": "", "add_cross_attention": False, "bad_words_ids": None, "chunk_size_feed_forward": 0, "do_sample": False,
         "id2label": {"0": "LABEL_0", "1": "LABEL_1"}, "is_decoder": False, "label2id": {"LABEL_0": 0, "LABEL_1": 1}, "max_length": 20,
         "min_length": 0, "num_beams": 1, "pruned_heads": {}, "return_dict": True, "temperature": 1.0, "top_k": 50, "top_p": 1.0}


def tokenizer_config(kind, **said):
    """A tokenizer's configuration with something else in it."""
    held = json.loads((TOKENIZERS / kind / "tokenizer_config.json").read_text()) | said
    return {"tokenizer_config.json": json.dumps(held, ensure_ascii=False, indent=1) + "\n"}


def indexer(at, config):
    """What chooses the positions that attention looks at."""
    width, size = config["hidden_size"], config["index_head_dim"]
    yield from linear(f"{at}.wq_b", config["index_n_heads"] * size, config["q_lora_rank"])
    yield from linear(f"{at}.wk", size, width)
    yield from norm(f"{at}.k_norm", size)
    yield f"{at}.k_norm.bias", [size], 0
    yield from linear(f"{at}.weights_proj", config["index_n_heads"], width)


def deepseek_tensors(config):
    """DeepSeek V3, with an indexer in V3.2, which keeps its layer that predicts a further token."""
    inner = config["moe_intermediate_size"]
    yield from ends(config)
    for layer in range(config["num_hidden_layers"] + config["num_nextn_predict_layers"]):
        at = f"model.layers.{layer}"
        yield from layer_norms(at, config)
        yield from latent_attention(f"{at}.self_attn", config)
        if "index_topk" in config:
            yield from indexer(f"{at}.self_attn.indexer", config)
        if layer < config["first_k_dense_replace"]:
            yield from gated(f"{at}.mlp", config["hidden_size"], config["intermediate_size"])
        else:
            yield from experts(f"{at}.mlp", config, config["n_routed_experts"], inner, inner * config["n_shared_experts"])
            yield f"{at}.mlp.gate.e_score_correction_bias", [config["n_routed_experts"]], 0
        if layer >= config["num_hidden_layers"]:
            yield from next_token(at, config)


def kimi_k25_tensors(whole):
    for name, shape, center in deepseek_tensors(whole["text_config"]):
        yield f"language_model.{name}", shape, center
    for name in ("vision_tower.encoder.final_layernorm", "mm_projector.pre_norm"):
        yield f"{name}.weight", [16], 0


def minicpm_v_tensors(whole):
    """Qwen 3.5 without its layer that predicts a further token, and with other names of what sees."""
    for name, shape, center in qwen35_tensors(whole):
        if not name.startswith(("mtp.", "model.visual.", "lm_head.")):
            yield name, shape, center
    for name in ("model.vision_tower.encoder.layers.0.layer_norm1", "model.vision_tower.vit_merger.layer_norm1", "model.merger.mlp.0.pre_norm"):
        yield f"{name}.weight", [16], 0


def step3p5_tensors(config):
    """A dense layer, two with experts, and a dense one that predicts a further token."""
    width, head, count = config["hidden_size"], config["head_dim"], config["moe_num_experts"]
    yield from ends(config)
    for layer, kind in enumerate(config["layer_types"]):
        at = f"model.layers.{layer}"
        said = config["attention_other_setting"] if kind == "sliding_attention" else config
        queries, keys = said["num_attention_heads"], said["num_attention_groups"]
        yield from layer_norms(at, config)
        for name, rows, columns in (("q", queries * head, width), ("k", keys * head, width), ("v", keys * head, width), ("o", width, queries * head),
                                    ("g", queries, width)):
            yield from linear(f"{at}.self_attn.{name}_proj", rows, columns)
        for name in ("q", "k"):
            yield from norm(f"{at}.self_attn.{name}_norm", head)
        if str(layer) in config["moe_layers_enum"].split(","):
            yield from linear(f"{at}.moe.gate", count, width)
            yield f"{at}.moe.router_bias", [count], 0
            for name, shape in (("gate", [config["moe_intermediate_size"], width]), ("up", [config["moe_intermediate_size"], width]),
                                ("down", [width, config["moe_intermediate_size"]])):
                yield f"{at}.moe.{name}_proj.weight", [count, *shape], 0
            yield from gated(f"{at}.share_expert", width, config["share_expert_dim"])
        else:
            yield from gated(f"{at}.mlp", width, config["intermediate_size"])
        if layer >= config["num_hidden_layers"]:
            yield from norm(f"{at}.enorm", width)
            yield from norm(f"{at}.hnorm", width)
            yield from linear(f"{at}.eh_proj", width, 2 * width)
            yield from norm(f"{at}.transformer.shared_head.norm", width)
            yield from linear(f"{at}.transformer.shared_head.output", config["vocab_size"], width)


def muse_glimmer_tensors(whole):
    config, start = whole["text_config"], "model.language_model"
    width, head = config["hidden_size"], config["head_dim"]
    queries, keys = config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    yield f"{start}.embed_tokens.weight", [config["vocab_size"], width], 0
    for layer in range(config["num_hidden_layers"]):
        at = f"{start}.layers.{layer}"
        for name in ("input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"):
            yield f"{at}.{name}.weight", [width], 0
        for name, rows, columns in (("q", queries, width), ("k", keys, width), ("v", keys, width), ("gate", queries, width), ("o", width, queries)):
            yield from linear(f"{at}.self_attn.{name}_proj", rows, columns)
        yield from gated(f"{at}.mlp", width, config["intermediate_size"])
    yield from norm(f"{start}.norm", width)
    yield from linear("lm_head", config["vocab_size"], width)
    for name in ("vision_tower.ln_pre", "vision_adapter.fc1", "vision_projection"):
        yield f"model.{name}.weight", [16], 0


def dots3_tensors(config):
    """A dense layer with attention to all, one with experts and a window, and a dense one with a window that predicts a further token."""
    width, inner, turned = config["hidden_size"], config["moe_intermediate_size"], config["qk_rope_head_dim"]
    yield from ends(config)
    yield from linear("model.mtp.embed_tokens", config["vocab_size"], width)
    for layer, kind in enumerate(config["layer_types"] + ["sliding_attention"]):
        at = f"model.layers.{layer}"
        said = {k: config[f"swa_{k}" if kind == "sliding_attention" else k]
                for k in ("num_attention_heads", "kv_lora_rank", "q_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim")}
        yield from layer_norms(at, config)
        yield from latent_attention(f"{at}.self_attn", config | said)
        yield from norm(f"{at}.self_attn.k_rope_only_layernorm", turned)
        yield from linear(f"{at}.self_attn.g_proj", said["num_attention_heads"], width)
        if kind == "full_attention":
            yield from indexer(f"{at}.self_attn.indexer", config)
        if config["first_k_dense_replace"] <= layer < config["num_hidden_layers"]:
            yield from experts(f"{at}.mlp", config, config["n_routed_experts"], inner, inner * config["n_shared_experts"])
            yield f"{at}.mlp.gate.e_score_correction_bias", [config["n_routed_experts"]], 0
        else:
            yield from gated(f"{at}.mlp", width, config["intermediate_size"])
        if layer >= config["num_hidden_layers"]:
            yield from [row for row in next_token(at, config) if "embed_tokens" not in row[0] and "head.head" not in row[0]]
    for name in ("vision_encoder.patch_embed.norm", "audio_encoder.dots_encoder.speech_encoder.layer_norm"):
        yield f"{name}.weight", [16], 0


def minimax_m3_tensors(whole):
    config, start = whole["text_config"], "language_model.model"
    sparse, inner, head = config["sparse_attention_config"], config["intermediate_size"], config["head_dim"]
    width, queries, keys = config["hidden_size"], config["num_attention_heads"] * head, config["num_key_value_heads"] * head
    yield from linear(f"{start}.embed_tokens", config["vocab_size"], width)
    for layer, has_experts in enumerate(config["moe_layer_freq"]):
        at = f"{start}.layers.{layer}"
        for name, size in (("input_layernorm", width), ("post_attention_layernorm", width), ("self_attn.q_norm", head), ("self_attn.k_norm", head)):
            yield f"{at}.{name}.weight", [size], 0
        for name, rows, columns in (("q", queries, width), ("k", keys, width), ("v", keys, width), ("o", width, queries)):
            yield from linear(f"{at}.self_attn.{name}_proj", rows, columns)
        if not has_experts:
            yield from gated(f"{at}.mlp", width, config["dense_intermediate_size"])
            continue
        for name, rows in (("q", sparse["sparse_num_index_heads"] * sparse["sparse_index_dim"]), ("k", sparse["sparse_index_dim"])):
            yield from linear(f"{at}.self_attn.index_{name}_proj", rows, width)
            yield f"{at}.self_attn.index_{name}_norm.weight", [sparse["sparse_index_dim"]], 0
        yield f"{at}.block_sparse_moe.e_score_correction_bias", [config["num_local_experts"]], 0
        yield from experts(f"{at}.block_sparse_moe", config, config["num_local_experts"], inner, inner * config["n_shared_experts"], ("w1", "w3", "w2"))
    yield f"{start}.norm.weight", [width], 0
    yield from linear("language_model.lm_head", config["vocab_size"], width)
    for name in ("vision_tower.vision_model.pre_layrnorm", "multi_modal_projector.linear_1", "patch_merge_mlp.linear_1"):
        yield f"{name}.weight", [16], 0


def qwen3_omni_tensors(whole):
    """What thinks, and something of what sees, hears and speaks."""
    config = whole["thinker_config"]["text_config"]
    for name, shape, center in ends(config):
        yield f"thinker.{name}", shape, center
    for layer in range(config["num_hidden_layers"]):
        at = f"thinker.model.layers.{layer}"
        yield from layer_norms(at, config)
        yield from attention(f"{at}.self_attn", config, norms="head")
        yield from experts(f"{at}.mlp", config, config["num_experts"], config["moe_intermediate_size"])
    for name in ("thinker.visual.merger.ln_q", "thinker.audio_tower.ln_post", "talker.model.norm", "code2wav.pre_transformer.norm"):
        yield f"{name}.weight", [16], 0


def qwen3_asr_tensors(whole):
    config = whole["text_config"]
    yield from linear("model.language_model.embed_tokens", config["vocab_size"], config["hidden_size"])
    for layer in range(config["num_hidden_layers"]):
        at = f"model.language_model.layers.{layer}"
        yield from layer_norms(at, config)
        yield from attention(f"{at}.self_attn", config, norms="head")
        yield from gated(f"{at}.mlp", config["hidden_size"], config["intermediate_size"])
    yield from norm("model.language_model.norm", config["hidden_size"])
    for name in ("model.audio_tower.ln_post", "model.multi_modal_projector.linear_1"):
        yield f"{name}.weight", [16], 0


def lfm2_audio_tensors(config):
    """LFM2 without an embedding, and with an output of another width."""
    width, inner = config["hidden_size"], config["intermediate_size"]
    head = width // config["num_attention_heads"]
    yield from norm("lfm.embedding_norm", width)
    for layer, kind in enumerate(config["layer_types"]):
        at = f"lfm.layers.{layer}"
        yield from norm(f"{at}.operator_norm", width)
        yield from norm(f"{at}.ffn_norm", width)
        yield from gated(f"{at}.feed_forward", width, inner, ("w1", "w3", "w2"))
        if kind == "conv":
            yield from linear(f"{at}.conv.in_proj", 3 * width, width)
            yield f"{at}.conv.conv.weight", [width, 1, config["conv_L_cache"]], 0
            yield from linear(f"{at}.conv.out_proj", width, width)
            continue
        keys = config["num_key_value_heads"] * head
        for name, rows in (("q_proj", width), ("k_proj", keys), ("v_proj", keys), ("out_proj", width)):
            yield from linear(f"{at}.self_attn.{name}", rows, width)
        for name in ("q_layernorm", "k_layernorm"):
            yield from norm(f"{at}.self_attn.{name}", head)
    yield from linear("lin", config["output_size"], width, bias=True)
    yield "emb.emb.weight", [48, width], 0
    yield "istft.window", [32], 0


def wavtokenizer_tensors(config):
    """As llama.cpp's tool names and shapes them: biases of convolutions and some norms are columns."""
    inside, width, inner = config["posnet"]["n_embd"], config["convnext"]["n_embd"], config["n_ff"]
    yield "backbone.embedding.weight", [config["vocab_size"], config["n_embd_features"]], 0
    yield "backbone.embed.weight", [inside, config["n_embd_features"], 7], 0
    yield "backbone.embed.bias", [inside, 1], 0
    for name, size in (("backbone.norm", inside), ("backbone.final_layer_norm", width)):
        yield f"{name}.weight", [size], 1
        yield f"{name}.bias", [size], 0
    for layer in range(config["posnet"]["n_layer"]):
        at = f"backbone.posnet.{layer}"
        names = {2: ("norm", "q", "k", "v", "proj_out"), 5: ("norm",)}.get(layer, ("norm1", "conv1", "norm2", "conv2"))
        for name in names:
            shape = [inside, 1] if "norm" in name else [inside, inside, 3 if "conv" in name else 1]
            yield f"{at}.{name}.weight", shape, 1 if "norm" in name else 0
            yield f"{at}.{name}.bias", [inside, 1], 0
    for block in range(config["convnext"]["n_layer"]):
        at = f"backbone.convnext.{block}"
        yield f"{at}.dwconv.weight", [width, 1, 7], 0
        yield f"{at}.dwconv.bias", [width, 1], 0
        yield f"{at}.norm.weight", [width], 1
        yield f"{at}.norm.bias", [width], 0
        yield from linear(f"{at}.pwconv1", inner, width, bias=True)
        yield from linear(f"{at}.pwconv2", width, inner, bias=True)
        yield f"{at}.gamma.weight", [width], 0
    yield from linear("head.out", config["hidden_size"], width, bias=True)


def qwen4exp_tensors(whole):
    """Qwen 3.5's layers without norms, with what mixes the residuals, an indexer and a table for the last tokens."""
    config, wide = whole["text_config"], whole["text_config"]["hc_count"] * whole["text_config"]["hidden_size"]
    rank, inside = config["hc_lowrank"], config["ple_embed_dim"]
    for name, shape, center in qwen35_tensors(whole):
        if "layernorm.weight" not in name and not name.endswith("language_model.norm.weight"):
            yield name, shape, center
    start = "model.language_model"
    mixers = [(f"{start}.hyper_connection_mixer", False)]
    for layer, kind in enumerate(config["layer_types"]):
        at = f"{start}.layers.{layer}"
        mixers += [(f"{at}.attn_hyper_connection", True), (f"{at}.mlp_hyper_connection", True)]
        if kind == "full_attention":
            size = config["indexer_head_dim"]
            yield from linear(f"{at}.self_attn.indexer.index_qk_proj", (config["indexer_n_heads"] + 1) * size, config["hidden_size"])
            for name in ("q_layernorm", "k_layernorm"):
                yield f"{at}.self_attn.indexer.{name}.weight", [size], 0
        if layer + 1 in config["ple_layer_ids"]:
            yield from linear(f"{at}.ple.key_proj", wide, inside)
            yield from linear(f"{at}.ple.value_proj", config["hidden_size"], inside)
            for name in ("norm_key", "norm_query", "norm_conv"):
                yield f"{at}.ple.{name}.weight", [wide], 0
            yield f"{at}.ple.conv1d.weight", [wide, 1, config["ple_conv_kernel_size"]], 0
            for shard in range(config["split_ngram_parts"]):
                heads = (config["ngram_size"] - 1) * config["heads_per_ngram"]
                yield from linear(f"{at}.ple.ple_embedding.ngram_embedding.shard_{shard}", 24, inside // heads)
    for at, back in mixers:
        yield f"{at}.hc_norm.weight", [wide], 0
        yield from linear(f"{at}.input_mix_weight_down", rank, wide)
        yield from linear(f"{at}.input_mix_weight_up", wide, rank)
        if back:
            yield from linear(f"{at}.block_inject_weight", config["hc_count"], wide)


MODELS = {
    "kimi-k2-5": dict(tokenizer="deepseek", dtype="BF16", library=False, tensors=kimi_k25_tensors, f32="e_score_correction_bias", config={
        "architectures": ["KimiK25ForConditionalGeneration"], "auto_map": {"AutoConfig": "configuration_kimi_k25.KimiK25Config"}, "dtype": "bfloat16",
        "ignore_index": -100, "media_placeholder_token_id": 3, "model_type": "kimi_k25", "tie_word_embeddings": False, "use_unified_vision_chunk": True,
        "video_placeholder": "<|kimi_k25_video_placeholder|>", "vision_config": {"patch_size": 14, "vt_hidden_size": 16},
        "text_config": SAVED | DEEPSEEK | {"architectures": ["DeepseekV3ForCausalLM"], "dtype": "bfloat16", "model_type": "kimi_k2"}}),
    # The configuration counts a layer that predicts a further token, without which the converter stops; it writes none.
    "minicpm-v4-6": dict(tokenizer="qwen2", dtype="BF16", pad=64, library=False, tensors=minicpm_v_tensors, config={
        "architectures": ["MiniCPMV4_6ForConditionalGeneration"], "drop_vision_last_layer": False, "image_size": 1120, "model_type": "minicpmv4_6",
        "tie_word_embeddings": True, "transformers_version": "5.7.0", "use_cache": True,
        "vision_config": {"hidden_size": 16, "model_type": "minicpmv4_6_vision"},
        "text_config": LINEAR | {"attn_output_gate": True, "dtype": "bfloat16", "intermediate_size": 96, "layer_types": ["linear_attention", "full_attention"],
                                 "mamba_ssm_dtype": "float32", "model_type": "qwen3_5_text", "mtp_num_hidden_layers": 1, "tie_word_embeddings": True,
                                 "rope_parameters": {
                                     "mrope_interleaved": True, "mrope_section": [2, 1, 1], "partial_rotary_factor": 0.25, "rope_theta": 10000000,
                                     "rope_type": "default"}}}),
    # Not the FP8 files.
    "deepseek32": dict(tokenizer="deepseek", dtype="BF16", library=False, tensors=deepseek_tensors, f32="e_score_correction_bias",
                       files=tokenizer_config("deepseek", tokenizer_class="LlamaTokenizerFast", unk_token=None),
                       config={k: v for k, v in DEEPSEEK.items() if k not in ("aux_loss_alpha", "pretraining_tp", "seq_aux")} | {
        "architectures": ["DeepseekV32ForCausalLM"], "index_head_dim": 64, "index_n_heads": 2, "index_topk": 64, "model_type": "deepseek_v32",
        "n_group": 2, "n_routed_experts": 4, "num_nextn_predict_layers": 1, "torch_dtype": "bfloat16", "transformers_version": "4.44.2"}),
    # As the released ones are, with heads of another number in windows.
    "step3p5": dict(tokenizer="deepseek", dtype="BF16", f32="router_bias", library=False, tensors=step3p5_tensors, config={
        "architectures": ["Step3p5ForCausalLM"], "att_impl_type": "GQA", "attention_other_setting": {
            "attention_type": "sliding_attention", "head_dim": 32, "num_attention_groups": 2, "num_attention_heads": 4, "true_head_dim": 32},
        "auto_map": {"AutoConfig": "configuration_step3p5.Step3p5Config"}, "head_dim": 32, "hidden_size": 64, "intermediate_size": 96,
        "layer_types": ["full_attention", "sliding_attention", "full_attention", "sliding_attention"], "max_position_embeddings": 262144,
        "max_seq_len": 262144, "model_type": "step3p5", "moe_every_n_layer": 1, "moe_intermediate_size": 32, "moe_layer_offset": 0,
        "moe_layers_enum": "1,2", "moe_num_experts": 4, "moe_router_activation": "sigmoid", "moe_router_scaling_factor": 3.0, "moe_top_k": 2,
        "need_fp32_gate": True, "norm_expert_weight": True, "num_attention_groups": 1, "num_attention_heads": 2, "num_hidden_layers": 3,
        "num_nextn_predict_layers": 1, "partial_rotary_factors": [0.5, 1.0, 0.5, 1.0], "rms_norm_eps": 1e-05, "rope_scaling": {
            "factor": 2.0, "high_freq_factor": 32.0, "low_freq_factor": 1.0, "original_max_position_embeddings": 131072, "rope_type": "llama3"},
        "rope_theta": [5000000.0, 10000.0, 5000000.0, 10000.0], "share_expert_dim": 48, "sink": False, "sliding_window": 64,
        "swiglu_limits": [0.0, 7, 7, 0.0], "swiglu_limits_shared": [0.0, 0.0, 16, 0.0], "torch_dtype": "bfloat16", "use_head_wise_attn_gate": True,
        "use_moe": True, "use_moe_router_bias": True, "use_qk_norm": False, "use_rope_layers": [], "yarn_only_types": ["full_attention"],
        "zero_centered": True}),
    "qwen3-omni-moe": dict(tokenizer="qwen2", dtype="BF16", pad=64, library=False, tensors=qwen3_omni_tensors, config={
        "architectures": ["Qwen3OmniMoeForConditionalGeneration"], "assistant_token_id": 3, "code2wav_config": {"model_type": ""}, "dtype": "bfloat16",
        "enable_audio_output": True, "im_end_token_id": 462, "im_start_token_id": 461, "model_type": "qwen3_omni_moe", "system_token_id": 4,
        "talker_config": {"model_type": "qwen3_omni_moe_talker"}, "tts_bos_token_id": 5, "tts_eos_token_id": 6, "tts_pad_token_id": 7, "user_token_id": 8,
        "thinker_config": {
            "audio_config": {"model_type": "qwen3_omni_moe_audio_encoder"}, "audio_token_id": 9, "dtype": "bfloat16", "initializer_range": 0.02,
            "model_type": "qwen3_omni_moe_thinker", "position_id_per_seconds": 13, "seconds_per_chunk": 2, "vision_config": {
                "deepstack_visual_indexes": [0], "model_type": "qwen3_omni_moe_vision_encoder"},
            "text_config": {
                "attention_bias": False, "attention_dropout": 0.0, "decoder_sparse_step": 1, "head_dim": 32, "hidden_act": "silu", "hidden_size": 64,
                "initializer_range": 0.02, "intermediate_size": 48, "max_position_embeddings": 512, "mlp_only_layers": [],
                "model_type": "qwen3_omni_moe_text", "moe_intermediate_size": 48, "norm_topk_prob": True, "num_attention_heads": 4, "num_experts": 4,
                "num_experts_per_tok": 2, "num_hidden_layers": 2, "num_key_value_heads": 2, "output_router_logits": False, "rms_norm_eps": 1e-06,
                "rope_scaling": {"interleaved": True, "mrope_interleaved": True, "mrope_section": [6, 5, 5], "rope_type": "default", "type": "default"},
                "rope_theta": 1000000, "router_aux_loss_coef": 0.001, "shared_expert_intermediate_size": 0, "sliding_window": None,
                "tie_word_embeddings": False, "use_cache": True, "use_qk_norm": True, "use_sliding_window": False, "vocab_size": 512}}}),
    # With the chat template that its converter writes whatever the folder has.
    "qwen3-asr": dict(tokenizer="qwen2", ids={"pad_token_id": 462}, dtype="BF16", pad=64, library=False, tensors=qwen3_asr_tensors,
                      files=tokenizer_config("qwen2", pad_token="<|im_end|>", chat_template=(
            "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\\n' + message['content'] + '<|im_end|>' + '\\n'}}{% endfor %}"
            "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}")), config={
        "architectures": ["Qwen3ASRForConditionalGeneration"], "audio_config": {"d_model": 16, "model_type": "qwen3_asr_encoder"}, "audio_token_id": 3,
        "dtype": "bfloat16", "eos_token_id": 462, "initializer_range": 0.02, "model_type": "qwen3_asr", "pad_token_id": 462,
        "tie_word_embeddings": True, "timestamp_token_id": 4, "token_classification_bias": False, "transformers_version": "5.15.0",
        "text_config": {
            "attention_bias": False, "attention_dropout": 0.0, "head_dim": 32, "hidden_act": "silu", "hidden_size": 64, "initializer_range": 0.02,
            "intermediate_size": 96, "layer_types": ["full_attention", "full_attention"], "max_position_embeddings": 512, "max_window_layers": 2,
            "model_type": "qwen3", "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 2, "rms_norm_eps": 1e-06,
            "rope_parameters": {"mrope_interleaved": True, "mrope_section": [6, 5, 5], "rope_theta": 1000000, "rope_type": "default"},
            "sliding_window": None, "tie_word_embeddings": True, "use_cache": True, "use_sliding_window": False}}),
    "minimax-m3": dict(tokenizer="qwen2", dtype="BF16", library=False, tensors=minimax_m3_tensors, f32="e_score_correction_bias", config={
        "architectures": ["MiniMaxM3SparseForConditionalGeneration"], "auto_map": {"AutoConfig": "configuration_minimax_m3_vl.MiniMaxM3VLConfig"},
        "image_token_index": 3, "model_type": "minimax_m3_vl", "projector_hidden_size": 64, "torch_dtype": "bfloat16", "video_token_index": 4,
        "vision_config": {"hidden_size": 16, "model_type": "minimax_m3_vl_vision"},
        "text_config": {
            "attention_dropout": 0.0, "dense_intermediate_size": 96, "head_dim": 32, "hidden_act": "swigluoai", "hidden_size": 64,
            "initializer_range": 0.02, "intermediate_size": 32, "max_position_embeddings": 512, "model_type": "minimax_m3_vl_text",
            "moe_layer_freq": [0, 1], "n_shared_experts": 1, "num_attention_heads": 4, "num_experts_per_tok": 2, "num_hidden_layers": 2,
            "num_key_value_heads": 2, "num_local_experts": 4, "output_router_logits": False, "qk_norm_type": "per_head", "rms_norm_eps": 1e-06,
            "rope_theta": 5000000, "rotary_dim": 16, "routed_scaling_factor": 2.0, "router_aux_loss_coef": 0.001, "router_jitter_noise": 0.0,
            "scoring_func": "sigmoid", "shared_intermediate_size": 32, "sparse_attention_config": {
                "sparse_attention_freq": [0, 1], "sparse_block_size": 16, "sparse_disable_index_value": [1, 1], "sparse_index_dim": 32,
                "sparse_init_block": 0, "sparse_local_block": 1, "sparse_num_index_heads": 2, "sparse_score_type": "max", "sparse_topk_blocks": 4,
                "use_sparse_attention": True},
            "swiglu_alpha": 1.702, "swiglu_limit": 7.0, "tie_word_embeddings": False, "use_cache": True, "use_gemma_norm": True,
            "use_routing_bias": True}}),
    "dots3note": dict(tokenizer="qwen2", dtype="BF16", library=False, tensors=dots3_tensors, f32="e_score_correction_bias",
                      files=renamed("qwen2", {"<|im_end|>": "<|endofassistant|>"}, eos_token="<|endofassistant|>"), config=GENERAL | {
        "architectures": ["Dots3NoteForCausalLM"], "model_type": "dots3_note", "tie_word_embeddings": False, "torch_dtype": "bfloat16",
        "vision_config": {"embed_dim": 16, "model_type": "dots3_note_vision_encoder"},
        "audio_config": {"model_type": "dots3_note_audio_encoder", "whisper_config": {"d_model": 16}},
        "apply_mla_qkv_lora_rescale": True, "attention_gate_type": "headwise", "first_k_dense_replace": 1, "head_dim": 48, "index_head_dim": 64,
        "index_n_heads": 2, "index_topk": 64, "k_rope_only_layernorm": True, "kv_lora_rank": 16, "layer_types": ["full_attention", "sliding_attention"],
        "moe_intermediate_size": 32, "moe_layer_freq": 1, "moe_shared_expert_intermediate_size": 32, "n_group": 1,
        "n_routed_experts": 3, "n_shared_experts": 1, "norm_topk_prob": True, "num_experts_per_tok": 2, "q_lora_rank": 32,
        "qk_nope_head_dim": 32, "qk_rope_head_dim": 16, "rms_norm_eps": 1e-05, "rope_theta": 80000000.0, "routed_scaling_factor": 1.0,
        "scoring_func": "sigmoid", "sliding_window_size": 64, "swa_attention_gate_type": "headwise", "swa_head_dim": 64,
        "swa_kv_lora_rank": 32, "swa_num_attention_heads": 2, "swa_num_key_value_heads": 2, "swa_q_lora_rank": 32, "swa_qk_nope_head_dim": 48,
        "swa_qk_rope_head_dim": 16, "swa_rope_theta": 50000.0, "swa_v_head_dim": 24, "topk_group": 1, "topk_method": "noaux_tc",
        "use_dsa": True, "v_head_dim": 24}),
    "muse-glimmer": dict(tokenizer="llama3", dtype="BF16", pad=64, library=False, tensors=muse_glimmer_tensors, config={
        "architectures": ["MuseGlimmerForConditionalGeneration"], "dtype": "bfloat16", "image_token_id": 3, "model_type": "muse_glimmer",
        "out_hidden_size": 64, "projector_hidden_size": 32, "tie_word_embeddings": False, "transformers_version": "5.15.0",
        "vision_config": {"hidden_size": 16, "model_type": "muse_glimmer_vision"},
        "text_config": {
            "attention_bias": False, "attention_dropout": 0.0, "dtype": "bfloat16", "final_logit_softcapping": 20.0, "head_dim": 32,
            "hidden_activation": "silu", "hidden_size": 64, "initializer_range": 0.02, "intermediate_size": 96, "layer_rope_theta": [500000.0, 0],
            "layer_types": ["sliding_attention", "full_attention"], "max_position_embeddings": 512, "model_type": "muse_glimmer_text",
            "num_attention_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 2, "output_multiplier": 0.19611613513818404,
            "post_norm_eps": 1e-08, "qk_scale_factor": 3.87, "rms_norm_eps": 1e-05, "rope_parameters": {
                "rope_theta": 500000.0, "rope_type": "default"}, "sliding_window": 64, "tie_word_embeddings": False, "use_cache": True}}),
}

UNFINISHED = {
    # Without a tokenizer, which the generator of models asks for.
    "lfm2-audio": dict(tokenizer=None, dtype="BF16", library=False, tensors=lfm2_audio_tensors, config={
        "architectures": ["Lfm25AudioTokenizer"], "block_auto_adjust_ff_dim": True, "block_dim": 64, "block_ff_dim": 180, "block_ffn_dim_multiplier": 1.0,
        "block_mlp_init_scale": 1.0, "block_multiple_of": 32, "block_norm_eps": 1e-05, "block_out_init_scale": 1.0, "block_use_swiglu": True,
        "block_use_xavier_init": True, "bos_token_id": 1, "conv_L_cache": 3, "conv_bias": False, "conv_dim": 64, "conv_dim_out": 64,
        "conv_use_xavier_init": True, "dtype": "bfloat16", "eos_token_id": 7, "hidden_size": 64, "initializer_range": 0.02, "intermediate_size": 128,
        "layer_types": ["conv", "sliding_attention"], "max_position_embeddings": 512, "model_type": "lfm2", "norm_eps": 1e-05, "num_attention_heads": 4,
        "num_heads": 4, "num_hidden_layers": 2, "num_key_value_heads": 2, "output_size": 40, "pad_token_id": 0, "rope_theta": 1000000.0,
        "sliding_window": 30, "transformers_version": "4.56.0", "use_cache": True, "use_pos_enc": True, "vocab_size": 512}),
    # The same, and norms that are columns are always F32 in GGUF.
    "wavtokenizer-dec": dict(tokenizer=None, dtype="F16", library=False, tensors=wavtokenizer_tensors, config={
        "architectures": ["WavTokenizerDec"], "convnext": {"n_embd": 64, "n_layer": 2}, "group_norm_epsilon": 1e-06, "group_norm_groups": 32,
        "hidden_size": 34, "layer_norm_epsilon": 1e-06, "max_position_embeddings": 8192, "n_embd_features": 32, "n_ff": 96, "n_head": 1, "n_layer": 6,
        "posnet": {"n_embd": 64, "n_layer": 6}, "vocab_size": 64}),
    # Whole numbers that are tensors in a folder and keys in GGUF.
    "qwen4exp": dict(tokenizer="qwen2", dtype="BF16", pad=64, library=False, tensors=qwen4exp_tensors, add=[
        (f"model.language_model.layers.1.ple.ple_embedding.{name}", "I64", shape, 0)
        for name, shape in (("layer_multipliers", [3]), ("ngram_heads_offsets", [4]), ("ngram_heads_vocab_sizes", [4]))], config={
        "architectures": ["Qwen4ExpForConditionalGeneration"], "image_token_id": 3, "model_type": "qwen4_exp", "tie_word_embeddings": False,
        "video_token_id": 4, "vision_config": {"hidden_size": 32, "model_type": "qwen4_exp"}, "vision_end_token_id": 5, "vision_start_token_id": 6,
        "text_config": LINEAR | EXPERTS | {
            "attn_output_gate": True, "dtype": "bfloat16", "hc_count": 2, "hc_lowrank": 16, "heads_per_ngram": 2, "indexer_budget": 64,
            "indexer_compress_ratio": 4, "indexer_head_dim": 16, "indexer_kv_heads": 1, "indexer_n_heads": 2,
            "layer_types": ["linear_attention", "full_attention"], "make_ngram_vocab_size_divisible_by": 8, "mamba_ssm_dtype": "float32",
            "model_type": "qwen4_exp_text", "mtp_num_hidden_layers": 1, "ngram_size": 3, "ngram_vocab_size_base": 20, "norm_topk_prob": True,
            "output_gate_type": "silu", "ple_conv_kernel_size": 4, "ple_embed_dim": 64, "ple_layer_ids": [2], "rope_parameters": {
                "mrope_interleaved": True, "mrope_section": [2, 1, 1], "partial_rotary_factor": 0.25, "rope_theta": 10000000, "rope_type": "default"},
            "seed": 1234, "split_ngram_parts": 2, "tie_word_embeddings": False}}),
}
