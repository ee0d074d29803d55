"""Prints what computing with a model costs beside llama.cpp: `decode_figures.py FOLDER [--rounds N] ...`. Called by
decode_figures.sh.

A round runs llama-bench, with its weights repacked and as they are, and `apr bench`, one after the other; orders alternate.
The best of all rounds counts. Two threads count only in rounds where llama-bench itself gains from them: elsewhere something
else has the second processor."""

import argparse
import json
import os
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import decode_model
from program import APR, environment

TOOLS = Path(os.environ["APR_LLAMA_TOOLS"])
# What an answer must reach: as a multiple of llama.cpp, and as a share of what memory delivers.
TARGETS = {"Q4_K_M": (1.35, 0.72), "Q8_0": (1.25, None), "BF16": (1.0, None)}
PROMPT_TARGET = 1.0
# Two threads of llama-bench over one.
GAIN = 1.6
FIRST_TOKEN = {"without an image": 1.2, "with an image": 0.5}
MEMORY = 1.15
PROMPT = "In the beginning"


def checked(command, env=None):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=env)
    if done.returncode:
        raise SystemExit(f"{' '.join(map(str, command))}: exit {done.returncode}\n{done.stderr[-2000:]}")
    return done.stdout


def files(folder, kinds):
    """The models, made once."""
    source = folder / "model"
    for kind in kinds:
        path = folder / f"{kind}.gguf"
        if not path.exists():
            if not (source / "complete").exists():
                shutil.rmtree(source, ignore_errors=True)
                decode_model.make(source)
                (source / "complete").touch()
            print(f"making {path}", flush=True)
            checked([APR, "convert", "-q", source, path, *(() if kind == "BF16" else ("--quantize", kind))], environment())
        yield kind, path
    if all((folder / f"{kind}.gguf").exists() for kind in TARGETS):
        shutil.rmtree(source, ignore_errors=True)


def warm(path):
    """Reads a file, so that it is in the page cache for all."""
    with open(path, "rb", buffering=0) as file:
        while file.read(1 << 24):
            pass


def llama_bench(path, threads, asked):
    """Tokens per second for each test: the better of repacked weights and weights as they are."""
    said = checked([TOOLS / "llama-bench", "-m", path, "-p", asked.prompts, "-n", asked.answer, "-t", threads, "-r", 1,
                    "--repack", "0,1", "-o", "json"])
    best = {}
    for row in json.loads(said):
        test = f"pp{row['n_prompt']}" if row["n_prompt"] else f"tg{row['n_gen']}"
        best[test] = max(best.get(test, 0), row["avg_ts"])
    return best


def apr_bench(path, threads, asked):
    """The same of apr; and what memory delivers, and how much of it a token needs."""
    command = [APR, "bench", path, "-p", asked.prompts, "--gen", asked.answer, "-r", 1, "-j", threads, "--json"]
    said = json.loads(checked(command, environment()))
    best = {row["test"]: row["tokens_per_second"] for row in said["tests"]}
    return best, said["floor_bytes_per_second"], said["model"]["bytes_per_token"]


class Best:
    """The best of all rounds of one model with some threads."""

    def __init__(self):
        self.llama, self.apr, self.floor, self.bytes, self.loads = {}, {}, 0.0, 0, []

    def add(self, llama, apr):
        found, floor, self.bytes = apr
        for kept, new in ((self.llama, llama), (self.apr, found)):
            for test, rate in new.items():
                kept[test] = max(kept.get(test, 0.0), rate)
        self.floor = max(self.floor, floor)
        self.loads.append(os.getloadavg()[0])

    def rows(self, kind, threads):
        times, share = TARGETS[kind]
        for test, ours in self.apr.items():
            theirs, answers = self.llama[test], test.startswith("tg")
            ratio, part = ours / theirs, ours * self.bytes / self.floor
            wanted = times if answers else PROMPT_TARGET
            missed = ratio < wanted or answers and share and part < share
            yield (f"| {kind:6} | {test:5} | {threads:7} | {theirs:9.2f} | {ours:7.2f} | {ratio:5.2f} | "
                   + (f"{part:8.0%}" if answers else f"{'':8}") + f" | {min(self.loads):.1f}-{max(self.loads):.1f} | "
                   + (f"MISSED: {wanted} x" + (f", {share:.0%}" if answers and share else "") if missed else "met") + " |")


