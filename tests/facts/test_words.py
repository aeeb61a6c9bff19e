"""Suggestions for unknown words."""

import pytest

from xoptim.facts import words
from xoptim.facts.words import MAX_LENGTH, counted, listed, meant, shortened, similar, suggestion


def test_the_nearest_come_first_whatever_their_case() -> None:
    assert similar("matmul", ["MatMul", "Gemm", "MatMulAdd", "Mul"], most=2) == ["MatMul", "Mul"]


def test_words_that_are_not_similar() -> None:
    assert similar("x", ["Gemm"]) == []
    assert similar("G" * (MAX_LENGTH + 1), ["G" * MAX_LENGTH]) == []
    assert suggestion("x", ["Gemm"], "nothing is") == "nothing is"
    assert meant("x", ["Gemm"]) == ""


def test_very_many_known_words_are_not_all_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """The work is bounded, and a word with one wrong letter is found all the same."""
    compared: list[str] = []
    distance = words._distance

    def counting(a: str, b: str) -> int:
        compared.append(b)
        return distance(a, b)

    monkeypatch.setattr(words, "_distance", counting)
    known = [
        f"/encoder/layers.{number:05}/attention/self/MatMul_output_0" for number in range(100_000)
    ]
    wrong = known[70_707].replace("/self", "/sefl")
    assert similar(wrong, known) == [known[70_707]]
    assert len(compared) * len(wrong) ** 2 <= words._MAX_COMPARISONS


def test_long_known_words_are_not_read() -> None:
    long = "G" * 100_000
    assert similar("Gem", [long, "Gemm"], most=2) == ["Gemm"]
    assert similar(long, [long]) == []
    assert len(suggestion(long, [long] * 1000, "nothing is")) < 100
    assert shortened(long) == f"{long[:MAX_LENGTH]}..."


def test_the_end_of_a_message() -> None:
    assert meant("bacth", ["batch", "seq"]) == "; did you mean 'batch'?"
    assert suggestion("Gem", ["Gemm", "Geem"], "", most=2) == "did you mean 'Gemm' or 'Geem'?"
    assert suggestion("Gem", ["Gemm"], "no", one_of=4) == "no"
    assert suggestion("Gemmm", ["Gemm"], "no", one_of=4) == "did you mean 'Gemm'?"


def test_lists_of_names() -> None:
    assert listed([]) == "none"
    assert listed(["a", "b"]) == "a, b"
    many = [f"x{number}" for number in range(1234)]
    assert listed(many) == f"{', '.join(many[:20])}, ... (1,214 more)"


def test_numbers_of_things() -> None:
    assert [counted(count, "node") for count in (0, 1, 2)] == ["0 nodes", "1 node", "2 nodes"]
