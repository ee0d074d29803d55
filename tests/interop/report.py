"""Counts steps, says what each one did, and goes on after a failure."""

import sys
import time


class Failure(Exception):
    """A judge said no, or `apr` did; the message says what about."""


class Skipped(Exception):
    """A step that this machine cannot run."""


class Report:
    def __init__(self):
        self.passed, self.failed, self.skipped = 0, [], []
        self.begun = time.monotonic()

    def step(self, name, run, *args):
        """One claim: passes if `run` returns."""
        try:
            run(*args)
        except Skipped as reason:
            self.skip(name, reason)
        except Exception as error:  # A judge that breaks over a file is an answer too.
            self.failed.append(name)
            what = str(error) if isinstance(error, Failure) else f"{type(error).__name__}: {error}"
            print(f"FAILED  {name}\n        " + what.replace("\n", "\n        "), flush=True)
        else:
            self.passed += 1
            print(f"ok      {name}", flush=True)

    def skip(self, name, reason):
        self.skipped.append(name)
        print(f"SKIPPED {name}: {reason}", flush=True)

    def add(self, other):
        """Counts what another report has."""
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped

    def end(self):
        """The last line, which `.ci/run` shows, and the exit code."""
        print(f"interop took {time.monotonic() - self.begun:.1f} s", flush=True)
        print(f"interop: {self.passed} passed, {len(self.failed)} failed, {len(self.skipped)} skipped", flush=True)
        for name in self.failed:
            print(f"interop failed: {name}", file=sys.stderr)
        return 1 if self.failed else 0
