"""The arguments of tools, and the options of the command that they stand for."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final, Literal, TypeAlias

from xoptim.facts.words import shortened

Form: TypeAlias = Literal["text", "list", "number", "flag"]


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


_SIZES: Final = r"[^\s,;:()`'=]+=\w+(?:,[^\s,;:()`'=]+(?:=\w+)?)*"
_NUMBER: Final = r"\d[\d.]*(?:e[-+]?\d+)?|NUMBER"
_TARGETS: Final = "cpu|cuda|openvino|webgpu|qnn|tensorrt|coreml|nnapi|webnn|onnx|NAME"
_OPTIONS: Final[Mapping[str, tuple[str, Form, str]]] = {
    "-o": ("output", "text", "FILE"),
    "--all": ("detail", "flag", ""),
    "--assume": ("assume", "list", "'[^']+'|finite|nothing|TEXT"),
    "--assume-from-model": ("assume", "list", ""),
    "--at": ("node", "text", r"'[^']+'|#\d+|NODE"),
    "--atol": ("atol", "number", _NUMBER),
    "--dim": ("dim", "list", _SIZES),
    "--fix": ("fix", "list", _SIZES),
    "--include": ("include", "text", r"onnxruntime|approximate|[A-Z]\w*"),
    "--opset": ("opset", "text", r"\d+|newest"),
    "--precision": ("precision", "text", "int8|int4|float16|bfloat16"),
    "--rtol": ("rtol", "number", _NUMBER),
    "--software-device": ("software_device", "flag", ""),
    "--target": ("target", "text", _TARGETS),
}
"""The argument that an option stands for, its form, and a regular expression of values that may
follow the option: in a message, other words may follow.
"""
_TEXTS: Final = {"advice", "error", "fault", "message", "notes", "option", "reason", "target"}
"""Fields of JSON documents whose texts may name options."""
_ADVISERS: Final = ("explain", "place")
"""Tools whose answers advise what to give to ``optimize``."""


def with_arguments(tool: str, value: Any, known: Mapping[str, Collection[str]]) -> Any:
    """A JSON document whose texts name arguments of a tool in place of options of the command.

    Args:
        tool: the tool that gives the document.
        value: the document, or a part of it.
        known: the arguments of each tool.
    """
    if isinstance(value, list):
        return [with_arguments(tool, item, known) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _translated(tool, item, known) if key in _TEXTS else with_arguments(tool, item, known)
        for key, item in value.items()
    }


def _translated(tool: str, value: Any, known: Mapping[str, Collection[str]]) -> Any:
    """A text, or a list of texts, with arguments in place of options."""
    if isinstance(value, str):
        return argument_text(tool, value, known)
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return [argument_text(tool, item, known) for item in value]
    return with_arguments(tool, value, known)


def argument_text(tool: str, text: str, known: Mapping[str, Collection[str]]) -> str:
    """A message with arguments in place of options: ``fix=["batch=1"]`` for ``--fix batch=1``.

    Options that the tool lacks stay, unless ``optimize`` has them and the tool gives advice.
    """
    for option, (name, _, values) in _OPTIONS.items():
        is_own = name in known[tool]
        is_advice = tool in _ADVISERS and name in known["optimize"]
        if option not in text or not (is_own or is_advice):
            continue
        value = rf"(?:[ =](?P<value>{values})(?![\w-]))?" if values else "(?P<value>)"
        place = rf"(?<![\w-])(?P<option>{option})(?![\w-]){value}"
        text = re.sub(place, partial(_written, owner="" if is_own else "optimize "), text)
    return _joined(text)


def _written(match: re.Match[str], *, owner: str) -> str:
    """An argument with a value, as a call gives it; only its name without a value."""
    name, form, _ = _OPTIONS[match["option"]]
    return f"{owner}{_with_value(name, form, match['value'])}"


def _with_value(name: str, form: Form, value: str | None) -> str:
    if form == "flag":
        return f"{name}=true"
    if not value:
        return name
    plain = value.strip("'")
    if form == "number":
        return f"{name}={plain}"
    return f'{name}=["{plain}"]' if form == "list" else f'{name}="{plain}"'


def _joined(text: str) -> str:
    """A text in which one list has the values of several options in a row."""
    pair = re.compile(r"\b((?:optimize )?)(\w+)=\[([^\]]*)\] \1\2=\[([^\]]*)\]")
    while match := pair.search(text):
        joined = f"{match[1]}{match[2]}=[{match[3]}, {match[4]}]"
        text = f"{text[: match.start()]}{joined}{text[match.end() :]}"
    return text


_EXPECTED: Final = {
    "bool_parsing": "true or false",
    "bool_type": "true or false",
    "float_parsing": "a number",
    "float_type": "a number",
    "sequence_str": 'a list of strings, such as ["batch=1"]',
    "is_instance_of": 'a list of strings, such as ["batch=1"]',
    "string_type": "a string",
}
"""What an argument must be, by the type of the error of pydantic."""


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
