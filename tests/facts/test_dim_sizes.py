"""Expressions stay small under all operations, and so do verifications over them."""

import gc
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings

from tests.facts.test_dims import EXPRESSIONS, POINTS, Tree, _dim, _number
from xoptim.facts import dim_bounds, symbolic
from xoptim.facts.dims import (
    MOST_OPERANDS,
    Dim,
    SymbolicDim,
    as_integer,
    bounds,
    broadcast,
    ceil_div,
    dim_max,
    dim_min,
    evaluate,
    floor_div,
    fresh,
    mod,
    named,
)
from xoptim.facts.polynomials import degree

pytestmark = pytest.mark.slow

S, K = named("s"), named("k")

GROWING: dict[str, Callable[[Dim, int], Dim]] = {
    "squares": lambda x, _: x * x,
    "doubled": lambda x, _: x + x,
    "different sums": lambda x, i: x + named(f"a{i}"),
    "different products": lambda x, i: x * (named(f"a{i}") + 1),
    "differences": lambda x, i: named(f"a{i}") * x - x,
    "remainders": lambda x, i: mod(x, i + 2) * x,
    "symbolic remainders": lambda x, _: mod(x, K + 1) * x,
    "quotients": lambda x, i: x // (i + 2) + x,
    "symbolic quotients": lambda x, _: floor_div(x, K) + x,
    "rounded up": lambda x, i: ceil_div(x + named(f"a{i % 3}"), 3) + dim_min(x, K),
    "maxima": lambda x, i: dim_max(x, named(f"a{i}")),
    "nested maxima": lambda x, i: dim_max(dim_min(x, named(f"a{i}")) + x, K * x),
    "tails": lambda x, i: dim_max(x - dim_max(x - i, 0), 0) + dim_min(x, 5),
    "broadcast": lambda x, i: broadcast(x, named(f"a{i}")),
    "broadcast products": lambda x, _: broadcast(x, S) * S,
    "integers": lambda x, i: as_integer(x * x + i, 64) + as_integer(x, 32),
    "coefficients": lambda x, _: x * 10**9,
}


def _sizes(dim: Dim) -> tuple[int, int, int, int]:
    """Terms, degree, weight and depth."""
    if not isinstance(dim, SymbolicDim):
        return 0, 0, 0, 0
    return len(dim.terms), max(degree(monomial) for monomial, _ in dim.terms), dim.weight, dim.depth


@pytest.mark.parametrize("grow", GROWING.values(), ids=GROWING.keys())
def test_expressions_stay_small(grow: Callable[[Dim, int], Dim]) -> None:
    dim: Dim = S
    for index in range(150):
        dim = grow(dim, index)
        terms, power, weight, depth = _sizes(dim)
        assert terms <= symbolic.MOST_TERMS
        assert power <= symbolic.MOST_DEGREE
        assert weight <= symbolic.MOST_WEIGHT
        assert depth <= symbolic.MOST_DEPTH + 1
        assert len(str(dim)) < 100 * symbolic.MOST_WEIGHT
        assert all(bound is None or bound.bit_length() < 10000 for bound in bounds(dim))


@pytest.mark.parametrize("grow", GROWING.values(), ids=GROWING.keys())
def test_the_same_operations_give_the_same_dimension(grow: Callable[[Dim, int], Dim]) -> None:
    first, second = S, S
    dims: list[Dim] = []  # dimensions without a reference may be freed
    for index in range(60):
        dims.append(first)
        first, second = grow(first, index), grow(second, index)  # type: ignore[assignment]
        assert first is second


def test_extremes_and_broadcasting_have_few_operands() -> None:
    sizes = [named(f"a{index}") for index in range(400)]
    for rule in (dim_max, dim_min, lambda *dims: broadcast(broadcast(*dims[:2]), dims[2])):
        whole = rule(*sizes)
        assert isinstance(whole, SymbolicDim)
        assert whole.atom is not None
        assert len(whole.atom.args) <= MOST_OPERANDS
    assert dim_max(*sizes) is dim_max(*reversed(sizes))


