"""Weights that are stored in fewer bits."""

import numpy as np
import pytest

from tests.support import parse
from xoptim import optimize
from xoptim.match import GraphView
from xoptim.patterns._folding import constant


@pytest.mark.parametrize("pattern", ["Float16Weights", "Int8Weights"])
def test_weights_that_are_stored_so_are_not_computed(
    pattern: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In floats they may be larger than the memory."""
    numbers = ", ".join(map(str, range(1024)))
    model = parse(f"""agraph (float[n,32] x) => (float[n,32] y)
        <float16[32,32] w = {{{numbers}}}, float[32,32] v = {{{numbers}}}>
        {{ d = Cast <to = 1> (w) z = MatMul(x, d) y = MatMul(z, v) }}""")
    asked = list[str]()

    def noted(g: GraphView, name: str) -> np.ndarray:
        asked.append(name)
        return constant(g, name)

    monkeypatch.setattr("xoptim.patterns.precision.stored_weights.constant", noted)
    optimize(model, patterns=pattern, constant_folding=False)
    assert {*asked} == {"v"}
