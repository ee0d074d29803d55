"""Weights that are a pure function of a seed, a tensor's name and an element's number. sdk/testkit/src/weights.rs is the
same function in Rust and says what it computes; weights.json holds hashes that both must give."""

import numpy as np

GOLDEN = 0x9E3779B97F4A7C15
MASK = (1 << 64) - 1
NUMPY = {"F32": np.float32, "F16": np.float16, "I32": np.int32, "I64": np.int64}


def fnv1a(name):
    hash = 0xCBF29CE484222325
    for byte in name.encode():
        hash = (hash ^ byte) * 0x100000001B3 & MASK
    return hash


def mixed(seed, name, count):
    state = np.uint64(fnv1a(name) ^ (seed * GOLDEN & MASK))
    bits = state + np.uint64(GOLDEN) * np.arange(1, count + 1, dtype=np.uint64)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def spread(seed, name, count):
    bits = mixed(seed, name, count)
    value = ((bits >> np.uint64(40)).astype(np.int32) - (1 << 23)).astype(np.float32) / np.float32(1 << 25)
    return np.where(bits & np.uint64(63) == 0, value / np.float32(65536), value)


def payload(seed, name, dtype, shape, center=0):
    """The tensor's bytes."""
    count = int(np.prod(shape, dtype=np.int64))
    if dtype in ("I32", "I64"):
        return np.arange(count, dtype=NUMPY[dtype]).tobytes()
    if dtype == "F8_E4M3":
        return ((mixed(seed, name, count) >> np.uint64(57)).astype(np.uint8) & np.uint8(0x7E)).tobytes()
    if dtype == "U8":
        return (mixed(seed, name, count) >> np.uint64(56 + center)).astype(np.uint8).tobytes()
    value = np.float32(center) + spread(seed, name, count)
    if dtype == "BF16":
        bits = value.view(np.uint32)
        return ((bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)).astype(np.uint16).tobytes()
    return value.astype(NUMPY[dtype]).tobytes()
