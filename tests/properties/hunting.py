"""Draw graphs, check them, shrink what fails."""

import math
import time
import traceback
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis.strategies import SearchStrategy

from tests.properties.checks import fault
from tests.properties.growing import Drawn
from tests.properties.strategy import graphs
from xoptim.testing.variant import all_nodes

_SHRINKING = 60.0
"""Seconds after which what was found is small enough."""
_EACH = 8
"""One graph in so many has each of its rewrites checked."""


class _EnoughError(KeyboardInterrupt):
    """The only kind of exception at which hypothesis stops at once."""


@dataclass
class Hunt:
    """The results of a number of graphs.

    Attributes:
        graphs: how many were checked.
        not_run: how many onnxruntime does not run.
        operators: how often each operator was in those that were checked.
        failure: the smallest graph that fails.
        fault: how it does.
    """

    graphs: int = 0
    not_run: int = 0
    operators: Counter[str] = field(default_factory=Counter)
    failure: Drawn | None = None
    fault: str = ""
    _deadline: float = math.inf

    def check(self, drawn: Drawn) -> None:
        """Check a graph.

        Raises:
            AssertionError: something does not hold.
        """
        if time.monotonic() > self._deadline:
            raise _EnoughError
        nodes = list(all_nodes(drawn.model))
        shrinking = bool(self.fault)
        try:
            found = fault(drawn, each=shrinking or self.graphs % _EACH == 0)
        except Exception as error:  # whatever it is, it is the finding
            frame = traceback.extract_tb(error.__traceback__)[-1]
            found = f"{type(error).__name__}: {error} ({Path(frame.filename).name}:{frame.lineno})"
        if found is None:
            self.not_run += 1
            return
        if not shrinking:
            self.graphs += 1
            self.operators.update({node.op_type for node in nodes})
        if found:
            self._deadline = min(self._deadline, time.monotonic() + _SHRINKING)
            self.failure, self.fault = drawn, found
            raise AssertionError(found)


def hunt(number: int, count: int, drawing: SearchStrategy[Drawn | None] = graphs()) -> Hunt:  # noqa: B008
    """Check random graphs; the same number gives the same ones.

    Args:
        number: which ones.
        count: how many.
        drawing: draws them, or ``None`` where there is nothing to check.
    """
    found = Hunt()

    @seed(number)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    @given(drawing)
    def check(drawn: Drawn | None) -> None:
        if drawn is not None:
            found.check(drawn)

    try:
        check()
    except (AssertionError, _EnoughError):
        if found.failure is None:
            raise
    return found
