"""ONNX: apr reads whatever the package writes and leaves graphs as they are; what it writes is valid and computes the same."""

import program
from judges import read_apr, read_safetensors
from models import Model, Tensor, differences
from onnx_judge import (
    DTYPES,
    computes,
    every_tensor,
    graph_without_values,
    needed,
    onnx,
    read_onnx,
    same_outputs,
    valid,
)
from report import Failure, Skipped
from same import agree, listed_by_apr, same_file
from seed import random_of
from writers import safetensors_tensors, tensors_of, write_gguf, write_safetensors

if onnx:
    import onnx_models as models

# The dtypes that SafeTensors and ONNX both have.
SHARED = ["bool", "uint8", "int8", "float8_e5m2", "float8_e4m3fn", "float8_e8m0fnu", "float8_e4m3fnuz", "float8_e5m2fnuz", "int16",
          "uint16", "float16", "bfloat16", "int32", "uint32", "float32", "complex64", "float64", "int64", "uint64",
          "float4_e2m1fn_x2"]


def same_but_for_names(want, found, where=""):
    """Of tensors in nodes and subgraphs, apr's names are its own: everything else must be there, as often."""
    wanted, got = (sorted(t.facts()[1:] for t in model.tensors) for model in (want, found))
    agree([f"{where}: {len(got)} tensors {only(got, wanted)}, expected {len(wanted)} {only(wanted, got)}"] if wanted != got else [])


def only(some, others):
    return [facts for facts in some if facts not in others][:4]


def listed_but_for_names(path, want):
    rows = program.tensors(path)
    same_but_for_names(want, Model([Tensor(r["name"], r["dtype"], tuple(r["shape"]), sha256=r["sha256"]) for r in rows]), "apr tensors")
    if len({row["name"] for row in rows}) != len(rows):
        raise Failure(f"two tensors of {path} have one name")


def reading(report, scratch):
    for place in models.PLACES:
        def every_type(place=place):
            path = models.save(scratch / place / "types.onnx", models.every_type(random_of(f"onnx {place}"), place),
                               external=place == "external")
            want = read_onnx(path)
            if {tensor.dtype for tensor in want.tensors} != set(DTYPES.values()):
                raise Failure("a type is missing")
            listed_by_apr(path, want)
        report.step(f"onnx every type, {place}: apr lists what the package reads", every_type)

    def in_nodes():
        made, _ = models.everywhere(random_of("everywhere"))
        path = models.save(scratch / "everywhere.onnx", made)
        listed_but_for_names(path, every_tensor(path))
        rows = {row["name"]: row["sha256"] for row in program.tensors(path)}
        agree([f"initialiser {t.name} is not there by its name" for t in read_named(path) if rows.get(t.name) != t.sha256])
    report.step("onnx everywhere: sparse ones, constants, branches, functions: apr lists what the package reads", in_nodes)


def read_named(path):
    """The dense initialisers but the texts, which are no tensors to apr."""
    model = onnx.load(path)
    return [t for t in every_tensor(path).tensors if t.name in {i.name for i in model.graph.initializer}]


def drawn():
    """Name, model, inputs, options of the writer. The check wants shapes in the model, and they are short."""
    for name in ("perceptron", "convolution"):
        for place in models.PLACES:
            made, inputs = getattr(models, name)(random_of(f"{name} {place}"), place)
            yield f"{name}, {place}", made, inputs, {"external": True, "threshold": 60} if place == "external" else {}
    made, inputs = models.everywhere(random_of("everywhere"))
    yield "everywhere", made, inputs, {}
    made, inputs = models.perceptron(random_of("one file for each"))
    yield "perceptron, a file for each tensor", made, inputs, {"external": True, "all_tensors_to_one_file": False}


