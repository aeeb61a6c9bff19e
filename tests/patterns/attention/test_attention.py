import itertools

import numpy as np
import onnx
import pytest

from tests.patterns.attention.comparison import LEVELS, assert_same, session
from tests.patterns.attention.forms import HEADS, KEYS, MASKS, QUERIES, SCORES
from tests.patterns.attention.models import Form, model_of
from tests.support import in_parts, parse, types
from xoptim import optimize
from xoptim.verification.judging.compare import compare_values
from xoptim.verification.options import ComparisonRules

pytestmark = pytest.mark.slow

SCALES = [
    ("plain", "plain"),
    ("multiplied", "plain"),
    ("divided", "plain"),
    ("root", "plain"),
    ("plain", "multiplied"),
]
SCALES += [("plain", "divided"), ("root", "divided")]
SHAPES = list(itertools.product(KEYS, MASKS, (4, 2, 1), (True, False)))
FORMS = [
    Form(queries, keys, scores, mask, groups, packed)
    for (queries, scores), (keys, mask, groups, packed) in zip(
        itertools.cycle(SCALES), SHAPES, strict=False
    )
]
PARTS = 24


def test_the_tables_are_used() -> None:
    assert {form.queries for form in FORMS} == set(QUERIES)
    assert {form.scores for form in FORMS} == set(SCORES)


@in_parts("part", PARTS)
def test_every_form_is_one_operator(part: int) -> None:
    for form in FORMS[part::PARTS]:
        before = model_of(form)
        after = optimize(before)
        found = types(after)
        assert found.count("Attention") == 1, (form, found)
        assert "Softmax" not in found, (form, found)
        assert found.count("MatMul") == 3, (form, found)
        assert "Transpose" not in found or form.groups != HEADS or not form.packed, (form, found)
        # Scores next to -10000 have three digits behind the point; a rounding error may change the
        # last one.
        assert_same(before, after, atol=2e-3 if form.mask == "ten thousand" else None)


@pytest.mark.slow
@pytest.mark.parametrize("mask", MASKS)
def test_long_inputs(mask: str) -> None:
    before = model_of(Form(mask=mask))
    assert_same(
        before, optimize(before), lengths=(512,), atol=2e-3 if mask == "ten thousand" else None
    )


def formula(**changes: str) -> onnx.ModelProto:
    """An attention of tensors of four axes, with some parts replaced."""
    parts = {
        "q": "float[b,2,3,4]", "k": "float[b,2,5,4]", "v": "float[b,2,5,6]", "y": "float[b,2,3,6]",
        "m": "bool[b,1,3,5]", "inputs": "", "outputs": "", "s": "0.5", "low": "-3e38",
        "constants": "", "axis": "-1", "mask": "d = Where(m, zero, low)",
        "key": "p = Transpose <perm = [0, 1, 3, 2]> (k)", "scale": "c = Mul(a, s)",
    } | changes  # fmt: skip
    text = (
        "agraph ({q} q, {k} k, {v} v, {m} m{inputs}) "
        "=> ({y} y{outputs}) <float s = {{{s}}}, float zero = {{0}}, "
        "float low = {{{low}}}{constants}> {{ {mask} {key} a = MatMul(q, p) {scale} e = Add(c, d) "
        "w = Softmax <axis = {axis}> (e) y = MatMul(w, v) }}"
    )
    return parse(text.format(**parts), 23)


REFUSED = {
    "softmax over the queries": {"axis": "2"},
    "weights are a result": {"outputs": ", float[b,2,3,5] w"},
    "scores are a result": {"outputs": ", float[b,2,3,5] a"},
    "a caller gives the scale": {"inputs": ", float s"},
    "a caller gives the lowest number": {"inputs": ", float low"},
    "keys of one batch": {"k": "float[1,2,5,4]"},
    "values of one batch": {"v": "float[1,2,5,6]"},
    "values of one head": {"v": "float[b,1,5,6]"},
    "unknown length": {"q": "float[b,2,n,4]", "y": "float[b,2,n,6]", "m": "bool[b,1,1,5]"},
    "no queries": {"q": "float[b,2,0,4]", "y": "float[b,2,0,6]", "m": "bool[b,1,1,5]"},
    "no keys": {"k": "float[b,2,0,4]", "v": "float[b,2,0,6]", "m": "bool[b,1,3,1]"},
    "many keys": {"k": "float[b,2,1025,4]", "v": "float[b,2,1025,6]", "m": "bool[b,1,3,1025]"},
    "negative scale": {"s": "-0.5"},
    "no scale": {"s": "0"},
    "scale of many axes": {
        "constants": ", float[1,1,1,1,1] r = {0.5}",
        "scale": "c = Mul(a, r)",
        "y": "float[o,b,2,3,6]",
    },
    "scale of each head": {"constants": ", float[2,1,1] r = {0.5, 1}", "scale": "c = Mul(a, r)"},
    "mask of -infinity": {"low": "-inf"},
    "sum of a mask and -infinity": {
        "constants": ", float i = {-inf}",
        "mask": "x = Where(m, zero, i) d = Add(x, low)",
    },
    "infinite product": {
        "low": "-3e38",
        "mask": "i = Mul(low, low) j = Neg(i) d = Where(m, zero, j)",
    },
    "mask of the caller": {"m": "float[b,1,3,5]", "mask": "d = Identity(m)"},
    "mask of more batches": {"m": "bool[a,b,1,3,5]", "y": "float[a,b,2,3,6]"},
    "keys not swapped": {"k": "float[b,2,4,5]", "key": "p = Identity(k)"},
    "heads and keys swapped": {
        "k": "float[b,5,4,2]",
        "key": "p = Transpose <perm = [0, 3, 2, 1]> (k)",
    },
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name: str) -> None:
    before = formula(**REFUSED[name])
    assert "Attention" not in types(optimize(before)), name


