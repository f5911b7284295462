"""Compares Spillway's template engine with Python's jinja2 (PyPI), set up as transformers does. On demand:

    python tests/chat/compare_jinja2.py build/release/bin/spillway [--count 2000] [--seed 1] [--templates DIR]

First the templates of compare_templates/ and of DIR for several conversations, then generated expressions and
statements. Prints the differences; exit code 1 if there are any. What one refuses the other must refuse, too;
messages may differ.
"""

import argparse
import datetime
import json
import os
import random
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox

NOW = "2026-07-25T17:20:00"


class Generation(jinja2.ext.Extension):
    """{% generation %} marks what is trained on; rendering it is rendering its body."""

    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.Scope(body).set_lineno(line)


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def to_json(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


ENVIRONMENT = jinja2.sandbox.ImmutableSandboxedEnvironment(
    trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
)
ENVIRONMENT.filters["tojson"] = to_json
ENVIRONMENT.globals["raise_exception"] = raise_exception
ENVIRONMENT.globals["strftime_now"] = lambda form: datetime.datetime.fromisoformat(NOW).strftime(form)


def render_reference(template, request):
    names = {"tools": None, "documents": None, "add_generation_prompt": True, "bos_token": "", "eos_token": ""}
    names.update({key: value for key, value in request.items() if key != "now"})
    try:
        return ENVIRONMENT.from_string(template).render(**names), None
    except Exception as error:  # whatever a template does wrong
        return None, f"{type(error).__name__}: {error}"


def render_spillway(program, folder, index, template, request):
    path = os.path.join(folder, f"{index}.jinja")
    with open(path, "w", encoding="utf-8", newline="") as file:
        file.write(template)
    done = subprocess.run(
        [program, "chat-template", "--template", path], input=json.dumps(request).encode(), capture_output=True
    )
    os.unlink(path)
    if done.returncode != 0:
        return None, done.stderr.decode().strip()
    return done.stdout.decode(), None


TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "The weather of a city.",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "Name of it, \"é\" <b>"},
                    "unit": {"type": "string", "enum": ["c", "f"], "default": "c"},
                    "days": {"type": ["integer", "null"]},
                    "deep": {"type": "object", "properties": {"x": {"type": "array", "items": {"type": "number"}}}},
                },
                "required": ["city"],
            },
        },
    },
    {"type": "function", "function": {"name": "now", "description": "Time", "parameters": {"type": "object", "properties": {}}}},
]
CALL = {"id": "abc123def", "type": "function", "function": {"name": "get_weather", "arguments": {"city": "Köln", "days": 2}}}
CONVERSATIONS = [
    [{"role": "user", "content": "Hi"}],
    [{"role": "system", "content": " You are it's helper. \n"}, {"role": "user", "content": "Hello there"}],
    [
        {"role": "system", "content": "S"},
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": "<think>\nHmm\n</think>\n\nSure", "tool_calls": [CALL]},
        {"role": "tool", "name": "get_weather", "tool_call_id": "abc123def", "content": "{\"t\": 20}"},
        {"role": "tool", "name": "now", "content": [{"type": "text", "text": "noon"}]},
        {"role": "assistant", "content": "20 degrees", "reasoning_content": "easy"},
        {"role": "user", "content": "Thanks 🦙"},
    ],
    [
        {"role": "user", "content": [{"type": "text", "text": "What is this?"}, {"type": "image"}, {"type": "text", "text": " And"}]},
        {"role": "assistant", "content": None, "tool_calls": [CALL, CALL]},
        {"role": "tool", "content": "ok"},
    ],
    [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}],
    [{"role": "developer", "content": "dev"}, {"role": "user", "content": "/no_think q"}],
]


def requests():
    for messages in CONVERSATIONS:
        for tools in (None, TOOLS):
            for prompt in (True, False):
                yield {
                    "messages": messages,
                    "tools": tools,
                    "add_generation_prompt": prompt,
                    "bos_token": "<s>",
                    "eos_token": "</s>",
                    "now": NOW,
                    "enable_thinking": prompt,
                }