def graphs(report, scratch):
    for name, made, inputs, options in drawn():
        folder = scratch / name.replace(", ", "-").replace(" ", "-")
        runs, exact = name != "everywhere", name != "everywhere" and "typed" not in name

        def written(made=made, options=options, folder=folder, inputs=inputs, runs=runs):
            if options.get("all_tensors_to_one_file") is False:
                folder.mkdir(parents=True)
                onnx.save_model(made, folder / "m.onnx", save_as_external_data=True, all_tensors_to_one_file=False, size_threshold=0)
            else:
                models.save(folder / "m.onnx", made, **options)
            valid(folder / "m.onnx")
            if runs:
                computes(folder / "m.onnx", inputs)
            listed_but_for_names(folder / "m.onnx", every_tensor(folder / "m.onnx"))
        report.step(f"onnx {name}: the package's model is valid, computes, and apr lists its tensors", written)

        def there_and_back(folder=folder, exact=exact):
            (scratch / f"{folder.name}-middle").mkdir()
            middle = program.convert(folder / "m.onnx", scratch / f"{folder.name}-middle" / "m.apr")
            back = program.convert(middle, scratch / f"{folder.name}-back", "--to", "onnx") / "m.onnx"
            if not exact:
                # Numbers in lists become bytes in a row; nothing else changes.
                same_but_for_names(every_tensor(folder / "m.onnx"), every_tensor(back))
                if graph_without_values(back) != graph_without_values(folder / "m.onnx"):
                    raise Failure("the graph is another one")
                return
            for path in sorted(folder.glob("*")):
                same_file(path, back.parent / path.name)
        what = "the same sha256 of the model and of what lies beside it" if exact else "the same graph and tensors"
        report.step(f"onnx {name}: through APR: {what}", there_and_back)

        def elsewhere(folder=folder, inputs=inputs, runs=runs):
            for number, arguments in enumerate((["--foreign", "typed"], ["--external-data"], ["--single-file"])):
                (folder / f"o{number}").mkdir()
                out = program.convert(folder / "m.onnx", folder / f"o{number}" / "m.onnx", *arguments)
                valid(out)
                same_but_for_names(every_tensor(folder / "m.onnx"), every_tensor(out), str(arguments))
                if graph_without_values(out) != graph_without_values(folder / "m.onnx"):
                    raise Failure(f"{arguments}: the graph is another one")
                if runs:
                    same_outputs(folder / "m.onnx", out, inputs)
            if not has_external(folder / "o1" / "m.onnx") or has_external(folder / "o2" / "m.onnx"):
                raise Failure("--external-data or --single-file does nothing")
        report.step(f"onnx {name}: written anew, with external data, in one file: valid, the same graph and outputs", elsewhere)


def has_external(path):
    return any(t.data_location == onnx.TensorProto.EXTERNAL for t in onnx.load(path, load_external_data=False).graph.initializer)


def weights_only(report, scratch):
    random = random_of("to onnx")
    safetensors = scratch / "m.safetensors"
    want = in_onnx(write_safetensors(safetensors, safetensors_tensors(random, SHARED, 2), None))

    def plain():
        path = program.convert(safetensors, scratch / "m.onnx")
        valid(path)
        agree(differences(want, read_onnx(path).sorted()))
    report.step("onnx from safetensors: without a graph: the full check accepts it, the package reads the same tensors", plain)

    def external():
        (scratch / "external").mkdir()
        path = program.convert(safetensors, scratch / "external" / "m.onnx", "--external-data")
        valid(path)
        agree(differences(want, read_onnx(path).sorted()))
        if not has_external(path):
            raise Failure("nothing lies beside it")
    report.step("onnx from safetensors with external data: the full check accepts it, the package reads the same tensors", external)

    def loads():
        import onnxruntime
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        (gguf,), named = write_gguf(scratch / "m.gguf", [], tensors_of(random, ["F32", "F16", "F64", "I8", "I32", "I64"]))
        path = program.convert(gguf, scratch / "gguf.onnx")
        agree(differences(named.sorted(), read_onnx(path).sorted(), keys=False))
        onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    report.step("onnx from gguf: the package reads the same tensors, onnxruntime loads it", loads)

    for tag, metadata in (("without", None), ("with", {"format": "pt", "é": "\n"})):
        def middle_is_onnx(tag=tag, metadata=metadata):
            path = scratch / f"{tag}.safetensors"
            tensors = in_onnx(write_safetensors(path, safetensors_tensors(random, SHARED, 2), metadata))
            middle = program.convert(path, scratch / f"{tag}.onnx")
            valid(middle)
            agree(differences(tensors, read_onnx(middle).sorted(), keys=False))
            same_file(path, program.convert(middle, scratch / f"{tag}-back.safetensors"))
        report.step(f"safetensors {tag} metadata: through ONNX: the same sha256", middle_is_onnx)

    def to_safetensors():
        made, _ = models.convolution(random_of("to safetensors"))
        path = models.save(scratch / "graph.onnx", made)
        found = read_safetensors(program.convert(path, scratch / "graph.safetensors"))
        same_but_for_names(every_tensor(path), found)
    report.step("onnx with a graph to safetensors: the package reads the same tensors", to_safetensors)

    def in_apr():
        made, _ = models.perceptron(random_of("to apr"))
        path = models.save(scratch / "right.onnx", made)
        found = read_apr(program.convert(path, scratch / "right.apr"), "onnx")
        agree(differences(read_onnx(path).sorted(), found.sorted(), keys=False))
    report.step("onnx to APR: right by its specification, the same tensors", in_apr)


