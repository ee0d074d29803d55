"""Renders chat templates with Jinja as transformers does. Stdin: `{"templates": {name: text}, "conversations": {...}, "special": {...}}`;
stdout: `{name: {conversation: text or {"error": ...}}}`. Any interpreter with jinja2 will do."""

import json
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "tokenizers"))

import chat


def main():
    asked = json.load(sys.stdin)
    chat.SPECIAL = asked["special"]
    rendered = {}
    for name, text in asked["templates"].items():
        try:
            template = chat.environment().from_string(text)
        except Exception as error:
            rendered[name] = {of: {"error": type(error).__name__} for of in asked["conversations"]}
            continue
        rendered[name] = {of: chat.render(template, given) for of, given in asked["conversations"].items()}
    json.dump(rendered, sys.stdout)


if __name__ == "__main__":
    main()
