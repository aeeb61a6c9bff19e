"""The page of the site with the public names and their signatures; ``python docs/api.py`` prints
it.

With ``--release``, it writes the list that the tests compare later versions with instead.
"""

import dataclasses
import inspect
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, Final

import click

from xoptim.api.schemas import VERSION, json_schema, schema_names
from xoptim.facts.lazy import exports

ROOT: Final = Path(__file__).parents[1]
RELEASED: Final = ROOT / "docs" / "released_api.txt"
MODULES: Final = (
    "xoptim",
    "xoptim.match",
    "xoptim.operators",
    "xoptim.dialects",
    "xoptim.testing",
    "xoptim.integrations.onnx_ir",
    "xoptim.integrations.torch",
)
"""Public modules.

A name that several of them have belongs to the first.
"""
_HEAD: Final = """# Public names

These names follow [semantic versioning](stability.md): until version 2 they stay, and so do their
parameters. The usual ones are in `xoptim.__all__`.
"""


def public_names() -> Iterator[tuple[str, str, Any]]:
    """Module, name and value of everything public, each value once."""
    seen: set[int] = set()
    for module in MODULES:
        content = import_module(module)
        for name in sorted(_names(module)):
            value = getattr(content, name)
            if inspect.ismodule(value) or id(value) in seen or not _is_ours(value, module):
                continue
            seen.add(id(value))
            yield module, name, value


def _names(module: str) -> list[str]:
    """The names that a module may offer."""
    if module == "xoptim":
        return exports(module)
    content = import_module(module)
    # Modules import what is not theirs; a name that is exported says so.
    exported: list[str] | None = getattr(content, "__all__", None)
    return exported or [name for name in vars(content) if not name.startswith("_")]


def _is_ours(value: Any, module: str) -> bool:
    """Whether a module offers a value, and does not only use it."""
    home = getattr(value, "__module__", None)
    if home is None:
        return True
    return home == module if ".integrations." in module else str(home).startswith("xoptim")


def signature(value: Any) -> str:
    """The parameters of a function or a class without their types.

    Empty where there are none to call.
    """
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    shown = [
        each.replace(
            annotation=each.empty,
            default=each.empty if each.default is each.empty else _Shown(each.default),
        )
        for each in found.parameters.values()
    ]
    return str(found.replace(parameters=shown, return_annotation=found.empty))


class _Shown:
    """A default value, as the page shows it."""

    def __init__(self, value: Any) -> None:
        is_plain = isinstance(
            value, (str, int, float, bool, tuple, type(None))
        ) and "object at" not in repr(value)
        self._text = repr(value) if is_plain else "..."

    def __repr__(self) -> str:
        return self._text


def members(cls: type) -> Iterator[str]:
    """The public attributes and methods of a class that xoptim defines, with their parameters."""
    fields = (
        {field.name for field in dataclasses.fields(cls)}
        if dataclasses.is_dataclass(cls)
        else set()
    )
    owners = [each for each in cls.__mro__ if each.__module__.startswith("xoptim")]
    for name in sorted(fields.union(*(vars(each) for each in owners))):
        if not name.startswith("_"):
            value = inspect.getattr_static(cls, name, None)
            function = value.__func__ if isinstance(value, (classmethod, staticmethod)) else value
            yield name + (signature(function) if inspect.isfunction(function) else "")


def options(command: click.Command) -> Iterator[str]:
    """The options of a command, each with all its spellings."""
    for parameter in command.params:
        if isinstance(parameter, click.Option) and not parameter.hidden:
            yield from (*parameter.opts, *parameter.secondary_opts)


def surface() -> list[str]:
    """All that is public, a line each: ``xoptim.optimize(model, ...)``, ``xopt verify --json``,
    ``json 1 Verification.status: string``.
    """
    lines = []
    for module, name, value in public_names():
        is_class = isinstance(value, type)
        lines.append(
            f"{module}.{name}{signature(value) if callable(value) and not _is_error(value) else ''}"
        )
        lines += [f"{module}.{name}.{member}" for member in members(value)] if is_class else []
    for command in import_module("xoptim.cli.commands").COMMANDS.values():
        lines += [
            f"xopt {command.name}",
            *(f"xopt {command.name} {option}" for option in options(command)),
        ]
    lines += [line for name in schema_names() for line in documented(name)]
    return sorted(set(lines))


def documented(name: str) -> Iterator[str]:
    """The JSON document of a command, and the fields of its objects, each with its type."""
    schema = json_schema(name)
    start = f"json {VERSION}"
    yield f"{start} {name}: {_kind(schema)}"
    for title, definition in schema["$defs"].items():
        for field, each in definition["properties"].items():
            yield f"{start} {title}.{field}: {_kind(each)}"


def _kind(schema: dict[str, Any]) -> str:
    """The type of a value in a few words; all texts are one type, so that words can be added."""
    if "$ref" in schema:
        return str(schema["$ref"].rpartition("/")[2])
    if "anyOf" in schema:
        return " or ".join(map(_kind, schema["anyOf"]))
    if "enum" in schema:
        return "string"
    kind = schema.get("type", "any")
    if kind == "array":
        return f"array of [{_kind(schema['items'])}]"
    if kind == "object":
        return f"object of [{_kind(schema['additionalProperties'])}]"
    return kind if isinstance(kind, str) else " or ".join(kind)


def _is_error(value: Any) -> bool:
    return isinstance(value, type) and issubclass(value, BaseException)


def page() -> str:
    """The content of the page."""
    lines, current = [_HEAD], ""
    for module, name, value in public_names():
        if module != current:
            lines += [f"## {module}", ""]
            current = module
        doc = (inspect.getdoc(value) or "").splitlines()
        said = doc[0] if doc and (inspect.isclass(value) or inspect.isfunction(value)) else ""
        lines.append(
            f"- `{name}{signature(value) if inspect.isfunction(value) else ''}` {said}".rstrip()
        )
    return "\n".join(_spaced(lines)) + "\n"


def _spaced(lines: list[str]) -> Iterator[str]:
    """Lines with an empty one before each heading."""
    for number, line in enumerate(lines):
        if line.startswith("## ") and number > 1:
            yield ""
        yield line


if __name__ == "__main__":
    if sys.argv[1:] == ["--release"]:
        RELEASED.write_text("\n".join(surface()) + "\n", encoding="utf-8")
    else:
        sys.stdout.write(page())
