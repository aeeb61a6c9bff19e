"""Errors of choices of products, measured in one session."""

from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
import onnx

from xoptim.precision.metrics import Metric, error
from xoptim.precision.ports import fitting
from xoptim.precision.products import Form, QuantizableOp
from xoptim.precision.samples import Samples
from xoptim.precision.storing import Weights
from xoptim.precision.switched import Part, switched
from xoptim.system.machine import release_memory
from xoptim.verification.session import Session, Value
from xoptim.verification.session_settings import SessionSettings


class Trial:
    """A model in which any choice of products can be rounded.

    Args:
        model: the model.
        parts: what computes the result of each product with fewer bits, in each form.
        folder: of external data.
        samples: the values to run on.
        metric: the error to measure.
        settings: of the sessions.
        weights: the constants that can be stored in fewer bits.
        stored: their forms.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        parts: Mapping[Form, Part],
        folder: Path | None,
        samples: Samples,
        metric: Metric,
        settings: SessionSettings,
        weights: Weights | None = None,
        stored: Iterable[QuantizableOp] = (),
    ) -> None:
        whole, self._switches = switched(model, parts, is_optimized=settings.level != "off")
        if weights is not None:
            weights.open(whole)
        self._weights = weights
        self._stored = {each.form: each.weights for each in stored}
        self._session = Session(whole, settings, base_dir=folder)
        self._samples = samples
        self._metric = metric
        self._settings = settings
        self._expected = [self._run(place, {}) for place in range(len(samples.feeds))]

    def error(self, rounded: Mapping[str, str], places: Iterable[int]) -> float:
        """The error when some products are rounded, the largest of some samples, as a fraction.

        Args:
            rounded: their results, each with the name of the pattern.
            places: of the samples.
        """
        return max(
            (
                error(self._metric, self._expected[place], self._run(place, rounded))
                for place in places
            ),
            default=0.0,
        )

    def finish(self) -> None:
        """Free the weights in all forms: only `error_of` can be called afterwards."""
        del self._session
        self._weights = None
        release_memory()

    def error_of(self, model: onnx.ModelProto, folder: Path | None) -> float:
        """The error of another model, such as the one of a choice, on all samples."""
        session = Session(model, self._settings, base_dir=folder)
        pairs = zip(self._expected, self._samples.feeds, strict=True)
        found = max(
            error(self._metric, expected, session.run(fitting(feeds, session.inputs)))
            for expected, feeds in pairs
        )
        del session
        release_memory()
        return found

    def _run(self, place: int, rounded: Mapping[str, str]) -> list[Value]:
        chosen = {
            name: np.array(rounded.get(result) == pattern)
            for (result, pattern), name in self._switches.items()
        }
        feeds = {**self._samples.feeds[place], **chosen}
        if self._weights is not None:
            feeds |= self._weights.feeds(
                {self._stored[form]: form[1] for form in rounded.items() if form in self._stored}
            )
        return self._session.run(feeds)
