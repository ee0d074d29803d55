"""Our architecture tables, judged by the schema that editors take (`plugins/architectures/table.schema.json`), with the validator that
CycloneDX's library brings along."""

import json
import os
import subprocess

from judges import ROOT
from report import Failure, Skipped

JUDGE = """
import json, sys, tomllib
from jsonschema import Draft7Validator
asked = json.load(sys.stdin)
Draft7Validator.check_schema(asked["schema"])
schema = Draft7Validator(asked["schema"])
wrong = [f"{name}: {list(e.absolute_path)}: {e.message}" for name, text in asked["tables"].items() for e in schema.iter_errors(tomllib.loads(text))]
sys.exit("\\n".join(wrong)[:2000] if wrong else 0)
"""


def judged(python, schema, tables):
    asked = json.dumps({"schema": schema, "tables": tables})
    done = subprocess.run([python, "-c", JUDGE], input=asked, capture_output=True, text=True, timeout=300)
    return done.stderr.strip() if done.returncode else ""


def run(report, scratch):
    def fits():
        python = os.environ.get("APR_INTEROP_CYCLONEDX")
        if not python:
            raise Skipped("CycloneDX's library is not there")
        schema = json.loads((ROOT / "plugins/architectures/table.schema.json").read_text())
        tables = {path.stem: path.read_text() for path in (ROOT / "plugins/architectures/tables").glob("*.toml")}
        if said := judged(python, schema, tables):
            raise Failure(said)
        # The judge must be able to say no.
        if not judged(python, schema, {"wrong": 'id = "wrong"\nbases = "llama"\n'}):
            raise Failure("a key that no table has is not seen")

    report.step("every architecture table fits the schema for editors", fits)
