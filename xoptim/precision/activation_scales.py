"""Search for channel scales that move from activations to block-wise weights (AWQ)."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import numpy as np
import onnx

from xoptim.facts.operators import operator_label
from xoptim.facts.progress import StageProgress, silent
from xoptim.facts.protos import every_node
from xoptim.match.block_rounding import BlockFormat, WeightKey
from xoptim.match.channel_scales import best_scale
from xoptim.match.quantization import Numbers
from xoptim.precision.budget import SearchBudget
from xoptim.precision.error_feedback import output_error
from xoptim.precision.moments import Moments, batches, collected_moments
from xoptim.precision.weight_matrices import Activations, WeightMatrices, weight_readers
from xoptim.precision.weight_rounding import best_blocks
from xoptim.verification.runs.session import Value
from xoptim.verification.runs.session_settings import SessionSettings

_COLUMNS: Final = 64
"""Columns of weights that are rounded with each scale that is tried."""


@dataclass(frozen=True, slots=True)
class ScaleSearch:
    """Finds channel scales with which the weights of MatMuls have smaller errors.

    Attributes:
        form: bits and block size of the weights.
        op_types: of the operators that multiply by weights.
        feeds: samples.
        settings: of the session that runs the samples.
        on_step: is called before each activation.
        budget: the time of the search; activations that it does not reach have no scales.
    """

    form: BlockFormat
    op_types: Collection[str]
    feeds: Sequence[Mapping[str, Value]]
    settings: SessionSettings
    on_step: Callable[[str], object] = silent
    budget: SearchBudget = field(default_factory=lambda: SearchBudget(None))

    def run(
        self, model: onnx.ModelProto, folder: Path | None, producers: Collection[str]
    ) -> dict[str, Numbers]:
        """The scales of the channels of activations.

        Args:
            model: the model, in which each value has its own name.
            folder: of its external data.
            producers: labels of the operators that can divide their result by scales.

        Returns:
            Scales of shape (channels,), at least 1, by the names of activations. Activations that
            are expected to gain nothing are missing.
        """
        matrices = WeightMatrices(model, folder, self.form)
        sources = _sources(model, matrices, producers, self.op_types)
        scales = dict[str, Numbers]()
        count = 0
        for batch in batches(sources, matrices):
            if self.budget.is_over():
                break
            moments = collected_moments(model, folder, batch, self.feeds, self.settings)
            for names in batch:
                self.on_step(StageProgress("scaling channels", count, len(sources)))
                count += 1
                if self.budget.is_over():
                    break
                weights = _some_columns([matrices.read(key) for key in sources[names]])
                scale = _scale(weights, self.form, moments.pop(names))
                if scale is not None:
                    scales[names[0]] = scale
        return scales


def _scale(weights: np.ndarray, form: BlockFormat, moments: Moments) -> Numbers | None:
    """The best scale of each channel of activations; ``None`` if the samples do not tell it."""
    if not moments.is_fit or not moments.count or moments.curvature is None:
        return None

    def error(scale: Numbers) -> float:
        divided = moments.divided(scale)
        assert divided.hessian is not None
        scaled = (weights * scale[:, None]).astype(np.float32)
        blocks = best_blocks(scaled, form, divided)
        return output_error(scaled, blocks, divided.hessian, form)

    # AWQ uses mean magnitudes. `Curvature.magnitudes` leaves out the part of an error that error
    # feedback corrects in later rows.
    return best_scale(moments.curvature.magnitudes, error)


def _some_columns(matrices: Sequence[np.ndarray]) -> np.ndarray:
    """Evenly spaced columns of the concatenated matrices, of shape (terms, columns)."""
    weights = np.concatenate(matrices, axis=1)
    columns = weights.shape[1]
    indices = np.linspace(0, columns - 1, min(_COLUMNS, columns)).round().astype(np.int64)
    return np.ascontiguousarray(weights[:, indices])


def _sources(
    model: onnx.ModelProto,
    matrices: WeightMatrices,
    producers: Collection[str],
    op_types: Collection[str],
) -> dict[Activations, list[WeightKey]]:
    """The weights that multiply each result of a producer.

    Results that anything but a MatMul by constant weights reads are missing.
    """
    results = {
        name
        for node in model.graph.node
        if operator_label(node.op_type, node.domain) in producers
        for name in node.output[:1]
    }
    read_elsewhere = {value.name for value in model.graph.output} | {
        *_other_operands(model, op_types)
    }
    sources = dict[Activations, list[WeightKey]]()
    for key, names in weight_readers(model, {*op_types}, matrices).items():
        if len(names) == 1 and names[0] in results - read_elsewhere:
            sources.setdefault(names, []).append(key)
    return sources


def _other_operands(model: onnx.ModelProto, op_types: Collection[str]) -> Iterator[str]:
    """The names of all operands, except the first operands of operators in ``op_types``."""
    for node in every_node(model.graph.node):
        yield from node.input[1 if node.op_type in op_types else 0 :]
