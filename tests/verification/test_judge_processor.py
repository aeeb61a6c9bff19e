"""Runs on another execution provider, whose kernels overflow where those of the processor do
not.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

import numpy as np
import onnx
import pytest

from tests.plugged import array
from tests.support import parse
from xoptim.verification import (
    Session,
    SessionSettings,
    Value,
    VerificationOptions,
    VerificationReport,
    verify_models,
)
from xoptim.verification.runs.plugins import Plugin

ABS: Final = "agraph (float[n] x) => (float[n] y) { t = Neg(x) y = Abs(t) }"
SAME: Final = "agraph (float[n] x) => (float[n] y) { y = Abs(x) }"
CLIPPED: Final = (
    "agraph (float[n] x) => (float[n] y) <float low = {0}, float high = {1e5}> { t = Abs(x) "
    "y = Clip(t, low, high) }"
)
LARGE: Final = 1e4


class _Overflowing(Session):
    """A session of a provider whose results are NaN for the numbers of a kind."""

    overflows: Callable[[np.ndarray], np.ndarray] | None = None

    def run(self, feeds: Mapping[str, Value], limit: float | None = None) -> list[Value]:
        """The results on the processor, with NaN."""
        results = super().run(feeds, limit)
        if self.overflows is None:
            return results
        return [
            np.where(self.overflows(array(feeds["x"])), np.float32(np.nan), array(each))
            for each in results
        ]


def judged(
    result: str,
    overflows: Callable[[np.ndarray], np.ndarray],
    patch: pytest.MonkeyPatch,
    *,
    is_original: bool = False,
) -> VerificationReport:
    """The report on a result.

    The provider computes some numbers of it, or of the original, as NaN.
    """
    model, other = parse(ABS), parse(result)

    def opened(
        given: onnx.ModelProto, settings: SessionSettings | None = None, **options: Any
    ) -> Session:
        settings = settings or SessionSettings()
        session = _Overflowing(given, settings.on_cpu(), **options)
        if settings.providers == ("webgpu",) and given is (model if is_original else other):
            session.overflows = overflows
        return session

    for module in ("judging.judge", "inputs.reference", "judging.steady"):
        patch.setattr(f"xoptim.verification.{module}.Session", opened)
    patch.setattr(Plugin, "is_installed", True)
    return verify_models(
        model, other, VerificationOptions(providers=("webgpu",), exactness="rounding")
    )


def test_what_overflows_on_the_provider_alone_is_not_a_fault_of_the_result(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert judged(SAME, lambda x: np.abs(x) > LARGE, monkeypatch).status == "equal"


def test_on_usual_values_the_provider_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    assert judged(SAME, lambda x: x > 0, monkeypatch).status == "different"


def test_what_differs_on_the_processor_too_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    assert judged(CLIPPED, lambda x: np.abs(x) > LARGE, monkeypatch).status == "different"


def test_an_original_that_the_provider_computes_wrongly(monkeypatch: pytest.MonkeyPatch) -> None:
    report = judged(SAME, lambda x: x > 0, monkeypatch, is_original=True)
    assert report.status == "equal"
    assert re.match("on webgpu, .*'y' wrongly; .* CPU$", report.notes[0])
    assert judged(CLIPPED, lambda x: x > 0, monkeypatch, is_original=True).status == "different"
