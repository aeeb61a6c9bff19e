import copy
import gc
import itertools
import os
import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sympy
from hypothesis import assume, given, settings, strategies as st

from xoptim.facts import symbolic
from xoptim.facts.dims import (
    LARGEST_SIZE,
    Dim,
    SymbolicDim,
    broadcast,
    ceil_div,
    dim_max,
    dim_min,
    evaluate,
    exact_quotient,
    floor_div,
    fresh,
    lower_bound,
    mod,
    multiplied_out,
    named,
    product,
    substitute,
    upper_bound,
)

NAMES = ("a", "b", "c")
SYMBOLS = {name: sympy.Symbol(name, integer=True, nonnegative=True) for name in NAMES}
POINTS = [
    dict(zip(NAMES, values, strict=True)) for values in itertools.product((0, 1, 2, 5, 9), repeat=3)
]

Tree = tuple[Any, ...] | int | str


def _trees(operations: tuple[str, ...]) -> st.SearchStrategy[Tree]:
    leaf: st.SearchStrategy[Tree] = st.one_of(st.integers(-6, 6), st.sampled_from(NAMES))

    def grow(children: st.SearchStrategy[Tree]) -> st.SearchStrategy[Tree]:
        positive = st.sampled_from(NAMES).map(lambda name: ("+", name, 1))
        divisors: st.SearchStrategy[Tree] = st.one_of(
            st.integers(1, 6), st.integers(-3, -1), positive
        )
        plain = [operation for operation in operations if operation not in ("//", "%", "ceil")]
        divided = [operation for operation in operations if operation in ("//", "%", "ceil")]
        options: list[st.SearchStrategy[Tree]] = [
            st.tuples(st.sampled_from(plain), children, children)
        ]
        if divided:
            options.append(st.tuples(st.sampled_from(divided), children, divisors))
        return st.one_of(options)

    return st.recursive(leaf, grow, max_leaves=16)


POLYNOMIALS = _trees(("+", "-", "*"))
EXPRESSIONS = _trees(("+", "-", "*", "max", "min", "//", "%", "ceil"))


def _dim(tree: Tree) -> Dim:
    if isinstance(tree, int):
        return tree
    if isinstance(tree, str):
        return named(tree)
    operation, left, right = tree[0], _dim(tree[1]), _dim(tree[2])
    rules: dict[str, Callable[[Dim, Dim], Dim]] = {
        "max": dim_max,
        "min": dim_min,
        "ceil": ceil_div,
        "//": floor_div,
        "%": mod,
    }
    if operation in rules:
        return rules[operation](left, right)
    return left + right if operation == "+" else left - right if operation == "-" else left * right


def _followed(*dims: Dim) -> tuple[Dim, ...]:
    """The dimensions, of examples in which none is too large to be followed."""
    assume(not any(isinstance(dim, SymbolicDim) and dim.is_anonymous for dim in dims))
    return dims


