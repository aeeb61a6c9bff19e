"""Branches that copy values, and that compute one value twice."""

import numpy as np
import pytest

import xoptim
from tests.support import parse, run, types

_X = np.array([1, 2, 3], np.float32)


@pytest.mark.parametrize(
    ("branch", "found"),
    [
        ("k{n} = Identity(x) t{n} = Exp(k{n})", ["Exp", "If"]),
        ("k{n} = Exp(x) l{n} = Identity(k{n}) t{n} = Sin(l{n})", ["Exp", "Sin", "If"]),
        (
            "k{n} = Exp(x) l{n} = Exp(x) m{n} = Sin(l{n}) t{n} = Add(m{n}, k{n})",
            ["Exp", "Sin", "Add", "If"],
        ),
        (
            "k{n} = Constant <value = float[1] {{2}}> () l{n} = Identity(k{n}) t{n} = Mul(x, l{n})",
            ["Mul", "If"],
        ),
    ],
)
@pytest.mark.parametrize("cleaned", [False, True])
def test_operands_that_are_copies(branch: str, found: list[str], cleaned: bool) -> None:
    first, second = (branch.format(n=n) for n in (1, 2))
    model = parse(
        "agraph (float[3] x, bool c) => (float[3] y) { y = If(c) < "
        f"then_branch = yes () => (float[3] p) {{ {first} p = Relu(t1) }}, "
        f"else_branch = no () => (float[3] q) {{ {second} q = Neg(t2) }}> }}"
    )
    after = xoptim.optimize(
        model,
        patterns=["IfCommon"],
        strict=True,
        remove_identity=cleaned,
        merge=cleaned,
        constant_folding=cleaned,
    )
    assert [op_type for op_type in types(after) if op_type not in ("Identity", "Constant")] == found
    for flag in (False, True):
        feeds = {"x": _X, "c": np.array(flag)}
        np.testing.assert_array_equal(run(model, feeds), run(after, feeds))
