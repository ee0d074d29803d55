"""SafeTensors: files of the package come back to the byte; what apr writes is read by the package."""

import program
from judges import read_apr, read_safetensors, read_safetensors_folder
from models import Key, Model, differences
from report import Failure
from same import agree, same_file, same_folder
from seed import random_of
from writers import SAFETENSORS, safetensors_tensors, write_safetensors, write_safetensors_folder

METADATA = {
    "format": "pt", "": "an empty key", "empty": "", "é 日本": "😀\n\t\x01\x7f\"\\/", "json": '{"a": [1, 2.5, null]}',
    "long": "training text é\n" * 6000,
}
# apr's way to say that a file has `__metadata__` without a key.
EMPTY = "__metadata__"


def cases():
    """Name, tensors, metadata."""
    random = random_of("safetensors")
    yield "every-dtype", safetensors_tensors(random, SAFETENSORS), {"format": "pt"}
    yield "no-metadata", safetensors_tensors(random, ["float32", "float16", "int64"], 3), None
    yield "empty-metadata", safetensors_tensors(random, ["bfloat16"]), {}
    yield "metadata", safetensors_tensors(random, ["float32"], 2), METADATA
    yield "no-tensors", [], {"format": "np"}
    yield "many", safetensors_tensors(random, SAFETENSORS, 40, most=500), {"format": "pt"}
    yield "large", safetensors_tensors(random, ["float32", "uint8", "bfloat16"], 2, most=4_000_000), None
    names = ["", " ", "a.b/c", "é", "日本", "😀", "\0", "\x01\x1f\x7f", '"\\/', "\b\f\n\r\t", "\u2028", "n" * 5000]
    renamed = []
    for name, (dtype, shape, tensor) in zip(names, safetensors_tensors(random, ["float32", "uint8"], 6)):
        tensor.name = name
        renamed.append((dtype, shape, tensor))
    yield "names", renamed, None
    empty = []
    for number, (dtype, _, tensor) in enumerate(safetensors_tensors(random, ["float32", "int8", "complex64", "bool"])):
        shape = [(0,), (3, 0), (0, 2, 5), (1, 0)][number]
        tensor = type(tensor)(tensor.name, tensor.dtype, shape, b"")
        empty.append((dtype, list(shape), tensor))
    yield "zero-size", empty + safetensors_tensors(random, ["int16"], prefix="other"), None


def in_apr(model):
    """APR's names of the dtypes; its order is that of the file, so both are sorted."""
    for tensor in model.tensors:
        tensor.dtype = {"F4": "F4_E2M1"}.get(tensor.dtype, tensor.dtype)
    return model.sorted()


def single(report, scratch, name, written, metadata):
    folder = scratch / name
    path = folder / f"{name}.safetensors"
    want = write_safetensors(path, written, metadata)
    agree(differences(want, read_safetensors(path), "the package itself"))
    for foreign in ("default", "typed"):
        def there_and_back():
            middle = program.convert(path, folder / f"{foreign}.apr", "--foreign", foreign)
            back = program.convert(middle, folder / f"{foreign}.safetensors")
            same_file(path, back)
        report.step(f"safetensors {name}: through APR, --foreign {foreign}: the same sha256", there_and_back)

    def rewritten():
        back = program.convert(path, folder / "rewritten.safetensors", "--foreign", "typed")
        agree(differences(want, read_safetensors(back)))
    report.step(f"safetensors {name}: the package reads apr's file, every tensor and all metadata", rewritten)

    def right():
        found = read_apr(folder / "default.apr", "safetensors").sorted()
        sorted_keys = sorted(found.keys, key=lambda key: key.name)
        short = [key for key in want.keys if len(key.wire) < 60_000]
        agree(differences(in_apr(want), Model(found.tensors, []), "apr", keys=False))
        agree(differences(Model([], short), Model([], [k for k in sorted_keys if k.name in {s.name for s in short}])))
        said = [key for key in found.keys if key.name != EMPTY]
        if len(said) != len(want.keys):
            raise Failure(f"{len(said)} keys, expected {len(want.keys)}")
    report.step(f"safetensors {name}: the APR2 file is right by its specification and says the same", right)

    def listed():
        rows = program.tensors(path)
        found = sorted((row["name"], row["dtype"], tuple(row["shape"]), row["sha256"]) for row in rows)
        wanted = sorted(tensor.facts() for tensor in want.tensors)
        agree([f"apr tensors: {a}, expected {b}" for a, b in zip(found, wanted) if a != b])
        said = {entry["key"]: entry["value"] for entry in program.inspect(path)["metadata"] if entry["key"] != EMPTY}
        if said != (metadata or {}) or len(found) != len(wanted):
            raise Failure(f"apr inspect: metadata {str(said)[:300]}")
    report.step(f"safetensors {name}: apr lists what the package wrote", listed)


