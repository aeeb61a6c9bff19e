import pytest

from xoptim import Rewrite, installed_patterns
from xoptim.testing import check_pattern
from xoptim.testing.proofs import require_grade


def _pattern(name: str) -> type[Rewrite]:
    return installed_patterns()[name]


def test_a_pattern_may_state_its_grade() -> None:
    cls = _pattern("TransposeTranspose")
    require_grade(cls, cls.examples[0], "same bits")
    require_grade(cls, cls.examples[0], "over real numbers")
    folded = _pattern("MatMulAddMul")
    require_grade(folded, folded.examples[0], "over real numbers, constants folded")
    with pytest.raises(AssertionError, match="'same bits': over real numbers, constants folded"):
        require_grade(folded, folded.examples[0], "same bits")
    with pytest.raises(ValueError, match="not 'proved'"):
        require_grade(cls, cls.examples[0], "proved")  # type: ignore[arg-type]


@pytest.mark.slow
def test_check_pattern_requires_the_grade() -> None:
    assert check_pattern(_pattern("TransposeTranspose"), grade="same bits")["tried"]
    with pytest.raises(AssertionError, match="'same bits'"):
        check_pattern(_pattern("MatMulAddMul"), grade="same bits")
