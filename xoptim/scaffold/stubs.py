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
from typing import Any, overload

from xoptim.match.trace import Symbol
'''
_CLASS = '''

class {name}:
    """{doc}"""

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
    pattern = _CLASS.format(
        name="PatternOps", doc="The operators of `match_pattern`: attributes may be conditions."
    )
    builder = _CLASS.format(
        name="BuilderOps", doc="The operators of `apply_pattern` and of `GraphBuilder`."
    )
    parts = [_HEADER.format(version=onnx.__version__), pattern]
    parts += ["\n".join(_pattern_methods(versions, texts)) for versions in operators]
    parts.append(builder)
    parts += ["\n".join(_builder_methods(versions, texts)) for versions in operators]
    return "\n".join(part.rstrip("\n") for part in parts) + "\n"


def _pattern_methods(versions: Sequence[OpSchema], texts: bool) -> Iterator[str]:
    """The overloads of an operator in `match_pattern`: plain, with several results, as a sum of
    sums, of another domain.
    """
    name = versions[-1].name
    attributes = [
        *(f"{key}: Any = ..." for key in _attributes(versions)),
        "attributes: Any = ...",
        "any_order: Any = ...",
    ]
    operands = _operands(versions, most=1)  # a variadic operand takes all that are left
    yield from _method(name, operands, attributes, "Symbol", _doc(versions, texts))
    if versions[-1].max_output > 1:
        yield from _method(
            name,
            ["*operands: Any"],
            ["outputs: int | Symbol | Sequence[Symbol]", *attributes],
            "Any",
        )
    if is_associative(name, ""):
        yield from _method(name, ["*operands: Any"], ["associative: bool", *attributes], "Symbol")
    yield from _method(
        name,
        ["*operands: Any"],
        ["domain: str", "outputs: int | Symbol | Sequence[Symbol] = ...", "**attributes: Any"],
        "Any",
    )


def _builder_methods(versions: Sequence[OpSchema], texts: bool) -> Iterator[str]:
    """The overloads of an operator that is made: plain, with chosen results, of another domain."""
    name = versions[-1].name
    attributes = [
        *(f"{key}: {kind} | None = ..." for key, kind in _attributes(versions).items()),
        "name: Any = ...",
    ]
    doc = _doc(versions, texts, has_types=True)
    yield from _method(name, _operands(versions), attributes, "str", doc)
    yield from _method(
        name, ["*operands: Any"], ["outputs: int | Sequence[str]", *attributes], "Any"
    )
    other = [
        "domain: str",
        "outputs: int | Sequence[str] = ...",
        "name: str = ...",
        "**attributes: Any",
    ]
    yield from _method(name, ["*operands: Any"], other, "Any")


def _method(
    name: str, operands: list[str], keywords: list[str], result: str, doc: str = ""
) -> Iterator[str]:
    """The lines of one overload."""
    star = [] if operands and operands[-1].startswith("*") else ["*"]
    before = [*operands, "/"] if operands and star else operands
    text = ", ".join(("self", *before, *star, *keywords))
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
    found = {
        key: _TYPES.get(str(a.type).rpartition(".")[2], "Any")
        for version in versions
        for key, a in version.attributes.items()
    }
    found.pop("consumed_inputs", None)  # a remark of operator set 1, without effect
    found |= {
        key: _HOLDS[rule.holds] for (op, key), rule in MOVED.items() if op == versions[-1].name
    }
    return dict(sorted(found.items()))


def _operands(versions: Sequence[OpSchema], most: int | None = None) -> list[str]:
    """The operands of the newest version.

    Those after the first ``most``, which may be omitted, have a default.
    """
    newest = versions[-1]
    moved = {rule.place for (op, _), rule in MOVED.items() if op == newest.name}
    least = min(
        [*moved, *(version.min_input for version in versions), *([] if most is None else [most])]
    )
    written: list[str] = []
    for place, operand in enumerate(newest.inputs):
        if operand.option == OpSchema.FormalParameterOption.Variadic:
            return [*written, f"*{operand.name}: Any"] if not written else ["*operands: Any"]
        written.append(f"{operand.name}_: Any" + (" = ..." if place >= least else ""))
    return written


def _doc(versions: Sequence[OpSchema], texts: bool, *, has_types: bool = False) -> str:
    """Signature, versions and attributes with their defaults; only those with more than a type
    where the method has types.
    """
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
        default = _default(versions, key)
        known = newest.attributes.get(key)
        if default or texts or not has_types:
            lines.append(f"- ``{key}``: {kind}{default}")
        if texts and known is not None:
            lines.append(textwrap.indent(known.description.strip().replace("\\", "\\\\"), "  "))
    return "\n".join(lines)


def _default(versions: Sequence[OpSchema], key: str) -> str:
    """The default of an attribute, or that it must be given; of the newest version that has it."""
    for version in reversed(versions):
        if key in version.attributes:
            found = version.attributes[key]
            if found.default_value.name:
                value = onnx.helper.get_attribute_value(found.default_value)
                return f" = {value.decode() if isinstance(value, bytes) else value!r}"
            return ", required" if found.required else ""
    return ", an operand in newer operator sets"


def main(arguments: Sequence[str]) -> int:
    """Write the stub; with ``--check``, only report whether it is current.

    Returns the exit code.
    """
    wanted = stub("--texts" in arguments)
    if "--check" in arguments:
        return int(not TARGET.is_file() or TARGET.read_text(encoding="utf-8") != wanted)
    write_file(TARGET, wanted.encode())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