def _number(tree: Tree, point: dict[str, int]) -> int:
    if isinstance(tree, int):
        return tree
    if isinstance(tree, str):
        return point[tree]
    left, right = _number(tree[1], point), _number(tree[2], point)
    return {
        "+": lambda: left + right,
        "-": lambda: left - right,
        "*": lambda: left * right,
        "max": lambda: max(left, right),
        "min": lambda: min(left, right),
        "//": lambda: left // right,
        "%": lambda: left % right,
        "ceil": lambda: -(-left // right),
    }[tree[0]]()


def _sympy(text: str) -> Any:
    names = {**SYMBOLS, "max": sympy.Max, "min": sympy.Min}
    return eval(text, {"__builtins__": {}}, names)


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(EXPRESSIONS)
def test_an_expression_is_worth_what_it_says_at_every_point(tree: Tree) -> None:
    (dim,) = _followed(_dim(tree))
    low, high = lower_bound(dim), upper_bound(dim)
    for point in POINTS[::3]:
        expected = _number(tree, point)
        assert evaluate(dim, point) == expected
        assert low is None or low <= expected
        assert high is None or expected <= high


@settings(max_examples=150, deadline=None)
@given(EXPRESSIONS, st.sampled_from(POINTS))
def test_the_text_is_the_expression(tree: Tree, point: dict[str, int]) -> None:
    scope = {"__builtins__": {}, "max": max, "min": min, **point}
    (dim,) = _followed(_dim(tree))
    assert eval(str(dim), scope) == _number(tree, point)


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(POLYNOMIALS, POLYNOMIALS)
def test_polynomials_are_one_object_exactly_when_sympy_proves_them_equal(
    left: Tree, right: Tree
) -> None:
    first, second, *_ = _followed(_dim(left), _dim(right), _dim(("+", left, right)))
    assert sympy.expand(_sympy(str(first)) - _sympy(str(second))) == 0 if first == second else True
    difference = first - second
    assert (
        (sympy.expand(_sympy(f"({first}) - ({second})")) == 0)
        == (difference == 0)
        == (first == second)
    )
    assert _dim(("-", ("+", left, right), right)) == first
    assert _dim(("*", left, right)) == _dim(("*", right, left))


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(POLYNOMIALS, POLYNOMIALS)
def test_exact_quotient_inverts_multiplication(left: Tree, right: Tree) -> None:
    a, b, _ = _followed(_dim(left), _dim(right), _dim(("*", left, right)))
    if b != 0:
        assert exact_quotient(a * b, b) == a
    quotient = exact_quotient(a, b)
    assert quotient is None or quotient * b == a


@settings(max_examples=150, deadline=None)
@given(EXPRESSIONS, EXPRESSIONS, st.sampled_from(POINTS))
def test_substitution_commutes_with_evaluation(
    tree: Tree, inner: Tree, point: dict[str, int]
) -> None:
    (replaced,) = _followed(substitute(_dim(tree), {"a": dim_max(_dim(inner), 0)}))
    value = max(_number(inner, point), 0)
    assert evaluate(replaced, point) == _number(tree, {**point, "a": value})


def test_equal_polynomials_are_the_same_object_whatever_the_order() -> None:
    a, b, c = map(named, NAMES)
    first = a + b * 2 + c * c + 3
    assert 3 + c * c + 2 * b + a is first
    assert b + (a + 3) + b + c * c is first
    assert (a + b) * (a - b) is a * a - b * b
    assert named("a") is a
    assert a - a == 0
    assert type(a - a) is int
    assert a * 0 == 0
    assert a + np.int64(2) is a + 2  # type: ignore[operator]
    assert {a + b: 1}[b + a] == 1
    assert copy.deepcopy(a) is a is copy.copy(a)
    with pytest.raises(TypeError):
        pickle.dumps(a)
    with pytest.raises(TypeError):
        a < b  # type: ignore[operator]  # noqa: B015


def test_text() -> None:
    batch, seq = named("batch"), named("seq")
    assert str(batch * seq + 2) == "batch*seq + 2"
    assert str((seq + 1) // 2) == "(seq + 1)//2"
    assert str(2 * ((seq + 1) // 2) - batch * batch) == "-batch**2 + 2*((seq + 1)//2)"
    assert str(dim_max(batch, seq, 3)) == "max(batch, seq, 3)"
    assert str(seq // (2 * batch)) == "seq//(2*batch)"
    assert str((seq % 2) * batch) == "batch*(seq%2)"
    assert str(broadcast(seq, batch)) == "broadcast(batch, seq)"
    assert str(3 - seq) == "-seq + 3"


def test_division() -> None:
    n, m = named("n"), named("m")
    assert (4 * n) // 2 is 2 * n
    assert (4 * n + 6) // 2 is 2 * n + 3
    assert ((n + 1) // 2 + 1) // 2 is (n + 3) // 4
    assert (3 * n + 5) // 2 is n + 2 + (n + 1) // 2
    assert mod(4 * n, 2) == 0
    assert mod(2 * n + 1, 4) is 2 * mod(n, 2) + 1
    assert mod(n, 4) // 4 == 0
    assert mod(mod(n, 4), 4) is mod(n, 4)
    assert ceil_div(4 * n, 4) is n
    assert (n * m) // m is not n
    assert (n * (m + 1)) // (m + 1) is n
    assert mod(n * (m + 1), m + 1) == 0
    assert n // (n + 1) == 0
    assert mod(n, n + 1) is n
    assert 0 // (m + 1) == 0
    assert evaluate(ceil_div(n, m + 1), {"n": 7, "m": 1}) == 4
    assert exact_quotient(16 * n * m, 16 * m) is n
    assert exact_quotient(n, 2) is None
    assert exact_quotient(n, 0) is None
    assert exact_quotient(0, n) == 0
    assert exact_quotient(12, 4) == 3
    with pytest.raises(ZeroDivisionError):
        n // 0
    with pytest.raises(ZeroDivisionError):
        n % 0
    with pytest.raises(ZeroDivisionError):
        evaluate(n // m, {"n": 3, "m": 0})


def test_sizes_padded_to_whole_windows() -> None:
    n, m, b = named("n"), named("m"), named("b")
    padded, other = n + mod(-n, 8), m + mod(8 - mod(m, 8), 8)
    assert mod(padded, 8) == mod(other, 4) == 0
    assert mod(n + mod(-n, 12), 8) != 0
    assert multiplied_out(8 * (padded // 8)) is padded
    assert multiplied_out(16 * b * (padded // 8)) is 2 * b * padded
    for size in (4 * (padded // 8), 8 * (n // 8), 64 * (padded // 8) * (other // 8), padded, b, 3):
        assert multiplied_out(size) is size
    assert exact_quotient(b * padded * 64, 8 * (padded // 8)) is 64 * b
    assert exact_quotient(b * padded, 16 * (padded // 8)) is None
    assert exact_quotient(b * n, n // 8) is None
    for size in range(40):
        quotient = exact_quotient(padded * 24, padded // 8 * 3)
        assert quotient == 64
        assert (
            evaluate(padded, {"n": size})
            == 8 * evaluate(padded // 8, {"n": size})
            == -(-size // 8) * 8
        )


def test_extremes() -> None:
    n, m = named("n"), named("m")
    assert dim_max(n, n + 1) is n + 1
    assert dim_min(n, n + 1, n + 7) is n
    assert dim_max(n, -2) is n
    assert dim_min(n, 0) == 0
    assert dim_max(3, dim_max(n, 5), dim_max(m, n)) is dim_max(n, m, 5)
    assert dim_min(n, dim_max(n, m)) is n
    assert dim_max(2, 7) == 7
    assert lower_bound(n - dim_min(n, 5)) == 0
    assert upper_bound(dim_min(n, 5) * 2) == 10
    assert lower_bound(n - n // 2) == 0
    assert lower_bound(2 * n - 3 * (n // 2)) == 0
    assert lower_bound(dim_max(n, 3) - 1) == 2
    assert lower_bound(n * m + 4) == 4
    assert lower_bound(n - m) == -LARGEST_SIZE
    assert lower_bound(n - n % 4) == 0


def test_broadcast() -> None:
    n, m, k = named("n"), named("m"), named("k")
    assert broadcast(n, 1) is n is broadcast(1, n) is broadcast(n, n)
    assert broadcast(n, 5) == 5 == broadcast(5, n)
    assert broadcast(0, n) == 0
    assert broadcast(1, 4) == 4
    assert broadcast(n, m) is broadcast(m, n)
    assert (
        broadcast(broadcast(n, m), k)
        is broadcast(n, broadcast(k, m))
        is broadcast(broadcast(k, n), broadcast(n, m))
    )
    assert broadcast(n, 2 * m) is 2 * m
    assert broadcast(n, m + 2) is m + 2
    assert broadcast(broadcast(n, m), 7) == 7
    assert evaluate(broadcast(n, m), {"n": 1, "m": 6}) == 6
    assert evaluate(broadcast(n, m), {"n": 6, "m": 6}) == 6
    with pytest.raises(ValueError, match="no value"):
        evaluate(broadcast(n, m), {"n": 2, "m": 6})
    odd = broadcast(3, 4)
    assert isinstance(odd, SymbolicDim)
    assert odd.is_anonymous
    assert lower_bound(broadcast(n + 1, m + 1)) == 1


def test_symbols() -> None:
    n, x, signed = named("n"), fresh(), fresh(nonnegative=False)
    assert x is not fresh()
    assert n.is_symbol
    assert not n.is_anonymous
    assert x.is_symbol
    assert x.is_anonymous
    mixed, moved, halved = (n + x) // 3 + named("m"), n + 1, n // 2
    assert isinstance(mixed, SymbolicDim)
    assert isinstance(moved, SymbolicDim)
    assert isinstance(halved, SymbolicDim)
    assert mixed.is_anonymous
    assert mixed.symbols == {"n", "m", str(x)}
    assert not moved.is_symbol
    assert not halved.is_symbol
    assert str(x).startswith("?")
    assert lower_bound(x) == 0
    assert lower_bound(signed) == -(2**63)
    assert upper_bound(signed) == 2**63 - 1
    assert upper_bound(x) == upper_bound(n) == LARGEST_SIZE
    assert lower_bound(signed * signed) == 0
    assert dim_max(signed, 0) is not signed
    assert evaluate(n + x, {"n": 1, str(x): 2}) == 3
    assert substitute(n * x, {x: 3, "n": n + 1}) is 3 * n + 3
    assert substitute(broadcast(n, x) + 1, {x: n}) is n + 1
    assert substitute(7, {"n": 3}) == 7
    assert product([]) == 1
    assert product([2, n, 3, x]) is 6 * n * x
    assert product([n, 0]) == 0
    with pytest.raises(KeyError):
        evaluate(n, {})
    with pytest.raises(ValueError, match="not a symbol"):
        substitute(n, {n + 1: 3})


def test_nothing_is_kept_when_nobody_holds_it() -> None:
    gc.collect()
    tables = [symbolic.DIMS.entries, symbolic.ATOMS.entries]
    before = [len(table) for table in tables]
    kept = [named(f"leak{i}") * 2 + dim_max(fresh(), named("n")) // 3 for i in range(100)]
    assert len(tables[0]) >= before[0] + 100
    kept.clear()
    gc.collect()
    assert all(len(table) <= size for table, size in zip(tables, before, strict=True))


_PROGRAM = """
from xoptim.facts.dims import *
n, m = named("n"), named("m")
x, y = fresh(), fresh()
joined = dim_max(y, x, n, 2) * broadcast(m, broadcast(x, n))
print((n + m + x * y) // 3 * (m + n + 1) + joined + mod(n * m + y, 5))
"""


@pytest.mark.slow
def test_the_text_does_not_depend_on_the_hash_seed() -> None:
    texts = {
        subprocess.run(
            [sys.executable, "-c", _PROGRAM],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "77")
    }
    assert len(texts) == 1
    assert "broadcast(m, n, ?0)" in texts.pop()
