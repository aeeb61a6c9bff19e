"""Rounding of weights that are quantized in blocks, with the smallest error on samples."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx

from xoptim.facts.progress import StageProgress, silent, with_progress
from xoptim.match.block_rounding import (
    BlockFormat,
    Blocks,
    RoundedWeights,
    WeightKey,
    nearest_blocks,
)
from xoptim.precision.block_search import searched_blocks
from xoptim.precision.budget import SearchBudget
from xoptim.precision.error_feedback import feedback_blocks, output_error
from xoptim.precision.moments import Moments, batches, collected_moments
from xoptim.precision.weight_matrices import Activations, WeightMatrices, weight_readers
from xoptim.verification.runs.session import Value
from xoptim.verification.runs.session_settings import SessionSettings


def rounded_weights(
    model: onnx.ModelProto,
    folder: Path | None,
    form: BlockFormat,
    op_types: Iterable[str],
    feeds: Sequence[Mapping[str, Value]],
    settings: SessionSettings,
    on_step: Callable[[str], object] = silent,
    budget: SearchBudget | None = None,
) -> RoundedWeights:
    """Round the constant matrices that operators read.

    Args:
        model: the model, in which each value has its own name.
        folder: of its external data.
        form: bits and block size.
        op_types: of the operators: MatMuls, and ``Gather``, whose rows are divided into blocks.
        feeds: samples. Without samples, all weights are rounded to nearest: searched scales reduce
            the error of the weights, but increased the error of the outputs of two trained models
            (by factors of 1.07 and 1.14).
        settings: of the session that runs the samples.
        on_step: is called before each matrix.
        budget: the time of the search; matrices that it does not reach are rounded to nearest.
    """
    if not feeds:
        return RoundedWeights(form)
    budget = budget or SearchBudget(None)
    matrices = WeightMatrices(model, folder, form)
    readers = weight_readers(model, {*op_types}, matrices)
    sources = dict[Activations, list[WeightKey]]()
    for key, names in readers.items():
        sources.setdefault(names, []).append(key)
    blocks = dict[WeightKey, Blocks]()
    unobserved = sources.pop((), [])
    for key in with_progress(unobserved, "searching the scales of weights", on_step):
        if budget.is_over():
            break
        blocks[key] = searched_blocks(matrices.read(key), form)
    total = sum(map(len, sources.values()))
    for batch in batches(sources, matrices):
        if budget.is_over():
            break
        moments = collected_moments(model, folder, batch, feeds, settings)
        for names in batch:
            for key in sources[names]:
                on_step(StageProgress("rounding weights", len(blocks) - len(unobserved), total))
                if not budget.is_over():
                    blocks[key] = best_blocks(matrices.read(key), form, moments[names])
            del moments[names]
    return RoundedWeights(form, blocks)


def best_blocks(matrix: np.ndarray, form: BlockFormat, moments: Moments) -> Blocks:
    """The rounding with the smallest error of the product with the activations."""
    if not moments.is_fit or not moments.count:
        return searched_blocks(matrix, form)
    searched = searched_blocks(matrix, form, moments.squares)
    if moments.hessian is None:
        return searched
    candidates = [nearest_blocks(matrix, form), searched]
    if moments.curvature is not None:
        candidates.append(feedback_blocks(matrix, moments.curvature, form))
    hessian = moments.hessian
    return min(candidates, key=lambda blocks: output_error(matrix, blocks, hessian, form))
