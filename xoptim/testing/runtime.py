"""onnxruntime in a process of its own: an invalid model may crash it, and the tests continue."""

import atexit
import os
import pickle
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import IO, Any, NamedTuple, TypeAlias, TypeVar

import onnx

from xoptim.system.child import Child, ChildGoneError, questions_and_answers, send
from xoptim.system.machine import (
    continue_in_fork,
    limit_data,
    limit_processor_time,
    memory_filling_command,
)
from xoptim.verification.errors import LoadError, RunError
from xoptim.verification.runs.contrib_functions import with_contrib_functions
from xoptim.verification.runs.protos import with_definitions
from xoptim.verification.runs.session import Session, Value, resolve_providers
from xoptim.verification.runs.session_settings import SessionSettings

Fed = TypeVar("Fed", bound=Mapping[str, Any])
_Question: TypeAlias = "tuple[list[int], bytes | None, list[dict[str, Value]]]"
"""Numbers of models, and either a model to load under the first number or feeds to run them on."""
_SETTINGS = SessionSettings(threads=1, arena=False, exact_integers=True)
_MAX_SECONDS = 4.0
"""Seconds of processor time after which a run counts as a crash, several times what the largest
model of the tests takes.

Some convolutions never end if a dimension of their kernel is 0.
"""
_MAX_SESSIONS = 8
"""Maximum number of sessions that the other process keeps: the most recent ones."""
_GONE = "gone"
CRASHED = "onnxruntime crashes"
_MAX_BYTES = 8 * 10**9
"""Memory limit of the process, so that tensors of 2^31 numbers are refused at once."""


class Loaded(NamedTuple):
    """A model that onnxruntime has loaded under a number in the other process.

    Its bytes serve to load it after a crash.
    """

    number: int
    model: bytes
    outputs: tuple[str, ...]


def _runnable(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with local functions for operators that onnxruntime lacks on CPUs."""
    return with_definitions(with_contrib_functions(model))


class Runtime:
    """The other process, started at its first use and again after it ended."""

    def __init__(self) -> None:
        self._child: Child | None = None
        self._count = 0
        self._recent: OrderedDict[bytes, Loaded | str] = OrderedDict()

    def load(self, model: onnx.ModelProto | bytes) -> Loaded | str:
        """Load a model with ORT graph optimizations disabled; returns the reason when that fails.

        Several checks of one model follow each other, so the last answers are kept.
        """
        data = model if isinstance(model, bytes) else _runnable(model).SerializeToString()
        if data not in self._recent:
            self._count += 1
            answer = self._ask(([self._count], data, []))
            self._recent[data] = (
                answer if isinstance(answer, str) else Loaded(self._count, data, answer)
            )
            if len(self._recent) > _MAX_SESSIONS:
                self._recent.popitem(last=False)
        return self._recent[data]

    def run(self, loaded: Loaded, feeds: Mapping[str, Value]) -> list[Value] | str:
        """Results of a model, or the reason why there are none."""
        return self._run([loaded], [feeds])[0][0]

    def run_all(
        self, models: Sequence[Loaded], all_feeds: Iterable[Fed], max_runs: int
    ) -> Iterator[tuple[Fed, list[list[Value] | str]]]:
        """Results of models on the same feeds, until the first model has run ``max_runs`` times.

        Yields the feeds and, for each model, its results or the reason why there are none. If the
        first model does not run, the others are not tried. The other process is asked for many runs
        at once, as the exchange of messages takes longer than a run.
        """
        remaining_feeds = iter(all_feeds)
        while max_runs > 0 and (batch := list(islice(remaining_feeds, max_runs))):
            for feeds, results in zip(batch, self._run(models, batch), strict=True):
                max_runs -= isinstance(results[0], list)
                yield feeds, results

    def _run(
        self, models: Sequence[Loaded], batch: Sequence[Mapping[str, Value]]
    ) -> list[list[list[Value] | str]]:
        question: _Question = (
            [loaded.number for loaded in models],
            None,
            [dict(feeds) for feeds in batch],
        )
        answer = self._ask(question)
        if answer == _GONE:
            answers = [self._ask(([loaded.number], loaded.model, [])) for loaded in models]
            answer = next((a for a in answers if isinstance(a, str)), None) or self._ask(question)
        if isinstance(answer, list):
            return answer
        if len(batch) > 1:  # find the run that crashes
            return [self._run(models, [feeds])[0] for feeds in batch]
        if len(models) == 1:
            return [[str(answer)]]
        (results,) = self._run(models[:1], batch)
        if isinstance(results[0], list):
            results += [self._run([loaded], batch)[0][0] for loaded in models[1:]]
        return [results]

    def stop(self) -> None:
        """End the process, if it runs."""
        if self._child is not None:
            self._child.close()
            self._child = None

    def _ask(self, question: _Question) -> Any:
        child = self._child
        if child is None:
            code = f"from {__name__} import serve; serve()"
            child = self._child = Child(code, memory_filling_command(), keeps_errors=False)
        try:
            return child.ask(question)
        except ChildGoneError:
            status = child.end_code()
            self.stop()
            return f"{CRASHED} (exit status {status})"


def serve() -> None:
    """Serve requests from standard input until it ends: load a model, or run a loaded one.

    Where the system can fork, a copy of this process does the work, so that a crash costs no new
    start.
    """
    limit_data(_MAX_BYTES)
    resolve_providers(("cpu",))  # imports onnxruntime, once for all copies
    questions, answers = questions_and_answers()
    if not continue_in_fork(lambda status: send(answers, f"{CRASHED} (exit status {status})")):
        return
    status = 1
    try:
        _answer_all(questions, answers)
        status = 0
    finally:
        # what onnxruntime does at the end of a forked process may wait for threads that were not
        # forked
        os._exit(status)


def _answer_all(questions: IO[bytes], answers: IO[bytes]) -> None:
    sessions: OrderedDict[int, Session] = OrderedDict()
    while True:
        try:
            numbers, model, all_feeds = pickle.load(questions)
        except EOFError:
            return
        if model is not None:
            answer: Any = _load(sessions, numbers[0], model)
        elif all(number in sessions for number in numbers):
            answer = [
                _results([sessions[number] for number in numbers], feeds) for feeds in all_feeds
            ]
        else:
            answer = _GONE
        send(answers, answer)


def _load(sessions: OrderedDict[int, Session], number: int, model: bytes) -> tuple[str, ...] | str:
    """Keep a session under a number; returns the names of its outputs, or the reason why the model
    cannot be loaded.
    """
    try:
        sessions[number] = session = Session(onnx.ModelProto.FromString(model), _SETTINGS)
    except LoadError as error:
        return str(error)
    while len(sessions) > _MAX_SESSIONS:
        sessions.popitem(last=False)
    return tuple(port.name for port in session.outputs)


def _results(sessions: Sequence[Session], feeds: Mapping[str, Value]) -> list[list[Value] | str]:
    """Results of sessions; of the first one only, if it does not run."""
    results: list[list[Value] | str] = []
    for session in sessions:
        limit_processor_time(_MAX_SECONDS)
        try:
            results.append(session.run(feeds))
        except RunError as error:
            results.append(str(error))
        limit_processor_time(0)
        if isinstance(results[0], str):
            break
    return results


RUNTIME = Runtime()
"""The process that all checks share."""
atexit.register(RUNTIME.stop)
