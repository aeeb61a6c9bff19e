"""The database of patterns: groups, their sequence, and what users add (seed 003, "The optimization
database").
"""

from typing import Any

import pytest

from tests.catalogue.toys import Install, messages, toy
from tests.support import parse, types, values_in
from xoptim import (
    EasyPatternOptimization,
    OptimizationOptions,
    PatternOptimization,
    Query,
    UnknownPatternError,
    database,
    installed_patterns,
    optimize,
    register,
    select,
)
from xoptim.catalogue.entries import POSITIONS
from xoptim.dialects.database import PatternGroup, PatternSequence
from xoptim.match.rewrite import PHASES, ModelPass

Zeta, Alpha, Beta = (
    toy("Zeta", tags=("a",)),
    toy("Alpha", tags=("a",), priority=1),
    toy("Beta", tags=("b",)),
)
Gamma, Fused = toy("Gamma", phase="specialize"), toy("Fused", phase="target", tags=("onnxruntime",))


class Simplify(ModelPass):
    """A → B"""


def names(chosen: Any) -> list[str]:
    return [pattern.name() for pattern in chosen]


@pytest.fixture
def principal(install: Install) -> PatternSequence:
    return install(Zeta, Alpha, Beta, Gamma, Fused)


# ---------------------------------------------------------------- groups


def test_a_group() -> None:
    group = PatternGroup()
    beta = Beta()
    group.register("Zeta", Zeta)
    group.register("second", beta, "cheap", "deep")
    group.register("Alpha", Alpha)
    assert list(group) == [
        "second",
        "Zeta",
        "Alpha",
    ], "by priority, then by the names that the patterns have"
    assert len(group) == 3
    assert "second" in group
    assert "Beta" not in group
    assert group["second"] is beta
    assert isinstance(group["Zeta"], Zeta)
    with pytest.raises(KeyError):
        group["Beta"]
    assert names(group.query(Query(["a", "cheap"]))) == ["Beta", "Zeta", "Alpha"]
    for word in ("second", "Beta", "BetaPattern", "b", "deep"):
        assert group.query(Query([word])) == [beta]
    group.unregister("second")
    assert list(group) == ["Zeta", "Alpha"]
    with pytest.raises(UnknownPatternError, match="'cheap'"):
        group.query(Query(["cheap"]))
    with pytest.raises(UnknownPatternError, match=r"'Zetta'; .*'Zeta'"):
        group.unregister("Zetta")
    group.register("second", Beta)
    assert len(group.query(Query("all"))) == 3


def test_what_a_group_refuses() -> None:
    group = PatternGroup("canonicalize")
    group.register("Zeta", Zeta)
    for name, pattern in (("Zeta", Beta), ("other", Zeta())):
        with pytest.raises(ValueError, match="'Zeta'"):
            group.register(name, pattern)
    with pytest.raises(ValueError, match=r"'Gamma' .*'specialize', .*'canonicalize'"):
        group.register("Gamma", Gamma)
    with pytest.raises(TypeError, match="'Simplify'"):
        group.register("Simplify", Simplify)  # type: ignore[arg-type]
    for wrong in (3, int, "Zeta"):
        with pytest.raises(TypeError, match="patterns"):
            group.register("wrong", wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"tags .*'Beta'"):
        group.register("Beta", Beta, 0.5)  # type: ignore[arg-type]
    assert list(group) == ["Zeta"]


# ---------------------------------------------------------------- sequences


def test_a_sequence() -> None:
    sequence, late, early = PatternSequence(), PatternGroup(), PatternGroup()
    late.register("Zeta", Zeta)
    early.register("Gamma", Gamma)
    sequence.register("late", late, 2.0)
    sequence.register("middle", Simplify(), 2.0, "whole")
    sequence.register("early", early, 1.0, "first", "fast_run")
    assert list(sequence) == [
        "early",
        "middle",
        "late",
    ], "a rewriter comes before the group at the same place"
    assert sequence["late"] is sequence.group("late") is late
    assert (len(sequence), "early" in sequence, "Zeta" in sequence) == (3, True, False)
    assert names(sequence.query(Query("all"))) == ["Gamma", "Simplify", "Zeta"]
    late.register("Alpha", Alpha)
    assert names(sequence.query(Query("all"))) == [
        "Gamma",
        "Simplify",
        "Zeta",
        "Alpha",
    ], "a group may grow"
    assert names(sequence.query(Query(["first"]))) == ["Gamma"], (
        "tags of a group are tags of all that is in it"
    )
    assert names(sequence.query(Query(["late"]))) == ["Zeta", "Alpha"], "and so is its name"
    assert names(sequence.query(Query(["middle", "whole"]))) == ["Simplify"]
    sequence.unregister("early")
    sequence.unregister("middle")
    sequence.unregister("Alpha")
    assert list(sequence) == ["late"]
    assert list(late) == ["Zeta"]
    early.register("Fused", Fused)
    assert names(sequence.query(Query("all"))) == ["Zeta"]
    with pytest.raises(UnknownPatternError, match=r"'lates'; .*'late'"):
        sequence.unregister("lates")
    with pytest.raises(UnknownPatternError, match=r"'early'; .*: late"):
        sequence.group("early")


