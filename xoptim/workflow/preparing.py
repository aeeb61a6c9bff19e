"""The changes of a model that come before its optimization."""

from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx

from xoptim.facts.errors import ModelError
from xoptim.graph.sources import Source
from xoptim.preparation.preparation import Preparation, free_batch
from xoptim.verification.compare import compare_values
from xoptim.verification.errors import FeedError, LoadError, RunError
from xoptim.verification.options import VerificationOptions
from xoptim.verification.reference import run_reference
from xoptim.verification.session import Session


def prepared_source(source: Source | str | Path, preparation: Preparation) -> Source:
    """A changed copy of a model, in memory; the given one stays as it is.

    Raises ModelError when the model cannot be read, or a name or a size does not fit it.
    """
    given = Source.of(source)
    name = preparation.free
    proto = freed(given.proto, name, given.base_dir) if name else deepcopy(given.proto)
    preparation.apply(proto, given.base_dir)
    return Source(proto, given.base_dir)


def freed(
    proto: onnx.ModelProto, name: str, base_dir: Path | None = None, seed: int = 0
) -> onnx.ModelProto:
    """A copy of a model with a free leading size, which computes for a batch of two what the model
    computes for each of them.

    ``name`` is the dimension that takes the place of the fixed size; ``seed`` belongs to the random
    values. Raises `ModelError` when the copy does not, or it cannot be run.
    """
    free = deepcopy(proto)
    size, inputs = free_batch(free, name, base_dir)
    checks = [
        VerificationOptions(assignments=1, extremes=False, seed=seed + place, original_dir=base_dir)
        for place in range(2)
    ]
    try:
        runs = [run_reference(proto, options).runs[0] for options in checks]
        given = {each: value for each, value in runs[0].feeds.items() if each not in inputs}
        if given:  # what is not part of the batch is the same for both
            runs[1] = run_reference(
                proto, replace(checks[1], feeds={**runs[1].feeds, **given})
            ).runs[0]
        batch = {
            each: np.concatenate([np.asarray(run.feeds[each]) for run in runs]) for each in inputs
        }
        session = Session(free, checks[0].settings, base_dir=base_dir)
        results = session.run({**given, **batch})
    except (LoadError, FeedError, RunError) as error:
        raise ModelError(
            f"--free {name}: the model does not run with a batch of {2 * size}: {error}"
        ) from error
    for port, result, *parts in zip(
        session.outputs, results, *(run.results for run in runs), strict=True
    ):
        if any(not isinstance(part, np.ndarray) or part.ndim == 0 for part in parts):
            raise ModelError(f"--free {name}: output {port.name!r} has no batch dimension")
        expected = np.concatenate([np.asarray(part) for part in parts])
        wrong = next(
            (
                each
                for each in compare_values(port.name, expected, result, checks[0].rules)
                if not each.ok
            ),
            None,
        )
        if wrong is not None:
            raise ModelError(
                f"--free {name}: output {port.name!r} mixes the samples of a batch: {wrong.message}"
            )
    return free
