"""PyTorch: apr reads whatever `torch.save` writes; what apr writes, `torch.load` opens as weights only, and mapped."""

import zipfile

import program
import torch_judge
from archives import accepted, aligned, rewritten
from judges import read_apr, read_safetensors
from models import Model, differences
from report import Failure, Skipped
from same import agree, listed_by_apr, same_file, same_folder
from seed import random_of
from torch_judge import read_torch, save
from writers import SAFETENSORS, safetensors_tensors, tensors_of, write_gguf, write_safetensors

CASES = ["dtypes", "views", "tied", "odd", "many", "large", "state-dict", "parameters", "parameter", "optimizer", "checkpoint",
         "wrapped", "floats", "quantized", "list", "alone", "nothing"]
# No view, no storage of which only a part is used: what apr's writer could have laid out.
CONTIGUOUS = ["dtypes", "odd", "many", "state-dict", "parameters", "parameter", "optimizer", "checkpoint", "wrapped", "floats",
              "quantized", "list", "alone", "nothing"]
# Every way in which torch writes the same object.
WAYS = [{"pickle_protocol": n} for n in (2, 3, 4, 5)] + [
    {"pickle_protocol": n, "_use_new_zipfile_serialization": False} for n in (2, 3, 4, 5)]
# The dtypes that SafeTensors and torch both have and torch can compare by their bytes.
SHARED = [name for name in SAFETENSORS if name != "float4_e2m1fn_x2"]


def said(options):
    layout = "the old stream" if options.get("_use_new_zipfile_serialization") is False else "ZIP"
    return f"{layout}, protocol {options['pickle_protocol']}" if options else "as torch does by default"


def lists(path, want, *args):
    listed_by_apr(path, want.as_apr_names_it(), *args)


def reading(report, scratch):
    for case in CASES:
        def reads(case=case):
            path = scratch / f"{case}.pt"
            lists(path, save("save", path, case=case, options={}))
        report.step(f"pytorch {case}: apr lists what torch wrote, {said({})}", reads)
    for number, options in enumerate(WAYS):
        for case in ("floats", "views", "tied", "checkpoint"):
            def reads(case=case, options=options, number=number):
                path = scratch / f"{case}-{number}.pt"
                lists(path, save("save", path, case=case, options=options))
            report.step(f"pytorch {case}: apr lists what torch wrote, {said(options)}", reads)

    def below():
        path = scratch / "below.pt"
        want = save("save", path, case="checkpoint", options={})
        kept = [t for t in want.tensors if t.name.startswith("optimizer.state.")]
        for tensor in kept:
            tensor.name = tensor.name.removeprefix("optimizer.")
        listed_by_apr(path, Model(kept), "--prefix", "optimizer")
    report.step("pytorch checkpoint: --prefix takes what lies below a path", below)


def other_archives(report, scratch):
    """The same records as other programs and other machines leave them."""
    def deflated():
        path = scratch / "deflated.pt"
        source = scratch / "to-deflate.pt"
        save("save", source, case="floats", options={})
        rewritten(source, path, lambda _, data: data, zipfile.ZIP_DEFLATED)
        listed_by_apr(path, read_torch(path, mmap=False))
    report.step("pytorch zipped again with deflate: apr lists what torch reads of it", deflated)

    def big_endian():
        # torch writes the machine's own order only; its reader swaps what the record `byteorder` calls big.
        source, path = scratch / "little.pt", scratch / "big.pt"
        want = save("save", source, case="floats", options={})
        rewritten(source, path, lambda name, data: b"big" if name.endswith("/byteorder") else data)
        found = read_torch(path, mmap=False)
        if [t.sha256 for t in found.tensors] == [t.sha256 for t in want.tensors]:
            raise Failure("torch does not swap the file")
        listed_by_apr(path, found)
    report.step("pytorch big-endian: apr lists what torch reads of it", big_endian)

    def without_byteorder():
        source, path = scratch / "with.pt", scratch / "without.pt"
        save("save", source, case="dtypes", options={})
        rewritten(source, path, lambda name, data: None if name.endswith("/byteorder") else data)
        listed_by_apr(path, read_torch(path, mmap=False))
    report.step("pytorch without a record of the byte order: apr lists what torch reads of it", without_byteorder)

    def script():
        path = scratch / "script.pt"
        listed_by_apr(path, save("save_script", path))
    report.step("pytorch TorchScript: apr lists the parameters and buffers", script)


