import random
from collections.abc import Hashable
from itertools import chain, combinations

import pytest

from xoptim.patterns.movement._region import ALWAYS, NEVER, Term, cheapest, price

NODES = "abcdef"


def all_choices() -> list[set[Hashable]]:
    """All choices of nodes, smaller ones first."""
    return [
        set(c)
        for c in chain.from_iterable(combinations(NODES, size) for size in range(len(NODES) + 1))
    ]


@pytest.mark.parametrize("seed", range(60))
def test_no_choice_costs_less(seed: int) -> None:
    """All choices are tried; the one found is the smallest of the cheapest."""
    rng = random.Random(seed)

    def some() -> tuple[Hashable, ...]:
        return tuple(rng.sample(NODES, rng.randint(1, 3)))

    terms = [Term(rng.randint(1, 9), 1, some(), some()) for _ in range(6)]
    terms += [Term(rng.randint(1, 9), 1, (ALWAYS,), some()) for _ in range(3)]
    terms += [Term(rng.randint(1, 9), 1, some(), (NEVER,)) for _ in range(3)]
    costs = {frozenset(choice): price(terms, choice)[0] for choice in all_choices()}
    best = [choice for choice, cost in costs.items() if cost == min(costs.values())]
    assert cheapest(terms) == min(best, key=len) == frozenset.intersection(*best)


def test_a_cost_is_paid_across_the_border() -> None:
    terms = [
        Term(5, 1, (ALWAYS,), ("a",)),
        Term(3, 1, ("a",), ("b", "c")),
        Term(1, 0, ("b",), (NEVER,)),
    ]
    assert price(terms, set()) == (5, 1)
    assert price(terms, {"a"}) == (3, 1)
    assert price(terms, {"a", "b"}) == (4, 1)
    assert price(terms, {"a", "b", "c"}) == (1, 0)
    assert cheapest(terms) == {"a", "b", "c"}
    assert cheapest(terms[1:]) == set()
