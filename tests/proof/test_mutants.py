"""Changes of applied rewrites: none is proved to have the same bits, unless it has them."""

from __future__ import annotations

import logging
import warnings
from typing import Final

import pytest
from onnx import helper

from tests.proof.mutants import Pair, compared, drawn
from tests.share import shared_parts
from tests.support import parse

COUNT: Final = 1000
PARTS: Final = 50
STEP: Final = 25
FOLDERS: Final = ("xoptim/proof",)


@pytest.mark.slow
@pytest.mark.parametrize("part", shared_parts(PARTS, STEP, *FOLDERS))
def test_changes_are_not_proved(part: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    warnings.simplefilter("ignore")
    size = COUNT // PARTS
    pairs = [pair for k in range(part * size, (part + 1) * size) if (pair := drawn(k)) is not None]
    assert len(pairs) > size // 2
    for pair in pairs:
        proof = pair.proof()
        runs = compared(pair, smallest_size=proof.smallest_size) if proof.is_proved else None
        if runs is not None:
            assert runs.runs, pair.name
            assert runs.is_close, f"{pair.name}: {proof.grade}"
            assert runs.has_equal_bits or proof.grade != "same bits", pair.name


def test_the_same_number_gives_the_same_change() -> None:
    first, second = (drawn(3) for _ in range(2))
    assert first is not None
    assert second is not None
    assert first.mutant == second.mutant
    assert first.mutant != first.before


@pytest.mark.parametrize(
    ("after", "has_equal_bits", "is_close"),
    [
        ("y = Add(x, x)", True, True),
        ("y = Mul(x, two)", True, True),
        ("a = Mul(x, x) b = Sub(a, a) d = Add(x, x) y = Add(d, b)", False, True),
        ("y = Mul(x, other)", False, False),
    ],
)
def test_runs_tell_special_values_from_others(
    after: str, has_equal_bits: bool, is_close: bool
) -> None:
    text = "g (float[n] x) => (float[n] y) <float two = {2}, float other = {2.01}>"
    pair = Pair("pair", *(parse(f"{text} {{ {nodes} }}") for nodes in ("y = Add(x, x)", after)))
    runs = compared(pair)
    assert runs.runs > 4
    assert (runs.has_equal_bits, runs.is_close) == (has_equal_bits, is_close)


def test_models_that_do_not_run() -> None:
    model = parse("g (float[n] x) => (float[n] y) { y = Neg(x) }")
    broken = parse("g (float[n] x) => (float[n] y) { y = Neg(x) }")
    broken.graph.node.append(helper.make_node("Unknown", ["x"], ["z"]))
    assert compared(Pair("pair", model, broken)).runs == 0
