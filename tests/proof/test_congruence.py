"""Nodes that move in and out of branches, of values of unknown rank."""

from __future__ import annotations

from typing import Final

import onnx
import pytest

from tests.support import parse
from xoptim.proof.congruence import require_same_values
from xoptim.proof.indices import Unproved
from xoptim.proof.proving import prove_models

XC: Final = "(float[] x, int64[k] i, bool c, bool d) => (float[] y)"
TRUE: Final = "t = Constant <value = bool {1}> ()"


def _if(then: str, otherwise: str, condition: str = "c", name: str = "y") -> str:
    """An If whose branches compute ``p`` and ``q``, with the name of the result after them."""
    return (
        f"{name} = If ({condition}) <then_branch = t_{name} () => (float[] p_{name}) {{ {then} }}, "
        f"else_branch = e_{name} () => (float[] q_{name}) {{ {otherwise} }}>"
    )


IN_BOTH: Final = _if("a = Gather(x, i) p_y = Exp(a)", "b = Gather(x, i) q_y = Abs(b)")
INNER: Final = _if("p_u = Sin(x)", "q_u = Abs(x)", "d", "u")
CHANGED: Final = _if("s = Abs(x) p_u = Sin(x)", "q_u = Abs(x)", "d", "u")
PROVED: Final = (
    ("in both branches", IN_BOTH, "a = Gather(x, i) " + _if("p_y = Exp(a)", "q_y = Abs(a)")),
    ("out of no branch", "a = Gather(x, i) " + _if("p_y = Exp(a)", "q_y = Abs(a)"), IN_BOTH),
    (
        "a constant condition",
        f"{TRUE} {_if('a = Gather(x, i) p_y = Exp(a)', 'q_y = Abs(x)', 't')}",
        "b = Gather(x, i) y = Exp(b)",
    ),
    (
        "in both branches of an If in a branch",
        _if(
            _if("a = Neg(x) p_u = Exp(a)", "b = Neg(x) q_u = Abs(b)", "d", "u") + " p_y = Tanh(u)",
            "g = Neg(x) q_y = Sin(g)",
        ),
        "n = Neg(x) "
        + _if(_if("p_u = Exp(n)", "q_u = Abs(n)", "d", "u") + " p_y = Tanh(u)", "q_y = Sin(n)"),
    ),
    (
        "an If that runs anyway",
        _if("p_u = Gather(x, i)", "q_u = Neg(x)", "d", "u")
        + _if("a = Gather(x, i) p_w = Exp(a)", "q_w = Abs(x)", "d", "w")
        + " y = Add(u, w)",
        _if("p_u = Gather(x, i)", "q_u = Neg(x)", "d", "u")
        + _if("a = Gather(x, i) s = Gather(x, i) p_w = Exp(s)", "q_w = Abs(x)", "d", "w")
        + " y = Add(u, w)",
    ),
    (
        "an If in a branch that is never taken",
        f"{TRUE} " + _if("p_y = Exp(x)", INNER + " q_y = Neg(x)", "t"),
        f"{TRUE} " + _if("p_y = Exp(x)", CHANGED + " q_y = Neg(x)", "t"),
    ),
)
ONLY_RUN: Final = (
    (
        "in one branch only",
        _if("a = Gather(x, i) p_y = Exp(a)", "q_y = Abs(x)"),
        "a = Gather(x, i) " + _if("p_y = Exp(a)", "q_y = Abs(x)"),
        "Gather runs in the result only",
    ),
    (
        "in no branch of this side",
        _if("a = Gather(x, i) p_y = Exp(a)", "q_y = Abs(x)"),
        _if("a = Gather(x, i) p_y = Exp(a)", "b = Gather(x, i) q_y = Abs(x)"),
        "Gather runs in the result only",
    ),
    (
        "in both branches of an If in one branch",
        _if(
            _if("a = Neg(x) p_u = Exp(a)", "b = Neg(x) q_u = Abs(b)", "d", "u") + " p_y = Tanh(u)",
            "q_y = Sin(x)",
        ),
        "n = Neg(x) "
        + _if(_if("p_u = Exp(n)", "q_u = Abs(n)", "d", "u") + " p_y = Tanh(u)", "q_y = Sin(x)"),
        "Neg runs in the result only",
    ),
    ("branches in another order", IN_BOTH,
     "a = Gather(x, i) " + _if("p_y = Abs(a)", "q_y = Exp(a)"), "not found equal"),
    ("another condition", IN_BOTH,
     "a = Gather(x, i) " + _if("p_y = Exp(a)", "q_y = Abs(a)", "d"), "not found equal"),
    ("the other branch of a constant condition",
     f"{TRUE} {_if('p_y = Exp(x)', 'q_y = Abs(x)', 't')}", "y = Abs(x)", "not found equal"),
    ("another axis", IN_BOTH,
     "a = Gather <axis = 1> (x, i) " + _if("p_y = Exp(a)", "q_y = Abs(a)"), "not found equal"),
    (
        "a node that the original does not have in a branch that is never taken",
        f"{TRUE} {_if('p_y = Exp(x)', 'q_y = Abs(x)', 't')}",
        f"{TRUE} {_if('p_y = Exp(x)', 's = Sin(x) q_y = Abs(x)', 't')}",
        "Sin runs in the result only",
    ),
    (
        "random numbers",
        _if("a = RandomNormalLike(x) p_y = Exp(a)", "b = RandomNormalLike(x) q_y = Abs(b)"),
        "a = RandomNormalLike(x) " + _if("p_y = Exp(a)", "q_y = Abs(a)"),
        "may be random",
    ),
    (
        "a declared shape",
        IN_BOTH,
        "a = Gather(x, i) "
        + _if("p_y = Exp(a)", "q_y = Abs(a)").replace("float[] p_y", "float[2] p_y"),
        "declares other outputs",
    ),
    (
        "a name that is defined before",
        IN_BOTH,
        "a = Gather(x, i) p_y = Exp(a) " + _if("p_y = Exp(a)", "q_y = Abs(a)"),
        "defines again",
    ),
)  # fmt: skip


def _models(before: str, after: str) -> tuple[onnx.ModelProto, onnx.ModelProto]:
    first, second = (parse(f"g {XC} {{ {text} }}", 18) for text in (before, after))
    return first, second


@pytest.mark.parametrize(("name", "before", "after"), PROVED)
def test_moved_nodes(name: str, before: str, after: str) -> None:
    proof = prove_models(*_models(before, after))
    assert (proof.grade, proof.premises) == ("same bits", ("sizes from 0",)), name


@pytest.mark.parametrize(("name", "before", "after", "reason"), ONLY_RUN)
def test_other_nodes(name: str, before: str, after: str, reason: str) -> None:
    models = _models(before, after)
    with pytest.raises(Unproved, match=reason):
        require_same_values(*models)
    assert not prove_models(*models).is_proved, name


def test_inputs_have_to_be_the_same() -> None:
    first = parse("g (float[] x) => (float[] y) { y = Neg(x) }", 18)
    second = parse("g (float[] z) => (float[] y) { y = Neg(z) }", 18)
    with pytest.raises(Unproved, match="inputs"):
        require_same_values(first, second)
