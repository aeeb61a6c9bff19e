"""The kinds of numbers on which models run, by their operators and the time of a run."""

import numpy as np
import onnx
import pytest

from tests.support import parse
from xoptim.verification import VerificationOptions
from xoptim.verification.inputs.feeding import Feeding
from xoptim.verification.inputs.number_plans import NumberPlans, beyond
from xoptim.verification.inputs.reference import run_reference
from xoptim.verification.inputs.sized import SizedModel

ROUND = "agraph (float[n] x) => (float[n] y) { y = Round(x) }"
ABS = "agraph (float[n] x) => (float[n] y) { y = Abs(x) }"
SIN = "agraph (float[n] x) => (float[n] y) { y = Sin(x) }"


def sources(
    model: onnx.ModelProto, *, is_tiny: bool, is_on_gpu: bool = False, exactness: str = "rounding"
) -> list[str]:
    """The kinds of the planned runs, each once, in order."""
    options = VerificationOptions(exactness=exactness)  # type: ignore[arg-type]
    first = run_reference(model, options).runs[0]
    models = [SizedModel(model, None)]
    numbers = NumberPlans(Feeding(model, options), models, is_tiny=is_tiny, is_on_gpu=is_on_gpu)
    plans = numbers.plans(first.feeds)
    return list(dict.fromkeys(plan(first.sizes, 0, False).source for plan in plans))


@pytest.mark.parametrize(
    ("text", "found"),
    [(ROUND, ["far", "ties", "odd"]), (ABS, ["far", "odd"]), (SIN, ["odd"])],
)
def test_operators_decide_where_runs_take_time(text: str, found: list[str]) -> None:
    assert sources(parse(text), is_tiny=False) == found


def test_tiny_models_run_on_all_kinds() -> None:
    kinds = ["random", "free", "tiny", "offset", "level", "odd", "range"]
    assert sources(parse(SIN), is_tiny=True) == ["wide", "far", "ties", *kinds]
    equal = "agraph (float[n] a, float[n] b) => (bool[n] y) { y = Equal(a, b) }"
    arranged = ["sorted", "single"]
    assert sources(parse(equal), is_tiny=True) == ["wide", "far", "ties", *arranged, *kinds]


def test_infinities_where_it_is_known_where_they_lead() -> None:
    conv = parse("agraph (float[1,1,n] x, float[1,1,2] w) => (float[1,1,m] y) { y = Conv(x, w) }")
    assert "odd" in sources(conv, is_tiny=False)
    assert "odd" not in sources(conv, is_tiny=False, is_on_gpu=True)
    assert "odd" not in sources(conv, is_tiny=False, exactness="finite")


def test_numbers_around_a_bound() -> None:
    assert beyond(8.0) == (8.0, 9.0, 7.0, -9.0)
    assert beyond(0.5) == (0.5, 0.75, 0.25, -0.75)


@pytest.mark.parametrize("kind", ["float", "int64"])
def test_rows_that_ascend_and_unit_matrices(kind: str) -> None:
    model = parse(f"agraph ({kind}[3,4] x) => (bool[3,4] y) {{ y = Equal(x, x) }}")
    runs = run_reference(model, VerificationOptions()).runs
    ascending, single = (
        np.asarray(next(run for run in runs if run.source == source).feeds["x"])
        for source in ("sorted", "single")
    )
    assert np.all(np.diff(ascending, axis=-1) >= 0)
    assert np.array_equal(single, np.eye(3, 4))