def load_templates(folders):
    for folder in folders:
        for name in sorted(os.listdir(folder)):
            if name.endswith(".jinja"):
                with open(os.path.join(folder, name), encoding="utf-8", newline="") as file:
                    yield name, file.read()


class Maker:
    """Random templates over a few variables; most render, some must fail on both sides."""

    VALUES = {
        "s": "Hello, it's a [test] <of> {words}-and more",
        "t": "a,b,,c",
        "u": "  äÖ\n lines\r\nof\ttext \n",
        "e": "",
        "n": 7,
        "z": 0,
        "f": 2.675,
        "g": -3.0,
        "l": [3, 1, 2],
        "w": ["b", "A", "c", "a"],
        "o": [{"k": "x", "v": 1}, {"k": "y"}, {"k": "x", "v": None, "d": {"q": [1, 2]}}],
        "d": {"b": 1, "A": [1, 2], "c": None, "items": "own", "x y": {"q": "é\"<"}},
        "y": True,
        "nil": None,
    }
    FILTERS = [
        "upper", "lower", "title", "capitalize", "trim", "trim('a ')", "length", "count", "list", "first", "last", "join",
        "join(', ')", "join('-', attribute='k')", "reverse", "reverse|list", "sort", "sort(reverse=true)", "sort(attribute='k')",
        "unique|list", "map('upper')|list", "map(attribute='k')|list", "map(attribute='v', default=9)|list", "map('length')|list",
        "selectattr('k', 'equalto', 'x')|list", "selectattr('v', 'defined')|list", "selectattr('v')|list", "rejectattr('v', 'none')|list",
        "select('string')|list", "reject('in', [1, 'a'])|list", "select('odd')|list", "default('D')", "default('D', true)", "d(1)",
        "int", "int(5)", "float", "string", "abs", "round", "round(1)", "round(2, 'floor')", "round(method='ceil')", "tojson",
        "tojson(indent=2)", "tojson(separators=(',', ':'))", "tojson(ensure_ascii=true)", "tojson(sort_keys=true)", "tojson(4)",
        "dictsort", "dictsort(reverse=true)", "dictsort(by='value')", "items|list", "e", "safe", "indent", "indent(2, true)",
        "indent(first=true, width=3)", "indent(2, blank=true)", "wordcount", "replace('a', 'XX')", "replace('e', '', 1)", "min", "max",
        "sum", "sum(attribute='v')", "groupby('k')|list|length", "batch(2)|list", "batch(2, 'f')|list", "slice(2)|list", "center(20)",
        "truncate(9)", "truncate(9, true)", "truncate(12, false, '..', 0)", "urlencode", "select|list", "map('int')|list", "attr('k')", "format(1)",
        "map('trim')|join", "map('default', 'u')|list", "batch(3)|map('join')|join('/')",
    ]
    METHODS = [
        ".strip()", ".lstrip()", ".rstrip('\\n')", ".upper()", ".title()", ".split(',')", ".split()", ".split(' ', 1)", ".rsplit(',', 1)",
        ".splitlines()", ".splitlines(true)", ".startswith('He')", ".endswith(('more', 'x'))", ".startswith('l', 2)", ".find('t')",
        ".find('t', 9)", ".rfind('e')", ".rfind('e', 0, 5)", ".count('t')", ".count('t', 3, 20)", ".index('e')", ".replace('e', '3')",
        ".replace('e', '3', 1)", ".isdigit()", ".isalpha()", ".isupper()", ".islower()", ".isspace()", ".join(w)", ".keys()|list",
        ".values()|list", ".items()|list", ".get('b')", ".get('zz', 3)", ".capitalize()", ".lower()", ".zfill(12)", ".ljust(5, '*')",
        ".rjust(50)", ".center(51, '-')", ".partition(',')", ".rpartition(',')", ".removeprefix('Hel')", ".removesuffix('more')",
        ".append(1)", ".pop()", ".copy()", ".index(1)", ".count(1)", ".format(1)", ".items", ".k", ".b", ".zz", "[0]", "[-1]", "['b']", "['k']", "[1:]",
        "[:-1]", "[::-1]", "[::2]", "[5:2:-1]", "[10]", "['x y']", "[-3:]", ".casefold()", ".istitle",
    ]
    TESTS = [
        "defined", "undefined", "none", "string", "number", "integer", "float", "boolean", "mapping", "iterable", "sequence", "true", "false",
        "odd", "even", "divisibleby(3)", "eq(7)", "equalto('')", "ne(7)", "gt(1)", "lower", "upper", "in([7, none])", "sameas(none)", "callable",
        "not defined", "not none", "not string", "ge(2)", "filter", "test", "divisibleby 2", "in w",
    ]
    BINARY = ["+", "-", "*", "/", "//", "%", "**", "~", "==", "!=", "<", "<=", ">", ">=", "in", "not in", "and", "or"]

    def __init__(self, seed):
        self.random = random.Random(seed)

    def literal(self):
        return self.random.choice(["1", "2", "0", "-1", "'a'", "'x, y'", "1.5", "[1, 'b']", "(1, 2)", "{'k': 1}", "none", "true", "False", "''", "'%s=%d'", "'{:>6}|'"])

    def atom(self):
        choice = self.random.random()
        if choice < 0.75:
            return self.random.choice(list(self.VALUES) + ["missing", "loop"])
        return self.literal()

    def expression(self, depth=0):
        text = self.atom()
        for _ in range(self.random.choice([0, 1, 1, 1, 2])):
            kind = self.random.random()
            if kind < 0.45:
                text += "|" + self.random.choice(self.FILTERS)
            elif kind < 0.85:
                if "|" in text or text[0] in "-'\"0123456789" or " " in text:
                    text = f"({text})"
                method = self.random.choice(self.METHODS)
                # Slices of literals that have none are folded to "undefined" by jinja2's compiler.
                text += "" if ":" in method and not text.isalpha() or text in ("true", "False", "none") else method
            else:
                text = f"({text} is {self.random.choice(self.TESTS)})"
        if depth < 2 and self.random.random() < 0.4:
            right = self.expression(depth + 1)
            text = f"{text} {self.random.choice(self.BINARY)} {right}"
            if self.random.random() < 0.3:
                text = f"({text})"
        if depth < 2 and self.random.random() < 0.1:
            text = f"{text} if {self.expression(depth + 1)} else {self.expression(depth + 1)}"
        if self.random.random() < 0.05:
            text = "not " + text
        return text

    def mark(self):
        return self.random.choice(["", "", "-", "+" if self.random.random() < 0.2 else ""])

    def tag(self, body):
        return self.random.choice(["", " ", "\n", "\n  ", "x\n"]) + "{%" + self.mark() + " " + body + " " + self.random.choice(["", "-"]) + "%}"

    def output(self):
        return self.random.choice(["", " ", "\n", "T"]) + "{{" + self.random.choice(["", "-"]) + " " + self.expression() + " " + self.random.choice(["", "-"]) + "}}"

    def block(self, depth=0, in_loop=False):
        return "".join(self.statement(depth, in_loop) for _ in range(self.random.randint(1, 3)))

    def statement(self, depth, in_loop):
        kind = self.random.random()
        if depth > 2 or kind < 0.3:
            return self.output()
        body = lambda loop=in_loop: self.block(depth + 1, loop)
        if kind < 0.45:
            other = self.tag("elif " + self.expression()) + body() if self.random.random() < 0.3 else ""
            last = self.tag("else") + body() if self.random.random() < 0.5 else ""
            return self.tag("if " + self.expression()) + body() + other + last + self.tag("endif")
        if kind < 0.65:
            target = self.random.choice(["i", "i", "l", "k, v"])
            source = self.random.choice(["l", "w", "o", "d", "d.items()", "o|selectattr('v')", "range(3)", "t.split(',')", "s[:3]", "missing", "[]", "d|dictsort", "w|sort"])
            condition = self.random.choice(["", "", " if i is defined and i != 1"])
            inner = body(True) + self.random.choice(["", "{{ loop.index }}/{{ loop.length }}{{ loop.last }}", "{{ i }}", "{{ loop.previtem|default('-') }}{{ loop.nextitem }}", "{{ loop.changed(i) }}{{ loop.cycle(1, 2) }}"])
            other = self.tag("else") + body() if self.random.random() < 0.3 else ""
            return self.tag(f"for {target} in {source}{condition}") + inner + other + self.tag("endfor")
        if kind < 0.78:
            target = self.random.choice(["n", "s", "new", "ns.x", "ns.y", "a, b"])
            value = self.expression()
            if self.random.random() < 0.3 and target in ("n", "s", "new"):
                return self.tag(f"set {target}{self.random.choice(['', ' | trim', ' | upper'])}") + body() + self.tag("endset")
            return self.tag(f"set {target} = {value}")
        if kind < 0.83 and in_loop:
            return self.tag(f"if {self.expression()}") + self.tag(self.random.choice(["break", "continue"])) + self.tag("endif")
        if kind < 0.88:
            return self.tag("macro m(a, b=2, c=n)") + "{{ a }}{{ b }}{{ c }}" + self.block(depth + 1) + self.tag("endmacro") + "{{ m(1) }}{{ m(c=0, a=l) }}"
        if kind < 0.91:
            return self.tag("filter " + self.random.choice(["upper", "trim", "indent(2)", "replace('a', 'b')"])) + body(False) + self.tag("endfilter")
        if kind < 0.94:
            return self.tag("with n = 1, q = n") + body(False) + "{{ q }}" + self.tag("endwith")
        if kind < 0.97:
            return "{#- comment -#}" if self.random.random() < 0.5 else "\n  {# comment #}\n"
        return self.tag("generation") + body() + self.tag("endgeneration")

    def template(self):
        return "{% set ns = namespace(x=1, y=[]) %}" + self.block() + "{{ n }}{{ ns.x }}\n"


