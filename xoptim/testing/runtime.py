"""onnxruntime in a process of its own: an invalid model may crash it, and the tests continue."""

from __future__ import annotations

import atexit
import ctypes
import os
import pickle
import signal
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Mapping
from typing import IO, Any, NamedTuple

import onnx

from xoptim.validate.errors import LoadError, RunError
from xoptim.validate.session import Session, SessionSettings, Value, resolve_providers

_SETTINGS = SessionSettings(threads=1, arena=False)
_PERTURB = -6, 128
"""Makes the GNU C library fill allocated memory with bytes 0x7F: a tensor that no kernel writes to holds large numbers
or NaN, not the zeros of fresh memory. Other C libraries have no such option."""
_LONGEST = 2.0
"""Seconds of computing after which a run counts as a crash: some kernels never end on a window without elements."""
_KEPT = 8
"""Sessions that the other process holds."""
_GONE = "gone"
_CRASHED = "onnxruntime crashes"


class Loaded(NamedTuple):
    """A model that onnxruntime has loaded.

    Attributes:
        number: its key in the other process.
        model: the model, for loading it again after a crash.
        outputs: names of its outputs.
    """

    number: int
    model: bytes
    outputs: tuple[str, ...]


class Runtime:
    """The other process, started at its first use and again after it ended."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._count = 0

    def load(self, model: onnx.ModelProto | bytes) -> Loaded | str:
        """Load a model without onnxruntime's own optimizations; returns a text with the reason when that fails."""
        data = model if isinstance(model, bytes) else model.SerializeToString()
        self._count += 1
        answer = self._ask((self._count, data, None))
        return Loaded(self._count, data, answer) if isinstance(answer, tuple) else str(answer)

    def run(self, loaded: Loaded, feeds: Mapping[str, Value]) -> list[Value] | str:
        """Results of a model; a text with the reason when there are none."""
        answer = self._ask((loaded.number, None, dict(feeds)))
        if answer == _GONE:
            again = self.load(loaded.model)
            answer = again if isinstance(again, str) else self._ask((again.number, None, dict(feeds)))
        return answer if isinstance(answer, list) else str(answer)

    def stop(self) -> None:
        """End the process, if it runs."""
        if self._process is not None:
            self._process.communicate()  # the end of its standard input ends it
            self._process = None

    def _ask(self, question: tuple[int, bytes | None, dict[str, Value] | None]) -> Any:
        process = self._process
        if process is None:
            command = [sys.executable, "-c", f"from {__name__} import serve; serve()"]
            pipe, nowhere = subprocess.PIPE, subprocess.DEVNULL
            process = self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=nowhere)
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            pickle.dump(question, process.stdin)
            process.stdin.flush()
            return pickle.load(process.stdout)
        except (EOFError, BrokenPipeError, pickle.UnpicklingError):
            self.stop()
            return f"{_CRASHED} (exit status {process.returncode})"


def serve() -> None:
    """Serve requests from standard input until it ends: load a model, or run a loaded one.

    Where processes can be forked, a copy of this one does the work, so that a crash costs no new start.
    """
    if sys.platform == "linux" and hasattr(ctypes.CDLL(None), "mallopt"):
        ctypes.CDLL(None).mallopt(*_PERTURB)
    resolve_providers(("cpu",))  # imports onnxruntime, once for all copies
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # other output must not be mixed with the replies
    while hasattr(os, "fork"):
        worker = os.fork()
        if not worker:
            break
        status = os.waitstatus_to_exitcode(os.waitpid(worker, 0)[1])
        if not status:
            return
        _send(answers, f"{_CRASHED} (exit status {status})")
    _answer_all(sys.stdin.buffer, answers)
    os._exit(0)


def _send(answers: IO[bytes], answer: object) -> None:
    pickle.dump(answer, answers)
    answers.flush()


def _answer_all(questions: IO[bytes], answers: IO[bytes]) -> None:
    sessions: OrderedDict[int, Session] = OrderedDict()
    while True:
        try:
            number, model, feeds = pickle.load(questions)
        except EOFError:
            return
        _limit(_LONGEST if model is None else 0.0)
        answer = _answer(sessions, number, model, feeds)
        _limit(0.0)
        _send(answers, answer)


def _limit(seconds: float) -> None:
    """Limit the processor time of this process in seconds; 0 for no limit."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, seconds)


def _answer(
    sessions: OrderedDict[int, Session], number: int, model: bytes | None, feeds: dict[str, Value] | None
) -> tuple[str, ...] | list[Value] | str:
    try:
        if model is not None:
            sessions[number] = session = Session(onnx.ModelProto.FromString(model), _SETTINGS)
            while len(sessions) > _KEPT:
                sessions.popitem(last=False)
            return tuple(port.name for port in session.outputs)
        if number not in sessions:
            return _GONE
        return sessions[number].run(feeds or {})
    except (LoadError, RunError) as error:
        return str(error)


RUNTIME = Runtime()
"""The process that all checks share."""
atexit.register(RUNTIME.stop)
