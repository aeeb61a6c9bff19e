"""Write the JSON Schemas of the command's documents: ``python -m lab.json_schemas``.

They are derived from the classes of the results (JSON Schema, draft 2020-12): types from
annotations, descriptions from docstrings.
"""

import inspect
import json
import sys
from collections.abc import Collection, Mapping, Sequence, Set as AbstractSet
from functools import cache
from importlib import import_module
from pathlib import Path
from types import FunctionType, NoneType, SimpleNamespace, UnionType
from typing import (
    Annotated,
    Any,
    Final,
    Literal,
    NamedTuple,
    Union,
    get_args,
    get_origin,
    get_type_hints,
    is_typeddict,
)

from xoptim.api.schemas import FILE, REFERENCE, VERSION, with_properties
from xoptim.batching.record import Record
from xoptim.bench import OperatorTime
from xoptim.cli.commands.apply import NoMatch
from xoptim.cli.commands.bench import BenchResult
from xoptim.cli.commands.bisect import BisectDocument
from xoptim.cli.commands.diff import DiffDocument
from xoptim.cli.commands.doctor import DoctorDocument
from xoptim.cli.commands.explain import ExplainDocument
from xoptim.cli.commands.list import PatternDocument
from xoptim.cli.commands.place import UnavailableTarget, Uncompiled
from xoptim.cli.commands.stats import StatsDocument
from xoptim.cli.commands.tune import TuneDocument
from xoptim.cli.findings import Finding
from xoptim.cli.pairing import PairDocument
from xoptim.cli.summary_document import SummaryDocument
from xoptim.diagnose.each import Replayed
from xoptim.diagnose.explanation import Explanation
from xoptim.diagnose.export import ExportDiagnosis
from xoptim.facts.json_results import JsonResult, Member, members_of
from xoptim.integrations.mcp import ToolAnswer
from xoptim.proof.checking import CertificateCheck
from xoptim.targets.placement import Placement
from xoptim.targets.verifying import TargetCheck
from xoptim.verification.judging.report import VerificationReport

_DRAFT: Final = "https://json-schema.org/draft/2020-12/schema"
_PLAIN: Final = {
    NoneType: "null",
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    Path: "string",
}
_FOR_TYPES: Final = (
    "xoptim.diagnose.hints",
    "xoptim.diagnose.unfit",
    "xoptim.proof.observer",
    "xoptim.tuning.speed",
    "xoptim.workflow.fitting",
)
"""Modules to import, as other modules use their result classes in annotations only."""
_UNIONS: Final = (Union, UnionType)
_ARRAYS: Final = (list, tuple, Sequence, Collection, frozenset, AbstractSet)
_OBJECTS: Final = (dict, Mapping)
_HEADING: Final = "Attributes:"