def sharded(report, scratch):
    random = random_of("sharded")
    folder = scratch / "sharded" / "model"
    written = safetensors_tensors(random, ["float32", "float16", "bfloat16", "int64", "bool", "float8_e4m3fn"], 3)
    want = write_safetensors_folder(folder, written, 4, {"format": "pt"})
    agree(differences(want, read_safetensors_folder(folder), "the package itself"))

    def there_and_back(start, foreign, tag):
        middle = program.convert(start, scratch / "sharded" / f"{tag}.apr", "--foreign", foreign)
        same_folder(folder, program.convert(middle, scratch / "sharded" / tag, "--to", "safetensors"))
        agree(differences(want, read_apr(middle).sorted(), "apr", keys=False))
    for number, (start, foreign) in enumerate([(folder, "default"), (folder / "model.safetensors.index.json", "default"), (folder, "typed")]):
        said = "the folder" if start == folder else "the index"
        report.step(f"safetensors sharded: {said} through APR, --foreign {foreign}: every file the same sha256",
                    there_and_back, start, foreign, f"t{number}")

    def merged():
        back = program.convert(folder, scratch / "sharded" / "merged.safetensors")
        agree(differences(want, read_safetensors(back), "merged"))
    report.step("safetensors sharded: merged into one file, read by the package", merged)

    sizes = [len(tensor.data) for tensor in want.tensors]
    size = max(sum(sizes) // 4, max(sizes))

    def by_size():
        source = scratch / "sharded" / "merged.safetensors"
        out = program.convert(source, scratch / "sharded" / "sized", "--to", "safetensors", "--max-shard-size", size)
        found = read_safetensors_folder(out)
        agree(differences(want, found, "sized", keys=False))
        if len(list(out.iterdir())) < 3:
            raise Failure("too few shards")
        again = program.convert(out, scratch / "sharded" / "again.safetensors")
        agree(differences(want, read_safetensors(again), "again"))
    report.step("safetensors: --max-shard-size: shards and index read by the package, and one file again", by_size)


def edits(report, scratch):
    random = random_of("edits of metadata")
    path = scratch / "edits" / "m.safetensors"
    want = write_safetensors(path, safetensors_tensors(random, ["float32", "int8"]), {"format": "pt", "gone": "x", "kept": "y"})
    after = Model(want.tensors, [Key.of(*k) for k in [("format", "str", "np"), ("kept", "str", "y"), ("new", "str", "é\n")]])
    arguments = ["--set", "format=np", "--unset", "gone", "--set", "new:str=é\n"]

    def edited():
        agree(differences(after, read_safetensors(program.convert(path, scratch / "edits" / "o.safetensors", *arguments))))
        middle = program.convert(path, scratch / "edits" / "m.apr")
        agree(differences(after, read_safetensors(program.convert(middle, scratch / "edits" / "p.safetensors", *arguments))))
    report.step("safetensors: --set and --unset, read by the package", edited)


def run(report, scratch):
    for case in cases():
        single(report, scratch, *case)
    sharded(report, scratch)
    edits(report, scratch)
