"""Suggestions for unknown words."""

from xoptim.facts.words import LONGEST, counted, meant, similar, suggestion


def test_the_nearest_come_first_whatever_their_case() -> None:
    assert similar("matmul", ["MatMul", "Gemm", "MatMulAdd", "Mul"], most=2) == ["MatMul", "Mul"]


def test_words_that_are_not_similar() -> None:
    assert similar("x", ["Gemm"]) == []
    assert similar("G" * (LONGEST + 1), ["G" * LONGEST]) == []
    assert suggestion("x", ["Gemm"], "nothing is") == "nothing is"
    assert meant("x", ["Gemm"]) == ""


def test_the_end_of_a_message() -> None:
    assert meant("bacth", ["batch", "seq"]) == "; did you mean 'batch'?"
    assert suggestion("Gem", ["Gemm", "Geem"], "", most=2) == "did you mean 'Gemm' or 'Geem'?"


def test_numbers_of_things() -> None:
    assert [counted(count, "node") for count in (0, 1, 2)] == ["0 nodes", "1 node", "2 nodes"]
