"""Runs a model with the onnxruntime of the environment that starts this file.

The environment has numpy and onnxruntime, and not xoptim. Commands arrive on standard input, one a
line; each one is answered by a line of JSON on standard output.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any, Final, TextIO

import numpy as np
import onnxruntime as ort

_FIRST_LINE: Final = 0


def main() -> None:
    """Load the model that the first line describes, then obey ``run`` and ``end``."""
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # libraries may print
    try:
        _serve(answers)
    except Exception as error:  # the caller raises an error of its own
        lines = str(error).strip().splitlines() or [type(error).__name__]
        _answer(answers, error=lines[_FIRST_LINE])


def _serve(answers: TextIO) -> None:
    task = json.loads(sys.stdin.readline())
    start = time.perf_counter()
    session = ort.InferenceSession(
        task["model"],
        _options(task),
        providers=["CPUExecutionProvider"],
        disabled_optimizers=task["disabled"],
    )
    seconds = time.perf_counter() - start
    with np.load(task["feeds"], allow_pickle=False) as archive:
        feeds = {name: archive[key] for key, name in task["names"].items()}
    session.run(None, feeds)
    _answer(answers, version=ort.__version__, seconds=seconds)
    clock: Callable[[], float] = time.thread_time if task["cpu_time"] else time.perf_counter
    for line in sys.stdin:
        if line.strip() == "end":
            _answer(answers, profile=session.end_profiling())
            return
        start = clock()
        session.run(None, feeds)
        _answer(answers, seconds=clock() - start)


def _options(task: dict[str, Any]) -> Any:
    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, task["level"])
    options.intra_op_num_threads = task["threads"]
    options.log_severity_level = 4
    for library in task["libraries"]:
        options.register_custom_ops_library(library)
    if task["profile"]:
        options.enable_profiling = True
        options.profile_file_prefix = task["profile"]
    return options


def _answer(answers: TextIO, **values: object) -> None:
    answers.write(f"{json.dumps(values)}\n")
    answers.flush()


if __name__ == "__main__":
    main()
