"""Says how renewed fixtures differ from those checked in: `compare_renewed.py CHECKED_IN RENEWED [--write]`.

The package safetensors writes the keys of `__metadata__` in the order of a hash map, another one each time: a file with
the same bytes in another order, and a golden manifest with the same JSON, count as unchanged and are never written.
"""

import json
import shutil
import sys
from pathlib import Path

IGNORED = {"README.md", "rejects", "__pycache__"}


def files_in(folder):
    found = (p.relative_to(folder) for p in folder.rglob("*") if p.is_file())
    return {str(p) for p in found if p.parts[0] not in IGNORED and p.suffix != ".py"}


def same(one, two):
    a, b = one.read_bytes(), two.read_bytes()
    if a == b:
        return True
    if one.suffix == ".json":
        return json.loads(a) == json.loads(b)
    return b"__metadata__" in a and sorted(a) == sorted(b)


def main():
    checked_in, renewed = Path(sys.argv[1]), Path(sys.argv[2])
    old, new = files_in(checked_in), files_in(renewed)
    lines = [f"not made by a generator: {name}" for name in sorted(old - new)]
    lines += [f"new: {name}" for name in sorted(new - old)]
    changed = [name for name in sorted(old & new) if not same(checked_in / name, renewed / name)]
    lines += [f"changed: {name}" for name in changed]
    if "--write" in sys.argv:
        for name in [*changed, *sorted(new - old)]:
            (checked_in / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(renewed / name, checked_in / name)
    print(f"{checked_in}: {len(old & new)} files made again, {len(lines)} differ")
    for line in lines:
        print(f"  {line}")
    return 1 if lines else 0


sys.exit(main())
