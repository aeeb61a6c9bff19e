"""Queries, and the patterns that they find (seed 003, "Query")."""

import copy
import pickle
from dataclasses import FrozenInstanceError
from typing import Any

import pytest

from tests.catalogue.toys import Install, toy
from xoptim import OptimizationOptions, Query, UnknownPatternError, select
from xoptim.match.rewrite import ModelPass

TOYS: dict[str, dict[str, Any]] = {
    "Zeta": {"tags": ("a",)},
    "Beta": {"tags": ("a", "b"), "exactness": "rounding"},
    "Gamma": {"tags": ("b", "c"), "phase": "specialize", "status": "preview"},
    "Fused": {"tags": ("a", "onnxruntime"), "phase": "target", "produces": ("com.microsoft",)},
    "Finite": {"exactness": "finite"},
    "Rough": {"exactness": "approximate"},
    "Extra": {"tags": ("extra", "fast_run")},
    "ExtraFinite": {"tags": ("extra",), "exactness": "finite"},
    "Old": {"status": "deprecated", "tags": ("onnxruntime",)},
}


@pytest.fixture(autouse=True)
def _toys(install: Install) -> None:
    install(
        *(toy(name, **extra) for name, extra in TOYS.items()),
        toy("Whole", ModelPass, phase="specialize"),
    )


def found(*words: Any, **more: Any) -> list[str]:
    return [pattern.name() for pattern in select(Query(*words, **more))]


def test_it_holds_sets_of_words() -> None:
    query = Query(
        ["a", "b", "a"],
        require=(word for word in "c"),
        exclude={"d"},
        subquery={"target": Query("a")},
    )
    assert [set(words) for words in (query.include, query.require, query.exclude)] == [
        {"a", "b"},
        {"c"},
        {"d"},
    ]
    assert Query("word").include == {"word"}, "one word, not its letters"
    assert query.subquery == {"target": Query(["a"])}
    assert Query([]) == Query(()) == Query(set(), [], [], {})
    assert hash(query) == hash(copy.deepcopy(query))


def test_it_cannot_be_changed() -> None:
    groups = {"target": Query("a")}
    query = Query(["a"], subquery=groups)
    with pytest.raises(FrozenInstanceError):
        query.include = frozenset()  # type: ignore[misc]
    with pytest.raises(TypeError):
        query.subquery["target"] = Query([])  # type: ignore[index]
    groups.clear()
    assert query.subquery
    assert copy.deepcopy(query) == pickle.loads(pickle.dumps(query)) == query


def test_refined_queries_are_new() -> None:
    query = Query(["a"], ["b"], ["c"], {"target": Query("d")})
    assert query.including("x", "y") == Query(["a", "x", "y"], ["b"], ["c"], query.subquery)
    assert query.requiring("x", "y") == Query(["a"], ["b", "x", "y"], ["c"], query.subquery)
    assert query.excluding("x", "y") == Query(["a"], ["b"], ["c", "x", "y"], query.subquery)
    assert query.including("c") == Query(["a", "c"], ["b"], [], query.subquery)
    assert query.excluding("a") == Query([], ["b"], ["a", "c"], query.subquery)
    assert query == Query(["a"], ["b"], ["c"], {"target": Query("d")})


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        ((["a"],), ["Beta", "Zeta", "Fused"]),
        ((["a", "c"],), ["Beta", "Zeta", "Gamma", "Fused"]),
        ((["a", "b"], ["a", "b"]), ["Beta"]),
        ((["a", "b"], (), ["a"]), ["Gamma"]),
        ((["a", "b"], ["b"], ["c"]), ["Beta"]),
        ((["a"], (), ["a"]), []),
        (([],), []),
        (([], ["a"]), []),
        ((["all"], ["canonicalize"], ["a"]), ["Extra", "ExtraFinite", "Finite", "Old", "Rough"]),
        ((["fast_run"],), ["Beta", "Zeta", "Whole", "Gamma", "Fused"]),
        ((["fast_run"], (), ["Zeta", "FusedPattern"]), ["Beta", "Whole", "Gamma"]),
        ((["fast_compile"],), ["Zeta"]),
        ((["default"],), ["Beta", "Zeta", "Whole", "Gamma"]),
        ((["onnxruntime"],), ["Fused"]),
        ((["finite"],), ["Finite"]),
        ((["approximate"],), ["Rough"]),
        ((["extra"],), ["Extra", "ExtraFinite"]),
        ((["global"],), ["Whole"]),
        ((["target", "specialize"],), ["Gamma", "Fused"]),
        ((["rounding", "preview"],), ["Beta", "Gamma"]),
        ((["deprecated"],), ["Old"]),
        ((["all"], ["exact"], ["canonicalize"]), ["Whole", "Gamma", "Fused"]),
        ((["Zeta", " BetaPattern "],), ["Beta", "Zeta"]),
    ],
)
def test_at_least_one_included_all_required_none_excluded(
    words: tuple[Any, ...], expected: list[str]
) -> None:
    assert found(*words) == expected


def test_a_subquery_is_asked_of_its_group_instead() -> None:
    assert found(["default"], subquery={"canonicalize": Query(["Rough"])}) == [
        "Rough",
        "Whole",
        "Gamma",
    ]
    assert found(["a"], subquery={"target": Query([])}) == ["Beta", "Zeta"]
    assert found([], subquery={"target": Query(["all"]), "specialize": Query("b")}) == [
        "Gamma",
        "Fused",
    ]
    assert found(["default"], exclude=["b"], subquery={"specialize": Query("b")}) == [
        "Zeta",
        "Whole",
        "Gamma",
    ]


@pytest.mark.parametrize("where", ["include", "require", "exclude", "subquery"])
def test_unknown_words(where: str) -> None:
    parts: dict[str, Any] = {"include": ["all"]}
    parts[where] = {"target": Query(["Zetta"])} if where == "subquery" else ["Zetta"]
    with pytest.raises(UnknownPatternError, match=r"'Zetta'; .*'Zeta'"):
        found(**parts)


def test_unknown_groups() -> None:
    with pytest.raises(
        UnknownPatternError,
        match=r"'targets'; .*: canonicalize, final, lower, specialize, target",
    ):
        found(["a"], subquery={"targets": Query("a")})


def test_a_query_goes_where_a_selection_goes() -> None:
    options = OptimizationOptions(patterns=Query(["fast_run"], exclude=["Zeta"]), drop=("Gamma",))
    assert [pattern.name() for pattern in options.selected()] == ["Beta", "Whole", "Fused"]
    mixed: list[str | Query] = ["c", Query(["a"], exclude=["onnxruntime"]), "-Zeta"]
    assert [pattern.name() for pattern in select(mixed)] == ["Beta", "Gamma"]
    assert select(Query(["Zeta"]))[0] is select("Zeta")[0]


def test_a_query_of_words_is_its_own_selection() -> None:
    """As a part of another query, it would be answered again for each model.

    One with groups is, for what is left out.
    """
    query = Query(["a"], exclude=["Zeta"])
    assert Query.of(query) is query
    assert Query.of(Query(["a"], subquery={"target": query})).steps
