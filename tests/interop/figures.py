"""Prints what opening and converting checkpoints costs beside `cp` and beside the packages: `figures.py FOLDER [ROUNDS]`.

Called by figures.sh. Each figure stands beside its target; orders alternate from round to round, and medians are given.
"""

import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import onnx
from program import APR, environment

TORCH = os.environ["APR_INTEROP_TORCH_PYTHON"]
SCRIPT = Path(__file__).parent / "torch_figures.py"
LARGE_MIB, HOLLOW_MIB = int(os.environ.get("APR_FIGURES_MIB", "2048")), 10240


def torch(*arguments):
    done = subprocess.run([TORCH, "-B", SCRIPT, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr)
    return done.stdout


def apr(*arguments):
    return [APR, *map(str, arguments)]


def timed(command):
    """Seconds of a whole process that must succeed."""
    began = time.monotonic()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment())
    return time.monotonic() - began


def peaks(command):
    """The most memory of a process, in MiB, looked at as often as it goes: all of it, and what is in no file."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment())
    most = {"VmHWM": 0, "RssAnon": 0}
    while process.poll() is None:
        try:
            lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
        except (FileNotFoundError, ProcessLookupError):
            break
        for line in lines:
            name, _, value = line.partition(":")
            if name in most:
                most[name] = max(most[name], int(value.split()[0]))
    if process.wait():
        raise SystemExit(f"{command} failed")
    return most["VmHWM"] / 1024, most["RssAnon"] / 1024


def figure(what, value, target, unit, least=False):
    met = value >= target if least else value <= target
    bound = "at least" if least else "at most"
    print(f"{what}: {value:.2f} {unit} ({bound} {target} {unit}): {'met' if met else 'MISSED'}", flush=True)


def hollow_onnx(path, mib):
    """A model whose data is a hole of `mib` MiB in a file beside it."""
    beside = path.with_suffix(".data")
    graph = onnx.helper.make_graph([], "weights", [], [])
    for number in range(mib // 32):
        tensor = graph.initializer.add(name=f"model.layers.{number:04}.weight", data_type=onnx.TensorProto.BFLOAT16, dims=[4096, 4096],
                                       data_location=onnx.TensorProto.EXTERNAL)
        for key, value in (("location", beside.name), ("offset", number << 25), ("length", 1 << 25)):
            tensor.external_data.add(key=key, value=str(value))
    onnx.save_model(onnx.helper.make_model(graph), path)
    with open(beside, "wb") as file:
        file.truncate(mib << 20)


def opening(folder):
    torch("hollow", folder / "hollow.pt", HOLLOW_MIB)
    hollow_onnx(folder / "hollow.onnx", HOLLOW_MIB)
    bare = statistics.median(timed(["true"]) for _ in range(21)) * 1000
    print(f"`true`: median {bare:.1f} ms, which is what starting any process costs here")
    for path in (folder / "hollow.pt", folder / "hollow.onnx"):
        for verb in ("inspect", "tensors"):
            command = apr(verb, "-q", path)
            timed(command)
            times = sorted(timed(command) * 1000 for _ in range(21))
            print(f"apr {verb} {path.name}, least {times[0]:.1f} ms of 21 runs")
            figure(f"apr {verb} {path.name} of {HOLLOW_MIB} MiB, median", statistics.median(times), 50, "ms")
            figure(f"apr {verb} {path.name}, RSS", max(peaks(command)[0] for _ in range(5)), 64, "MiB")
        path.unlink()


def converting(folder, rounds):
    source, copy, ours, theirs = (folder / name for name in ("large.pt", "copy", "ours.safetensors", "theirs.safetensors"))
    torch("large", source, LARGE_MIB)
    convert = apr("convert", "--force", "-q", "--arch", "none", source, ours)

    def cleared():
        for path in (copy, ours, theirs):
            path.unlink(missing_ok=True)
        os.sync()

    def by_cp():
        cleared()
        return timed(["cp", source, copy]) + timed(["sync", copy])

    def by_apr():
        cleared()
        return timed(convert)

    def by_packages(how):
        def run():
            cleared()
            began = time.monotonic()
            saved, durable = map(float, torch("convert", source, theirs, how).split())
            return {how: saved, f"{how} + sync": durable, f"{how}, whole process": time.monotonic() - began}
        return run

    ways = [lambda: {"cp + sync": by_cp()}, lambda: {"apr": by_apr()}, by_packages("load"), by_packages("mapped load")]
    seconds = {}
    by_cp(), by_apr()  # The source is in the page cache for all, or for none.
    for number in range(rounds):
        # Each begins once: what the one before left behind must not help or cost the same one always.
        first = number % len(ways)
        for way in ways[first:] + ways[:first]:
            for name, value in way().items():
                seconds.setdefault(name, []).append(value)
        row = ", ".join(f"{name} {seconds[name][-1]:.2f}" for name in sorted(seconds))
        print(f"round {number + 1}, seconds: {row}; machine load {os.getloadavg()[0]:.1f}", flush=True)

    def ratio(one, other):
        return statistics.median(a / b for a, b in zip(seconds[one], seconds[other]))
    print("median, seconds: " + ", ".join(f"{name} {statistics.median(seconds[name]):.2f}" for name in sorted(seconds)))
    figure("apr to cp + sync, median of ratios", ratio("apr", "cp + sync"), 1.3, "x")
    for how in ("load", "mapped load"):
        for name in (how, f"{how} + sync", f"{how}, whole process"):
            figure(f"torch.load and save_file ({name}) to apr, median of ratios", ratio(name, "apr"), 3, "x", least=True)
    cleared()
    figure("apr convert, private memory", peaks(convert)[1], 64, "MiB")
    torch("convert", source, theirs, "read")
    subprocess.run([*convert, "--foreign", "drop"], check=True, stdout=subprocess.DEVNULL, env=environment())
    same = subprocess.run(["cmp", "-s", ours, theirs]).returncode == 0
    print(f"apr, with --foreign drop, and the packages wrote {'the same bytes' if same else 'other bytes'}")


def main():
    folder, rounds = Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 5
    system = subprocess.run(["stat", "-f", "-c", "%T", folder], capture_output=True, text=True).stdout.strip()
    print(f"{os.cpu_count()} CPUs, {system}, load {os.getloadavg()[0]:.1f}, {rounds} rounds of {LARGE_MIB} MiB", flush=True)
    opening(folder)
    converting(folder, rounds)


main()
