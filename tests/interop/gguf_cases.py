"""GGUF: files of the package come back to the byte; what apr writes is read by the package and by llama.cpp."""

import gguf

import program
from judges import (
    NESTED,
    TOO_LONG,
    as_carried,
    llama_differences,
    llama_refuses,
    read_apr,
    read_gguf,
    rewrite_with_llama,
)
from models import GGML, Key, Model, Tensor, differences
from report import Failure, Skipped
from same import agree, judged_by_apr, same_file, same_folder
from seed import random_of
from writers import every_key, nested_keys, payload, tensors_of, write_gguf

SPLIT_KEYS = ("split.no", "split.count", "split.tensors.count")
# What the package's enum has; Q8_1 is read with a wrong size there, and it lacks Q2_0.
PACKAGE_TYPES = [name for name in GGML if name not in ("Q8_1", "Q2_0")]


def cases():
    """Name, keys, tensors, options of the writer. Each is written anew in every run."""
    random = random_of("gguf")
    types = tensors_of(random, PACKAGE_TYPES)
    yield "types", [("general.quantization_version", "u32", 2)], types, {}
    yield "keys", every_key(random), tensors_of(random, ["F32", "Q8_0"]), {}
    yield "nested", nested_keys(), tensors_of(random, ["F32", "F16"]), {}
    yield "only-keys", every_key(random), [], {}
    yield "only-tensors", [], tensors_of(random, ["F16"] * 200, most=300), {}
    yield "odd-shapes", [], odd_shapes(random), {}
    for alignment in (8, 16, 64, 256, 4096, 65536):
        yield f"align-{alignment}", [("interop.n", "u32", 5)], tensors_of(random, ["F32", "Q4_K", "I8", "F64"]), {"alignment": alignment}
    large = [Tensor(f"large.{n}", dtype, shape, payload(random, shape, dtype)) for n, (dtype, shape) in enumerate([
        ("F32", (700, 1024)), ("Q6_K", (64, 4096)), ("BF16", (3, 900_001)), ("I8", (5_000_003,)), ("Q4_0", (9, 100, 3200))])]
    yield "large", every_key(random), large, {}


def odd_shapes(random):
    shapes = [("scalar", "F32", ()), ("one", "F64", (1,)), ("ones", "I16", (1, 1, 1, 1)), ("column", "F16", (5, 1)),
              ("row", "I64", (1, 7)), ("odd", "I8", (3, 5, 7)), ("x" * 63, "I32", (2, 2)), ("é日😀", "F32", (3,)),
              ("", "I8", (9,)), ("sp ace/\\\"", "I8", (2,)), ("new\nline\x7f", "F64", (1, 3))]
    return [Tensor(name, dtype, shape, payload(random, shape, dtype)) for name, dtype, shape in shapes]


def judge_everything(want, path, where, llama=True):
    """Both readers of GGUF; llama.cpp only where it takes such a file."""
    agree(differences(want, read_gguf(path), where))
    if llama:
        agree(llama_differences(want, path))


def single(report, scratch, name, keys, tensors, options):
    folder = scratch / name
    (path,), want = write_gguf(folder / f"{name}.gguf", keys, tensors, **options)
    nested = any(key.kind.startswith("[[") for key in want.keys)
    for foreign in ("default", "typed"):
        def there_and_back():
            middle = program.convert(path, folder / f"{foreign}.apr", "--foreign", foreign)
            back = program.convert(middle, folder / f"{foreign}.gguf")
            same_file(path, back)
        report.step(f"gguf {name}: through APR, --foreign {foreign}: the same sha256", there_and_back)

    report.step(f"gguf {name}: apr lists what the package wrote", judged_by_apr, path, want)

    def rewritten():
        back = program.convert(path, folder / "rewritten.gguf", "--foreign", "typed")
        agree(differences(want, read_gguf(back), "gguf"))
    report.step(f"gguf {name}: the package reads apr's file, every tensor and key", rewritten)

    def by_llama():
        back = folder / "default.gguf"
        if nested:
            llama_refuses(path, NESTED)
            llama_refuses(back, NESTED)
        else:
            agree(llama_differences(want, back))
    what = "refuses the nested arrays, as it does in the package's file" if nested else "loads apr's file, every tensor and key"
    report.step(f"gguf {name}: llama.cpp {what}", by_llama)
    report.step(f"gguf {name}: the APR2 file is right by its specification and says the same", apr_is_right, want, folder / "default.apr")


def of_llama(report, scratch):
    """Files that ggml's own writer wrote come back to the byte too."""
    random = random_of("of llama")
    for name, keys, tensors in [
        ("types", [("general.quantization_version", "u32", 2)], tensors_of(random, GGML)),
        ("keys", every_key(random), tensors_of(random, ["F32", "Q4_K"])),
    ]:
        def there_and_back():
            folder = scratch / "llama" / name
            (made,), _ = write_gguf(folder / "made.gguf", keys, tensors)
            path = rewrite_with_llama(made, folder / "m.gguf")
            for foreign in ("default", "typed"):
                middle = program.convert(path, folder / f"{foreign}.apr", "--foreign", foreign)
                same_file(path, program.convert(middle, folder / f"{foreign}.gguf"))
        report.step(f"gguf {name} of llama.cpp's writer: through APR, default and typed: the same sha256", there_and_back)


