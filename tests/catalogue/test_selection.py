"""Selection of patterns: presets, tags, names, their algebra, and the order."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import pytest

from tests.catalogue.toys import Install, messages, toy
from tests.support import values_in
from xoptim import (
    OptimizationOptions,
    PatternOptimization,
    Query,
    UnknownPatternError,
    installed_patterns,
    select,
)
from xoptim.catalogue.entries import Entry, in_order
from xoptim.catalogue.query import Name
from xoptim.catalogue.selection import resolve
from xoptim.engine.environment import DebugSettings
from xoptim.match.making import fault
from xoptim.match.rewrite import PHASES, Rewrite

TOYS: dict[str, dict[str, Any]] = {
    "Zeta": {},
    "Alpha": {"priority": 1},
    "Beta": {"exactness": "rounding", "tags": ("movement", "cheap")},
    "Gamma": {"phase": "specialize", "tags": ("movement",), "status": "preview"},
    "Delta": {"phase": "specialize", "priority": -1, "providers": ("cuda",)},
    "Fused": {"phase": "target", "tags": ("onnxruntime",), "produces": ("com.microsoft",)},
    "Loose": {"phase": "target", "tags": ("onnxruntime",), "exactness": "approximate"},
    "Finite": {"exactness": "finite"},
    "Rough": {"exactness": "approximate"},
    "Extra": {"tags": ("extra",)},
    "ExtraFinite": {"tags": ("extra", "onnxruntime"), "exactness": "finite"},
    "Old": {"status": "deprecated"},
    "OldFused": {"status": "deprecated", "tags": ("onnxruntime",)},
}
DEFAULT = ["Beta", "Zeta", "Alpha", "Delta", "Gamma"]


@pytest.fixture
def toys(install: Install) -> dict[str, type[PatternOptimization]]:
    """A small catalogue in place of what is installed."""
    classes = {name: toy(name, **extra) for name, extra in TOYS.items()}
    install(*classes.values())
    return classes


def names(chosen: Any, drop: tuple[str | Name, ...] = ()) -> list[str]:
    return [pattern.name() for pattern in select(chosen, drop)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("default", DEFAULT),
        ("onnxruntime", ["Fused"]),
        ("default+onnxruntime", [*DEFAULT, "Fused"]),
        ("onnxruntime,default", [*DEFAULT, "Fused"]),
        ("finite", ["Finite"]),
        ("approximate", ["Rough", "Loose"]),
        ("movement", ["Beta", "Gamma"]),
        ("cheap+Zeta", ["Beta", "Zeta"]),
        ("extra", ["Extra", "ExtraFinite"]),
        ("Zeta", ["Zeta"]),
        ("ZetaPattern", ["Zeta"]),
        ("Zeta,ZetaPattern+Zeta", ["Zeta"]),
        ("default-Zeta", ["Beta", "Alpha", "Delta", "Gamma"]),
        ("default-ZetaPattern-movement", ["Alpha", "Delta"]),
        ("default-movement+Gamma", ["Zeta", "Alpha", "Delta", "Gamma"]),
        ("default,-Zeta", ["Beta", "Alpha", "Delta", "Gamma"]),
        ("default-default", []),
        ("-Zeta", []),
        ("Zeta-Rough", ["Zeta"]),
        ("  default -\n Zeta\t, Old ", ["Beta", "Old", "Alpha", "Delta", "Gamma"]),
        ("Zeta,,Alpha,", ["Zeta", "Alpha"]),
        ("", []),
        (" \t", []),
        (",,", []),
    ],
)
def test_texts(text: str, expected: list[str], toys: object) -> None:
    assert names(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("default+", r"a word is missing after '\+' in the selection 'default\+'"),
        ("default-", "after '-'"),
        ("default+ ,Zeta", r"after '\+'"),
        ("default+-Zeta", r"after '\+'"),
        (",+-", r"after '\+'"),
        ("Zeta" * 100 + "-", r"Zeta'\.\.\.$"),
    ],
)
def test_a_sign_without_a_word(text: str, message: str, toys: object) -> None:
    for selection in (text, ["default", text]):
        with pytest.raises(UnknownPatternError, match=message):
            select(selection)


def test_everything(toys: dict[str, type[PatternOptimization]]) -> None:
    assert sorted(names("all")) == sorted(toys)
    assert "default" not in toys
    assert names(None) == []
    assert names([]) == []
    assert names(()) == []


def test_sequences(toys: dict[str, type[PatternOptimization]]) -> None:
    class MinePattern(PatternOptimization):
        """A class of the caller."""

    class Bare(PatternOptimization):
        """A name without the suffix."""

    zeta = toys["Zeta"]()
    assert names(["Zeta", "default-Beta", "-Alpha"]) == ["Zeta", "Delta", "Gamma"]
    assert names(["movement", MinePattern, Bare()]) == ["Bare", "Beta", "Mine", "Gamma"]
    assert select([zeta]) == [zeta], "an instance is used as it is"
    assert select(["default", zeta])[1] is zeta, "in place of one by name"
    assert select([zeta, "default"])[1] is zeta
    assert names([MinePattern, "-Zeta"]) == ["Mine"]
    for alone in (MinePattern, MinePattern()):
        (found,) = select(alone)
        assert isinstance(found, MinePattern)
    assert names([MinePattern, Bare, "-Mine,-BarePattern"]) == []


@pytest.mark.parametrize("wrong", [[3], [None], [int], 3, ["default", object], Rewrite, Rewrite()])
def test_what_is_no_pattern(wrong: Any, toys: object) -> None:
    with pytest.raises(TypeError):
        select(wrong)


def test_drop(toys: dict[str, type[PatternOptimization]]) -> None:
    class MinePattern(PatternOptimization):
        """A class of the caller."""

    assert names("default", ("Zeta", " BetaPattern ")) == ["Alpha", "Delta", "Gamma"]
    assert names("default", ("Rough",)) == DEFAULT, "it was not chosen in the first place"
    assert names(["Zeta", MinePattern], ("MinePattern",)) == ["Zeta"]
    assert names(None, ("Zeta",)) == []
    with pytest.raises(UnknownPatternError, match=r"'Zetta'; .*'Zeta'"):
        names("default", ("Zetta",))
    with pytest.raises(UnknownPatternError, match="pattern 'movement'"):
        names("default", ("movement",))


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("Zetta", "'Zeta'"),
        ("zeta", "'Zeta'"),
        ("OldFusd", "'OldFused'"),
        ("GamaPattern", "'Gamma'"),
        ("defualt", "'default'"),
        ("onnxruntim", "'onnxruntime'"),
        ("mouvement", "'movement'"),
        ("Zeta Alpha", "did you mean"),
        ("xyzzy", "`xopt list` .*`xopt list --tags`"),
    ],
)
def test_unknown_words(word: str, hint: str, toys: object) -> None:
    for text in (word, f"default-{word}", f"default,{word}"):
        with pytest.raises(UnknownPatternError, match=f"'{word}'; .*{hint}"):
            select(text)
    with pytest.raises(UnknownPatternError, match=hint):
        resolve(word)


def test_names_say_where_they_come_from(toys: object) -> None:
    assert names("Zeta", (Name("ZetaPattern", "PATTERN"),)) == []
    with pytest.raises(UnknownPatternError, match=r"^PATTERN: .*'Zet'; .*'Zeta'"):
        names("Zeta", (Name("BetaPattern", "PATTERN"), Name("Zet", "PATTERN")))
    for word in ("default", "defaul", "movement"):
        with pytest.raises(UnknownPatternError, match=f"^PATTERN: .*'{word}'") as error:
            names("Zeta", (Name(word, "PATTERN"),))
        assert "did you mean" not in str(error.value), "what is suggested can be used"


def test_resolve(toys: dict[str, type[PatternOptimization]]) -> None:
    assert resolve("GammaPattern") == [toys["Gamma"]]
    assert resolve("movement") == [toys["Beta"], toys["Gamma"]]
    assert resolve("onnxruntime") == [toys["Fused"]], "a preset comes before a tag of that name"


def test_options(toys: dict[str, type[PatternOptimization]]) -> None:
    def selected(**changes: Any) -> list[str]:
        return [pattern.name() for pattern in OptimizationOptions(**changes).selected()]

    assert selected() == ["Beta", "Zeta", "Alpha", "Gamma"], "Delta is for another provider"
    assert selected(provider="cuda") == DEFAULT
    assert selected(drop=("Zeta",)) == ["Beta", "Alpha", "Gamma"]
    assert selected(patterns=None) == []
    with pytest.raises(UnknownPatternError, match=r"'defaults'; .*'default'"):
        selected(patterns="defaults")


# ---------------------------------------------------------------- what is installed


def test_order_of_the_catalogue() -> None:
    found = select("all")
    assert [p.name() for p in found] == [
        p.name() for p in select(list(reversed([p.name() for p in found])))
    ]
    levels = [(PHASES.index(p.phase), p.priority) for p in found]
    assert levels == sorted(levels)
    for (level, first), (next_level, second) in pairwise(zip(levels, found, strict=True)):
        is_said = second.name() in first.before or first.name() in second.after
        assert level < next_level or first.name() < second.name() or is_said
    lowerings = select("lower")
    assert {*found}.isdisjoint(lowerings)
    assert len(found) + len(lowerings) == len(installed_patterns())


def test_a_pattern_runs_after_those_that_it_names() -> None:
    class AlphaPattern(Rewrite):
        """A → B"""

        after = {"Omega": "it writes what this one reads"}

    class MiddlePattern(Rewrite):
        """A → B"""

        after = ("OmegaPattern", "Missing")

    class OmegaPattern(Rewrite):
        """A → B"""

    kinds: list[type[Rewrite]] = [AlphaPattern, MiddlePattern, OmegaPattern]
    entries = [Entry(kind.name(), kind) for kind in kinds]
    assert [entry.name for entry in in_order(entries)] == ["Omega", "Alpha", "Middle"]
    assert [entry.name for entry in in_order(entries[:2])] == ["Alpha", "Middle"]


@pytest.mark.parametrize("order", [{"Gelu": 3}, {3: "why"}, "Gelu", [3]])
def test_an_order_has_names_and_reasons(order: Any) -> None:
    assert fault("after", order)
    assert not fault("after", {"Gelu": "why"})


def test_each_order_of_the_catalogue_has_a_reason() -> None:
    kinds = installed_patterns().values()
    names = {kind.name(): kind.phase for kind in kinds}
    for kind in kinds:
        for order in (kind.before, kind.after):
            if order:
                assert isinstance(order, Mapping), kind
                assert {names[name] for name in order} == {kind.phase}, kind
                assert all(len(reason) > 8 for reason in order.values()), kind


def test_each_order_of_the_catalogue_is_kept() -> None:
    kinds = [type(rewrite) for rewrite in select(["all", "lower"])]
    places = {kind.name(): number for number, kind in enumerate(kinds)}
    assert not [
        (kind.name(), name)
        for kind in kinds
        for order, sign in ((kind.before, 1), (kind.after, -1))
        for name in order
        if (places[name] - places[kind.name()]) * sign < 0
    ]


def test_presets_of_the_catalogue() -> None:
    standard = select("default")
    assert {p.exactness for p in standard} <= {"exact", "rounding"}
    assert not any(
        p.produces or "onnxruntime" in p.tags or p.status == "deprecated" for p in standard
    )
    assert {p.name() for p in standard} <= {p.name() for p in select("default+onnxruntime")}
    assert all(p.name() == cls.name() for p in select("all") for cls in resolve(p.name()))
    assert all(select(cls.__name__)[0].name() == name for name, cls in installed_patterns().items())


# ---------------------------------------------------------------- status and former names


def test_deprecated_patterns_by_name(toys: object, caplog: pytest.LogCaptureFixture) -> None:
    for quiet in ("all", "deprecated", "default-Old", Query(["all"], exclude=["Old"])):
        select(quiet, drop=["Old"])
    assert messages(caplog) == []
    for _ in range(2):
        assert names("OldPattern") == ["Old"]
    assert names(
        Query(["Zeta"], subquery={"target": Query([]), "canonicalize": Query(["OldFused"])})
    ) == ["OldFused"]
    assert [values_in(message) for message in messages(caplog)] == [["Old"], ["OldFused"]]


@pytest.fixture
def renamed(install: Install) -> None:
    """`New` was `OldNew` and `Zeta` once; of `Twin` two patterns were made; a tag is called like a
    former name.
    """
    new = toy("New", former_names=("OldNewPattern", "Zeta", "movement"))
    install(
        new,
        toy("Zeta", tags=("movement",)),
        *(toy(n, former_names=("Twin",)) for n in ("One", "Two")),
    )


@pytest.mark.parametrize(
    ("chosen", "drop", "expected"),
    [
        ("OldNew", (), ["New"]),
        ("OldNewPattern+Zeta", (), ["New", "Zeta"]),
        ("all-OldNew", (), ["One", "Two", "Zeta"]),
        ("all", ("OldNew",), ["One", "Two", "Zeta"]),
        (Query(["OldNew"]), (), ["New"]),
        (Query(["all"], exclude=["OldNewPattern"]), (), ["One", "Two", "Zeta"]),
    ],
)
def test_former_names(
    chosen: Any,
    drop: tuple[str, ...],
    expected: list[str],
    renamed: None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    for _ in range(2):
        assert names(chosen, drop) == expected
    assert [values_in(message) for message in messages(caplog)] == [["OldNew", "New"]]


def test_what_is_there_comes_before_former_names(
    renamed: None, caplog: pytest.LogCaptureFixture
) -> None:
    assert names("Zeta") == names("movement") == ["Zeta"]
    assert names("all", ("Zeta",)) == ["New", "One", "Two"]
    assert messages(caplog) == []
    assert names("all-Twin") == ["New", "Zeta"]
    assert [values_in(message) for message in messages(caplog)] == [["Twin", "One", "Two"]]


def test_former_names_in_the_environment(renamed: None, caplog: pytest.LogCaptureFixture) -> None:
    options = OptimizationOptions(
        patterns="all", debug=DebugSettings(drop=("OldNew", "Two"), patterns=("Twin", "Zeta"))
    )
    assert [pattern.name() for pattern in options.selected()] == ["One", "Zeta"]
    assert len(messages(caplog)) == 2
    assert {p.name(): options.verbosity(p) for p in select("all")} == {
        "New": 0,
        "One": 10,
        "Two": 10,
        "Zeta": 10,
    }
    assert messages(caplog) == []
    with pytest.raises(UnknownPatternError, match=r"^DROPPATTERN: .*'OldNw'"):
        OptimizationOptions(debug=DebugSettings(drop=("OldNw",))).selected()


def test_a_pattern_of_the_caller_may_be_called_like_a_former_name(
    renamed: None, caplog: pytest.LogCaptureFixture
) -> None:
    own = toy("OldNew")
    assert names([own, "Zeta"], ("OldNew",)) == ["Zeta"]
    assert names([own, "New,-OldNew"]) == ["New"]
    assert messages(caplog) == []


def test_preview_patterns_are_selected(toys: object, caplog: pytest.LogCaptureFixture) -> None:
    assert names("preview") == ["Gamma"]
    assert "Gamma" in names("default")
    assert messages(caplog) == []
