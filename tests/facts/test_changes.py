"""Options that a caller gives: other objects are named in the error."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support import parse
from xoptim import OptimizationOptions, diff_values, optimize, tune, verify
from xoptim.bench import bench
from xoptim.facts.changes import with_changes

MODEL = parse("agraph (float[n] x) => (float[n] y) { y = Relu(x) }")


def test_changes() -> None:
    assert with_changes(OptimizationOptions, None, {"opset": 18}) == OptimizationOptions(opset=18)
    assert with_changes(OptimizationOptions, OptimizationOptions(strict=True), {}).strict
    with pytest.raises(TypeError, match="'pattern'"):
        with_changes(OptimizationOptions, None, {"pattern": "default"})


@pytest.mark.parametrize(
    ("function", "name"),
    [
        (lambda options: optimize(MODEL, options), "OptimizationOptions"),
        (lambda options: verify(MODEL, MODEL, options), "VerificationOptions"),
        (lambda options: diff_values(MODEL, MODEL, options), "VerificationOptions"),
        (lambda options: bench([MODEL], options), "BenchOptions"),
        (lambda options: tune(MODEL, options), "TuneOptions"),
    ],
)
@pytest.mark.parametrize("wrong", [3, 0, {"opset": 18}, "default"])
def test_other_objects(function: Callable[[Any], Any], name: str, wrong: object) -> None:
    with pytest.raises(TypeError, match=f"^{name} "):
        function(wrong)


@pytest.mark.parametrize("wrong", [3, "yes", None])
def test_what_verify_may_be(wrong: Any) -> None:
    with pytest.raises(TypeError, match=r"^verify .* VerificationOptions, "):
        optimize(MODEL, verify=wrong)