def test_what_a_sequence_refuses() -> None:
    sequence, group = PatternSequence(), PatternGroup()
    for plain in (Zeta, Zeta()):
        with pytest.raises(TypeError, match="navigator"):
            sequence.register("Zeta", plain, 1.0)
    with pytest.raises(TypeError, match=r"position .*'group' .*'fast_run'"):
        sequence.register("group", group, "fast_run")  # type: ignore[arg-type]
    group.register("Zeta", Zeta)
    sequence.register("group", group, 1.0)
    sequence.register("simplify", Simplify, 0.0)
    for name, entry in (
        ("group", PatternGroup()),
        ("Zeta", PatternGroup()),
        ("other", Simplify),
        ("again", group),
    ):
        with pytest.raises(ValueError, match="is taken"):
            sequence.register(name, entry, 2.0)
    for name, pattern in (("Simplify", Beta), ("simplify", Beta), ("group", Beta)):
        with pytest.raises(ValueError, match=f"'{name}' is taken"):
            group.register(name, pattern)


def test_a_rewriter_at_another_place_is_a_copy() -> None:
    sequence, simplify = PatternSequence(), Simplify()
    simplify.depth = 3  # type: ignore[attr-defined]
    places = {0.5: 0, 1.0: 0, 1.5: 1, 2: 1, 49: 2, 50: 2, 50.5: 3, 100: 3, 101: 4}
    for position, number in places.items():
        sequence.register("moved", simplify, position)
        moved: Any = sequence["moved"]
        assert (moved.phase, moved.depth, type(moved)) == (PHASES[number], 3, Simplify)
        assert (moved is simplify) is (number == 0)
        sequence.unregister("moved")
    assert (simplify.phase, Simplify.phase) == ("canonicalize", "canonicalize")


def test_passes_at_positions_of_one_phase_keep_their_order() -> None:
    sequence = PatternSequence()
    for name, position in (("C", 0.75), ("A", 0.9), ("B", 0.5)):
        sequence.register(name.lower(), toy(name, ModelPass, priority=int(name == "B")), position)
    assert names(sequence.query(Query("all"))) == ["B", "C", "A"]


# ---------------------------------------------------------------- the principal one


def test_its_structure(principal: PatternSequence) -> None:
    assert database() is principal
    assert list(principal) == list(PHASES)
    assert [list(principal.group(name)) for name in principal] == [
        ["Beta", "Zeta", "Alpha"],
        ["Gamma"],
        ["Fused"],
        [],
        [],
    ]
    assert {entry.group: entry.position for entry in principal.entries()} == {
        name: POSITIONS[name] for name in PHASES[:3]
    }
    assert principal.words() == {
        "a": 2, "all": 5, "approximate": 0, "b": 1, "canonicalize": 3, "default": 4,
        "deprecated": 0, "exact": 5, "extra": 0, "fast_compile": 3, "fast_run": 5, "final": 0,
        "finite": 0, "global": 0, "lower": 0, "onnxruntime": 1, "preview": 0, "rounding": 0,
        "specialize": 1, "stable": 5, "target": 1,
    }  # fmt: skip


def test_a_phase_that_is_removed_keeps_its_patterns(principal: PatternSequence) -> None:
    phase = principal.group("specialize")
    principal.unregister("specialize")
    assert "specialize" not in principal
    assert "Gamma" not in names(principal.query(Query("all")))
    assert list(phase) == ["Gamma"]
    phase.register("Later", toy("Later", phase="specialize"))
    assert list(phase) == ["Gamma", "Later"]


