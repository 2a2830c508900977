"""Compares our chat templates with transformers' rendering of the same, live: templates of the shapes that models are published with on
many conversations, and single expressions, whose text must be the same to the character; what fails there must fail here.

PIPELINE_PYTHON names the interpreter that has the packages of requirements.txt. Exit code 77: skipped, for the reason printed.
"""
import ast
import itertools
import json
import subprocess
import sys
import time
from pathlib import Path

from comparison import started

TEMPLATES = Path(__file__).resolve().parents[1] / "models/chat/templates"
TOOLS = [{"type": "function", "function": {"name": "weather", "description": "Today's – in °C <b>", "parameters": {"city": {"type": "string"}, "n": 1.5}}}]
CALL = {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "weather", "arguments": {"city": "Zürich", "when": None, "deep": [1, {"a": True}]}}}]}
CONVERSATIONS = [
    [{"role": "user", "content": "Hello"}],
    [{"role": "user", "content": "  Two\nlines \n"}, {"role": "assistant", "content": "An answer.\n\n"}],
    [{"role": "system", "content": " Be brief. "}, {"role": "user", "content": "Ünïcode 🙂?"}, {"role": "assistant", "content": "<think>\nhm\n</think>\n\nYes"},
     {"role": "user", "content": "and\u3000now?\u2003"}],
    [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}, {"role": "assistant", "content": "d"}],
    [{"role": "assistant", "content": "first"}, {"role": "user", "content": "second"}],
    [{"role": "user", "content": "a"}, {"role": "critic", "content": "b"}],
    [{"role": "user", "content": "what is it like?"}, CALL, {"role": "tool", "content": "{\"t\": 21}"}, {"role": "tool", "content": "more"},
     {"role": "assistant", "content": "21", "reasoning_content": "so\n"}],
    [{"role": "user", "content": [{"type": "text", "text": " with parts "}, {"type": "image"}]}, {"role": "assistant", "content": "seen"}],
    [{"role": "system", "content": [{"type": "text", "text": "parts"}]}, {"role": "user", "content": "x"}],
    [{"role": "user"}],
    [],
]
VARIABLES = {"bos_token": "<s>", "eos_token": "</s>"}
DATA = {"x": 7, "f": 2.5, "big": 1e16, "s": "Hello wörld\n", "l": [3, 1, 2], "n": None, "t": True, "e": "", "d": {"b": 1, "a": {"c": [1, 2.0, "q'\"", None, False]}},
        "words": ["b", "A", "c"], "rows": [{"k": "x", "v": 1}, {"k": "y", "v": 2}, {"k": "x", "v": None}], "messages": [], "items": [1]}
