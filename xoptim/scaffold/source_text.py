"""Python source text of a pattern file: literals, wrapped calls, imports and templates."""

from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from typing import Any

import numpy as np
from onnx import TensorProto, numpy_helper

from xoptim.facts.errors import ModelError

_WIDTH = 100
"""Length of a line, as everywhere in the project."""
_PARAMETERS = 8
"""Most parameters of a function, ``self`` not counted, as everywhere in the project."""
SHOWN = 16
"""Elements up to which a constant is written out."""


def number(array: np.ndarray) -> bool | int | float:
    """The number in an array of one element, with the fewest digits that identify it in its own
    type.
    """
    value = array.reshape(-1)[0]
    return float(str(value)) if array.dtype.kind == "f" else value.item()


def literal(value: Any) -> str:
    """Python text of an attribute or a number."""
    if isinstance(value, float):
        text = repr(float(str(np.float32(value)))) if np.float32(value) == value else repr(value)
        return text.replace("e+", "e")
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(literal, value))}]"
    if isinstance(value, str):
        return quoted(value)
    if isinstance(value, TensorProto):
        array = numpy_helper.to_array(value)
        if array.size <= SHOWN and array.dtype.kind in "bif":
            return f"lambda t: numpy_helper.to_array(t).tolist() == {array.tolist()}"
    elif isinstance(value, (bool, int, bytes)):
        return repr(value)
    raise ModelError(
        f"an attribute of type {type(value).__name__} cannot be written as Python; leave its node "
        "out"
    )


def quoted(text: str) -> str:
    """A string literal with the quotes of the house."""
    return '"' + repr("'" + text)[2:-1] + '"' if '"' not in text else repr(text)


def wrapped(head: str, words: Sequence[str], tail: str = ")", *, apart: bool = False) -> str:
    """A call in one line, unless wrapping is forced, or in the lines that the formatter would make
    of it.
    """
    indent = " " * (len(head) - len(head.lstrip()))
    line = f"{head}{', '.join(words)}{tail}"
    if len(line) <= _WIDTH and not apart:
        return line
    inner = f"{indent}    {', '.join(words)}"
    if len(inner) <= _WIDTH:
        return f"{head}\n{inner}\n{indent}{tail}"
    return "\n".join((head, *(f"{indent}    {word}," for word in words), f"{indent}{tail}"))


def dictionary(name: str, items: Sequence[str]) -> str:
    """A dictionary with a name, in one line if it fits, else with an item a line."""
    line = f"{name} = {{{', '.join(items)}}}"
    if len(line) <= _WIDTH:
        return line
    return "\n".join((f"{name} = {{", *(f"    {item}," for item in items), "}"))


def signature(
    name: str, builder: str, parameters: Mapping[str, str], kind: str, results: int
) -> str:
    """The head of a method that takes some parameters and returns as many results of a kind."""
    words = [
        "self",
        f"g: {builder}",
        *(f"{parameter}: {its_kind}" for parameter, its_kind in parameters.items()),
    ]
    returned = kind if results == 1 else f"tuple[{', '.join([kind] * results)}]"
    many = len(words) - 1 > _PARAMETERS
    return wrapped(
        f"    def {name}({'  # noqa: PLR0913' if many else ''}",
        words,
        f") -> {returned}:",
        apart=many,
    )


def imports(body: str, kinds: Iterable[str], types: Iterable[int]) -> str:
    """The imports of a file with a pattern: annotations of these kinds, and element types."""
    words = {
        "EasyPatternOptimization",
        "Example",
        "GraphView",
        "Match",
        "PatternBuilder",
        "PatternRewriter",
        "Symbol",
        *kinds,
    }
    lines = ["import numpy as np"] if "np.array" in body else []
    lines.append(
        f"from onnx import TensorProto{', numpy_helper' if 'numpy_helper' in body else ''}"
    )
    listed = sorted(words)
    one_line = f"from xoptim.match import {', '.join(listed)}"
    if len(one_line) > _WIDTH:
        one_line = "\n".join(
            ("from xoptim.match import (", *(f"    {each}," for each in listed), ")")
        )
    return "\n".join((*lines, "", one_line, ""))


def filled(template: str, **texts: object) -> str:
    """A text of this folder with other texts in its gaps."""
    return (
        (resources.files("xoptim.scaffold") / f"{template}.txt")
        .read_text(encoding="utf-8")
        .format(**texts)
    )
