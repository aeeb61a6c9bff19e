"""Conditions are found and switched off, and the wrong models that come of it are judged."""

import ast
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lab.mutation.guards import SWITCH, derived, instrumented, undeclared
from lab.mutation.verification import judge
from xoptim.match.pattern import PatternOptimization

SOURCE = """
def match(x, y=1):
    if (z := x) > 30 or x < 0:
        return SELF.none()
    if x == 1 and y:
        return None
    if x == 2:
        return True
    plain = x != 7 and y
    kept = [each for each in (x,) if not each == 6]
    return plain and all(each != 5 for each in kept) and z

def match_pattern(g: PatternBuilder, x):
    return g.op.Relu(g.op.Add(x, 1.0), axis=[2], domain="acme", outputs=2)
"""


def conditions() -> list[str]:
    """The texts of the conditions in the source."""
    keys = re.findall(
        r"__(?:guard|loose)__\('(s\.py:\d+:\d+ `.*?`)'",
        ast.unparse(instrumented(SOURCE, "s.py")).replace('"', "'"),
    )
    return [key.partition("`")[2].removesuffix("`") for key in keys]


def test_conditions_are_found() -> None:
    assert sorted(conditions()) == sorted(
        [
            "(z := x) > 30",
            "x < 0",
            "x == 1 and y",
            "x != 7",
            "y",
            "each == 6",
            "plain",
            "each != 5",
            "z",
            "1.0",
            "[2]",
        ]
    )


@pytest.mark.parametrize(
    ("value", "text", "found"),
    [
        (5, "each != 5", 5),
        (7, "x != 7", 7),
        (1, "x == 1 and y", 1),
        (-1, "x < 0", -1),
        (31, "(z := x) > 30", 31),
        (2, "", True),
    ],
)
def test_a_condition_that_refuses_is_switched_off(value: int, text: str, found: object) -> None:
    names: dict[str, Any] = {
        "__guard__": SWITCH.guard,
        "__loose__": SWITCH.loose,
        "PatternBuilder": int,
        "SELF": SimpleNamespace(none=lambda: None),
    }
    exec(compile(instrumented(SOURCE, "s.py"), "s.py", "exec"), names)
    SWITCH.refused.clear()
    assert text == "" or not names["match"](value)
    keys = [key for key in SWITCH.refused if f"`{text}`" in key]
    assert len(keys) == bool(text)
    with SWITCH.without(keys[0] if keys else ""):
        assert names["match"](value) == found
    assert text == "" or not names["match"](value)


class _Declaring(PatternOptimization):
    """x → x"""

    operand_ranks = {"a": 2, "b": 3}
    constant_operands = ("b",)


def test_a_declaration_is_omitted() -> None:
    found = dict(undeclared(_Declaring))
    assert len(found) == 3
    ranks = found["_Declaring.operand_ranks without `a`"]
    assert ranks.operand_ranks == {"b": 3}  # type: ignore[attr-defined]
    assert ranks.constant_operands == ("b",)  # type: ignore[attr-defined]
    assert found["_Declaring.constant_operands without `b`"].constant_operands == ()  # type: ignore[attr-defined]
    assert derived(_Declaring, {}).name() == _Declaring.name()


def test_wrong_models_are_kept_and_judged(tmp_path: Path) -> None:
    """A pattern without a condition makes wrong models.

    The verification notices some, and another run judges the same ones.
    """
    folder = tmp_path / "wrong"
    command = [
        sys.executable,
        "-m",
        "lab.mutation.verification",
        str(folder),
        "--count",
        "2",
        "--of",
        "mul_add_mul$",
    ]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    kept = sorted(path.name for path in folder.iterdir())
    assert kept[:2] == ["0000.after.onnx", "0000.before.onnx"]
    assert f"{len(kept) // 2} wrong models, " in said
    verdicts = [(wrong.text, verdict) for wrong, verdict in judge(folder)]
    assert len(verdicts) == len(kept) // 2
    assert {verdict for _, verdict in verdicts} <= {
        "different",
        "equal",
        "not verified",
        "crash or timeout",
    }
    assert all(" without " in text for text, _ in verdicts)