MARKED = (
    "mask of -infinity",
    "sum of a mask and -infinity",
    "infinite product",
    "mask of the caller",
)


@pytest.mark.parametrize("name", MARKED)
def test_rows_without_keys_are_marked(name: str) -> None:
    """Whatever a mask holds, the result is NaN where the formula is, if the heads are merged."""
    before = formula(**REFUSED[name])
    before.graph.output[0].CopyFrom(
        onnx.helper.make_tensor_value_info("z", onnx.TensorProto.FLOAT, ["b", 3, 2, 6])
    )
    before.graph.node.append(onnx.helper.make_node("Transpose", ["y"], ["z"], perm=[0, 2, 1, 3]))
    after = optimize(before)
    assert "Softmax" not in types(after)
    rng = np.random.default_rng(0)
    feeds = {
        name: rng.normal(size=(3, 2, *axes)).astype(np.float32)
        for name, axes in (("q", (3, 4)), ("k", (5, 4)), ("v", (5, 6)))
    }
    numbers: list[float] = [
        -np.inf,
        np.inf,
        np.nan,
        float(np.finfo(np.float32).min),
        float(np.finfo(np.float32).max),
        0.0,
    ]
    for whole, part in itertools.product(numbers, numbers):
        mask = rng.normal(size=(3, 1, 3, 5)).astype(np.float32)
        mask[0, :, 0], mask[1, :, 1, 2:] = whole, part
        mask[2, :, 2], mask[2, :, 2, 1] = whole, part
        given = mask if name == "mask of the caller" else np.isfinite(mask)
        expected = session(before).run(None, {**feeds, "m": given})[0]
        for level in LEVELS:
            actual = session(after, level).run(None, {**feeds, "m": given})[0]
            assert all(
                each.ok
                for each in compare_values("z", expected, actual, ComparisonRules("rounding"))
            ), (whole, part)


def test_the_formula_of_the_refusals_is_accepted() -> None:
    assert "Attention" in types(optimize(formula()))
    older = formula()
    older.opset_import[0].version = 22
    assert "Attention" not in types(optimize(older))


@pytest.mark.parametrize("dtype", ["double", "float16", "bfloat16"])
def test_other_types_are_left_alone(dtype: str) -> None:
    swapped = (
        "agraph (T[b,2,3,4] q, T[b,2,5,4] k, T[b,2,5,6] v) => (T[b,2,3,6] y) { "
        "p = Transpose <perm = [0, 1, 3, 2]> (k) "
    )
    text = f"{swapped} a = MatMul(q, p) w = Softmax(a) y = MatMul(w, v) }}".replace(
        "T[", f"{dtype}["
    )
    assert "Attention" not in types(optimize(parse(text, 23)))
    assert "Attention" in types(optimize(parse(text.replace(f"{dtype}[", "float["), 23)))


MASKS_OF_ALL_SHAPES = [
    "5",
    "1",
    "3,5",
    "1,5",
    "3,1",
    "2,3,5",
    "1,3,5",
    "2,1,5",
    "b,1,3,5",
    "1,1,1,1",
    "b,2,1,5",
    "1,2,3,1",
]


@pytest.mark.parametrize("opset", [23, 24])
@pytest.mark.parametrize("shape", MASKS_OF_ALL_SHAPES)
@pytest.mark.parametrize("low", ["-3.4028235e38", "-3e38", "-10", "20"])
def test_masks_that_broadcast(shape: str, low: str, opset: int) -> None:
    before = formula(m=f"bool[{shape}]", low=low)
    before.opset_import[0].version = opset
    after = optimize(before)
    assert "Attention" in types(after)
    assert "Softmax" not in types(after)
    rng = np.random.default_rng(0)
    for batch in (1, 3):
        feeds = {
            name: rng.normal(size=(batch, 2, *axes)).astype(np.float32)
            for name, axes in (("q", (3, 4)), ("k", (5, 4)), ("v", (5, 6)))
        }
        sizes = [batch if size == "b" else int(size) for size in shape.split(",")]
        for mask in (
            rng.random(size=sizes) < 0.4,
            np.zeros(sizes, dtype=bool),
            np.ones(sizes, dtype=bool),
        ):
            expected = session(before).run(None, {**feeds, "m": mask})[0]
            for level in LEVELS:
                actual = session(after, level).run(None, {**feeds, "m": mask})[0]
                assert all(
                    each.ok
                    for each in compare_values("y", expected, actual, ComparisonRules("rounding"))
                )