class TypeSchemas:
    """The JSON Schemas of types. Objects become definitions, to which other schemas refer.

    Args:
        is_closed: whether an object may have no other members than those of its type.
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
        if _is_object(kind):
            return self._of_object(kind)
        origin, arguments = get_origin(kind), get_args(kind)
        if origin is Annotated:
            return self._of_union(_parts(kind))
        if origin is Literal:
            return {"enum": list(arguments)}
        if origin in _UNIONS:
            return self._of_union(arguments)
        if origin in _ARRAYS and len({*arguments} - {...}) == 1:
            return {"type": "array", "items": self.of(arguments[0])}
        if origin in _OBJECTS and arguments[0] is str:
            return {"type": "object", "additionalProperties": self.of(arguments[1])}
        raise TypeError(f"there is no JSON Schema for {kind}")

    def _of_union(self, kinds: tuple[Any, ...]) -> dict[str, Any]:
        if len(kinds) == 1:
            return self.of(kinds[0])
        if all(kind in _PLAIN for kind in kinds):
            return {"type": [_PLAIN[kind] for kind in kinds]}
        return {"anyOf": [self.of(kind) for kind in kinds]}

    def _of_object(self, kind: type) -> dict[str, Any]:
        form = getattr(kind, "__json__", None)
        name = (form and form.name) or kind.__name__
        reference = {"$ref": f"{REFERENCE}{name}"}
        if name in self.definitions:
            return reference
        schema: dict[str, Any] = {"type": "object"}
        self.definitions[name] = schema  # first: a member may have this type
        members = _members_of(kind)
        schema["description"] = _in_json_words(_first_paragraph(kind))
        schema["properties"] = {entry.key: self._of_member(kind, entry) for entry in members}
        schema["required"] = [entry.key for entry in members if not entry.is_optional]
        if self._is_closed:
            schema["additionalProperties"] = False
        return reference

    def _of_member(self, kind: type, entry: Member) -> dict[str, Any]:
        return {**self.of(_type_of(kind, entry)), "description": _text_of(kind, entry)}


def _is_object(kind: Any) -> bool:
    """Whether values of a type are JSON objects with known members.

    The answer of an MCP tool is a typed dictionary, as the SDK of MCP expects it.
    """
    if is_typeddict(kind):
        return True
    return isinstance(kind, type) and (issubclass(kind, JsonResult) or hasattr(kind, "_fields"))


def _members_of(kind: type) -> tuple[Member, ...]:
    """The members of the JSON object of a type."""
    if is_typeddict(kind):
        return tuple(Member(name, name) for name in kind.__annotations__)
    return members_of(kind)


@cache
def _results() -> dict[str, type]:
    """All classes of results by name, to resolve annotations."""
    for module in _FOR_TYPES:
        import_module(module)
    return {kind.__name__: kind for kind in JsonResult.__subclasses__()}


def _type_of(kind: type, entry: Member) -> Any:
    """The type of a member, before it becomes a JSON value."""
    value_type: Any = kind
    is_nullable = False
    for name in entry.path.split("."):
        parts = _parts(_annotation(value_type, name))
        is_nullable = is_nullable or NoneType in parts
        value_type = Union[tuple(part for part in parts if part is not NoneType)]  # noqa: UP007
    converted = Any if entry.convert is None else _evaluated(entry.convert, "return")
    value_type = value_type if converted is Any else converted
    return value_type | None if is_nullable and not entry.is_optional else value_type


def _parts(kind: Any) -> tuple[Any, ...]:
    """The types of a union; the type itself where it is no union.

    An annotated type counts as the type of its JSON value.
    """
    if get_origin(kind) is Annotated:
        return _parts(get_args(kind)[1])
    return get_args(kind) if get_origin(kind) in _UNIONS else (kind,)


def _annotation(owner: type, name: str) -> Any:
    """The type of an attribute, or of the result of a property or method."""
    for base in owner.__mro__:
        if name in vars(base).get("__annotations__", {}):
            return _evaluated(base, name)
        if name in vars(base):
            attribute = vars(base)[name]
            return _evaluated(getattr(attribute, "fget", attribute), "return")
    raise TypeError(f"{owner.__name__} has no attribute {name!r}")


def _evaluated(place: Any, name: str) -> Any:
    """An annotation of a class or function."""
    annotation = SimpleNamespace(__annotations__={name: place.__annotations__[name]})
    variables = vars(sys.modules[place.__module__])
    hints = get_type_hints(annotation, variables, _results(), include_extras=True)
    return hints[name]


def _text_of(kind: type, entry: Member) -> str:
    """The description of a member.

    Raises:
        ValueError: when neither the member, nor the class, nor the property has one.
    """
    *path, name = entry.path.split(".")
    text = entry.description
    owner = kind
    for step in path:
        parts = _parts(_annotation(owner, step))
        (owner,) = (part for part in parts if part is not NoneType)
    text = text or descriptions(owner).get(name, "")
    if not text:
        attribute = inspect.getattr_static(owner, name)
        if not isinstance(attribute, (property, FunctionType)):
            raise ValueError(f"{owner.__name__}.{name} has no description")
        sentence = _first_paragraph(attribute)
        text = sentence[:1].lower() + sentence[1:]
    return _in_json_words(text)


def _in_json_words(text: str) -> str:
    """A text of a docstring, with the value and the quotes of JSON."""
    return text.replace("``None``", "null").replace("``", "`")


def _first_paragraph(item: Any) -> str:
    text = inspect.getdoc(item) or ""
    return " ".join(text.partition("\n\n")[0].split())


def descriptions(kind: type) -> dict[str, str]:
    """The descriptions of the attributes of a class, from its docstring and those of its bases.

    Raises:
        ValueError: for a line under *Attributes* without a name and a description.
    """
    texts: dict[str, str] = {}
    for base in kind.__bases__:
        texts |= descriptions(base)
    _, _, section = inspect.cleandoc(kind.__doc__ or "").partition(f"\n{_HEADING}\n")
    name = ""
    for line in section.partition("\n\n")[0].splitlines():
        if line.startswith("     "):  # the text goes on
            texts[name] += f" {line.strip()}"
            continue
        name, colon, text = line.strip().partition(": ")
        if not colon:
            raise ValueError(f"{line.strip()!r} is not an attribute and its description")
        texts[name] = text
    return texts


class Document(NamedTuple):
    """A JSON document that the command prints or writes.

    Attributes:
        text: description of the document.
        kind: type of its content.
    """

    text: str
    kind: Any


DOCUMENTS: Final = {
    "apply": Document("Output of `xopt apply --json`.", SummaryDocument | NoMatch),
    "batch": Document("A line of results.jsonl, which `xopt batch` writes.", Record),
    "bench": Document(
        "Output of `xopt bench --json`; with `--profile`, times by model and operator.",
        BenchResult | dict[str, dict[str, OperatorTime]],
    ),
    "bisect": Document(
        "Output of `xopt bisect --json`: null when no rewrite changes a result.",
        BisectDocument | None,
    ),
    "certificate": Document(
        "Output of `xopt verify A B --certificate FILE --json`.", CertificateCheck
    ),
    "check": Document("Output of `xopt check --json`, one item a check.", list[Finding]),
    "diff": Document("Output of `xopt diff --json`.", DiffDocument),
    "doctor": Document("Output of `xopt doctor --json`.", DoctorDocument),
    "explain": Document(
        "Output of `xopt explain --json`; with `--matches`, one item a match.",
        ExplainDocument | list[Explanation],
    ),
    "export": Document("Output of `xopt doctor MODEL --json`.", ExportDiagnosis),
    "extract": Document("Output of `xopt extract DECODER --into ENCODER --json`.", PairDocument),
    "list": Document(
        "Output of `xopt list --json`; with `--tags`, the number of patterns by word.",
        list[PatternDocument] | dict[str, int],
    ),
    "mcp": Document("The structured result of each tool of `xopt mcp`.", ToolAnswer),
    "optimize": Document("Output of `xopt MODEL --json`.", SummaryDocument),
    "place": Document(
        "Output of `xopt place --json`, one item a target.",
        list[Placement | Uncompiled | UnavailableTarget],
    ),
    "replay": Document("Output of `xopt replay --json`, one item a dump.", list[Replayed]),
    "stats": Document("Output of `xopt stats --json`.", StatsDocument),
    "tune": Document("Output of `xopt tune --json`.", TuneDocument),
    "verify": Document(
        "Output of `xopt verify --json`, one item an execution provider; with `--target`, one "
        "object.",
        list[VerificationReport] | TargetCheck,
    ),
}
"""The documents by name: of commands with ``--json``, of ``xopt batch``, and of the MCP tools."""


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
    """The content of the file as data: the schemas of all documents, and their definitions.

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
    """The content of the file, with one line for each document and definition.

    The file is compact, as ``xopt --json-schema`` prints a document in a readable form.
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
