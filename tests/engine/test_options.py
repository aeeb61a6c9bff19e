from dataclasses import FrozenInstanceError, replace
from typing import Any

import pytest

from tests.engine.rules import AbsNegPattern, NegNegPattern, renaming
from xoptim.engine.environment import DebugSettings
from xoptim.engine.options import OptimizationOptions
from xoptim.facts.errors import UnknownPatternError


def options(**fields: Any) -> OptimizationOptions:
    return OptimizationOptions(**{"debug": DebugSettings(), **fields})


def test_they_cannot_be_changed() -> None:
    made = options()
    with pytest.raises(FrozenInstanceError):
        made.verbose = 1  # type: ignore[misc]
    assert replace(made, verbose=1).verbose == 1
    with pytest.raises(TypeError):
        OptimizationOptions("default")  # type: ignore[call-arg]


@pytest.mark.parametrize("field", ["max_iter", "max_rewrites"])
def test_numbers(field: str) -> None:
    with pytest.raises(TypeError, match=f"{field} .*'x'"):
        options(**{field: "x"})


def test_patterns() -> None:
    chosen = options(patterns=[NegNegPattern, AbsNegPattern()], drop=("AbsNegPattern",))
    assert [p.name() for p in chosen.selected()] == ["NegNeg"]
    assert options(patterns=None).selected() == []
    assert "TransposeTranspose" in {p.name() for p in options().selected()}
    with pytest.raises(UnknownPatternError, match="'default'"):
        options(patterns="defaul").selected()
    with pytest.raises(UnknownPatternError, match=r"'NegNg'; .*'NegNeg'"):
        options(patterns=NegNegPattern, drop=("NegNg",)).selected()


def test_providers() -> None:
    cuda, both = (
        renaming("Exp", "Log", providers=("cuda",)),
        renaming("Abs", "Log", providers=("cpu", "cuda")),
    )
    for provider, expected in (
        ("cpu", ["AbsToLog"]),
        ("cuda", ["AbsToLog", "ExpToLog"]),
        ("other", []),
    ):
        assert [
            p.name() for p in options(patterns=[cuda, both], provider=provider).selected()
        ] == expected


@pytest.mark.parametrize(
    ("target", "provider", "expected"),
    [
        ("webgpu", "cpu", ["NegToLog"]),
        ("cuda", "cpu", ["AbsToLog", "ExpToLog", "NegToLog"]),
        ("cpu", "cpu", ["AbsToLog", "NegToLog", "SinToLog"]),
        # the precision takes the kernels of another provider for a model
        ("qnn", "cuda", ["ExpToLog", "NegToLog"]),
    ],
)
def test_what_was_measured_on_the_processor_is_not_for_other_targets(
    target: str, provider: str, expected: list[str]
) -> None:
    measured = {"Sin": ("cpu",), "Abs": ("cpu", "cuda"), "Exp": ("cuda",), "Neg": ()}
    patterns = [
        renaming(operator, "Log", providers=providers) for operator, providers in measured.items()
    ]
    chosen = options(patterns=patterns, target=target, provider=provider).selected()
    assert sorted(each.name() for each in chosen) == expected


@pytest.mark.parametrize(
    ("verbose", "debug", "expected"),
    [
        (0, {}, 0),
        (3, {}, 3),
        (3, {"verbose": 5}, 5),
        (11, {"verbose": 5}, 11),
        (0, {"patterns": ("NegNeg",)}, 10),
        (0, {"levels": {"NegNeg": 4, "Other": 7}}, 4),
        (0, {"levels": {"NegNeg": 4}, "patterns": ("NegNeg",)}, 10),
    ],
)
def test_verbosity(verbose: int, debug: dict[str, Any], expected: int) -> None:
    assert (
        options(verbose=verbose, debug=DebugSettings(**debug)).verbosity(NegNegPattern())
        == expected
    )
