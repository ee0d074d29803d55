"""Decoders that judge documents: of their output the converter keeps the rows of two tokens."""

COMMON = {"attention_bias": False, "attention_dropout": 0.0, "head_dim": 32, "hidden_act": "silu", "hidden_size": 64,
          "initializer_range": 0.02, "intermediate_size": 128, "max_position_embeddings": 512, "num_attention_heads": 4,
          "num_hidden_layers": 2, "num_key_value_heads": 2, "rms_norm_eps": 1e-06, "use_cache": True}
QWEN3 = COMMON | {"architectures": ["Qwen3ForCausalLM"], "max_window_layers": 2, "model_type": "qwen3", "rope_scaling": None,
                  "rope_theta": 1000000, "sliding_window": None, "torch_dtype": "bfloat16", "use_sliding_window": False}
# What the converter knows such models by.
README = """---
license: apache-2.0
pipeline_tag: text-ranking
---
# %s
"""

MODELS = {
    # The 0.6B and 4B models: the rows are those of the embedding.
    "qwen3-reranker": dict(tokenizer="qwen2-answers", dtype="BF16", pad=64, files={"README.md": README % "Qwen3-Reranker-0.6B"}, config=QWEN3 | {
        "tie_word_embeddings": True}),
    # The 8B model: the rest of the output is left out.
    "qwen3-reranker-untied": dict(tokenizer="qwen2-answers", dtype="BF16", pad=64, files={"README.md": README % "Qwen3-Reranker-8B"}, config=QWEN3 | {
        "tie_word_embeddings": False}),
    "qwen3-vl-reranker": dict(tokenizer="qwen2-answers", dtype="BF16", pad=64, files={"README.md": README % "Qwen3-VL-Reranker-2B"}, config={
        "architectures": ["Qwen3VLForConditionalGeneration"], "image_token_id": 3, "model_type": "qwen3_vl", "tie_word_embeddings": True,
        "video_token_id": 4, "vision_end_token_id": 5, "vision_start_token_id": 6,
        "text_config": COMMON | {"dtype": "bfloat16", "model_type": "qwen3_vl_text", "rope_theta": 5000000, "tie_word_embeddings": True,
                                 "rope_scaling": {"mrope_interleaved": True, "mrope_section": [6, 5, 5], "rope_type": "default"}},
        "vision_config": {"deepstack_visual_indexes": [0, 1], "depth": 2, "hidden_size": 32, "in_channels": 3, "intermediate_size": 64,
                          "model_type": "qwen3_vl", "num_heads": 2, "num_position_embeddings": 16, "out_hidden_size": 64, "patch_size": 4,
                          "spatial_merge_size": 2, "temporal_patch_size": 2}}),
}
