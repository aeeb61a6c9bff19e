"""The pages about patterns, which the site has: one for each, and their index."""

import inspect
import sys
from itertools import groupby

import onnx
from jinja2 import Environment

from xoptim import Example, Rewrite, installed_patterns
from xoptim.proof.pattern_grades import PATTERN_GRADES
from xoptim.testing.variant import parse

_ENVIRONMENT = Environment(
    autoescape=False, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
)
_PAGE = _ENVIRONMENT.from_string("""# {{ cls.name() }}

{{ doc }}

| phase | priority | exactness | opset | provider | tags | status |
|---|---|---|---|---|---|---|
| {{ cls.phase }} | {{ cls.priority }} | {{ cls.exactness }} | {{ opsets }} | \
{{ cls.providers | join(", ") or "any" }} | {{ cls.tags | join(", ") }} | {{ cls.status }} |
{% if proved %}

Proved: {{ proved }} (all examples, see [proofs](../verification.md#proofs)).
{% endif %}
{% if cls.onnxruntime %}

Works around a bug in onnxruntime {{ cls.onnxruntime }}.
{% endif %}
{% for example in examples %}

## Example {{ loop.index }}

Before:

```mermaid
{{ example[0] }}
```

After:

```mermaid
{{ example[1] }}
```
{% endfor %}
""")
_INDEX = _ENVIRONMENT.from_string("""# Patterns

{{ families.values() | map("length") | sum }} patterns.
{% for (title, doc), patterns in families.items() %}

## {{ title }}

{{ doc }}

| pattern | rewrite | phase | exactness | opset | provider | tags |
|---|---|---|---|---|---|---|
{% for cls in patterns %}
| [{{ cls.name() }}]({{ cls.name() }}.md) | {{ cls.arrow() | replace("|", "\\\\|") }} | \
{{ cls.phase }} | {{ cls.exactness }} | {{ opsets(cls) }} | \
{{ cls.providers | join(", ") or "any" }} | {{ cls.tags | join(", ") }} |
{% endfor %}
{% endfor %}
""")


def opsets(cls: type[Rewrite]) -> str:
    """Versions of the standard operator set in which a pattern works."""
    return f"{cls.min_opset}+" if cls.max_opset is None else f"{cls.min_opset}-{cls.max_opset}"


def diagram(text: str, example: Example) -> str:
    """A graph as a mermaid flow chart."""
    graph = parse(text, example.opset, example.domains).graph
    ids = {
        value.name: f"i{number}" for number, value in enumerate((*graph.input, *graph.initializer))
    }
    lines = ["flowchart TB"]
    lines += [f"    {ids[value.name]}([{value.name}])" for value in graph.input]
    lines += [f'    {ids[value.name]}[/"{value.name}"/]' for value in graph.initializer]
    edges: list[str] = []
    for number, node in enumerate(graph.node):
        label = node.op_type + "".join(f"<br/>{_attribute(a)}" for a in node.attribute)
        lines.append(f'    n{number}["{label}"]')
        edges += [f"    {ids[name]} --> n{number}" for name in node.input if name]
        ids.update((name, f"n{number}") for name in node.output)
    for number, value in enumerate(graph.output):
        lines.append(f"    o{number}([{value.name}])")
        edges.append(f"    {ids[value.name]} --> o{number}")
    return "\n".join(lines + edges)


def _attribute(attribute: onnx.AttributeProto) -> str:
    return onnx.helper.printable_attribute(attribute).replace('"', "'")


def _family(cls: type[Rewrite]) -> tuple[str, str]:
    """Title of the family of a pattern, and what its package says about it."""
    package = sys.modules[cls.__module__.rpartition(".")[0] or cls.__module__]
    return cls.family().replace("_", " ").capitalize(), inspect.cleandoc(package.__doc__ or "")


def pages() -> dict[str, str]:
    """All pages by file name."""
    patterns = list(installed_patterns().values())
    families = {
        key: list(members) for key, members in groupby(sorted(patterns, key=_family), key=_family)
    }
    found = {"README.md": _INDEX.render(families=families, opsets=opsets)}
    for cls in patterns:
        examples = [(diagram(e.before, e), diagram(e.after, e)) for e in cls.examples]
        doc = inspect.cleandoc(cls.__doc__ or "")
        found[f"{cls.name()}.md"] = _PAGE.render(
            cls=cls,
            doc=doc,
            opsets=opsets(cls),
            examples=examples,
            proved=PATTERN_GRADES.get(cls.name()),
        )
    return found
