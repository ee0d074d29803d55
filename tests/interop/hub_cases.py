"""The hub's own client, `huggingface_hub`: it judges the hub that stands in for the real one, and shares a cache with apr."""

import os
import subprocess
from pathlib import Path

import program
from report import Failure, Skipped

ROOT = Path(__file__).parent.parent.parent
REMOTE = ROOT / "tests/remote"


def hub():
    """The program that stands in for the hub: what tests build, beside what they test."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    for profile in ("debug", "release"):
        if (path := target / profile / "examples/hub").exists():
            return path
    raise Skipped("there is no hub: cargo build -p apr-tests --example hub")


def judged(script, *args):
    """What a judge's script says of `args`, if all its checks hold."""
    python = os.environ.get("APR_INTEROP_HUB_PYTHON")
    if not python:
        raise Skipped("huggingface_hub is not there")
    done = subprocess.run([python, "-B", REMOTE / script, *args], capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        raise Failure(f"{script}: {done.stdout[-4000:]}{done.stderr[-4000:]}")


def run(report, _scratch):
    report.step("huggingface_hub takes the hub of the tests for the hub", lambda: judged("judge_hub.py", "--", hub()))
    report.step("the same behind TLS", lambda: judged("judge_hub.py", "--", hub(), "--tls"))
    report.step("huggingface_hub and apr share a cache", lambda: judged("both_tools.py", hub(), program.APR))
