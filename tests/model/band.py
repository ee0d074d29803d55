"""Says whether a model that was trained again is as good as the one that is checked in: band.py FOLDER."""

import json
import sys
from pathlib import Path

import torch
import transformers
from tokenizers import Tokenizer

from perplexity import perplexity

HERE = Path(__file__).resolve().parent
# Other processors add in other orders, and training carries that far.
BAND = 0.08


def main(folder):
    torch.set_num_threads(1)
    model = transformers.LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    ids = Tokenizer.from_file(f"{folder}/tokenizer.json").encode((HERE / "held-out.txt").read_text()).ids
    found = perplexity(model, ids, model.config.bos_token_id)
    kept = json.loads((HERE / "golden.json").read_text())["held_out"]["perplexity"]
    print(f"perplexity {found:.3f}, {kept:.3f} is checked in")
    if not abs(found / kept - 1) <= BAND:
        sys.exit(f"more than {BAND:.0%} away from what is checked in")


if __name__ == "__main__":
    main(sys.argv[1])
