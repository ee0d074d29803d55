"""Compiles the kernels of cuda/ to PTX, for each generation of devices, and checks what the assembler makes of them.

    compile.py          writes the bundles of ptx/ and ptx/lock.txt
    compile.py --check  compiles again and compares: sources with the lock, kernels with those of the bundles; nothing is written

A bundle is the text of a generation's modules, one after the other in the order of the lock, compressed by zstd. The lock has the
digest of each bundle, and the digest and the size of each module; build.rs unpacks them.

NVRTC puts some instructions of large kernels in another order from run to run, depending on where its memory lies: so modules need
not be the same to the byte, and how many are is printed.

It needs the Python packages of requirements.txt, and no GPU; compile.sh fetches them.
"""

import ctypes
import hashlib
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import zstandard

HERE = Path(__file__).resolve().parent
SOURCES, PTX = HERE / "cuda", HERE / "ptx"
# What NVRTC 12.4 writes is newer than drivers of CUDA 12.0 take; the instructions are all in these versions.
GENERATIONS = {"compute_70": ("7.4", "sm_70"), "compute_80": ("7.4", "sm_80"), "compute_90": ("7.8", "sm_90")}
OPTIONS = ["--std=c++17", "--include-path=cuda"]
# Range reduction of large angles needs a stack; nothing else may, and matrix kernels may spill no register.
STACK_IN = {"apr_turn"}
# The oldest generation's assembler spills a few bytes for eight tokens at a time.
MAY_SPILL = {"sm_70"}


def package(name):
    """The folder of one of NVIDIA's packages."""
    for path in sys.path:
        folder = Path(path) / "nvidia" / name
        if folder.is_dir():
            return folder
    sys.exit(f"the Python package for {name} is missing; see requirements.txt")


class Nvrtc:
    """NVIDIA's compiler as a library."""

    def __init__(self):
        self.library = ctypes.CDLL(str(package("cuda_nvrtc") / "lib/libnvrtc.so.12"))

    def version(self):
        major, minor = ctypes.c_int(), ctypes.c_int()
        self.library.nvrtcVersion(ctypes.byref(major), ctypes.byref(minor))
        return f"{major.value}.{minor.value}"

    def text(self, program, what):
        size = ctypes.c_size_t()
        getattr(self.library, f"nvrtcGet{what}Size")(program, ctypes.byref(size))
        text = ctypes.create_string_buffer(size.value)
        getattr(self.library, f"nvrtcGet{what}")(program, text)
        return text.value.decode()

    def compile(self, source, generation):
        program = ctypes.c_void_p()
        self.library.nvrtcCreateProgram(
            ctypes.byref(program), source.read_bytes(), source.name.encode(), 0, None, None)
        options = [option.encode() for option in [f"--gpu-architecture={generation}", *OPTIONS]]
        result = self.library.nvrtcCompileProgram(
            program, len(options), (ctypes.c_char_p * len(options))(*options))
        if result:
            sys.exit(f"{source.name}, {generation}:\n{self.text(program, 'ProgramLog')}")
        ptx = self.text(program, "PTX")
        self.library.nvrtcDestroyProgram(ctypes.byref(program))
        ptx, count = re.subn(r"^\.version .*$", f".version {GENERATIONS[generation][0]}", ptx, flags=re.MULTILINE)
        assert count == 1
        # Indentation and empty lines are a good part of the text; a hint that older versions do not know goes as well.
        lines = (line.strip() for line in ptx.splitlines())
        return "".join(f"{line}\n" for line in lines if line and not line.startswith(("//", '.pragma "used_bytes_mask')))


def compile_alone(job):
    """One module for one generation, in a process of its own whose memory lies where it always does: otherwise the order of some
    instructions changes from run to run."""
    alone = ["setarch", "-R", sys.executable, "-B", __file__, "--one", job[0], job[1].name]
    made = subprocess.run(alone, capture_output=True, text=True, env={"PYTHONPATH": ":".join(sys.path), "PYTHONHASHSEED": "0"})
    if made.returncode:
        sys.exit(made.stderr)
    return made.stdout


