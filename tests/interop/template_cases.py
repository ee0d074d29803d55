"""The chat templates that llama.cpp ships, of some seventy model families, rendered by `apr tokenizer --chat` and by Jinja as
transformers sets it up: where Jinja renders, the text is equal; where Jinja fails, apr fails."""

import json
import os
import shutil
import subprocess
from pathlib import Path

import program
from judges import ROOT
from report import Failure, Skipped

MODEL = ROOT / "tests/model/weights"
CONVERSATIONS = json.loads((Path(__file__).resolve().parent / "conversations.json").read_text())
# 2 January 2026, 03:04:05, as in tests/tokenizers/chat.py.
NOW = "1767323045"
# A template of more families is no reason to fail, one of fewer is.
LEAST = 70


def templates():
    folder = os.environ.get("APR_INTEROP_TEMPLATES")
    if not folder:
        raise Skipped("llama.cpp's templates are not there")
    found = {path.stem: path.read_text() for path in sorted(Path(folder).glob("*.jinja"))}
    if len(found) < LEAST:
        raise Failure(f"{len(found)} templates, expected {LEAST}")
    return found


def by_jinja(texts):
    python = os.environ.get("APR_INTEROP_TRANSFORMERS_PYTHON")
    if not python:
        raise Skipped("transformers are not there")
    config = json.loads((MODEL / "tokenizer_config.json").read_text())
    special = {key: config[key] for key in ("bos_token", "eos_token")}
    asked = json.dumps({"templates": texts, "conversations": CONVERSATIONS, "special": special})
    worker = Path(__file__).resolve().parent / "template_worker.py"
    done = subprocess.run([python, "-B", worker], input=asked, capture_output=True, text=True, timeout=300)
    if done.returncode:
        raise Failure(done.stderr.strip())
    return json.loads(done.stdout)


def model_with(text, folder):
    """A model whose only chat template is this one."""
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(MODEL, folder)
    config = json.loads((folder / "tokenizer_config.json").read_text())
    del config["chat_template"]
    (folder / "tokenizer_config.json").write_text(json.dumps(config))
    (folder / "chat_template.jinja").write_text(text)
    return folder


def by_apr(model, given):
    """The text, or `{"error": what apr says}`."""
    command = [program.APR, "tokenizer", model, "--json", "--chat", json.dumps(given["messages"])]
    if "tools" in given:
        command += ["--tools", json.dumps(given["tools"])]
    if "variables" in given:
        command += ["--chat-template-kwargs", json.dumps(given["variables"])]
    if not given.get("add_generation_prompt", True):
        command.append("--no-add-generation-prompt")
    environment = program.environment() | {"SOURCE_DATE_EPOCH": NOW}
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, env=environment, timeout=120)
    if done.returncode:
        return {"error": done.stderr.strip() or done.stdout.strip()}
    return json.loads(done.stdout)["text"]


def difference(wanted, found):
    """Nothing where apr did as Jinja."""
    if isinstance(wanted, dict) and isinstance(found, dict):
        return ""
    if isinstance(wanted, dict):
        return f"Jinja fails with {wanted['error'][:200]}, apr renders {found[-200:]!r}"
    if isinstance(found, dict):
        return f"apr fails: {found['error'][:300]}"
    if wanted == found:
        return ""
    at = next((n for n, (a, b) in enumerate(zip(wanted, found)) if a != b), min(len(wanted), len(found)))
    start = max(0, at - 60)
    return f"at character {at}: {found[start:at + 60]!r}, not {wanted[start:at + 60]!r}"


def run(report, scratch):
    scratch.mkdir(parents=True, exist_ok=True)

    def equal():
        texts = templates()
        wanted, wrong, rendered, refused = by_jinja(texts), [], 0, 0
        for name, text in texts.items():
            model = model_with(text, scratch / "model")
            for of, given in CONVERSATIONS.items():
                expected = wanted[name][of]
                if said := difference(expected, by_apr(model, given)):
                    wrong.append(f"{name}, {of}: {said}")
                rendered, refused = rendered + (not isinstance(expected, dict)), refused + isinstance(expected, dict)
        print(f"        {len(texts)} templates x {len(CONVERSATIONS)} conversations: {rendered} rendered and {refused} refused by Jinja, "
              f"{len(wrong)} otherwise by apr")
        if wrong:
            raise Failure("\n".join(wrong))

    def judge_can_fail():
        text = "{{ messages[0].content }}!"
        wanted = by_jinja({"one": text})["one"]["plain"]
        if not difference(wanted, by_apr(model_with(text[:-1], scratch / "model"), CONVERSATIONS["plain"])):
            raise Failure("another text is not seen")

    report.step("every chat template of llama.cpp is rendered as Jinja renders it", equal)
    report.step("a rendering that differs is seen", judge_can_fail)
