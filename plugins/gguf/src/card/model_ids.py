"""Writes model_ids.tsv: what gguf-py says of names of models. Needs `gguf` (0.19.0 was used)."""
import sys
from gguf.metadata import Metadata

IDS = """Llama-2-7b-hf meta-llama/Meta-Llama-3-8B-Instruct mistralai/Mixtral-8x7B-Instruct-v0.1 TinyLlama/TinyLlama-1.1B-Chat-v1.0
Qwen/Qwen2.5-0.5B-Instruct bloom-7b1 bigscience/bloomz-7b1-mt gpt2 gpt2-medium openai-community/gpt2-xl Phi-3-mini-4k-instruct
microsoft/phi-2 model deepseek-ai/DeepSeek-V2-Lite-Chat deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B google/gemma-2-9b-it
NousResearch/Hermes-3-Llama-3.1-405B stabilityai/stablelm-2-1_6b starcoder2-3b Qwen1.5-MoE-A2.7B Yi-34B-200K
Mistral-7B-v0.1-q4_k_m model-fp16 x-bf16-y iter_0000-7B tiny-random-v1.2-iter3 ./models/foo-7B ../foo--7B-large all-MiniLM-L6-v2
sentence-transformers/all-mpnet-base-v2 t5-small flan-t5-xxl bert-base-uncased roberta-large whisper-tiny.en Falcon3-7B-Base
OLMo-2-1124-7B-SFT c4ai-command-r-08-2024 mpt-30b-instruct-lora granite-3.0-1b-a400m-instruct llama-7b-7b-7B
a-1T-b2 Smaug-Llama-3-70B-Instruct-abliterated-v3 grok-1 3B 7b-chat v2-model Q4_0-7B""".split()
print("# id, weights, name, organization, basename, finetune, version, size, title; by gguf-py's Metadata")
for name in IDS:
    for total in (0, 7_000_000_000, 30_000_000):
        parts = Metadata.get_model_id_components(name, total)
        print("\t".join([name, str(total)] + [p if p is not None else "-" for p in parts] + [Metadata.id_to_title(parts[0])]))
