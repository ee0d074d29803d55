"""How long the plan of a very large mixture takes, and how much memory: a folder shaped like DeepSeek V3 (61 layers, 256 experts) whose files of weights are holes.

    plan_figures.py [PROGRAM]      (target/release/apr)
"""

import json
import resource
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
CONFIG = {
    "architectures": ["DeepseekV3ForCausalLM"], "attention_bias": False, "bos_token_id": 0, "eos_token_id": 1, "first_k_dense_replace": 3,
    "hidden_act": "silu", "hidden_size": 7168, "intermediate_size": 18432, "kv_lora_rank": 512, "max_position_embeddings": 163840,
    "model_type": "deepseek_v3", "moe_intermediate_size": 2048, "moe_layer_freq": 1, "n_group": 8, "n_routed_experts": 256, "n_shared_experts": 1,
    "norm_topk_prob": True, "num_attention_heads": 128, "num_experts_per_tok": 8, "num_hidden_layers": 61, "num_key_value_heads": 128,
    "num_nextn_predict_layers": 1, "q_lora_rank": 1536, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "rms_norm_eps": 1e-06, "rope_theta": 10000,
    "routed_scaling_factor": 2.5, "scoring_func": "sigmoid", "tie_word_embeddings": False, "topk_group": 4, "topk_method": "noaux_tc",
    "torch_dtype": "bfloat16", "v_head_dim": 128, "vocab_size": 129280}
PER_FILE = 8 << 30


def tensors():
    c = CONFIG
    width, heads, inner = c["hidden_size"], c["num_attention_heads"], c["moe_intermediate_size"]
    yield "model.embed_tokens.weight", [c["vocab_size"], width]
    for layer in range(c["num_hidden_layers"] + 1):
        at = f"model.layers.{layer}"
        yield f"{at}.input_layernorm.weight", [width]
        yield f"{at}.post_attention_layernorm.weight", [width]
        yield f"{at}.self_attn.q_a_proj.weight", [c["q_lora_rank"], width]
        yield f"{at}.self_attn.q_a_layernorm.weight", [c["q_lora_rank"]]
        yield f"{at}.self_attn.q_b_proj.weight", [heads * 192, c["q_lora_rank"]]
        yield f"{at}.self_attn.kv_a_proj_with_mqa.weight", [576, width]
        yield f"{at}.self_attn.kv_a_layernorm.weight", [512]
        yield f"{at}.self_attn.kv_b_proj.weight", [heads * 256, 512]
        yield f"{at}.self_attn.o_proj.weight", [width, heads * 128]
        parts = [("mlp", c["intermediate_size"])] if layer < c["first_k_dense_replace"] else [("mlp.shared_experts", inner)] + [
            (f"mlp.experts.{expert}", inner) for expert in range(c["n_routed_experts"])]
        for part, size in parts:
            yield f"{at}.{part}.gate_proj.weight", [size, width]
            yield f"{at}.{part}.up_proj.weight", [size, width]
            yield f"{at}.{part}.down_proj.weight", [width, size]
        if layer >= c["first_k_dense_replace"]:
            yield f"{at}.mlp.gate.weight", [c["n_routed_experts"], width]
            yield f"{at}.mlp.gate.e_score_correction_bias", [c["n_routed_experts"]]
    yield "model.norm.weight", [width]
    yield "lm_head.weight", [c["vocab_size"], width]


def write(folder):
    files, size = [[]], 0
    for name, shape in tensors():
        length = 2
        for dim in shape:
            length *= dim
        if size + length > PER_FILE and files[-1]:
            files.append([])
            size = 0
        files[-1].append((name, shape, length))
        size += length
    places = {}
    for number, rows in enumerate(files):
        file, header, at = f"model-{number + 1:05}-of-{len(files):05}.safetensors", {}, 0
        for name, shape, length in rows:
            header[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + length]}
            places[name] = file
            at += length
        text = json.dumps(header).encode()
        text += b" " * (-len(text) % 8)
        with open(folder / file, "wb") as out:
            out.write(struct.pack("<Q", len(text)) + text)
            out.truncate(8 + len(text) + at)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": places}))
    (folder / "config.json").write_text(json.dumps(CONFIG))
    for file in (ROOT / "tests/golden/tokenizers/deepseek").iterdir():
        shutil.copy(file, folder)
    return len(places), len(files)


def main():
    program = sys.argv[1] if len(sys.argv) > 1 else ROOT / "target/release/apr"
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch) / "large"
        folder.mkdir()
        count, files = write(folder)
        best = None
        for _ in range(3):
            began = time.monotonic()
            done = subprocess.run([program, "convert", folder, Path(scratch) / "out.gguf", "--plan", "--quiet"], capture_output=True, text=True)
            took = time.monotonic() - began
            best = took if best is None else min(best, took)
            if done.returncode:
                sys.exit(done.stderr)
        most = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
        print(f"{count} tensors in {files} files: {best:.2f} s, {most / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
