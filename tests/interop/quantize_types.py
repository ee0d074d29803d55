"""Writes plugins/quants/tests/types.toml: the type that llama-quantize chooses for every tensor of synthetic models.

    quantize_types.py PROGRAM OUTPUT

PROGRAM is quantize_types.cpp, built. `quantize_types.sh` builds it and calls this. The models have the names, shapes and
keys of real ones, but few rows: types do not depend on them.
"""

import pathlib
import subprocess
import sys
import tempfile

import gguf
import numpy

# name: number of llama_ftype. The first is what the test calls it; aliases are tested by themselves.
MIXTURES = {
    "F32": 0, "F16": 1, "Q4_0": 2, "Q4_1": 3, "Q8_0": 7, "Q5_0": 8, "Q5_1": 9, "Q2_K": 10, "Q3_K_S": 11, "Q3_K_M": 12,
    "Q3_K_L": 13, "Q4_K_S": 14, "Q4_K_M": 15, "Q5_K_S": 16, "Q5_K_M": 17, "Q6_K": 18, "IQ2_XXS": 19, "IQ2_XS": 20,
    "Q2_K_S": 21, "IQ3_XS": 22, "IQ3_XXS": 23, "IQ1_S": 24, "IQ4_NL": 25, "IQ3_S": 26, "IQ3_M": 27, "IQ2_S": 28,
    "IQ2_M": 29, "IQ4_XS": 30, "IQ1_M": 31, "BF16": 32, "TQ1_0": 36, "TQ2_0": 37, "MXFP4_MOE": 38, "Q1_0": 40, "Q2_0": 41,
}

EPSILON = {"attention.layer_norm_rms_epsilon": 1e-5, "attention.layer_norm_epsilon": 1e-5}


def attention(width, query=None, kv=None, layers="L"):
    query, kv = query or width, kv or width
    return f"""
blk.{layers}.attn_norm.weight {width}
blk.{layers}.attn_q.weight {query} {width}
blk.{layers}.attn_k.weight {kv} {width}
blk.{layers}.attn_v.weight {kv} {width}
blk.{layers}.attn_output.weight 8 {query}
"""


def dense(width, inner, layers="L"):
    return f"""
blk.{layers}.ffn_norm.weight {width}
blk.{layers}.ffn_gate.weight 8 {width}
blk.{layers}.ffn_up.weight 8 {width}
blk.{layers}.ffn_down.weight 8 {inner}
"""


def experts(number, width, inner, layers="L"):
    return f"""
blk.{layers}.ffn_norm.weight {width}
blk.{layers}.ffn_gate_inp.weight {number} {width}
blk.{layers}.ffn_gate_exps.weight {number} 2 {width}
blk.{layers}.ffn_up_exps.weight {number} 2 {width}
blk.{layers}.ffn_down_exps.weight {number} 2 {inner}
"""


def ends(width, output=True):
    return f"""
token_embd.weight 16 {width}
output_norm.weight {width}
""" + (f"output.weight 16 {width}\n" if output else "")


def keys(layers, heads, kv, **more):
    return {"block_count": layers, "attention.head_count": heads, "attention.head_count_kv": kv, **EPSILON,
            **{key.replace("__", "."): value for key, value in more.items()}}


def moe(number, used=2, **more):
    return {"expert_count": number, "expert_used_count": used, "expert_feed_forward_length": 256, **more}


MLA = {"attention__q_lora_rank": 64, "attention__kv_lora_rank": 64, "attention__key_length_mla": 64,
       "attention__value_length_mla": 64, "expert_shared_count": 1, "leading_dense_block_count": 1,
       "expert_gating_func": 2, "expert_weights_scale": 1.0, "ssm__conv_kernel": 4, "kda__head_dim": 64,
       "kda__gate_lower_bound": -5.0}

