"""The arguments of tools, and the options of the command that they stand for."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from xoptim.facts.advice import COMMAND, Form, python_value
from xoptim.facts.words import shortened

TOOL_NAMES: Final = ("optimize", "explain", "place", "verify", "stats", "diff")
"""The tools of the server."""


@dataclass(frozen=True)
class OptimizeArguments:
    """The arguments of ``optimize`` but for the model; its docstring describes them."""

    output: str = ""
    target: str = ""
    precision: str = ""
    include: str = ""
    opset: str = ""
    fix: Sequence[str] = ()
    assume: Sequence[str] = ()
    software_device: bool = False
    overwrite: bool = False
    detail: bool = False

    def words(self) -> list[str]:
        """The options of the command, but for the file to write and the format."""
        scheme, _, tolerance = self.precision.partition(" ")
        values = {
            "--target": self.target,
            "--precision": scheme,
            "--tolerance": tolerance,
            "--opset": self.opset,
        }
        return [
            *(f"{option}={value}" for option, value in values.items() if value),
            *repeated("--include", filter(None, map(str.strip, self.include.split(",")))),
            *repeated("--fix", self.fix),
            *repeated("--assume", self.assume),
            *software_option(self.software_device),
        ]


def software_option(is_wanted: bool) -> list[str]:
    """The option for a target that is emulated on the CPU."""
    return ["--software-device"] if is_wanted else []


def repeated(option: str, values: Iterable[str]) -> list[str]:
    """An option for each of some values."""
    return [f"{option}={value}" for value in values]


@dataclass(frozen=True)
class _ToolArgument:
    """The argument of tools that an option of the command stands for.

    Attributes:
        name: name of the argument.
        tools: names of the tools that have the argument.
        form: the form in which its value is written.
    """

    name: str
    tools: Collection[str]
    form: Form = "text"


_ARGUMENTS: Final[Mapping[str, _ToolArgument]] = {
    "all": _ToolArgument("detail", TOOL_NAMES, "flag"),
    "assume": _ToolArgument("assume", ("optimize", "explain", "verify"), "list"),
    "assume-from-model": _ToolArgument("assume", ("optimize", "explain", "verify"), "list"),
    "at": _ToolArgument("node", ("explain",)),
    "atol": _ToolArgument("atol", ("verify",), "number"),
    "dim": _ToolArgument("dim", ("verify",), "list"),
    "fix": _ToolArgument("fix", ("optimize", "place"), "list"),
    "include": _ToolArgument("include", ("optimize",)),
    "opset": _ToolArgument("opset", ("optimize",)),
    "output": _ToolArgument("output", ("optimize",)),
    "pack": _ToolArgument("include", ("optimize",)),
    "precision": _ToolArgument("precision", ("optimize",)),
    "rtol": _ToolArgument("rtol", ("verify",), "number"),
    "software-device": _ToolArgument("software_device", ("optimize", "place"), "flag"),
    "target": _ToolArgument("target", ("optimize", "explain", "place")),
}
"""The arguments that options of the command stand for, by the names of the options."""
_ADVISERS: Final = ("explain", "place")
"""Tools whose answers advise what to give to ``optimize``."""


@dataclass(frozen=True)
class ToolWords:
    """Options as arguments of a tool, as an agent gives them: ``fix=["batch=1"]``.

    An option that the tool lacks is written as on the command line. If ``optimize`` has it, and the
    tool advises what to give to ``optimize``, it is written as an argument of ``optimize``.

    Attributes:
        tool: the name of the tool.
    """

    tool: str

    def words(self, option: str, argument: str | tuple[str, ...]) -> str:
        """An argument with its value; the name alone if there is no value."""
        tool_argument = _ARGUMENTS.get(option)
        is_own = tool_argument is not None and self.tool in tool_argument.tools
        if tool_argument is None or not (
            is_own or (self.tool in _ADVISERS and "optimize" in tool_argument.tools)
        ):
            return COMMAND.words(option, argument)
        if tool_argument.form == "flag":
            written = f"{tool_argument.name}=true"
        elif argument:
            written = f"{tool_argument.name}={python_value(tool_argument.form, argument)}"
        else:
            written = tool_argument.name
        return written if is_own else f"optimize {written}"


_EXPECTED: Final = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "float_parsing": "a number",
    "float_type": "a number",
    "sequence_str": 'a list of strings, such as ["batch=1"]',
    "is_instance_of": 'a list of strings, such as ["batch=1"]',
    "string_type": "a string",
}
"""The expected value of an argument, by the type of the error of pydantic."""


def argument_faults(
    tool: str, errors: Sequence[Mapping[str, Any]], known: Sequence[str]
) -> Iterator[str]:
    """The mistakes in the arguments of a call, a line each.

    Args:
        tool: the tool.
        errors: the errors that pydantic found.
        known: the arguments of the tool.
    """
    for error in errors:
        name = ".".join(map(str, error["loc"]))
        if error["type"] == "missing":
            yield f"{tool}: the argument {name!r} is missing"
        elif error["type"] == "extra_forbidden":
            yield f"{tool} has no argument {name!r}; it has {', '.join(known)}"
        else:
            expected = _EXPECTED.get(error["type"])
            rule = f"must be {expected}" if expected else f"is wrong: {error['msg']}"
            yield f"{tool}: the argument {name!r} {rule}, not {shortened(repr(error['input']))}"
