"""Write the types of ``g.op`` for editors and type checkers: ``python -m xoptim.scaffold.stubs
[--check] [--texts]``.
"""

import sys
import textwrap
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Final

import onnx
from onnx.defs import OpSchema

from xoptim.facts.attributes import MOVED
from xoptim.operators.registry import is_associative
from xoptim.system.temporary import write_file

TARGET: Final = Path(__file__).parents[1] / "match" / "ops.pyi"
_HEADER = '''\
# Written by `python -m xoptim.scaffold.stubs` from the operators of onnx {version}. Do not edit.
"""The operators of ``g.op``: a method for each operator, with the attributes of all versions."""

from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeAlias, TypeVar, overload

from xoptim.match.trace import Symbol

Result = TypeVar("Result")
_Pattern: TypeAlias = Operators[Symbol]
_Builder: TypeAlias = Operators[str]


class PatternOps(_Pattern):
    """The operators of `match_pattern`: attributes may be conditions."""


class BuilderOps(_Builder):
    """The operators of `apply_pattern` and of `GraphBuilder`."""


class Operators(Generic[Result]):
    """The operators of both, by the type of their results."""

    def __getattr__(self, op_type: str) -> Callable[..., Any]: ...
    def __getitem__(self, op_type: str) -> Callable[..., Any]: ...
'''
_TYPES: Final = {
    "INT": "int",
    "FLOAT": "float",
    "STRING": "str",
    "INTS": "Sequence[int]",
    "FLOATS": "Sequence[float]",
    "STRINGS": "Sequence[str]",
}
"""Python types of attributes; others are tensors, graphs and types."""
_HOLDS: Final = {"integers": "Sequence[int]", "integer": "int", "number": "float"}
"""Python types of attributes that became operands."""


def stub(texts: bool = False) -> str:
    """The text of the stub, with the descriptions of the onnx package if ``texts``."""
    schemas = [s for s in onnx.defs.get_all_schemas_with_history() if not s.domain]
    schemas.sort(key=lambda s: (s.name, s.since_version))
    operators = [list(versions) for _, versions in groupby(schemas, key=lambda s: s.name)]
    parts = [_HEADER.format(version=onnx.__version__)]
    parts += ["\n".join(_methods(versions, texts)) for versions in operators]
    return "\n".join(part.rstrip("\n") for part in parts) + "\n"


_ANY_OPERANDS: Final = ["*operands: Any"]


def _methods(versions: Sequence[OpSchema], texts: bool) -> Iterator[str]:
    """The overloads of an operator: those of `match_pattern`, the first one with the documentation,
    those of `apply_pattern`, and one for other domains.
    """
    name = versions[-1].name
    yield from _pattern_methods(versions, _doc(versions, texts))
    yield from _builder_methods(versions)
    keywords = [
        "domain: str",
        "outputs: int | Result | Sequence[Result] = ...",
        "**attributes: Any",
    ]
    yield from _method("", name, _ANY_OPERANDS, keywords, "Any")


def _pattern_methods(versions: Sequence[OpSchema], doc: str) -> Iterator[str]:
    """The overloads in `match_pattern`: plain, with ``outputs``, with ``associative``."""
    name = versions[-1].name
    attributes = [
        *(f"{key}: Any = ..." for key in _attributes(versions)),
        "attributes: Any = ...",
        "any_order: Any = ...",
    ]
    operands = _operands(versions, max_required=1)  # a variadic operand takes all that are left
    yield from _method("_Pattern", name, operands, attributes, "Symbol", doc)
    if versions[-1].max_output > 1:
        keywords = ["outputs: int | Symbol | Sequence[Symbol]", *attributes]
        yield from _method("_Pattern", name, _ANY_OPERANDS, keywords, "Any")
    if is_associative(name, ""):
        keywords = ["associative: bool", *attributes]
        yield from _method("_Pattern", name, _ANY_OPERANDS, keywords, "Symbol")


def _builder_methods(versions: Sequence[OpSchema]) -> Iterator[str]:
    """The overloads in `apply_pattern`: plain, with chosen results."""
    name = versions[-1].name
    attributes = [
        *(f"{key}: {kind} | None = ..." for key, kind in _attributes(versions).items()),
        "name: Any = ...",
    ]
    yield from _method("_Builder", name, _operands(versions), attributes, "str")
    keywords = ["outputs: int | Sequence[str]", *attributes]
    yield from _method("_Builder", name, _ANY_OPERANDS, keywords, "Any")


