#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares our rendering of chat templates with jinja2's.

    compare_templates.py RENDER_TEMPLATE PATH...

RENDER_TEMPLATE is the helper program; a PATH is a .jinja file, a folder of them, or a GGUF file
whose template is read with the package gguf. Every template meets several conversations, with
and without tools, system message, thinking and generation prompt. Exit status 1: they differ.
"""
import itertools
import json
import pathlib
import subprocess
import sys

import jinja_reference as reference

WEATHER = {"type": "function", "function": {
    "name": "get_weather", "description": "The weather \"now\" at a <place> & more",
    "parameters": {"type": "object", "properties": {
        "place": {"type": "string", "description": "A city, e.g. Zürich"},
        "unit": {"type": "string", "enum": ["C", "F"], "default": "C"},
        "days": {"type": ["integer", "null"], "description": "How many"},
        "where": {"type": "object", "properties": {"lat": {"type": "number"},
                                                   "tags": {"type": "array",
                                                            "items": {"type": "string"}}},
                  "required": ["lat"]}},
        "required": ["place"]}}}
NOTE = {"type": "function", "function": {
    "name": "note", "description": "Writes a note", "parameters": {
        "type": "object", "properties": {"text": {"type": "string"}}, "required": []}}}


def call(name, arguments, identifier):
    return {"role": "assistant", "content": "", "tool_calls": [
        {"type": "function", "id": identifier,
         "function": {"name": name, "arguments": arguments}}]}


def conversations():
    user = {"role": "user", "content": "  Hello <b>there</b> & 你好 \n"}
    system = {"role": "system", "content": "You are terse.\n"}
    answer = {"role": "assistant", "content": "<think>\nHm.\n</think>\n\nHi!\n"}
    reasoned = {"role": "assistant", "content": "Four.", "reasoning_content": "2+2", "thinking": "2+2"}
    parts = {"role": "user", "content": [{"type": "text", "text": "What is "},
                                         {"type": "text", "text": "this?"}]}
    result = {"role": "tool", "name": "get_weather", "tool_call_id": "abcdef123",
              "content": "{\"temperature\": 21.5}"}
    yield "user", [user]
    yield "empty", []
    yield "system", [system, user]
    yield "developer", [{"role": "developer", "content": "Be kind."}, user]
    yield "turns", [user, answer, {"role": "user", "content": "And?"}]
    yield "long", [system] + [user, reasoned] * 5 + [user]
    yield "reasoned", [user, reasoned, user, reasoned]
    yield "parts", [parts]
    yield "parts-system", [{"role": "system", "content": [{"type": "text", "text": "S"}]}, parts]
    yield "wrong-order", [answer, answer]
    yield "tool-call", [system, user, call("get_weather", {"place": "Bern", "days": 2}, "abcdef123"),
                        result]
    yield "tool-turns", [user, call("get_weather", {"place": "Bern"}, "abcdef123"), result,
                         {"role": "assistant", "content": "21.5 °C"}, user]
    two = call("get_weather", {"place": "A", "unit": "F", "deep": {"x": [1, 2.5, None, True]}},
               "abcdef123")
    two["tool_calls"].append({"type": "function", "id": "bcdefg234",
                              "function": {"name": "note", "arguments": {"text": "it's\n\"so\""}}})
    two["content"] = "I look."
    yield "two-calls", [user, two, result, dict(result, tool_call_id="bcdefg234", name="note",
                                                content="done")]
    text = call("note", "{\"text\": \"a\"}", "abcdef123")
    yield "text-arguments", [user, text, dict(result, content="ok")]
    yield "null-content", [user, dict(call("note", {}, "abcdef123"), content=None), result]
    yield "thinking-call", [user, dict(two, reasoning_content="First this", thinking="First this"),
                            result, dict(result, tool_call_id="bcdefg234")]


OPTIONS = [
    {}, {"enable_thinking": True}, {"enable_thinking": False, "thinking": False},
    {"thinking": True, "reasoning_effort": "high"}, {"custom_tools": None, "date_string": "1 Jan"},
    {"documents": [{"title": "T", "text": "Some text"}]},
    {"builtin_tools": ["browser", "python"], "model_identity": "You are X."},
    {"tools_in_user_message": False, "add_vision_id": True},
]


def jobs(source):
    """Tools and the prompt with the first options, all options with two of the rest."""
    plain = itertools.product(conversations(), (None, [WEATHER], [WEATHER, NOTE]), (True, False),
                              OPTIONS[:1])
    special = itertools.product(conversations(), (None, [WEATHER]), (True,), OPTIONS[1:])
    for (name, messages), tools, prompt, options in itertools.chain(plain, special):
        variables = {"messages": messages, "add_generation_prompt": prompt, "bos_token": "<s>",
                     "eos_token": "</s>", **options}
        if tools is not None:
            variables["tools"] = tools
        yield f"{name}, {len(tools or [])} tools, prompt {prompt}, {options}", {
            "template": source, "variables": variables, "now": reference.NOW}


def templates(paths):
    for path in map(pathlib.Path, paths):
        if path.is_dir():
            yield from templates(sorted(path.glob("*.jinja")))
        elif path.suffix == ".gguf":
            from gguf import GGUFReader
            for key, field in GGUFReader(path).fields.items():
                if key.startswith("tokenizer.chat_template") and key != "tokenizer.chat_templates":
                    yield f"{path.name}:{key}", bytes(field.parts[field.data[0]]).decode()
        else:
            yield path.name, path.read_bytes().decode()


class Renderer:
    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, encoding="utf-8")

    def render(self, job):
        self.process.stdin.write(json.dumps(job) + "\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"the helper ended at {json.dumps(job)[:2000]}")
        return json.loads(line)


def main():
    renderer = Renderer(sys.argv[1])
    n = n_errors = n_different = 0
    for name, source in templates(sys.argv[2:]):
        n_here = n_failed = 0
        for title, job in jobs(source):
            kind, expected = reference.render(source, job["variables"])
            got = renderer.render(job)
            n += 1
            n_errors += kind == "error"
            n_failed += kind == "error"
            if got.get(kind) != expected and not (kind == "error" and "error" in got):
                n_here += 1
                if n_here <= 2:
                    print(f"{name}: {title}\n  expected {kind}: {expected!r}\n  got {got}")
        n_different += n_here
        print(f"{name}: {n_here} differ, jinja2 fails in {n_failed}", flush=True)
    print(f"{n} renderings, {n_errors} of them errors; {n_different} differ")
    return n_different > 0


if __name__ == "__main__":
    sys.exit(main())
