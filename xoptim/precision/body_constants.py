"""Float16 storage of the constants that bodies of If, Loop and Scan read."""

from collections.abc import Collection
from pathlib import Path

import onnx

from xoptim.facts.protos import every_node, own_graphs
from xoptim.precision.candidates import Candidate
from xoptim.precision.reference import FloatReference
from xoptim.precision.schemes import storing_patterns
from xoptim.precision.weight_only import WeightOnlyQuantizer


class BodyConstants:
    """The constants that bodies read; the bodies keep computing in float32.

    Args:
        model: the model, in which each value has its own name.
        folder: of its external data.
        kept: names of constants that stay as they are.
    """

    def __init__(
        self, model: onnx.ModelProto, folder: Path | None, kept: Collection[str] = ()
    ) -> None:
        bodies = (graph for node in every_node(model.graph.node) for graph in own_graphs(node))
        names = {name for graph in bodies for node in graph.node for name in node.input}
        self._folder = folder
        self._quantizer = WeightOnlyQuantizer(model, folder, storing_patterns("float16"))
        self.candidates = [
            candidate
            for candidate in self._quantizer.candidates(())
            if candidate.weights in names.difference(kept)
            and candidate.bits < candidate.original_bits
        ]

    def stored(
        self, model: onnx.ModelProto, reference: FloatReference, tolerance: float
    ) -> tuple[onnx.ModelProto, dict[str, str]]:
        """A model with its body constants in float16, and the pattern of each.

        While the error is too large, the half of the constants that saves least returns to float32.

        Args:
            model: the model, or one in which operators were quantized; left unchanged.
            reference: measures errors.
            tolerance: the error allowed.
        """
        candidates = sorted(self.candidates, key=lambda candidate: -_saved_bits(candidate))
        while candidates:
            forms = {candidate.weights: candidate.pattern for candidate in candidates}
            copy, applied = self._quantizer.store(model, forms)
            if reference.unseen_error_of(copy, self._folder) <= tolerance:
                return copy, applied
            candidates = candidates[: len(candidates) // 2]
        return model, {}


def _saved_bits(candidate: Candidate) -> float:
    rows, columns = candidate.shape
    return rows * columns * (candidate.original_bits - candidate.bits)