def sharded(report, scratch):
    folder = scratch / "sharded"
    index = folder / "pytorch_model.bin.index.json"
    want = []

    def written():
        want.append(save("save_sharded", folder))
        listed_by_apr(folder, want[0])
        listed_by_apr(index, want[0])
    report.step("pytorch sharded: apr lists all shards by the folder and by the index", written)

    def merged():
        found = read_torch(program.convert(index, scratch / "merged.pt"))
        agree(differences(first(want).sorted(), found.sorted()))
    report.step("pytorch sharded: merged into one file, read by torch", merged)

    def there_and_back():
        first(want)
        middle = program.convert(folder, scratch / "sharded.apr")
        same_folder(folder, program.convert(middle, scratch / "sharded-again", "--to", "pytorch"))
    report.step("pytorch sharded: through APR: every file the same sha256", there_and_back)

    def by_size():
        source = scratch / "to-shard.pt"
        large = save("save", source, case="large", options={})
        out = program.convert(source, scratch / "sized", "--to", "pytorch", "--max-shard-size", "6M")
        parts = sorted(out.glob("*.bin"))
        if len(parts) < 2:
            raise Failure(f"{out} has {sorted(p.name for p in out.iterdir())}")
        tensors = [tensor for part in parts for tensor in read_torch(part).tensors]
        agree(differences(large.sorted(), Model(tensors).sorted()))
        listed_by_apr(out, large)
    report.step("pytorch: --max-shard-size: shards read by torch, and by apr", by_size)


def first(found):
    if not found:
        raise Skipped("the step before gave nothing")
    return found[0]


def refused(report, scratch):
    """What cannot be carried is refused, and the message says what it is."""
    for case in ("sparse COO", "sparse CSR", "sparse CSC", "sparse BSR", "nested", "meta", "conj", "neg", "module"):
        def refuses(case=case):
            path = scratch / f"{case}.pt"
            save("save_refused", path, case=case)
            message = program.refuses(4, "convert", path, scratch / "refused.apr", "--arch", "none")
            word = {"module": "torch.nn.modules.linear.Linear"}.get(case, case.split()[0])
            if word not in message:
                raise Failure(f"the refusal does not say `{word}`: {message}")
        report.step(f"pytorch {case}: refused, and the message says so", refuses)

    def types():
        names = [name for name in torch_judge.ask("storable") if name not in torch_judge.carried()]
        if not names:
            raise Failure("torch stores nothing that apr does not carry: this step can go")
        for name in names:
            path = scratch / f"{name}.pt"
            save("save_type", path, dtype=name)
            message = program.refuses(4, "tensors", path)
            if name not in message:
                raise Failure(f"the refusal does not say `{name}`: {message}")
    report.step("pytorch: every element type that torch stores and apr does not carry is refused by its name", types)


def is_right(want, path):
    """A file that apr wrote, to torch and to programs that know ZIP."""
    found = read_torch(path)
    agree(differences(want.sorted(), found.sorted(), keys=False))
    agree([f"{row['name']} is not contiguous" for row in found.rows if not row["contiguous"]])
    if aligned(path) == 0 and any(row["bytes"] for row in found.rows):
        raise Failure("there is no record of a storage")
    return found