def test_a_proof_ends_after_so_many_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = 0
    interval = dim_bounds._interval_low

    def counted(*args: Any) -> int | None:
        nonlocal steps
        steps += 1
        return interval(*args)

    monkeypatch.setattr(dim_bounds, "_interval_low", counted)
    parts = [dim_min(named(f"a{i}"), named(f"b{i}"), named(f"c{i}")) for i in range(12)]
    difference = sum(parts, start=K) - sum(dim_max(part, S) for part in parts)
    assert isinstance(difference, SymbolicDim)
    steps = 0
    assert bounds(difference)[0] is not None
    # The step that exhausts the budget may still look at the operands of the operations that it is
    # inside of.
    assert steps <= 3 * dim_bounds.DEDUCTION_STEPS


def test_an_opaque_symbol_is_known_by_its_operation() -> None:
    def long(*prefixes: str) -> Dim:
        total: Dim = 0
        for prefix in prefixes:
            total = total + sum(
                (named(f"{prefix}{i}") for i in range(symbolic.MOST_TERMS - 2)), start=K * 0
            )
        return total

    whole = long("p", "q")
    assert isinstance(whole, SymbolicDim)
    assert whole.is_anonymous
    assert str(whole).count("?_") == 1
    assert whole is long("p", "q")
    assert whole is not long("q", "p", "p")
    assert bounds(whole) == (0, 2 * (symbolic.MOST_TERMS - 2) * symbolic.LARGEST_SIZE)
    with pytest.raises(KeyError):
        evaluate(whole, {name: 1 for name in whole.symbols if not name.startswith("?")})


@settings(max_examples=150, deadline=None)
@given(EXPRESSIONS)
def test_an_opaque_symbol_stands_for_one_number_within_its_bounds(tree: Tree) -> None:
    seen: dict[tuple[str, int], int] = {}

    def visit(node: Tree) -> None:
        dim = _dim(node)
        low, high = bounds(dim)
        atom = dim.atom if isinstance(dim, SymbolicDim) else None
        for index, point in enumerate(POINTS[::5]):
            number = _number(node, point)
            assert low is None or low <= number
            assert high is None or number <= high
            if atom is not None and atom.kind == "opaque":
                assert seen.setdefault((atom.name, index), number) == number
        if isinstance(node, tuple):
            for child in node[1:]:
                visit(child)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(symbolic, "MOST_TERMS", 2)
        patch.setattr(symbolic, "MOST_WEIGHT", 8)
        patch.setattr(symbolic, "MOST_DEPTH", 1)
        patch.setattr(symbolic, "MOST_DEGREE", 2)
        gc.collect()  # nothing is found that was made with other limits
        visit(tree)


_PROGRAM = """
import sys
from xoptim.facts.dims import *
for i in range(int(sys.argv[1])):
    fresh()
    named(f"z{i}") * named("b") % 7
a = [named(f"{c}{i}") for i in range(9) for c in "zxyw"]
x, y = fresh(), fresh()
total, mixed = a[0], x
for i, dim in enumerate(a):
    total = total * (dim + 1) + i
    mixed = mixed * (dim + y) + i
text = str(x * total + total * y).replace(str(x), "X").replace(str(y), "Y")
print([str(total), (mixed - total).order > (total * x).order, str(dim_max(*a)), text])
"""


@pytest.mark.slow
def test_symbols_and_their_order_do_not_depend_on_what_the_process_did_before() -> None:
    texts = {
        subprocess.run(
            [sys.executable, "-c", _PROGRAM, count],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed, count in (("1", "0"), ("77", "9"), ("5", "99"))
    }
    assert len(texts) == 1
    assert "?_" in texts.pop()


def test_nothing_is_kept_of_a_long_chain() -> None:
    gc.collect()
    before = len(symbolic.ATOMS.entries), len(symbolic.DIMS.entries)
    dim: Dim = fresh()
    chain = [dim]
    for index in range(3000):
        dim = dim * dim + named(f"chain{index}") // 3
        chain.append(dim)
    assert len(symbolic.ATOMS.entries) < before[0] + 20000
    chain.clear()
    del dim
    gc.collect()
    assert (len(symbolic.ATOMS.entries), len(symbolic.DIMS.entries)) <= before
