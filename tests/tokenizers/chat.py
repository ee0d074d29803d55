"""Writes chat/rendered.json: what Jinja, set up as transformers sets it up, makes of every conversation of
chat/conversations.json by every template of chat/; and into chat/expressions.json what it makes of the small templates there;
`refused` lists those that apr does not render, though Jinja does. An error is `{"error": ...}`: the message of `raise_exception`, or the error's class.

    chat.py [--check]

The environment is `_compile_jinja_template` of transformers 4.57.6, what messages are handed to templates is of 5.23. The date is 2 January 2026, 03:04:05.
"""

import json
import sys
from datetime import datetime
from importlib.metadata import version
from pathlib import Path

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

HERE = Path(__file__).resolve().parent / "chat"
NOW = datetime(2026, 1, 2, 3, 4, 5)
SPECIAL = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>"}


class Generation(jinja2.ext.Extension):
    """`{% generation %}`: what is inside is printed."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_inside"), [], [], body).set_lineno(line)

    def _inside(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    made = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = raise_exception
    made.globals["strftime_now"] = NOW.strftime
    return made


def handed(message):
    """What transformers 5.23 makes of a message before a template sees it."""
    message = {key: value for key, value in message.items() if value is not None}
    said = next((message[name] for name in ("reasoning_content", "thinking", "reasoning") if message.get(name) is not None), None)
    return message if said is None else {"thinking": said} | message | {"reasoning_content": said}


def render(template, conversation):
    given = {"tools": None, "documents": None, "add_generation_prompt": True} | SPECIAL | conversation
    given |= given.pop("variables", {})
    if "messages" in given:
        given["messages"] = [handed(message) for message in given["messages"]]
    try:
        text = template.render(**given)
        # Where Python prints where something lies in memory, apr fails.
        return {"error": "Address"} if " at 0x" in text else text
    except jinja2.exceptions.TemplateError as error:
        return {"error": str(error) if type(error) is jinja2.exceptions.TemplateError else type(error).__name__}
    except Exception as error:
        return {"error": type(error).__name__}


def main():
    conversations = json.loads((HERE / "conversations.json").read_text())
    rendered = {"made_by": {"jinja2": version("jinja2")}}
    for path in sorted(HERE.glob("*.jinja")):
        template = environment().from_string(path.read_text())
        rendered[path.stem] = {name: render(template, given) for name, given in conversations.items()}
    expressions = json.loads((HERE / "expressions.json").read_text())
    for text in expressions["rendered"]:
        try:
            template = environment().from_string(text)
        except jinja2.exceptions.TemplateSyntaxError as error:
            expressions["rendered"][text] = {"error": type(error).__name__}
            continue
        expressions["rendered"][text] = render(template, {"messages": [], "variables": expressions["variables"]})
    for name, found in (("rendered.json", rendered), ("expressions.json", expressions)):
        text, path = json.dumps(found, ensure_ascii=False, indent=1) + "\n", HERE / name
        if sys.argv[1:] != ["--check"]:
            path.write_text(text)
        elif path.read_text() != text:
            sys.exit(f"{name} is not what Jinja gives now")


if __name__ == "__main__":
    main()
