"""A process that asks an execution provider: a library that ends it is an error, no more."""

from __future__ import annotations

import pickle
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final, Literal, TypeAlias

from xoptim.facts.errors import XoptimError
from xoptim.system.machine import end_text, kill_group, own_group, start_python
from xoptim.verification.errors import ProviderUnavailable
from xoptim.verification.remote import last_line

_CODE: Final = "from xoptim.targets.child import main; main()"
_LONGEST: Final = 1 << 16  # characters of a line of the log that are read
Kind: TypeAlias = Literal["place", "devices"]


class PlacementError(XoptimError):
    """A provider did not say which nodes it takes."""


@dataclass(frozen=True, slots=True)
class Question:
    """A question for the process.

    Attributes:
        kind: which nodes the provider takes, or which devices it has.
        provider: its short name.
        software_device: whether it may compute on the processor where it has no device.
        model: the serialized model; empty for devices.
        base_dir: folder of its external data.
        level: graph optimizations of onnxruntime.
        custom_op_libs: libraries of operators that the model needs.
    """

    kind: Kind
    provider: str
    software_device: bool = False
    model: bytes = b""
    base_dir: Path | None = None
    level: str = "basic"
    custom_op_libs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer of the process.

    Attributes:
        parts: the full name of a provider, and the names of the nodes of a part of the graph that
            it runs; for each part.
        devices: the kinds of the devices.
        error: why a session could not be made, in one line.
    """

    parts: tuple[tuple[str, tuple[str, ...]], ...] = ()
    devices: tuple[str, ...] = ()
    error: str = ""


def ask(question: Question, seconds: float) -> tuple[Answer, list[str]]:
    """The answer of a process, and the lines of the log that name a node.

    Raises `ProviderUnavailable` when the provider is missing or finds no device, and
    `PlacementError` when the process does not answer in time. When it ends without an answer, the
    answer has the error.
    """
    pipe = subprocess.PIPE
    with tempfile.TemporaryFile() as log:
        with start_python(_CODE, stdin=pipe, stdout=pipe, stderr=log, **own_group()) as process:
            try:
                out, _ = process.communicate(pickle.dumps(question), timeout=seconds)
            except subprocess.TimeoutExpired:
                told = f"the provider {question.provider!r} gave no answer within {seconds:g} s"
                raise PlacementError(told) from None
            finally:
                with suppress(OSError):
                    kill_group(process)
        found: Any = pickle.loads(out) if out and not process.returncode else None
        if isinstance(found, ProviderUnavailable):
            raise found
        if found is None:
            ended = end_text(process.returncode)
            found = Answer(error=f"the process of the provider {ended}{_told(log)}")
        return found, list(_lines(log))


def _told(log: IO[bytes]) -> str:
    """The last line of the log of a process, without the time and the place in the sources."""
    text = last_line(log)
    return f": {text.rpartition('] ')[2].strip(': ')}" if text else ""


def _lines(log: IO[bytes]) -> Iterator[str]:
    """The lines of the log that name a node."""
    log.seek(0)
    while line := log.readline(_LONGEST):
        if b"xopt_node_" in line:
            yield line.decode(errors="replace").rstrip()