def differs(program, folder, index, template, request):
    expected, error = render_reference(template, request)
    got, refusal = render_spillway(program, folder, index, template, request)
    # Addresses and names of Python's own types are nothing a template is written for.
    if expected is not None and any(mark in expected for mark in (" object at 0x", "<built-in", "dict_keys(", "dict_items(", "dict_values(", "<LoopContext", "<generator", "<Macro", "Undefined")):
        return None
    if expected == got:
        return None
    return f"--- template\n{template}\n--- jinja2\n{expected if expected is not None else error}\n--- spillway\n{got if got is not None else refusal}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--show", type=int, default=20)
    parser.add_argument("--templates", action="append", default=[])
    options = parser.parse_args()
    own = os.path.join(os.path.dirname(os.path.abspath(__file__)), "compare_templates")
    templates = load_templates([own, *options.templates])
    cases = [(name, text, request) for name, text in templates for request in requests()]
    maker = Maker(options.seed)
    for number in range(options.count):
        text = "{{ " + maker.expression() + " }}" if number % 2 else maker.template()
        cases.append((f"generated {number}", text, {"messages": [], "now": NOW, **Maker.VALUES}))
    rendered = 0
    differences = []
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(2) as pool:
        jobs = [pool.submit(differs, options.program, folder, index, text, request) for index, (_, text, request) in enumerate(cases)]
        for (name, text, request), job in zip(cases, jobs):
            difference = job.result()
            rendered += render_reference(text, request)[1] is None
            if difference:
                differences.append(f"=== {name}\n{difference}\n")
    for difference in differences[: options.show]:
        print(difference)
    print(f"{len(cases)} templates, {rendered} rendered by jinja2, {len(differences)} differences")
    sys.exit(1 if differences else 0)


if __name__ == "__main__":
    main()
