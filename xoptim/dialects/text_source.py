"""ONNX text with several functions, read by the parser of the ``onnx`` package, and the places of its parts."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass

import onnx

from xoptim.facts.errors import TextRuleError

_HEADER = '<ir_version: 10, opset_import: ["" : 18]> rules () => () {}\n'
"""The parser reads models only; functions follow its graph. Lines of the text count from the second one on."""
_MESSAGE = re.compile(r"\(line: (\d+) column: (\d+)\)?\]\s*Error context:.*?\n(.*)", re.DOTALL)
_TOKEN = re.compile(r'#[^\n]*|"(?:\\.|[^"\\])*"|=>|[\w.]+|\S')
_PAIRS = {")": "(", "]": "[", "}": "{", ">": "<"}


@dataclass(frozen=True, slots=True)
class Place:
    """A place in a text, or under a label in place of a file; the line is 0 for a function that was not written as text."""

    file: str
    line: int = 0
    column: int = 0

    def error(self, what: str) -> TextRuleError:
        """An error that names the place."""
        where = f"{self.file}:{self.line}:{self.column}" if self.line else self.file
        return TextRuleError(f"{where}: {' '.join(what.split())}")


@dataclass(frozen=True, slots=True, eq=False)
class FunctionSource:
    """A function, and the places of it and of each of its nodes."""

    proto: onnx.FunctionProto
    place: Place
    nodes: tuple[Place, ...]


def parse_functions(text: str, file: str) -> list[FunctionSource]:
    """All functions in a text; the header ``<domain: ..., opset_import: [...]>`` of each may be left out.

    Raises `TextRuleError`, whose message names file, line and column, when the text is malformed.
    """
    if "\0" in text:  # the parser would stop there, and silently ignore the rest
        line = text[: text.index("\0")].split("\n")
        raise Place(file, len(line), len(line[-1]) + 1).error("this is not a text: there is a zero byte")
    try:
        functions = list(onnx.parser.parse_model(_HEADER + text).functions)
    except IndexError:  # the parser reports C++'s "out of range" in this way
        raise Place(file).error("a number is too large to be read") from None
    except (onnx.parser.ParseError, RuntimeError, ValueError) as error:
        raise _place_of(error, text, file) from None
    starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def place(offset: int) -> Place:
        line = bisect_right(starts, offset)
        return Place(file, line, offset - starts[line - 1] + 1)

    found = list(_scan(text))
    sources = []
    for number, proto in enumerate(functions):
        start, nodes = found[number] if number < len(found) else (0, [])
        places = [place(offset) for offset in nodes]
        # Nodes that the scan does not find, such as those without results, get the place of the function.
        places += [place(start)] * (len(proto.node) - len(places))
        sources.append(FunctionSource(proto, place(start), tuple(places)))
    return sources


def without_text(proto: onnx.FunctionProto, label: str) -> FunctionSource:
    """A function that was not written as text; errors and refusals name ``label`` in place of a file."""
    return FunctionSource(proto, Place(label), (Place(label),) * len(proto.node))


def _place_of(error: Exception, text: str, file: str) -> TextRuleError:
    """The parser's error with the line and column in the text itself; the parser counts columns in bytes."""
    raw = error.args[0] if error.args else b""
    message = raw.decode(errors="replace") if isinstance(raw, bytes) else str(raw)
    found = _MESSAGE.search(message)
    if found is None:  # a number that cannot be read, for instance: the message has nothing but its text
        before, _, _ = text.partition(message.rpartition(" ")[2])
        before = "" if before == text else before
        return Place(file, before.count("\n") + 1, len(before) - before.rfind("\n")).error(message)
    number = max(int(found[1]) - 1, 1)  # without the line of the header
    lines = text.split("\n")
    line = lines[min(number, len(lines)) - 1]
    column = len(line.encode()[: max(int(found[2]) - 1, 0)].decode(errors="ignore")) + 1
    what = re.sub(r"Expected character (\S+) not found", r"'\1' expected", found[3]).strip().rstrip(".")
    what = "a value is expected" if what.lower() == "internal error" else what
    return Place(file, number, column).error(what[:1].lower() + what[1:])


def _scan(text: str) -> Iterator[tuple[int, list[int]]]:
    """Offsets of the name of each function, and of the first result of each of its nodes; the text is known to parse."""
    depth: list[str] = []
    start: int | None = None
    statement: int | None = None
    nodes: list[int] = []
    for match in _TOKEN.finditer(text):
        token = match[0]
        if token[0] == "#":
            continue
        if token in _PAIRS.values():
            depth.append(token)
            statement = None
        elif token in _PAIRS:
            depth.pop()
            statement = None
            if token == "}" and not depth and start is not None:
                yield start, nodes
                start, nodes = None, []
        elif not depth:
            start = match.start() if start is None and token != "=>" else start
        elif depth == ["{"] and token == "=" and statement is not None:
            nodes.append(statement)
            statement = None
        elif depth == ["{"] and statement is None:
            statement = match.start()
