"""From one format to another, and what APR2 itself promises."""

import json

import program
from judges import llama_differences, read_apr, read_gguf, read_safetensors, read_safetensors_folder
from models import Model, differences
from report import Failure
from same import agree, same_file
from seed import random_of
from writers import every_key, safetensors_tensors, tensors_of, write_gguf, write_safetensors, write_safetensors_folder

# What both GGUF and SafeTensors have.
SHARED = ["F32", "F16", "BF16", "F64", "I8", "I16", "I32", "I64"]


def gguf_through_safetensors(report, scratch):
    random = random_of("crossing")
    folder = scratch / "gguf"
    (path,), want = write_gguf(folder / "m.gguf", every_key(random), tensors_of(random, SHARED * 3), alignment=64)

    def there():
        middle = program.convert(path, folder / "m.safetensors")
        agree(differences(want.sorted(), read_safetensors(middle), keys=False))
    report.step("gguf to safetensors: the package reads the same tensors", there)

    def back():
        again = program.convert(folder / "m.safetensors", folder / "back.gguf")
        found = read_gguf(again)
        agree(differences(want.sorted(), found.sorted(), keys=False))
        agree(differences(Model([], want.keys), Model([], found.keys), "keys"))
        agree(llama_differences(Model(found.tensors, want.keys), again))
    report.step("gguf to safetensors to gguf: every tensor and key, read by the package and llama.cpp", back)

    def by_apr():
        middle = program.convert(path, folder / "m.apr")
        crossed = program.convert(middle, folder / "crossed.safetensors")
        agree(differences(want.sorted(), read_safetensors(crossed), keys=False))
        again = program.convert(crossed, folder / "crossed.apr")
        agree(differences(want.sorted(), read_apr(again).sorted(), keys=False))
    report.step("gguf to APR to safetensors to APR: judged by the package and by the specification", by_apr)

    def quantized_is_refused():
        (quantized,), _ = write_gguf(folder / "q.gguf", [], tensors_of(random, ["Q4_K"]))
        said = program.refuses(4, "convert", quantized, folder / "q.safetensors", "--arch", "none")
        if "Q4_K" not in said or (folder / "q.safetensors").exists():
            raise Failure(said)
    report.step("gguf to safetensors: blocks that safetensors lacks are refused, nothing is written", quantized_is_refused)


def safetensors_through_gguf(report, scratch):
    random = random_of("other way")
    folder = scratch / "safetensors"
    # The package `gguf` cannot read a BF16 scalar; GGUF has at most four dimensions.
    dtypes = ["float32", "float16", "bfloat16", "float64", "int8", "int16", "int32", "int64"]
    path = folder / "m.safetensors"
    want = write_safetensors(path, safetensors_tensors(random, dtypes, 3, dims=(1, 4)), {"format": "pt"})

    def there():
        middle = program.convert(path, folder / "m.gguf")
        found = read_gguf(middle)
        agree(differences(want, found.sorted(), keys=False))
        agree(llama_differences(found, middle))
    report.step("safetensors to gguf: the package and llama.cpp read the same tensors", there)

    def back():
        again = program.convert(folder / "m.gguf", folder / "back.safetensors")
        agree(differences(want, read_safetensors(again), keys=False))
    report.step("safetensors to gguf to safetensors: every tensor", back)

    def kept():
        program.convert(path, folder / "kept.gguf", "--foreign", "keep")
        found = read_safetensors(program.convert(folder / "kept.gguf", folder / "kept.safetensors"))
        # The dialect came with the GGUF: apr carries it in one key of its own.
        agree(differences(want, found.without_keys("apr.foreign")))
    report.step("safetensors to gguf to safetensors with --foreign keep: every tensor and all metadata", kept)

    def too_many_dimensions():
        deep = folder / "deep.safetensors"
        write_safetensors(deep, safetensors_tensors(random, dtypes, dims=(5, 8)), None)
        program.refuses(4, "convert", deep, folder / "deep.gguf", "--arch", "none")
        if (folder / "deep.gguf").exists():
            raise Failure("the refused output is there")
    report.step("safetensors to gguf: five dimensions are refused, nothing is written", too_many_dimensions)


