"""NumPy: apr reads whatever `save`, `savez` and `savez_compressed` write; `numpy.load` reads what apr writes."""

import ast
import math

import numpy as np

import program
from archives import accepted, data_starts
from judges import read_apr, read_safetensors
from models import differences
from numpy_judge import DTYPES, array, model_of, plain, read_npz, stored_names, versioned
from report import Failure
from same import agree, listed_by_apr, same_file
from seed import random_of
from writers import safetensors_tensors, tensors_of, write_gguf, write_safetensors

# The dtypes that SafeTensors and NumPy both have.
SHARED = ["bool", "uint8", "int8", "int16", "uint16", "float16", "int32", "uint32", "float32", "complex64", "float64", "int64",
          "uint64"]
ODD_NAMES = ["a.b/c", "é日本😀", "sp ace", "n" * 200, "x.npy", "deep/er/name", "1", "{}"]


def shape_of(random, most=5):
    return tuple(int(n) for n in random.integers(1, 9, int(random.integers(0, most))))


def arrays_of(random, orders="CF", endians="<>"):
    """Every type in every order of elements and of bytes."""
    return {f"{code}.{order}.{endian}".replace("<", "little").replace(">", "big"): array(random, code, shape_of(random), order, endian)
            for code in DTYPES for order in orders for endian in endians}


def odd_shapes(random):
    shapes = [(), (1,), (0,), (3, 0), (0, 2, 5), (1, 1, 1, 1, 1), (2, 1, 2, 1, 2, 1, 2, 1)]
    return {f"odd.{n}": array(random, "f4", shape, "CF"[n % 2]) for n, shape in enumerate(shapes)}


def archives():
    """Name, arrays. Each is written by both functions."""
    random = random_of("numpy")
    yield "every-type", arrays_of(random)
    yield "odd-shapes", odd_shapes(random)
    yield "names", {name: array(random, "i2", shape_of(random)) for name in ODD_NAMES}
    yield "many", {f"layers.{n}.weight": array(random, "f4", shape_of(random, 3)) for n in range(700)}
    yield "large", {"a": array(random, "f4", (700, 1024)), "f": array(random, "f8", (300, 900), "F"), "z": np.zeros((2000, 1500), "i2")}


def single_arrays(report, scratch):
    """A file of one array is called by its own name, and becomes an archive of one."""
    random = random_of("npy")

    def both_ways(path, value):
        want = model_of({path.stem: value})
        listed_by_apr(path, want)
        agree(differences(want, read_npz(program.convert(path, path.with_suffix(".npz")))))

    for code in DTYPES:
        def every_way(code=code):
            for order in "CF":
                for endian in "<>":
                    value = array(random, code, (3, 4, 5), order, endian)
                    path = scratch / f"{code}-{order}-{'little' if endian == '<' else 'big'}.npy"
                    np.save(path, value, allow_pickle=False)
                    both_ways(path, value)
        report.step(f"numpy {DTYPES[code]}: one array in either order of elements and of bytes is read, and written in an archive",
                    every_way)

    def shapes():
        for name, value in odd_shapes(random).items():
            path = scratch / f"{name}.npy"
            np.save(path, value)
            both_ways(path, value)
    report.step("numpy: one array of no, few and many elements and dimensions is read, and written in an archive", shapes)

    def versions():
        value = array(random, "f4", (5, 7), "F")
        for version in ((1, 0), (2, 0), (3, 0)):
            both_ways(versioned(scratch / f"version-{version[0]}.npy", value, version), value)
    report.step("numpy: headers of versions 1, 2 and 3 are read", versions)

    def same_as_save():
        for code in DTYPES:
            for shape in ((), (7,), (0, 3), (2, 3, 4)):
                value = array(random, code, shape)
                want = scratch / f"{code}-{len(shape)}.npy"
                np.save(want, value)
                # By way of a format with names, and under another name.
                middle = program.convert(want, scratch / f"{code}-{len(shape)}.npz")
                same_file(want, program.convert(middle, scratch / "called.npy"))
                agree(differences(model_of({"called": value}), plain({"called": np.load(scratch / "called.npy")}, "called.npy")))
                (scratch / "called.npy").unlink()
    report.step("numpy: one array of every type is written as `numpy.save` writes it: the same sha256", same_as_save)

    def several():
        np.savez(scratch / "two.npz", a=array(random, "f4", (2,)), b=array(random, "f4", (2,)))
        said = program.refuses(4, "convert", scratch / "two.npz", scratch / "two.npy", "--arch", "none")
        if (scratch / "two.npy").exists() or "exactly one tensor" not in said:
            raise Failure(said)
    report.step("numpy: two arrays are refused for a file of one", several)


def through_apr(path):
    middle = program.convert(path, path.with_name(f"{path.stem}{path.suffix}.apr"))
    return program.convert(middle, path.with_name(f"{path.stem}-back{path.suffix}"))


def many_arrays(report, scratch):
    for name, arrays in archives():
        want = model_of(arrays)
        for how, save in (("stored", np.savez), ("deflated", np.savez_compressed)):
            path = scratch / f"{name}-{how}.npz"
            save(path, **arrays)
            report.step(f"numpy {name}, {how}: apr lists what the package wrote", listed_by_apr, path, want)

            def again(path=path):
                out = program.convert(path, scratch / f"{path.stem}-again.npz", "--foreign", "typed")
                agree(differences(want.sorted(), read_npz(out).sorted()))
                accepted(out)
            report.step(f"numpy {name}, {how}: the package, zipfile and `unzip -t` read what apr writes of it", again)

            def in_apr(path=path):
                agree(differences(want.sorted(), read_apr(program.convert(path, scratch / f"{path.stem}.apr")).sorted(), keys=False))
            report.step(f"numpy {name}, {how}: the APR2 file is right by its specification and says the same", in_apr)


