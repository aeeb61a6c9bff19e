"""A session in a process of its own: a provider that ends the process only causes an error."""

from __future__ import annotations

import pickle
import subprocess
import tempfile
import weakref
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import numpy as np

from xoptim.facts.advice import current_reader
from xoptim.facts.errors import XoptimError
from xoptim.system.machine import end_text, kill_group, own_group, start_python
from xoptim.verification.errors import LoadError, RunError
from xoptim.verification.ports import Port, Value

if TYPE_CHECKING:
    from xoptim.verification.session_settings import SessionSettings

_CODE: Final = "from xoptim.verification.serving import serve; serve()"
_TAIL_BYTES: Final = 4096  # at the end of the error output that are read


GONE: Final = (EOFError, OSError, pickle.UnpicklingError)
"""Errors of `ask` when the other process has ended."""


def ask(process: subprocess.Popen[bytes], question: object) -> Any:
    """Send an object to the standard input of a process, and return the object that it answers.

    Raises one of `GONE` when the process has ended.
    """
    assert process.stdin is not None
    assert process.stdout is not None
    pickle.dump(question, process.stdin)
    process.stdin.flush()
    return pickle.load(process.stdout)


class RemoteSession:
    """A session that another process holds, and that ends with this object.

    ``ports`` are inputs, outputs, and the names that can be fed. Values and results go through
    pipes.
    """

    def __init__(
        self,
        source: str | bytes,
        base_dir: Path | None,
        weights: Mapping[str, np.ndarray],
        settings: SessionSettings,
    ) -> None:
        self._provider = settings.providers[0]
        # The file is closed with this object.
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        pipe, errors = subprocess.PIPE, self._errors
        self._process = start_python(_CODE, stdin=pipe, stdout=pipe, stderr=errors, **own_group())
        weakref.finalize(self, _close, self._process, self._errors)
        self.ports: tuple[tuple[Port, ...], tuple[Port, ...], set[str]]
        self.ports = self._ask(
            (current_reader(), source, base_dir, dict(weights), settings), LoadError
        )

    def run(self, feeds: Mapping[str, Value], limit: float | None = None) -> list[Value]:
        """All outputs, in order; as `xoptim.verification.session.Session.run`.

        Raises its errors, and `RunError` when the process ends.
        """
        results: list[Value] = self._ask((dict(feeds), limit), RunError)
        return results

    def _ask(self, question: object, kind: type[XoptimError]) -> Any:
        """The answer to a question. Raises an error of the kind when the process has ended."""
        try:
            answer = ask(self._process, question)
        except GONE:
            subject = f"the process of the execution provider {self._provider!r}"
            raise kind(f"{subject} {self._end_text()}") from None
        if isinstance(answer, Exception):
            raise answer
        return answer

    def _end_text(self) -> str:
        """How the process ended, and the last line that it wrote."""
        with suppress(OSError):
            kill_group(self._process)  # does nothing for a process that has ended
        return f"{end_text(self._process.wait())}{last_line(self._errors)}"


def last_line(errors: IO[bytes]) -> str:
    """The last line of the error output of a process, as the end of a message."""
    size = errors.seek(0, 2)
    errors.seek(max(0, size - _TAIL_BYTES))
    lines = errors.read().decode(errors="replace").split("\n")
    text = next((" ".join(line.split()) for line in reversed(lines) if line.strip()), "")
    return f": {text[-300:]}" if text else ""


def _close(process: subprocess.Popen[bytes], errors: IO[bytes]) -> None:
    with suppress(OSError):
        kill_group(process)
    process.wait()
    for stream in (process.stdin, process.stdout, errors):
        with suppress(OSError):  # unsent data cannot be flushed any more
            if stream is not None:
                stream.close()
