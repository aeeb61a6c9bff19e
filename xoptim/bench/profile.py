"""The time of each operator, from onnxruntime's profiler."""

import json
import tempfile
import time
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple, Unpack

from xoptim.bench.options import BenchChanges, BenchOptions
from xoptim.bench.subjects import Models, as_files, opened, values_for
from xoptim.facts.given import given
from xoptim.validate.session import Session, Value

_WARM_RUNS: Final = 3
_FEWEST_RUNS: Final = 5
_MOST_RUNS: Final = 2000  # the profiler keeps a million events
_KERNEL: Final = "_kernel_time"


class OperatorTime(NamedTuple):
    """The time of the nodes of one operator in a run."""

    seconds: float  # of all of them together, the median of the runs. The time of Loop, If and Scan contains the nodes inside
    calls: float  # number of executions


def profile(
    models: Models, options: BenchOptions | None = None, **changes: Unpack[BenchChanges]
) -> dict[str, dict[str, OperatorTime]]:
    """The time of each operator in each model, as onnxruntime runs it: after its own graph optimizations.

    Returns the operators of each model, by label, as onnxruntime's profiler names them: without their domains. The profiler
    itself takes time, most in models of many small nodes: compare models with each other, and take times from `bench`. Raises
    the errors of `bench`.

    Args:
        models: files or protobufs; a mapping gives them labels.
        options: the options, of which the first setting counts; ``seconds`` is the time of the runs of one model.
        **changes: fields of `BenchOptions` that differ from ``options``.
    """
    options = given(BenchOptions, options, changes).each()[0]
    with as_files(models, options.base_dirs) as subjects:
        feeds = values_for(subjects[0], options).feeds
        found = {}
        for subject in subjects:
            with tempfile.TemporaryDirectory() as folder:
                session = opened(subject, replace(options.settings, profile=Path(folder) / "profile"), feeds)
                found[subject.label] = _operators(_recorded(session, feeds, options.seconds))
        return found


def _recorded(session: Session, feeds: Mapping[str, Value], seconds: float) -> list[dict[str, Any]]:
    """Events of the profiler, runs that are not counted included."""
    run = session.runner(feeds)
    end = time.perf_counter() + seconds
    for count in range(_MOST_RUNS):
        run()
        if count >= _WARM_RUNS + _FEWEST_RUNS and time.perf_counter() > end:
            break
    events: list[dict[str, Any]] = json.loads(session.end_profiling().read_text(encoding="utf-8"))
    return events


def _operators(events: Sequence[dict[str, Any]]) -> dict[str, OperatorTime]:
    """Times by operator, the median of the runs after the first ones."""
    starts = sorted(event["ts"] for event in events if event.get("name") == "model_run")
    micros: dict[str, list[float]] = defaultdict(lambda: [0.0] * len(starts))
    calls: Counter[str] = Counter()
    for event in events:
        if event.get("cat") == "Node" and event["name"].endswith(_KERNEL):
            run = bisect_right(starts, event["ts"]) - 1
            if run >= _WARM_RUNS:
                operator = event["args"]["op_name"]
                micros[operator][run] += event["dur"]
                calls[operator] += 1
    runs = len(starts) - _WARM_RUNS
    return {name: OperatorTime(median(taken[_WARM_RUNS:]) * 1e-6, calls[name] / runs) for name, taken in micros.items()}
