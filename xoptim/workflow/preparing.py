"""Changes of a model before its optimization."""

from copy import deepcopy
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx

from xoptim.facts.advice import Advice
from xoptim.facts.errors import ModelError
from xoptim.graph.sources import Source
from xoptim.preparation.preparation import Preparation, free_batch
from xoptim.verification.errors import FeedError, LoadError, RunError
from xoptim.verification.inputs.reference import run_reference
from xoptim.verification.judging.compare import compare_values
from xoptim.verification.options import VerificationOptions
from xoptim.verification.runs.session import Session


def prepared_source(source: Source | str | Path, preparation: Preparation) -> Source:
    """A changed copy of a model, in memory; the original is left unchanged.

    Raises `ModelError` when the model cannot be read, or a name or a size does not fit it.
    """
    origin = Source.of(source)
    name = preparation.free
    proto = freed(origin.proto, name, origin.base_dir) if name else deepcopy(origin.proto)
    preparation.apply(proto, origin.base_dir)
    return Source(proto, origin.base_dir)


def freed(
    proto: onnx.ModelProto, name: str, base_dir: Path | None = None, seed: int = 0
) -> onnx.ModelProto:
    """A copy of a model with a dynamic batch dimension.

    ``name`` names the dimension; ``seed`` is for the random values of the check. Raises
    `ModelError` when the copy cannot be run, or does not compute for a batch of two what the model
    computes for each sample.
    """
    copy, option = deepcopy(proto), Advice("free", name)
    size, inputs = free_batch(copy, name, base_dir)
    checks = [
        VerificationOptions(assignments=1, extremes=False, seed=seed + index, original_dir=base_dir)
        for index in range(2)
    ]
    try:
        runs = [run_reference(proto, options).runs[0] for options in checks]
        shared = {feed: value for feed, value in runs[0].feeds.items() if feed not in inputs}
        if shared:  # inputs outside the batch are the same for both samples
            runs[1] = run_reference(
                proto, replace(checks[1], feeds={**runs[1].feeds, **shared})
            ).runs[0]
        batch = {
            feed: np.concatenate([np.asarray(run.feeds[feed]) for run in runs]) for feed in inputs
        }
        session = Session(copy, checks[0].settings, base_dir=base_dir)
        results = session.run({**shared, **batch})
    except (LoadError, FeedError, RunError) as error:
        raise ModelError(
            f"{option}: the model does not run with a batch of {2 * size}: {error}"
        ) from error
    for port, result, *parts in zip(
        session.outputs, results, *(run.results for run in runs), strict=True
    ):
        if any(not isinstance(part, np.ndarray) or part.ndim == 0 for part in parts):
            raise ModelError(f"{option}: output {port.name!r} has no batch dimension")
        expected = np.concatenate([np.asarray(part) for part in parts])
        difference = next(
            (
                comparison
                for comparison in compare_values(port.name, expected, result, checks[0].rules)
                if not comparison.ok
            ),
            None,
        )
        if difference is not None:
            raise ModelError(
                f"{option}: output {port.name!r} mixes the samples of a batch: {difference.message}"
            )
    return copy