EXPRESSIONS = """
x + 1 | x - 10 | x % 4 | -x % 4 | f * 2 | big | -x
x ~ "a" ~ f ~ none ~ t | s + "b" | s * 2 | l + [4] | "a" "b" | 'it\\'s' | x + "a" | n + 1 | undefined_one + "a" | undefined_one ~ "a"
s[0] | s[-2] | s[100] | s[1:4] | s[::-1] | l[0] | l[-1] | l[5] | l[1:] | l[::-1] | l[-2:] | l[10:] | l[:] | d.b | d["b"] | d.zz | d.a.c[1] | d.a.c
t == 1 | x != 7 | "a" < "b" | x < "a" | n == none | 3 in l | "ell" in s | "b" in d | 9 not in l | not x in l | x in undefined_one | none in [none]
t and x | e or "no" | not e | x and e | n or undefined_one or "z" | (x if t else f) | (x if e) | ("a" if e else "b" if n else "c") | x is defined | y is defined | y is not defined | n is none | s is string
x is number | f is float | x is integer | t is integer | t is boolean | d is mapping | l is sequence | l is iterable | s is iterable
s is not mapping | t is true | e is false | y is undefined or z is defined
s|trim | s|length | "a-b"|upper | "ABC"|lower | "aBC dE"|capitalize | l|first | l|last | l|join | l|join(", ")
l|list | "abc"|list | d|list | d|length | y|default("z") | y|d | n|default("z") | e|default("z", true) | x|string | s|replace("l", "L")
l|map("string")|join | rows|map(attribute="k")|list | rows|selectattr("v")|map(attribute="v")|list | rows|selectattr("k", "equalto", "x")|list|length | rows|rejectattr("v", "none")|list | rows|selectattr("v", "defined")|list|length
d|items|list | d.items()|list | d|dictsort | d.keys()|list | d.get("b") | d.get("zz") | d.get("zz", 4) | d|tojson | d|tojson(indent=2) | l|tojson | "é<>&'\\""|tojson | n|tojson | f|tojson | y|tojson | [l, [], {}]|tojson(indent=4)
s.strip() | s.strip("H\\n") | s.lstrip("He") | s.rstrip() | s.split("o") | s.split("o", 1) | s.startswith("He") | "a b".upper() | "aBc".lower() | "x-y z".title() | s.replace("l", "") | s.nothing | s.nothing()
[1, 2,] | [] | () | (1,) | (1, 2) | {} | {"a": 1, "b": [true, none]} | [x, [f, s]] | range(3)|list | range(3, 0, -1)|list | range(0)|list | namespace(a=1).a | strftime_now("%Y-%m-%d") | raise_exception("no")
s.find() | s.count() | ",".join() | s.split(1) | l[01] | namespace(a=1, a=2).a | {"a": 1}.get([]) | s.replace("a") | y.z | n.z | n.z.z | x.z | x() | n() | y() | l.append(4) | d.update({}) | d.pop("b") | 1 / 0 | 1 % 0 | s|nofilter | x is notest | items|length | loop | {{ | x + | (1 | [1 | "a | 1 2 | x y | .5 | 5. | @ | x if | d[ | not | - | d. | *x | **x
"é\\n\\t\\\"\\\\" | "　 a ".strip() | "　 a "|trim | ["​", " ", "­", "é🙂"] | (1,) == [1] | x is string if y | d.items is defined | d["items"] is mapping | d.get is none | "a" if d|items else "b" | "a" if {}|items else "b" | "a" if {}.items() else "b" | y|items|list | y|dictsort | l in d | strftime_now("%% %") | strftime_now("") | range(3)|length | d.items()|length
n|selectattr("a")|list | e|map("trim")|list | l|map("string")|length | rows|selectattr("k")|first | rows|sort(attribute="k")|map(attribute="v")|list | "a" ~ ("<"|safe) | ("<"|safe) + "<&>\\"'a" + "<" | "<" + ("<"|safe) + ("a"|safe) | ("<"|safe)|string | "a,b,c".split(",", 1)[-1] | {"a": 1, "a": 2} | {"b": {"y": 1}} == {"b": {"y": 1}}
"""
# What jinja2 reads and we refuse by name: no published template that we know uses it.
REFUSED = """
x / 2 | x // 2 | -x // 2 | x ** 2 | 2 ** -1 | x * 2.0 | f // 1 | 1.0 | 1e-7 | 123456789.123 | 1_000 | +f | - 2 ** 2 | [1] * 3 | s[:-3:2] | l[::2] | x == 7.0 | 1 < 2 < 3 | 1 < 3 < 2 | l < [3, 2]
x is odd | x is even | x is divisibleby 7 | x is divisibleby(2) | x is eq 7 | x is in l | x is equalto(7) | rows|join("-", attribute="k") | l|sort | words|sort | words|sort(reverse=true) | l|reverse|list
"abc"|reverse | "a"|int | "a"|int(5) | f|int | "2.5"|float | x|float | -x|abs | s|replace("l", "L", 1) | rows|map(attribute="zz", default=0)|list | l|select("odd")|list | l|reject("odd")|list
d.values()|list | d|tojson(separators=(",", ":")) | {"b": 1, "a": 2}|tojson(sort_keys=true) | s.split() | s.rsplit("o", 1) | "a\\nb\\r\\nc\\n".splitlines() | s.find("l") | s.find("zz") | "a,b".count(",")
", ".join(["a", "b"]) | "12".isdigit() | range(1, 7, 2)|list | dict(a=1) | "a\\nb\\n\\nc"|indent(2) | "a\\nb"|indent(2, true) | [1, 1.0, "1", true, 2]|unique|list | 1.5.6 | d.1 | l.0 | l|map("string")
d.items() | range(3) | range(3)[0] | "a\\u00e9" | ("<"|safe)|upper | joiner | l[2:0:-1] | "12"|int | s.endswith(("x", "\\n")) | "a b"|title | rows|map(attribute="k.a")|list | [[1]]|map(attribute="0")|list | "".__class__ | l.copy | {1: 2} | l|select("divisibleby", 2)|list | l|map("nofilter")|list | range(*l)
"""
BLOCKS = [
    "{% for i in l %}{{ loop.index }}/{{ loop.length }}{{ loop.first }}{{ loop.last }}{{ loop.revindex0 }}{{ loop.previtem }}{{ loop.nextitem }},{% endfor %}",
    "{% for i in l if i > 1 %}{{ loop.index }}:{{ i }} {% else %}none{% endfor %}", "{% for i in [] %}a{% else %}none{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k in d %}{{ k }}{% endfor %}", "{% for c in 'añb' %}{{ c }}.{% endfor %}",
    "{% for a, b in [[1, 2], [3]] %}{{ a }}{% endfor %}", "{% for i in x %}{% endfor %}", "{% for i in undefined_one %}a{% else %}b{% endfor %}",
    "{% for i in l %}{% if i == 1 %}{% continue %}{% endif %}{{ i }}{% endfor %}", "{% for i in l %}{% if i == 1 %}{% break %}{% endif %}{{ i }}{% endfor %}",
    "{% set a = 1 %}{% for i in l %}{% set a = i %}{% endfor %}{{ a }}", "{% set a = 1 %}{% if t %}{% set a = 2 %}{% endif %}{{ a }}",
    "{% set ns = namespace(a=1) %}{% for i in l %}{% set ns.a = ns.a + i %}{% endfor %}{{ ns.a }}", "{% set x.a = 1 %}",
    "{% set a, b = 1, 2 %}{{ a }}{{ b }}", "{% set a %}b{{ x }}{% endset %}[{{ a }}]", 
    "{% macro m(a, b=2, c=none) %}<{{ a }}{{ b }}{{ c }}>{% endmacro %}{{ m(1) }}{{ m(1, c=3) }}{{ m(b=5) }}{{ m(1, 2, 3) }}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, 2) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(zz=2) }}",
    "{% macro f(n) %}{{ n }}{% if n > 0 %}{{ f(n - 1) }}{% endif %}{% endmacro %}{{ f(5) }}", "{% macro f(n) %}{{ f(n) }}{% endmacro %}{{ f(5) }}",
    "a  \n  {%- if t %}  b  {%- endif %}\n  c", "a\n  {% if t %}\n  b\n  {% endif %}\nc\n", "a\n  {%+ if t %}\n  b\n  {% endif +%}\nc\n\n", "  {{ x }}\n  {{- x -}}  \n y",
    "a {# comment #} b\n  {# whole line #}\nc {#- d -#} e", "{% if x == 8 %}a{% elif x == 7 %}b{% else %}c{% endif %}", "a\r\nb\rc\n{% if t %}\r\n  d{% endif %}",
    "{% generation %}a{{ x }}{% endgeneration %}b{% for i in l %}{% generation %}{{ i }}{% endgeneration %}{% endfor %}", "{{ '{%' }}{{ \"}}\" }}{ % {x} #}",
    "{% if t %}", "{% endif %}", "{% else %}", "{% for i in %}{% endfor %}", "{% nothing %}", "{% include 'a' %}", "{% set %}", "{% set a = %}", "{% for %}", "{% macro %}", "{% break %}", "{{", "{%",
    "{{ {'a': {'b': {}}} }}", "{% if not t %}a{% endif %}{{ messages }}",
    "{% for m in rows %}{% for n in l %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}", "{{ rows }}", "{{ d }}", "{{ [f, none, true, 'a\\'b', \"a'b\\\"c\", 'é\\n'] }}",
    "{% set g = l|select %}{% for i in g %}{{ i }}{% endfor %}-{% for i in g %}{{ i }}{% endfor %}", "{% if rows|selectattr('k', 'equalto', 'zz') %}a{% endif %}",
    "{% set g = rows|map(attribute='k') %}{{ g|first }}{% for i in g %}{{ i }}{% endfor %}", "{{ l|select|last }}", "{% set v = d.items() %}{% for k, i in v %}{{ k }}{% endfor %}{% for k, i in v %}{{ k }}{% endfor %}", "{% generation %}{% set a = 1 %}b{% endgeneration %}{{ a is defined }}",
    "{% for i in l %}{% generation %}{% break %}{% endgeneration %}{% endfor %}", "{% macro m(a) %}{{ loop is defined }}{{ i is defined }}{{ a }}{% endmacro %}{% for i in l %}{{ m(loop.last) }}{% endfor %}",
    "{% set ns = namespace() %}{{ ns.a is defined }}{% set ns.a %}b{% endset %}{{ ns.a is defined }}{{ ns['a'] }}", "{{ '<' }}\u00a0{%- if t %}\u3000{%- endif -%}\u2003b",
    "{% for i in l if loop is defined %}a{% endfor %}", "{% for i in l %}{% set loop = i %}{{ loop }}{% endfor %}", "{% for i in l %}{% set x %}{{ x }}a{% endset %}{{ x }}{% endfor %}{{ x }}",
    "{% set a = 1 %}{% for i in l %}{{ a }}{% set a = i %}{{ a }}{% endfor %}{{ a }}", "{% for i in l %}{% if i == 1 %}{% set x = i %}{% endif %}{{ x }}{% endfor %}{{ x }}", "{% for x in [x] %}{{ x }}{% endfor %}{{ x }}",
    "{% macro m(a, b=a) %}{{ a }}{{ b }}{{ x }}{% set x = 2 %}{{ x }}{% endmacro %}{{ m(1) }}{{ x }}", "{% macro m() %}{{ y }}{{ o() }}{% endmacro %}{% set y = 2 %}{% macro o() %}o{% endmacro %}{{ m() }}",
    "{% for i in [] %}{% else %}{% set x = 2 %}{{ x }}{% endfor %}{{ x }}", "{% for i in l if x > 1 %}{% set x = 0 %}{{ i }}{% endfor %}", "a {#- c -#} b{# c +#}\n{# d #}\n  {#+ e #}\nb  {% if t %}\n  {%- endif %}",
    "{{ not x == 7 }}{{ not e and x }}{{ -x + 1 }}{{ -x|string }}{{ - x ~ 1 }}{{ 1 + 2 ~ 3 + 4 }}{{ 2 * 3 % 4 }}{{ 7 - 2 - 1 }}{{ l[l|length - 1] }}{{ 'a' in s and 'b' not in s or t }}",
    "{{ l['a'] is defined }}{{ l[s] is defined }}{{ d[1] is defined }}{{ x[0] is defined }}{{ [1, 2] == (1, 2) }}{{ {} == [] }}{{ y == z }}{{ l|join(none) }}{{ 'A b'.title() }}",
]
REFUSED_BLOCKS = [
    "{% set a | upper %}b{{ x }}c{% endset %}[{{ a }}]", "{% for i in l %}{{ loop.cycle('a', 'b') }}{% endfor %}", "{% for i in [1, 1, 2] %}{{ loop.changed(i) }}{% endfor %}",
    "{% set x %}{{ x }}a{% endset %}{{ x }}", "{% set loop = 1 %}", "{% generation %}a{% generation %}b{% endgeneration %}{% endgeneration %}", "{% macro m() %}{% generation %}b{% endgeneration %}{% endmacro %}{{ m() }}",
    "{% raw %}a{% endraw %}", "{% filter upper %}a{% endfilter %}", "{% with a = 1 %}{{ a }}{% endwith %}", "{% for i in l recursive %}{{ i }}{% endfor %}", "{% macro m() %}{{ varargs }}{% endmacro %}{{ m(1) }}",
]


