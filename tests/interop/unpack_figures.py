"""Prints what unpacking to BF16 costs, beside anamnesis: `unpack_figures.py FOLDER [ROUNDS [MIB]]`. MIB is what is written.

Called by unpack_figures.sh. Single files, which is all that anamnesis takes. Both have two threads; who begins alternates from round
to round, and medians are given. Outputs are compared value by value.
"""

import json
import os
import random
import statistics
import struct
import subprocess
import sys
from pathlib import Path

from costs import cost
from program import APR

ANAMNESIS = os.environ["APR_ANAMNESIS"]
ROWS = COLUMNS = 4096
NF4 = [-1.0, -0.696, -0.525, -0.395, -0.284, -0.185, -0.091, 0.0, 0.08, 0.161, 0.246, 0.338, 0.441, 0.563, 0.723, 1.0]
# FP8 without the codes that are no numbers.
NUMBERS = bytes(code & 0xF7 for code in range(256))


def noise(count, seed):
    return random.Random(seed).randbytes(count)


def packed(scheme):
    """What the configuration says, and the parts of a weight: the end of its name, type, shape, bytes."""
    floats = lambda *values: struct.pack(f"<{len(values)}f", *values)
    if scheme == "FP8":
        boxes = [ROWS // 128, COLUMNS // 128]
        yield "weight", "F8_E4M3", [ROWS, COLUMNS], noise(ROWS * COLUMNS, 1).translate(NUMBERS)
        yield "weight_scale_inv", "F32", boxes, floats(0.000123) * (boxes[0] * boxes[1])
    elif scheme == "GPTQ":
        groups = COLUMNS // 128
        yield "qweight", "I32", [COLUMNS // 8, ROWS], noise(ROWS * COLUMNS // 2, 2)
        yield "qzeros", "I32", [groups, ROWS // 8], b"\x77" * (groups * ROWS // 2)
        yield "scales", "F16", [groups, ROWS], struct.pack("<e", 0.0041) * (groups * ROWS)
        yield "g_idx", "I32", [COLUMNS], struct.pack(f"<{COLUMNS}i", *(column // 128 for column in range(COLUMNS)))
    elif scheme == "AWQ":
        groups = COLUMNS // 128
        yield "qweight", "I32", [COLUMNS, ROWS // 8], noise(ROWS * COLUMNS // 2, 4)
        yield "qzeros", "I32", [groups, ROWS // 8], noise(groups * ROWS // 2, 5)
        yield "scales", "F16", [groups, ROWS], struct.pack("<e", 0.0041) * (groups * ROWS)
    else:
        state = json.dumps({"quant_type": "nf4", "blocksize": 64, "dtype": "bfloat16", "shape": [ROWS, COLUMNS]}).encode()
        yield "weight", "U8", [ROWS * COLUMNS // 2, 1], noise(ROWS * COLUMNS // 2, 3)
        yield "weight.absmax", "F32", [ROWS * COLUMNS // 64], floats(0.031) * (ROWS * COLUMNS // 64)
        yield "weight.quant_map", "F32", [16], floats(*NF4)
        yield "weight.quant_state.bitsandbytes__nf4", "U8", [len(state)], state


CONFIGS = {
    "FP8": {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [128, 128]},
    "GPTQ": {"quant_method": "gptq", "bits": 4, "group_size": 128, "sym": True, "desc_act": False},
    "AWQ": {"quant_method": "awq", "version": "gemm", "bits": 4, "group_size": 128, "zero_point": True},
    "NF4": {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"},
}


def make(folder, scheme, count):
    """A folder with weights packed in one way."""
    folder.mkdir()
    config = {"model_type": "none", "torch_dtype": "bfloat16", "quantization_config": CONFIGS[scheme]}
    (folder / "config.json").write_text(json.dumps(config))
    parts, header, at = list(packed(scheme)), {}, 0
    for number in range(count):
        for end, dtype, shape, data in parts:
            row = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(data)]}
            header[f"model.layers.{number}.mlp.up_proj.{end}"] = row
            at += len(data)
    text = json.dumps(header).encode()
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _ in range(count):
            for part in parts:
                file.write(part[3])
    return at


def tensors(path):
    """Names, types, shapes and bytes of a file, one after the other."""
    with open(path, "rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(length))
        for name in sorted(name for name in header if name != "__metadata__"):
            begin, end = header[name]["data_offsets"]
            file.seek(8 + length + begin)
            yield name, header[name]["dtype"], header[name]["shape"], file.read(end - begin)


def differing(theirs, ours):
    """How many tensors differ, and how many there are."""
    pairs = list(zip(tensors(theirs), tensors(ours), strict=True))
    return sum(one != two for one, two in pairs), len(pairs)


def main():
    scratch = Path(sys.argv[1])
    rounds, mib = (int(sys.argv[at]) if len(sys.argv) > at else usual for at, usual in ((2, 3), (3, 1024)))
    count = max(mib * 2**20 // (2 * ROWS * COLUMNS), 1)
    said = subprocess.run([ANAMNESIS, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    print(f"{said}; {count * 2 * ROWS * COLUMNS / 1e9:.2f} GB of BF16 written, {rounds} rounds, 2 threads", flush=True)
    for scheme in CONFIGS:
        folder = scratch / scheme
        size = make(folder, scheme, count)
        source, theirs, ours = folder / "model.safetensors", scratch / "theirs.safetensors", scratch / "ours.safetensors"
        commands = {
            "anamnesis": [ANAMNESIS, "remember", source, "--to", "bf16", "--output", theirs, "--threads", "2"],
            "apr": [APR, "convert", "-q", "-j", "2", "--arch", "none", "--dequantize", "bf16", source, ours],
        }
        found = {name: [] for name in commands}
        for number in range(rounds):
            for name in sorted(commands, reverse=number % 2 == 1):
                (theirs if name == "anamnesis" else ours).unlink(missing_ok=True)
                found[name].append(cost(list(map(str, commands[name]))))
        differ, all_of_them = differing(theirs, ours)
        print(f"{scheme}, {size / 1e9:.2f} GB packed; {differ} of {all_of_them} tensors differ")
        for name, costs in found.items():
            wall, cpu, memory = (statistics.median(values) for values in zip(*costs))
            print(f"  {name}: {wall:.2f} s, {cpu:.2f} s of the processors, {memory:.0f} MiB resident", flush=True)
        ratio = statistics.median(a[0] / b[0] for a, b in zip(found["apr"], found["anamnesis"]))
        print(f"  time of anamnesis's: {ratio:.2f} (at most 1): {'met' if ratio <= 1 else 'MISSED'}", flush=True)
        for file in (source, theirs, ours):
            file.unlink()


main()
