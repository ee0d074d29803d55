"""Runs llama.cpp's own llama-perplexity and llama-imatrix, and reads what they print."""

import re
import subprocess


class Tools:
    """The programs in a folder, run in another so that the names of files that they record are short."""

    def __init__(self, folder, scratch):
        self.folder, self.scratch = folder, scratch

    def run(self, program, *args):
        """What a program prints."""
        command = [self.folder / program, *map(str, args)]
        done = subprocess.run(command, cwd=self.scratch, capture_output=True, text=True, timeout=900)
        said = done.stdout + done.stderr
        if done.returncode != 0:
            raise RuntimeError(f"{program} {' '.join(map(str, args))}: exit {done.returncode}\n{said[-1500:]}")
        return said

    def complete(self, ends, program, *args):
        """What a program prints up to its last lines: on a busy machine it may end before they are out."""
        for _ in range(20):
            said = self.run(program, *args)
            if re.search(ends, said):
                return said
        raise RuntimeError(f"{program} {' '.join(map(str, args))} never printed {ends}")

    def perplexity(self, model, text, window, *more):
        said = self.complete(ESTIMATE, "llama-perplexity", "-m", model, "-f", text, "-c", window, "-b", window, "-t", 1, "--no-warmup", *more)
        mean, error = re.search(ESTIMATE, said).groups()
        return {"mean": float(mean), "error": float(error)}

    def divergence(self, model, base, window, *more):
        """The figures of --kl-divergence, under the names of `apr perplexity --json`."""
        said = self.complete("Same top p: ", "llama-perplexity", "-m", model, "-c", window, "-b", window, "-t", 1, "--no-warmup", "--kl-divergence",
                             "--kl-divergence-base", base, *more)
        found = {"divergences": {}, "probabilities": {}}
        for name, pattern, factor in ESTIMATES:
            mean, error = re.search(pattern + r"\s*:?\s*(-?[0-9.]+) ± +(-?[0-9.]+)", said).groups()
            found[name] = {"mean": float(mean) / factor, "error": float(error) / factor}
        for kind, mark, factor in (("divergences", "KLD", 1), ("probabilities", "Δp", 100)):
            for share, value in re.findall(rf"^ *(Maximum|Minimum|Median|[0-9.]+%) +{mark}: +(-?[0-9.]+)", said, re.MULTILINE):
                name = {"Maximum": "max", "Minimum": "min", "Median": "median"}.get(share) or f"p{float(share[:-1]):g}"
                found[kind][name] = float(value) / factor
        return found

    def imatrix(self, model, text, window, output, *more):
        self.run("llama-imatrix", "-m", model, "-f", text, "-c", window, "-b", window, "-t", 1, "--no-ppl", "-o", output, *more)

    def statistics(self, model, matrix):
        """The rows of --show-statistics: layer, tensor, and the numbers in their order."""
        said = self.complete("Computing weighted average", "llama-imatrix", "-m", model, "--in-file", matrix, "--show-statistics")
        rows = []
        for line in said.splitlines():
            cells = [cell.strip().removesuffix("%") for cell in line.split("\t")]
            if len(cells) == 13 and re.fullmatch(r"[0-9]+|-", cells[0].split()[-1]) and re.match(r"-?[0-9]", cells[2]):
                rows.append([cells[0].split()[-1], cells[1], *map(float, cells[2:])])
        return rows


ESTIMATE = r"Final estimate: PPL = ([0-9.]+) \+/- ([0-9.]+)"
ESTIMATES = (
    ("perplexity", r"Mean PPL\(Q\)", 1),
    ("base_perplexity", r"Mean PPL\(base\)", 1),
    ("log_ratio", r"Mean ln\(PPL\(Q\)/PPL\(base\)\)", 1),
    ("ratio", r"Mean PPL\(Q\)/PPL\(base\)", 1),
    ("difference", r"Mean PPL\(Q\)-PPL\(base\)", 1),
    ("divergence", r"Mean +KLD", 1),
    ("probability", r"Mean +Δp", 100),
    ("rms_probability", r"RMS Δp", 100),
    ("same_top", r"Same top p", 100),
)
