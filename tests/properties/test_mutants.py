"""Examples of patterns with a few random changes: optimized with everything they stay what they
were.
"""

import logging
import random

import pytest

from tests.properties import mutants as m
from tests.properties.hunting import hunt
from tests.properties.mutants import Base, Change, Mutant, bases, mutant_of, mutants
from tests.properties.regressions import save
from tests.share import FOUNDATION, is_whole
from tests.support import in_parts, parse
from xoptim.testing.harness import invalid
from xoptim.testing.runtime import RUNTIME
from xoptim.testing.variant import serialized

MUTANTS, CHUNKS = (400, 8) if is_whole(*FOUNDATION) else (150, 5)
"""How many models, and in how many parts."""
MODEL = """agraph (float[n,4] x, float[n,4] z) => (float[n,2] y) <float[4,2]
  w = {1, 2, 3, 4, 5, 6, 7, 8}, float[2] b = {1, 2}>
    { a = Add(x, z) r = Relu(a) t = Softmax <axis = 1> (r) p = MatMul(t, w) y = Sub(p, b) }"""


@in_parts("chunk", CHUNKS)
@pytest.mark.filterwarnings("ignore")
def test_changed_examples_stay_what_they_are(chunk: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR)
    found = hunt(chunk, MUTANTS // CHUNKS, mutants())
    if found.failure is not None:
        pytest.fail(f"{found.fault}\nkept in {save(found.failure, found.fault)}", pytrace=False)
    assert found.graphs > MUTANTS // CHUNKS // 2
    assert found.not_run == 0, "each change leaves a model that runs"


@pytest.mark.parametrize("change", m._CHANGES, ids=lambda change: change.__name__.strip("_"))
def test_each_change_leaves_a_valid_model(change: Change) -> None:
    mutant = Mutant(Base("model", parse(MODEL)), random.Random(1))
    before = serialized(mutant.model)
    assert m._changed(mutant, change)
    assert serialized(mutant.model) != before
    assert invalid(mutant.model) == ""
    loaded = RUNTIME.load(mutant.model)
    assert not isinstance(loaded, str)
    runs = [RUNTIME.run(loaded, feeds) for feeds in mutant.feeds()]
    assert not isinstance(runs[0], str)


def test_an_initializer_that_may_be_overridden_is_overridden_in_some_runs() -> None:
    mutant = Mutant(Base("model", parse(MODEL)), random.Random(1))
    assert m._changed(mutant, m._overridable)
    (name,) = mutant.overrides
    assert [name in feeds for feeds in mutant.feeds()][:4] == [False, True, False, True]


def test_the_same_seeds_give_the_same_model() -> None:
    base = bases()[0]
    first, second = (mutant_of(base, (1, 2, 3)) for _ in range(2))
    assert first is not None
    assert second is not None
    assert serialized(first.model) == serialized(second.model) != serialized(base.model)
    assert first.measured
