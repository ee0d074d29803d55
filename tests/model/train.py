"""Trains the model of weights/: README.md says on what. train.sh sets up what this needs.

    train.py SCRATCH FOLDER    fetches the texts into SCRATCH, writes the model folder
"""

import json
import math
import os
import random
import sys
import time
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import torch
import transformers

import texts
import tokenizer as own
from perplexity import perplexity

SEED = 15
CONTEXT = 512
# Steps with so many sequences of so many tokens: long ones cost more, and are needed only for the far positions.
STAGES = ((1360, 8, 256), (340, 4, CONTEXT))
PEAK, LAST, WARM_UP = 4e-3, 1e-4, 60


def configuration(tokenizer):
    return transformers.LlamaConfig(
        vocab_size=own.SIZE, hidden_size=256, intermediate_size=512, num_hidden_layers=4, num_attention_heads=4, num_key_value_heads=2,
        head_dim=64, max_position_embeddings=CONTEXT, rope_theta=10000.0, rms_norm_eps=1e-5, tie_word_embeddings=True,
        bos_token_id=tokenizer.token_to_id(own.BEGIN), eos_token_id=[tokenizer.token_to_id(own.END), tokenizer.token_to_id(own.TURN)])


def stream(tokenizer, documents, pairs):
    """All documents, and for every twenty-fifth verse a chat that asks for the next one, in an order that the seed gives."""
    chats = [own.turns(*pair) for pair in pairs[::25]]
    random.Random(SEED).shuffle(documents := [text + own.END for text in documents] + chats)
    return torch.tensor([id for held in tokenizer.encode_batch(documents) for id in held.ids])


def windows(ids, bos, count, length, generator):
    """Batches without end; each sequence begins with the beginning of text, wherever it is cut out."""
    while True:
        phase = int(torch.randint(length - 1, (), generator=generator))
        cut = ids[phase:][: (len(ids) - phase) // (length - 1) * (length - 1)].view(-1, length - 1)
        cut = torch.cat([torch.full((len(cut), 1), bos), cut], 1)[torch.randperm(len(cut), generator=generator)]
        yield from cut[: len(cut) // count * count].view(-1, count, length)


def rate(step, steps):
    if step < WARM_UP:
        return PEAK * (step + 1) / WARM_UP
    return LAST + (PEAK - LAST) * (1 + math.cos(math.pi * (step - WARM_UP) / (steps - WARM_UP))) / 2


def train(model, ids, held_out, bos):
    generator = torch.Generator().manual_seed(SEED)
    matrices = [weight for weight in model.parameters() if weight.dim() > 1]
    gains = [weight for weight in model.parameters() if weight.dim() == 1]
    optimizer = torch.optim.AdamW([{"params": matrices, "weight_decay": 0.1}, {"params": gains, "weight_decay": 0.0}], betas=(0.9, 0.95))
    # Twice as fast where the processor multiplies BF16; elsewhere it would be slower.
    half = torch.ops.mkldnn._is_mkldnn_bf16_supported()
    steps, step, begun = sum(stage[0] for stage in STAGES), 0, time.monotonic()
    for count, batch, length in STAGES:
        batches = windows(ids, bos, batch, length, generator)
        for _ in range(count):
            given = next(batches)
            with torch.autocast("cpu", torch.bfloat16, enabled=half):
                logits = model(given, use_cache=False).logits[:, :-1]
            loss = torch.nn.functional.cross_entropy(logits.float().reshape(-1, own.SIZE), given[:, 1:].reshape(-1))
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            for group in optimizer.param_groups:
                group["lr"] = rate(step, steps)
            optimizer.step()
            optimizer.zero_grad()
            step += 1
            if step % 100 == 0 or step == steps:
                away = f", held out {perplexity(model, held_out, bos):.2f}" if step % 200 == 0 or step == steps else ""
                print(f"step {step} of {steps}: loss {loss.item():.3f}{away}, {time.monotonic() - begun:.0f} s", flush=True)


def save(model, tokenizer, folder):
    folder.mkdir(parents=True, exist_ok=True)
    model.to(torch.bfloat16).save_pretrained(folder)
    for file in folder.glob("*.safetensors"):
        file.chmod(0o644)
    own.save(tokenizer, folder)
    ends = {"bos_token_id": model.config.bos_token_id, "eos_token_id": model.config.eos_token_id}
    (folder / "generation_config.json").write_text(json.dumps(ends | {"do_sample": True, "temperature": 0.7, "top_p": 0.9}, indent=1) + "\n")


def main(scratch, folder):
    torch.set_num_threads(1)
    torch.manual_seed(SEED)
    documents, pairs, held_out = texts.documents(scratch)
    tokenizer = own.trained(documents)
    ids = stream(tokenizer, documents, pairs)
    model = transformers.LlamaForCausalLM(configuration(tokenizer))
    size = sum(weight.numel() for weight in model.parameters())
    print(f"{len(ids)} tokens of text, {size} parameters, {sum(a * b * c for a, b, c in STAGES)} tokens to train on", flush=True)
    bos = tokenizer.token_to_id(own.BEGIN)
    train(model, ids, tokenizer.encode(held_out).ids, bos)
    save(model.eval(), tokenizer, Path(folder))


if __name__ == "__main__":
    main(*sys.argv[1:])