def apr_is_right(want, path):
    found = read_apr(path)
    hidden = {key.name for key in found.keys if len(key.wire) == 32 and key.kind in ("arr", "str")}
    carried = [as_carried(key) if key.name in hidden and len(key.wire) > 60_000 else key for key in want.keys]
    agree(differences(Model(want.tensors, carried), found, "apr"))


def split(report, scratch, small_first):
    random = random_of(f"split {small_first}")
    name = "split-small-first" if small_first else "split"
    folder = scratch / name / "model"
    tensors = tensors_of(random, ["F32", "Q4_K", "F16", "I8", "BF16", "Q6_K", "F32", "Q8_0"])
    options = {"split_max_tensors": 3, "small_first_shard": small_first}
    paths, want = write_gguf(folder / "m.gguf", every_key(random), tensors, **options)

    for foreign in ("default", "typed"):
        def there_and_back(start, tag):
            middle = program.convert(start, scratch / name / f"{tag}.apr", "--foreign", foreign)
            back = program.convert(middle, scratch / name / f"{tag}", "--to", "gguf")
            same_folder(folder, back)
        starts = [folder, paths[-1]] if foreign == "default" else [paths[0]]
        for number, start in enumerate(starts):
            said = "the folder" if start == folder else f"part {paths.index(start) + 1}"
            report.step(f"gguf {name}: {said} through APR, --foreign {foreign}: every part the same sha256",
                        there_and_back, start, f"{foreign}-{number}")

    def merged():
        back = program.convert(folder, scratch / name / "merged.gguf")
        judge_everything(want, back, "merged")
    report.step(f"gguf {name}: merged into one file, read by the package and llama.cpp", merged)


