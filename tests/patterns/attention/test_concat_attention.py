import pytest

from tests.patterns.attention.comparison import assert_same
from tests.patterns.attention.models import GROUPS, Form, model_of
from tests.support import types
from xoptim import optimize

pytestmark = pytest.mark.slow

MASKS = ("none", "lowest times", "lowest chosen")
SCALES = [("plain", "multiplied"), ("root", "plain")]


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize(("queries", "scores"), SCALES)
@pytest.mark.parametrize("packed", [True, False])
def test_earlier_keys_and_values(queries: str, scores: str, mask: str, packed: bool) -> None:
    before = model_of(Form(queries, "swapped", scores, mask, GROUPS, packed, past=True))
    after = optimize(before)
    found = types(after)
    assert found.count("Attention") == 1
    assert not {"Softmax", "Gather"} & set(found)
    assert found.count("Transpose") == (0 if packed else 3)
    assert_same(before, after, lengths=(1, 7), past=(0, 1, 30))
    attention = next(node for node in after.graph.node if node.op_type == "Attention")
    assert "past_key" in attention.input