def _method(
    owner: str, name: str, operands: list[str], keywords: list[str], result: str, doc: str = ""
) -> Iterator[str]:
    """The lines of one overload, for a class or, without one, for both."""
    star = [] if operands and operands[-1].startswith("*") else ["*"]
    before = [*operands, "/"] if operands and star else operands
    text = ", ".join((f"self: {owner}" if owner else "self", *before, *star, *keywords))
    yield "    @overload"
    yield f"    def {name}({text}) -> {result}:" + ("" if doc else " ...")
    if doc:
        lines = doc.splitlines()
        yield f'        """{lines[0]}'
        yield from (f"        {line}".rstrip() for line in lines[1:])
        yield '        """'


def _attributes(versions: Sequence[OpSchema]) -> dict[str, str]:
    """The attributes of all versions with their Python types, those that became operands
    included.
    """
    types = {
        key: _TYPES.get(str(a.type).rpartition(".")[2], "Any")
        for version in versions
        for key, a in version.attributes.items()
    }
    types.pop("consumed_inputs", None)  # a remark of operator set 1, without effect
    types |= {
        key: _HOLDS[rule.holds] for (op, key), rule in MOVED.items() if op == versions[-1].name
    }
    return dict(sorted(types.items()))


def _operands(versions: Sequence[OpSchema], max_required: int | None = None) -> list[str]:
    """The operands of the newest version.

    Operands that may be omitted have a default, as do all after the first ``max_required``.
    """
    newest = versions[-1]
    places = {rule.place for (op, _), rule in MOVED.items() if op == newest.name}
    limits = [*places, *(version.min_input for version in versions)]
    required = min(limits if max_required is None else [*limits, max_required])
    parameters: list[str] = []
    for place, operand in enumerate(newest.inputs):
        if operand.option == OpSchema.FormalParameterOption.Variadic:
            return [*parameters, f"*{operand.name}: Any"] if not parameters else ["*operands: Any"]
        parameters.append(f"{operand.name}_: Any" + (" = ..." if place >= required else ""))
    return parameters


def _doc(versions: Sequence[OpSchema], texts: bool) -> str:
    """Signature, versions and attributes with their types and defaults."""
    newest = versions[-1]
    operands, results = (
        ", ".join(value.name for value in values) for values in (newest.inputs, newest.outputs)
    )
    lines = [f"{newest.name}({operands}) → {results}.", ""]
    if texts:
        lines += [
            *textwrap.dedent(newest.doc or "")
            .strip()
            .replace("\\", "\\\\")
            .replace('"""', "'''")
            .splitlines(),
            "",
        ]
    numbers = ", ".join(str(version.since_version) for version in versions)
    lines.append(
        f"Operator sets {numbers}: https://onnx.ai/onnx/operators/onnx__{newest.name}.html"
    )
    for key, kind in _attributes(versions).items():
        attribute = newest.attributes.get(key)
        lines.append(f"- ``{key}``: {kind}{_default(versions, key)}")
        if texts and attribute is not None:
            lines.append(textwrap.indent(attribute.description.strip().replace("\\", "\\\\"), "  "))
    return "\n".join(lines)


def _default(versions: Sequence[OpSchema], key: str) -> str:
    """The default of an attribute in the newest version that has it, or that it is required."""
    for version in reversed(versions):
        if key in version.attributes:
            attribute = version.attributes[key]
            if attribute.default_value.name:
                value = onnx.helper.get_attribute_value(attribute.default_value)
                return f" = {value.decode() if isinstance(value, bytes) else value!r}"
            return ", required" if attribute.required else ""
    return ", an operand in newer operator sets"


def main(arguments: Sequence[str]) -> int:
    """Write the stub; with ``--check``, only report whether it is current.

    Returns the exit code.
    """
    text = stub("--texts" in arguments)
    if "--check" in arguments:
        return int(not TARGET.is_file() or TARGET.read_text(encoding="utf-8") != text)
    write_file(TARGET, text.encode())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
