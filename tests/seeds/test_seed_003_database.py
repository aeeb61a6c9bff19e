"""The second half of the document about graph optimization: the database, queries, registration,
and the order of groups.
"""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.engine.rules import renaming
from tests.support import parse, types
from xoptim import GraphBuilder, PatternOptimization, Query, database, optimize, register, select
from xoptim.api.whole_model import GlobalRewriter, global_rewriter
from xoptim.catalogue.discovery import refresh
from xoptim.dialects import PatternSub
from xoptim.dialects.database import PatternGroup, PatternSequence
from xoptim.match.rewrite import PHASES

TEXT = "agraph (float[n] x, float[n] y) => (float[n] z) { m = Mul(x, y) d = Div(m, y) z = Sinh(d) }"


@pytest.fixture(autouse=True)
def _clean() -> Iterator[None]:
    yield
    refresh()


def simplifier(name: str, **metadata: Any) -> Any:
    return PatternSub(
        ("Div", ("Mul", "x", "y"), "y"), "x", name=name, exactness="approximate", **metadata
    )


def marker(label: str, seen: list[str]) -> type[GlobalRewriter]:
    """A pass that only records that it ran."""

    @global_rewriter(name=label)
    def mark(builder: GraphBuilder) -> int:
        seen.append(label)
        return 0

    return mark


# ------------------------------------------------------------------ "Definition of optdb"


def test_optdb_is_a_sequence_of_groups_and_rewriters() -> None:
    principal = database()
    assert isinstance(principal, PatternSequence)
    assert [name for name in principal if name in PHASES] == list(PHASES)
    assert all(isinstance(principal[name], PatternGroup) for name in PHASES)


def test_a_sequence_runs_what_matches_in_the_order_of_positions() -> None:
    seen: list[str] = []
    for label, position in (("Late", 60.0), ("Early", 0.5), ("Middle", 1.5)):
        database().register(label.lower(), marker(label, seen), position, "fast_run")
    optimize(parse(TEXT), patterns=Query(["Late", "Early", "Middle"]))
    assert list(dict.fromkeys(seen)) == ["Early", "Middle", "Late"]


def test_an_equilibrium_applies_its_patterns_until_none_of_them_changes_anything() -> None:
    chain = [renaming("Abs", "Exp"), renaming("Exp", "Floor"), renaming("Floor", "Sin")]
    after = optimize(parse("agraph (float[n] x) => (float[n] y) { y = Abs(x) }"), patterns=chain)
    assert types(after) == ["Sin"]


# ------------------------------------------------------------------ "Examples"


def test_the_three_modes_of_the_examples() -> None:
    register(simplifier("Wasteful", tags=("inplace",)), "fast_run")
    fast_run = Query(include=["fast_run"])
    fast_compile = database().query(Query(include=["fast_compile"]))
    without = database().query(Query(include=["fast_run"], exclude=["inplace"]))
    assert database().query(fast_run.excluding("inplace")) == without
    assert {p.name() for p in database().query(fast_run)} - {p.name() for p in without} == {
        "Wasteful"
    }
    assert {p.name() for p in fast_compile} < {p.name() for p in without}


# --------------------------------------- "Registering an Optimizer", "Registering a LocalOptimizer"


def test_registering_a_global_optimizer_at_a_position_with_a_tag() -> None:
    """optdb.register('simplify', simplify, 0.5, 'fast_run')"""
    seen: list[str] = []
    before = {p.name() for p in select("fast_run")}
    database().register("simplify", marker("Simplify", seen), 0.5, "fast_run")
    assert {p.name() for p in select("fast_run")} - before == {"Simplify"}
    optimize(parse(TEXT), patterns="fast_run")
    assert seen


def test_what_is_optimized_already_sees_no_change() -> None:
    done = optimize(parse(TEXT), patterns="canonicalize")
    register(simplifier("Cancel"), "canonicalize")
    assert types(done) == ["Mul", "Div", "Sinh"]
    assert types(optimize(parse(TEXT), patterns="canonicalize")) == ["Sinh"]


def test_a_local_optimizer_goes_into_a_group_or_is_wrapped_in_a_navigator() -> None:
    local = simplifier("Cancel")
    with pytest.raises(TypeError, match="put it in a group, or wrap it in a navigator"):
        database().register("cancel", local, 0.5, "fast_run")
    group = database()["canonicalize"]
    assert isinstance(group, PatternGroup)
    group.register("cancel", local, "mine")
    assert types(optimize(parse(TEXT), patterns="mine")) == ["Sinh"]


# ------------------------------------------------------------------ "optdb structure"


def test_canonicalize_comes_before_specialize() -> None:
    order = [p.phase for p in select("all") if isinstance(p, PatternOptimization)]
    assert order == sorted(order, key=PHASES.index)


def test_equal_computations_are_merged_first_in_between_and_last() -> None:
    """Two expressions that become equal only by a rewrite are one at the end."""
    text = """agraph (float[n] x) => (float[n] y)
        { a = Abs(x) b = Abs(x) c = Ceil(a) d = Floor(b) y = Add(c, d) }"""
    assert types(optimize(parse(text), patterns=None)) == ["Abs", "Ceil", "Floor", "Add"]
    assert types(optimize(parse(text), patterns=[renaming("Ceil", "Floor")])) == [
        "Abs",
        "Floor",
        "Add",
    ]