def writing(report, scratch):
    random = random_of("to torch")
    folder = scratch / "written"
    safetensors = folder / "m.safetensors"
    want = write_safetensors(safetensors, safetensors_tensors(random, SHARED, 2), {"format": "pt"})
    report.step("pytorch from safetensors: torch maps it: the same tensors, contiguous, records at multiples of 64",
                lambda: is_right(want, program.convert(safetensors, folder / "m.pt")))
    (gguf,), named = write_gguf(folder / "m.gguf", [("interop.text", "str", "é")], tensors_of(random, ["F32", "F16", "BF16", "I8"] * 3))
    report.step("pytorch from gguf: torch maps it: the same tensors",
                lambda: is_right(named, program.convert(gguf, folder / "gguf.pt")))
    report.step("pytorch from gguf with --foreign keep: torch maps it, and the same GGUF comes back", kept, gguf, folder)

    def from_apr():
        middle = program.convert(safetensors, folder / "m.apr")
        is_right(want, program.convert(middle, folder / "apr.pt"))
    report.step("pytorch from APR: torch maps it: the same tensors", from_apr)

    for case in CASES:
        def again(case=case):
            path = folder / f"{case}.pt"
            wrote = save("save", path, case=case, options={})
            found = is_right(wrote, program.convert(path, folder / f"{case}-again.pt", "--foreign", "typed"))
            same_quantizers(wrote, found)
        report.step(f"pytorch {case}: written anew: torch maps it: the same tensors", again)

    def archive():
        for path in sorted(folder.glob("*.pt")):
            accepted(path)
    report.step("pytorch: zipfile and `unzip -t` accept every file that apr wrote", archive)

    def same_bytes():
        for threads in (1, 2, 7):
            same_file(folder / "m.pt", program.convert(safetensors, folder / f"threads-{threads}.pt", "-j", threads))
    report.step("pytorch: any number of threads writes the same sha256", same_bytes)


def kept(gguf, folder):
    program.convert(gguf, folder / "kept.pt", "--foreign", "keep")
    read_torch(folder / "kept.pt")
    same_file(gguf, program.convert(folder / "kept.pt", folder / "kept.gguf"))


def same_quantizers(want, found):
    asked = {row["name"]: row["quantizer"] for row in want.rows}
    agree([f"{row['name']} is quantized by {row['quantizer']}, expected {asked[row['name']]}"
           for row in found.rows if row["quantizer"] != asked[row["name"]]])


def identities(report, scratch):
    folder = scratch / "identities"
    for case in CONTIGUOUS:
        def there_and_back(case=case, options=None):
            path = folder / f"{case}.pt"
            save("save", path, case=case, options=options or {})
            same_file(path, program.convert(program.convert(path, folder / f"{case}.apr"), folder / f"{case}-back.pt"))
        report.step(f"pytorch {case}: through APR: the same sha256", there_and_back)

    def other_protocols():
        for protocol in (3, 4, 5):
            path = folder / f"protocol-{protocol}.pt"
            save("save", path, case="checkpoint", options={"pickle_protocol": protocol})
            middle = program.convert(path, folder / f"protocol-{protocol}.apr")
            same_file(path, program.convert(middle, folder / f"protocol-{protocol}-back.pt"))
    report.step("pytorch checkpoint of protocols 3, 4 and 5: through APR: the same sha256", other_protocols)

    for case in ("views", "tied", "large"):
        def equal(case=case):
            path = folder / f"{case}.pt"
            want = save("save", path, case=case, options={})
            middle = program.convert(path, folder / f"{case}.apr")
            agree(differences(want.as_apr_names_it().sorted(), read_apr(middle, "pytorch").sorted(), "apr", keys=False))
            is_right(want, program.convert(middle, folder / f"{case}-back.pt"))
        report.step(f"pytorch {case}: through APR: right by its specification, and torch maps what comes back", equal)

    random = random_of("safetensors through torch")
    for tag, metadata in (("without", None), ("with", {"format": "pt", "é": "\n"})):
        def middle_is_torch(tag=tag, metadata=metadata):
            path = folder / f"{tag}.safetensors"
            want = write_safetensors(path, safetensors_tensors(random, SHARED, 2), metadata)
            middle = program.convert(path, folder / f"{tag}.pt")
            is_right(want, middle)
            same_file(path, program.convert(middle, folder / f"{tag}-back.safetensors"))
        report.step(f"safetensors {tag} metadata: through PyTorch: the same sha256", middle_is_torch)

    def to_safetensors():
        path = folder / "state.pt"
        want = save("save", path, case="state-dict", options={})
        found = read_safetensors(program.convert(path, folder / "state.safetensors"))
        agree(differences(want.sorted(), found, keys=False))
    report.step("pytorch state-dict: to safetensors: the package reads the same tensors", to_safetensors)


def run(report, scratch):
    try:
        print(f"judge: {torch_judge.version()}", flush=True)
    except Skipped as reason:
        # One line for all: without torch there is nothing to compare with.
        report.skip("pytorch: everything that torch writes and judges", reason)
        return
    scratch.mkdir(parents=True, exist_ok=True)
    for cases in (reading, other_archives, sharded, refused, writing, identities):
        cases(report, scratch)
