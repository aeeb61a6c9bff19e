"""Block-wise rounding of weights, with scales of channels moved to them first (AWQ) where that
reduces the error of the outputs.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from xoptim.match.block_rounding import BlockFormat
from xoptim.match.quantization import BlockScalingPattern
from xoptim.precision.activation_scales import ScaleSearch
from xoptim.precision.preprocessing import Preprocessed, Preprocessor, tried
from xoptim.precision.weight_rounding import rounded_weights
from xoptim.verification.runs.session import Value


@dataclass(frozen=True, slots=True)
class BlockPreprocessor:
    """Rounds the weights of a model.

    Attributes:
        preprocessor: rewrites models and measures their errors; its patterns quantize weights in
            blocks.
        form: bits and block size of the weights.
        op_types: of the operators whose weights are rounded.
    """

    preprocessor: Preprocessor
    form: BlockFormat
    op_types: Collection[str]

    def run(
        self, unrounded: Preprocessed, scalings: Sequence[type[BlockScalingPattern]]
    ) -> Preprocessed:
        """The model, with the integers of its weights in `observed`.

        Without samples, no scales are moved. A warning is logged where moving them fails.

        Args:
            unrounded: the model.
            scalings: patterns that move scales.
        """
        best = self._rounded(unrounded)
        if not self._feeds:
            return best
        for scaling in scalings:
            if self.preprocessor.budget.is_over():
                break
            step = f"{scaling.name()} (AWQ)"
            best = tried(step, partial(self._better_scaled, best, scaling), best)
        return best

    def _better_scaled(
        self, best: Preprocessed, scaling: type[BlockScalingPattern]
    ) -> Preprocessed:
        """The best model, with scales moved where that reduces its error."""
        preprocessor = self.preprocessor
        settings, on_step = preprocessor.settings, preprocessor.how.sink.on_step
        search = ScaleSearch(
            self.form, self.op_types, self._feeds, settings, on_step, preprocessor.budget
        )
        scales = search.run(best.model, best.folder, scaling.anchors or ())
        scaled = preprocessor.rewritten(best, [scaling(scales)]) if scales else None
        if scaled is None:
            return best
        scaled = self._rounded(scaled)
        best_error, scaled_error = (
            preprocessor.error_of(best.model, preprocessed, corrected=False)
            for preprocessed in (best, scaled)
        )
        return scaled if scaled_error < best_error else best

    def _rounded(self, preprocessed: Preprocessed) -> Preprocessed:
        """A model, with the integers of its weights in `observed`."""
        model, folder = preprocessed.model, preprocessed.folder
        settings, budget = self.preprocessor.settings, self.preprocessor.budget
        on_step = self.preprocessor.how.sink.on_step
        rounded = rounded_weights(
            model, folder, self.form, self.op_types, self._feeds, settings, on_step, budget
        )
        return replace(preprocessed, observed=preprocessed.observed._replace(rounded=rounded))

    @property
    def _feeds(self) -> list[Mapping[str, Value]]:
        """The samples that serve to choose; none if samples are random."""
        samples = self.preprocessor.samples
        return [] if samples.are_random else [samples.feeds[index] for index in samples.to_choose]
