from typing import Any

import numpy as np
import pytest

from tests.support import parse, run
from xoptim.proof.proving import Proof, prove_models

HIDDEN = 2
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
FLIPS = (
    "<int64[1] a = {-1}, int64[1] e = {-9223372036854775807}, int64[1] z = {0}, "
    "int64[1] o = {1}, int64[3] d = {1, 3, 2}, int32[3] lens = {2, 4, 3}>"
)


def _sides(name: str, before: str, after: str, directions: int = 1) -> tuple[Any, Any]:
    gates = GATES[name] * HIDDEN
    signature = (
        f"(float[4,3,5] x, float[{directions},{gates},5] w, float[{directions},{gates},2] r, "
        f"float[{directions},3,2] h) => (float[A,B,C,D] y) {FLIPS}"
    )
    texts = (text.replace("OP", name) for text in (before, after))
    first, second = (parse(f"g {signature} {{ {text} }}", 18) for text in texts)
    return first, second


def _proof(name: str, before: str, after: str, directions: int = 1) -> Proof:
    return prove_models(*_sides(name, before, after, directions))


def _results(name: str, before: str, after: str, directions: int = 1) -> list[Any]:
    random = np.random.default_rng(0)
    shapes = {
        "x": (4, 3, 5),
        "w": (directions, GATES[name] * HIDDEN, 5),
        "r": (directions, GATES[name] * HIDDEN, 2),
        "h": (directions, 3, 2),
    }
    feeds = {key: random.normal(size=shape).astype(np.float32) for key, shape in shapes.items()}
    return [run(side, feeds)[0] for side in _sides(name, before, after, directions)]


def _flipped(node: str) -> str:
    return f"f = Slice(x, a, e, z, a) p = {node} y = Slice(p, a, e, z, a)"


PLAIN = "OP <hidden_size = 2> (x, w, r)"
REVERSE = 'OP <hidden_size = 2, direction = "reverse"> (x, w, r)'
EQUAL = (
    (f"y = {REVERSE}", _flipped("OP <hidden_size = 2> (f, w, r)"), "over real numbers"),
    (f"y = {PLAIN}", _flipped(REVERSE.replace("(x", "(f")), "over real numbers"),
    (
        f"y = {PLAIN}",
        "s = ConstantOfShape(d) y = OP <hidden_size = 2> (x, w, r, , , s)",
        "same bits",
    ),
)
DIFFERENT = (
    (f"y = {REVERSE}", f"y = {PLAIN}"),
    (f"y = {REVERSE}", f"p = {PLAIN} y = Slice(p, a, e, z, a)"),
    (f"y = {PLAIN}", "y = OP <hidden_size = 2> (x, w, r, , , h)"),
    (
        'y = OP <hidden_size = 2, direction = "reverse"> (x, w, r, , lens)',
        _flipped("OP <hidden_size = 2> (f, w, r, , lens)"),
    ),
    (
        f"y = {PLAIN}",
        "s = ConstantOfShape <value = float[1] {1.0}> (d) y = OP <hidden_size = 2> "
        "(x, w, r, , , s)",
    ),
)


@pytest.mark.parametrize("name", GATES)
@pytest.mark.parametrize(("before", "after", "grade"), EQUAL)
def test_equal(name: str, before: str, after: str, grade: str) -> None:
    if name == "LSTM":
        after = after.replace(", , , s)", ", , , s, s)")
    assert _proof(name, before, after).grade == grade
    first, second = _results(name, before, after)
    np.testing.assert_allclose(first, second, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", GATES)
@pytest.mark.parametrize(("before", "after"), DIFFERENT)
def test_different(name: str, before: str, after: str) -> None:
    assert _proof(name, before, before).is_proved
    assert _proof(name, after, after).is_proved
    assert not _proof(name, before, after).is_proved
    first, second = _results(name, before, after)
    assert not np.allclose(first, second)


@pytest.mark.parametrize("name", GATES)
def test_both_directions(name: str) -> None:
    """The halves of a bidirectional operator are not swapped by a reversal."""
    both = 'OP <hidden_size = 2, direction = "bidirectional"> (x, w, r)'
    pair = f"y = {both}", _flipped(both.replace("(x", "(f"))
    assert _proof(name, pair[0], pair[0], 2).is_proved
    assert not _proof(name, *pair, 2).is_proved
    first, second = _results(name, *pair, 2)
    assert not np.allclose(first, second)
