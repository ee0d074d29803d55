"""Writes settings.json: how transformers continues prompts by settings of a model's own. README.md describes it.

    settings.py [--check]
"""

import argparse
import json
import os
import sys
import tempfile
import types
from importlib.metadata import version
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"

import torch
import transformers

HERE = Path(__file__).resolve().parent
WEIGHTS = HERE / "weights"
ENDS = [1532, 1535]
GOD = "In the beginning God"
MOSES = ("And the LORD spake unto Moses, saying, Speak unto the children of Israel, and say unto them, When a man or a woman "
         "shall separate themselves to vow a vow unto the LORD, he shall separate himself from wine, and from strong drink; and "
         "Moses did as the LORD commanded Moses, and the children of Israel went out of the land of Egypt")
# Bounds of the settings take the place of the steps.
CASES = [
    ("suppressed", GOD, {"suppress_tokens": [11, 290]}),
    ("suppressed-first", GOD, {"begin_suppress_tokens": [11, 278]}),
    ("bad-words", GOD, {"bad_words_ids": [[11], [267, 258], [258, 348], [1532]]}),
    ("n-grams", GOD, {"no_repeat_ngram_size": 2}),
    ("n-grams-of-one", GOD, {"no_repeat_ngram_size": 1}),
    ("n-grams-of-the-prompt", MOSES, {"encoder_no_repeat_ngram_size": 2}),
    ("bias", GOD, {"sequence_bias": [[[348], -3.5], [[11, 267], -20.0], [[26], 1.25], [[267, 258, 26], 4.0], [[258, 26], 2.0]]}),
    ("repetition", MOSES, {"repetition_penalty": 1.3}),
    ("repetition-of-the-prompt", MOSES, {"encoder_repetition_penalty": 1.5}),
    ("decay", GOD, {"exponential_decay_length_penalty": [3, 1.4]}),
    ("least-new", GOD, {"exponential_decay_length_penalty": [3, 1.4], "min_new_tokens": 14}),
    ("least", GOD, {"exponential_decay_length_penalty": [3, 1.4], "min_length": 16}),
    ("least-new-of-none", GOD, {"exponential_decay_length_penalty": [3, 1.4], "min_length": 30, "min_new_tokens": 0}),
    ("forced-end", GOD, {"forced_eos_token_id": 1532, "max_new_tokens": 8}),
    ("most-new", GOD, {"max_new_tokens": 5, "max_length": 100}),
    ("most", GOD, {"max_length": 13}),
    ("greedy", GOD, {"do_sample": False, "temperature": 0.9, "top_k": 3, "max_new_tokens": 12}),
    ("stop", GOD, {"stop_strings": ["LORD", "earth"]}),
    ("ends", GOD, {"eos_token_id": [1533, 438]}),
    ("ends-not-of-the-tokenizer", GOD, {"eos_token_id": 1532, "sequence_bias": [[[1535], 60.0]]}),
    ("together", MOSES, {
        "no_repeat_ngram_size": 3, "repetition_penalty": 1.1, "bad_words_ids": [[302, 258], [11, 267]], "suppress_tokens": [26],
        "sequence_bias": [[[302], 1.5]], "begin_suppress_tokens": [11], "min_new_tokens": 10,
        "exponential_decay_length_penalty": [2, 1.5]}),
]
# Without a file of their own, they are those of config.json.
STATED = [
    ("configuration", GOD, {"no_repeat_ngram_size": 1, "suppress_tokens": [267]}),
    ("ends-of-the-configuration", GOD, {"eos_token_id": 438}),
    ("ends-of-the-configuration-not-of-the-tokenizer", GOD, {"eos_token_id": [1532], "sequence_bias": [[[1535], 60.0]]}),
]
STEPS = 24
# Of these logits, what is left where a token is drawn; the temperature comes last in `apr`, so beside top_p and min_p it is 1.
LOGITS = [round(2.5 - 0.21 * n - 0.4 * (n % 3), 2) for n in range(16)]
LEFT = [
    {"typical_p": 0.5}, {"typical_p": 0.9}, {"typical_p": 0.2, "temperature": 0.5}, {"epsilon_cutoff": 0.05}, {"eta_cutoff": 0.2},
    {"eta_cutoff": 0.05, "temperature": 1.5}, {"top_h": 0.5}, {"top_h": 0.9, "temperature": 0.7}, {"top_h": 0.01},
    {"top_k": 8, "typical_p": 0.6, "epsilon_cutoff": 0.09, "temperature": 0.8}, {"top_p": 0.8, "eta_cutoff": 0.3},
    {"min_p": 0.2, "typical_p": 0.7, "epsilon_cutoff": 0.1, "eta_cutoff": 0.4}, {"epsilon_cutoff": 0.99},
]


