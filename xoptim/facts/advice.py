"""Advice: an option that helps, named as the reader of the message would write it.

`Advice` names an option by its name on the command line. A `Reader` knows what it is called where
the message is read: ``--fix batch=1`` for the command, ``prepare(model, fix={"batch": 1})`` in
Python. A process has one reader: Python, until `advising` sets another one.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final, Literal, Protocol, TypeAlias

Form: TypeAlias = Literal[
    "text", "number", "flag", "off", "list", "tuple", "sizes", "pairs", "path", "arrays", "added"
]
"""The form in which the value of an argument is written.

``off`` is the negation of a flag, ``sizes`` are integers and ``pairs`` texts by name, ``path`` is a
path, ``arrays`` a file of numpy, and ``added`` a selection of patterns in addition to the default.
"""


@dataclass(frozen=True, slots=True)
class Advice:
    """An option that helps.

    ``str`` gives it in the words of the reader of this process.

    Attributes:
        option: name of the option on the command line without dashes, such as ``fix``. ``samples``
            is ``--feeds`` where files of samples are meant, and ``pack`` is ``--include`` where a
            pack with operators is meant.
        argument: value of the option, a placeholder such as ``NAME=SIZE``, or the values of an
            option that may be given several times; empty where only the option is named.
        reason: effect of the option, as the end of a sentence that begins with the option.
    """

    option: str
    argument: str | tuple[str, ...] = ""
    reason: str = ""

    def __str__(self) -> str:
        words = _readers[-1].words(self.option, self.argument)
        return f"{words} {self.reason}" if self.reason else words


class Reader(Protocol):
    """Names options where messages are read. It can be pickled, for the children of a process."""

    def words(self, option: str, argument: str | tuple[str, ...]) -> str:
        """An option of the command with its value, as the reader would write it."""


@dataclass(frozen=True, slots=True)
class CommandLine:
    """Options as ``xopt`` takes them. Values of an option that is repeated are always quoted."""

    def words(self, option: str, argument: str | tuple[str, ...]) -> str:
        """An option with its value, as a shell reads it."""
        name = option if option.startswith("-") else f"--{_SHARED.get(option, option)}"
        if isinstance(argument, str):
            return f"{name} {shlex.quote(argument)}" if argument else name
        return " ".join(f"{name} {_in_quotes(text)}" for text in argument)


_SHARED: Final = {"pack": "include", "samples": "feeds"}
"""Options that stand for two arguments, by the name that tells which one is meant."""


def _in_quotes(text: str) -> str:
    return shlex.quote(text) if "'" in text else f"'{text}'"


@dataclass(frozen=True, slots=True)
class Argument:
    """The argument of a function that an option of the command stands for.

    Attributes:
        name: name of the argument; empty for an argument without a name.
        form: form in which the value is written.
        owner: the function or class that has the argument; empty for the function that gives the
            message.
    """

    name: str
    form: Form = "text"
    owner: str = ""


@dataclass(frozen=True, slots=True)
class Python:
    """Options as arguments of the functions of xoptim."""

    def words(self, option: str, argument: str | tuple[str, ...]) -> str:
        """The argument for an option with its value; only its name without a value."""
        keyword = _ARGUMENTS.get(option) or Argument(option.replace("-", "_"))
        if not argument and keyword.form not in ("flag", "off"):
            return keyword.name
        value = python_value(keyword.form, argument)
        written = f"{keyword.name}={value}" if keyword.name else value
        first = _FIRST.get(keyword.owner, "")
        return f"{keyword.owner}({first}{written})" if keyword.owner else written


_FIRST: Final = {"pair": "encoder, decoder, ", "prepare": "model, "}
"""The first arguments of a function, which its advice includes."""


_ARGUMENTS: Final[Mapping[str, Argument]] = {
    "assume": Argument("assume", "list"),
    "assume-from-model": Argument("assume_from_model", "flag"),
    "budget": Argument("budget", "number", "PrecisionOptions"),
    "compute": Argument("compute", "text", "PrecisionOptions"),
    "custom-op-lib": Argument("custom_op_libs", "tuple"),
    "dim": Argument("dims", "sizes"),
    "drop": Argument("drop", "tuple"),
    "drop-output": Argument("drop_outputs", "list", "prepare"),
    "exact-routing": Argument("exact_routing", "flag", "PrecisionOptions"),
    "feeds": Argument("feeds", "arrays"),
    "fix": Argument("fix", "sizes", "prepare"),
    "for": Argument("goal", "text", "PrecisionOptions"),
    "free": Argument("free", "text", "prepare"),
    "include": Argument("patterns", "added"),
    "inline": Argument("inline", "flag"),
    "link": Argument("links", "pairs", "pair"),
    "no-exact-routing": Argument("exact_routing", "off", "PrecisionOptions"),
    "no-fold": Argument("constant_folding", "off"),
    "no-verify": Argument("verify", "off"),
    "opset": Argument("opset", "number"),
    "pack": Argument("", "text", "use_operators"),
    "precision": Argument("scheme", "text", "PrecisionOptions"),
    "run-limit": Argument("run_limit", "number", "VerificationOptions"),
    "samples": Argument("feeds", "text", "PrecisionOptions"),
    "software-device": Argument("software_device", "flag"),
    "test-data": Argument("test_data", "path"),
    "verify-budget": Argument("budget", "number", "VerificationOptions"),
}
"""The argument for each option. An option that is not listed has an argument of its own name, whose
value is a text.
"""


def python_value(form: Form, argument: str | tuple[str, ...]) -> str:
    """A value as Python writes it."""
    texts: Sequence[str] = (argument,) if isinstance(argument, str) else argument
    text = " ".join(texts)
    quoted = [json.dumps(item, ensure_ascii=False) for item in texts]
    match form:
        case "flag" | "off":
            return str(form == "flag")
        case "list":
            return f"[{', '.join(quoted)}]"
        case "tuple":
            return f"({', '.join(quoted)},)"
        case "sizes" | "pairs":
            return _dictionary(text, is_quoted=form == "pairs")
        case "number" if text != "newest":
            return text
        case "added":
            return json.dumps(f"default+{text}", ensure_ascii=False)
        case "path" | "arrays":
            return f"{'Path' if form == 'path' else 'numpy.load'}({quoted[0]})"
    return quoted[0]


def _dictionary(text: str, *, is_quoted: bool) -> str:
    """The dictionary for ``NAME=VALUE,NAME=VALUE``."""
    pairs = [part.rpartition("=") for part in text.split(",")]
    values = [json.dumps(value) if is_quoted else value for _, _, value in pairs]
    names = [json.dumps(name, ensure_ascii=False) for name, _, _ in pairs]
    return f"{{{', '.join(map(': '.join, zip(names, values, strict=True)))}}}"


COMMAND: Final = CommandLine()
PYTHON: Final = Python()
_readers: list[Reader] = [PYTHON]
"""The readers that have been set; the last one counts."""


def current_reader() -> Reader:
    """The reader of the messages of this process."""
    return _readers[-1]


def set_reader(reader: Reader) -> None:
    """Give advice in the words of a reader from now on, as in a child process."""
    _readers.append(reader)


@contextmanager
def advising(reader: Reader) -> Iterator[None]:
    """Give advice in the words of a reader while the block runs."""
    set_reader(reader)
    try:
        yield
    finally:
        _readers.remove(reader)


@contextmanager
def on_command_line() -> Iterator[None]:
    """Give advice in the words of the command while the block runs, unless another reader was set,
    such as that of an agent.
    """
    with advising(COMMAND if _readers[-1] is PYTHON else _readers[-1]):
        yield