# What makes a model: its architecture, its keys below the architecture's, and its tensors: name, and dimensions from the
# outermost on; `L` in a name stands for every layer, `A-B` for some.
MODELS = {
    "gqa": ("llama", keys(28, 8, 2), ends(512) + attention(512, kv=256) + dense(512, 1024) + "rope_freqs.weight 32\n"),
    "tied": ("qwen2", keys(28, 8, 4), ends(512, False) + attention(512) + dense(512, 1024) + """
blk.L.attn_q.bias 512
blk.L.attn_k.bias 512
blk.L.attn_v.bias 512
"""),
    "heads": ("llama", keys(32, 8, 8), ends(256) + attention(256) + dense(256, 512)),
    "one-layer": ("llama", keys(1, 8, 8), ends(256) + attention(256) + dense(256, 512)),
    "experts-8": ("llama", keys(32, 8, 2, **moe(8)), ends(256) + attention(256) + experts(8, 256, 512)),
    "experts-8-heads": ("llama", keys(16, 8, 8, **moe(8)), ends(256, False) + attention(256) + experts(8, 256, 512)),
    "experts-4": ("qwen2moe", keys(24, 8, 4, **moe(4), expert_shared_feed_forward_length=256), ends(256) + attention(256)
                  + experts(4, 256, 256) + """
blk.L.ffn_gate_inp_shexp.weight 256
blk.L.ffn_gate_shexp.weight 8 256
blk.L.ffn_up_shexp.weight 8 256
blk.L.ffn_down_shexp.weight 8 512
"""),
    "experts-2": ("llama", keys(12, 8, 4, **moe(2)), ends(256) + attention(256) + experts(2, 256, 512)),
    "experts-60": ("qwen3moe", keys(48, 32, 4, **moe(60, 8)), ends(256) + attention(256) + experts(60, 256, 768) + """
blk.L.attn_q_norm.weight 64
blk.L.attn_k_norm.weight 64
"""),
    "seventy": ("llama", keys(80, 64, 8), ends(256) + attention(256) + dense(256, 512)),
    "sixty-five": ("llama", keys(80, 8, 8), ends(256) + attention(256) + dense(256, 512)),
    "seventy-two": ("qwen2", keys(80, 8, 8), ends(256) + attention(256) + dense(256, 512)),
    "eighty-experts": ("llama", keys(80, 64, 8, **moe(8)), ends(256) + attention(256) + experts(8, 256, 512)),
    "jais2": ("jais2", keys(68, 26, 26), ends(256) + attention(256) + dense(256, 512)),
    "deci": ("deci", {**keys(80, 0, 0), "attention.head_count": [64] * 79 + [0], "attention.head_count_kv": [8] * 79 + [0]},
             ends(256) + attention(256, layers="0-78") + dense(256, 512)),
    "falcon": ("falcon", keys(32, 8, 1), ends(512) + """
blk.L.attn_norm.weight 512
blk.L.attn_qkv.weight 640 512
blk.L.attn_output.weight 8 512
blk.L.ffn_up.weight 8 512
blk.L.ffn_down.weight 8 2048
"""),
    "falcon-odd": ("falcon", keys(60, 9, 9), ends(288, False) + """
blk.L.attn_norm.weight 288
blk.L.attn_qkv.weight 864 288
blk.L.attn_output.weight 8 288
blk.L.ffn_up.weight 8 288
blk.L.ffn_down.weight 8 1152
"""),
    "width-288": ("llama", keys(24, 9, 3), ends(288) + attention(288) + dense(288, 800)),
    "width-200": ("llama", keys(8, 4, 4), ends(200) + attention(200) + dense(200, 512)),
    "width-64": ("qwen2", keys(8, 4, 1), ends(64, False) + attention(64) + dense(64, 320)),
    "fused": ("phi3", keys(32, 8, 8), ends(256) + """
blk.L.attn_norm.weight 256
blk.L.attn_qkv.weight 768 256
blk.L.attn_output.weight 8 256
blk.L.ffn_norm.weight 256
blk.L.ffn_up.weight 16 256
blk.L.ffn_down.weight 8 1024
rope_factors_long.weight 32
"""),
    "gpt2": ("gpt2", keys(12, 12, 12), ends(768) + """
position_embd.weight 32 768
blk.L.attn_norm.bias 768
blk.L.attn_qkv.weight 2304 768
blk.L.attn_qkv.bias 2304
blk.L.attn_output.weight 8 768
blk.L.ffn_up.weight 8 768
blk.L.ffn_down.weight 8 3072
"""),
    "deepseek2": ("deepseek2", keys(27, 16, 16, **moe(64, 6), **MLA), ends(512) + """
blk.L.attn_norm.weight 512
blk.L.attn_q.weight 8 512
blk.L.attn_kv_a_mqa.weight 8 512
blk.L.attn_kv_a_norm.weight 64
blk.L.attn_kv_b.weight 8 512
blk.L.attn_output.weight 8 512
""" + dense(512, 1024, "0-0") + experts(64, 512, 256, "1-26") + """
blk.1-26.ffn_gate_shexp.weight 8 512
blk.1-26.ffn_up_shexp.weight 8 512
blk.1-26.ffn_down_shexp.weight 8 256
"""),
    "deepseek3": ("deepseek2", keys(61, 128, 1, **moe(32, 8), **MLA), ends(512) + """
blk.L.attn_q_a.weight 8 512
blk.L.attn_q_b.weight 8 512
blk.L.attn_kv_a_mqa.weight 8 512
blk.L.attn_k_b.weight 4 8 128
blk.L.attn_v_b.weight 4 8 512
blk.L.attn_output.weight 8 512
""" + dense(512, 1024, "0-2") + experts(32, 512, 256, "3-60") + "blk.3-60.exp_probs_b.bias 32\n"),
    "glm4-moe": ("glm4moe", keys(47, 96, 8, **moe(16, 8), **MLA, nextn_predict_layers=1), ends(512) + attention(512)
                 + dense(512, 1024, "0-0") + experts(16, 512, 256, "1-46") + """
blk.46-46.nextn.eh_proj.weight 8 1024
blk.46-46.nextn.embed_tokens.weight 8 512
blk.46-46.nextn.shared_head_head.weight 8 512
"""),
    "glm5-next": ("glm5-next", keys(45, 8, 1, **moe(8, 2), **MLA, **{
        "attention__indexer__head_count": 8, "attention__indexer__key_length": 64, "attention__indexer__top_k": 16,
        "attention__indexer__kpool": 2, "hyper_connection__count": 4, "hyper_connection__sinkhorn_iterations": 2,
        "hyper_connection__epsilon": 1e-6}), ends(256) + """
blk.L.attn_q_a.weight 8 256
blk.L.attn_q_b.weight 8 256
blk.L.attn_k_b.weight 4 8 256
blk.L.attn_v_b.weight 4 8 256
blk.L.attn_kv_a_mqa.weight 8 256
blk.L.attn_output.weight 8 256
blk.L.hc_attn_fn.weight 8 256
blk.L.indexer.attn_q_b.weight 8 256
blk.L.indexer.attn_k.weight 8 256
blk.L.indexer.proj.weight 8 256
blk.L.indexer_compressor_gate.weight 8 256
blk.L.indexer_compressor_ape.weight 8 256
blk.L.ssm_f_a.weight 8 256
blk.L.ssm_f_b.weight 8 256
blk.L.ssm_g_a.weight 8 256
blk.L.ssm_g_b.weight 8 256
blk.L.ssm_beta.weight 8 256
blk.L.nextn.eh_proj.weight 8 512
""" + experts(8, 256, 256)),
    "ling3": ("bailingmoe3", keys(24, 8, 8, **moe(16, 2), **MLA), ends(256) + """
blk.L.attn_q.weight 8 256
blk.L.attn_k_b.weight 4 8 256
blk.L.attn_v_b.weight 4 8 256
blk.L.attn_output.weight 8 256
""" + experts(16, 256, 256)),
    "bert": ("bert", keys(12, 12, 12, tokenizer_x=0), """
token_embd.weight 16 384
token_embd_norm.weight 384
position_embd.weight 32 384
token_types.weight 2 384
""" + attention(384) + """
blk.L.attn_output_norm.weight 384
blk.L.ffn_up.weight 8 384
blk.L.ffn_up.bias 8
blk.L.ffn_down.weight 8 1536
blk.L.layer_output_norm.weight 384
cls.weight 8 384
cls.output.weight 2 384
"""),
    "t5": ("t5", keys(6, 8, 8, attention__relative_buckets_count=32, decoder_block_count=6), """
token_embd.weight 16 512
enc.output_norm.weight 512
output.weight 16 512
""" + "".join(f"""
{side}.blk.L.attn_q.weight 8 512
{side}.blk.L.attn_k.weight 8 512
{side}.blk.L.attn_v.weight 8 512
{side}.blk.L.attn_o.weight 8 512
{side}.blk.0-0.attn_rel_b.weight 8 32
{side}.blk.L.ffn_gate.weight 8 512
{side}.blk.L.ffn_up.weight 8 512
{side}.blk.L.ffn_down.weight 8 1024
""" for side in ["dec", "enc"]) + """
dec.blk.L.cross_attn_q.weight 8 512
dec.blk.L.cross_attn_k.weight 8 512
dec.blk.L.cross_attn_v.weight 8 512
"""),
    "gemma3n": ("gemma3n", keys(30, 8, 2, attention__sliding_window=512), ends(256, False) + attention(256) + dense(256, 1024)
                + """
per_layer_token_embd.weight 16 512
per_layer_model_proj.weight 8 256
altup_proj.weight 2 8 256
altup_unembd_proj.weight 2 8 256
blk.L.altup_router.weight 4 256
blk.L.laurel_l.weight 8 256
blk.L.laurel_r.weight 8 256
blk.L.inp_gate.weight 8 256
blk.L.proj.weight 8 256
"""),
    "jamba": ("jamba", {**keys(8, 32, 0, **moe(16), ssm__conv_kernel=4, ssm__inner_size=512, ssm__state_size=16,
                               ssm__time_step_rank=16), "attention.head_count_kv": [0, 0, 0, 0, 8, 0, 0, 0]},
              ends(512) + attention(512, layers="4-4") + """
blk.0-3.ssm_in.weight 8 512
blk.0-3.ssm_conv1d.weight 512 4
blk.0-3.ssm_x.weight 8 512
blk.0-3.ssm_a 512 16
blk.5-7.ssm_out.weight 8 512
blk.5-7.shortconv.conv.weight 8 512
""" + dense(512, 1024, "0-3") + experts(16, 512, 1024, "4-7")),
    "rwkv7": ("rwkv7", keys(12, 0, 0, wkv__head_size=64, attention__decay_lora_rank=64, attention__iclr_lora_rank=64,
                            attention__value_residual_mix_lora_rank=32), ends(256) + """
blk.L.time_mix_w0.weight 4 256
blk.L.time_mix_w1.weight 64 256
blk.L.time_mix_w2.weight 256 64
blk.L.time_mix_a1.weight 64 256
blk.L.time_mix_v2.weight 64 256
blk.L.time_mix_g1.weight 64 256
blk.L.time_mix_lerp_fused.weight 6 1 256
blk.L.time_mix_key.weight 8 256
blk.L.time_mix_output.weight 8 256
blk.L.channel_mix_key.weight 8 256
blk.L.channel_mix_value.weight 8 1024
"""),
    "experts-outside": ("llama", keys(4, 8, 8, **moe(4)), ends(256) + attention(256) + experts(4, 256, 512) + """
a.blk.1.ffn_down.weight 8 256
"""),
    "experts-beyond": ("llama", keys(4, 8, 8, **moe(4)), ends(256) + attention(256) + experts(4, 256, 512) + """
blk.4.ffn_up.weight 8 256
"""),
    "sorting": ("llama", keys(12, 8, 4), ends(256) + attention(256) + dense(256, 512) + """
blk.11.attn_v.weight.extra 8 256
blk.+3.attn_v.weight 8 256
blk.3x.ffn_down.weight 8 256
blk.attn_v.weight 8 256
a.blk.1.ffn_down.weight 8 256
v.blk.1.attn_v.weight 8 256
v.patch_embd.weight 8 256
v.position_embd.weight 8 256
mm.patch_merger.weight 8 256
flat.weight 256
row.weight 1 256
rows.weight 1 2 256
cube.weight 2 2 256
cube4.weight 2 1 2 256
Z.weight 8 256
"""),
}