@torch.no_grad()
def case(name, prompt, settings, file):
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        for path in WEIGHTS.iterdir():
            if path.name != "generation_config.json":
                (folder / path.name).symlink_to(path)
        stated = {"bos_token_id": 1531, "eos_token_id": ENDS, **settings}
        if file == "config.json":
            (folder / file).unlink()
            stated = {**json.loads((WEIGHTS / file).read_text()), **settings}
        (folder / file).write_text(json.dumps(stated))
        model = transformers.LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
        tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
        ids = tokenizer(prompt, return_tensors="pt")["input_ids"]
        bound = {} if settings.keys() & {"max_new_tokens", "max_length"} else {"max_new_tokens": STEPS}
        # A temperature is no help to who takes the most likely.
        out = model.generate(ids, tokenizer=tokenizer, return_dict_in_generate=True, output_scores=True, **bound)
    gaps = []
    for scores in out.scores:
        best = scores[0].topk(2).values
        gaps.append(float(best[0] - best[1]))
    chosen = out.sequences[0, ids.shape[1]:].tolist()
    ends = stated["eos_token_id"]
    ended = chosen[-1] in (ends if isinstance(ends, list) else [ends])
    assert min(gaps) > 0.002, (name, min(gaps))
    return {"name": name, "file": file, "settings": settings, "prompt": prompt, "bounded": not bound, "ended": ended,
            "ids": chosen[:-1] if ended else chosen, "smallest_gap": round(min(gaps), 4)}


def left(settings):
    config = transformers.GenerationConfig(do_sample=True, **settings)
    config._eos_token_tensor = None
    warpers = transformers.LlamaForCausalLM._get_logits_processor(types.SimpleNamespace(
        config=types.SimpleNamespace(is_encoder_decoder=False),
        _merge_criteria_processor_list=lambda own, _: own), config, input_ids_seq_length=1, device="cpu")
    scores = warpers(torch.zeros((1, 1), dtype=torch.long), torch.tensor([LOGITS]))
    return {"settings": settings, "left": [n for n, score in enumerate(scores[0].tolist()) if score != float("-inf")]}


def main():
    options = argparse.ArgumentParser()
    options.add_argument("--check", action="store_true")
    options = options.parse_args()
    plain = case("plain", GOD, {}, "generation_config.json")
    cases = [plain] + [case(*one, "generation_config.json") for one in CASES] + [case(*one, "config.json") for one in STATED]
    packages = ("transformers", "torch", "tokenizers")
    made = {name: version(name) for name in packages}
    listed = lambda rows, indent: ("," + indent).join(json.dumps(row) for row in rows)
    kept = [left(settings) for settings in LEFT]
    text = (f'{{\n "made_by": {json.dumps(made)},\n "steps": {STEPS},\n "cases": [\n  {listed(cases, chr(10) + "  ")}\n ],\n'
            f' "left": {{"logits": {json.dumps(LOGITS)}, "cases": [\n  {listed(kept, chr(10) + "  ")}\n ]}}\n}}\n')
    path = HERE / "settings.json"
    if options.check:
        have = json.loads(path.read_text())
        wrong = [one["name"] for one, other in zip(cases, have["cases"], strict=True) if one["ids"] != other["ids"]]
        wrong += [one["settings"] for one, other in zip(kept, have["left"]["cases"], strict=True) if one != other]
        sys.exit(f"settings: other continuations of {wrong}" if wrong else None)
    path.write_text(text)


if __name__ == "__main__":
    main()
