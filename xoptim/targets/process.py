"""A process that asks an execution provider: a library that crashes ends this process only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final, Literal, TypeAlias

from xoptim.facts.advice import Reader, current_reader
from xoptim.facts.errors import XoptimError
from xoptim.system.child import Child, ChildGoneError, last_line
from xoptim.system.machine import end_text
from xoptim.verification.errors import ProviderUnavailable

_CODE: Final = "from xoptim.targets.child import main; main()"
_MAX_LINE: Final = 1 << 16  # characters of a line of the log that are read
Kind: TypeAlias = Literal["place", "devices"]


class PlacementError(XoptimError):
    """A provider did not answer which nodes it takes."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question for the process.

    Attributes:
        kind: ``place`` asks for the nodes that the provider takes, ``devices`` for its devices.
        provider: short name of the provider.
        software_device: whether the provider may compute on the CPU if it has no device.
        model: the serialized model; empty for devices.
        base_dir: folder of the external data of the model.
        level: graph optimizations of onnxruntime.
        custom_op_libs: libraries of operators that the model needs.
        reader: the form in which messages name options.
    """

    kind: Kind
    provider: str
    software_device: bool = False
    model: bytes = b""
    base_dir: Path | None = None
    level: str = "basic"
    custom_op_libs: tuple[str, ...] = ()
    reader: Reader = field(default_factory=current_reader)


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of the process.

    Attributes:
        parts: for each part of the graph, the full name of the provider that runs it, and the names
            of its nodes.
        devices: the kinds of the devices.
        error: the reason why a session could not be made, in one line.
    """

    parts: tuple[tuple[str, tuple[str, ...]], ...] = ()
    devices: tuple[str, ...] = ()
    error: str = ""


def ask(question: Question, seconds: float) -> tuple[Answer, list[str]]:
    """The answer of a process, and the lines of the log that name a node.

    Raises `ProviderUnavailable` when the provider is missing or finds no device, and
    `PlacementError` when the process does not answer in time. When the process ends without an
    answer, the returned answer has the error.
    """
    with closing(Child(_CODE)) as child:
        try:
            answer: Any = child.ask_last(question, seconds)
        except TimeoutError:
            text = f"the provider {question.provider!r} gave no answer within {seconds:g} s"
            raise PlacementError(text) from None
        except ChildGoneError:
            ended = end_text(child.end_code())
            message = _last_message(child.errors)
            answer = Answer(error=f"the process of the provider {ended}{message}")
        if isinstance(answer, ProviderUnavailable):
            raise answer
        return answer, list(_lines(child.errors))


def _last_message(log: IO[bytes]) -> str:
    """The last line of the log of a process, without its time and position in the source."""
    text = last_line(log)
    return f": {text.rpartition('] ')[2].strip(': ')}" if text else ""


def _lines(log: IO[bytes]) -> Iterator[str]:
    """The lines of the log that name a node."""
    log.seek(0)
    while line := log.readline(_MAX_LINE):
        if b"xopt_node_" in line:
            yield line.decode(errors="replace").rstrip()
