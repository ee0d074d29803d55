"""What transformers' classes say where a config.json is silent: each golden's folder once with all that it says, and once without whatever
its class says anyway. Both become the same GGUF file, and what comes back of it means the same to the library."""

import json
import os
import shutil
import sys

import program
from families_cases import library
from judges import ROOT
from report import Failure

GOLDENS = ROOT / "tests/golden"
# Keys that say nothing of what is computed: of the library's base class, of training, of tokenizers, and other names for what is said.
BESIDE = {"_name_or_path", "architectures", "transformers_version", "dtype", "use_cache", "initializer_range", "id2label", "label2id", "is_encoder_decoder",
          "output_router_logits", "router_aux_loss_coef", "router_jitter_noise", "input_jitter_noise", "pretraining_tp", "max_window_layers",
          "cache_implementation", "model_type", "type", "mrope_interleaved", "interleaved", "moe_jitter_eps", "moe_loss_weight"}
ENDS = ("_token_id", "dropout", "_drop", "_pdrop", "_prob", "_token_index")
# Keys of GGUF whose absence says what they would say here: as many heads of keys as of queries, heads of the usual width, an indexer everywhere.
USUAL = (".attention.head_count_kv", ".attention.key_length", ".attention.value_length", ".attention.indexer.types")
# What GGUF says otherwise, or not at all, by golden.
OTHERWISE = {
    # Written as llama.cpp's converter has it.
    "command-r": {"max_position_embeddings"}, "granite-hybrid": {"max_position_embeddings"}, "granite-hybrid-small": {"max_position_embeddings"},
    "lfm2": {"intermediate_size", "block_auto_adjust_ff_dim", "block_multiple_of", "full_attn_idxs"}, "gemma3n": {"vocab_size_per_layer_input"},
    # Version 5 has the base elsewhere than the golden's version.
    "dbrx": {"rope_parameters.rope_theta"},
    # The class passes over how many layers are dense.
    "glm5-next": {"mlp_layer_types"},
    # A pattern in letters or numbers, where the layers are listed.
    "exaone-moe": {"sliding_window_pattern"}, "exaone4": {"sliding_window_pattern"}, "exaone4-5": {"sliding_window_pattern"},
    # Factors are in the weights.
    "falcon-h1": {"attention_in_multiplier", "attention_out_multiplier", "embedding_multiplier", "key_multiplier", "lm_head_multiplier", "mamba_chunk_size",
                  "mlp_multipliers", "ssm_in_multiplier", "ssm_multipliers", "ssm_out_multiplier"},
    # What follows from others, or counts beside them alone.
    "arcee": {"rope_parameters.mscale"}, "gpt2": {"n_inner"}, "phi3-moe": {"rope_parameters.partial_rotary_factor"},
    "hunyuan-dense": {"rope_parameters.beta_fast", "rope_parameters.beta_slow", "rope_parameters.mscale", "rope_parameters.mscale_all_dim"},
    "hunyuan-vl": {"rope_parameters.beta_fast", "rope_parameters.beta_slow", "rope_parameters.mscale", "rope_parameters.mscale_all_dim"},
    # How exactly, or over which further layers, and what pictures are to each other.
    "hy-v3": {"enable_moe_fp32_combine"}, "kimi-k2-5": {"num_nextn_predict_layers"}, "gemma4-moe": {"use_bidirectional_attention"},
    # Stretched as a text grows, which GGUF cannot say and a warning does.
    "internlm3": {"rope_parameters.factor", "rope_parameters.rope_type"},
    # Without a head of its own it is tied.
    "t5": {"scale_decoder_outputs"}, "t5-encoder": {"scale_decoder_outputs"},
    # As many for each layer, as a list and as one number.
    "hunyuan-moe": {"moe_topk"},
    # Another class of the library comes back, whose side of text is the same.
    "bitnet": {"mlp_bias"}, "bitnet-f32": {"mlp_bias"}, "qwen3-asr": {"layer_types", "use_sliding_window"}, "qwen3-omni-moe": {"num_experts"}, "qwen3-vl-moe": {"tie_word_embeddings"},
}
# What comes back has no class, or one that does not know the source's form.
UNREAD = {"minimax-m3", "glm4v"}
# Of which GGUF has not all, so that no folder comes back.
ONE_WAY = {"qwen3-reranker-untied"}
# What is left unsaid alone tells them from others, or counts their layers beside a pattern of letters: they are refused by name.
TOLD = {"nemotron-h", "nemotron-h-moe"}


def alike(name, at):
    """The golden's folder says what it says, and leaves to its class what that says: one file, and one meaning behind it."""
    sys.path.insert(0, str(GOLDENS))
    from folder import write_folder
    shutil.rmtree(at, ignore_errors=True)
    described = json.loads((GOLDENS / name / "tensors.json").read_text())
    told, silent = at / "told" / described["folder"], at / "silent" / described["folder"]
    told.mkdir(parents=True)
    write_folder(described, GOLDENS, told)
    shutil.copytree(told, silent, copy_function=lambda one, other: shutil.copy(one, other) if str(one).endswith(".json") else os.link(one, other))
    unsaid = library("silence", folder=silent)
    files = at / "told.gguf", at / "silent.gguf"
    if name in TOLD:
        program.refuses(4, "convert", silent, files[1])
    elif unsaid:
        program.must("convert", told, files[0])
        program.must("convert", silent, files[1])
        differs = [line.strip() for line in program.run("diff", *files)[1].splitlines() if line.startswith("  ")]
        if any(not line.endswith("only in a") or not line.split(":")[0].endswith(USUAL) for line in differs):
            raise Failure(f"the files differ; left unsaid: {', '.join(unsaid)}; {differs[:8]}")
        program.must("convert", files[1], at / "back", "--to", "huggingface")
        differs = {} if name in UNREAD else library("meant", before=told, after=at / "back")
        differs = {key: values for key, values in differs.items() if not counts_not(key) and key not in OTHERWISE.get(name, ())}
        if differs:
            raise Failure(f"what comes back means something else: {differs}")
    shutil.rmtree(at)


def counts_not(key):
    last = key.split(".")[-1]
    return key.split(".")[0] in BESIDE or last in BESIDE or last.endswith(ENDS)


def run(report, scratch):
    scratch.mkdir()
    for path in sorted(GOLDENS.glob("*/tensors.json")):
        name = path.parent.name
        config = json.loads((path.parent / "config.json").read_text())
        if "quantization_config" in config or name in ONE_WAY:
            continue  # no folder comes back, as none does of blocks
        report.step(f"{name}: what its class says may be left unsaid", alike, name, scratch / name)
