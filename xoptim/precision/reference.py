"""What quantized models are compared with: the outputs of the float32 model on samples."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import onnx

from xoptim.precision.float16_io import with_float16_feeds
from xoptim.precision.metrics import Metric, error
from xoptim.precision.samples import Samples
from xoptim.system.machine import release_memory
from xoptim.verification.session import Session, Value
from xoptim.verification.session_settings import SessionSettings


@dataclass(frozen=True, slots=True)
class FloatReference:
    """The outputs of a float32 model on samples.

    Attributes:
        samples: the values of the inputs.
        expected: the outputs, one list for each sample.
        metric: the error to measure.
        settings: of the sessions.
    """

    samples: Samples
    expected: Sequence[Sequence[Value]]
    metric: Metric
    settings: SessionSettings

    @classmethod
    def of(
        cls,
        model: onnx.ModelProto,
        folder: Path | None,
        samples: Samples,
        metric: Metric,
        settings: SessionSettings,
    ) -> "FloatReference":
        """The outputs of a model on samples."""
        session = Session(model, settings, base_dir=folder)
        expected = [session.run(feeds) for feeds in samples.feeds]
        del session
        release_memory()
        return cls(samples, expected, metric, settings)

    def error(self, index: int, actual: Sequence[Value]) -> float:
        """The error of outputs on one sample, as a fraction."""
        return error(self.metric, self.expected[index], actual)

    def error_of(self, model: onnx.ModelProto, folder: Path | None) -> float:
        """The error of a model on all samples: the largest one, as a fraction."""
        session = Session(model, self.settings, base_dir=folder)
        found = max(
            self.error(index, session.run(with_float16_feeds(feeds, session.inputs)))
            for index, feeds in enumerate(self.samples.feeds)
        )
        del session
        release_memory()
        return found