# Options that were given: model, mixture, imatrix, and the options.
OPTIONS = [
    ("gqa", "Q4_K_M", 0, {"pure": "true"}),
    ("tied", "Q2_K_S", 0, {"pure": "true"}),
    ("width-288", "IQ3_M", 1, {"pure": "true"}),
    ("gqa", "Q4_K_M", 0, {"tensor-type": ["blk\\.[0-3]\\.attn_v=q8_0"]}),
    ("gqa", "Q3_K_M", 0, {"tensor-type": ["ffn_down=IQ4_XS", "BLK\\.1.\\.FFN_(UP|DOWN)=q5_1", "attn_v=f16"]}),
    ("experts-8", "IQ2_M", 1, {"tensor-type": ["exps=iq2_xxs", "^output\\.weight$=q8_0"]}),
    ("width-288", "Q4_K_S", 0, {"tensor-type": ["attn_q=iq2_s", "attn_k=q6_k", "ffn_down=tq1_0", "ffn_up=bf16"]}),
    ("tied", "Q4_K_M", 0, {"output-tensor-type": "q8_0"}),
    ("gqa", "Q4_K_M", 0, {"output-tensor-type": "BF16", "token-embedding-type": "f32"}),
    ("tied", "IQ2_XS", 1, {"output-tensor-type": "q5_k", "token-embedding-type": "q4_0"}),
    ("gqa", "Q5_K_S", 0, {"pure": "true", "output-tensor-type": "q6_k", "tensor-type": ["attn_v=q8_0"]}),
    ("gqa", "F16", 0, {"output-tensor-type": "q8_0", "token-embedding-type": "q4_k"}),
    ("gemma3n", "Q4_K_M", 0, {"token-embedding-type": "q8_0"}),
    ("gemma3n", "Q4_K_M", 0, {"token-embedding-type": "q8_0", "tensor-type": ["per_layer_token=q5_0"]}),
    ("gemma3n", "Q4_K_M", 0, {"output-tensor-type": "q8_0"}),
    ("experts-60", "MXFP4_MOE", 0, {"tensor-type": ["ffn_up_exps=q4_0"]}),
    ("width-288", "Q8_0", 0, {"tensor-type": ["attn_q=q1_0"]}),
    ("width-200", "Q8_0", 0, {"tensor-type": ["attn_q=nvfp4"]}),
    ("gqa", "Q8_0", 0, {"tensor-type": ["attn_q=nvfp4", "attn_k=mxfp4", "attn_output=q2_0"]}),
]