def assemble(ptx, target):
    """Lines on registers and memory of each kernel; ends the program where one spills."""
    with tempfile.NamedTemporaryFile(suffix=".ptx") as file:
        file.write(ptx.encode())
        file.flush()
        made = subprocess.run(
            [package("cuda_nvcc") / "bin/ptxas", "-v", f"-arch={target}", file.name, "-o", os.devnull],
            capture_output=True, text=True)
    if made.returncode:
        sys.exit(f"{target}: {made.stderr}")
    lines, name, stack = [], None, None
    for line in made.stderr.splitlines():
        if found := re.search(r"Compiling entry function '(\w+)'", line):
            name = found[1]
        elif found := re.search(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", line):
            stack = [int(number) for number in found.groups()]
        elif found := re.search(r"Used (\d+) registers", line):
            if any(stack) and name not in STACK_IN and target not in MAY_SPILL:
                sys.exit(f"{target}: {name} needs {stack[0]} bytes of stack, and spills {stack[1]} bytes")
            lines.append(f"{target} {name}: {found[1]} registers, {stack[1]} bytes spilled")
    return lines


def digest(data):
    return hashlib.sha256(data).hexdigest()


def bundle(texts, generation):
    """The modules of a generation as one compressed text."""
    text = "".join(text for (of, _), text in sorted(texts.items()) if of == generation)
    return zstandard.ZstdCompressor(level=19).compress(text.encode())


def unbundle(locked, generation):
    """The modules of a generation's bundle, by name."""
    packed = (PTX / f"{generation}.zst").read_bytes()
    if f"{digest(packed)}  ptx/{generation}.zst" not in locked.splitlines():
        sys.exit(f"ptx/{generation}.zst is not the one that the lock names: run compile.py")
    text, at, texts = zstandard.ZstdDecompressor().decompress(packed), 0, {}
    for name, size in re.findall(rf"  ptx/{generation}/(\w+)\.ptx  (\d+)$", locked, flags=re.MULTILINE):
        texts[name] = text[at:at + int(size)].decode()
        at += int(size)
    return texts


def lock(compiler, texts):
    lines = [f"compiler NVRTC {compiler}", f"options {' '.join(OPTIONS)}"]
    lines += [f"{digest(path.read_bytes())}  cuda/{path.name}" for path in sorted(SOURCES.iterdir())]
    lines += [f"{digest(bundle(texts, generation))}  ptx/{generation}.zst" for generation in GENERATIONS]
    lines += [f"{digest(text.encode())}  ptx/{generation}/{name}.ptx  {len(text.encode())}"
              for (generation, name), text in sorted(texts.items())]
    return "\n".join(lines) + "\n"


def without_modules(locked):
    """The lines of a lock on the compiler and the sources."""
    return [line for line in locked.splitlines() if "  ptx/" not in line]


def entries(ptx):
    """The kernels of a module, with the bytes of their parameters."""
    return sorted(re.findall(r"^\.visible \.entry (\w+)\(\s*\.param (.+?)\s*\)", ptx, flags=re.MULTILINE | re.DOTALL))


def main():
    os.chdir(HERE)
    if sys.argv[1:2] == ["--one"]:
        print(Nvrtc().compile(SOURCES / sys.argv[3], sys.argv[2]), end="")
        return
    nvrtc, check = Nvrtc(), "--check" in sys.argv[1:]
    jobs = [(generation, source) for source in sorted(SOURCES.glob("*.cu")) for generation in GENERATIONS]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        texts = {(generation, source.stem): text for (generation, source), text in zip(jobs, pool.map(compile_alone, jobs))}
        reports = pool.map(lambda item: assemble(item[1], GENERATIONS[item[0][0]][1]), texts.items())
        for lines in reports:
            print("\n".join(lines))
    locked = lock(nvrtc.version(), texts)
    if check:
        there_locked = (PTX / "lock.txt").read_text()
        made, there = without_modules(locked), without_modules(there_locked)
        if made != there:
            sys.exit("ptx/ was made of other sources, or by another compiler: run compile.py")
        same, bundles = 0, {generation: unbundle(there_locked, generation) for generation in GENERATIONS}
        for (generation, name), text in texts.items():
            held = bundles[generation].get(name, "")
            same += held == text
            if entries(held) != entries(text):
                sys.exit(f"{name} of ptx/{generation}.zst has other kernels than cuda/{name}.cu: run compile.py")
            assemble(held, GENERATIONS[generation][1])
        print(f"{same} of {len(texts)} modules are the same to the byte, and all have the same kernels")
        return
    for generation in GENERATIONS:
        (PTX / f"{generation}.zst").write_bytes(bundle(texts, generation))
    (PTX / "lock.txt").write_text(locked)


if __name__ == "__main__":
    main()
