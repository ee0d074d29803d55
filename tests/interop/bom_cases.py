"""Bills of materials, judged by the schema that CycloneDX's own library brings, and by hashlib."""

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path

import program
from report import Failure, Skipped

ROOT = Path(__file__).parent.parent.parent
MODEL = ROOT / "tests/cli/book/whole_model"
JUDGE = """
import sys
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
wrong = JsonStrictValidator(SchemaVersion.V1_6).validate_str(sys.stdin.read())
sys.exit(0 if wrong is None else str(wrong)[:2000])
"""
CARDS = {
    "none": None,
    "spdx": "---\nlicense: apache-2.0\nbase_model: [someone/base, someone/other]\n---\n",
    "other": "---\nlicense: gemma\nlicense_name: <b>odd \\u0001</b>\n---\n",
}


def judged(python, path, *args):
    """The bill of `path`, if the schema allows it and its digests are those of the files."""
    text = program.must("inspect", path, "--bom", *args)
    done = subprocess.run([python, "-c", JUDGE], input=text, capture_output=True, text=True, timeout=120)
    if done.returncode != 0:
        raise Failure(f"{path}: {done.stderr.strip()}")
    bill = json.loads(text)
    folder = path if path.is_dir() else path.parent
    for file in bill["components"]:
        digest = hashlib.sha256((folder / file["name"]).read_bytes()).hexdigest()
        if file["hashes"] != [{"alg": "SHA-256", "content": digest}]:
            raise Failure(f"{path}: {file['name']}: {file['hashes']}, hashlib has {digest}")
    return bill


def run(report, scratch):
    python = os.environ.get("APR_INTEROP_CYCLONEDX")

    def bills():
        if not python:
            raise Skipped("CycloneDX's library is not there")
        scratch.mkdir(parents=True, exist_ok=True)
        for name, card in CARDS.items():
            folder = scratch / name
            folder.mkdir()
            for file in ("config.json", "model.safetensors"):
                shutil.copy(MODEL / file, folder)
            if card is not None:
                (folder / "README.md").write_text(card)
            judged(python, folder)
            output = program.convert(folder, scratch / f"{name}.apr")
            bill = judged(python, output, "--json")
            properties = {entry["name"] for entry in bill["metadata"]["component"]["properties"]}
            if "apr:provenance:input:0:crc32" not in properties:
                raise Failure(f"{output}: what it was made from is not said: {sorted(properties)}")
        bill = judged(python, ROOT / "plugins/gguf/tests/data/split/split-00002-of-00003.gguf")
        if len(bill["components"]) != 3:
            raise Failure(f"a split of three files has {len(bill['components'])}")

    report.step("bom: the schema of CycloneDX 1.6 allows each bill, and its digests are those of the files", bills)