def tensors_of(text, layers):
    """The lines of a model, each as (the line's name, shape, names of the tensors)."""
    lines = []
    for line in text.split("\n"):
        if not line:
            continue
        pattern, *shape = line.split(" ")
        parts = pattern.split(".")
        for at, part in enumerate(parts):
            first, dash, last = part.partition("-")
            if part == "L" or (dash and first.isdigit() and last.isdigit()):
                several = range(layers) if part == "L" else range(int(first), int(last) + 1)
                names = [".".join([*parts[:at], str(n), *parts[at + 1:]]) for n in several]
                break
        else:
            names = [pattern]
        lines.append((pattern, [int(n) for n in shape], names))
    return lines


def write_model(path, architecture, keys, lines):
    writer = gguf.GGUFWriter(path, architecture)
    for key, value in {"context_length": 512, "embedding_length": 512, "feed_forward_length": 1024,
                       "rope.dimension_count": 64, "attention.key_length": 64, "attention.value_length": 64, **keys}.items():
        key = f"{architecture}.{key}"
        if isinstance(value, list):
            writer.add_array(key, value)
        elif isinstance(value, float):
            writer.add_float32(key, value)
        else:
            writer.add_uint32(key, value)
    for _, shape, names in lines:
        for name in names:
            writer.add_tensor(name, numpy.zeros(shape, dtype=numpy.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def ask(program, path, cases):
    """For each case the types of the tensors by name and whether importance is needed, or the text of a refusal."""
    answer = subprocess.run([program, path], input="".join(f"{case}\n" for case in cases), capture_output=True, text=True, check=True)
    found, types = [], {}
    for line in answer.stdout.splitlines():
        if line.startswith("! "):
            found.append(line[2:])
            types = {}
        elif line.startswith("."):
            found.append((types, line == ". needs"))
            types = {}
        else:
            name, kind = line.split(" ")
            types[name] = kind.upper()
    assert len(found) == len(cases), answer.stderr
    return found


def told(answer, lines, kept):
    """An answer as text: the most frequent type, then the lines that have others, with how often each follows."""
    if isinstance(answer, str):
        return f"refused: {answer}"
    types, needs = answer
    assert len(types) == sum(len(names) for _, _, names in lines)
    for name in kept:
        assert types[name] == "F32", f"{name} is no longer kept"
    chosen = [kind for name, kind in types.items() if name not in kept]
    base = max(sorted(set(chosen)), key=chosen.count)
    parts = [f"{base} importance" if needs else base]
    for pattern, _, names in lines:
        runs = []
        for name in names:
            if name in kept:
                break
            if runs and runs[-1][0] == types[name]:
                runs[-1][1] += 1
            else:
                runs.append([types[name], 1])
        if runs and [kind for kind, _ in runs] != [base]:
            text = " ".join(kind if count == 1 else f"{count}*{kind}" for kind, count in runs)
            parts.append(f"{pattern} {text}" if len(runs) > 1 else f"{pattern} {runs[0][0]}")
    return "; ".join(parts)


def main(program, output):
    decisions = 0
    out = ["# The types that llama-quantize of llama-cpp-python 0.3.36 chooses, written by tests/interop/quantize_types.sh.",
           "# `tensors`: names, and dimensions from the outermost on; `L` is every layer, `A-B` some. `kept` stay F32 always.",
           "# A choice: the most frequent type, `importance` if it wants a matrix, then the lines that have others, layer by",
           "# layer. `+ imatrix` is there only where it makes a difference; a mixture that is not there is its own type for all.",
           ""]
    quoted = lambda text: '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
    out += ["mixtures = [", *(f"    {quoted(mixture)}," for mixture in MIXTURES), "]", ""]
    with tempfile.TemporaryDirectory() as folder:
        asked = {}
        for name, (architecture, keys, text) in MODELS.items():
            path = pathlib.Path(folder) / f"{name}.gguf"
            lines = tensors_of(text, keys["block_count"])
            write_model(path, architecture, keys, lines)
            cases = [(mixture, imatrix) for mixture in MIXTURES for imatrix in [0, 1]]
            answers = ask(program, path, [f"{MIXTURES[mixture]} {imatrix} 0 - -" for mixture, imatrix in cases])
            answers = dict(zip(cases, answers))
            decisions += sum(len(answer[0]) for answer in answers.values() if not isinstance(answer, str))
            pure = ask(program, path, ["1 0 0 - -"])[0][0]
            kept = {tensor for tensor, kind in pure.items() if kind == "F32"}
            asked[name] = (path, lines, kept)
            out += [f"[models.{name}]", f"architecture = {quoted(architecture)}"]
            heads = {key: keys[key] for key in ["block_count", "attention.head_count", "attention.head_count_kv",
                                                "expert_count", "nextn_predict_layers"] if key in keys}
            out += ["keys = { " + ", ".join(f"{quoted(key)} = {value}" for key, value in heads.items()) + " }"]
            out += ["kept = [" + ", ".join(quoted(pattern) for pattern, _, names in lines if names[0] in kept) + "]"]
            out += ["tensors = '''", text.strip().replace("\n\n", "\n"), "'''", f"[models.{name}.types]"]
            for mixture in MIXTURES:
                without, given = (told(answers[mixture, imatrix], lines, kept) for imatrix in [0, 1])
                if without != mixture:
                    out.append(f"{mixture} = {quoted(without)}")
                # With one it never says that one is needed.
                if given != without.replace(" importance", ""):
                    out.append(f"{quoted(mixture + ' + imatrix')} = {quoted(given)}")
            out.append("")
        for model, mixture, imatrix, options in OPTIONS:
            path, lines, kept = asked[model]
            words = [MIXTURES[mixture], imatrix, int("pure" in options), options.get("output-tensor-type", "-"),
                     options.get("token-embedding-type", "-"), *options.get("tensor-type", [])]
            answer = ask(program, path, [" ".join(str(word) for word in words)])[0]
            decisions += 0 if isinstance(answer, str) else len(answer[0])
            out += ["[[options]]", f"model = {quoted(model)}", f"mixture = {quoted(mixture)}",
                    f"imatrix = {'true' if imatrix else 'false'}"]
            for option, value in options.items():
                out.append(f"{option} = " + quoted("\n".join(value) if isinstance(value, list) else value).replace("\n", "\\n"))
            out += [f"types = {quoted(told(answer, lines, kept))}", ""]
    pathlib.Path(output).write_text("\n".join(out))
    print(f"{decisions} decisions")


if __name__ == "__main__":
    main(*sys.argv[1:])
