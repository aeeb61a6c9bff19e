"""Guards are found and removed, and the wrong models that come of it are judged."""

import ast
from pathlib import Path

import pytest

from tests.mutation.guards import guards
from tests.mutation.proof import judge, search

SOURCE = """
class Pattern:
    constant_operands = ("a", "b")
    operand_ranks = {"a": 2, "b": 3}

    def match(self, x):
        if (y := x) > 3 or x < 0:
            return self.none(x, msg="no")
        if x == 1:
            return None
        if x == 2:
            return True
        return x and y
"""


def test_conditions_are_found() -> None:
    found = list(guards(ast.parse(SOURCE)))
    assert sorted(guard.text for guard in found) == sorted(
        ["(y := x) > 3", "x < 0", "x == 1", "x", "y", "'a'", "'b'", "'a'", "'b'"]
    )
    texts = [ast.unparse(guard.without) for guard in found]
    assert all(text != ast.unparse(ast.parse(SOURCE)) for text in texts)
    assert len(set(texts)) == len(texts)
    assert any("(y := x) > 3 and False or x < 0" in text for text in texts), "a condition that assigns a name still does"
    assert any("constant_operands = ('b',)" in text for text in texts)
    assert any("operand_ranks = {'b': 3}" in text for text in texts)


@pytest.mark.filterwarnings("ignore")
def test_wrong_models_are_kept_and_judged(tmp_path: Path) -> None:
    """A pattern whose guard is gone makes wrong models; the proof notices some, and another run judges the same ones."""
    search(tmp_path, 1, 0, "reduce_reshape$")
    kept = sorted(path.name for path in tmp_path.iterdir())
    assert "0.before.onnx" in kept
    assert "0.after.onnx" in kept
    verdicts = judge(tmp_path)
    assert verdicts.total() == len(kept) // 2
    assert set(verdicts) <= {"different", "equal", "not validated", "crash or no end"}
    assert judge(tmp_path) == verdicts
