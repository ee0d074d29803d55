"""Where everything that is drawn comes from: `APR_INTEROP_SEED` names it, another one gives other shapes and values."""

import os

import numpy as np

SEED = int(os.environ.get("APR_INTEROP_SEED", "1"))


def random_of(what):
    return np.random.default_rng([SEED, *what.encode()])