def sharded_everywhere(report, scratch):
    random = random_of("sharded everywhere")
    dtypes = ["float32", "float16", "bfloat16", "int64", "int8"]
    source = scratch / "chain" / "model"
    want = write_safetensors_folder(source, safetensors_tensors(random, dtypes, 3, dims=(1, 4)), 3, {"format": "pt"})
    size = max(sum(len(t.data) for t in want.tensors) // 3, max(len(t.data) for t in want.tensors))

    def chain():
        at = source
        for number, to in enumerate(["gguf", "apr", "gguf", "safetensors"]):
            at = program.convert(at, scratch / "chain" / f"{number}-{to}", "--to", to, "--max-shard-size", size)
            if len(list(at.iterdir())) < 2:
                raise Failure(f"{at} is not split")
        found = read_safetensors_folder(at)
        agree(differences(want, found, keys=False))
    report.step("safetensors shards to gguf parts to APR shards to gguf parts to safetensors shards: every tensor", chain)


def shards_of_apr(report, scratch):
    random = random_of("shards of apr")
    folder = scratch / "apr"
    (path,), want = write_gguf(folder / "m.gguf", every_key(random), tensors_of(random, SHARED + ["Q4_K", "Q6_K", "IQ2_XXS"]))

    def sharded():
        out = program.convert(path, folder / "shards", "--to", "apr", "--max-shard-size", "100K")
        manifests = [p for p in out.iterdir() if p.read_bytes()[:1] == b"{"]
        if len(manifests) != 1 or len(list(out.iterdir())) < 4:
            raise Failure(f"the folder has {sorted(p.name for p in out.iterdir())}")
        agree(differences(want.sorted(), read_apr(manifests[0]).sorted(), "shards", keys=False))
        same_file(path, program.convert(out, folder / "from-shards.gguf"))
        whole = program.convert(out, folder / "whole.apr")
        agree(differences(want, read_apr(whole), "whole", keys=False))
    report.step("APR shards: right by the specification, and the same GGUF comes out of them", sharded)

    def again():
        one = program.convert(path, folder / "1.apr")
        same_file(one, program.convert(one, folder / "2.apr"))
        threaded = [program.convert(path, folder / f"threads-{n}.apr", "-j", n) for n in (1, 2, 7)]
        for other in threaded:
            same_file(one, other)
    report.step("APR to APR, and any number of threads: the same sha256", again)

    def other_policies():
        kept = program.convert(path, folder / "kept.apr", "--foreign", "keep", "--verify", "full")
        same_file(path, program.convert(kept, folder / "kept.gguf", "--foreign", "keep", "--verify", "full"))
        dropped = program.convert(path, folder / "dropped.apr", "--foreign", "drop")
        agree(differences(Model(want.tensors, []), read_apr(dropped), "dropped"))
        bare = program.convert(dropped, folder / "bare.gguf")
        agree(differences(want, read_gguf(bare), keys=False))
        agree(llama_differences(Model(want.tensors, read_gguf(bare).keys), bare))
    report.step("--foreign keep and drop: the same sha256, and the tensors alone", other_policies)

    def planned():
        said = json.loads(program.must("convert", path, folder / "unwritten.apr", "--plan", "--json", "--arch", "none"))
        size = (folder / "1.apr").stat().st_size
        if size not in numbers_in(said) or (folder / "unwritten.apr").exists():
            raise Failure(f"--plan does not say {size}: {str(said)[:300]}")
    report.step("--plan says the size to the byte, and writes nothing", planned)

    def checksum():
        program.must("validate", folder / "1.apr", "--checksum")
    report.step("apr validate --checksum passes what apr wrote", checksum)


def numbers_in(value):
    if isinstance(value, dict):
        value = list(value.values())
    return [n for v in value for n in numbers_in(v)] if isinstance(value, list) else [value]


def run(report, scratch):
    gguf_through_safetensors(report, scratch)
    safetensors_through_gguf(report, scratch)
    sharded_everywhere(report, scratch)
    shards_of_apr(report, scratch)
