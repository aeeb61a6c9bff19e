"""``xopt list``."""

import json
import re

import pytest

from tests.cli.command import Xopt
from xoptim import OptimizationOptions, installed_patterns
from xoptim.catalogue.selection import resolve
from xoptim.engine.run import STEPS
from xoptim.facts.dtypes import Exactness
from xoptim.proof.pattern_grades import PATTERN_GRADES

EXACTNESS: tuple[Exactness, ...] = ("exact", "rounding", "finite", "approximate")


def test_list(xopt: Xopt) -> None:
    outcome = xopt("list")
    lines = outcome.out.splitlines()
    assert (outcome.code, outcome.err) == (0, "")
    assert lines[0].split() == [
        "pattern",
        "phase",
        "exactness",
        "opset",
        "provider",
        "tags",
        "rewrite",
    ]
    families: dict[str, list[str]] = {}
    for line in lines[1:-1]:
        if line.startswith(" "):
            families[next(reversed(families))].append(line.split()[0])
        else:
            families[line.strip()] = []
    steps = families.pop("steps, which --drop disables")
    assert steps == ["constant_folding", "merge", "remove_unused", "remove_identity"]
    assert list(families) == sorted({cls.family() for cls in installed_patterns().values()})
    assert families == {
        key: [n for n, cls in installed_patterns().items() if cls.family() == key]
        for key in families
    }
    assert "TransposeTranspose" in families["movement"]
    assert lines[-1] == f"{len(installed_patterns())} of {len(installed_patterns())} patterns"
    (row,) = [line for line in lines if line.startswith("  TransposeTranspose ")]
    assert row.split()[:4] == ["TransposeTranspose", "canonicalize", "exact", "1+"]
    assert "Transpose(Transpose(x)) → Transpose(x)" in row


def test_list_as_json(xopt: Xopt) -> None:
    patterns = xopt("list", "--json").json
    assert [p["name"] for p in patterns] == list(installed_patterns())
    for pattern in patterns:
        assert pattern.keys() == {
            "name", "family", "phase", "priority", "exactness", "min_opset", "max_opset", "tags",
            "produces", "unchecked", "providers", "onnxruntime", "status", "rewrite",
        "proved",
        }  # fmt: skip
        assert pattern["exactness"] in EXACTNESS
        assert pattern["family"] == installed_patterns()[pattern["name"]].family()
        assert "→" in pattern["rewrite"]


@pytest.mark.parametrize(
    "text", ["Cast", "CastPattern", "Cast+Dropout", "Cast,Dropout", "default-Cast", "all-default"]
)
def test_list_of_a_selection(xopt: Xopt, text: str) -> None:
    default, every = {cls.name() for cls in resolve("default")}, set(installed_patterns())
    expected = {
        "Cast": {"Cast"}, "CastPattern": {"Cast"}, "Cast+Dropout": {"Cast", "Dropout"},
        "Cast,Dropout": {"Cast", "Dropout"}, "default-Cast": default - {"Cast"},
        "all-default": {cls.name() for cls in resolve("all")} - default,
    }[text]  # fmt: skip
    assert [
        p["name"] for p in json.loads(xopt("list", "--patterns", text, "--json").out)
    ] == sorted(expected)
    assert (
        xopt("list", "--patterns", text).out.splitlines()[-1]
        == f"{len(expected)} of {len(every)} patterns"
    )


@pytest.mark.parametrize("name", STEPS)
def test_listed_steps_can_be_dropped(name: str) -> None:
    assert getattr(OptimizationOptions(), name)
    assert not getattr(OptimizationOptions(drop=(name,)), name)


@pytest.mark.usefixtures("bad_patterns")
def test_list_shows_packs(xopt: Xopt) -> None:
    assert {p["name"] for p in xopt("list", "--patterns", "extra", "--json").json} >= {
        "WrongRelu",
        "Failing",
    }


@pytest.mark.parametrize("name", ["TransposeTranspose", "TransposeTransposePattern"])
def test_a_pattern(xopt: Xopt, name: str) -> None:
    outcome = xopt("list", name)
    assert (outcome.code, outcome.err) == (0, "")
    lines = outcome.out.splitlines()
    assert lines[0] == "TransposeTransposePattern"
    assert lines[1].startswith("Transpose(Transpose(x)) → ")
    assert "phase canonicalize, exactness exact, opset 1+, provider any" in lines
    first = lines.index("example 1, opset 18")
    assert lines[first + 1].startswith("  before  agraph (")
    assert lines[first + 2].startswith("  after   agraph (")


def test_the_patterns_of_a_preset(xopt: Xopt) -> None:
    outcome = xopt("list", "default")
    assert outcome.code == 0
    assert {cls.__name__ for cls in resolve("default")} <= set(outcome.out.splitlines())


def test_proved_patterns(xopt: Xopt) -> None:
    unproved = next(name for name in installed_patterns() if name not in PATTERN_GRADES)
    words = f"TransposeTranspose,{unproved}"
    lines = xopt("list", "--proved", "--patterns", words).out.splitlines()
    (line,) = (line for line in lines if "TransposeTranspose" in line)
    assert re.search(r" exact +same bits ", line)
    assert lines[-1].startswith("1 of ")
    (document,) = xopt("list", "--patterns", "TransposeTranspose", "--json").json
    assert document["proved"] == "same bits"
    assert "proved: same bits" in xopt("list", "TransposeTranspose").out
