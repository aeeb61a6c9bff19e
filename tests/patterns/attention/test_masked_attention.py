import pytest

from tests.patterns.attention.comparison import assert_same
from tests.patterns.attention.forms import FINITE_MASKS, HEADS
from tests.patterns.attention.models import Form, model_of
from tests.support import parse, types
from xoptim import optimize

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("mask", FINITE_MASKS)
@pytest.mark.parametrize(("queries", "scores"), [("plain", "multiplied"), ("root", "plain")])
@pytest.mark.parametrize("groups", [HEADS, 2])
def test_masks_that_replace_scores_or_results(
    queries: str, scores: str, mask: str, groups: int
) -> None:
    before = model_of(Form(queries, "swapped", scores, mask, groups))
    assert "Attention" not in types(optimize(before))
    after = optimize(before, patterns="default+MaskedAttention")
    assert "Softmax" not in types(after)
    assert_same(before, after)


@pytest.mark.parametrize("low", ["-1000", "0", "1e30", "inf", "nan"])
@pytest.mark.parametrize("form", ["Where(c, a, low)", "Where(c, low, a)"])
def test_numbers_in_place_of_scores_that_are_not_low(form: str, low: str) -> None:
    before = parse(
        "agraph (float[b,2,3,4] q, float[b,2,5,4] k, float[b,2,5,6] v, bool[b,1,3,5] c) "
        f"=> (float[b,2,3,6] y) <float low = {{{low}}}> {{ "
        f"p = Transpose <perm = [0, 1, 3, 2]> (k) a = MatMul(q, p) e = {form} "
        "w = Softmax <axis = -1> (e) y = MatMul(w, v) }",
        23,
    )
    assert "Attention" not in types(optimize(before, patterns="default+MaskedAttention"))
