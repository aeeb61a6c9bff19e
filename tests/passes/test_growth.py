"""How many bytes folding may add to a model."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

from tests.support import parse, types
from xoptim import OptimizationOptions, OptimizationReport, optimize
from xoptim.passes.growth import Unfolded, allowed_growth

FILLED = "n{0} = ConstantOfShape <value = float[1] {{{0}}}> (size) t{0} = Add(t{1}, n{0})"


def filled(count: int) -> onnx.ModelProto:
    """A model that makes constants of 400 kB each when it runs."""
    nodes = " ".join(FILLED.format(i, i - 1) for i in range(1, count + 1))
    text = (
        f"agraph (float[1] t0) => (float[m] y) <int64[1] size = {{100000}}> {{ {nodes} "
        f"y = Neg(t{count}) }}"
    )
    return parse(text)


def with_weight(text: str, shape: tuple[int, ...], dtype: Any = np.float32) -> onnx.ModelProto:
    model = parse(text)
    model.graph.initializer.append(numpy_helper.from_array(np.ones(shape, dtype), "w"))
    return model


def optimized(model: onnx.ModelProto, **options: Any) -> tuple[onnx.ModelProto, OptimizationReport]:
    reports: list[OptimizationReport] = []
    return optimize(model, patterns=None, report=reports.append, **options), reports[0]


@pytest.mark.parametrize(
    ("choice", "size", "allowed"),
    [
        (None, 10, 10**6),
        (None, 10**9, 10**8),
        ("unlimited", 10, None),
        (7, 10, 7),
        ("500kB", 10, 500_000),
        ("1.5 MiB", 10, 3 << 19),
        ("10%", 12_345, 1234),
        ("0", 10, 0),
    ],
)
def test_choices(choice: int | str | None, size: int, allowed: int | None) -> None:
    assert allowed_growth(choice, size) == allowed


@pytest.mark.parametrize("choice", ["", "much", "-1", "10 bananas", "%", "1e3"])
def test_choices_that_cannot_be_read(choice: str) -> None:
    with pytest.raises(ValueError, match=r"500kB, .* 10%, .*`unlimited`"):
        allowed_growth(choice, 10)


@pytest.mark.parametrize("choice", ["0.1", ".1", 0.1])
def test_a_number_below_1_may_be_a_share(choice: Any) -> None:
    with pytest.raises(ValueError, match=r"500kB, .* 10%"):
        OptimizationOptions(max_growth=choice)
    assert allowed_growth("0.5%", 1000) == 5
    assert allowed_growth("0.5kB", 1000) == 500
    assert allowed_growth("0", 1000) == 0


@pytest.mark.parametrize(
    ("options", "folded"), [({}, 2), ({"max_growth": "900kB"}, 2), ({"max_growth": "unlimited"}, 5)]
)
def test_the_total_is_limited(options: dict[str, Any], folded: int) -> None:
    """Each constant by itself is small."""
    after, report = optimized(filled(5), **options)
    assert types(after).count("ConstantOfShape") == 5 - folded
    left = report.unfolded
    assert (left is None) == (folded == 5)
    if left is not None:
        assert (left.operators, left.size) == ({"ConstantOfShape": 3}, 3 * 400_000)
        assert left.used == pytest.approx(2 * 400_000, abs=100)
        assert sum(len(t.raw_data) for t in after.graph.initializer) <= left.allowed + 100


def test_small_results_come_first() -> None:
    """A large one that stands before many small ones does not take their room."""
    filled = (
        "c{0} = ConstantOfShape <value = float[1] {{{0}}}> (n) d{0} = Add(y{0}, "
        "c{0}) y{1} = Identity(d{0})"
    )
    small = " ".join(filled.format(i, i + 1) for i in range(30))
    nodes = f"c = ConstantOfShape(m) y0 = Add(x, c) {small} y = Neg(y30)"
    sizes = "<int64[2] m = {100, 2000}, int64[1] n = {2000}>"
    after, report = optimized(
        parse(f"agraph (float[100,2000] x) => (float[100,2000] y) {sizes} {{ {nodes} }}")
    )
    assert types(after).count("ConstantOfShape") == 1
    assert report.unfolded is not None
    assert report.unfolded.size > 700_000


def test_what_is_freed_makes_room() -> None:
    """A chain is stored once, at its end: each result takes the place of the one before."""
    steps = " ".join(f"c{i} = Neg(c{i - 1})" for i in range(1, 9))
    nodes = f"c0 = ConstantOfShape(size) {steps} y = Add(x, c8)"
    text = f"agraph (float[1] x) => (float[m] y) <int64[1] size = {{100000}}> {{ {nodes} }}"
    after, report = optimized(parse(text), max_growth="400kB")
    assert (types(after), report.unfolded) == (["Add"], None)


@pytest.mark.parametrize(("options", "expected"), [({}, 1), ({"max_growth": "10MB"}, 0)])
def test_a_tied_weight_is_not_stored_twice(options: dict[str, Any], expected: int) -> None:
    text = (
        "agraph (float[n,300] x, int64[k] i) => (y, z) { t = Transpose <perm = [1, 0]> (w) "
        "y = MatMul(x, t) z = Gather(w, i) }"
    )
    after, report = optimized(with_weight(text, (200, 300)), **options)
    assert types(after).count("Transpose") == expected
    left = Unfolded({"Transpose": 1}, 240_000, 10**6, used=0, copies=1)
    assert report.unfolded == (left if expected else None)


def test_a_weight_of_one_reader_is_transposed() -> None:
    text = "agraph (float[n,3000] x) => (y) { t = Transpose <perm = [1, 0]> (w) y = MatMul(x, t) }"
    after, report = optimized(with_weight(text, (200, 3000)), max_growth=0)
    assert (types(after), report.unfolded) == (["MatMul"], None)


def test_a_share_counts_all_constants() -> None:
    text = "agraph (float[n,300] x) => (y) { h = Cast <to = 1> (w) y = MatMul(x, h) }"
    model = with_weight(text, (300, 3000), np.float16)
    assert types(optimized(model, max_growth="99%")[0]) == ["Cast", "MatMul"]
    assert types(optimized(model, max_growth="100%")[0]) == ["MatMul"]


def test_sizes_that_only_a_run_shows() -> None:
    """The result of NonZero has an unknown size.

    It is computed, found too large, and not computed again.
    """
    text = "agraph (int64[1] x) => (y) { i = NonZero(w) y = Add(x, i) }"
    model = with_weight(text, (300_000,), np.uint8)
    after, report = optimized(model, max_growth="100kB")
    assert types(after) == ["NonZero", "Add"]
    assert report.unfolded is not None
    assert report.unfolded.operators == {"NonZero": 1}
    assert types(optimized(model, max_growth="3MB")[0]) == ["Add"]


def test_patterns_do_not_store_what_folding_left() -> None:
    text = (
        "agraph (float[n,600] x) => (float[n,600] y) <int64[2] size = {600, 600}, float k = {3}, "
        "float o = {0}, float e = {360000}, float d = {1}> { r = Range(o, e, d) "
        "w = Reshape(r, size) t = MatMul(x, w) y = Mul(t, k) }"
    )
    after = optimize(parse(text), patterns="MatMulMul")
    assert types(after) == ["Range", "Reshape", "MatMul", "Mul"]
    assert types(optimize(parse(text), patterns="MatMulMul", max_growth="unlimited")) == ["MatMul"]


def test_small_results_are_folded_in_any_case() -> None:
    text = (
        "agraph (float[2] x) => (y, float[2] z) <float[2] w = {1, 2}> { t = Neg(w) y = Add(x, t) "
        "z = Mul(x, w) }"
    )
    assert types(optimized(parse(text), max_growth=0)[0]) == ["Add", "Mul"]


def test_a_result_fits_once_the_nodes_that_read_its_operand_are_merged() -> None:
    """Both sums would be copies of the weight next to it.

    The second one is merged, and its operands go.
    """
    text = """agraph (float[600,100] x) => (float[600,100] y) {
      a = Add(w, one) p = Mul(x, a) b = Add(one, w) q = Mul(x, b) y = Add(p, q) }"""
    model = with_weight(
        text.replace("=> (float[600,100] y) {", "=> (float[600,100] y) <float one = {1}> {"),
        (600, 100),
    )
    after, _ = optimized(model)
    assert types(after) == ["Mul", "Add"]


def test_a_result_fits_once_the_last_other_reader_of_its_operand_is_folded() -> None:
    """The sine is first a copy next to the grid, which the product reads too.

    The product is folded after it.
    """
    text = """agraph (int64[b] i) => (e, float[256,256] y)
      <float o = {0}, float u = {1}, float n = {256}, int64[2] c = {-1,1}> {
      r = Range(o, n, u) a = Mul(r, r) k = Reshape(r, c) d = Mul(k, a) w = Sin(d) e = Gather(w, i)
      j = Reshape(a, c) l = Mul(j, r) v = Sin(l) y = MatMul(d, v) }"""
    once, report = optimized(parse(text))
    assert types(once) == ["Gather", "Constant"]
    assert report.unfolded is None
    assert optimized(once)[0] == once


@pytest.mark.parametrize("choice", [None, 0, "900kB", "10%"])
def test_a_second_run_folds_nothing_more(choice: int | str | None) -> None:
    """The bytes that the first run added count, as the model tells in its metadata."""
    once, report = optimized(filled(5), max_growth=choice)
    again, second = optimized(once, max_growth=choice)
    assert report.unfolded == second.unfolded is not None
    assert again.SerializeToString() == once.SerializeToString()


def test_the_limit_of_a_second_run_counts_from_the_model_as_given_first() -> None:
    once, _ = optimized(filled(5))
    more, _ = optimized(once, max_growth="1700kB")
    assert types(more).count("ConstantOfShape") == 1
    whole, _ = optimized(more, max_growth="unlimited")
    assert types(whole).count("ConstantOfShape") == 0
    assert not whole.metadata_props, "nothing is left to fold"


@pytest.mark.parametrize("change", ["constants", "text"])
def test_what_the_metadata_tell_of_another_model_is_ignored(change: str) -> None:
    once, _ = optimized(filled(5))
    if change == "constants":
        once.graph.initializer.append(numpy_helper.from_array(np.ones(9, np.float32), "more"))
    else:
        once.metadata_props[0].value = "a lot"
    again, _ = optimized(once)
    assert types(again).count("ConstantOfShape") == 1
    assert len(again.metadata_props) == 1


@pytest.mark.parametrize(("count", "is_folded"), [(1023, True), (1024, False)])
def test_numbers_of_16_bits_stay(count: int, is_folded: bool) -> None:
    """Only a limit that is asked for lets them be stored in 32 bits."""
    model = with_weight(
        "agraph (float[n,1] x) => (y) { h = Cast <to = 1> (w) y = MatMul(x, h) }",
        (1, count),
        np.float16,
    )
    assert types(optimized(model)[0]) == ["Cast", "MatMul"][is_folded:]
    assert types(optimized(model, max_growth="1MB")[0]) == ["MatMul"]
