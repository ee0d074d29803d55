"""ggml itself, built by ggml.sh, against our block types and against the digests that their tests hold."""

import subprocess
from pathlib import Path

from report import Failure, Skipped

SCRIPT = Path(__file__).parent / "ggml.sh"


def every_block_is_that_of_ggml():
    done = subprocess.run([SCRIPT], capture_output=True, text=True, timeout=3600)
    if done.returncode == 3:
        raise Skipped(done.stderr.strip().splitlines()[-1].removeprefix("SKIPPED ggml: "))
    if done.returncode != 0:
        raise Failure((done.stdout + done.stderr).strip())


def run(report, _scratch):
    report.step("quants: ggml 0.26.0 encodes and decodes every type as we do, and as golden.toml says", every_block_is_that_of_ggml)
