"""The search for rewrites of mined forms."""

import pytest

from lab.discovery.search import Rule, is_known, searched, side_of


def found(*forms: str) -> dict[str, Rule]:
    given = [
        {"form": form, "nodes": form.count("("), "exclusive": 1, "models": 1} for form in forms
    ]
    return {str(rule.left): rule for rule in searched(given, 3)}


@pytest.mark.slow
def test_cheaper_expressions_that_compute_the_same() -> None:
    rules = found(
        "Sub(a, Neg(b))",
        "Where(IsNaN(a), 0, a)",
        "Exp(Log(a))",
        "t1 = Neg(a); Mul(t1, t1)",
        "Relu(a); Neg(a)",
    )
    assert {left: str(rule.right) for left, rule in rules.items()} == {
        "Sub(a, Neg(b))": "Add(a, b)",
        "Where(IsNaN(a), 0, a)": "a",
        "Mul(Neg(a), Neg(a))": "Mul(a, a)",
    }
    assert [rule.exactness for rule in rules.values()] == ["exact", "finite", "exact"]
    assert "int64" in rules["Sub(a, Neg(b))"].dtypes
    assert is_known(rules["Sub(a, Neg(b))"])
    assert not is_known(rules["Where(IsNaN(a), 0, a)"])
    rule = rules["Mul(Neg(a), Neg(a))"]
    shared = side_of(rule, rule.left, (2, 3, 4))
    assert [node.op_type for node in shared.graph.node] == ["Neg", "Mul"]
