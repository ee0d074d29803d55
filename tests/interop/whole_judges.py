"""Judges of whole models: transformers in an interpreter of its own (`transformers_worker.py`), and llama.cpp itself
(`ask_llama.cpp`)."""

import atexit
import json
import os
import subprocess
from pathlib import Path

from report import Failure, Skipped

PYTHON = os.environ.get("APR_INTEROP_TRANSFORMERS_PYTHON", "")
LLAMA = os.environ.get("APR_INTEROP_ASKER", "")
_worker = None


def worker():
    global _worker
    if _worker is None:
        if not PYTHON:
            raise Skipped("there is no interpreter with transformers")
        script = Path(__file__).parent / "transformers_worker.py"
        _worker = subprocess.Popen([PYTHON, "-B", str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, text=True)
        atexit.register(_worker.kill)
        _worker.ready = json.loads(_worker.stdout.readline() or "{}").get("ready")
    if not _worker.ready:
        raise Skipped(f"{PYTHON} has no transformers that work")
    return _worker


def transformers(do, **request):
    """The worker's answer; what it raised is a Failure here."""
    process = worker()
    request = {key: str(value) if isinstance(value, Path) else value for key, value in request.items()}
    print(json.dumps({"do": do} | request), file=process.stdin, flush=True)
    line = process.stdout.readline()
    if not line:
        raise Failure(f"transformers' interpreter ended over {do}")
    answer = json.loads(line)
    if "failed" in answer:
        raise Failure(f"transformers {do}: {answer['failed']}")
    return answer["done"]


def llama(what, file, lines):
    """The lines of numbers that llama.cpp answers with."""
    if not LLAMA:
        raise Skipped("llama.cpp was not built")
    given = "".join(line + "\n" for line in lines)
    done = subprocess.run([LLAMA, what, str(file)], input=given, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        raise Failure(f"llama.cpp {what} {file.name}: exit {done.returncode}\n{done.stderr.strip()[-1500:]}")
    return done.stdout.splitlines()


def llama_ids(file, texts):
    lines = llama("ids", file, [text.encode().hex() for text in texts])
    numbers = [[int(word) for word in line.split()] for line in lines]
    return [[numbers[n], numbers[n + 1]] for n in range(0, len(numbers), 2)]


def llama_embeddings(file, texts):
    lines = llama("embeddings", file, [text.encode().hex() for text in texts])
    return [[float(word) for word in line.split()] for line in lines]
