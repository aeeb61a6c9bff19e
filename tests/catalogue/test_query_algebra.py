"""The laws of selections: texts, queries and lists are one algebra of sets, whatever words they are
made of.
"""

import pickle
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from tests.catalogue.toys import Install, toy
from xoptim import PatternOptimization, Query, UnknownPatternError, database, select
from xoptim.catalogue.query import Name
from xoptim.match.rewrite import ModelPass

pytestmark = pytest.mark.slow

TOYS: dict[str, dict[str, Any]] = {
    "Zeta": {"tags": ("a",)},
    "Alpha": {"tags": ("a", "b"), "priority": 1, "exactness": "rounding"},
    "Beta": {"tags": ("b",), "phase": "specialize", "status": "preview"},
    "Gamma": {"tags": ("a", "onnxruntime"), "phase": "target", "former_names": ("Delta",)},
    "Rough": {"tags": ("b",), "exactness": "approximate"},
    "Extra": {"tags": ("extra",), "phase": "specialize"},
}
NAMES = [*TOYS, "Whole"]
WORDS = [
    *NAMES,
    "AlphaPattern",
    "Delta",
    "a",
    "b",
    "default",
    "fast_run",
    "all",
    "extra",
    "target",
    "exact",
    "global",
    "finite",
]
GROUPS = ["canonicalize", "specialize", "target"]

words = st.sampled_from(WORDS)
sets = st.lists(words, max_size=4)
signed = st.lists(st.tuples(st.sampled_from("+,-"), words), max_size=8)
plain = st.builds(Query, sets, sets, sets)
queries = st.builds(
    Query,
    sets,
    st.lists(words, max_size=1),
    sets,
    st.dictionaries(st.sampled_from(GROUPS), plain, max_size=2),
)
laws = settings(
    max_examples=150,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)


@pytest.fixture(autouse=True)
def _toys(install: Install) -> None:
    install(
        *(toy(name, **extra) for name, extra in TOYS.items()),
        toy("Whole", ModelPass, phase="specialize"),
    )


def answer(query: Query) -> set[str]:
    return {pattern.name() for pattern in database().query(query)}


def meaning(word: str) -> set[str]:
    return {entry.name for entry in database().find(word)}


def text_of(steps: Sequence[tuple[str, str]]) -> str:
    return "".join(sign + word for sign, word in steps)


def folded(steps: Sequence[tuple[str, str]]) -> set[str]:
    found: set[str] = set()
    for sign, word in steps:
        found = found - meaning(word) if sign == "-" else found | meaning(word)
    return found


# ---------------------------------------------------------------- what a query is


@given(signed)
@laws
def test_a_text_is_the_fold_over_its_words(steps: list[tuple[str, str]]) -> None:
    assert answer(Query.of(text_of(steps))) == folded(steps)


@given(st.lists(signed, max_size=4))
@laws
def test_a_list_of_texts_is_one_text(texts: list[list[tuple[str, str]]]) -> None:
    whole = [step for steps in texts for step in steps]
    assert Query.of([text_of(steps) for steps in texts]) == Query.of(text_of(whole))


@given(sets, sets, sets)
@laws
def test_words_are_union_intersection_and_difference(
    include: list[str], require: list[str], exclude: list[str]
) -> None:
    expected = (
        set[str]().union(*map(meaning, include)).intersection(*map(meaning, [*require, "all"]))
    )
    assert answer(Query(include, require, exclude)) == expected.difference(*map(meaning, exclude))


@given(signed, sets, sets, sets)
@laws
def test_words_count_after_the_text(
    steps: list[tuple[str, str]], include: list[str], require: list[str], exclude: list[str]
) -> None:
    """As ``--include``, ``--require`` and ``--exclude`` come after ``--patterns``."""
    query = Query.of(text_of(steps)).including(*include).requiring(*require).excluding(*exclude)
    expected = (
        folded(steps)
        .union(*map(meaning, set(include) - set(exclude)))
        .intersection(*map(meaning, [*require, "all"]))
    )
    assert answer(query) == expected.difference(*map(meaning, exclude))


@given(st.lists(queries, max_size=3))
@laws
def test_a_list_of_queries_is_their_union(asked: list[Query]) -> None:
    assert answer(Query.of(asked)) == set[str]().union(*map(answer, asked))