def identities(report, scratch):
    random = random_of("numpy identities")
    cases = {
        "every type": arrays_of(random, "C", "<"), "names": dict.fromkeys(ODD_NAMES, array(random, "i2", (2, 3))),
        "many": {f"n{n}": array(random, "u1", shape_of(random)) for n in range(300)},
    }
    for name, arrays in cases.items():
        def there_and_back(name=name, arrays=arrays):
            path = scratch / f"{name}.npz"
            np.savez(path, **arrays)
            same_file(path, through_apr(path))
        report.step(f"numpy {name}: savez through APR: the same sha256", there_and_back)

    def middle_is_numpy():
        path = scratch / "m.safetensors"
        want = write_safetensors(path, safetensors_tensors(random, SHARED, 3), None)
        middle = program.convert(path, scratch / "m.npz")
        agree(differences(want, read_npz(middle).sorted()))
        same_file(path, program.convert(middle, scratch / "back.safetensors"))
    report.step("safetensors without metadata: through NumPy: the package reads it, and the same sha256", middle_is_numpy)

    def kept():
        path = scratch / "k.safetensors"
        want = write_safetensors(path, safetensors_tensors(random, SHARED, 2), {"é": "x" * 5000, "format": "np"})
        middle = program.convert(path, scratch / "k.npz", "--foreign", "keep")
        with np.load(middle, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        if arrays.pop("apr.foreign").dtype != np.uint8:
            raise Failure("the metadata is no array of bytes")
        agree(differences(want, plain(arrays, middle).sorted(), keys=False))
        same_file(path, program.convert(middle, scratch / "k-back.safetensors", "--foreign", "keep"))
    report.step("safetensors with metadata: through NumPy with --foreign keep: the package reads it, and the same sha256", kept)


def written(report, scratch):
    random = random_of("to numpy")
    path = scratch / "m.safetensors"
    want = write_safetensors(path, safetensors_tensors(random, SHARED, 2), {"format": "np"})

    def archive():
        out = program.convert(path, scratch / "m.npz")
        agree(differences(want, read_npz(out).sorted(), keys=False))
        accepted(out)
        if sorted(stored_names(out)) != sorted(f"{tensor.name}.npy" for tensor in want.tensors):
            raise Failure(f"entries {stored_names(out)[:9]}")
    report.step("numpy from safetensors: the package, zipfile and `unzip -t` read it", archive)

    def mapped():
        # What numpy itself maps: the header ends, and so the data begins, at a multiple of 64 of the file.
        for name, start, length in data_starts(scratch / "m.npz"):
            raw = (scratch / "m.npz").read_bytes()[start:start + length]
            header = 10 + int.from_bytes(raw[8:10], "little")
            said = ast.literal_eval(raw[10:header].decode())
            size = math.prod(said["shape"]) * np.dtype(said["descr"]).itemsize
            if raw[:6] != b"\x93NUMPY" or header % 64 or said["fortran_order"] or len(raw) != header + size:
                raise Failure(f"{name} begins with {raw[:80]!r}")
    report.step("numpy: headers that apr writes end at a multiple of 64 and say what follows", mapped)

    def from_gguf():
        (gguf,), named = write_gguf(scratch / "m.gguf", [], tensors_of(random, ["F32", "F16", "F64", "I8", "I16", "I32", "I64"]))
        agree(differences(named.sorted(), read_npz(program.convert(gguf, scratch / "gguf.npz")).sorted(), keys=False))
    report.step("numpy from gguf: the package reads the same arrays", from_gguf)

    def to_safetensors():
        arrays = arrays_of(random)
        kept = {name: value for name, value in arrays.items() if value.dtype.kind + str(value.dtype.itemsize) != "c16"}
        np.savez_compressed(scratch / "to.npz", **kept)
        found = read_safetensors(program.convert(scratch / "to.npz", scratch / "to.safetensors"))
        agree(differences(model_of(kept).sorted(), found, keys=False))
    report.step("numpy of every order: to safetensors: the package reads the same tensors", to_safetensors)


def refused(report, scratch):
    """What is no tensor, or would run when it is loaded."""
    cases = {
        "objects": np.array([{"a": 1}, None], dtype=object), "a structure": np.zeros(3, [("a", "f4"), ("b", "i2")]),
        "text": np.array(["é", "bc"]), "bytes": np.array([b"ab", b"c"]), "times": np.zeros(2, "M8[s]"), "spans": np.zeros(2, "m8[s]"),
        "long doubles": np.zeros(2, np.longdouble),
    }
    for name, value in cases.items():
        def refuses(name=name, value=value):
            for path, save in ((scratch / f"{name}.npy", np.save), (scratch / f"{name}.npz", np.savez)):
                save(path, value, allow_pickle=True)
                program.refuses(4, "convert", path, scratch / f"{name}.apr", "--arch", "none")
                if (scratch / f"{name}.apr").exists():
                    raise Failure("the refused output is there")
        report.step(f"numpy {name}: refused, nothing is written", refuses)

    def no_dtype():
        path = scratch / "bf16.safetensors"
        write_safetensors(path, safetensors_tensors(random_of("bf16"), ["bfloat16"]), None)
        said = program.refuses(4, "convert", path, scratch / "bf16.npz", "--arch", "none")
        if "BF16" not in said or (scratch / "bf16.npz").exists():
            raise Failure(said)
    report.step("safetensors to numpy: a dtype that NumPy lacks is refused, nothing is written", no_dtype)


def run(report, scratch):
    scratch.mkdir(parents=True, exist_ok=True)
    for cases in (single_arrays, many_arrays, identities, written, refused):
        folder = scratch / cases.__name__
        folder.mkdir()
        cases(report, folder)
