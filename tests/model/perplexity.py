"""Perplexity as llama-perplexity measures it: the text's ids, with the beginning of text first, are cut into chunks of CHUNK (the rest is
dropped); in each chunk the first id is replaced by the beginning of text; of the predictions at positions p = CHUNK/2 to CHUNK - 2, of
the id at p + 1, the mean negative logarithm counts. Its exponential is the perplexity."""

import math

import torch

CHUNK = 256


def chunks(ids, bos):
    assert ids[0] == bos, "the text's ids begin with the beginning of text"
    for first in range(0, len(ids) - CHUNK + 1, CHUNK):
        yield [bos] + ids[first + 1 : first + CHUNK]


@torch.no_grad()
def losses(model, ids, bos):
    """The negative logarithm of the probability of each id that counts."""
    found = []
    for chunk in chunks(ids, bos):
        chunk = torch.tensor(chunk)
        logits = model(chunk[None], use_cache=False).logits[0].double()
        held = torch.arange(CHUNK // 2, CHUNK - 1)
        found += (-logits.log_softmax(-1)[held, chunk[held + 1]]).tolist()
    return found


def perplexity(model, ids, bos):
    found = losses(model, ids, bos)
    return math.exp(sum(found) / len(found))
