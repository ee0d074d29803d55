"""What a process costs."""

import resource
import subprocess
import time
from pathlib import Path

from program import environment


def cost(command, **given):
    """Seconds by the clock and of the processors, and the most memory in MiB, of a whole process."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=environment(),
                               stdin=subprocess.PIPE)
    if "input" in given:
        process.stdin.write(given["input"].encode())
    process.stdin.close()
    most = 0
    while process.poll() is None:
        try:
            for line in Path(f"/proc/{process.pid}/status").read_text().splitlines():
                if line.startswith("VmHWM:"):
                    most = max(most, int(line.split()[1]))
        except (FileNotFoundError, ProcessLookupError):
            pass
        time.sleep(0.01)
    if process.returncode:
        raise SystemExit(f"{command} failed")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return time.monotonic() - began, seconds, most / 1024
