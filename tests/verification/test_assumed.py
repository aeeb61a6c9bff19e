"""Values that hold what is assumed."""

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from tests.support import parse
from xoptim import VerificationOptions, optimize, verify
from xoptim.facts.assumptions import PROPERTIES, Assumptions
from xoptim.facts.errors import AssumptionError
from xoptim.verification.errors import ChoiceError
from xoptim.verification.inputs.assumed import check_values, hold
from xoptim.verification.inputs.dims import input_specs
from xoptim.verification.inputs.reference import run_reference

MODEL = (
    "agraph (float[b,n] x, float[b,m] y) => (float[b,k] z) { c = Concat <axis = 1> (x, y) "
    "z = Neg(c) }"
)
BROKEN: dict[str, list[Any]] = {
    "finite": [[[1, np.nan]], [[np.inf, 0]], [[-0.0, 1]]],
    "bool": [[[0, 2]], [[0.5, 1]], [[np.nan, 1]]],
    "ones": [[[0, 1]], [[2, 1]], [[np.nan, 1]]],
    "right_padded": [[[0, 0]], [[0, 1]], [[1, 0, 1]], [[1, 2]]],
    "sorted": [[[2, 1]], [[1, 2, 0]]],
    "unit": [[[1, 1]], [[0, 0]]],
}


@pytest.mark.parametrize("word", PROPERTIES)
def test_values_are_held_and_refused(word: str) -> None:
    known, model = Assumptions.of([f"{word}(x)"]), parse(MODEL)
    specs = input_specs(model)
    for rows in BROKEN[word]:
        array = np.array(rows, np.float32)
        with pytest.raises(ChoiceError, match=rf"'x' .* {word}\(x\)"):
            check_values(known, specs, {"x": array})
        check_values(known, specs, {"y": array})
        held = hold(known, {"x": array, "y": array})
        check_values(known, specs, held)
        assert held["y"] is array
        again = hold(known, held)
        assert np.array_equal(again["x"], held["x"])  # type: ignore[arg-type]
    for shape in ((0,), (2, 0), ()):
        check_values(known, specs, hold(known, {"x": np.zeros(shape, np.float32)}))


def test_complex_values_are_made_finite() -> None:
    array = np.array([1 + 2j, complex(1, np.inf), complex(np.nan, 0)], np.complex64)
    held = hold(Assumptions.of(["finite(x)"]), {"x": array})["x"]
    assert np.array_equal(held, np.array([1 + 2j, 0, 0]))  # type: ignore[arg-type]


@pytest.mark.parametrize("word", [word for word in PROPERTIES if word != "unit"])
def test_random_values_hold_them(word: str) -> None:
    for kind in ("float", "int64"):
        model = parse(f"agraph ({kind}[b,n] x) => ({kind}[b,n] z) {{ z = Abs(x) }}")
        for run in run_reference(
            model, VerificationOptions(assume=[f"{word}(x)"], assignments=3)
        ).runs:
            check_values(Assumptions.of([f"{word}(x)"]), input_specs(model), run.feeds)


def test_sizes_of_runs_hold_what_is_assumed() -> None:
    assumed = ["n >= 5", "m % 4 == 1", "b == 7"]
    runs = run_reference(parse(MODEL), VerificationOptions(assume=assumed, assignments=4)).runs
    assert len({run.sizes["n"] for run in runs}) > 1
    assert all(
        run.sizes["n"] >= 5 and run.sizes["m"] % 4 == 1 and run.sizes["b"] == 7 for run in runs
    )
    free = run_reference(parse(MODEL), VerificationOptions(assignments=4)).runs
    assert any(run.sizes["n"] < 5 for run in free), "without them, the runs differ"


def test_leading_axes_are_tried_empty_without_the_default_set() -> None:
    def is_tried(*assumed: str) -> bool:
        return any(
            0 in run.sizes.values()
            for run in run_reference(parse(MODEL), VerificationOptions(assume=assumed)).runs
        )

    assert not is_tried()
    assert is_tried("nothing")
    assert not is_tried("nothing", "n >= 1", "m >= 1", "b >= 1")


def test_a_proof_refuses_what_breaks_an_assumption(tmp_path: Path) -> None:
    before = parse(MODEL)
    after = optimize(before, assume=["n >= 2", "right_padded(x)"], verify=True)
    trusting = partial(verify, before, after, assume_from_model=True)
    assert trusting().ok
    with pytest.raises(ChoiceError, match=r"n=1 .* n >= 2"):
        trusting(dims={"n": 1})
    padded = {"x": np.ones((1, 2), np.float32), "y": np.ones((1, 3), np.float32)}
    assert trusting(feeds=padded).ok
    with pytest.raises(ChoiceError, match=r"values .*n=1, .* n >= 2"):
        trusting(feeds={"x": np.ones((1, 1), np.float32)})
    with pytest.raises(ChoiceError, match=r"right_padded\(x\)"):
        trusting(feeds={"x": np.array([[0, 1]], np.float32)})
    folder = tmp_path / "test_data_set_0"
    folder.mkdir()
    for place, name in enumerate(padded):
        (folder / f"input_{place}.pb").write_bytes(
            onnx.numpy_helper.from_array(padded[name] * 3).SerializeToString()
        )
    with pytest.raises(ChoiceError, match=r"right_padded\(x\)"):
        trusting(test_data=tmp_path)


def test_assumptions_of_a_comparison_fit_the_original() -> None:
    with pytest.raises(AssumptionError, match="no dimension 'q'"):
        verify(parse(MODEL), parse(MODEL), assume=["q >= 1"])
    with pytest.raises(AssumptionError, match="compare with =="):
        VerificationOptions(assume=["n = 1"])