def casts(report, scratch):
    """A cast of a kept graph is refused, since no node of it is changed; as weights alone it is valid in the new types."""
    for name in ("perceptron", "convolution"):
        def refused(name=name):
            made, inputs = getattr(models, name)(random_of(f"cast {name}"))
            path = models.save(scratch / name / "m.onnx", made)
            computes(path, inputs)
            for through in ("m.onnx", "m.apr"):
                source = path if through == "m.onnx" else program.convert(path, scratch / name / "m.apr")
                for dtype in ("f16", "bf16", "f64"):
                    out = scratch / name / f"{through}-{dtype}.onnx"
                    said = program.refuses(4, "convert", source, out, "--arch", "none", "--precision", dtype)
                    if "--unset onnx.graph" not in said or out.exists():
                        raise Failure(f"no way out, or the output is there: {said}")
                    program.convert(source, out, "--precision", dtype, "--unset", "onnx.graph")
                    valid(out)
                    if onnx.load(out).graph.node or not any(row["dtype"] == dtype.upper() for row in program.tensors(out)):
                        raise Failure(f"{out} is not the weights as {dtype}")
                back = program.convert(source, scratch / name / f"{through}-same.onnx")
                valid(back)
                same_outputs(path, back, inputs)
        report.step(f"onnx {name}: a cast is refused with the graph, and is right without it", refused)


def in_onnx(model):
    for tensor in model.tensors:
        tensor.dtype = {"F4": "F4_E2M1"}.get(tensor.dtype, tensor.dtype)
    return model


def confined(report, scratch):
    """External data outside the model's folder is not read."""
    outside = scratch / "outside.bin"
    for tag, location in (("parent", "../outside.bin"), ("absolute", str(outside)), ("link", "link.bin"), ("device", "/dev/zero")):
        def refuses(tag=tag, location=location):
            outside.write_bytes(bytes(4096))
            folder = scratch / tag
            tensor = onnx.TensorProto(name="w", data_type=1, dims=[64, 16], data_location=onnx.TensorProto.EXTERNAL)
            tensor.external_data.add(key="location", value=location)
            tensor.external_data.add(key="length", value="4096")
            path = models.save(folder / "m.onnx", models.of_tensors([]))
            model = onnx.load(path, load_external_data=False)
            model.graph.initializer.append(tensor)
            path.write_bytes(model.SerializeToString())
            (folder / "link.bin").symlink_to(outside)
            program.refuses(4, "convert", path, folder / "m.apr", "--arch", "none")
            if (folder / "m.apr").exists():
                raise Failure("the refused output is there")
        report.step(f"onnx: external data by {tag}, outside the model's folder, is refused", refuses)


def run(report, scratch):
    try:
        needed()
    except Skipped as reason:
        report.skip("onnx: everything that the packages onnx and onnxruntime judge", reason)
        return
    print(f"judge: onnx {onnx.__version__}", flush=True)
    for cases in (reading, graphs, weights_only, casts, confined):
        folder = scratch / cases.__name__
        folder.mkdir(parents=True)
        cases(report, folder)