def test_all_that_is_installed_is_in_it() -> None:
    installed = installed_patterns()
    assert database() is database()
    assert {entry.name for entry in database().entries()} == set(installed)
    assert [p.name() for p in database().query(Query("default"))] == names(select("default"))
    lowerings = {type(p) for p in database().query(Query("lower"))}
    assert {type(p) for p in database().query(Query("all"))} == set(installed.values()) - lowerings
    assert lowerings
    cheap, safe = (database().query(Query(profile)) for profile in ("fast_compile", "fast_run"))
    assert set(cheap) < set(select("default")) < set(safe)
    assert safe == select("default+onnxruntime")
    assert all(
        p.exactness == "exact" and p.phase == "canonicalize" and not p.produces for p in cheap
    )


def test_order_of_the_result(install: Install) -> None:
    """Position, passes before the patterns of a phase, priority, name.

    By whatever way a pattern is selected.
    """
    phases = {"c": "canonicalize", "s": "specialize", "t": "target"}
    patterns = [
        toy(f"{k}{n}{p + 1}", phase=phase, priority=p)
        for k, phase in phases.items()
        for n in "BA"
        for p in (1, -1)
    ]
    places = ("final", "canonicalize", "canonicalize", "specialize", "target", "specialize")
    globals_ = [toy(f"g{n}", ModelPass, phase=phase) for n, phase in enumerate(places)]
    install(*patterns, *globals_)
    expected = [
        "g1",
        "g2",
        "cA0",
        "cB0",
        "cA2",
        "cB2",
        "g3",
        "g5",
        "sA0",
        "sB0",
        "sA2",
        "sB2",
        "g4",
        "tA0",
        "tB0",
        "tA2",
        "tB2",
        "g0",
    ]
    assert names(database().query(Query("all"))) == names(select("all")) == expected
    assert (
        names(select([*patterns, *globals_]))
        == names(select([cls() for cls in (*globals_, *patterns)]))
        == expected
    )
    assert names(OptimizationOptions().selected()) == expected


def test_a_broken_pattern_of_a_pack_is_dropped(
    install: Install, caplog: pytest.LogCaptureFixture
) -> None:
    install(toy("target"), toy("Wrong", phase="nowhere"), toy("Numbers", tags=(3,)), Zeta)
    assert names(select("all")) == ["Zeta"]
    reasons = [message.partition(" is skipped: ")[2] for message in messages(caplog)]
    assert [values_in(reason) for reason in reasons] == [["Numbers"], ["nowhere"], ["target"]]


# ---------------------------------------------------------------- words


def test_presets_are_no_tags(install: Install) -> None:
    """The rules apply to the tags that a pattern declares, not to those given on registration."""
    install(
        toy("Boast", tags=("fast_run", "all", "default"), exactness="approximate"), toy("Plain")
    )
    assert names(select("fast_run")) == ["Plain"]
    register(toy("Trusted", exactness="approximate"), "fast_run")
    assert names(select("fast_run")) == ["Plain", "Trusted"]
    assert names(select("default")) == ["Plain"]
    assert names(select("approximate")) == ["Boast", "Trusted"]


def test_fast_compile_is_portable(install: Install) -> None:
    foreign = toy("Foreign", produces=("com.acme",))
    install(
        toy("Zeta"),
        foreign,
        toy("Runtime", tags=("onnxruntime",)),
        toy("Later", phase="specialize"),
    )
    assert names(select("fast_compile")) == ["Zeta"]
    assert names(select("default")) == ["Zeta", "Later"]


def test_names_come_before_tags(install: Install) -> None:
    install(
        toy("Zeta"),
        toy("Other", tags=("Zeta", "default", "specialize")),
        toy("specialize", phase="target"),
    )
    assert names(select("Zeta")) == names(select(Query(["Zeta"]))) == ["Zeta"]
    assert names(select(Query("all", exclude=["Zeta"]))) == ["Other"]
    assert names(select("default")) == ["Other", "Zeta"]


# ---------------------------------------------------------------- registering


def test_registering_a_rewriter_of_whole_models(principal: PatternSequence) -> None:
    """The seed's `optdb.register('simplify', simplify, 0.5, 'fast_run')`."""
    principal.register("simplify", Simplify(), 0.5, "fast_run", "mine")
    expected = ["Simplify", "Beta", "Zeta", "Alpha", "Gamma", "Fused"]
    assert (
        names(select("fast_run"))
        == names(OptimizationOptions(patterns=Query("fast_run")).selected())
        == expected
    )
    for text in ("simplify", "Simplify", "mine", "global"):
        assert names(select(text)) == ["Simplify"]
    assert names(select("fast_run", drop=["simplify"])) == expected[1:]
    principal.unregister("Simplify")
    assert names(select("fast_run")) == expected[1:]
    principal.register("simplify", Simplify(), 0.5)
    assert "Simplify" in names(select("fast_run")), "its place was free again, and it is exact"