def cases():
    """(template, variables)"""
    ours = [path.read_text(encoding="utf-8") for path in sorted(TEMPLATES.glob("*.jinja"))]
    for template in ours + [text for text in packaged() if "{%" in text and "message" in text]:
        for messages, prompt, extra in itertools.product(CONVERSATIONS, (False, True), ({}, {"tools": TOOLS, "enable_thinking": False})):
            yield template, {"messages": messages, "add_generation_prompt": prompt, **VARIABLES, **extra}
    for line in EXPRESSIONS.strip().splitlines():
        for expression in line.split(" | "):
            yield "{{ " + expression + " }}", DATA
    for block in BLOCKS:
        yield block, DATA


def refused_cases():
    for line in REFUSED.strip().splitlines():
        for expression in line.split(" | "):
            yield "{{ " + expression + " }}", DATA
    for block in REFUSED_BLOCKS:
        yield block, DATA


def packaged():
    """The chat templates that the installed packages bring: files, and strings in transformers' modules."""
    import transformers

    site = Path(transformers.__file__).parents[1]
    for path in sorted(site.rglob("*.jinja")):
        yield path.read_text(encoding="utf-8")
    for path in sorted((site / "transformers").rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(source)) if "{%" in source else ():
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


def rendered(probe, every):
    """What ours gives for each (template, variables)."""
    lines = "".join(json.dumps({"template": template, "variables": variables, "now": int(time.time())}) + "\n" for template, variables in every)
    said = subprocess.run([probe], input=lines, capture_output=True, text=True, check=True).stdout.splitlines()
    return zip(every, map(json.loads, said), strict=True)


