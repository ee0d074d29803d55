"""Runs the `apr` that is judged."""

import json
import os
import subprocess
from pathlib import Path

from report import Failure

APR = os.environ["APR"]


def environment():
    """Nothing of the user's: no settings, no plugins of their own. What is beside `apr` is what is judged."""
    kept = {key: os.environ[key] for key in ("PATH", "LANG", "TMPDIR", "LLVM_PROFILE_FILE") if key in os.environ}
    return kept | {"HOME": "/nonexistent", "NO_COLOR": "1"}


def run(*args):
    """The exit code, stdout and stderr of `apr ARGS`."""
    command = [APR, *map(str, args)]
    done = subprocess.run(command, capture_output=True, env=environment(), timeout=120)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def must(*args):
    """`apr ARGS`, which must succeed; what it printed."""
    code, out, err = run(*args)
    if code != 0:
        raise Failure(f"apr {' '.join(map(str, args))}: exit {code}\n{err.strip()}")
    return out


def convert(source, output, *args):
    must("convert", source, output, "--arch", "none", *args)
    return Path(output)


def refuses(exit_code, *args):
    """`apr ARGS` must fail with this exit code."""
    code, _, err = run(*args)
    if code != exit_code:
        raise Failure(f"apr {' '.join(map(str, args))}: exit {code}, expected {exit_code}\n{err.strip()}")
    return err


def tensors(path, *args):
    """What every tensor is, wherever it lies."""
    rows = json.loads(must("tensors", path, "--json", "--sha256", *args))
    return [{key: value for key, value in row.items() if key not in ("file", "offset")} for row in rows]


def inspect(path, *args):
    return json.loads(must("inspect", path, "--json", "--full", *args))
