"""The subgraphs that the runs of a model reach, counted in a session of a copy."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import numpy as np
import onnx

from xoptim.facts.errors import ModelError
from xoptim.verification.errors import LoadError, RunError
from xoptim.verification.inputs.branches import (
    MAX_BODIES,
    Body,
    Coverage,
    count_bodies,
    counting,
    has_old_scan,
    has_run,
    inlined,
)
from xoptim.verification.inputs.feeding import ReferenceRun
from xoptim.verification.inputs.work import RunBudget
from xoptim.verification.runs.session import Session, Value
from xoptim.verification.runs.session_settings import SessionSettings

_NOT_RUN: Final = "ONNX Runtime does not run the model that counts them"


class Reach:
    """The subgraphs that runs have reached; without a session, nothing is counted."""

    def __init__(
        self,
        session: Session | None = None,
        bodies: tuple[Body, ...] = (),
        reason: str = "",
        budget: RunBudget | None = None,
    ) -> None:
        self._budget = budget or RunBudget()
        self._session = session
        self._bodies = bodies
        self._reason = reason
        self._seen: list[set[int]] = [set() for _ in bodies]

    @classmethod
    def of(
        cls,
        model: onnx.ModelProto,
        runs: Iterable[ReferenceRun],
        base_dir: Path | None,
        settings: SessionSettings,
        budget: RunBudget | None = None,
        *,
        objection: str = "",
    ) -> Reach:
        """The subgraphs that runs have reached, unless there is an objection to counting."""
        try:
            model = inlined(model)
        except ModelError as error:
            return cls(reason=_unknown(str(error)))
        bodies = count_bodies(model)
        if bodies and objection:
            return cls(reason=_unknown(objection))
        counter = counting(model)
        if counter is None:
            return cls(reason=_uncounted(model, bodies))
        try:
            session = Session(counter.proto, settings, base_dir=base_dir)
            reach = cls(session, counter.bodies, budget=budget)
            for run in runs:
                reach.add(run.feeds)
        except (LoadError, RunError):
            return cls(reason=_unknown(_NOT_RUN))
        return reach

    def _counts(self, feeds: Mapping[str, Value]) -> list[int]:
        if self._session is None:
            return []
        start = time.perf_counter()
        try:
            counts = self._session.run(feeds, self._budget.patience)[0]
        finally:
            self._budget.spend(time.perf_counter() - start)
        assert isinstance(counts, np.ndarray)
        return [min(int(count), 2) for count in counts]

    def is_new(self, feeds: Mapping[str, Value]) -> bool:
        """Whether values reach a branch, or a number of trips, that no run has reached."""
        counts = self._counts(feeds)
        return any(
            body.matters(count) and count not in trips
            for body, count, trips in zip(self._bodies, counts, self._seen, strict=True)
        )

    def add(self, feeds: Mapping[str, Value]) -> None:
        """Count a run."""
        for trips, count in zip(self._seen, self._counts(feeds), strict=True):
            trips.add(count)

    def is_complete(self) -> bool:
        """Whether runs have reached every branch and number of trips."""
        pairs = zip(self._bodies, self._seen, strict=True)
        return not any(body.missed(trips) for body, trips in pairs)

    def coverage(self) -> Coverage:
        """The branches and numbers of trips that no run has reached."""
        pairs = list(zip(self._bodies, self._seen, strict=True))
        return Coverage(
            tuple(f"never ran: {text}" for body, trips in pairs for text in body.missed(trips)),
            tuple(str(body) for body, trips in pairs if not has_run(trips)),
            self._reason,
        )


def _unknown(reason: str) -> str:
    return f"it is not known which branches ran: {reason}"


def _uncounted(model: onnx.ModelProto, bodies: int) -> str:
    """The reason why the subgraphs of a model are not counted; empty if it has none."""
    if bodies > MAX_BODIES:
        limit = f"at most {MAX_BODIES} are counted"
        return f"it is not known which of {bodies} branches and loop bodies ran: {limit}"
    return _unknown("there is a Scan of operator set 8") if bodies and has_old_scan(model) else ""
