"""Write the JSON Schemas of the command's documents: ``python -m lab.json_schemas``.

They are generated from the types in ``cli/json_types.py`` (JSON Schema, draft 2020-12).
"""

import ast
import inspect
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from types import NoneType, UnionType
from typing import (
    Any,
    Final,
    Literal,
    NotRequired,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from xoptim.api.schemas import FILE, REFERENCE, VERSION, with_properties
from xoptim.cli.json_types import DOCUMENTS

_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
_PLAIN: Final = {
    NoneType: "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
}
_HEADING: Final = "Attributes:"


class TypeSchemas:
    """The schemas of types; those of objects are definitions that others refer to.

    Args:
        is_closed: whether an object may have no other fields than those of its type.
    """

    def __init__(self, *, is_closed: bool = False) -> None:
        self.definitions: dict[str, dict[str, Any]] = {}
        self._is_closed = is_closed

    def of(self, kind: Any) -> dict[str, Any]:
        """The schema of a type.

        Raises:
            TypeError: for a type that has no schema here.
        """
        if kind is Any:
            return {}
        if kind in _PLAIN:
            return {"type": _PLAIN[kind]}
        if is_typeddict(kind):
            return self._of_object(kind)
        origin, arguments = get_origin(kind), get_args(kind)
        if origin is NotRequired:
            return self.of(arguments[0])
        if origin is Literal:
            return {"enum": list(arguments)}
        if origin in (Union, UnionType) and all(each in _PLAIN for each in arguments):
            return {"type": [_PLAIN[each] for each in arguments]}
        if origin in (Union, UnionType):
            return {"anyOf": [self.of(each) for each in arguments]}
        if origin is list:
            return {"type": "array", "items": self.of(arguments[0])}
        if origin is dict and arguments[0] is str:
            return {"type": "object", "additionalProperties": self.of(arguments[1])}
        raise TypeError(f"there is no JSON Schema for {kind}")

    def _of_object(self, kind: Any) -> dict[str, Any]:
        name = kind.__name__.removesuffix("Json")
        reference = {"$ref": f"{REFERENCE}{name}"}
        if name in self.definitions:
            return reference
        made: dict[str, Any] = {"type": "object"}
        self.definitions[name] = made  # first: a field may have this type
        texts = descriptions(kind)
        made["description"] = inspect.getdoc(kind).partition("\n")[0]  # type: ignore[union-attr]
        made["properties"] = {
            field: {**self.of(each), "description": texts[field]}
            for field, each in get_type_hints(kind, include_extras=True).items()
        }
        made["required"] = [name for name in made["properties"] if name in kind.__required_keys__]
        if self._is_closed:
            made["additionalProperties"] = False
        return reference


def descriptions(kind: Any) -> dict[str, str]:
    """The descriptions of the fields of a type, from its docstring and those of its bases."""
    found: dict[str, str] = {}
    for base in _bases(kind):
        found |= descriptions(base)
    lines = inspect.cleandoc(kind.__doc__).splitlines()
    name = ""
    for line in lines[lines.index(_HEADING) + 1 :]:
        text = line.strip()
        if line.startswith("     "):  # the text goes on
            found[name] += f" {text}"
        else:
            name, _, found[name] = _field(text)
    return found


def _field(text: str) -> tuple[str, str, str]:
    """A name, a separator and a description."""
    name, colon, told = text.partition(": ")
    if not colon:
        raise ValueError(f"{text!r} is not a field and its description")
    return name, colon, told


def _bases(kind: Any) -> Iterator[Any]:
    """The types that a type extends, which Python 3.11 does not remember."""
    tree = ast.parse(inspect.getsource(kind)).body[0]
    assert isinstance(tree, ast.ClassDef)
    names = [each.id for each in tree.bases if isinstance(each, ast.Name)]
    module = sys.modules[kind.__module__]
    yield from (getattr(module, name) for name in names if name != "TypedDict")


def schema_of(name: str, *, is_closed: bool = False) -> dict[str, Any]:
    """The schema of a document; a closed one refuses fields that it does not describe."""
    document = DOCUMENTS[name]
    types = TypeSchemas(is_closed=is_closed)
    return with_properties(
        {
            "$schema": _DRAFT,
            "$id": f"urn:xoptim:schema:{VERSION}:{name}",
            "title": name,
            "description": document.text,
            **types.of(document.kind),
            "$defs": types.definitions,
        }
    )


def stored() -> dict[str, dict[str, Any]]:
    """What the file holds: the schemas of all documents, and the definitions that they share.

    Raises:
        ValueError: when two documents have different definitions of one name.
    """
    documents: dict[str, Any] = {}
    definitions: dict[str, Any] = {}
    for name in DOCUMENTS:
        schema = schema_of(name)
        for kind, definition in schema.pop("$defs").items():
            if definitions.setdefault(kind, definition) != definition:
                raise ValueError(f"two types are called {kind}")
        shown = ("type", "properties") if "$ref" in schema else ()
        documents[name] = {key: value for key, value in schema.items() if key not in shown}
    return {"documents": documents, "definitions": definitions}


def text() -> str:
    """The content of the file, a line for each document and definition.

    Programs read it, and ``xopt --json-schema`` prints a document for people.
    """
    parts = (f'"{title}": {_lines(schemas)}' for title, schemas in stored().items())
    return "{" + ",\n".join(parts) + "}\n"


def _lines(schemas: dict[str, Any]) -> str:
    lines = (
        f'"{name}":{json.dumps(schema, separators=(",", ":"))}' for name, schema in schemas.items()
    )
    return "{\n" + ",\n".join(lines) + "\n}"


def main() -> None:
    """Write the file."""
    Path(str(FILE)).write_text(text(), encoding="utf-8", newline="\n")


if __name__ == "__main__":
    main()
