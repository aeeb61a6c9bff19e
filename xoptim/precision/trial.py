"""Errors of choices of products, measured in one session."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx

from xoptim.precision.metrics import Metric, error
from xoptim.precision.ports import fitting
from xoptim.precision.products import Form
from xoptim.precision.samples import Samples
from xoptim.precision.switched import Part, switched
from xoptim.system.machine import release_memory
from xoptim.validate.session import Session, SessionSettings, Value


class Trial:
    """A model in which any choice of products can be rounded.

    Args:
        model: the model.
        parts: what computes the result of each product with fewer bits, in each form.
        folder: of external data.
        samples: the values to run on.
        metric: the error to measure.
        settings: of the sessions.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        parts: Mapping[Form, Part],
        folder: Path | None,
        samples: Samples,
        metric: Metric,
        settings: SessionSettings,
    ) -> None:
        whole, self._switches = switched(model, parts, is_optimized=settings.level != "off")
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
        return max((error(self._metric, self._expected[place], self._run(place, rounded)) for place in places), default=0.0)

    def unfolded(self, model: onnx.ModelProto, parts: Mapping[Form, Part], folder: Path | None) -> "Trial":
        """The trial of a model on the same samples, whose session does not hold the floats of weights in all forms."""
        settings = replace(self._settings, level="off").without_copies()
        return Trial(model, parts, folder, self._samples, self._metric, settings)

    def finish(self) -> None:
        """Free the weights in all forms: only `error_of` can be called afterwards."""
        del self._session
        release_memory()

    def error_of(self, model: onnx.ModelProto, folder: Path | None) -> float:
        """The error of another model, such as the one of a choice, on all samples."""
        session = Session(model, self._settings, base_dir=folder)
        pairs = zip(self._expected, self._samples.feeds, strict=True)
        found = max(error(self._metric, expected, session.run(fitting(feeds, session.inputs))) for expected, feeds in pairs)
        del session
        release_memory()
        return found

    def _run(self, place: int, rounded: Mapping[str, str]) -> list[Value]:
        chosen = {name: np.array(rounded.get(result) == pattern) for (result, pattern), name in self._switches.items()}
        return self._session.run({**self._samples.feeds[place], **chosen})