def main():
    options = started("probe", "transformers")
    from transformers.utils import chat_template_utils

    every = list(cases())
    failures, refused = [], 0
    for (template, _), ours in rendered(options.probe, list(refused_cases())):
        if not ours.get("error", "").endswith(" not read here"):
            failures.append(f"{template!r} is not refused by name: {ours}")
    for (template, variables), ours in rendered(options.probe, every):
        try:
            compiled = chat_template_utils._compile_jinja_template(template)
            blocks, indices = [], []
            with compiled.environment.activate_tracker(blocks, indices):
                for block in compiled.generate(**variables):
                    blocks.append(block)
            text = "".join(blocks)
        except Exception as error:
            refused += 1
            if "error" not in ours:
                failures.append(f"{template!r}\n  theirs fails: {type(error).__name__}: {error}\n  ours:   {ours['text']!r}")
            continue
        if "error" in ours:
            failures.append(f"{template!r}\n  theirs: {text!r}\n  ours fails: {ours['error']}")
        elif ours["text"] != text:
            failures.append(f"{template!r}\n  theirs: {text!r}\n  ours:   {ours['text']!r}")
        else:
            spans = [tuple(len(text.encode()[:at].decode()) for at in span) for span in ours["generated"]]
            if spans != [tuple(span) for span in indices if span[0] < span[1]]:
                failures.append(f"{template!r}\n  spans {indices}, ours {spans}")
    for failure in failures:
        print(failure)
    print(f"{len(every)} renderings, {refused} of them refused by both, {len(failures)} differ")
    sys.exit(1 if failures else 0)


if __name__ == "__main__":
    main()
