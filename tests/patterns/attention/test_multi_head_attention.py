import pytest

from tests.patterns.attention.comparison import assert_same
from tests.patterns.attention.forms import KEYS
from tests.patterns.attention.models import Form, model_of
from tests.support import types
from xoptim import optimize

pytestmark = pytest.mark.slow

SCALES = [
    ("plain", "plain"),
    ("multiplied", "plain"),
    ("root", "plain"),
    ("plain", "divided"),
    ("root", "multiplied"),
]


@pytest.mark.parametrize("opset", [15, 18, 22])
@pytest.mark.parametrize("keys", KEYS)
@pytest.mark.parametrize(("queries", "scores"), SCALES)
def test_attention_without_a_mask(queries: str, scores: str, keys: str, opset: int) -> None:
    before = model_of(Form(queries, keys, scores), opset)
    after = optimize(before, patterns="default+onnxruntime")
    assert set(types(after)) == {"MatMul", "MultiHeadAttention"}
    assert_same(before, after)


@pytest.mark.parametrize(
    "form",
    [Form(mask="scores replaced"), Form(scores="capped"), Form(groups=2), Form(packed=False)],
)
def test_other_forms_are_left_alone(form: Form) -> None:
    assert "MultiHeadAttention" not in types(
        optimize(model_of(form, 18), patterns="default+onnxruntime")
    )


def test_the_standard_operator_comes_first() -> None:
    assert "MultiHeadAttention" not in types(
        optimize(model_of(Form(), 23), patterns="default+onnxruntime")
    )