def speeds(kind, path, asked):
    best = {1: Best(), 2: Best()}
    warm(path)
    for number in range(asked.rounds):
        runs = {"llama.cpp": lambda threads: llama_bench(path, threads, asked), "apr": lambda threads: apr_bench(path, threads, asked)}
        order = sorted(runs, reverse=number % 2 == 0)
        found = {name: runs[name](1) for name in order}
        best[1].add(found["llama.cpp"], found["apr"])
        answer = f"tg{asked.answer}"
        said = f"{kind}, round {number + 1}: {answer} llama.cpp {found['llama.cpp'][answer]:.2f}, apr {found['apr'][0][answer]:.2f}"
        if (os.cpu_count() or 1) > 1 and asked.threads > 1:
            two = llama_bench(path, 2, asked)
            gain = two[answer] / found["llama.cpp"][answer]
            said += f"; llama.cpp gains {gain:.2f} of a second thread"
            if gain >= GAIN:
                best[2].add(two, runs["apr"](2))
        print(f"{said}; load {os.getloadavg()[0]:.1f}", flush=True)
    for threads, held in best.items():
        if held.loads:
            yield from held.rows(kind, threads)
            yield f"  memory delivers {held.floor / 1e9:.2f} GB/s to {threads} thread(s); a token reads {held.bytes / 1e9:.3f} GB"
        elif asked.threads > 1:
            yield f"  {kind}: no round in which llama.cpp gains {GAIN} of a second thread"


def first_token(path, env, *flags):
    """Seconds of a whole process that computes one token, and the most memory it had, in bytes."""
    command = [APR, "run", path, PROMPT, "--raw", "--max-tokens", 1, "--temperature", 0, *flags]
    began = time.monotonic()
    process = subprocess.Popen(list(map(str, command)), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=env)
    said = process.stderr.read()
    _, status, usage = os.wait4(process.pid, 0)
    seconds = time.monotonic() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(said.decode())
    return seconds, usage.ru_maxrss * 1024


def beginnings(kind, path, rounds):
    """The first token, warm: without a prepared image, and with one."""
    size = path.stat().st_size
    with tempfile.TemporaryDirectory(dir=path.parent) as images:
        env = environment() | {"XDG_CACHE_HOME": images}
        warm(path)
        first_token(path, env, "--cache-image")
        for name, flags in (("without an image", ()), ("with an image", ("--cache-image",))):
            found = [first_token(path, env, *flags) for _ in range(rounds)]
            seconds, most = (min(column) for column in zip(*found))
            share = most / size
            # The bound is for 1 GB.
            bound = FIRST_TOKEN[name] * max(1.0, size / 1e9)
            yield (f"{kind} of {size / 1e9:.2f} GB, {name}: first token after {seconds:.2f} s (at most {bound:.2f}): "
                   f"{'met' if seconds <= bound else 'MISSED'}; memory {share:.2f} x the file (at most {MEMORY}): "
                   f"{'met' if share <= MEMORY else 'MISSED'}; load {os.getloadavg()[0]:.1f}")


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("folder", type=Path)
    arguments.add_argument("--rounds", type=int, default=5)
    arguments.add_argument("--models", default=",".join(TARGETS))
    arguments.add_argument("--prompts", default="128,512", help="lengths of prompts; 0 for none")
    arguments.add_argument("--answer", type=int, default=32, help="length of an answer")
    arguments.add_argument("--threads", type=int, default=2, choices=(1, 2))
    asked = arguments.parse_args()
    version = checked([APR, "--version"], environment()).splitlines()[0]
    print(f"{os.cpu_count()} processors, load {os.getloadavg()[0]:.1f}; {version}", flush=True)
    lines = []
    for kind, path in files(asked.folder, asked.models.split(",")):
        lines += speeds(kind, path, asked)
        lines += beginnings(kind, path, asked.rounds)
    print("| model  | test  | threads | llama.cpp |     apr | times | of floor | load | |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | --- | --- |")
    print("\n".join(sorted(lines, key=lambda line: not line.startswith("|"))))


main()