def test_the_door(principal: PatternSequence) -> None:
    @register
    class MinePattern(PatternOptimization):
        """A → B"""

        phase = "specialize"

    other = toy("Other", tags=("extra",))()
    assert register(other, "ours", "b") is other
    assert register(Simplify, "ours") is Simplify
    assert names(select("default")) == ["Simplify", "Beta", "Zeta", "Alpha", "Gamma", "Mine"]
    assert names(select("ours")) == ["Simplify", "Other"]
    assert names(select("b+ours-MinePattern")) == ["Simplify", "Beta", "Other"]
    assert select("Other") == [other]
    assert select("Mine") == select(MinePattern)
    assert names(select("default", drop=["MinePattern"]))[-2:] == ["Alpha", "Gamma"]
    with pytest.raises(ValueError, match="'Mine'"):
        register(MinePattern)
    with pytest.raises(TypeError, match="pattern"):
        register(int)  # type: ignore[type-var]
    database().unregister("MinePattern")
    register(MinePattern)


def test_a_group_of_ones_own(principal: PatternSequence) -> None:
    own = PatternGroup()
    principal.register("own", own, 1.5, "fast_run")
    own.register("Early", toy("Early", exactness="approximate"))
    assert names(select("fast_run")) == ["Beta", "Zeta", "Alpha", "Early", "Gamma", "Fused"]
    assert names(select("own")) == ["Early"]
    with pytest.raises(ValueError, match="'Zeta'"):
        own.register("Zeta", toy("Zeta"))


def test_what_is_registered_is_used(install: Install) -> None:
    class SinhAsinhPattern(EasyPatternOptimization):
        """Asinh(Sinh(x)) → x"""

        tags = ("extra",)

        def match_pattern(self, g: Any, x: Any) -> Any:
            return g.op.Asinh(g.op.Sinh(x))

        def apply_pattern(self, g: Any, x: Any) -> Any:
            return x

    install(*installed_patterns().values())
    model = parse("agraph (float[n] x) => (float[n] y) { a = Sinh(x) b = Asinh(a) y = Relu(b) }")
    register(SinhAsinhPattern, "mine")
    assert types(optimize(model)) == ["Sinh", "Asinh", "Relu"]
    assert types(optimize(model, patterns=Query(["mine"]))) == ["Relu"]
    assert types(optimize(model, patterns="default+mine")) == ["Relu"]


# --------------------------------------------------------------- what patterns say about themselves


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (
            "exactness",
            "fine",
            "'Odd': exactness .* exact, rounding, finite, approximate, .*'fine'",
        ),
        ("status", "new", "'Odd': status .* stable, preview, deprecated, .*'new'"),
        ("tags", "acme", r"'Odd': tags .*\('acme',\)"),
        ("anchors", (1,), r"'Odd': anchors .*\(1,\)"),
        ("min_opset", "18", "'Odd': min_opset .*'18'"),
        ("priority", True, "'Odd': priority .* True"),
    ],
)
def test_a_pattern_that_says_what_it_cannot_say(
    key: str, value: Any, message: str, install: Install, caplog: pytest.LogCaptureFixture
) -> None:
    odd = toy("Odd", **{key: value})
    with pytest.raises(TypeError, match=message):
        PatternGroup().register("Odd", odd)
    install(odd, Zeta)
    assert names(select("all")) == ["Zeta"]
    (text,) = messages(caplog)
    assert text.startswith("pattern Odd of tests.catalogue.toys is skipped: ")


def test_a_name_with_its_suffix_is_the_same_name(principal: PatternSequence) -> None:
    with pytest.raises(ValueError, match="'Zeta'"):
        principal.group("canonicalize").register("ZetaPattern", toy("Another"))
    principal.group("canonicalize").register("another", toy("Another"))
    principal.group("canonicalize").unregister("AnotherPattern")
    assert "Another" not in names(select("all"))


def test_a_group_has_no_groups() -> None:
    group = PatternGroup()
    group.register("Zeta", Zeta)
    with pytest.raises(UnknownPatternError, match=r"'target'; .*: none"):
        group.query(Query(["Zeta"], subquery={"target": Query([])}))
