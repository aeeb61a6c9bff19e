"""Values like those of an example."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.support import parse
from xoptim.verification.errors import ChoiceError
from xoptim.verification.inputs.feeding import RunPlan
from xoptim.verification.inputs.varied import VariedExample
from xoptim.verification.options import VerificationOptions

TEXT = (
    "agraph (int64[batch,seq] ids, float[batch,past] cache, int64[batch,seq+past] mask)"
    " => (float[batch,past] y) { y = Relu(cache) }"
)


def example() -> dict[str, np.ndarray]:
    return {
        "ids": np.array([[5, 9, 7], [5, 6, 9]], np.int64),
        "cache": np.zeros((2, 4), np.float32),
        "mask": np.ones((2, 7), np.int64),
    }


def model() -> Any:
    found = parse(TEXT.replace("seq+past", "total"))
    found.graph.input[2].type.tensor_type.shape.dim[1].dim_param = "seq + past"
    return found


def plans(**options: Any) -> list[RunPlan]:
    return list(VariedExample(model(), example(), VerificationOptions(**options)).plans())


def test_the_example_comes_first() -> None:
    first = plans()[0]
    assert first.source == "given"
    assert first.sizes == {"batch": 2, "seq": 3, "past": 4}
    assert all(
        np.array_equal(np.asarray(first.feeds[name]), value) for name, value in example().items()
    )


def test_each_size_is_1_and_larger_alone_and_with_the_others() -> None:
    sizes = [tuple(plan.sizes.values()) for plan in plans()]
    assert {(1, 1, 1), (3, 5, 7), (1, 3, 4), (5, 3, 4), (2, 1, 4), (2, 7, 4), (2, 3, 1)} <= {*sizes}
    for plan in plans():
        shapes = {name: np.asarray(value).shape for name, value in plan.feeds.items()}
        batch, seq, past = plan.sizes.values()
        assert shapes == {
            "ids": (batch, seq),
            "cache": (batch, past),
            "mask": (batch, seq + past),
        }


def test_integers_are_those_of_the_example_and_constant_floats_are_not() -> None:
    for plan in plans():
        if plan.source == "drawn":
            assert {*np.unique(plan.feeds["ids"])} <= {5, 6, 7, 9}  # type: ignore[arg-type]
            assert (np.asarray(plan.feeds["mask"]) == 1).all()
            assert np.asarray(plan.feeds["cache"]).any()


def test_sizes_that_are_related_in_the_example_change_together() -> None:
    """Names of their own for the batches and the length of the mask."""
    text = (
        "agraph (int64[a,b] ids, float[c,d] cache, int64[e,f] mask)"
        " => (float[c,d] y) { y = Relu(cache) }"
    )
    found = list(VariedExample(parse(text), example(), VerificationOptions()).plans())
    sizes = [tuple(plan.sizes.values()) for plan in found]
    assert all(a == c == e and f == b + d for a, b, c, d, e, f in sizes)
    assert {(1, 3, 1, 4, 1, 7), (2, 7, 2, 4, 2, 11), (2, 3, 2, 1, 2, 4)} <= {*sizes}


def test_sizes_keep_what_is_assumed() -> None:
    found = plans(assume=("batch == 2", "past >= 4"))
    assert all(plan.sizes["batch"] == 2 and plan.sizes["past"] >= 4 for plan in found)
    assert len({plan.sizes["seq"] for plan in found}) > 2


def test_floats_that_vary_are_drawn_from_the_example() -> None:
    given = example() | {"cache": np.linspace(100, 101, 8, dtype=np.float32).reshape(2, 4)}
    found = VariedExample(model(), given, VerificationOptions()).plans()
    drawn = [np.asarray(plan.feeds["cache"]) for plan in found if plan.source == "drawn"]
    assert all(((each >= 100) & (each <= 101)).all() for each in drawn)


def test_16_bit_floats_of_ml_dtypes() -> None:
    found = parse("agraph (bfloat16[n] x) => (bfloat16[n] y) { y = Relu(x) }")
    given = {"x": np.zeros(3, ml_dtypes.bfloat16)}
    for plan in VariedExample(found, given, VerificationOptions()).plans():
        assert np.asarray(plan.feeds["x"]).dtype == ml_dtypes.bfloat16


def test_a_model_without_open_sizes() -> None:
    found = parse("agraph (float[2] x) => (float[2] y) { y = Relu(x) }")
    made = VariedExample(found, {"x": np.zeros(2, np.float32)}, VerificationOptions()).plans()
    assert [plan.source for plan in made] == ["given", "drawn", "random"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"mask": np.ones((2, 7), np.int32)}, "int32, not int64"),
        ({"cache": np.zeros((2, 4, 1), np.float32)}, "have shape"),
        ({"other": np.zeros(1)}, "no input 'other'"),
    ],
)
def test_an_example_that_does_not_fit(change: dict[str, np.ndarray], message: str) -> None:
    with pytest.raises(ChoiceError, match=message):
        VariedExample(model(), example() | change, VerificationOptions())


def test_an_input_without_a_value() -> None:
    given = example()
    del given["mask"]
    with pytest.raises(ChoiceError, match="mask"):
        VariedExample(model(), given, VerificationOptions())
