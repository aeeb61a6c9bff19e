"""Answers for agents are short, and say what they leave out."""

from typing import Any

from xoptim.integrations.mcp_answers import summary_of


def _operator(name: str, error: float | str, *, is_quantized: bool) -> dict[str, Any]:
    return {"node": name, "error": error, "is_quantized": is_quantized}


def test_a_quantization_lists_the_operators_in_float32_that_err_most() -> None:
    operators = [_operator(f"q{n}", 0.1, is_quantized=True) for n in range(40)]
    operators += [_operator(f"f{n}", n / 100, is_quantized=False) for n in range(8)]
    operators.append(_operator("worst", "inf", is_quantized=False))
    found, note = summary_of("optimize", {"precision": {"error": 0.01, "operators": operators}})
    assert [each["node"] for each in found["precision"]["operators"]] == [
        "worst", "f7", "f6", "f5", "f4",
    ]  # fmt: skip
    assert found["precision"]["error"] == 0.01
    assert note == "44 operators that can be quantized are left out"


def test_an_explanation_lists_two_matches_and_each_reason_once() -> None:
    matches = [{"status": "matches", "reason": "", "others": [1]} for _ in range(5)]
    refusals = [{"status": "refused", "reason": f"reason {n % 2}", "others": []} for n in range(6)]
    found, note = summary_of("explain", {"explanations": [*matches, *refusals]})
    assert [each["status"] for each in found["explanations"]] == ["matches"] * 2 + ["refused"] * 2
    assert all(each["others"] == [] for each in found["explanations"])
    assert note == "7 more places are left out"