@given(queries)
@laws
def test_a_subquery_decides_in_its_group_and_nowhere_else(query: Query) -> None:
    without = answer(Query(query.include, query.require, query.exclude))
    for entry in database().entries():
        asked = query.subquery.get(entry.group)
        assert (entry.name in answer(query)) is (
            entry.name in (without if asked is None else answer(asked))
        )


# ---------------------------------------------------------------- what can be done with it


@given(queries, words)
@laws
def test_including_and_excluding_undo_each_other(query: Query, word: str) -> None:
    assert query.including(word).excluding(word) == query.excluding(word)
    assert query.excluding(word).including(word) == query.including(word)
    assert word in query.including(word).include
    assert word not in query.including(word).exclude


@given(signed, words)
@laws
def test_excluding_is_taking_away(steps: list[tuple[str, str]], word: str) -> None:
    taken = folded(steps) - meaning(word)
    assert (
        answer(Query.of(text_of(steps)).excluding(word))
        == answer(Query.of([text_of(steps), f"-{word}"]))
        == taken
    )


@given(
    st.lists(st.one_of(signed.map(text_of), queries), max_size=3),
    st.lists(st.sampled_from(NAMES), max_size=3),
)
@laws
def test_to_drop_is_to_exclude(selection: list[str | Query], drop: list[str]) -> None:
    chosen = select(selection, drop)
    assert chosen == database().query(Query.of(selection).excluding(*drop))
    assert chosen == database().query(Query.of([*selection, "".join(f"-{name}" for name in drop)]))
    assert {pattern.name() for pattern in chosen} == answer(Query.of(selection)) - set(drop)


@given(st.one_of(queries, signed.map(text_of).map(Query.of)))
@laws
def test_the_order_is_that_of_the_database(query: Query) -> None:
    found = database().query(query)
    assert found == [pattern for pattern in database().query(Query("all")) if pattern in found]
    assert pickle.loads(pickle.dumps(query)) == query


# ---------------------------------------------------------------- classes and instances


def test_classes_and_instances_are_parts_of_a_query() -> None:
    class MinePattern(PatternOptimization):
        """A class of the caller."""

    zeta = toy("Zeta")()
    query = Query.of(["default", zeta, MinePattern])
    assert zeta in database().query(query)
    assert answer(query.requiring("exact")) == answer(Query(["default"], ["exact"])), (
        "Mine has no metadata"
    )
    assert answer(query.excluding("a")) == {"Beta", "Mine", "Whole"}
    assert answer(Query.of([query, "-Mine-Zeta"])) == answer(Query(["default"], exclude=["Zeta"]))


def test_what_was_added_may_be_taken_away_twice() -> None:
    class DeltaPattern(PatternOptimization):
        """Called as something else was."""

    assert answer(Query.of([DeltaPattern, "Gamma,-Delta,-Delta"])) == {"Gamma"}
    assert [pattern.name() for pattern in select([DeltaPattern, "Gamma", "-Delta"], ["Delta"])] == [
        "Gamma"
    ]
    assert answer(Query.of("Gamma,-Delta")) == set()
    assert answer(Query.of([DeltaPattern, "Delta"])) == {
        "Delta",
        "Gamma",
    }, "what is added comes from the database"


def test_a_preset_is_not_a_name() -> None:
    default = toy("default")
    assert answer(Query.of([default, "Rough,Zeta,-default"])) == {"default", "Rough"}
    assert answer(Query.of([default, "Rough,Zeta"]).excluding(Name("default"))) == {"Rough", "Zeta"}
    with pytest.raises(UnknownPatternError, match="pattern 'default'"):
        database().query(Query.of("Zeta").excluding(Name("default")))


@given(st.one_of(queries, signed.map(text_of).map(Query.of)), st.sets(words))
@laws
def test_what_holds_for_something_is_what_finds_it(query: Query, called: set[str]) -> None:
    found = False
    for sign, word in query.all_steps:
        found = {
            "+": found or word in called,
            "&": found and word in called,
            "-": found and word not in called,
        }[sign]
    assert query.holds(called) is found
    assert not Query(query.include, [*query.require, "nothing"]).holds(called)


def test_long_texts() -> None:
    assert answer(Query.of("+Alpha-Zeta+Zeta-Alpha" * 5000)) == {"Zeta"}
