# SPDX-License-Identifier: MIT
"""Rendering with jinja2 set up as transformers does, at a fixed time.

Used by make_template_golden.py and compare_templates.py. Where transformers is installed, its own
environment is compared with this one.
"""
import datetime
import functools
import json

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

# 2026-03-07 16:05:09 UTC, a Saturday with one-digit fields.
NOW = 1772899509


class Generation(jinja2.ext.Extension):
    """{% generation %} blocks, which rendering passes through."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_render"), [], [], body).set_lineno(line)

    def _render(self, caller):
        return caller()


class Namespace(jinja2.utils.Namespace):
    """transformers refuses attributes that begin with an underscore."""

    def __init__(*args, **kwargs):
        self, args = args[0], args[1:]
        attributes = dict(*args, **kwargs)
        for name in attributes:
            Namespace.check(name)
        jinja2.utils.Namespace.__init__(self, attributes)

    def __setitem__(self, name, value):
        Namespace.check(name)
        jinja2.utils.Namespace.__setitem__(self, name, value)

    @staticmethod
    def check(name):
        if isinstance(name, str) and name.startswith("_"):
            raise jinja2.exceptions.SecurityError(name)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators,
                      sort_keys=sort_keys)


def strftime_now(format):
    return datetime.datetime.fromtimestamp(NOW, datetime.timezone.utc).replace(
        tzinfo=None).strftime(format)


def environment():
    env = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True,
                                        extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals.update(raise_exception=raise_exception, strftime_now=strftime_now,
                       namespace=Namespace)
    return env


ENV = environment()


@functools.lru_cache(maxsize=8)
def compiled(source):
    return ENV.from_string(source)


def render(source, variables):
    """("text", result) or ("error", message)."""
    try:
        # A copy, so that nothing a template does reaches the next rendering.
        text = compiled(source).render(**json.loads(json.dumps(variables)))
        text.encode()
        return "text", text
    except RecursionError:
        return "error", "recursion"
    except Exception as why:  # whatever Python raises, the template fails
        return "error", f"{type(why).__name__}: {why}"


def render_with_transformers(source, variables):
    """The same with transformers' environment, or None where it is not installed."""
    try:
        from transformers.utils.chat_template_utils import _compile_jinja_template
    except ImportError:
        return None
    try:
        template = _compile_jinja_template(source)
        template.globals["strftime_now"] = strftime_now
        text = template.render(**json.loads(json.dumps(variables)))
        text.encode()
        return "text", text
    except Exception as why:
        return "error", f"{type(why).__name__}: {why}"
