"""Prints what products of matrices with a vector cost beside ggml: `kernel_figures.py [--rounds N] ...`. Called by
kernel_figures.sh.

A round runs ggml, with its weights repacked where it can and as they are, and `apr kernels bench`, one after the other; orders
alternate, and the best of all rounds counts. Matrices are distinct, so that memory is read and not a cache."""

import argparse
import json
import os
import subprocess

from program import APR, environment

PROGRAM = os.environ["GGML_PROGRAM"]
MIB = 1024


def checked(command, env=None):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=env)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stderr[-2000:]}")
    return json.loads(done.stdout)


def of_ggml(kind, rows, columns, threads):
    """The best rate of all ways in which ggml keeps the matrices, and the way's name."""
    said = checked([PROGRAM, kind, rows, columns, MIB, 2, threads])
    way, seconds = min(said["seconds"].items(), key=lambda item: item[1])
    return said["bytes"] / seconds, way


def of_apr(kind, rows, columns, threads):
    """The rate, and that at which the same threads read memory."""
    command = [APR, "kernels", "bench", "--type", kind, "--shape", f"{rows}x{columns}", "-r", 3, "-j", threads, "--json"]
    (row,) = checked(command, environment())["measured"]
    return row["bytes"] / row["seconds"], row["floor_bytes_per_second"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--types", default="Q4_K,Q5_K,Q6_K,Q8_0,Q4_0,Q5_0,BF16,F16,F32")
    parser.add_argument("--shapes", default="4096x4096,1536x1536")
    parser.add_argument("--threads", type=int, default=1)
    asked = parser.parse_args()
    print(f"{os.cpu_count()} processors, {asked.threads} of them used; GB/s of weights, the best of {asked.rounds} rounds\n")
    print("| type | shape | memory | ggml | apr | of memory | times ggml | load |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | --- |")
    for kind in asked.types.split(","):
        for shape in asked.shapes.split(","):
            rows, columns = map(int, shape.split("x"))
            theirs, ours, floor, way, loads = 0.0, 0.0, 0.0, "", []
            for number in range(asked.rounds):
                for program in sorted(("apr", "ggml"), reverse=number % 2 == 0):
                    if program == "apr":
                        rate, memory = of_apr(kind, rows, columns, asked.threads)
                        ours, floor = max(ours, rate), max(floor, memory)
                    else:
                        rate, found = of_ggml(kind, rows, columns, asked.threads)
                        theirs, way = max((theirs, way), (rate, found))
                loads.append(os.getloadavg()[0])
            repacked = ", repacked" if way != "CPU" else ""
            print(f"| {kind} | {rows}×{columns} | {floor / 1e9:.1f} | {theirs / 1e9:.1f}{repacked} | {ours / 1e9:.1f} | "
                  f"{ours / floor:.0%} | {ours / theirs:.2f} | {min(loads):.1f}–{max(loads):.1f} |", flush=True)


main()
