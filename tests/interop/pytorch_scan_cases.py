"""`apr scan`: torch's own files are clean; files that do something when loaded are named, refused, and never run."""

import json
import shutil

import hostile_pickles as hostile
import program
import torch_judge
from report import Failure, Skipped
from torch_judge import save

CLEAN = ["dtypes", "views", "tied", "odd", "state-dict", "parameters", "optimizer", "checkpoint", "wrapped", "quantized", "list"]


def scan(path):
    """The exit code and the report of `apr scan --json`."""
    code, out, err = program.run("scan", path, "--json")
    if code not in (0, 5):
        return code, {}, err
    return code, json.loads(out), err


def clean(report, scratch):
    for case in CLEAN:
        def passes(case=case):
            for number, options in enumerate(({}, {"pickle_protocol": 4}, {"_use_new_zipfile_serialization": False})):
                path = scratch / f"{case}-{number}.pt"
                save("save", path, case=case, options=options)
                code, said, err = scan(path)
                if code != 0:
                    raise Failure(f"apr scan {path}: exit {code}: {str(said)[:400]} {err}")
        report.step(f"scan {case}: clean, in the ZIP, of protocol 4 and in the old stream", passes)


def by_torch(report, scratch):
    """What torch itself writes, and itself runs."""
    for tag, options in (("zip", {}), ("stream", {"_use_new_zipfile_serialization": False}), ("protocol 5", {"pickle_protocol": 5})):
        def caught(tag=tag, options=options):
            path, canary = scratch / f"os-{tag.replace(' ', '-')}.pt", scratch / f"canary-{tag.replace(' ', '-')}"
            save("save_hostile", path, canary=canary, options=options)
            judged(path, canary, "posix.system")
            torch_judge.ask("load_anything", path=path)
            if not canary.exists():
                raise Failure("torch does not run the file: it proves nothing")
        report.step(f"scan of what torch writes of os.system, {tag}: exit 5, refused, not run; torch runs it", caught)

    def module():
        path = scratch / "module.pt"
        save("save_refused", path, case="module")
        judged(path, scratch / "no-canary", "torch.nn.modules.linear.Linear")
    report.step("scan of a whole module: exit 5, and its classes are named", module)


def judged(path, canary, named, codes=(5,), loadable=True):
    """apr says no in every way, names what it is, and runs nothing."""
    hostile.remove(canary)
    code, said, err = scan(path)
    if code not in codes:
        raise Failure(f"apr scan {path}: exit {code}, expected one of {codes}: {str(said)[:400]} {err}")
    if code == 5 and named and named not in json.dumps(said):
        raise Failure(f"apr scan {path} does not name {named}: {str(said)[:600]}")
    message = program.refuses(4, "convert", path, path.with_suffix(".apr"), "--arch", "none")
    if path.with_suffix(".apr").exists():
        raise Failure("the refused output is there")
    if code == 5 and loadable and "nothing was executed" not in message:
        raise Failure(f"the refusal does not say that nothing was executed: {message}")
    if canary.exists():
        raise Failure(f"{path} WAS EXECUTED")


def by_hand(report, scratch):
    layouts = {"zip": hostile.as_zip, "stream": hostile.as_stream, "bare": hostile.as_bare}
    for number, (trick, body, named, runs) in enumerate(hostile.tricks(scratch / "canary")):
        def caught(number=number, body=body, named=named, runs=runs):
            canary = scratch / "canary"
            raw = hostile.PROTO + body + b"."
            codes = (0, 5) if named is None else (5,)
            if runs and canary.name.encode() in raw:
                hostile.remove(canary)
                hostile.executed(raw)
                if not canary.exists():
                    raise Failure("Python does not run it: it proves nothing")
            for layout, make in layouts.items():
                # A pickle by itself is no checkpoint, but torch runs it before it finds that out.
                judged(make(scratch / f"{number}-{layout}.pt", raw), canary, named, codes, layout != "bare")
        what = "refused" if named is None else "exit 5, refused"
        report.step(f"scan of {trick}: {what}, not run, in the ZIP, the old stream and bare", caught)


def archives(report, scratch):
    """The archive lies: whatever apr says, it is never that all is well."""
    import pickle
    canary = scratch / "canary"
    harmless = pickle.dumps({"a": 1}, 2)
    harmful = next(hostile.PROTO + body + b"." for trick, body, _, _ in hostile.tricks(canary) if trick == "GLOBAL os.system")
    for tag, path in (
        ("two entries of one name", hostile.two_indices(scratch / "twice.pt", harmless, harmful)),
        ("another name in the local header", hostile.lying_local_name(scratch / "lying.pt", harmless, harmful)),
    ):
        report.step(f"scan of {tag}: refused, not run", judged, path, canary, "", (4, 5), False)

    def second_pickle():
        path = scratch / "second.pt"
        hostile.as_bare(path, harmless + harmful)
        judged(path, canary, "os.system", loadable=False)
    report.step("scan of a second pickle behind the first: exit 5, refused, not run", second_pickle)

    def under_another_name():
        path = hostile.as_zip(scratch / "model.safetensors", harmful)
        code, said, err = scan(path)
        if code != 5 or canary.exists():
            raise Failure(f"exit {code}: {said} {err}")
    report.step("scan of a hostile checkpoint that is called .safetensors: exit 5", under_another_name)

    def flag():
        path = hostile.as_zip(scratch / "plain.pt", harmless)
        program.must("tensors", path)
        program.refuses(4, "convert", path, scratch / "plain.apr", "--arch", "none", "--safe")
        if (scratch / "plain.apr").exists():
            raise Failure("the refused output is there")
    report.step("--safe refuses a harmless pickle too", flag)


def run(report, scratch):
    scratch.mkdir(parents=True)
    for cases in (by_hand, archives, clean, by_torch):
        folder = scratch / cases.__name__
        folder.mkdir()
        if cases in (clean, by_torch):
            try:
                torch_judge.version()
            except Skipped as reason:
                report.skip(f"scan: what torch writes ({cases.__name__})", reason)
                continue
        cases(report, folder)
        shutil.rmtree(folder)