def split_by_apr(report, scratch):
    """--max-shard-size: parts as llama.cpp wants them."""
    random = random_of("split by apr")
    tensors = tensors_of(random, ["F32", "F16", "Q4_K", "I8", "Q8_0", "BF16", "F32"], most=50_000)
    keys = [("llama.context_length", "u32", 77), ("interop.texts", "[str]", ["a", "b"])]
    (path,), want = write_gguf(scratch / "sized" / "m.gguf", keys, tensors)
    folder = scratch / "sized" / "parts"

    size = max(sum(len(t.data) for t in tensors) // 4, max(len(t.data) for t in tensors))

    def parts():
        program.convert(path, folder, "--to", "gguf", "--max-shard-size", size)
        found = sorted(folder.iterdir())
        if len(found) < 2:
            raise Failure(f"only {len(found)} parts")
        seen = []
        for number, part in enumerate(found):
            model = read_gguf(part)
            said = [Key.of("split.no", "u16", number), Key.of("split.count", "u16", len(found)),
                    Key.of("split.tensors.count", "i32", len(tensors))]
            first = want.keys if number == 0 else []
            named = {key.name: key for key in model.keys}
            agree([f"{part.name}: {key.name} is not right" for key in said if named.get(key.name) != key])
            agree(differences(Model([], first), Model([], model.without_keys(*SPLIT_KEYS).keys), part.name))
            seen += model.tensors
            agree_llama(model, part)
        agree(differences(want, Model(seen, want.keys), "all parts"))
        same_folder_names(found)
    report.step("gguf: --max-shard-size: parts, their keys and tensors, read by the package and llama.cpp", parts)

    def merged_again():
        back = program.convert(folder, scratch / "sized" / "again.gguf")
        agree(differences(want, read_gguf(back), "again"))
    report.step("gguf: apr's own parts become one file again", merged_again)


def agree_llama(model, part):
    try:
        agree(llama_differences(model, part))
    except Skipped:
        pass  # The package has judged the part; the single files say aloud that llama.cpp is missing.


def same_folder_names(paths):
    count = len(paths)
    wrong = [p.name for n, p in enumerate(paths) if not p.name.endswith(f"-{n + 1:05}-of-{count:05}.gguf")]
    agree([f"llama.cpp would not find {name}" for name in wrong])


def every_ggml_type(report, scratch):
    """The two types that the package cannot read: its writer can be made to write them, llama.cpp knows them."""
    random = random_of("beyond the package")
    tensors = tensors_of(random, ["Q8_1", "Q2_0", "F32"])
    (path,), want = write_gguf(scratch / "beyond" / "m.gguf", [], tensors)

    def there_and_back():
        middle = program.convert(path, scratch / "beyond" / "m.apr")
        same_file(path, program.convert(middle, scratch / "beyond" / "back.gguf"))
        agree(differences(want, read_apr(middle), "apr"))
    report.step("gguf Q8_1 and Q2_0: through APR: the same sha256", there_and_back)
    report.step("gguf Q8_1 and Q2_0: llama.cpp loads apr's file", lambda: agree(llama_differences(want, scratch / "beyond" / "back.gguf")))


def edits(report, scratch):
    """--set and --unset: the key changes, and nothing else does."""
    random = random_of("edits")
    keys = [("general.name", "str", "before"), ("interop.gone", "[i32]", [1, 2]), ("interop.u64", "u64", 2**63),
            ("interop.flag", "bool", False), ("interop.list", "[f32]", [0.5]), ("interop.last", "i8", -5)]
    (path,), want = write_gguf(scratch / "edits" / "m.gguf", keys, tensors_of(random, ["F32", "Q4_K", "F16"]))
    changed = [("general.architecture", "str", "llama"), ("general.name", "str", "after é"), ("interop.u64", "u64", 7),
               ("interop.flag", "bool", True), ("interop.list", "[f32]", [1.5, -2.0]), ("interop.last", "i8", -5),
               ("llama.context_length", "u32", 4096), ("interop.new", "[str]", ["x", ""]), ("interop.plain", "str", "text")]
    after = Model(want.tensors, [Key.of(*key) for key in changed])
    arguments = ["--set", "general.name=after é", "--unset", "interop.gone", "--set", "interop.u64=7",
                 "--set", "interop.flag=true", "--set", "interop.list=[1.5,-2.0]", "--set", "llama.context_length:u32=4096",
                 "--set", 'interop.new:[str]=["x",""]', "--set", "interop.plain:str=text"]

    def direct():
        judge_everything(after, program.convert(path, scratch / "edits" / "direct.gguf", *arguments), "edited")
    report.step("gguf: --set and --unset, read by the package and llama.cpp", direct)

    def from_apr():
        middle = program.convert(path, scratch / "edits" / "m.apr")
        judge_everything(after, program.convert(middle, scratch / "edits" / "from-apr.gguf", *arguments), "edited")
    report.step("gguf: --set and --unset on the way back from APR, read by the package and llama.cpp", from_apr)


def big_endian(report, scratch):
    """Big-endian files become little-endian ones with the same values."""
    random = random_of("big-endian")
    tensors = tensors_of(random, PACKAGE_TYPES)
    folder = scratch / "big"
    (path,), want = write_gguf(folder / "m.gguf", every_key(random), tensors, big=True)

    def of_the_writer():
        options = ("-O", "gguf.be-payload=little")
        middle = program.convert(path, folder / "m.apr", *options)
        agree(differences(want, read_apr(middle), "apr", keys=False))
        judge_everything(want, program.convert(middle, folder / "back.gguf"), "back")
        judge_everything(want, program.convert(path, folder / "direct.gguf", *options), "direct")
    report.step("gguf big-endian of the package's writer: the same values little-endian", of_the_writer)

    def of_the_converter():
        # The package's own byte order converter swaps blocks, as the specification says; it knows these types.
        from gguf.scripts import gguf_convert_endian as converter
        tensors = tensors_of(random, ["F32", "F16", "BF16", "Q4_0", "Q8_0", "Q4_K", "Q6_K", "MXFP4"])
        (path,), want = write_gguf(folder / "swapped.gguf", every_key(random), tensors)
        swap(converter, path)
        judge_everything(want, program.convert(path, folder / "unswapped.gguf"), "unswapped")
    report.step("gguf big-endian of the package's converter: the same values little-endian", of_the_converter)


def swap(converter, path):
    import argparse
    import builtins
    asked, builtins.input = builtins.input, lambda _: "YES"
    try:
        converter.logger.disabled = True
        converter.tqdm = Quiet
        converter.convert_byteorder(gguf.GGUFReader(path, "r+"), argparse.Namespace(order="big", dry_run=False))
    finally:
        builtins.input = asked


class Quiet:
    """A progress bar that says nothing."""

    def __init__(self, items, **_):
        self.items = items

    def __iter__(self):
        return iter(self.items)

    def set_description(self, _):
        pass


def refused(report, scratch):
    """What neither llama.cpp nor apr's writer may let through."""
    random = random_of("refused")
    long_name = Tensor("n" * 64, "F32", (4,), payload(random, (4,), "F32"))
    (path,), want = write_gguf(scratch / "refused" / "long.gguf", [], [long_name])

    def long_names():
        agree(differences(want, read_gguf(path)))
        middle = program.convert(path, scratch / "refused" / "long.apr")
        agree(differences(want, read_apr(middle), "apr"))
        program.refuses(4, "convert", middle, scratch / "refused" / "back.gguf", "--arch", "none")
        if (scratch / "refused" / "back.gguf").exists():
            raise Failure("the refused output is there")
    report.step("gguf: a name of 64 bytes is read, and not written", long_names)

    report.step("gguf: llama.cpp refuses a name of 64 bytes", llama_refuses, path, TOO_LONG)


def run(report, scratch):
    for case in cases():
        single(report, scratch, *case)
    for small_first in (False, True):
        split(report, scratch, small_first)
    split_by_apr(report, scratch)
    every_ggml_type(report, scratch)
    of_llama(report, scratch)
    edits(report, scratch)
    big_endian(report, scratch)
    refused(report, scratch)
